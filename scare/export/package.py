"""Write an export: the files of a target, golden vectors, and a description in `scare.json`.

    Calibrator -> compile_for_target -> Compiled -> write_package -> a folder or a zip, complete or not at all

Errors are raised before anything is written.
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
from scare.export.c_package import GOLDEN_HEADER, learner_files
from scare.export.c_source import SETTLES, licence, runtime_sources
from scare.export.lowering import Compiled, compile_calibrator
from scare.export.scare_json import GOLDEN, SCARE_JSON, Description, describe_channels, describe_target, reference_rmse
from scare.export.target import Artefact, Target
from scare.export.targets import find_target
from scare.files import replacing, temporary_path

ZIP, LICENCE = ".zip", "LICENSE"
SETTLING = f"{SETTLES}1"  # this line of scare.h in the export of a model that settles
READABLE = 0o100644 << 16  # external attributes of a zip entry: a regular file, mode 644


@dataclass(frozen=True)
class Package:
    """A written export: its target, the folder or zip, the compiled calibrator and the files."""

    target: Target
    folder: Path
    compiled: Compiled
    artefact: Artefact

    @property
    def is_single(self) -> bool:
        """Whether the target's single file was written alone."""
        return self.folder.is_file() and self.folder.suffix.lower() == self.target.single

    def validation_rmse(self) -> dict[str, float]:
        """Return the RMSE to the reference on the file's validation windows, in float32 and as exported."""
        calibrator = self.compiled.calibrator
        windows = calibrator.validation.windows
        exported = self.target.arithmetic_name(self.compiled.arithmetic)
        functions = {"float32": self.compiled.compute_in_float32, exported: self.artefact.compute}
        return {name: reference_rmse(calibrator, compute(windows)) for name, compute in functions.items()}


def export_calibrator(
    calibrator: Calibrator,
    target: str,
    arithmetic: str,
    folder: Path,
    device: str = "",
    name: str = "model",
    force: bool = False,
) -> Package:
    """Export a calibrator into a folder, or into a zip if `folder` ends in .zip.

    The folder must be new or empty; with `force`, files of the same names are replaced.
    """
    chosen = find_target(target)
    compiled = compile_for_target(calibrator, chosen, arithmetic, folder, device, name, force)
    return write_package(chosen, compiled, folder)


def compile_for_target(
    calibrator: Calibrator, target: Target, arithmetic: str, folder: Path, device: str, name: str, force: bool
) -> Compiled:
    """Compile a calibrator, after checking the name, the output folder and the arithmetic."""
    target.check_name(name)
    check_output(folder, force, target.single)
    compiled = compile_calibrator(calibrator, arithmetic, device, name)
    if compiled.arithmetic in target.refuses:
        raise NotApplicableError(target.refuses[compiled.arithmetic])
    return compiled


def check_output(out: Path, force: bool, single: str = "") -> None:
    """Raise `UsageError` for a folder that is not empty, or a zip or `single` file that exists, unless `force`."""
    if _is_file(out, ZIP) or _is_file(out, single):
        if not force and out.exists():
            raise UsageError(f"{out} exists already; give another name, or --force to replace it")
        return
    if out.exists() and not out.is_dir():
        raise UsageError(f"cannot write into {out}: it is a file")
    if not force and out.is_dir() and any(out.iterdir()):
        raise UsageError(f"{out} is not empty; give another folder, or --force to replace its files of these names")


def write_package(
    target: Target, compiled: Compiled, folder: Path, learn: bool = False, key: bytes | None = None
) -> Package:
    """Write the files of a target, golden vectors, `scare.json` and the licence; with `learn` the on-board learner.

    `key` signs the target's single file. If `folder` has that file's suffix, it is written alone.
    """
    artefact = target.make(compiled)
    if target.single:
        alone = f"{compiled.name}{target.single}"
        content = artefact.files[alone]
        assert isinstance(content, bytes)
        if key and target.sign:
            content = target.sign(content, key)
            artefact = replace(artefact, files={**artefact.files, alone: content})
        if _is_file(folder, target.single):
            with replacing(folder) as temporary:
                temporary.write_bytes(content)
            return Package(target, folder, compiled, artefact)
    if learn:
        artefact = replace(artefact, files={**artefact.files, **learner_files(compiled, artefact)})
    header = f"{artefact.runtime}/scare.h"
    if header in artefact.files and (folder / header).is_file() and SETTLING in (folder / header).read_text("utf-8"):
        # It shares the folder, and so the runtime, with a model that settles.
        artefact = replace(artefact, files={**artefact.files, header: runtime_sources(settles=True)["scare.h"]})
    extras = f"{artefact.extras}/" if artefact.extras else ""
    files = {**artefact.files, f"{extras}{GOLDEN}": artefact.golden.as_bytes(artefact.name), LICENCE: licence()}
    description = replace(describe_export(target, compiled, artefact), sha256=_digests(files, artefact))
    write_files(folder, {**files, f"{extras}{SCARE_JSON}": description.as_text()})
    return Package(target, folder, compiled, artefact)


def describe_export(target: Target, compiled: Compiled, artefact: Artefact) -> Description:
    """Make the content of `scare.json`, without digests."""
    calibrator = compiled.calibrator
    up = _path_to_root(artefact)
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
        fixed_point=compiled.fixed_point_error if target.in_c else None,
    )


def write_files(out: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files, given by path, into a folder or, if `out` ends in .zip, into a zip.

    A zip holds one folder of its own name; the same content always gives the same bytes.
    """
    if not _is_file(out, ZIP):
        _write_folder(out, files)
        return
    with replacing(out) as temporary, ZipFile(temporary, "w") as archive:
        for path, content in sorted(files.items()):
            entry = ZipInfo(f"{out.stem}/{path}")
            entry.compress_type = ZIP_DEFLATED
            entry.external_attr = READABLE
            archive.writestr(entry, content)


def _is_file(out: Path, suffix: str) -> bool:
    """Whether to write a file, such as a zip: the name ends in this suffix, and is not that of a folder."""
    return bool(suffix) and out.suffix.lower() == suffix and not out.is_dir()


def _write_folder(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write to a temporary folder, then move it into place; if the folder exists, move file by file."""
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


def _digests(files: Mapping[str, str | bytes], artefact: Artefact) -> dict[str, str]:
    """Return SHA-256 of the files that `scare verify` runs and of golden vectors, by path relative to `scare.json`."""
    run_folders = {PurePosixPath(artefact.model).parent}
    if artefact.runtime:
        run_folders.add(PurePosixPath(artefact.runtime))
    up = _path_to_root(artefact)
    digests = {}
    for path in sorted(map(PurePosixPath, files)):
        is_run = path.suffix != ".md" and not run_folders.isdisjoint(path.parents)
        if is_run or path.name == GOLDEN:
            content = files[str(path)]
            digests[f"{up}{path}"] = sha256(content.encode() if isinstance(content, str) else content).hexdigest()
    return digests


def _path_to_root(artefact: Artefact) -> str:
    """Return the relative path from the folder of `scare.json` to the root of the export, such as ../../."""
    return "../" * len(PurePosixPath(artefact.extras).parts)
