"""Phases of training: which rounds belong to each, and which parameters it moves.

A model trained in one go has one phase, and nothing here changes it. `models.contract` says what a network decides in a
phase (`enter`, `loss`, `moving`); `loop` goes through them.
"""

from typing import Any

import equinox as eqx

from scare.layers.buffers import split_trainable
from scare.models import Network


def phase_rounds(rounds: list[int], lengths: tuple[float, ...]) -> list[list[int]]:
    """The rounds of each phase: of all that are asked for its share, one at least.

    >>> phase_rounds([100] * 10, (1.0, 0.3, 0.3)) == [[100] * 10, [100] * 3, [100] * 3]
    True
    """
    return [rounds[: max(1, round(length * len(rounds)))] for length in lengths]


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
