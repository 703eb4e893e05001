"""The fits of a reproduction in an order in which a night that ends early leaves whole rows: cheap contenders first.

A contender's rates are tried on every task, then its further seeds are fitted. The expected duration goes by what fits
of the same contender have taken in this folder or, before there are any, by the protocol's speeds.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count, product
from math import log

import numpy as np

from scare.archive.executor import Executor
from scare.experiments.contenders import NETWORKS, Job, recipe_of
from scare.experiments.reproduction.choice import chosen, seeds_of, trials
from scare.experiments.reproduction.protocol import model_of
from scare.experiments.reproduction.reproduction import Reproduction
from scare.experiments.study import PARTS, Progress, Study, Work, run_jobs
from scare.experiments.task import read_task

START_SECONDS = 8.0  # of a process, and compiling
SLOW = 1000.0  # windows a second where the protocol says nothing
FORWARD = 3  # windows scored in the time in which one is learned from


def fit_all(reproduction: Reproduction, contenders: Sequence[str], executor: Executor, progress: Progress) -> None:
    """Make every fit that is missing, the cheapest contender first."""
    total, numbers = len(list(missing(reproduction, contenders))), count(1)
    names = sorted(dict.fromkeys(contenders), key=lambda one: expected_seconds(reproduction, one))
    undecided = list(names)
    for work in (_as_decided(reproduction, names, undecided), _seeds(reproduction, undecided)):
        for study, job in run_jobs((one for one in work if not _done(*one)), executor):
            progress(next(numbers), total, f"{study.folder.name} {job.key}")


def _as_decided(reproduction: Reproduction, names: Sequence[str], undecided: list[str]) -> Iterator[Work]:
    """The rates of each contender, and the further seeds of those before it once its rates are decided everywhere.

    Nobody waits for the last trials of one contender before those of the next begin. A contender leaves `undecided`
    when its seeds are told.
    """
    protocol, studies = reproduction.protocol, reproduction.studies.values()
    for number, name in enumerate(names, start=1):
        yield from ((study, job) for study in studies for job in trials(name, protocol))
        for one in [one for one in names[:number] if one in undecided]:
            if all(chosen(study, one, protocol) for study in studies):
                undecided.remove(one)
                yield from _seeds(reproduction, [one])


def _seeds(reproduction: Reproduction, names: Iterable[str]) -> Iterator[Work]:
    """Every seed at the rate that was decided, where one was."""
    for name, study in product(names, reproduction.studies.values()):
        if trial := chosen(study, name, reproduction.protocol):
            yield from ((study, job) for job in seeds_of(trial, reproduction.protocol))


def missing(reproduction: Reproduction, contenders: Sequence[str]) -> Iterator[Work]:
    """Every fit still to be made; one whose rate is not chosen yet stands at the first rate."""
    protocol = reproduction.protocol
    for name in dict.fromkeys(contenders):
        for study in reproduction.studies.values():
            trial = chosen(study, name, protocol)
            later = seeds_of(trial or trials(name, protocol)[0], protocol)[1:]
            yield from ((study, job) for job in (*trials(name, protocol), *later) if not _done(study, job))


def expected_minutes(reproduction: Reproduction, contenders: Sequence[str]) -> float:
    """How long the missing fits may take, one after the other on one core."""
    return sum(expected_seconds(reproduction, job.contender) for _, job in missing(reproduction, contenders)) / 60


def expected_seconds(reproduction: Reproduction, contender: str) -> float:
    """How long a fit takes: the median of those made, or by the protocol's speeds."""
    tried = trials(contender, reproduction.protocol)
    made = [study.result(job) for study in reproduction.studies.values() for job in tried]
    seconds = [found["fit_seconds"] for found in made if found and not found["failed"]]
    return float(np.median(seconds)) if seconds else _by_speed(reproduction, contender)


def _done(study: Study, job: Job) -> bool:
    return (study.result(job) or {"failed": ""})["failed"] is None


def _by_speed(reproduction: Reproduction, contender: str) -> float:
    if contender not in NETWORKS:
        return START_SECONDS
    protocol = reproduction.protocol
    settings = recipe_of(contender, protocol.window, 0, protocol.settings).settings
    readings = read_task(next(iter(reproduction.studies.values())).folder).readings
    rows = {part: sum(one.rows for one in readings[part]) for part in PARTS}
    rounds = settings.rounds(rows["train"])
    scored = len(rounds) * rows["validation"] + rows["test"]
    return START_SECONDS + (sum(rounds) * settings.batch + scored / FORWARD) / _speed(reproduction, contender)


def _speed(reproduction: Reproduction, contender: str) -> float:
    """Windows a second in training, at the length nearest to the protocol's."""
    speeds, window = reproduction.protocol.speeds, reproduction.protocol.window
    nearest = speeds[min(speeds, key=lambda length: abs(log(length / window)))] if speeds else {}
    return nearest.get(model_of(contender), nearest.get("scare", SLOW))
