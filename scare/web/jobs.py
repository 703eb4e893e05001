"""Jobs: each step of the page is a sequence of `scare` commands, run in processes with a memory limit.

    request of the page + `Setup` → `make_job` → `Job` → `Jobs`: one process per command, in the session's folder

A command prints messages and lines of JSON progress on stderr, and its result on stdout. A finished job is recorded in
the session's folder. `sessions` brings the state of jobs to the page.
"""

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import time
from typing import Any

from scare.board.boards import board
from scare.data.tables import AS_FOUND
from scare.errors import DataError, ExitCode, UsageError
from scare.export.lowering import Arithmetic, find_arithmetic
from scare.export.targets import TARGETS
from scare.files import replacing
from scare.web.session_setup import FILES, Selections, Setup

PREVIEW = "scare.web.preview"
DRAFT, CONFIG, MODEL = "draft.toml", "config.toml", "model.scare"  # config previewed, config trained with, calibrator
SITE = "site.toml"  # facts of the deployment
AFTER_TRAINING = ("report", "pdf", "measure", "export", "verify", "predict")  # steps that a new calibrator outdates
DEFAULT_BOARD = "nano33ble"
EXAMPLE = "example.csv"

RUNNING, DONE, STOPPED, REFUSED = "running", "done", "stopped", "refused"  # states of a job
MESSAGES_KEPT = 200
LONGEST_LINE = 1 << 20  # bytes
AT_ONCE = 3  # processes of a session that run at the same time
GRACE_SECONDS = 10.0  # for a job to save its result when interrupted
NICE = 5  # jobs yield CPU to the web server
ENVIRONMENT = {"SCARE_PROGRESS": "json", "COLUMNS": "1000", "NO_COLOR": "1"}  # plain messages, one per line


@dataclass(frozen=True)
class Command:
    """A `scare` command line, or an internal `python -m` module."""

    words: tuple[str, ...]
    module: str = "scare"


@dataclass
class Job:
    """A step of the page: its commands, their progress and their results; `name` is KIND or KIND:ARGUMENT."""

    name: str
    commands: list[Command]
    about: dict[str, Any] = field(default_factory=dict)  # what the page needs to know: config, file made
    state: str = RUNNING
    began: float = field(default_factory=time)
    ended: float = 0.0
    code: int | None = None
    messages: list[str] = field(default_factory=list)
    progress: dict[str, Any] = field(default_factory=dict)
    curve: list[list[float | None]] = field(default_factory=list)  # round, validation error
    results: list[Any] = field(default_factory=list)  # the JSON that each command printed

    def read_line(self, line: str) -> None:
        """Update the job from a line of stderr: JSON progress, or a message."""
        progress = _json(line) if line.startswith("{") else None
        if not isinstance(progress, dict):
            self.messages = [*self.messages, line.removeprefix("scare: ")][-MESSAGES_KEPT:]
            return
        self.progress = progress
        if state := progress.get("state"):
            self.curve.append([state["round"], state["validation_rmse"]])

    def summary(self) -> dict[str, Any]:
        """Return the fields as the page shows them: commands as a person would type them, no results (often large)."""
        fields = {name: value for name, value in asdict(self).items() if name != "results"}
        return {**fields, "commands": typed_lines(self.commands)}


