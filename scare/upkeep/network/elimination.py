"""Sparse block elimination: solve a positive definite system of 2 × 2 blocks, with the covariances of its blocks.

    nodes that share an equation → order of elimination (minimum degree) → `Elimination`
    blocks → `factor` → `solve`, `covariance` (of all pairs of nodes that share an equation)

Eliminating a node connects its neighbours with each other. The covariances come back in reverse order by Takahashi's
equations (Takahashi et al. 1973; Erisman and Tinney 1975), so that the inverse, which is full, is never formed. Nodes
that do not depend on each other (one level) and have equally many neighbours are handled as one batch of arrays: time
and memory are linear in the nodes as long as elimination connects few of them, as it does on lines, stars and trees.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

import numpy as np
from numpy.typing import ArrayLike

SIDE = 2  # rows of a block
MOST_BLOCKS = 20_000_000  # of a factor: 640 MB


class TooDenseError(Exception):
    """Eliminating the nodes would connect too many of them."""


@dataclass(frozen=True)
class Batch:
    """Nodes that are eliminated together, with equally many neighbours, and where their blocks are in lists of blocks.

    n is the number of nodes, d that of the neighbours of each.
    """

    nodes: np.ndarray  # [n]
    own: np.ndarray  # positions of the blocks on the diagonal, (node, node) [n]
    neighbours: np.ndarray  # nodes eliminated later that they are connected with [n, d]
    to: np.ndarray  # positions of the blocks (node, neighbour) [n, d]
    back: np.ndarray  # positions of the blocks (neighbour, node) [n, d]
    between: np.ndarray  # positions of the blocks (neighbour, neighbour) [n, d, d]


class Elimination:
    """The order in which nodes are eliminated and the blocks that come up; it depends on the equations only.

    Parameters
    ----------
    nodes
        How many nodes there are; each has two unknowns.
    pairs
        Pairs of nodes that share an equation.

    Examples
    --------
    Three nodes in a line, both unknowns alike:

    >>> line = Elimination(3, [(0, 1), (1, 2)])
    >>> blocks = line.zeros()
    >>> for i, j, number in [(0, 0, 2), (1, 1, 2), (2, 2, 2), (0, 1, -1), (1, 0, -1), (1, 2, -1), (2, 1, -1)]:
    ...     blocks[line.position([i], [j])] = number * np.eye(2)
    >>> factor = line.factor(blocks)
    >>> line.solve(factor, np.ones((3, 2)))[:, 0]
    array([1.5, 2. , 1.5])
    >>> line.covariance(factor)[line.position([0, 1], [0, 1])][:, 0, 0]
    array([0.75, 1.  ])
    """

    def __init__(self, nodes: int, pairs: Iterable[tuple[int, int]]) -> None:
        self.nodes = nodes
        later = _minimum_degree(nodes, pairs)
        keys = [(node, node) for node in range(nodes)]
        for node, neighbours in later.items():
            keys += [(node, neighbour) for neighbour in neighbours]
            keys += [(neighbour, node) for neighbour in neighbours]
        codes = np.array([i * nodes + j for i, j in keys], np.int64)  # one number for each block (row i, column j)
        self._codes = np.unique(codes)
        self.batches = self._make_batches(later)

    def position(self, rows: ArrayLike, columns: ArrayLike) -> np.ndarray:
        """Return where the blocks (row, column) are in a list of blocks; row and column must share an equation."""
        codes = np.asarray(rows, np.int64) * self.nodes + np.asarray(columns, np.int64)
        return np.searchsorted(self._codes, codes)

    def zeros(self) -> np.ndarray:
        """Return a list of blocks that are zero [blocks, 2, 2]."""
        return np.zeros((len(self._codes), SIDE, SIDE))

    def factor(self, blocks: np.ndarray) -> np.ndarray:
        """Eliminate all nodes, and return the factor [blocks, 2, 2], which `solve` and `covariance` take.

        In the place of each block (node, node) the factor has the inverse of that block when its node is eliminated,
        and in that of (node, later neighbour) this inverse times the block.
        """
        factor = blocks.copy()
        for batch in self.batches:  # n nodes with d later neighbours each; own, to, back, between: positions of blocks
            inverse = np.linalg.inv(factor[batch.own])
            factor[batch.own] = inverse
            if not batch.to.shape[1]:  # no neighbours
                continue
            forward = inverse[:, None] @ factor[batch.to]  # inverse · (node, neighbour) [n, d, 2, 2]
            # Eliminating a node subtracts (i, node) · inverse · (node, j) from the block of any two of its neighbours i
            # and j, which leaves the Schur complement.
            change = factor[batch.back][:, :, None] @ forward[:, None]  # [n, i, j, 2, 2]
            # Two nodes of the batch may have the same neighbours: `subtract.at` subtracts from their block twice.
            np.subtract.at(factor, batch.between.ravel(), change.reshape(-1, SIDE, SIDE))
            # Only (node, neighbour) is replaced: the blocks `back` are not used again, because the matrix is symmetric.
            factor[batch.to] = forward
        return factor

    def solve(self, factor: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Solve for right sides [nodes, 2] or [nodes, 2, sides]."""
        is_single = right.ndim == 2  # one right side
        solution = (right[..., None] if is_single else right).astype(float)  # [nodes, 2, sides]
        for batch in self.batches:  # forward: what each node adds to the right sides of its neighbours
            if batch.to.shape[1]:
                change = np.swapaxes(factor[batch.to], -1, -2) @ solution[batch.nodes][:, None]
                np.subtract.at(solution, batch.neighbours.ravel(), change.reshape(-1, *solution.shape[1:]))
        for batch in reversed(self.batches):  # backward: each node from the neighbours that are solved
            solution[batch.nodes] = factor[batch.own] @ solution[batch.nodes]
            if batch.to.shape[1]:
                solution[batch.nodes] -= (factor[batch.to] @ solution[batch.neighbours]).sum(axis=1)
        return solution[..., 0] if is_single else solution

    def covariance(self, factor: np.ndarray) -> np.ndarray:
        """Return the blocks of the inverse for all pairs of nodes that share an equation [blocks, 2, 2]."""
        inverse = np.zeros_like(factor)
        for batch in reversed(self.batches):
            diagonal = factor[batch.own]
            if batch.to.shape[1]:
                forward = factor[batch.to]  # [n, d, 2, 2]
                # The neighbours were eliminated later, so the covariances among them are known here.
                across = -(forward[:, :, None] @ inverse[batch.between]).sum(axis=1)  # [n, d, 2, 2]
                inverse[batch.to] = across
                inverse[batch.back] = np.swapaxes(across, -1, -2)
                diagonal = diagonal - (across @ np.swapaxes(forward, -1, -2)).sum(axis=1)
            inverse[batch.own] = diagonal
        return inverse

    def log_determinant(self, factor: np.ndarray) -> float:
        """Return the logarithm of the determinant of the system."""
        diagonal = self.position(range(self.nodes), range(self.nodes))
        _, logarithms = np.linalg.slogdet(factor[diagonal])  # of inverses, hence the sign
        return -float(logarithms.sum())

    def _make_batches(self, later: dict[int, list[int]]) -> list[Batch]:
        """Return batches in the order of elimination; `later` is what `_minimum_degree` returned.

        A node's level is one more than the highest of the nodes that must be eliminated before it, so nodes of one
        level do not depend on each other.
        """
        level = np.zeros(self.nodes, int)
        for node, neighbours in later.items():  # in the order of elimination
            for neighbour in neighbours:
                level[neighbour] = max(level[neighbour], level[node] + 1)
        groups: dict[tuple[int, int], list[int]] = {}
        for node, neighbours in later.items():
            groups.setdefault((int(level[node]), len(neighbours)), []).append(node)
        batches = []
        for (_, count), members in sorted(groups.items()):
            nodes: np.ndarray = np.array(members)
            linked = np.array([later[node] for node in members], int).reshape(len(members), count)  # [n, d]
            rows = np.repeat(linked[:, :, None], count, axis=2)  # [n, d, d]
            to = self.position(nodes[:, None], linked)
            back = self.position(linked, nodes[:, None])
            between = self.position(rows, np.swapaxes(rows, 1, 2))
            batches.append(Batch(nodes, self.position(nodes, nodes), linked, to, back, between))
        return batches


def _minimum_degree(nodes: int, pairs: Iterable[tuple[int, int]]) -> dict[int, list[int]]:
    """Return, in the order of elimination, each node with the later nodes that it is connected with by then.

    The next node is always one with the fewest connections.
    """
    connected: list[set[int]] = [set() for _ in range(nodes)]
    for node, other in pairs:
        if node != other:
            connected[node].add(other)
            connected[other].add(node)
    heap = [(len(neighbours), node) for node, neighbours in enumerate(connected)]
    heapify(heap)
    later: dict[int, list[int]] = {}
    blocks = nodes
    while heap:
        degree, node = heappop(heap)
        if node in later or degree != len(connected[node]):
            continue  # an older entry
        neighbours = connected[node]
        later[node] = sorted(neighbours)
        blocks += 2 * len(neighbours)
        if blocks > MOST_BLOCKS:
            raise TooDenseError
        for neighbour in neighbours:  # each is connected with all others now
            others = connected[neighbour]
            others.discard(node)
            if len(neighbours) > 1:
                others |= neighbours
                others.discard(neighbour)
            heappush(heap, (len(others), neighbour))
    return later
