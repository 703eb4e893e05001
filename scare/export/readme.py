"""The page in an exported folder: what the model reads, what it takes, how it is used."""

import re
from collections.abc import Sequence
from string import Template

import numpy as np

from scare.data.flags import LARGEST
from scare.data.readings import Channel
from scare.export.c_source import CModel
from scare.export.descriptor import InputChannel
from scare.export.naming import markdown
from scare.export.runtime import runtime_sources

PAGE = Template("""# $target, calibrated in C

$title

A reading is these numbers, in this order, one reading every $step_ms ms:

| number | from | to |
|---|---|---|
$channels

$use

## Memory

| | bytes |
|---|---|
| window | $window_bytes |
| scratch | $scratch_bytes |
| RAM in all, given to `scare_init` | $memory_bytes |
| constants, in flash | $table_bytes |
""")
IN_C = Template("""## Use

```c
#include "$name.h"

static uint32_t memory[SCARE_WORDS(${upper}_BYTES)];
static scare calibration;

scare_status begin(void) {
    return scare_init(&calibration, &$name, memory, sizeof memory);
}

scare_status calibrate(uint32_t now_ms, const float reading[${upper}_CHANNELS], scare_answer *answer) {
    return scare_calibrate(&calibration, now_ms, reading, answer);
}
```

Call `begin` once and `calibrate` for each reading. `now_ms` is any clock that counts milliseconds, such as Arduino's
`millis()`; it may wrap around. `answer->value` is in $unit, `low` and `high` are the ends of its interval (NaN if the
model has none); all are NaN unless the status is `SCARE_OK`. `answer->flags` are bits: `SCARE_FLAG_OUTSIDE` is of a
reading beyond what training had. `scare_push` gives the value alone.

| status | meaning |
|---|---|
$statuses
""")
PLAIN_C = """\
`cc -c *.c src/*.c` compiles everything (C99); the linker drops what is not used (on a computer, link with `-lm`). With
`-ffp-contract=off` every compiler gives the same bits. `golden.h` holds windows, and the results `run` must give."""


def print_readme(model: CModel, target: Channel, building: str = PLAIN_C, in_c: bool = True) -> str:
    """The page, in Markdown; `building` says how the folder is compiled, and also how it is used if not `in_c`."""
    return PAGE.substitute(
        title=markdown(model.title),
        target=markdown(target.name),
        use=f"{_print_use(model, target)}\n{building}" if in_c else building,
        step_ms=model.descriptor.step_ms,
        channels=channel_rows(model.labels, model.descriptor.channels),
        memory_bytes=model.memory_bytes,
        window_bytes=model.window_bytes,
        scratch_bytes=model.scratch_bytes,
        table_bytes=model.table_bytes,
    )


def _print_use(model: CModel, target: Channel) -> str:
    return IN_C.substitute(
        name=model.name,
        upper=model.name.upper(),
        unit=markdown(target.unit) or "the unit of the reference",
        statuses="\n".join(f"| `{status}` | {meaning} |" for status, meaning in statuses().items()),
    )


def channel_rows(labels: Sequence[str], channels: Sequence[InputChannel]) -> str:
    """What is read, and the valid range of each, as rows of a table."""
    pairs = zip(labels, channels, strict=True)
    return "\n".join(
        f"| {markdown(label)} | {_limit(channel.valid.low)} | {_limit(channel.valid.high)} |"
        for label, channel in pairs
    )


def _limit(number: float) -> str:
    """An end of a range; the largest numbers of all are none.

    >>> _limit(40.0), _limit(-1e30)
    ('40', 'no limit')
    """
    return f"{number:g}" if abs(number) < np.float32(LARGEST) else "no limit"


def statuses() -> dict[str, str]:
    """What each status means, as `scare.h` says it.

    >>> statuses()["SCARE_OK"]
    'there is a calibrated value'
    """
    return dict(re.findall(r"(SCARE_\w+) = \d+,?\s*/\* (.*?) \*/", runtime_sources()["scare.h"]))
