"""The board's page is made from what was measured, and the pages on export, blobs and boards are true."""

import re
import shlex
import tomllib
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from benchmarks import board as benchmark
from scare.board.boards import Board, boards
from scare.board.build import STRICT, compile_c
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.plan import Plan
from scare.cli.app import run
from scare.experiments.untrained import draw_method
from scare.export.c_package import statuses
from scare.export.lowering import compile_calibrator

ROOT = Path(__file__).parents[1]
PAGES = ("export.md", "board.md", "blob.md")
EXPORT, BOARD, BLOB = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in PAGES)


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def table(page: str, head: str) -> list[list[str]]:
    """The cells of the table whose head begins so."""
    (lines,) = re.findall(rf"^\| {re.escape(head)} .*\n\| --- .*\n((?:\|.*\n)+)", page, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines.splitlines()]


def test_the_page_says_what_was_measured() -> None:
    rows = benchmark.measure_all(["dlinear", "ecoformer"], [8])
    names = [(row["model"], row["arithmetic"]) for row in rows]
    assert names == [("dlinear", "float32"), ("dlinear", "fixed"), ("ecoformer", "float32")]
    lines = table(benchmark.print_page(rows), "model | N | arithmetic | instructions")
    for row, line in zip(rows, lines, strict=True):
        assert row["instructions"]["min"] == row["instructions"]["max"]
        assert line[:4] == [row["model"], "8", row["arithmetic"], f"{row['instructions']['max']:,}"]
        assert line[4] == f"{row['push_instructions']['row']:,}"
        assert line[7] == f"{row['ram_bytes']:,}"
        assert line[-1] == "yes"


def test_what_fixed_point_loses_is_measured_where_a_model_has_it(tmp_path: Path) -> None:
    for name in ("dlinear", "ecoformer"):
        calibrator = draw_method(name, 8).with_facts(model=name, preset="default")
        calibrator.save(tmp_path / f"{name}.scare")
    (loss,) = benchmark.measure_losses(tmp_path)
    saved = Calibrator.load(tmp_path / "dlinear.scare")
    before, after = (compile_calibrator(saved, one).validation_rmse() for one in ("float32", "fixed"))
    assert loss["rmse"] == {"float32": before, "fixed": after, "ratio": after / before}
    (line,) = table(benchmark.print_page([], [loss]), "model | N | channels")
    assert line[:4] == ["dlinear-default", "8", "1", "16"]
    assert abs(float(line[7])) <= 0.1 * float(line[8]) < 0.01
    assert line[9] == ""


def test_equal_hash_bits_are_a_share_of_all_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    calibrator = draw_method("scare-paper", 8)
    share = benchmark.equal_bits(calibrator)
    assert share is not None
    assert 0.95 < share <= 1
    exact = benchmark.values

    def one_bit_off(plan: Plan, windows: np.ndarray, wanted: set[str]) -> dict[str, np.ndarray]:
        codes = exact(compile_calibrator(calibrator, "float32").plan, windows, wanted)
        integer = plan.steps[0].kernel == "window_q"
        return {name: code ^ np.uint32(integer) for name, code in codes.items()}

    monkeypatch.setattr(benchmark, "values", one_bit_off)
    assert benchmark.equal_bits(calibrator) == 1 - 1 / 16


