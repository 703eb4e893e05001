"""Write what the registries of libraries ask for: one folder each, ready for a repository of its own.

    python packaging/make_libraries.py out/libraries

`scare` is an Arduino and PlatformIO library, an ESP-IDF component and a Zephyr module, with three examples; `esphome`
has the components and a package for each published correction.
"""

import shutil
import sys
from pathlib import Path
from string import Template

import scare
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.corrections import CORRECTIONS, Correction
from scare.cli.options import open_calibrator
from scare.export.c_package import ARDUINO, learner_files
from scare.export.esphome import input_keys
from scare.export.lowering import Arithmetic, compile_calibrator
from scare.export.package import export_calibrator

ROOT = Path(__file__).parents[1]
HERE = Path(__file__).parent
REPOSITORY = "github://OWNER/REPOSITORY"  # of the folder `esphome`; a publisher replaces it
PACKAGE = Template("""\
# $about (doi:$doi)
# Set these substitutions to ids of sensors: $ids. Made by scare $version.
substitutions:
  scare_name: Sensor
external_components:
  - source: $source
    components: [scare]
sensor:
  - platform: scare
    model: $name
    inputs:
$inputs
    calibrated:
      name: "$${scare_name} calibrated"
    raw:
      name: "$${scare_name} raw"
    flags:
      name: "$${scare_name} flags"
""")


def make_library(folder: Path) -> None:
    """Write the runtime as a library with its examples."""
    shutil.copytree(ROOT / "runtime", folder, ignore=shutil.ignore_patterns("README.md"))
    shutil.copy(HERE / "library" / "README.md", folder)
    correction, model = open_calibrator("barkjohn-2021"), train()
    _write_sketch(folder / "examples" / "PublishedCorrection", correction, Arithmetic.FLOAT32, "pm25")
    _write_sketch(folder / "examples" / "TrainedModel", model, Arithmetic.FIXED, "trained", simulated=True)
    _write_learner(folder / "examples" / "LearnOnBoard", model, "learning_model")


def train() -> Calibrator:
    """Train a small network on simulated readings."""
    boxes = scare.simulate(scare.Simulation(boxes=3, days=4, seed=1))
    split = scare.split_by_device(boxes)
    return scare.fit(split.train, split.validation, scare.Recipe.preset("default", window=30, steps=200))


def _write_sketch(
    folder: Path, calibrator: Calibrator, arithmetic: Arithmetic, name: str, simulated: bool = False
) -> None:
    """Write the example of an Arduino export as a sketch with its own model, which includes this library's runtime."""
    compiled = compile_calibrator(calibrator, arithmetic, "", name)
    files = ARDUINO.make(compiled).files
    text = str(files["examples/Calibrate/Calibrate.ino"])
    text = text.replace(f"#include <{name}.h>", f'#include <scare.h>\n\n#include "{name}.h"')
    text = text.replace(f"#include <{name}_simulated.h>", f'#include "{name}_simulated.h"')
    text = text.replace("// #define SIMULATED", "#define SIMULATED") if simulated else text
    folder.mkdir(parents=True)
    (folder / f"{folder.name}.ino").write_text(text, encoding="utf-8")
    (folder / "pms5003.h").write_text(str(files["examples/Calibrate/pms5003.h"]), encoding="utf-8")
    for part in (f"{name}.c", f"{name}.h", f"{name}_simulated.h"):
        (folder / part).write_text(str(files[f"src/{part}"]), encoding="utf-8")


def _write_learner(folder: Path, calibrator: Calibrator, name: str) -> None:
    """Write the sketch that learns, with its model and the settings of its learner."""
    compiled = compile_calibrator(calibrator, Arithmetic.FLOAT32, "", name)
    artefact = ARDUINO.make(compiled)
    files = {**artefact.files, **learner_files(compiled, artefact)}
    sketch = Template((HERE / "library" / "LearnOnBoard.ino").read_text(encoding="utf-8"))
    folder.mkdir(parents=True)
    (folder / "LearnOnBoard.ino").write_text(sketch.substitute(name=name, upper=name.upper()), encoding="utf-8")
    for part in (f"{name}.c", f"{name}.h", f"{name}_simulated.h", f"{name}_learning.c", f"{name}_learning.h"):
        (folder / part).write_text(str(files[f"src/{part}"]), encoding="utf-8")


def make_esphome(folder: Path, source: str = REPOSITORY) -> None:
    """Write the components of all published corrections, and for each a package that takes sensors by their ids."""
    rows = []
    for identity, correction in CORRECTIONS.items():
        name = identity.replace("-", "_").replace(".", "_")
        made = folder / ".made"
        export_calibrator(open_calibrator(identity), "esphome", Arithmetic.FLOAT32, made, name=name, force=True)
        text, ids = print_package(correction, name, source)
        (folder / "packages").mkdir(exist_ok=True)
        (folder / "packages" / f"{identity}.yaml").write_text(text, encoding="utf-8")
        rows.append(f"| `{identity}` | {correction.title} | {', '.join(f'`{one}`' for one in ids)} |")
    shutil.move(made / "components", folder / "components")
    shutil.move(made / "LICENSE", folder / "LICENSE")
    shutil.rmtree(made)
    page = Template((HERE / "esphome" / "README.md").read_text(encoding="utf-8"))
    (folder / "README.md").write_text(page.substitute(source=source, table="\n".join(rows)), encoding="utf-8")


def print_package(correction: Correction, name: str, source: str) -> tuple[str, list[str]]:
    """Return the package of a correction, and the substitutions that a node must set."""
    keys = input_keys([channel.name for channel in open_calibrator(correction.id).inputs.channels])
    ids = [f"scare_{key}" for key in keys]
    inputs = "\n".join(f"      {key}: ${{{one}}}" for key, one in zip(keys, ids, strict=True))
    text = PACKAGE.substitute(
        about=correction.title,
        doi=correction.doi,
        ids=", ".join(ids),
        version=scare.__version__,
        source=source,
        name=name,
        inputs=inputs,
    )
    return text, ids


if __name__ == "__main__":
    out = Path(sys.argv[1])
    make_library(out / "scare")
    make_esphome(out / "esphome")
