"""Phases of training: which rounds belong to each, and which parameters it moves.

A model trained in one go has one phase, and nothing here changes it. `models.contract` says what a network decides in a
phase (`enter`, `loss`, `moving`); `loop` goes through them.
"""

from itertools import accumulate
from typing import Any

import equinox as eqx

from scare.errors import UsageError
from scare.layers.buffers import split_trainable
from scare.models import Network


def phase_rounds(rounds: list[int], shares: tuple[float, ...]) -> list[list[int]]:
    """The rounds of each phase, by its share of them; every phase has one at least.

    Rounds stay as they are, except that all are halved while there are fewer of them than phases.

    >>> phase_rounds([100] * 16, (0.625, 0.1875, 0.1875)) == [[100] * 10, [100] * 3, [100] * 3]
    True
    >>> phase_rounds([100, 101], (0.625, 0.1875, 0.1875))
    [[50, 50], [51], [50]]
    """
    if sum(rounds) < len(shares):
        raise UsageError(f"this model is trained in {len(shares)} phases and needs at least {len(shares)} steps")
    while len(rounds) < len(shares):
        rounds = [half for steps in rounds for half in (steps - steps // 2, steps // 2) if half]
    phases, used = [], 0
    for phase, share in enumerate(accumulate(shares), start=1):
        spare = len(rounds) - (len(shares) - phase)  # leaves a round to every later phase
        border = spare if phase == len(shares) else min(max(round(share * len(rounds)), used + 1), spare)
        phases.append(rounds[used:border])
        used = border
    return phases


def split_moving(network: Network) -> tuple[Any, Any]:
    """A network as (what its phase moves, everything else); `eqx.combine` joins them again.

    What rests has no gradient, no memory in the optimiser, no decay and no running mean: it cannot move.
    """
    trainable, rest = split_trainable(network)
    wanted = network.moving()
    if wanted is None:
        return trainable, rest
    moving, resting = eqx.partition(trainable, wanted)
    return moving, eqx.combine(resting, rest)
