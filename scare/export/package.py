"""A package is what `scare export` writes: the files of a target, golden vectors, and what it is in `scare.json`.

Everything that can be wrong is found before anything is written.
"""

import shutil
from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path, PurePosixPath
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

import scare
from scare.calibrator.calibrator import Calibrator
from scare.errors import NotApplicableError, UsageError
from scare.export.c_package import ARDUINO as ARDUINO
from scare.export.c_package import GOLDEN_HEADER
from scare.export.c_package import PLATFORMIO as PLATFORMIO
from scare.export.c_package import ZEPHYR as ZEPHYR
from scare.export.c_package import C as C
from scare.export.compiled import Compiled, compile_calibrator
from scare.export.esphome import ESPHOME as ESPHOME
from scare.export.learning import learning_files
from scare.export.micropython import MICROPYTHON as MICROPYTHON
from scare.export.onnx import ONNX as ONNX
from scare.export.scare_json import GOLDEN, SCARE_JSON, Description, describe_channels, describe_target, reference_rmse
from scare.export.target import Artefact, Target
from scare.export.tflite import TFLITE as TFLITE
from scare.files import replacing, temporary_path
from scare.words import suggestion

# Files go where a user asked for them, whole or not at all: into a folder, or into one zip.


ZIP = ".zip"
READABLE = 0o100644 << 16  # a plain file that everyone may read, as a zip says it


def check_free(out: Path, force: bool) -> None:
    """Refuse a folder that is not empty, or a zip that is there, unless by `force`."""
    if _is_zip(out):
        if not force and out.exists():
            raise UsageError(f"{out} exists already; give another name, or --force to replace it")
        return
    if out.exists() and not out.is_dir():
        raise UsageError(f"cannot write into {out}: it is a file")
    if not force and out.is_dir() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty; give another folder, or --force to replace its files of these names")


def write_files(out: Path, files: Mapping[str, str | bytes]) -> None:
    """Write texts and bytes by path into a folder; or, where `out` ends in .zip, into a zip with one folder.

    That folder is named like the zip. The same content always gives the same bytes.
    """
    if _is_zip(out):
        _write_zip(out, files)
    else:
        _write_folder(out, files)


def _is_zip(out: Path) -> bool:
    return out.suffix.lower() == ZIP and not out.is_dir()


def _write_zip(out: Path, files: Mapping[str, str | bytes]) -> None:
    with replacing(out) as temporary, ZipFile(temporary, "w") as archive:
        for path, content in sorted(files.items()):
            entry = ZipInfo(f"{out.stem}/{path}")
            entry.compress_type, entry.external_attr = ZIP_DEFLATED, READABLE
            archive.writestr(entry, content)


