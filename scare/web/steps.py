"""The steps of the page as jobs: which commands each runs, in the session's folder.

Comes from a request of the page and the session's `Setup`; goes to `jobs`.
"""

from collections.abc import Callable, Mapping
from typing import Any

from scare.board.boards import board
from scare.data.times import Dates
from scare.errors import DataError, UsageError
from scare.export.lowering import Arithmetic, find_arithmetic
from scare.export.package import TARGETS
from scare.web.jobs import Command, Job
from scare.web.setup import FILES, Setup

PREVIEW = "scare.web.preview"
DRAFT, CONFIG, MODEL = "draft.toml", "config.toml", "model.scare"  # previewed; trained with; the result
AFTER_TRAINING = ("report", "measure", "export", "verify", "predict")  # made from a calibrator, outdated by a new one
DEFAULT_BOARD, EXAMPLE = "nano33ble", "example.csv"


def make_job(setup: Setup, name: str, request: Mapping[str, Any], find_file: Callable[[str], str]) -> Job:
    """Make the job that the page asks for; `find_file` gives the path of an uploaded file in the session's folder."""
    kind, _, argument = name.partition(":")
    arithmetic = find_arithmetic(str(request.get("arithmetic", Arithmetic.FLOAT32)))
    chosen = str(request.get("board", ""))
    if kind in ("together", "train", "report") and setup.missing:
        raise DataError(setup.missing)
    makers = {
        "look": lambda: preview_job(find_file(argument).rpartition("/")[2], setup.selections.dates),
        "example": _example,
        "together": lambda: _preview_colocation(setup),
        "train": lambda: _train(setup),
        "report": lambda: _report(setup),
        "measure": lambda: _measure(argument, arithmetic),
        "export": lambda: _export(argument, arithmetic, chosen),
        "verify": lambda: _verify(chosen),
        "predict": lambda: _predict(find_file(argument), setup.selections.dates),
    }
    if kind not in makers:
        raise UsageError(f"There is no step '{kind[:20]}'.")
    return makers[kind]()


def preview_job(name: str, dates: Dates) -> Job:
    """Preview an uploaded file."""
    return Job(f"look:{name}", [_preview(name, dates)])


def _example() -> Job:
    """Simulate boxes beside a reference, as a file that could have been uploaded."""
    words = ("simulate", "--boxes", "4", "--days", "14", "--seed", "5", "--out", f"{FILES}/{EXAMPLE}", "--json")
    return Job(f"look:{EXAMPLE}", [Command(words), _preview(EXAMPLE)])


def _preview(name: str, dates: Dates = "") -> Command:
    return Command((f"{FILES}/{name}", dates), PREVIEW)


def _preview_colocation(setup: Setup) -> Job:
    config = {"config": setup.config(), "written": DRAFT}
    return Job("together", [Command(("--together", DRAFT, *setup.paths), PREVIEW)], config)


def _train(setup: Setup) -> Job:
    words = ("train", *setup.paths, "--config", CONFIG, "--out", MODEL, "--json")
    return Job("train", [Command(words)], {"config": setup.config(), "written": CONFIG})


def _report(setup: Setup) -> Job:
    chosen = board(setup.selections.board or DEFAULT_BOARD).name
    words = ("score", MODEL, "--data", *setup.paths, "--config", CONFIG, "--board", chosen, "--out", "run")
    return Job("report", [Command((*words, "--json")), Command(("report", "run", "--json"))])


def _measure(name: str, arithmetic: Arithmetic) -> Job:
    chosen = board(name).name
    words = ("board", "run", MODEL, "--board", chosen, "--arithmetic", arithmetic, "--windows", "1", "--json")
    return Job(f"measure:{chosen}:{arithmetic}", [Command(words)])


def _export(target: str, arithmetic: Arithmetic, chosen: str) -> Job:
    if target not in TARGETS:
        raise UsageError(f"There is no export target '{target[:40]}'.")
    fits = ("--board", board(chosen).name) if chosen and TARGETS[target].in_c else ()
    out = ("--out", f"exports/{target}.zip", "--force", "--json")
    words = ("export", target, MODEL, "--arithmetic", arithmetic, *fits, *out)
    return Job(f"export:{target}", [Command(words)], {"file": f"exports/{target}.zip"})


def _verify(chosen: str) -> Job:
    words = ("verify", MODEL, "--board", board(chosen or DEFAULT_BOARD).name, "--out", "certificate.json", "--json")
    return Job("verify", [Command(words)], {"file": "certificate.json"})


def _predict(path: str, dates: Dates) -> Job:
    name = path.rpartition("/")[2]
    out = f"calibrated/{name.removesuffix('.gz').rpartition('.')[0]}.csv"
    words = ("predict", MODEL, path, *(("--dates", dates) if dates else ()), "--out", out)
    return Job(f"predict:{name}", [Command((*words, "--json"))], {"file": out})