class Jobs:
    """The jobs of one session by name; `changed` is called whenever one of them changes.

    Records of jobs that ended in an earlier process are read from the folder.
    """

    def __init__(self, folder: Path, memory_bytes: int, changed: Callable[[], None]) -> None:
        self.folder, self.memory_bytes, self.changed = folder, memory_bytes, changed
        self.by_name: dict[str, Job] = {}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._free_places = asyncio.Semaphore(AT_ONCE)
        for path in sorted((folder / "jobs").glob("*.json")):
            fields = json.loads(path.read_text(encoding="utf-8"))
            commands = [Command(tuple(command["words"]), command["module"]) for command in fields.pop("commands")]
            # "said" is what `_work` calls the messages in the file.
            self.by_name[fields["name"]] = Job(commands=commands, messages=fields.pop("said"), **fields)

    def start(self, job: Job) -> None:
        """Start a job; a running one of the same name is killed first."""
        replaced = self._tasks.get(job.name)
        self.kill(job.name)
        self.by_name[job.name] = job
        self._tasks[job.name] = asyncio.create_task(self._work(job, replaced))
        self.changed()

    def stop(self, name: str) -> None:
        """Interrupt a job, as Ctrl-C does; a job whose process has not started yet is deleted."""
        if name in self._processes:
            self.by_name[name].about["stopping"] = True
            _signal(self._processes[name], signal.SIGINT)
        elif name in self.by_name and self.by_name[name].state == RUNNING:
            self.forget(name)
        self.changed()

    def kill(self, name: str) -> None:
        """Kill the process of a job."""
        if name in self._processes:
            _signal(self._processes[name], getattr(signal, "SIGKILL", signal.SIGTERM))

    def forget(self, name: str) -> None:
        """Kill a job and delete its record."""
        self.kill(name)
        self.by_name.pop(name, None)
        self._record(name).unlink(missing_ok=True)

    async def close(self) -> None:
        """Interrupt all jobs, and kill those that have not ended after `GRACE_SECONDS`."""
        for name in list(self._processes):
            self.stop(name)
        if working := [task for task in self._tasks.values() if not task.done()]:
            await asyncio.wait(working, timeout=GRACE_SECONDS)
        for name in list(self._processes):
            self.kill(name)
        await asyncio.gather(*self._tasks.values())

    async def _work(self, job: Job, replaced: asyncio.Task[None] | None) -> None:
        """Run a job's commands until one fails, and record it; `replaced` is the task of the job it replaces."""
        if replaced is not None:
            await asyncio.wait([replaced])
        for command in job.commands:
            async with self._free_places:
                if self.by_name.get(job.name) is not job:  # forgotten while it waited
                    return
                await self._run(job, command)
            if job.code != ExitCode.OK:
                break
        if job.code == ExitCode.OK:
            job.state = DONE
        else:
            is_stopped = job.code == ExitCode.INTERRUPTED or job.about.get("stopping")
            job.state = STOPPED if is_stopped else REFUSED
        job.ended = time()
        if self.by_name.get(job.name) is job:
            fields = asdict(job)
            fields["said"] = fields.pop("messages")  # the key in files since the first version
            with replacing(self._record(job.name)) as temporary:
                temporary.write_text(json.dumps(fields), encoding="utf-8")
            self.changed()

    async def _run(self, job: Job, command: Command) -> None:
        """Run one command to its end; sets the job's code and appends its result."""
        process = await asyncio.create_subprocess_exec(  # -P: import nothing from the session's folder
            *(sys.executable, "-P", "-m", command.module, *command.words),
            cwd=self.folder,
            env={**os.environ, **ENVIRONMENT},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
            start_new_session=True,
        )
        _limit(process.pid, self.memory_bytes)
        self._processes[job.name] = process
        assert process.stdout is not None
        out, _ = await asyncio.gather(process.stdout.read(), self._read_messages(job, process))
        job.code = await process.wait()
        self._processes.pop(job.name, None)
        job.results.append(_json(out.decode(errors="replace")))
        # A negative code is the number of the signal that ended the process.
        was_killed = job.code < 0 or "MemoryError" in "".join(job.messages[-1:])
        if was_killed and not job.about.get("stopping"):
            limit = f"{self.memory_bytes / 1e9:.1f} GB"
            remedy = "Raise the limit with scare open --memory."
            job.messages.append(f"The step was killed, probably because it ran out of memory (limit {limit}). {remedy}")

    async def _read_messages(self, job: Job, process: asyncio.subprocess.Process) -> None:
        """Update the job from stderr, line by line, until the process closes it."""
        assert process.stderr is not None
        async for line in process.stderr:
            job.read_line(line.decode(errors="replace").strip())
            self.changed()

    def _record(self, name: str) -> Path:
        return self.folder / "jobs" / f"{name.replace(':', '-')}.json"


