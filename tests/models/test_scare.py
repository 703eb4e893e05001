"""How SCARE starts, where its support set comes from, and what its two presets are."""

from dataclasses import replace

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from scare.calibrator.cost import count
from scare.calibrator.parity_tolerance import hash_steps
from scare.calibrator.plan import Plan, Step, run
from scare.calibrator.plan_passes import fold
from scare.errors import NotApplicableError, UsageError
from scare.kernels import C_FLOAT32
from scare.layers.embedding import HatBasis, bin_averages
from scare.layers.heads import products
from scare.models import ABLATION, Scare
from scare.models.linear_families import Linear
from scare.models.scare import Attention, Front, Head, Mix, Sampling, ScareNetwork, lenses
from scare.training.selection import SelectionRules, choose_shares, fit_families
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.training_examples import DesignMatrix

WINDOW, LENSES = 16, 4


@pytest.fixture(scope="module")
def default() -> ScareNetwork:
    """A new network of the default preset."""
    return Scare.default().build(WINDOW, 1, jax.random.key(0))


@pytest.fixture(scope="module")
def paper() -> ScareNetwork:
    """A new network of the paper's preset."""
    return Scare.paper().build(WINDOW, 1, jax.random.key(0))


@pytest.fixture(scope="module")
def windows() -> jax.Array:
    """Windows a network of the paper's preset reads."""
    return jnp.asarray(np.random.default_rng(0).normal(size=(20, WINDOW, 1)), jnp.float32)


def known(features: np.ndarray, targets: np.ndarray) -> DesignMatrix:
    count = len(targets)
    return DesignMatrix(features, targets, np.arange(float(count)), np.zeros(count, int), ("box-1",))


def linear_mean(network: ScareNetwork, features: np.ndarray, targets: np.ndarray) -> Linear:
    """The mean of the linear families that are best on these columns."""
    channels = features.shape[2]
    unscaled = Scaling("standard", Affine(np.zeros(channels), np.ones(channels)), Affine(np.zeros(1), np.ones(1)))
    design = network.design(known(features, targets), unscaled)
    families = fit_families(design, design, False, SelectionRules())
    used = [
        (one.linear, share)
        for one, share in zip(families, choose_shares(families, targets, SelectionRules()), strict=True)
    ]
    return Linear.mean(*zip(*[(model, share) for model, share in used if model is not None and share], strict=True))


def start(network: ScareNetwork, features: np.ndarray, targets: np.ndarray) -> ScareNetwork:
    """The network at its linear solution."""
    return network.start(linear_mean(network, features, targets).solution)


def ones_step(source: str, scale: np.ndarray) -> Step:
    """The sum of all numbers, each times its scale."""
    return Step("dense", (source,), "y", {"weight": scale[:, None].astype(np.float32)})


def glorot_limit(weights: jax.Array) -> float:
    return float(np.sqrt(6 / sum(weights.shape)))


def test_a_new_default_network_starts_as_the_recipe_says(default: ScareNetwork) -> None:
    hats = HatBasis(WINDOW)
    membership = hats.matrix.T @ (bin_averages(WINDOW, LENSES) > 0)
    noise = np.asarray(default.projector.weight) - membership / membership.sum(axis=0)
    assert np.std(noise) == pytest.approx(0.02 / np.sqrt(hats.size), rel=0.5)
    assert np.std(default.projector.bias) == pytest.approx(0.1, rel=0.5)
    assert np.std(default.attention.hashing.projection) == pytest.approx(1.0, rel=0.2)
    assert np.std(default.feed_forward.inner) == pytest.approx(np.sqrt(2 / 8), rel=0.2)
    assert np.std(default.feed_forward.outer) == pytest.approx(np.sqrt(2 / 32), rel=0.2)
    attention = default.attention
    for weights in (default.embedding.overall, attention.query, attention.key, attention.value):
        assert 0.8 * glorot_limit(weights) < np.abs(weights).max() <= glorot_limit(weights)
    for zeros in (default.head.weight, default.head.bias, default.skip, default.embedding.local_bias):
        assert not np.any(zeros)


def test_the_default_preset_has_no_norm_a_flat_head_and_a_skip(default: ScareNetwork) -> None:
    assert default.norms is None
    assert default.head.weight.shape == (LENSES * 8,)
    assert default.skip.shape == (HatBasis(WINDOW).size,)
    assert Scare.default().attention.sampling is Sampling.STRATIFIED
    assert Scare.default().block.hidden == 32


def test_the_papers_preset_has_norms_two_steps_and_glorot_lenses(paper: ScareNetwork) -> None:
    assert len(paper.norms) == 2
    assert paper.head.over_tokens.shape == (LENSES,)
    assert paper.skip is None
    assert paper.basis is None
    assert np.abs(paper.projector.weight).max() <= glorot_limit(paper.projector.weight)
    assert Scare.paper().attention.sampling is Sampling.UNIFORM
    assert Scare.paper().block.hidden == 64


def test_the_papers_preset_has_the_size_the_paper_allows() -> None:
    assert Scare.paper().parameters(360, 1) == 7811


