"""MicroPython runtime: readings become windows by the rules of scare.c; and functions that exported models call.

`scare export micropython` copies this file to the board with the model, so it imports only `array` and `math`.
"""

from array import array
from math import exp as _exp
from math import inf, isfinite, nan, tanh

OK, HISTORY, MISSING, RANGE, EARLY, NOT_FINITE = range(6)
MEANINGS = (
    "calibrated",
    "too few readings so far or since a gap",
    "a number of the reading is missing",
    "a number of the reading is outside its valid range",
    "too soon after the last reading",
    "the result is not a number",
)
RANGE_FLAG, STUCK, SPIKE, MISSING_FLAG, EARLY_FLAG = 1, 4, 8, 256, 512  # bits of flags, as docs/flags.md has them
HISTORY_FLAG, RESTART, OUTSIDE, NOT_FINITE_FLAG = 1024, 4096, 8192, 16384
REASONS = (0, HISTORY_FLAG, MISSING_FLAG, MISSING_FLAG | RANGE_FLAG, EARLY_FLAG, NOT_FINITE_FLAG)  # by status
LESS_SURE = SPIKE | OUTSIDE
LARGEST = 3.4e38  # limit that no float32 reading exceeds
PAST_ROWS = 16  # decay length of the usual change that a spike is compared with
CLOCK = 0xFFFFFFFF  # a 32-bit clock wraps around after it
LARGEST_EXPONENT = 88.0  # exp of more overflows float32