def test_the_page_compares_and_says_what_does_not_fit() -> None:
    def row(model: str, window: int, arithmetic: str, instructions: int) -> dict[str, object]:
        return {
            **{"model": model, "window": window, "arithmetic": arithmetic},
            "instructions": {"min": instructions - 1, "max": instructions},
            "push_instructions": {"row": 7},
            "cycles": {"typical": 2.0},
            "milliseconds": {"typical": 0.5},
            **{"ram_bytes": 3088, "stack_bytes": 8, "scratch_bytes": 4, "flash_bytes": 2 * window},
            **{"fits": window < 720, "reasons": ["needs much"] if window >= 720 else []},
        }

    rows = [
        row("scare-paper", n, kind, 10 * n + extra)
        for n in (360, 720)
        for kind, extra in (("float32", 0), ("fixed", 5))
    ]
    page = benchmark.print_page(rows)
    assert table(page, "N = 360")[3][:3] == ["ours: scare-paper, float32", "3,600 (168.1×)", "3,088 (10.0×)"]
    assert table(page, "model | arithmetic | N")[0] == ["scare-paper", "float32", "360 → 720", "10.0", "0.0", "2.0"]
    assert "- scare-paper, N = 360: instructions 3,605 for 3,600\n" in page
    every = table(page, "model | N | arithmetic | instructions")
    assert every[0][3] == "3,599 to 3,600"
    assert every[2][-1] == "no: needs much"
    assert page.count("Not measured.") == 4


def test_the_page_has_a_column_for_each_compiler_and_says_which_aims_are_reached() -> None:
    def row(compiler: str, channels: int, instructions: int) -> dict[str, object]:
        facts = {"instructions": {"max": instructions}, "ram_bytes": 1_900, "flash_bytes": 12_000}
        return {"model": "scare", "core": "nano33ble", "compiler": compiler, "channels": channels, **facts}

    page = benchmark.print_page([], [], [row("zig", 1, 20_000), row("gcc-Os", 1, 22_000), row("zig", 3, 27_000)])
    assert table(page, "model | board | core")[0][3:] == ["20,000", "22,000", "", ""]
    reached = [line[-3] for line in table(page, "model | channels | compiler")]
    assert reached == ["no", "yes", "yes"]


@pytest.mark.slow
def test_the_command_lines_of_the_pages_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = [
        line[2:] for page in (EXPORT, BOARD, BLOB) for block in blocks(page, "console") for line in block.splitlines()
    ]
    commands = [shlex.split(line)[1:] for line in lines if line.startswith("scare ")]
    assert len(commands) == 19
    for command in commands:
        assert run(command) == 0, command


def test_the_example_in_c_compiles_with_the_exported_folder(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    assert run(["export", "c", "barkjohn-2021", "--out", str(folder)]) == 0
    (example,) = blocks(EXPORT, "c")
    (folder / "example.c").write_text(
        '#include "scare.h"\nscare_status begin(void);\n'
        "scare_status calibrate(uint32_t, const float *, scare_answer *);\n" + example,
        encoding="utf-8",
    )
    compile_c([folder / "example.c"], tmp_path / "example.o", ("-c", *STRICT), [folder, folder / "src"])
    named = set(re.findall(r"^\| `(\S+)` \| ", EXPORT.split("## Statuses")[0], re.MULTILINE))
    assert {name.rstrip("/") for name in named} == {path.name for path in folder.iterdir()} - {"example.c"}


def test_the_example_with_two_slots_compiles_with_the_exported_folder(tmp_path: Path) -> None:
    folder = tmp_path / "firmware"
    assert run(["export", "blob", "barkjohn-2021", "--out", str(folder)]) == 0
    (example,) = blocks(BLOB, "c")
    (folder / "example.c").write_text(
        "#include <stddef.h>\n#include <stdint.h>\nuint32_t load_word(void);\nvoid save_word(uint32_t word);\n"
        + example,
        encoding="utf-8",
    )
    compile_c([folder / "example.c"], tmp_path / "example.o", ("-c", *STRICT), [folder / "src"])


def test_the_statuses_and_boards_are_those_of_the_code() -> None:
    assert dict(re.findall(r"^\| `(SCARE_\w+)` \| (.*) \|$", EXPORT, re.MULTILINE)) == statuses()
    assert re.findall(r"^\| `(\w+)` \| ", BOARD.split("## Boards")[1], re.MULTILINE) == list(boards())
    (example,) = blocks(BOARD, "toml")
    (facts,) = tomllib.loads(example).values()
    assert {"name", *facts} == {field.name for field in fields(Board)}
