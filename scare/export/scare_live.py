"""Readings become windows by the rules of scare.c, and the few functions that models compute with.

Goes to the board beside a model, so it is written for MicroPython: `array` and `math` are all it needs.
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
LARGEST = 3.4e38
PAST_ROWS = 16  # in which a usual change is forgotten
CLOCK = 0xFFFFFFFF  # where a clock of 32 bits wraps around
LARGEST_EXPONENT = 88.0  # of which e to the power is a float of 32 bits


class Stream:
    """One sensor's calibration. A model is made of it: these numbers, and `run`, or three methods that it chooses from.

    The methods read scaled rows, oldest first, number after number.
    """

    window = 1  # rows that the model reads
    step_ms = 1  # from one reading to the next
    checked, needed, hold = 1, 1, 0  # of the newest `checked` rows, `needed` are real and none is repeated longer
    channels = ((0.0, 0.0, 0.0, 0.0, 1.0, -LARGEST, LARGEST, -LARGEST, LARGEST),)  # low, high, center, the rest of
    # center, 1 / scale; scaled: its clamp, and its training range
    absent = ()  # numbers that stand for "no reading"
    floor = -LARGEST  # no value is below it
    interval = ((LARGEST,), (nan, nan), (nan, nan), 1.0)  # edges between bands of values; distances below and above a
    # value of each; how much wider where a row is less sure
    whitening = array("f")  # a constant and a line of a lower triangle, each; none where training is not known
    limit = slow_limit = 0.0  # of squared distances to training, and of their slow mean
    rising, lowest, slope = (
        LARGEST,
        -LARGEST,
        0.0,
    )  # from this first number on none is lower; value per unit beyond the clamp
    stuck_rows, spike_share, spike_floors = 59, 0.5, (0.0,)  # alike, after the first; what a spike is made of
    simple_period, deep_period = 1, 1  # windows for which a choice of a branch holds

    def __init__(self, past: bool = False) -> None:
        """Where `past`, rows that are stuck or a spike are flagged too."""
        self._looks_back = past
        self.reset()

    def reset(self) -> None:
        """Forget all readings."""
        self._rows = zeros(self.window * len(self.channels))
        self._real = bytearray(self.checked)  # was each of the newest rows real?
        self._next = self._real_rows = self._unbroken = 0
        self._age = self.hold + 1  # rows since the last real one
        self._filled = self._timed = self._deep = False
        self._left = self._last_ms = 0
        self._slow = float(len(self.channels))  # mean of the squared distances to training
        most = PAST_ROWS * self.spike_share  # of a usual change, that is no spike
        self._past = [[nan, most / channel[4], 0] for channel in self.channels]  # last number, most, rows until stuck

    def push(self, now_ms: int, reading: "list[float]") -> "tuple[float, int]":
        """The calibrated value of a reading, NaN unless the status is `OK`, and the status; arguments as below."""
        value, _, _, _, status = self.calibrate(now_ms, reading)
        return value, status

    def calibrate(self, now_ms: int, reading: "list[float]") -> "tuple[float, float, float, int, int]":
        """The calibrated value of a reading, the ends of its interval, the row's flags, and the status.

        Numbers are NaN unless the status is `OK`. `reading` is a number for each channel; `now_ms` is any clock of
        milliseconds, which may wrap at 32 bits.
        """
        self._flags = 0
        value, status = self._push(now_ms, reading)
        low, high = self._surround(value) if status == OK else (nan, nan)
        return value, low, high, self._flags | REASONS[status], status

    def _push(self, now_ms: int, reading: "list[float]") -> "tuple[float, int]":
        if len(reading) != len(self.channels):
            raise ValueError("a reading has one number for each channel")
        if self._timed and self._goes_back(now_ms):
            self.reset()
            self._flags = RESTART
        rows = self._rows_since(now_ms) if self._timed else 1
        if rows == 0:
            return nan, EARLY
        self._last_ms, self._timed = now_ms, True
        numbers = array("f", reading)
        status = self._judge(numbers)
        if status != OK:
            self._hold(rows)
            return nan, status
        if rows > 1:
            self._hold(rows - 1)
        if self._looks_back:
            self._look_back(numbers)
        beyond = self._take(numbers)
        if self.whitening and self._is_outside(numbers):
            self._flags |= OUTSIDE
        if self._real_rows < self.needed or self._unbroken < self.checked:
            return nan, HISTORY
        value = self.compute(self._rows)
        if not isfinite(value):
            return nan, NOT_FINITE
        if numbers[0] >= self.rising:
            value = max(value, self.lowest)
        value += beyond * self.slope
        return (max(value, self.floor), OK) if isfinite(value) else (nan, NOT_FINITE)

    def compute(self, rows: "array[float]") -> float:
        """What the model gives for scaled rows, in the target's unit; NaN if that is not a number."""
        try:
            return array("f", (self.run(rows),))[0]
        except (OverflowError, ValueError, ZeroDivisionError):
            return nan

    def run(self, rows: "array[float]") -> float:
        """The result of the branch in use; a decision holds for a while."""
        if self._left == 0:
            self._deep = self.decide(rows) > 0.5
            self._left = self.deep_period if self._deep else self.simple_period
        self._left -= 1
        return self.deep(rows) if self._deep else self.simple(rows)

    def decide(self, rows: "array[float]") -> float:
        """Above a half: for the deep branch."""
        raise NotImplementedError

    def simple(self, rows: "array[float]") -> float:
        """The result of one branch."""
        raise NotImplementedError

    def deep(self, rows: "array[float]") -> float:
        """The result of the other."""
        raise NotImplementedError

    def _rows_since(self, now_ms: int) -> int:
        """Rows from the last reading to this one, halves rounded up; 0: too early."""
        elapsed = (now_ms - self._last_ms) & CLOCK
        return (elapsed + self.step_ms // 2) // self.step_ms if elapsed <= CLOCK // 2 else 0

    def _goes_back(self, now_ms: int) -> bool:
        """Whether a reading is more than a window before the last one: the clock was set."""
        behind = (self._last_ms - now_ms) & CLOCK
        return self.window * self.step_ms < behind <= CLOCK // 2 + 1

    def _judge(self, numbers: "array[float]") -> int:
        """Of several numbers that cannot be used the first decides."""
        for number, channel in zip(numbers, self.channels):  # noqa: B905 (MicroPython's zip is never strict)
            if not isfinite(number) or number in self.absent:
                return MISSING
            if not channel[0] <= number <= channel[1]:
                return RANGE
        return OK

    def _hold(self, rows: int) -> None:
        """Rows without a reading repeat the newest row."""
        if self._filled:
            self._shift(min(rows, self.window), self._rows[-len(self.channels) :])
        for _ in range(min(rows, self.checked)):
            self._mark(0)
        self._age = min(self._age + rows, self.hold + 1)
        self._unbroken = 0 if self._age > self.hold else min(self._unbroken + rows, self.checked)

    def _take(self, numbers: "array[float]") -> float:
        """Scale a reading as the window holds it; how far its first number lies beyond the clamp."""
        beyond = 0.0
        for index in range(len(numbers) - 1, -1, -1):
            _, _, center, rest, inverse, low, high, _, _ = self.channels[index]
            scaled = ((numbers[index] - center) - rest) * inverse
            numbers[index] = min(max(scaled, low), high)
            beyond = scaled - numbers[index]
        self._shift(1 if self._filled else self.window, numbers)
        self._filled = True
        self._mark(1)
        self._age = 0
        self._unbroken = min(self._unbroken + 1, self.checked)
        return beyond

    def _is_outside(self, row: "array[float]") -> bool:
        """Whether training had no such row: a number, all of them together, or that for about a window.

        The row is cut off at what training had.
        """
        distance, at, outside = 0.0, 0, False
        for line, (_, _, _, _, _, _, _, low, high) in enumerate(self.channels):
            total, cut = self.whitening[at], min(max(row[line], low), high)
            outside = outside or cut != row[line]
            row[line] = cut
            for index in range(line + 1):
                total += self.whitening[at + 1 + index] * row[index]
            distance += total * total
            at += line + 2
        self._slow += (distance - self._slow) / self.window
        return outside or distance > self.limit or self._slow > self.slow_limit

    def _look_back(self, numbers: "array[float]") -> None:
        """Flag a number that has not changed for long, and one that changed much more than usual."""
        for number, past, floor in zip(numbers, self._past, self.spike_floors):  # noqa: B905
            last, most, left = past
            change = abs(number - last)
            left = self.stuck_rows if change != 0.0 else left - 1
            self._flags |= (STUCK if left <= 0 else 0) | (SPIKE if change > most else 0)
            used = change if change < most else most
            past[:] = number, floor + most * (1.0 - 1.0 / PAST_ROWS) + used * self.spike_share, left

    def _surround(self, value: float) -> "tuple[float, float]":
        """The interval around a value."""
        edges, below, above, widening = self.interval
        band = sum(value >= edge for edge in edges)
        factor = widening if self._flags & LESS_SURE else 1.0
        return max(value - factor * below[band], self.floor), value + factor * above[band]

    def _shift(self, rows: int, newest: "array[float]") -> None:
        stored, count, width = self._rows, len(self._rows), len(newest)
        moved = count - rows * width
        for index in range(moved):
            stored[index] = stored[index + rows * width]
        for index in range(moved, count):
            stored[index] = newest[index % width]

    def _mark(self, real: int) -> None:
        self._real_rows += real - self._real[self._next]
        self._real[self._next] = real
        self._next = (self._next + 1) % self.checked


def zeros(count: int) -> "array[float]":
    """So many floats of 32 bits."""
    return array("f", bytes(4 * count))


def exp(number: float) -> float:
    """Infinite where Python would complain."""
    return _exp(number) if number < LARGEST_EXPONENT else inf


def sigmoid(number: float) -> float:
    """1 / (1 + exp(-number))."""
    small = exp(-abs(number))
    return (small if number < 0.0 else 1.0) / (1.0 + small)


def softmax(numbers: "array[float]", width: int) -> "array[float]":
    """Row by row of so many numbers."""
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
    """For each row of so many numbers the sum of all rows after it."""
    sums = zeros(len(numbers))
    for index in range(len(numbers) - width - 1, -1, -1):
        sums[index] = sums[index + width] + numbers[index + width]
    return sums


def lstm(
    numbers: "array[float]", given: "array[float]", kept: "array[float]", bias: "array[float]", size: int
) -> "array[float]":
    """The last state of a long short-term memory of so many units; gates i, f, g, o side by side in the weights."""
    state, memory, gates, inputs = zeros(size), zeros(size), zeros(4 * size), len(given) // (4 * size)
    for start in range(0, len(numbers), inputs):
        for gate in range(4 * size):
            total = bias[gate]
            for index in range(inputs):
                total += numbers[start + index] * given[4 * size * index + gate]
            for index in range(size):
                total += state[index] * kept[4 * size * index + gate]
            gates[gate] = tanh(total) if 2 * size <= gate < 3 * size else sigmoid(total)
        for unit in range(size):
            memory[unit] = gates[size + unit] * memory[unit] + gates[unit] * gates[2 * size + unit]
            state[unit] = gates[3 * size + unit] * tanh(memory[unit])
    return state
