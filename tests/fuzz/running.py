"""Runs mutated inputs by number in child processes: each must end in an error message or a result, soon."""

import json
import multiprocessing
import resource
import signal
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from types import FrameType

from scare.errors import ScareError
from tests.fuzz.target import Target

SECONDS = 2.0  # of processor time that a mutated input may take
PATIENCE = 60  # seconds until a mutated input that does not even compute is given up
MEMORY = 1 << 30  # bytes that a child may ever have had
SHARE = 1 << 27  # of them, that a mutated input took which is to blame
BLOCK = 250  # mutated inputs of one child


@dataclass(frozen=True)
class Finding:
    """A mutated input that did what none may."""

    target: str
    number: int
    what: str


def content_of(target: Target, seed: int, number: int) -> bytes:
    """The mutated input of a number."""
    return target.make(Random(f"{target.name} {seed} {number}"))


def try_one(target: Target, path: Path) -> tuple[str, str]:
    """What became of a mutated input in a file, in a word, and what is wrong with that, if anything."""
    start, before = time.process_time(), _most_memory()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            target.use(path)
        became = "used"
    except ScareError as refused:
        became = "refused"
        if "\n" in str(refused).strip() or not str(refused).strip():
            return became, f"not one sentence: {refused!r}"
    except Exception:
        return "raised", traceback.format_exc()
    spent, memory = time.process_time() - start, _most_memory()
    if spent > SECONDS:
        return became, f"{spent:.1f} s of processor time"
    return became, f"{memory >> 20} MB of memory" if memory > MEMORY and memory - before > SHARE else ""


def _most_memory() -> int:
    """Bytes that this process has ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def _child(target: Target, seed: int, numbers: range, folder: Path) -> None:
    signal.signal(signal.SIGALRM, _give_up)
    with (folder / "result.jsonl").open("a", encoding="utf-8", buffering=1) as result:
        for number in numbers:
            path = folder / f"mutated{target.suffix}"
            path.write_bytes(content_of(target, seed, number))
            signal.alarm(PATIENCE)
            became, wrong = try_one(target, path)
            signal.alarm(0)
            result.write(json.dumps([number, became, wrong]) + "\n")
            if wrong.endswith("of memory"):
                return


def _give_up(_: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"it waits for {PATIENCE} s")


def run_numbers(
    target: Target, seed: int, numbers: range, folder: Path
) -> Iterator[tuple[Counter[str], list[Finding]]]:
    """What became of mutated inputs, a block of them at a time; a child that dies is a finding, and another goes on."""
    context = multiprocessing.get_context("spawn")
    start = numbers.start
    target.prepare()
    while start < numbers.stop:
        (folder / "result.jsonl").unlink(missing_ok=True)
        block = range(start, min(start + BLOCK, numbers.stop))
        child = context.Process(target=_child, args=(target, seed, block, folder))
        child.start()
        child.join()
        lines = [json.loads(line) for line in _lines(folder / "result.jsonl")]
        counts = Counter(became for _, became, _ in lines)
        findings = [Finding(target.name, number, wrong) for number, _, wrong in lines if wrong]
        start = lines[-1][0] + 1 if lines else start
        if child.exitcode:
            findings.append(Finding(target.name, start, f"the process ended with {child.exitcode}"))
            counts["died"] += 1
            start += 1
        yield counts, findings


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
