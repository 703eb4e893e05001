"""A folder as `scare export c` writes it, by hand: a dot product with 1, 2, 3, … over the window."""

import shutil
from pathlib import Path

from scare.export.scare_json import SCARE_JSON, Description, KeptValue, ScaledChannel
from scare.kernels.c_arguments import even

RUNTIME = Path(__file__).parents[2] / "runtime" / "src"

HEADER = """
#ifndef MODEL_H
#define MODEL_H
#include "src/scare.h"
#define MODEL_WINDOW {window}
#define MODEL_CHANNELS {channels}
#define MODEL_SCRATCH_BYTES 16
#define MODEL_BYTES {bytes} /* window, real bits, scratch */
#define MODEL_KEPT_CODES_OFFSET 8 /* in scratch after a run: uint32_t [2] */
#define MODEL_KEPT_CODES_BYTES 8
extern const scare_model model;
#endif
"""

SOURCE = """
#include "model.h"
static const scare_channel channels[] = {{ {channel} }};
static const {kind} weights[] = {{ {weights} }};
{statics}
static void run(const void *input, void *scratch, scare_choice *choice, float *scaled,
                const scare_model *self) {{
    const {kind} *window = input;
    uint32_t *memory = scratch;
    {total} sum = 0;
    (void)choice;
    (void)self;
    for (int i = 0; i < MODEL_WINDOW * MODEL_CHANNELS; i++) sum += ({total})(weights[i] * window[i]);
    memory[2] = (uint32_t)(window[0] > 0);
    memory[3] = 77u;
    {more}
    *scaled = (float)sum;
}}
const scare_model model = {{
    .window = MODEL_WINDOW, .channels = MODEL_CHANNELS, .step_ms = 60000, .checked = MODEL_WINDOW, .needed = 1,
    .hold = 3, .channel = channels, .absent = NULL, .absent_count = 0, .target_scale = 2.0f, .target_center = 1.0f,
    .stride = {stride}, .scratch_bytes = MODEL_SCRATCH_BYTES, .run = run,
}};
"""


def write_model(
    folder: Path, window: int = 60, channels: int = 1, integer: bool = False, statics: str = "", more: str = ""
) -> Path:
    size = 2 if integer else 4
    count = window * channels
    words = -(-count * size // 4) + -(-window // 32) + 4
    channel = f"{{-1e6f, 1e6f, 5.0f, 0.0f, 0.5f, {'100.0f' if integer else '0.0f'}}}"
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copytree(RUNTIME, folder / "src", dirs_exist_ok=True)
    (folder / "model.h").write_text(HEADER.format(window=window, channels=channels, bytes=4 * words))
    source = SOURCE.format(
        channel=", ".join([channel] * channels),
        weights=", ".join(str(i + 1) + ("" if integer else ".0f") for i in range(count)),
        kind="int16_t" if integer else "float",
        total="int32_t" if integer else "float",
        stride=even(window) if integer else 0,
        statics=statics,
        more=more,
    )
    (folder / "model.c").write_text(source)
    (folder / SCARE_JSON).write_text(description(window, channels).as_text())
    return folder


def description(window: int, channels: int) -> Description:
    channel = ScaledChannel("x", "", None, None, 5.0, 2.0)
    return Description(
        *("0", "c", "float32", "model", "", window, 60.0, (channel,) * channels, channel, {}),
        model="model.c",
        golden="golden.safetensors",
        runtime="src",
        kept={"codes": KeptValue(8, "uint32", (2,))},
    )
