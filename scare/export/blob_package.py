"""The target `blob`: a model as one file, and the fixed runtime that runs any such file, with examples.

    Compiled -> make_blob (blob.py) -> NAME.blob, and the same bytes in C beside the runtime -> Artefact

The folder is an Arduino library and an ESP-IDF component. With `--out NAME.blob` the file alone is written, which
updates a device that has the runtime.
"""

import struct
from dataclasses import replace

from scare.export.blob import inputs_checksum, make_blob, sign_blob
from scare.export.c_package import (
    EXTRAS,
    GOLDEN_HEADER,
    README,
    RUNTIME,
    c_artefact,
    golden_header,
    print_readme,
    template_fields,
)
from scare.export.c_source import CModel, blob_sources, escape_comment
from scare.export.lowering import Compiled
from scare.export.target import TEMPLATES, Artefact, Target, fill_template, fill_templates

SUFFIX = ".blob"
INTERPRETER_STACK = 72  # bytes beside those of the model in C
HEADER = """\
/* {title} */
#ifndef {upper}_H
#define {upper}_H

#include "scare_blob.h"

#define {upper}_WINDOW {window}
#define {upper}_CHANNELS {channels}
#define {upper}_STEP_MS {step_ms}u
#define {upper}_BYTES ({memory} + SCARE_PAST_BYTES({channels})) /* what scare_init takes for this model */
#define {upper}_STACK_BYTES {stack} /* of scare_calibrate, at most */
#define {upper}_DEEPEST ({upper}_STACK_BYTES > SCARE_BLOB_OPEN_STACK ? {upper}_STACK_BYTES : SCARE_BLOB_OPEN_STACK)
#define {upper}_RAM_BYTES ({upper}_BYTES + sizeof(scare) + sizeof(scare_blob) + {upper}_DEEPEST)
#define {upper}_INPUTS {inputs:#010x}u /* `inputs` of blobs for the same channels and target */

#ifdef SCARE_RAM_MAX /* a budget in bytes: a first model that needs more does not compile */
typedef char {name}_needs_more_than_SCARE_RAM_MAX[{upper}_RAM_BYTES <= SCARE_RAM_MAX ? 1 : -1];
#endif

#ifdef __cplusplus
extern "C" {{
#endif

extern const uint32_t {name}_content[{words}]; /* the file {name}.blob, unsigned, as a first model in the firmware */

#ifdef __cplusplus
}}
#endif

#endif
"""


def make(compiled: Compiled) -> Artefact:
    """Make the file, the runtime and the examples."""
    model = compiled.c_model
    content = make_blob(model)
    fields = {
        **template_fields(compiled, model),
        "blob_bytes": str(len(content)),
    }
    filled = fill_templates("blob", fields)
    extras = f"{EXTRAS}/{compiled.name}"
    sources = {
        f"{model.name}.h": _print_header(model, content),
        f"{model.name}.c": _print_source(model, content),
        f"{model.name}_simulated.h": fill_template(TEMPLATES / "simulated.h", fields),
        **blob_sources(),
    }
    files: dict[str, str | bytes] = {
        **filled,
        **{f"{RUNTIME}/{file}": text for file, text in sources.items()},
        README: print_readme(model, compiled.calibrator.target, filled[README].strip(), in_c=False),
        f"{extras}/{GOLDEN_HEADER}": golden_header(compiled, model),
        f"{compiled.name}{SUFFIX}": content,
    }
    made = c_artefact(compiled, model, files, f"{RUNTIME}/{model.name}.c", RUNTIME, extras)
    summary = (f"{compiled.name}{SUFFIX}: {len(content):,} bytes", *made.summary)
    return replace(made, sizes={**made.sizes, "blob_bytes": len(content)}, summary=summary)


def _print_header(model: CModel, content: bytes) -> str:
    return HEADER.format(
        title=escape_comment(model.title),
        name=model.name,
        upper=model.name.upper(),
        window=model.program.window,
        channels=model.program.channels,
        step_ms=model.descriptor.step_ms,
        memory=model.memory_bytes,
        stack=model.stack_bytes + INTERPRETER_STACK,
        inputs=inputs_checksum(model),
        words=len(content) // 4,
    )


def _print_source(model: CModel, content: bytes) -> str:
    """Print the file as words, which a compiler puts on a word boundary."""
    words = [f"0x{word:08x}," for word in struct.unpack(f"<{len(content) // 4}I", content)]
    lines = ("    " + " ".join(words[start : start + 9]) for start in range(0, len(words), 9))  # 9 fit in 120 columns
    return "\n".join(
        [f'#include "{model.name}.h"', "", f"const uint32_t {model.name}_content[] = {{", *lines, "};", ""]
    )


BLOB = Target(
    "blob",
    "Write one signed file that firmware with our runtime loads, and that runtime with examples.",
    (
        "pm.scare --arithmetic fixed --out firmware",
        "pm.scare --arithmetic fixed --key owner.pem --out pm.blob",
        "barkjohn-2021 --key owner.pem --out pm25.blob",
    ),
    make,
    runner="c",
    in_c=True,
    single=SUFFIX,
    sign=sign_blob,
)
