"""MicroPython runtime for a new device: its first readings settle its scaling, by the rules of scare.c.

`scare export micropython` copies it beside `scare_live.py` if the model is for a device that was not in training.
"""

from array import array

from scare.export.micropython_runtime.scare_live import OUTSIDE, Stream, zeros

UNSETTLED = 2048  # a bit of flags, as docs/flags.md has it


class SettlingStream(Stream):
    """A stream whose centers move towards the device's own means after its first `settle` readings.

    Sums are of differences to the fleet's center, in two parts (Knuth's two-sum), because a float32 alone would lose a
    thousandth over two days of readings.
    """

    settle = 1
    # Of each channel that moves: its index, and in two parts the weight of its sum of differences.
    moving = ((0, 1.0, 0.0),)

    def __init__(self, past: bool = False) -> None:
        """Begin without readings; with `past`, flag stuck readings and spikes, too."""
        # Readings so far, and of each moving channel a sum in two parts, later its center.
        self.settled, self.pairs = 0, [(0.0, 0.0)] * len(self.moving)
        self._flags = 0  # for a `compute` before the first reading, as `scare verify` calls it
        super().__init__(past)

    def reset(self) -> None:
        """Forget all readings, but neither the sums nor the centers that came from them."""
        super().reset()
        self._readings = zeros(self.window * len(self.moving))

    def compute(self, rows: "array[float]") -> float:
        """Like `Stream.compute`; flags a device that has not settled."""
        if self.settled < self.settle:
            self._flags |= UNSETTLED
        return super().compute(rows)

    def _hold(self, rows: int) -> None:
        super()._hold(rows)
        if self._filled and self.settled < self.settle:
            self._remember(rows, self._readings[len(self._readings) - len(self.moving) :])

    def _take(self, numbers: "array[float]") -> float:
        """Like `Stream._take`; first adds the reading to the sums, which become centers at reading number `settle`."""
        if self.settled < self.settle:
            reading = array("f", [numbers[channel] for channel, _, _ in self.moving])
            for index, (channel, _, _) in enumerate(self.moving):
                self.pairs[index] = add(self.pairs[index], numbers[channel] - self.channels[channel][2])
            self.settled += 1
            if self.settled == self.settle:
                self._move()
            else:
                self._remember(1 if self._filled else self.window, reading)
        elif self.channels is type(self).channels:  # `pairs` were restored
            self._use_centers()
        return super()._take(numbers)

    def _surround(self, value: float) -> "tuple[float, float]":
        flags = self._flags
        self._flags |= OUTSIDE if flags & UNSETTLED else 0  # for `_surround` only: both widen the interval
        low_and_high = super()._surround(value)
        self._flags = flags
        return low_and_high

    def _remember(self, rows: int, newest: "array[float]") -> None:
        """Append a reading of the channels that move, `rows` times, to `_readings`, which shift as the window does."""
        window, self._rows = self._rows, self._readings  # `_shift` shifts what `_rows` is
        self._shift(min(rows, self.window), newest)
        self._rows = window

    def _move(self) -> None:
        """Turn each sum in `pairs` into a center, center + weight · sum, and scale the window's rows with it.

        Center, weight and sum have two parts each: the number in float32, and the rest that float32 cuts off.
        """
        for index, (channel, weight, weight_rest) in enumerate(self.moving):
            _, _, center, center_rest, _, _, _, _, _ = self.channels[channel]  # the fields are listed in `Stream`
            # `settle` readings were summed as differences to `center`; differences to the exact center are less by
            # `center_rest` each.
            total, total_rest = add(self.pairs[index], -center_rest * self.settle)
            # The product of weight and sum, without that of the two rests, which is too small to matter.
            moved = add((center, center_rest), total * weight)
            self.pairs[index] = add(moved, total * weight_rest + total_rest * weight)
        self._use_centers()
        count = len(self.moving)
        for row in range(self.window if self._filled else 0):
            for index, (channel, _, _) in enumerate(self.moving):
                # Unpacked, and not sliced, because a slice takes memory for each row. `low` and `high` are the clamp's.
                _, _, center, center_rest, inverse, low, high, _, _ = self.channels[channel]
                scaled = ((self._readings[count * row + index] - center) - center_rest) * inverse
                self._rows[len(self.channels) * row + channel] = min(max(scaled, low), high)

    def _use_centers(self) -> None:
        """Put `pairs`, which are centers now, in place of the centers of moving channels."""
        channels = list(self.channels)
        for (channel, _, _), pair in zip(self.moving, self.pairs):  # noqa: B905 (MicroPython's zip is never strict)
            # Items 2 and 3 of a channel are its center and the rest of it.
            channels[channel] = channels[channel][:2] + tuple(pair) + channels[channel][4:]  # type: ignore[assignment]
        self.channels = tuple(channels)  # type: ignore[assignment]


def add(pair: "tuple[float, float]", number: float) -> "tuple[float, float]":
    """Add a number to a sum in two parts: the second one keeps what rounding cuts off the first."""
    high, low = pair
    total = high + number
    added = total - high  # the number, as far as the total has it
    return total, low + ((high - (total - added)) + (number - added))