class Stream:
    """Calibration of one sensor; an exported model is a subclass with its own numbers and methods.

    It defines `run`, or, if it has branches, `decide`, `simple` and `deep`. They read scaled rows, oldest first, as one
    flat array.
    """

    identity = 0  # a checksum of the model: the state of another one is not restored
    window = 1  # rows that the model reads
    step_ms = 1  # from one reading to the next
    # Gap rule: of the newest `checked` rows, `needed` must be real, and none repeated for more than `hold` rows.
    checked, needed, hold = 1, 1, 0
    # Of each channel: valid low and high, center, rest of center, 1 / scale; scaled: clamp and training range.
    channels = ((0.0, 0.0, 0.0, 0.0, 1.0, -LARGEST, LARGEST, -LARGEST, LARGEST),)
    absent = ()  # readings that mean "missing"
    floor = -LARGEST  # no value is below it
    # Edges between bands of values; distances below and above a value of each band; factor where flags are LESS_SURE.
    interval = ((LARGEST,), (nan, nan), (nan, nan), 1.0)
    # Rows of a lower-triangular matrix, each after a constant; empty where the training range is not known.
    whitening = array("f")
    limit = slow_limit = 0.0  # of the squared Mahalanobis distance to training, and of its slow mean
    # Scaled channel 0 from which `lowest` applies; value per scaled unit of channel 0 beyond the clamp.
    rising, lowest, slope = LARGEST, -LARGEST, 0.0
    stuck_rows, spike_share, spike_floors = 59, 0.5, (0.0,)  # equal readings after the first; see `_look_back`
    simple_period, deep_period = 1, 1  # windows for which a choice of branch is kept

    def __init__(self, past: bool = False) -> None:
        """Begin without readings; with `past`, flag stuck readings and spikes, too."""
        self._looks_back = past
        self.reset()

    def reset(self) -> None:
        """Forget all readings."""
        self._rows = zeros(self.window * len(self.channels))
        self._real = bytearray(self.checked)  # 1 for each of the newest rows that is real
        self._next = self._real_rows = 0
        self._unbroken = 0  # rows since a gap longer than `hold`, at most `checked`
        self._age = self.hold + 1  # rows since the last real one
        self._filled = self._timed = self._deep = False
        self._left = self._last_ms = 0
        self._slow = float(len(self.channels))  # mean of the squared distances; in training the channels' number
        # Of each channel: last reading, largest change that is no spike, rows until it counts as stuck. At first a
        # usual change is one scale (the inverse of item 4), and a spike is more than this many usual changes.
        spike_factor = PAST_ROWS * self.spike_share
        self._past = [[nan, spike_factor / channel[4], 0] for channel in self.channels]

    def push(self, now_ms: int, reading: "list[float]") -> "tuple[float, int]":
        """Calibrate a reading as `calibrate`; return its value (NaN unless the status is `OK`) and status."""
        value, _, _, _, status = self.calibrate(now_ms, reading)
        return value, status

    def calibrate(self, now_ms: int, reading: "list[float]") -> "tuple[float, float, float, int, int]":
        """Calibrate a reading; return its value, low and high end of the interval, flags and status.

        The first three are NaN unless the status is `OK`. `reading` has a number for each channel; `now_ms` is any
        clock of milliseconds, which may wrap at 32 bits.
        """
        self._flags = 0
        value, status = self._push(now_ms, reading)
        low, high = self._surround(value) if status == OK else (nan, nan)
        return value, low, high, self._flags | REASONS[status], status

    def _push(self, now_ms: int, reading: "list[float]") -> "tuple[float, int]":
        """Take a reading into the window and calibrate it: value and status; sets bits of `_flags`.

        Without a usable reading the newest row of the window is repeated. The value is NaN unless the status is `OK`.
        """
        if len(reading) != len(self.channels):
            raise ValueError("a reading has one number for each channel")
        if self._timed and self._goes_back(now_ms):
            self.reset()
            self._flags = RESTART
        rows = self._rows_since(now_ms) if self._timed else 1  # steps from the last reading to this one
        if rows == 0:
            return nan, EARLY
        self._last_ms, self._timed = now_ms, True
        numbers = array("f", reading)
        status = self._judge(numbers)
        if status != OK:
            self._hold(rows)
            return nan, status
        if rows > 1:  # readings are missing before this one
            self._hold(rows - 1)
        if self._looks_back:
            self._look_back(numbers)
        cut_off = self._take(numbers)  # scales the numbers in place; what the clamp cuts off channel 0
        if self.whitening and self._is_outside(numbers):
            self._flags |= OUTSIDE
        if self._real_rows < self.needed or self._unbroken < self.checked:  # the gap rule
            return nan, HISTORY
        value = self.compute(self._rows)
        if not isfinite(value):
            return nan, NOT_FINITE
        if numbers[0] >= self.rising:  # from such a reading on, training saw no value below `lowest`
            value = max(value, self.lowest)
        value += cut_off * self.slope  # a straight line goes on where the clamp hides the rest from the model
        return (max(value, self.floor), OK) if isfinite(value) else (nan, NOT_FINITE)

    def outside(self, reading: "list[float]") -> "tuple[float, int]":
        """Which channel lies farthest beyond its range in training, and how far, as a multiple of that range.

        Returns the distance and the index of the channel; 0 and -1 if every channel is within its range.
        """
        farthest, which = 0.0, -1
        for index, (_, _, center, rest, inverse, _, _, low, high) in enumerate(self.channels):
            # The range in training, `low` to `high`, is scaled, too.
            scaled = ((reading[index] - center) - rest) * inverse
            distance = max(low - scaled, scaled - high)  # beyond training; negative within
            ranges = distance / (high - low if high > low else 1.0)  # a channel constant in training has no range
            if ranges > farthest:
                farthest, which = ranges, index
        return farthest, which

    def compute(self, rows: "array[float]") -> float:
        """Run the model on scaled rows: result in the target's unit, NaN if it is not finite or fails."""
        try:
            return array("f", (self.run(rows),))[0]  # rounded to float32, as in C
        except (OverflowError, ValueError, ZeroDivisionError):
            return nan

    def run(self, rows: "array[float]") -> float:
        """Run the simple or the deep branch; what `decide` chooses holds for that branch's period, in runs."""
        if self._left == 0:
            self._deep = self.decide(rows) > 0.5
            self._left = self.deep_period if self._deep else self.simple_period
        self._left -= 1
        return self.deep(rows) if self._deep else self.simple(rows)

    def decide(self, rows: "array[float]") -> float:
        """Decide on a branch: deep if the result is above 0.5."""
        raise NotImplementedError

    def simple(self, rows: "array[float]") -> float:
        """Run the simple branch."""
        raise NotImplementedError

    def deep(self, rows: "array[float]") -> float:
        """Run the deep branch."""
        raise NotImplementedError

    def _rows_since(self, now_ms: int) -> int:
        """Count rows from the last reading to this one, rounded half up; 0 if it is too early."""
        elapsed = (now_ms - self._last_ms) & CLOCK
        return (elapsed + self.step_ms // 2) // self.step_ms if elapsed <= CLOCK // 2 else 0

    def _goes_back(self, now_ms: int) -> bool:
        """Whether a reading is more than a window before the last one, because the clock was set back."""
        behind = (self._last_ms - now_ms) & CLOCK
        return self.window * self.step_ms < behind <= CLOCK // 2 + 1

    def _judge(self, numbers: "array[float]") -> int:
        """Return the status of a reading; the first channel that cannot be used decides."""
        for number, channel in zip(numbers, self.channels):  # noqa: B905 (MicroPython's zip is never strict)
            if not isfinite(number) or number in self.absent:
                return MISSING
            if not channel[0] <= number <= channel[1]:
                return RANGE
        return OK

    def _hold(self, rows: int) -> None:
        """Repeat the newest row for `rows` without a usable reading; after more than `hold` the history begins anew."""
        if self._filled:
            self._shift(min(rows, self.window), self._rows[-len(self.channels) :])
        for _ in range(min(rows, self.checked)):
            self._mark(0)  # not real
        self._age = min(self._age + rows, self.hold + 1)
        self._unbroken = 0 if self._age > self.hold else min(self._unbroken + rows, self.checked)

    def _take(self, numbers: "array[float]") -> float:
        """Scale and clamp a reading in place and append it; return what the clamp cut off channel 0."""
        cut_off = 0.0
        for index in range(len(numbers) - 1, -1, -1):
            _, _, center, rest, inverse, low, high, _, _ = self.channels[index]  # low, high: of the clamp
            scaled = ((numbers[index] - center) - rest) * inverse
            numbers[index] = min(max(scaled, low), high)
            cut_off = scaled - numbers[index]  # channel 0 comes last
        self._shift(1 if self._filled else self.window, numbers)
        self._filled = True
        self._mark(1)
        self._age = 0
        self._unbroken = min(self._unbroken + 1, self.checked)
        return cut_off

    def _is_outside(self, row: "array[float]") -> bool:
        """Whether a row is outside the training range; clips the row in place.

        It is outside if a channel is beyond its limits, or if the Mahalanobis distance of all channels, or the running
        mean of that distance, is too large.
        """
        # A row times the matrix `whitening` has uncorrelated numbers of variance 1: their squares sum to the distance.
        distance, begin, outside = 0.0, 0, False  # begin: of a row of `whitening`
        for channel, (_, _, _, _, _, _, _, low, high) in enumerate(self.channels):  # low, high: of training, scaled
            total, clipped = self.whitening[begin], min(max(row[channel], low), high)
            outside = outside or clipped != row[channel]
            row[channel] = clipped
            for index in range(channel + 1):
                total += self.whitening[begin + 1 + index] * row[index]
            distance += total * total
            begin += channel + 2  # a constant and one weight more than the row before
        self._slow += (distance - self._slow) / self.window
        return outside or distance > self.limit or self._slow > self.slow_limit

    def _look_back(self, numbers: "array[float]") -> None:
        """Flag a channel that has not changed for long (stuck) or changed much more than usual (spike).

        The largest change that is no spike is a multiple of the mean change, in which older changes count less.
        """
        for number, past, floor in zip(numbers, self._past, self.spike_floors):  # noqa: B905
            last, largest, rows_left = past
            change = abs(number - last)
            rows_left = self.stuck_rows if change != 0.0 else rows_left - 1
            self._flags |= (STUCK if rows_left <= 0 else 0) | (SPIKE if change > largest else 0)
            counted = change if change < largest else largest  # a spike must not make the next one usual; NaN neither
            # Each row the multiple decays, a share of the change is added, and a floor, so that it never becomes 0.
            largest = floor + largest * (1.0 - 1.0 / PAST_ROWS) + counted * self.spike_share
            past[:] = number, largest, rows_left

    def _surround(self, value: float) -> "tuple[float, float]":
        """Look up the prediction interval of a value."""
        edges, below, above, widening = self.interval
        band = sum(value >= edge for edge in edges)
        factor = widening if self._flags & LESS_SURE else 1.0
        # The value, and with it the high end, is not below the floor.
        return max(value - factor * below[band], self.floor), value + factor * above[band]

    def _shift(self, rows: int, newest: "array[float]") -> None:
        """Drop the oldest rows of the window, and append as many copies of `newest`."""
        stored, count, width = self._rows, len(self._rows), len(newest)
        moved = count - rows * width
        for index in range(moved):
            stored[index] = stored[index + rows * width]
        for index in range(moved, count):
            stored[index] = newest[index % width]

    def _mark(self, real: int) -> None:
        """Record whether the newest row is real (1) or repeated (0); this is known of the `checked` newest rows."""
        self._real_rows += real - self._real[self._next]
        self._real[self._next] = real
        self._next = (self._next + 1) % self.checked


def zeros(count: int) -> "array[float]":
    """Make an array of float32 zeros."""
    return array("f", bytes(4 * count))


def exp(number: float) -> float:
    """Like math.exp, but infinite where it would raise OverflowError."""
    return _exp(number) if number < LARGEST_EXPONENT else inf


def sigmoid(number: float) -> float:
    """Compute 1 / (1 + exp(-number)) without overflow."""
    small = exp(-abs(number))
    return (small if number < 0.0 else 1.0) / (1.0 + small)


def softmax(numbers: "array[float]", width: int) -> "array[float]":
    """Compute the softmax of each row of `width` numbers."""
    shares = zeros(len(numbers))
    for start in range(0, len(numbers), width):
        largest = max(numbers[start : start + width])
        total = 0.0
        for index in range(start, start + width):
            shares[index] = exp(numbers[index] - largest)
            total += shares[index]
        for index in range(start, start + width):
            shares[index] /= total
    return shares


def later_sum(numbers: "array[float]", width: int) -> "array[float]":
    """Return, for each row of `width` numbers, the sum of all rows after it."""
    sums = zeros(len(numbers))
    for index in range(len(numbers) - width - 1, -1, -1):
        sums[index] = sums[index + width] + numbers[index + width]
    return sums


def lstm(
    numbers: "array[float]", weights: "array[float]", recurrent: "array[float]", bias: "array[float]", size: int
) -> "array[float]":
    """Return the last hidden state [size] of an LSTM over rows of numbers [rows, inputs].

    `weights` [inputs, 4 size], `recurrent` [size, 4 size] and `bias` [4 size] hold the gates i, f, g, o side by side;
    all arrays are flat.
    """
    state, memory, gates, inputs = zeros(size), zeros(size), zeros(4 * size), len(weights) // (4 * size)
    for start in range(0, len(numbers), inputs):  # row by row
        for gate in range(4 * size):
            total = bias[gate]
            for index in range(inputs):
                total += numbers[start + index] * weights[4 * size * index + gate]
            for index in range(size):
                total += state[index] * recurrent[4 * size * index + gate]
            gates[gate] = tanh(total) if 2 * size <= gate < 3 * size else sigmoid(total)
        for unit in range(size):
            memory[unit] = gates[size + unit] * memory[unit] + gates[unit] * gates[2 * size + unit]
            state[unit] = gates[3 * size + unit] * tanh(memory[unit])
    return state
