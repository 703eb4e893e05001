"""The exported folder: it compiles by itself, says what it is, comes out the same again, or not at all."""

import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

import scare
from scare.board.boards import board
from scare.board.build import HERE, STANDARD, STRICT, BuildError, compile_c, read_export
from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.corrections import CORRECTIONS, bind
from scare.calibrator.parity_tolerance import TIE, coded_steps, nearest_to_tie, outputs_and_codes
from scare.calibrator.plan import run
from scare.errors import DataError, NotApplicableError, UsageError
from scare.export.c_source import blob_sources, learning_sources, lorawan_sources, runtime_sources
from scare.export.descriptor import encode_windows
from scare.export.lowering import compile_calibrator
from scare.export.package import Package, export_calibrator
from tests.calibrator.building import attention_plan, make_calibrator, newest_plan
from tests.export.building import RUNTIME, compile_models, compile_with_gcc, sources, strict_gcc

NETWORK = make_calibrator(attention_plan())
LINE = make_calibrator(newest_plan(6))


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Package:
    return export_calibrator(NETWORK, "c", "float32", tmp_path_factory.mktemp("package") / "out", "box-2")


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# what is in it


def test_the_files_are_these(package: Package) -> None:
    ours = {"model.c", "model.h", "golden.h", "golden.safetensors", "scare.json", "README.md", "LICENSE"}
    assert contents(package.folder).keys() == ours | {f"src/{name}" for name in runtime_sources()}


def test_the_runtime_is_all_there_under_names_of_its_own() -> None:
    files = [path.name for path in RUNTIME.rglob("*.[ch]*")]
    assert sorted(files) == sorted({**blob_sources(), **learning_sources(), **lorawan_sources()})


@pytest.mark.slow
@pytest.mark.parametrize("core", ["cortex-m0plus", "cortex-m3", "cortex-m4 -mfloat-abi=hard -mfpu=fpv4-sp-d16"])
def test_it_links_with_gcc_for_a_board(core: str, tmp_path: Path) -> None:
    c_export = read_export(export_calibrator(LINE, "c", "fixed", tmp_path / "out").folder)  # with all kernels
    flags = [
        "-mthumb",
        *f"-mcpu={core}".split(),
        *STANDARD,
        *STRICT,
        *c_export.defines,
        "--specs=nosys.specs",
        "-Wl,-u,sqrtf",
        "-lm",
    ]
    includes = [f"-I{folder}" for folder in c_export.includes]
    files = [c_export.source, *c_export.runtime, HERE / "main.c"]
    compile_with_gcc(files, tmp_path / "program.elf", *includes, *flags, compiler="arm-none-eabi-gcc")


def test_it_compiles_by_itself_without_a_warning(package: Package, tmp_path: Path) -> None:
    for source in sources(package.folder):
        strict_gcc([source], tmp_path / f"{source.stem}.o", "-c")