def test_the_ablation_adds_one_part_at_a_time() -> None:
    assert [ABLATION[number].front.patching for number in range(1, 7)] == [False] + [True] * 5
    assert [ABLATION[number].front.overall for number in range(1, 7)] == [False] * 2 + [True] * 4
    mixes = [ABLATION[number].attention.mix for number in range(1, 7)]
    assert mixes == [Mix.MULTI_HEAD] * 3 + [Mix.HASH] + [Mix.BITWISE] * 2
    assert ABLATION[5].attention.sampling is Sampling.OFF
    for model in ABLATION.values():
        assert (model.block, model.head) == (Scare.paper().block, Scare.paper().head)


@pytest.mark.usefixtures("double")
def test_the_kernel_may_take_raw_vectors_in_python_only(windows: jax.Array) -> None:
    model = replace(Scare.paper(), attention=Attention(raw=True))
    shapes = jax.eval_shape(lambda: model.build(WINDOW, 1, jax.random.key(0)))
    draw = np.random.default_rng(0)
    network = jax.tree.map(lambda leaf: draw.uniform(-1, 1, leaf.shape) if leaf.shape else np.full((), 30.0), shapes)
    plan, read = network.plan(), np.asarray(windows, np.float64)
    np.testing.assert_allclose(run(fold(plan), read), eqx.filter_jit(network)(read), rtol=1e-9)
    assert count(fold(plan)).operations == model.operations(WINDOW, 1)
    assert [step.output for step in hash_steps(plan)] == ["query_codes", "key_codes"]
    with pytest.raises(NotApplicableError, match="'raw_hash_codes' has no"):
        C_FLOAT32[hash_steps(plan)[0].kernel]
    with pytest.raises(UsageError, match="not for multi-head: turn it off"):
        Attention(Mix.MULTI_HEAD, raw=True)


def test_hats_without_lenses_are_refused() -> None:
    with pytest.raises(UsageError, match="hats need lenses"):
        Front(patching=False)
    assert not Front(patching=False, hats=False).hats


@pytest.mark.parametrize("window", [4, 5, 7, 8, 16, 17])
def test_any_window_from_four_readings_on_can_be_built_and_planned(window: int) -> None:
    for model in (Scare.default(), Scare.paper()):
        shapes = jax.eval_shape(lambda model=model: model.build(window, 2, jax.random.key(0)))
        network = jax.tree.map(lambda leaf: np.ones(leaf.shape), shapes)
        assert network.plan().window == window
        assert model.tokens(window) == lenses(window)


def test_the_start_puts_ridge_into_the_skip_and_the_bias(default: ScareNetwork) -> None:
    rng = np.random.default_rng(0)
    read = rng.normal(size=(100, HatBasis(WINDOW).size, 1)).astype(np.float32)
    targets = (2 * read[:, 0, 0] + 1).astype(np.float32)
    weights, bias = linear_mean(default, read, targets).solution
    started = start(default, read, targets)
    np.testing.assert_allclose(np.concatenate([started.skip, started.curve]), weights, rtol=1e-6)
    assert float(started.head.bias) == pytest.approx(bias)
    np.testing.assert_array_equal(started.head.weight, default.head.weight)


def test_the_start_knows_what_two_readings_do_together() -> None:
    rng = np.random.default_rng(1)
    read = rng.normal(size=(2000, HatBasis(WINDOW).size, 2))
    newest = read[:, 0]
    targets = newest[:, 0] * newest[:, 1] - 0.5 * newest[:, 1] ** 2 + newest[:, 0]
    started = start(Scare.default().build(WINDOW, 2, jax.random.key(0)), read, targets)
    error = np.asarray(started(read.astype(np.float32))) - targets
    assert error.std() < 0.1 * targets.std()  # what is left are readings beyond three deviations
    started = start(Scare(head=Head(curve=False)).build(WINDOW, 2, jax.random.key(0)), read, targets)
    assert (np.asarray(started(read.astype(np.float32))) - targets).std() > 0.7 * targets.std()


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
def test_a_share_of_what_a_network_learned_is_added_to_any_linear_model(share: float) -> None:
    rng = np.random.default_rng(2)
    read = rng.normal(size=(200, HatBasis(WINDOW).size, 2))
    network = Scare.default().build(WINDOW, 2, jax.random.key(0))
    started = start(network, read, read[:, 0, 0] + read[:, 3, 1])
    other = start(network, read, 2 * read[:, 0, 1] - read[:, 1, 0] + 0.5)
    learned = jax.tree.map(lambda leaf: leaf + 0.1, started)
    expected = other(read) + share * (learned(read) - started(read))
    np.testing.assert_allclose(learned.added_to(other, started, share)(read), expected, rtol=1e-4, atol=1e-4)


