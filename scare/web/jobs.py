"""A job runs commands one after the other, each in a process that can be killed and has only so much memory.

What a command says on stderr are sentences, and lines of JSON that tell how far it is; what it prints on stdout is its
result. A finished job is kept in the session's folder.
"""

import asyncio
import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import time
from typing import Any

from scare.errors import ExitCode
from scare.files import replacing

RUNNING, DONE, STOPPED, REFUSED = "running", "done", "stopped", "refused"
SAID = 200  # sentences kept
LONGEST_LINE = 1 << 20
AT_ONCE = 3  # processes of a session
GRACE_SECONDS = 10.0  # for a job to end in order
WORSE = 5  # nicer than the page
OURS = {"SCARE_PROGRESS": "json", "COLUMNS": "1000", "NO_COLOR": "1"}


@dataclass(frozen=True)
class Command:
    """A line of `scare`, or of a module of ours that no one types."""

    words: tuple[str, ...]
    module: str = "scare"


@dataclass
class Job:
    """What a step does, how far it is and what came of it."""

    name: str
    commands: list[Command]
    about: dict[str, Any] = field(default_factory=dict)  # what it was asked for
    state: str = RUNNING
    began: float = field(default_factory=time)
    ended: float = 0.0
    code: int | None = None
    said: list[str] = field(default_factory=list)
    progress: dict[str, Any] = field(default_factory=dict)
    curve: list[list[float | None]] = field(default_factory=list)  # round, error on validation
    results: list[Any] = field(default_factory=list)

    def hear(self, line: str) -> None:
        """Take a line of stderr."""
        told = _json(line) if line.startswith("{") else None
        if not isinstance(told, dict):
            self.said = [*self.said, line.removeprefix("scare: ")][-SAID:]
            return
        self.progress = told
        if state := told.get("state"):
            self.curve.append([state["round"], state["validation_rmse"]])

    def brief(self) -> dict[str, Any]:
        """All but the results, which may be large."""
        return {name: value for name, value in asdict(self).items() if name != "results"}


class Jobs:
    """The jobs of one session; `changed` is called whenever one has something new to say."""

    def __init__(self, folder: Path, memory_bytes: int, changed: Callable[[], None]) -> None:
        self.folder, self.memory_bytes, self.changed = folder, memory_bytes, changed
        self.found: dict[str, Job] = {}
        self._processes: dict[str, asyncio.subprocess.Process] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._turn = asyncio.Semaphore(AT_ONCE)
        for path in sorted((folder / "jobs").glob("*.json")):
            facts = json.loads(path.read_text(encoding="utf-8"))
            commands = [Command(tuple(one["words"]), one["module"]) for one in facts.pop("commands")]
            self.found[facts["name"]] = Job(commands=commands, **facts)

    def start(self, job: Job) -> None:
        """Begin a job; one of the same name ends first."""
        before = self._tasks.get(job.name)
        self.kill(job.name)
        self.found[job.name] = job
        self._tasks[job.name] = asyncio.create_task(self._work(job, before))
        self.changed()

    def stop(self, name: str) -> None:
        """Ask a job to end in order, as Ctrl-C does; one that waits for its turn never begins."""
        if name in self._processes:
            self.found[name].about["stopping"] = True
            _signal(self._processes[name], signal.SIGINT)
        elif name in self.found and self.found[name].state == RUNNING:
            self.forget(name)
        self.changed()

    def kill(self, name: str) -> None:
        """End a job at once."""
        if name in self._processes:
            _signal(self._processes[name], getattr(signal, "SIGKILL", signal.SIGTERM))

    def forget(self, name: str) -> None:
        """End a job and leave nothing of it."""
        self.kill(name)
        self.found.pop(name, None)
        self._record(name).unlink(missing_ok=True)

    async def close(self) -> None:
        """End all of them, in order where that is soon."""
        for name in list(self._processes):
            self.stop(name)
        if working := [task for task in self._tasks.values() if not task.done()]:
            await asyncio.wait(working, timeout=GRACE_SECONDS)
        for name in list(self._processes):
            self.kill(name)
        await asyncio.gather(*self._tasks.values())

    async def _work(self, job: Job, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        for command in job.commands:
            async with self._turn:
                if self.found.get(job.name) is not job:  # forgotten while it waited
                    return
                await self._run(job, command)
            if job.code != ExitCode.OK:
                break
        is_stopped = job.code == ExitCode.INTERRUPTED or job.about.get("stopping")
        job.state = DONE if job.code == ExitCode.OK else STOPPED if is_stopped else REFUSED
        job.ended = time()
        if self.found.get(job.name) is job:
            self._keep(job)
            self.changed()

    async def _run(self, job: Job, command: Command) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", command.module, *command.words),
            cwd=self.folder,
            env={**os.environ, **OURS},
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=LONGEST_LINE,
            start_new_session=True,
        )
        _limit(process.pid, self.memory_bytes)
        self._processes[job.name] = process
        assert process.stdout is not None
        out, _ = await asyncio.gather(process.stdout.read(), self._listen(job, process))
        job.code = await process.wait()
        self._processes.pop(job.name, None)
        job.results.append(_json(out.decode(errors="replace")))
        ran_out = job.code < 0 or "MemoryError" in "".join(job.said[-1:])
        if ran_out and not job.about.get("stopping"):
            limit = f"{self.memory_bytes / 1e9:.1f} GB"
            job.said.append(f"it ended in the middle; it may take at most {limit} of memory (scare open --memory)")

    async def _listen(self, job: Job, process: asyncio.subprocess.Process) -> None:
        assert process.stderr is not None
        async for line in process.stderr:
            job.hear(line.decode(errors="replace").strip())
            self.changed()

    def _keep(self, job: Job) -> None:
        facts = asdict(job)
        with replacing(self._record(job.name)) as temporary:
            temporary.write_text(json.dumps(facts), encoding="utf-8")

    def _record(self, name: str) -> Path:
        return self.folder / "jobs" / f"{name.replace(':', '-')}.json"


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _signal(process: asyncio.subprocess.Process, number: int) -> None:
    if process.returncode is None:
        process.send_signal(number)


def _limit(pid: int, memory_bytes: int) -> None:
    """Give a process only so much memory, and let the page go first, where the system can."""
    try:
        import resource

        if hasattr(resource, "prlimit"):
            resource.prlimit(pid, resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
        os.setpriority(os.PRIO_PROCESS, pid, WORSE)
    except (ImportError, AttributeError, OSError):
        return  # Windows has neither; a process may have ended already


def shown(commands: Sequence[Command]) -> list[str]:
    """The lines that people would type: without what only a program reads."""
    words = [[word for word in one.words if word != "--json"] for one in commands if one.module == "scare"]
    return [f"scare {shlex.join(line)}" for line in words]


# The steps as jobs: which commands each one runs, in the session's folder.