def _write_folder(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write beside the folder first, then move: a new folder appears whole, files of an old one whole each."""
    temporary = temporary_path(folder)
    try:
        for path, content in files.items():
            (temporary / path).parent.mkdir(parents=True, exist_ok=True)
            (temporary / path).write_bytes(content.encode() if isinstance(content, str) else content)
        if not folder.exists():
            temporary.rename(folder)
            return
        for path in files:
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (temporary / path).replace(folder / path)
    except OSError as error:
        raise UsageError(f"cannot write into {folder}: {error.strerror or error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


# Targets: what a calibrator can be exported to, a file for each. A new one is listed here.


TARGETS: dict[str, Target] = {
    one.name: one for one in (C, ARDUINO, PLATFORMIO, ZEPHYR, ESPHOME, MICROPYTHON, TFLITE, ONNX)
}


def find_target(name: str) -> Target:
    """The target of this name; another name is refused with the nearest one."""
    if name not in TARGETS:
        raise UsageError(f"nothing is exported to '{name}'{suggestion(name, TARGETS)}")
    return TARGETS[name]


@dataclass(frozen=True)
class Package:
    """What was written: for which target, where to (a folder or a zip), of what, and the files."""

    target: Target
    folder: Path
    compiled: Compiled
    artefact: Artefact

    def validation_rmse(self) -> dict[str, float]:
        """To the reference on the file's validation windows: in float32, and as it was exported."""
        calibrator = self.compiled.calibrator
        windows = calibrator.validation.windows
        fixed = self.target.arithmetic_name(self.compiled.arithmetic)
        computed = {"float32": self.compiled.compute_in_float32, fixed: self.artefact.compute}
        return {name: reference_rmse(calibrator, compute(windows)) for name, compute in computed.items()}


def export_calibrator(
    calibrator: Calibrator,
    target: str,
    arithmetic: str,
    folder: Path,
    device: str = "",
    name: str = "model",
    force: bool = False,
) -> Package:
    """Write a calibrator for a target into a folder or, by a name in .zip, a zip.

    It is new, empty, or (by `force`) may have its files replaced.
    """
    chosen = find_target(target)
    return write_package(chosen, prepare(calibrator, chosen, arithmetic, folder, device, name, force), folder)


def prepare(
    calibrator: Calibrator, target: Target, arithmetic: str, folder: Path, device: str, name: str, force: bool
) -> Compiled:
    """The calibrator compiled, after all has been checked that its target and the folder can say beforehand."""
    target.check_name(name)
    check_free(folder, force)
    compiled = compile_calibrator(calibrator, arithmetic, device, name)
    if compiled.arithmetic in target.refuses:
        raise NotApplicableError(target.refuses[compiled.arithmetic])
    return compiled


def write_package(target: Target, compiled: Compiled, folder: Path, learn: bool = False) -> Package:
    """Write what a target makes of a compiled calibrator; by `learn` with what learns from a visit."""
    artefact = target.make(compiled)
    if learn:
        artefact = replace(artefact, files={**artefact.files, **learning_files(compiled, artefact)})
    beside = f"{artefact.beside}/" if artefact.beside else ""
    files = {**artefact.files, f"{beside}{GOLDEN}": artefact.golden.as_bytes(artefact.name)}
    description = replace(describe_export(target, compiled, artefact), sha256=_digests(files, artefact))
    write_files(folder, {**files, f"{beside}{SCARE_JSON}": description.as_text()})
    return Package(target, folder, compiled, artefact)


def _digests(files: Mapping[str, str | bytes], artefact: Artefact) -> dict[str, str]:
    """The SHA-256 of the model, of what lies beside it and of the runtime, by paths seen from `scare.json`."""
    homes, up = {PurePosixPath(artefact.model).parent}, "../" * len(Path(artefact.beside).parts)
    if artefact.runtime:
        homes.add(PurePosixPath(artefact.runtime))
    run = {path for path in map(PurePosixPath, files) if homes & {*path.parents} and path.suffix != ".md"}
    run |= {path for path in map(PurePosixPath, files) if path.name == GOLDEN}
    contents = {f"{path}": files[f"{path}"] for path in sorted(run)}
    return {
        f"{up}{path}": sha256(one.encode() if isinstance(one, str) else one).hexdigest()
        for path, one in contents.items()
    }


def describe_export(target: Target, compiled: Compiled, artefact: Artefact) -> Description:
    """What is written into `scare.json`."""
    calibrator = compiled.calibrator
    up = "../" * len(Path(artefact.beside).parts)
    return Description(
        scare=scare.__version__,
        target=target.name,
        arithmetic=target.arithmetic_name(compiled.arithmetic),
        name=artefact.name,
        device=compiled.device,
        window=calibrator.inputs.window,
        step_seconds=calibrator.inputs.step_seconds,
        channels=describe_channels(calibrator, compiled.device),
        calibrated=describe_target(calibrator),
        sizes=artefact.sizes,
        model=f"{up}{artefact.model}",
        golden=GOLDEN,
        golden_header=GOLDEN_HEADER if artefact.runtime else "",
        runtime=f"{up}{artefact.runtime}" if artefact.runtime else "",
        kept=artefact.kept,
        intervals=calibrator.intervals,
        training_range=calibrator.inputs.training_range,
        floor=calibrator.floor,
    )
