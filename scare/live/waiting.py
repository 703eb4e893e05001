"""The waiting room: readings between the sources and the one who works, never more than there is room for."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Condition
from time import monotonic

from scare.live.border import Reading
from scare.live.reader import Done


@dataclass(frozen=True, slots=True)
class Arrival:
    """Readings that came together, and what acknowledges them; a `partial` one is numbers of a row to be assembled."""

    readings: Sequence[Reading]
    done: Done = lambda: None
    partial: bool = False
    at: float = field(default_factory=monotonic)


class WaitingRoom:
    """Arrivals in their order, of `seats` readings together; one of more than that sits alone.

    >>> room = WaitingRoom(2)
    >>> [room.put(Arrival([Reading("a", 0.0, {})] * size)) for size in (1, 2, 1, 1)]
    [True, False, True, False]
    >>> [len(one.readings) for one in room.take(10, wait=0)], room.put(Arrival([Reading("a", 0.0, {})] * 5))
    ([1, 1], True)
    """

    def __init__(self, seats: int) -> None:
        self._seats, self.taken = seats, 0
        self._arrivals: deque[Arrival] = deque()
        self._changed = Condition()

    def put(self, arrival: Arrival, wait: float | None = 0.0) -> bool:
        """Let readings in; False if there is no room within `wait` seconds (None: for ever)."""
        size = len(arrival.readings)
        with self._changed:
            if not self._changed.wait_for(lambda: not self.taken or self.taken + size <= self._seats, wait):
                return False
            self._arrivals.append(arrival)
            self.taken += size
            self._changed.notify_all()
        return True

    def take(self, most: int, wait: float) -> list[Arrival]:
        """Those who came first, of about `most` readings, after at most `wait` seconds for the first."""
        with self._changed:
            self._changed.wait_for(lambda: self._arrivals, wait)
            found: list[Arrival] = []
            left = self.taken - most
            while self._arrivals and self.taken > left:
                found.append(self._arrivals.popleft())
                self.taken -= len(found[-1].readings)
            self._changed.notify_all()
        return found
