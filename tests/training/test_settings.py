"""How long training lasts, and what its settings refuse."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.errors import UsageError
from scare.training.recipe import Settings


@given(steps=st.integers(1, 5000), checkpoints=st.integers(1, 50), examples=st.integers(1, 10**6))
def test_rounds_share_the_steps_evenly(steps: int, checkpoints: int, examples: int) -> None:
    rounds = Settings(steps=steps, checkpoints=checkpoints).rounds(examples)
    assert sum(rounds) == steps
    assert len(rounds) == min(steps, checkpoints)
    assert max(rounds) - min(rounds) <= 1
    assert min(rounds) >= 1


@given(epochs=st.integers(1, 20), batch=st.integers(1, 500), examples=st.integers(1, 10**5))
def test_an_epoch_is_as_many_steps_as_use_every_example(epochs: int, batch: int, examples: int) -> None:
    rounds = Settings(epochs=epochs, batch=batch).rounds(examples)
    assert len(rounds) == epochs
    for steps in rounds:
        assert 0 <= steps * batch - examples < batch


@given(windows=st.integers(1, 10**6), batch=st.integers(1, 500), examples=st.integers(1, 10**6))
def test_as_many_windows_whatever_the_batch(windows: int, batch: int, examples: int) -> None:
    steps = sum(Settings(windows=windows, batch=batch, steps=3).rounds(examples))
    assert 0 <= steps * batch - windows < batch


@pytest.mark.parametrize(
    ("name", "number"),
    [*product(("batch", "checkpoints", "candidates", "steps"), (0, -1)), ("epochs", -1), ("windows", -1)],
)
def test_lengths_must_be_at_least_one(name: str, number: int) -> None:
    with pytest.raises(UsageError, match=r"at least"):
        Settings(**{name: number})


@pytest.mark.parametrize("rate", [0.0, -1.0, float("nan")])
def test_a_rate_that_cannot_learn_is_refused(rate: float) -> None:
    with pytest.raises(UsageError, match="the learning rate must be above 0"):
        Settings(rate=rate)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="a seed cannot be negative, as -1 is"):
        Settings(seed=-1)
