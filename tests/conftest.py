"""What tests of several rooms share."""

from collections.abc import Iterator

import pytest


@pytest.fixture
def double() -> Iterator[None]:
    """JAX computes in float64 for the length of a test."""
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield
