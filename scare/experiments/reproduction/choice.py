"""One policy for every network: of a small grid of rates the one with the least error on validation, for each task.

Rates are tried with the first seed, and further seeds take what it chose. Whether weights or their running mean are
shipped is decided in every fit (`training.either`), on validation as well.
"""

from dataclasses import replace
from math import inf
from typing import Any

from scare.experiments.contenders import Job
from scare.experiments.reproduction.protocol import Protocol
from scare.experiments.study import Study


def trials(contender: str, protocol: Protocol) -> list[Job]:
    """The first seed at every rate; of what has no rate, its one fit."""
    return [Job(contender, protocol.window, 0, rate) for rate in protocol.rates_of(contender)]


def chosen(study: Study, contender: str, protocol: Protocol) -> Job | None:
    """The trial with the least error on validation, once all have ended; None before, and if all failed."""
    results = {job: study.result(job) for job in trials(contender, protocol)}
    if not all(results.values()):
        return None
    errors = {job: found.get("validation_rmse", inf) for job, found in results.items() if found and not found["failed"]}
    return min(errors, key=errors.__getitem__, default=None)


def seeds_of(trial: Job, protocol: Protocol) -> list[Job]:
    """The jobs of every seed at a trial's rate, itself the first."""
    return [replace(trial, seed=seed) for seed in range(protocol.seeds_of(trial.contender))]


def jobs_of(study: Study, contender: str, protocol: Protocol) -> list[Job]:
    """What a contender is scored by: every seed at the rate chosen; while none is, one trial that has no result."""
    if trial := chosen(study, contender, protocol):
        return seeds_of(trial, protocol)
    tried = trials(contender, protocol)
    return [next((job for job in tried if study.result(job) is None), tried[0])]


def describe_choice(study: Study, contender: str, protocol: Protocol) -> dict[str, Any] | None:
    """The rate chosen, how many seeds ship a running mean of weights, and the error of every rate on validation."""
    trial = chosen(study, contender, protocol)
    if trial is None or trial.rate is None:
        return None
    results = [found for job in seeds_of(trial, protocol) if (found := study.result(job)) and not found["failed"]]
    means = sum(sum(found.get("averaged", ())) for found in results)
    errors = {
        f"at {job.rate:g}": (study.result(job) or {}).get("validation_rmse") for job in trials(contender, protocol)
    }
    return {"rate": trial.rate, "means": f"{means} of {len(results)}", **errors}
