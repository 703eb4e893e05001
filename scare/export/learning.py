"""What lets an exported model learn from a visit: the runtime's learner, and the rules for this model.

Only there where it is asked for; a model that does not learn is the same without it.
"""

from pathlib import PurePosixPath

from scare.errors import UsageError
from scare.export.c_source import print_number
from scare.export.compiled import Compiled
from scare.export.lowering import Arithmetic
from scare.export.runtime import learning_sources
from scare.export.target import Artefact
from scare.upkeep.learner_state import MOST, learner_settings
from scare.upkeep.update import identity

ARITHMETICS = {Arithmetic.FLOAT32: "scare_learn_f32", Arithmetic.FIXED: "scare_learn_s32"}
HEADER = """\
/* How {name} learns from a visit. Made by scare: do not edit. */
#ifndef {guard}
#define {guard}

#include "{runtime}scare_learn.h"

#ifdef __cplusplus
extern "C" {{
#endif

extern const scare_learning {name}_learning;

#ifdef __cplusplus
}}
#endif

#endif
"""
SOURCE = """\
/* How {name} learns from a visit. Made by scare: do not edit. */
#include "{name}_learning.h"

const scare_learning {name}_learning = {{
    .arithmetic = &{arithmetic},
    .numbers = {numbers},
    .memory_bits = {memory_bits},
    .round = {round},
    .identity = {identity:#010x}u,
    .prior = {{{prior}}},
}};
"""


def learning_files(compiled: Compiled, artefact: Artefact) -> dict[str, str]:
    """The files beside those of a target in C, by their paths."""
    if not artefact.runtime:
        raise UsageError("--learn is for targets in C")
    calibrator, model = compiled.calibrator, PurePosixPath(artefact.model)
    settings = learner_settings(calibrator.inputs)
    apart = str(model.parent) != artefact.runtime
    fields = {
        "name": model.stem,
        "guard": f"{model.stem.upper()}_LEARNING_H",
        "runtime": f"{artefact.runtime}/" if apart else "",
        "arithmetic": ARITHMETICS[compiled.arithmetic],
        "numbers": settings.numbers,
        "memory_bits": settings.memory_bits,
        "round": settings.round,
        "identity": identity(calibrator, compiled.device),
        "prior": ", ".join(map(print_number, [*settings.prior, *[0.0] * (MOST - settings.numbers)])),
    }
    return {
        str(model.with_name(f"{model.stem}_learning.h")): HEADER.format(**fields),
        str(model.with_name(f"{model.stem}_learning.c")): SOURCE.format(**fields),
        **{f"{artefact.runtime}/{file}": text for file, text in learning_sources().items()},
    }