def test_its_example_compiles_and_calibrates(package: Package, tmp_path: Path) -> None:
    (example,) = re.findall(r"```c\n(.*?)```", (package.folder / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert 8 <= len([line for line in example.splitlines() if line]) <= 12
    prototypes = (
        "scare_status begin(void);\n"
        "scare_status calibrate(uint32_t now_ms, const float reading[MODEL_CHANNELS], scare_answer *answer);\n\n"
    )
    (tmp_path / "use.c").write_text(example.replace("static uint32_t", f"{prototypes}static uint32_t", 1))
    compile_c([tmp_path / "use.c"], tmp_path / "use.o", ["-c", *STRICT], [package.folder])


def test_the_page_tells_channels_sizes_and_statuses(package: Package) -> None:
    page = (package.folder / "README.md").read_text(encoding="utf-8")
    assert "| pm25 [ug/m3] | 0 | 1000 |\n| current [nA] | no limit | no limit |" in page
    assert "one reading every 60000 ms" in page
    assert f"| memory in all, given to `scare_init` | {package.compiled.c_model.memory_bytes} |" in page
    assert "| `SCARE_EARLY` | less than half a step after" in page
    assert "scaled for box-2, in float32" in page
    assert "$" not in page


@pytest.mark.parametrize("arithmetic", ["float32", "fixed"])
def test_a_budget_of_ram_is_kept_when_it_compiles(arithmetic: str, tmp_path: Path) -> None:
    """At the bytes that the README says, on a board; with one less it does not compile."""
    folder = export_calibrator(LINE, "c", arithmetic, tmp_path / "out").folder
    (ram,) = re.findall(r"\| RAM: .* \| (\d+) \|", (folder / "README.md").read_text("utf-8"))
    flags = (*board("nano33ble").flags, "-ffreestanding", "-c")
    compile_c([folder / "model.c"], tmp_path / "model.o", (*flags, f"-DSCARE_RAM_MAX={ram}"), [folder / "src"])
    less = f"-DSCARE_RAM_MAX={int(ram) - 1}"
    with pytest.raises(BuildError, match="model_needs_more_than_SCARE_RAM_MAX"):
        compile_c([folder / "model.c"], tmp_path / "model.o", (*flags, less), [folder / "src"])


@pytest.mark.parametrize("arithmetic", ["float32", "fixed"])
def test_golden_windows_give_their_results(arithmetic: str, tmp_path: Path) -> None:
    made = export_calibrator(LINE, "c", arithmetic, tmp_path / "out")
    compiled = compile_models({"model": made.folder}, tmp_path)["model"]
    results, tolerances = golden_numbers(made.folder)
    exact = made.compiled.plan if arithmetic == "fixed" else made.compiled.plan.astype(np.float64)
    assert_array_equal(results, run(exact, LINE.golden.windows).astype(np.float32))
    assert len(results) == len(tolerances) == 3
    windows = encode_windows(LINE.golden.windows, made.compiled.program.quanta)
    differences = np.abs([compiled.run(window) for window in windows] - results)
    assert (differences <= tolerances).all()
    assert (tolerances == 0).all() == (arithmetic == "fixed")
    assert tolerances.max() < 1e-4


def golden_numbers(folder: Path) -> list[np.ndarray]:
    """The results and the tolerances in golden.h."""
    parts = (folder / "golden.h").read_text(encoding="utf-8").split("static const ")[-2:]
    return [np.array([float.fromhex(one) for one in re.findall(r"[-x0-9a-fp.+]+(?=f,)", part)]) for part in parts]


def test_golden_windows_that_rounding_decides_are_left_out(tmp_path: Path) -> None:
    plan, (near, far) = NETWORK.plan, NETWORK.golden.windows[:2]
    steps = coded_steps(plan)
    for _ in range(40):  # between two windows with different codes is one where a code changes
        middle = (near + far) / 2
        codes = outputs_and_codes(plan, np.stack([near, middle]), steps)[1]
        near, far = (middle, far) if np.array_equal(*codes) else (near, middle)
    windows = np.concatenate([NETWORK.golden.windows, near[None]])
    assert (nearest_to_tie(plan, windows) < TIE).tolist() == [False, False, False, True]
    tied = replace(NETWORK, golden=Sample(windows, NETWORK.compute(windows)))
    export_calibrator(tied, "c", "float32", tmp_path / "out")
    assert len(golden_numbers(tmp_path / "out")[0]) == 3


def test_at_most_sixteen_golden_windows_are_written(tmp_path: Path) -> None:
    windows = np.zeros((40, 6, 2), np.float32)
    many = replace(LINE, golden=Sample(windows, LINE.compute(windows)))
    export_calibrator(many, "c", "float32", tmp_path / "out")
    assert "#define MODEL_GOLDEN 16\n" in (tmp_path / "out" / "golden.h").read_text()


def test_a_model_may_have_a_name(tmp_path: Path) -> None:
    export_calibrator(LINE, "c", "float32", tmp_path / "out", name="dust_2")
    assert (tmp_path / "out" / "dust_2.c").exists()
    assert "extern const scare_model dust_2;" in (tmp_path / "out" / "dust_2.h").read_text()


def test_the_scaling_is_the_devices(tmp_path: Path) -> None:
    for device, center in (("", "0x1.6p+4f"), ("box-1", "0x1.4p+4f"), ("box-2", "0x1.9p+4f")):
        package = export_calibrator(LINE, "c", "float32", tmp_path / f"out{device}", device)
        assert package.compiled.device == device
        assert f" {center}, 0x0p+0f," in (package.folder / "model.c").read_text()


def test_the_error_on_validation_windows_is_in_the_targets_unit() -> None:
    values = LINE.compute(LINE.validation.windows)
    expected = np.sqrt(np.mean((values - LINE.validation.numbers) ** 2))
    assert compile_calibrator(LINE, "float32").validation_rmse() == pytest.approx(expected, rel=1e-6)
    assert compile_calibrator(LINE, "fixed").validation_rmse() == pytest.approx(expected, rel=1e-2)
    correction = CORRECTIONS["barkjohn-2021"]
    bound = bind(correction, {role.name: role.channel for role in correction.roles}, 60.0)
    assert np.isnan(compile_calibrator(bound, "float32").validation_rmse())


# the same again


@pytest.mark.parametrize("arithmetic", ["float32", "fixed"])
def test_the_same_bundle_gives_the_same_bytes(arithmetic: str, tmp_path: Path) -> None:
    saved = LINE.save(tmp_path / "a.scare")
    export_calibrator(LINE, "c", arithmetic, tmp_path / "first", "box-1")
    export_calibrator(Calibrator.load(saved), "c", arithmetic, tmp_path / "elsewhere" / "second", "box-1")
    assert contents(tmp_path / "first") == contents(tmp_path / "elsewhere" / "second")


def test_the_library_has_the_packages_version() -> None:
    properties = (RUNTIME.parent / "library.properties").read_text(encoding="utf-8")
    assert f"\nversion={scare.__version__}\n" in properties


# not at all


@pytest.mark.parametrize(
    "name", ["2nd", "a-b", "", "float", "run", "scare_x", "uint8_t", "Model", "main", "golden", "stdint"]
)
def test_a_name_that_c_or_we_have_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot name a model"):
        export_calibrator(LINE, "c", "float32", tmp_path / "out", name=name)
    assert not any(tmp_path.iterdir())


def spoilt() -> list[tuple[Calibrator, dict[str, str], type[Exception], str]]:
    step = replace(LINE, inputs=replace(LINE.inputs, step_seconds=0.3333))
    broken = replace(LINE.plan.steps[1], weights={"weight": np.array([[np.inf], [1.0]], np.float32)})
    weights = replace(LINE, plan=replace(LINE.plan, steps=(LINE.plan.steps[0], broken)))
    return [
        (LINE, {"device": "box-9"}, UsageError, "no device called 'box-9'"),
        (LINE, {"arithmetic": "int4"}, UsageError, "no arithmetic is called 'int4'; use float32 or fixed"),
        (step, {}, DataError, "whole milliseconds"),
        (weights, {}, DataError, "only finite ones"),
        (NETWORK, {"arithmetic": "fixed"}, NotApplicableError, "float32 only"),
    ]


@pytest.mark.parametrize(("calibrator", "options", "kind", "reason"), spoilt())
def test_what_cannot_be_exported_leaves_nothing(
    calibrator: Calibrator, options: dict[str, str], kind: type[Exception], reason: str, tmp_path: Path
) -> None:
    arithmetic, device = options.get("arithmetic", "float32"), options.get("device", "")
    with pytest.raises(kind, match=reason):
        export_calibrator(calibrator, "c", arithmetic, tmp_path / "out", device)
    assert not any(tmp_path.iterdir())


def test_a_folder_that_is_not_empty_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "main.c").write_text("mine")
    with pytest.raises(UsageError, match="is not empty; give another folder, or --force"):
        export_calibrator(LINE, "c", "float32", tmp_path)
    assert contents(tmp_path) == {"main.c": b"mine"}


def test_force_replaces_what_is_ours_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    export_calibrator(NETWORK, "c", "float32", folder)
    (folder / "main.c").write_text("mine")
    (folder / "src" / "other.c").write_text("mine too")
    export_calibrator(LINE, "c", "float32", folder, force=True)
    export_calibrator(LINE, "c", "float32", tmp_path / "new")
    mine = {"main.c": b"mine", "src/other.c": b"mine too"}
    assert contents(folder) == {**contents(tmp_path / "new"), **mine}
    assert {path.name for path in tmp_path.iterdir()} == {"out", "new"}


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    export_calibrator(LINE, "c", "float32", tmp_path / "out")
    assert (tmp_path / "out" / "model.c").exists()


def test_the_current_folder_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    export_calibrator(LINE, "c", "float32", Path("."), force=True)
    assert (tmp_path / "model.c").exists()


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    for folder in (tmp_path / "out", tmp_path / "out" / "deeper"):
        with pytest.raises(UsageError, match="cannot write into"):
            export_calibrator(LINE, "c", "float32", folder, force=True)
    assert contents(tmp_path) == {"out": b"a file"}


def test_a_disk_that_fails_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, left = Path.write_bytes, iter(range(5))

    def full(path: Path, *arguments: object, **options: object) -> int:
        if next(left, None) is None:
            raise OSError(28, "No space left on device")
        return write(path, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UsageError, match="No space left on device"):
        export_calibrator(LINE, "c", "float32", tmp_path / "out")
    assert not any(tmp_path.iterdir())


def test_an_installed_package_brings_the_runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(RUNTIME, tmp_path / "runtime_src" / "src")
    monkeypatch.setattr("scare.export.c_source.INSTALLED", tmp_path / "runtime_src")
    monkeypatch.setattr("scare.export.c_source.IN_TREE", tmp_path / "nowhere")
    assert "scare.c" in runtime_sources()
    project = (RUNTIME.parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    assert '"runtime" = "scare/export/runtime_src"' in project
