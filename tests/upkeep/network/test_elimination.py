"""Elimination gives what dense linear algebra gives, on any graph; lines and stars stay sparse."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from scare.upkeep.network import elimination
from scare.upkeep.network.elimination import Elimination, TooDenseError


def random_system(nodes: int, pairs: set[tuple[int, int]], seed: int) -> tuple[Elimination, np.ndarray, np.ndarray]:
    """An elimination, its blocks and the same matrix, dense: sums of squares of random equations."""
    rng = np.random.default_rng(seed)
    dense = np.eye(2 * nodes)
    for i, j in pairs:
        row = np.zeros((3, 2 * nodes))
        row[:, 2 * i : 2 * i + 2], row[:, 2 * j : 2 * j + 2] = rng.normal(size=(2, 3, 2))
        dense += row.T @ row
    found = Elimination(nodes, pairs)
    blocks = found.zeros()
    for i, j in {(i, i) for i in range(nodes)} | pairs | {(j, i) for i, j in pairs}:
        blocks[found.position([i], [j])] = dense[2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
    return found, blocks, dense


@settings(max_examples=60, deadline=None)
@given(
    nodes=st.integers(1, 12),
    ends=st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), max_size=30),
    seed=st.integers(0, 2**20),
)
def test_elimination_is_dense_algebra(nodes: int, ends: list[tuple[int, int]], seed: int) -> None:
    pairs = {(i, j) for i, j in ends if i < j < nodes}
    found, blocks, dense = random_system(nodes, pairs, seed)
    factor = found.factor(blocks)
    inverse = np.linalg.inv(dense)
    right = np.random.default_rng(seed + 1).normal(size=(nodes, 2, 3))
    assert_allclose(found.solve(factor, right).reshape(2 * nodes, 3), inverse @ right.reshape(2 * nodes, 3), rtol=1e-8)
    assert_allclose(found.log_determinant(factor), np.linalg.slogdet(dense)[1], rtol=1e-8, atol=1e-12)
    covariance = found.covariance(factor)
    for i, j in {(i, i) for i in range(nodes)} | pairs | {(j, i) for i, j in pairs}:
        block = covariance[found.position([i], [j])][0]
        assert_allclose(block, inverse[2 * i : 2 * i + 2, 2 * j : 2 * j + 2], rtol=1e-7, atol=1e-12)


def test_blocks_are_linear_in_lines_that_hang_on_one_hub() -> None:
    def blocks(lines: int, length: int) -> int:
        pairs = [(0, 1 + line * length) for line in range(lines)]
        pairs += [(1 + line * length + k, 2 + line * length + k) for line in range(lines) for k in range(length - 1)]
        return len(Elimination(1 + lines * length, pairs).zeros())

    assert blocks(200, 12) <= 2.01 * blocks(100, 12)
    assert blocks(100, 24) <= 2.01 * blocks(100, 12)


def test_a_graph_that_fills_up_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elimination, "MOST_BLOCKS", 100)
    with pytest.raises(TooDenseError):
        Elimination(20, [(i, j) for i in range(20) for j in range(i)])
