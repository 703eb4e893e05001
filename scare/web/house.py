"""The sessions of a folder, and a workshop for each that is open; all of it in one event loop."""

import asyncio

from scare.web.entering import Entrance
from scare.web.sessions import Sessions
from scare.web.workshop import Workshop


class House:
    """The sessions of a folder, and a workshop for each that is open."""

    def __init__(self, sessions: Sessions, entrance: Entrance, memory_bytes: int) -> None:
        self.sessions, self.entrance, self.memory_bytes = sessions, entrance, memory_bytes
        self._open: dict[str, Workshop] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self.closing = False

    def workshop(self, name: str) -> Workshop:
        """The workshop of a session."""
        self._loop = asyncio.get_running_loop()
        if name not in self._open:
            self._open[name] = Workshop(self.sessions.find(name), self.memory_bytes)
        return self._open[name]

    def has(self, workshop: Workshop) -> bool:
        """Whether a workshop is open, and stays so."""
        return not self.closing and self._open.get(workshop.session.id) is workshop

    async def delete(self, name: str) -> None:
        """End a session's jobs and remove its folder."""
        workshop = self.workshop(name)
        await workshop.jobs.close()
        self._open.pop(workshop.session.id, None)
        self.sessions.delete(workshop.session)

    def end(self) -> None:
        """End all jobs in order, from another thread."""
        self.closing = True
        if self._loop is not None:
            asyncio.run_coroutine_threadsafe(self._close(), self._loop).result()

    async def _close(self) -> None:
        await asyncio.gather(*(one.jobs.close() for one in self._open.values()))
