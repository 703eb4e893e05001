"""The steps as jobs: which commands each one runs, in the session's folder."""

from collections.abc import Mapping
from typing import Any

from scare.board.boards import board
from scare.data.times import Dates
from scare.errors import DataError, UsageError
from scare.export.arithmetic import Arithmetic
from scare.export.targets import TARGETS
from scare.web.choosing import Choices
from scare.web.jobs import Command, Job
from scare.web.sessions import FILES, Session

LOOKING = "scare.web.looking"
DRAFT, CONFIG, MODEL = "draft.toml", "config.toml", "model.scare"  # a draft is looked at, a config was trained with
AFTER_TRAINING = ("report", "measure", "export", "verify", "predict")  # made of a calibrator, gone with it
USUAL_BOARD, EXAMPLE = "nano33ble", "example.csv"


def look(name: str, dates: Dates) -> Job:
    """A dropped file, looked at."""
    return Job(f"look:{name}", [_look(name, dates)])


def example() -> Job:
    """Simulated boxes beside a simulated reference, as a file that could have been dropped."""
    words = ("simulate", "--boxes", "4", "--days", "14", "--seed", "5", "--out", f"{FILES}/{EXAMPLE}", "--json")
    return Job(f"look:{EXAMPLE}", [Command(words), _look(EXAMPLE)])


def _look(name: str, dates: Dates = "") -> Command:
    return Command((f"{FILES}/{name}", dates), LOOKING)


def together(choices: Choices) -> Job:
    """Sensor and reference, side by side."""
    config = {"config": choices.config(), "written": DRAFT}
    return Job("together", [Command(("--together", DRAFT, *_files(choices)), LOOKING)], config)


def train(choices: Choices) -> Job:
    """A calibrator."""
    words = ("train", *_files(choices), "--config", CONFIG, "--out", MODEL, "--json")
    return Job("train", [Command(words)], {"config": choices.config(), "written": CONFIG})


def report(choices: Choices) -> Job:
    """The page of a score."""
    chosen = board(choices.said.board or USUAL_BOARD).name
    words = ("score", MODEL, "--data", *_files(choices), "--config", CONFIG, "--board", chosen, "--out", "run")
    return Job("report", [Command((*words, "--json")), Command(("report", "run", "--json"))])


def measure(name: str, arithmetic: str) -> Job:
    """What the calibrator takes on a board."""
    chosen, kind = board(name).name, Arithmetic(arithmetic)
    words = ("board", "run", MODEL, "--board", chosen, "--arithmetic", kind, "--windows", "1", "--json")
    return Job(f"measure:{chosen}:{kind}", [Command(words)])


def export(target: str, arithmetic: str, chosen: str) -> Job:
    """The calibrator in the language of a board, as a zip."""
    if target not in TARGETS:
        raise UsageError(f"nothing can be exported to '{target[:40]}'")
    fits = ("--board", board(chosen).name) if chosen and TARGETS[target].in_c else ()
    out = ("--out", f"exports/{target}.zip", "--force", "--json")
    words = ("export", target, MODEL, "--arithmetic", Arithmetic(arithmetic), *fits, *out)
    return Job(f"export:{target}", [Command(words)], {"file": f"exports/{target}.zip"})


def verify(chosen: str) -> Job:
    """Proof that Python, C and the virtual board agree."""
    words = ("verify", MODEL, "--board", board(chosen or USUAL_BOARD).name, "--out", "certificate.json", "--json")
    return Job("verify", [Command(words)], {"file": "certificate.json"})


def predict(session: Session, name: str, dates: Dates) -> Job:
    """A dropped file, calibrated."""
    source, stem = session.file(name), name.removesuffix(".gz").rpartition(".")[0]
    out = f"calibrated/{stem}.csv"
    words = ("predict", MODEL, f"{source.parent.name}/{name}", *(("--dates", dates) if dates else ()), "--out", out)
    return Job(f"predict:{name}", [Command((*words, "--json"))], {"file": out})


def make(session: Session, choices: Choices, name: str, asked: Mapping[str, Any]) -> Job:
    """The job of a step that a page asks for."""
    kind, _, which = name.partition(":")
    arithmetic, chosen = str(asked.get("arithmetic", Arithmetic.FLOAT32)), str(asked.get("board", ""))
    if arithmetic not in list(Arithmetic):
        raise UsageError(f"there is no arithmetic '{arithmetic[:20]}'")
    if kind in ("together", "train", "report") and choices.missing:
        raise DataError(choices.missing)
    makers = {
        "look": lambda: look(session.file(which).name, choices.said.dates),
        "example": example,
        "together": lambda: together(choices),
        "train": lambda: train(choices),
        "report": lambda: report(choices),
        "measure": lambda: measure(which, arithmetic),
        "export": lambda: export(which, arithmetic, chosen),
        "verify": lambda: verify(chosen),
        "predict": lambda: predict(session, which, choices.said.dates),
    }
    if kind not in makers:
        raise UsageError(f"there is no step '{kind[:20]}'")
    return makers[kind]()


def _files(choices: Choices) -> tuple[str, ...]:
    return tuple(f"{FILES}/{name}" for name in choices.sensors)
