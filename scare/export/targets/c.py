"""C99 by itself: the model, its golden vectors, and the runtime. It compiles with `cc -c *.c src/*.c`.

Also as part of an Arduino sketch.
"""

from scare.export.c_artefact import GOLDEN_HEADER, c_artefact, golden_header
from scare.export.c_source import print_header, print_source
from scare.export.compiled import Compiled
from scare.export.readme import print_readme
from scare.export.runtime import runtime_sources
from scare.export.target_contract import Artefact, Target

RUNTIME = "src"


def make(compiled: Compiled) -> Artefact:
    """The folder."""
    model = compiled.c_model
    files = {
        f"{model.name}.h": print_header(model),
        f"{model.name}.c": print_source(model),
        GOLDEN_HEADER: golden_header(compiled, model),
        "README.md": print_readme(model, compiled.calibrator.target),
        **{f"{RUNTIME}/{file}": text for file, text in runtime_sources().items()},
    }
    return c_artefact(compiled, model, files, f"{model.name}.c", RUNTIME)


TARGET = Target(
    "c",
    "Write C99 that calibrates one reading after the other, with the runtime it needs.",
    (
        "no2.scare --out no2",
        "no2.scare --arithmetic int8 --device box-3 --out no2",
        "barkjohn-2021 --step 120 --out pm25",
    ),
    make,
    runner="c",
    in_c=True,
)