def test_feature_steps_give_the_features_but_for_a_scale(default: ScareNetwork) -> None:
    windows = np.random.default_rng(4).normal(size=(20, WINDOW, 1)).astype(np.float32)
    steps, scale = default.feature_steps()
    found = run(Plan(WINDOW, 1, (*steps, ones_step(steps[-1].output, scale))), windows)
    expected = np.einsum("tk,btc->bkc", default.basis, windows).reshape(20, -1).sum(axis=1)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("reads", ["newest", "newest and products", "history", "history and products"])
def test_the_plan_of_the_start_gives_what_the_network_gives_there(reads: str) -> None:
    basis, rng = HatBasis(WINDOW), np.random.default_rng(3)
    rows = basis.size if "history" in reads else 1
    line = np.zeros((basis.size, 2))
    line[:rows] = rng.normal(size=(rows, 2))
    curve = rng.normal(size=3) * ("products" in reads)
    network = Scare.default().build(WINDOW, 2, jax.random.key(0)).start((np.append(line, curve), 0.25))
    plan, windows = network.start_plan(), rng.normal(size=(50, WINDOW, 2)).astype(np.float32)
    if "history" in reads:
        expected = network(jnp.einsum("tk,btc->bkc", jnp.asarray(basis.matrix, jnp.float32), windows))
    else:
        assert plan.steps[0].kernel == "newest"  # of which the first hat is almost all
        expected = windows[:, -1] @ line[0] + products(windows[:, -1]) @ curve + 0.25
    np.testing.assert_allclose(run(plan.astype(np.float32), windows), expected, rtol=1e-4, atol=1e-4)
    assert len(plan.steps) <= 7


def test_a_reading_never_seen_cannot_run_away_squared() -> None:
    network = Scare.default().build(WINDOW, 1, jax.random.key(0))
    network = eqx.tree_at(lambda n: (n.head.weight, n.curve), network, (0 * network.head.weight, jnp.ones(1)))
    outputs = network(jnp.full((2, HatBasis(WINDOW).size, 1), jnp.array([3.0, 1000.0])[:, None, None]))
    np.testing.assert_allclose(outputs, [9.0, 9.0], rtol=1e-6)


def test_a_curve_without_a_skip_is_refused() -> None:
    with pytest.raises(UsageError, match=r"turn head\.skip on"):
        Head(skip=False)


def test_a_network_starts_at_a_linear_model_if_it_has_a_skip(default: ScareNetwork, paper: ScareNetwork) -> None:
    assert default.has_linear_start
    assert not paper.has_linear_start


def supports_of(network: ScareNetwork) -> np.ndarray:
    return np.asarray(network.attention.hashing.supports.array)


def units(tokens: jax.Array) -> np.ndarray:
    return np.asarray(tokens / jnp.linalg.norm(tokens, axis=-1, keepdims=True))


def test_learning_draws_the_support_set_from_the_batch(paper: ScareNetwork, windows: jax.Array) -> None:
    _, learned = paper.learn(windows, jax.random.key(1))
    tokens = units(paper.tokens(windows)).reshape(-1, 8)
    nearest = np.square(supports_of(learned)[:, None] - tokens).sum(axis=-1).min(axis=1)
    np.testing.assert_allclose(nearest, 0.0, atol=1e-9)
    _, other = paper.learn(windows, jax.random.key(2))
    assert not np.array_equal(supports_of(learned), supports_of(other))


def test_candidates_differ_in_their_support_set_only(paper: ScareNetwork, windows: jax.Array) -> None:
    first, second, third = paper.candidates(windows, jax.random.key(1), 3)
    assert not np.array_equal(supports_of(first), supports_of(second))
    assert not np.array_equal(supports_of(second), supports_of(third))
    np.testing.assert_array_equal(first.attention.hashing.projection, paper.attention.hashing.projection)


def test_a_frozen_network_keeps_the_chosen_support_set(paper: ScareNetwork, windows: jax.Array) -> None:
    (chosen,) = paper.candidates(windows, jax.random.key(1), 1)
    frozen = paper.freeze(chosen)
    outputs, learned = frozen.learn(windows, jax.random.key(2))
    np.testing.assert_array_equal(supports_of(learned), supports_of(chosen))
    np.testing.assert_array_equal(learned.attention.hashing.bandwidth.array, chosen.attention.hashing.bandwidth.array)
    np.testing.assert_allclose(outputs, chosen(windows), rtol=1e-5, atol=1e-6)
    assert frozen.candidates(windows, jax.random.key(3), 5) == [frozen]


def test_without_sampling_the_support_set_is_drawn_once(paper: ScareNetwork, windows: jax.Array) -> None:
    network = replace(paper, architecture=ABLATION[5])
    once = network.refresh(windows, jax.random.key(1))
    assert not np.array_equal(supports_of(once), supports_of(network))
    np.testing.assert_array_equal(supports_of(once.refresh(windows, jax.random.key(2))), supports_of(once))
    np.testing.assert_array_equal(supports_of(once.learn(windows, jax.random.key(3))[1]), supports_of(once))


def test_with_sampling_a_refresh_changes_nothing(paper: ScareNetwork, windows: jax.Array) -> None:
    assert paper.refresh(windows, jax.random.key(1)) is paper