def make_job(setup: Setup, name: str, request: Mapping[str, Any], find_file: Callable[[str], str]) -> Job:
    """Make the job of a step from its `name` (KIND or KIND:ARGUMENT) and the body of the request.

    `find_file` gives the path of an uploaded file in the session's folder.
    """
    kind, _, argument = name.partition(":")
    arithmetic = find_arithmetic(str(request.get("arithmetic", Arithmetic.FLOAT32)))
    board_name = str(request.get("board", ""))
    words: tuple[str, ...]
    if kind in ("together", "progress", "train", "report", "pdf") and setup.missing:
        raise DataError(setup.missing)
    match kind:
        case "look":
            return preview_job(find_file(argument).rpartition("/")[2], setup.selections)
        case "example":
            out = f"{FILES}/{EXAMPLE}"
            words = ("simulate", "--boxes", "4", "--days", "14", "--seed", "5", "--out", out, "--json")
            return Job(f"look:{EXAMPLE}", [Command(words), Command((out, "{}"), PREVIEW)])
        case "together":
            about = {"config": setup.config(), "written": DRAFT}
            return Job(kind, [Command(("--together", DRAFT, *setup.paths), PREVIEW)], about)
        case "progress":
            conditions = [find_file(str(name)) for name in request.get("deployment", ())]
            words = ("progress", *setup.paths, "--config", DRAFT, *_options("deployment", conditions))
            words += _options("targets", [setup.selections.targets])
            words += _options("reference-uncertainty", [setup.selections.reference_uncertainty])
            about = {"config": setup.config(), "written": DRAFT}
            return Job(kind, [Command((*words, "--json"))], about)
        case "train":
            words = ("train", *setup.paths, "--config", CONFIG, "--out", MODEL, "--json")
            info = Command(("info", MODEL, "--json"))
            return Job(kind, [Command(words), info], {"config": setup.config(), "written": CONFIG})
        case "open":
            return Job(kind, [Command(("info", MODEL, "--json"))])
        case "report":
            scored = board(setup.selections.board or DEFAULT_BOARD).name
            words = ("score", MODEL, "--data", *setup.paths, "--config", CONFIG, "--board", scored, "--out", "run")
            return Job(kind, [Command((*words, "--json")), _report_command(setup)], _site(setup))
        case "pdf":
            return Job(kind, [_report_command(setup, "--pdf")], _site(setup) | {"file": "run/report.pdf"})
        case "measure":
            measured = board(argument).name
            words = ("board", "run", MODEL, "--board", measured, "--arithmetic", arithmetic, "--windows", "1", "--json")
            return Job(f"measure:{measured}:{arithmetic}", [Command(words)])
        case "export":
            return _export_job(argument, arithmetic, board_name)
        case "verify":
            out = "certificate.json"
            emulated = board(board_name or DEFAULT_BOARD).name
            return Job(kind, [Command(("verify", MODEL, "--board", emulated, "--out", out, "--json"))], {"file": out})
        case "predict":
            return _predict_job(find_file(argument), setup.written(argument))
    raise UsageError(f"There is no step '{kind[:20]}'.")


def _report_command(setup: Setup, *more: str) -> Command:
    """Return the command that makes the report, with the facts of the deployment."""
    facts = _options("facts", [SITE if setup.site() else ""])
    uncertainty = _options("reference-uncertainty", [setup.selections.reference_uncertainty])
    return Command(("report", "run", *facts, *uncertainty, *more, "--json"))


def _site(setup: Setup) -> dict[str, Any]:
    """Return the fields of a job that writes the facts of the deployment to a file first; {} if none is stated."""
    return {"config": setup.site(), "written": SITE} if setup.site() else {}


def _options(name: str, values: Sequence[str]) -> tuple[str, ...]:
    """Return an option of a command for each value that is not empty."""
    return tuple(word for value in values if value for word in (f"--{name}", value))


def preview_job(name: str, selections: Selections) -> Job:
    """Make the job that previews an uploaded file."""
    table_options = selections.tables.get(name, AS_FOUND).table_options
    return Job(f"look:{name}", [Command((f"{FILES}/{name}", json.dumps(table_options)), PREVIEW)])


def _export_job(target: str, arithmetic: Arithmetic, board_name: str) -> Job:
    """Make the job that exports to a zip; with a board, the command refuses C that does not fit it."""
    if target not in TARGETS:
        raise UsageError(f"There is no export target '{target[:40]}'.")
    fit_check = ("--board", board(board_name).name) if board_name and TARGETS[target].in_c else ()
    out = f"exports/{target}.zip"
    words = ("export", target, MODEL, "--arithmetic", arithmetic, *fit_check, "--out", out, "--force", "--json")
    return Job(f"export:{target}", [Command(words)], {"file": out})


def _predict_job(path: str, table_options: Mapping[str, Any]) -> Job:
    """Make the job that calibrates an uploaded file to a CSV of the same name.

    The file is read with `table_options`, those of the training files.
    """
    name = path.rpartition("/")[2]
    out = f"calibrated/{name.removesuffix('.gz').rpartition('.')[0]}.csv"
    options: list[str] = []
    for key, value in table_options.items():
        values = value if key == "missing" else [value]  # --missing may be given several times
        options += _options(key.replace("_", "-"), [str(each) for each in values])
    words = ("predict", MODEL, path, *options, "--out", out, "--json")
    return Job(f"predict:{name}", [Command(words)], {"file": out})


def typed_lines(commands: Sequence[Command]) -> list[str]:
    """Return the commands as a person would type them: without internal modules and --json."""
    lines = [[word for word in command.words if word != "--json"] for command in commands if command.module == "scare"]
    return [f"scare {shlex.join(line)}" for line in lines]


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    if process.returncode is None:
        process.send_signal(number)


def _limit(pid: int, memory_bytes: int) -> None:
    """Limit a process's memory and lower its priority, where the system can."""
    try:
        import resource

        if hasattr(resource, "prlimit"):
            resource.prlimit(pid, resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        os.setpriority(os.PRIO_PROCESS, pid, NICE)
    except (ImportError, AttributeError, OSError):
        return  # Windows has neither; a process may have ended already
