"""What a calibrator takes on this computer and on a virtual board: a card of the scorecard, one for each contender.

Speed and size do not depend on what was learned (SenDaL's choice of a branch does), so each contender is measured
once: the first seed of the first task, in float32.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Readings
from scare.device.boards import board
from scare.experiments.contenders import Job
from scare.experiments.protocol import Protocol
from scare.experiments.reproduction import Reproduction
from scare.experiments.study import Study, Told, read_parts
from scare.export.arithmetic import Arithmetic
from scare.scorecard.card import Card
from scare.scorecard.growth import growth_of
from scare.scorecard.requirements import Requirements
from scare.scorecard.scoring import Subject, score

KILOBYTE = 1024
QUICK_BLOCKS = 2  # of requests while utilisation is measured
MORE_ROWS = 60  # after two windows: enough to time


def find_machines(reproduction: Reproduction, contenders: Sequence[str], told: Told) -> dict[str, Card]:
    """The card of each contender, measured now or before; an empty one if it has no calibrator."""
    cards = {}
    for done, name in enumerate(contenders, start=1):
        cards[name] = _find(reproduction, name)
        told(done, len(contenders), f"{name} measured")
    return cards


def _find(reproduction: Reproduction, contender: str) -> Card:
    study = reproduction.studies[reproduction.cells[0]]
    job = Job(contender, reproduction.protocol.window, 0)
    if (study.result(job) or {"failed": ""})["failed"] is not None:
        return Card({}, {}, (), {}, None, {})
    protocol = reproduction.protocol
    key = f"machine-{protocol.board_name}-{job.key}-{protocol.board_trials}"
    facts = reproduction.remember(key, partial(_measure, study, job, protocol))
    return Card.from_json(json.dumps(facts))


def _measure(study: Study, job: Job, protocol: Protocol) -> dict[str, Any]:
    test = [_end(one, protocol) for one in read_parts(study.folder)["test"]]
    return measure_machine(study.calibrator(job), test, protocol).as_dict()


def measure_machine(calibrator: Calibrator, readings: Sequence[Readings], protocol: Protocol) -> Card:
    """The card of a calibrator; its accuracy is of these few readings and means nothing."""
    rules = Requirements.load()
    changes: dict[str, Any] = {"board_windows": protocol.board_trials}
    changes |= {"blocks": QUICK_BLOCKS} if protocol.quick else {}
    rules = replace(rules, protocol=replace(rules.protocol, **changes))
    chosen = board(protocol.board_name)
    subject = Subject(calibrator, readings, Arithmetic.FLOAT32, chosen, growth_of(calibrator))
    found = score(subject, rules)
    entries = tuple(entry for entry in found.entries if entry.dimension != "accuracy")
    return Card(dict(calibrator.facts), {}, entries, {}, found.board, {})


def machine_columns(card: Card) -> dict[str, Any]:
    """A card as the columns of the paper's tables: ms, the fitted growth, KB, %."""
    values: dict[str, Any] = {entry.measure: entry.value for entry in card.entries}
    exponent, retained = values.get("exponent"), values.get("retained_bytes")
    return {
        "mean_latency": values.get("latency_mean"),
        "max_latency": values.get("latency_max"),
        "jitter": values.get("latency_jitter"),
        "complexity": None if exponent is None else f"N^{exponent:.2f}",
        "activation": None if retained is None else retained / KILOBYTE,
        "cpu": values.get("cpu"),
    }


def _end(readings: Readings, protocol: Protocol) -> Readings:
    return replace(readings, frame=readings.frame.tail(2 * protocol.window + MORE_ROWS))
