"""The C of docs/board.md and docs/sleep.md compiles without a warning and does what the pages say."""

import re
import sys
from pathlib import Path

import pytest

from scare.export.lowering import Arithmetic, compile_calibrator
from scare.export.package import write_package
from scare.export.targets import TARGETS
from tests.calibrator.building import curve_plan, make_calibrator, with_edges
from tests.export.building import sources
from tests.export.compilers import GNU, c, call

ROOT = Path(__file__).parents[2]
USE = Path(__file__).with_name("firmware.c")
STRICT = ("-pedantic", "-Wshadow", "-Wno-missing-prototypes")


def snippets(page: str) -> list[str]:
    return re.findall(r"^```c\n(.*?)^```$", (ROOT / "docs" / page).read_text("utf-8"), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("arithmetic", Arithmetic)
def test_they_do_what_the_pages_say(arithmetic: str, tmp_path: Path) -> None:
    compiled = compile_calibrator(with_edges(make_calibrator(curve_plan(12))), arithmetic, "box-1")
    folder = write_package(TARGETS["c"], compiled, tmp_path / "model", learn=True).folder
    board, sleep = snippets("board.md"), snippets("sleep.md")
    assert (len(board), len(sleep)) == (6, 2)
    prelude, *parts = USE.read_text("utf-8").split("/* --- */\n")
    threads, instances = board[1], board[2]
    written = [prelude, sleep[0], instances, board[0], threads, *board[3:], sleep[1], *parts]
    (tmp_path / "main.c").write_text("\n".join(written))
    sanitizer = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] if GNU and sys.platform == "linux" else []
    flags = [*c("c99"), *STRICT, *sanitizer, "-pthread", f"-I{folder}", f"-I{folder / 'src'}"]
    call([*flags, tmp_path / "main.c", *sources(folder), "-lm", "-o", "main"], tmp_path)
    assert call([tmp_path / "main"], tmp_path).splitlines() == ["as the pages say"]
