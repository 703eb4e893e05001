"""MicroPython runtime: the state of a stream as bytes, to go on with after deep sleep or a loss of power.

`scare export micropython` copies it beside `scare_live.py`; only a program that imports it needs it. The rules are
those of `scare_store` and `scare_restore` in scare.h; the bytes are others, and never rounded.
"""

from array import array
from binascii import crc32

from scare.export.micropython_runtime.scare_live import CLOCK, OK, Stream

DAMAGED, FOREIGN = 8, 9  # statuses: the bytes are damaged or cut short; they are of another model or version
MARK = b"SCp1"
HEAD = len(MARK) + 4 * 9  # bytes of the mark and nine words
TIMED, FILLED, DEEP = 1, 2, 4  # bits of one of these words: what is true of the stream


def store(stream: Stream, clock_ms: int) -> bytes:
    """Make the bytes of a stream's state.

    `clock_ms` is the present time of the clock that `calibrate` gets. It must count on while the board is off, and must
    not wrap.
    """
    # The time of the last reading on the longer clock, from the difference of 32-bit clocks, which is signed.
    since = (clock_ms - stream._last_ms) & CLOCK
    last_ms = clock_ms - (since if since <= CLOCK // 2 else since - CLOCK - 1)
    settled, pairs, readings = _settling(stream)
    flags = TIMED * stream._timed + FILLED * stream._filled + DEEP * stream._deep
    head = [stream.identity, last_ms & CLOCK, last_ms >> 32, flags, stream._age, stream._unbroken, stream._next]
    doubles = [stream._slow]
    for numbers in stream._past + pairs:  # three of each channel, then two of each that moves
        doubles.extend(numbers)
    content = MARK + bytes(array("I", head + [stream._left, settled])) + bytes(array("d", doubles))  # noqa: RUF005
    content += bytes(stream._real) + bytes(stream._rows) + bytes(readings)
    return content + _checksum(content)


def restore(stream: Stream, clock_ms: int, blob: bytes) -> int:
    """Go on with stored bytes; returns `OK`, or `DAMAGED` or `FOREIGN` without changing the stream.

    If `clock_ms` is more than 2³¹ ms (24 days) from the last reading, only what settling has found is restored.
    """
    _, pairs, readings = _settling(stream)
    content, channels, moving = blob[:-4], len(stream.channels), len(pairs)
    if len(blob) < HEAD + 4 or blob[-4:] != _checksum(content):
        return DAMAGED
    identity, ms_low, ms_high, flags, age, unbroken, place, left, settled = array("I", content[len(MARK) : HEAD])
    if content[: len(MARK)] != MARK or identity != stream.identity:
        return FOREIGN
    begin, parts = HEAD, []
    # How many bytes the doubles take, the checked rows (one each), and the floats of the window and of the readings.
    for size in (8 * (1 + 3 * channels + 2 * moving), stream.checked, 4 * len(stream._rows), 4 * len(readings)):
        parts.append(content[begin : begin + size])
        begin += size
    double_bytes, real, rows, stored_readings = parts
    # The slow mean of distances, three numbers of each channel's past, and two of each sum or center of settling.
    doubles = list(array("d", double_bytes))
    stream._slow = doubles[0]
    for index, past in enumerate(stream._past):
        last, largest, rows_left = doubles[1 + 3 * index : 4 + 3 * index]
        past[:] = last, largest, int(rows_left)
    if moving:
        first = 1 + 3 * channels  # of the doubles of settling
        stream.settled, stream._readings = settled, array("f", stored_readings)  # type: ignore[attr-defined]
        stream.pairs = list(zip(doubles[first::2], doubles[first + 1 :: 2]))  # type: ignore[attr-defined]  # noqa: B905
        stream.channels = type(stream).channels  # the fleet's; the next reading puts the device's centers in
    stream._real = bytearray(real)
    stream._rows = array("f", rows)
    stream._real_rows, stream._next, stream._age, stream._unbroken = sum(stream._real), place, age, unbroken
    stream._left, stream._last_ms = left, ms_low  # the 32 bits of the clock that `calibrate` gets
    stream._timed, stream._filled, stream._deep = flags & TIMED > 0, flags & FILLED > 0, flags & DEEP > 0
    if abs(clock_ms - (ms_high << 32 | ms_low)) > CLOCK // 2:
        stream.reset()
    return OK


def _settling(stream: Stream) -> "tuple[int, list[tuple[float, float]], array[float]]":
    """Return how far a new device has settled, its sums or centers, and its readings; 0 and nothing if it does not."""
    return getattr(stream, "settled", 0), getattr(stream, "pairs", []), getattr(stream, "_readings", array("f"))


def _checksum(content: bytes) -> bytes:
    return bytes(array("I", (crc32(content),)))
