"""What tests of several rooms share."""

import os
from collections.abc import Iterator

import pytest

# what takes the time here is compiling, not computing
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")


@pytest.fixture
def double() -> Iterator[None]:
    """JAX computes in float64 for the length of a test."""
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        yield
