"""What every target in C tells of its model: sizes, what can be read after a run, where it reads less than Python."""

from collections.abc import Iterator, Mapping

from scare.calibrator.plan import run
from scare.export.c_source import CModel, print_golden
from scare.export.compiled import Compiled
from scare.export.descriptor import as_read
from scare.export.scare_json import Kept
from scare.export.target_contract import Artefact

GOLDEN_HEADER = "golden.h"
GOLDEN_WINDOWS, GOLDEN_NUMBERS = 16, 1 << 15  # at most, but one window always
NUMPY = {"float": "float32"}  # kinds of C that are not called as in NumPy, and `_t`


def c_artefact(
    compiled: Compiled, model: CModel, files: Mapping[str, str | bytes], source: str, runtime: str, beside: str = ""
) -> Artefact:
    """Files in C, of which one is the model's `source`; `runtime` and `beside` are folders."""
    return Artefact(
        files,
        source,
        model.name,
        sizes := _sizes(model),
        (_summary(sizes),),
        compiled.compute,
        compiled.golden,
        beside,
        runtime,
        dict(_kept(model)),
        tuple(_limits(compiled)),
    )


def golden_header(compiled: Compiled, model: CModel) -> str:
    """The first golden windows, and their scaled results, as C."""
    plan = compiled.plan
    most = max(1, GOLDEN_NUMBERS // (plan.window * plan.channels))
    windows = compiled.calibrator.golden.windows[: min(GOLDEN_WINDOWS, most)]
    return print_golden(model, as_read(windows, model.program.quanta), run(plan, windows))


def _sizes(model: CModel) -> dict[str, int]:
    return {
        "ram_bytes": model.memory_bytes,
        "window_bytes": model.window_bytes,
        "scratch_bytes": model.scratch_bytes,
        "constant_bytes": model.table_bytes,
    }


def _summary(sizes: Mapping[str, int]) -> str:
    return (
        f"RAM {sizes['ram_bytes']:,} bytes (window {sizes['window_bytes']:,}, scratch {sizes['scratch_bytes']:,}),"
        f" constants {sizes['constant_bytes']:,} bytes"
    )


def _kept(model: CModel) -> Iterator[tuple[str, Kept]]:
    for name, value in model.values.values():
        if value.kept:
            kind = NUMPY.get(value.kind, value.kind.removesuffix("_t"))
            yield name, Kept(model.layout.places[value.name].offset, kind, value.shape)


def _limits(compiled: Compiled) -> Iterator[str]:
    """Where an integer window ends before the channel does."""
    for channel, read in zip(compiled.calibrator.inputs.channels, compiled.descriptor.channels, strict=True):
        low, high = read.valid
        if read.quantum and (low > channel.low or high < channel.high):
            yield f"int8 reads {channel.name} from {low:.4g} to {high:.4g}; a reading beyond gives no value"
