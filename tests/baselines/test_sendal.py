"""SenDaL: two branches, a classifier that learns where the deep one pays, and decisions that hold; its LSTM."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pytest

from scare.baselines.sendal import Deep, Lstm, Sendal, SendalNetwork, soft_labels
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.cost import count
from scare.calibrator.plan import run
from scare.calibrator.plan_passes import fold
from scare.data.readings import CALIBRATED, Readings
from scare.kernels import Operations
from scare.models.scare import ABLATION
from scare.training.loop import split_moving
from scare.training.recipe import Recipe, TrainingSettings
from tests.layers.numbers_for_layers import compute, random_layer, random_tokens
from tests.training.small_fits import Trained, make_readings, train

TRANSFORMER, LSTM = Sendal(), Sendal(Deep.LSTM)
both_kinds = pytest.mark.parametrize("model", [TRANSFORMER, LSTM], ids=["transformer", "lstm"])
EVERY = ["simple.inner", "simple.head", "deep", "deep.head", "classifier"]


def random_network(model: Sendal, window: int, channels: int, number: Any = np.float64) -> SendalNetwork:
    rng = np.random.default_rng(0)
    shapes = eqx.filter_eval_shape(model.build, window, channels, jax.random.key(0))
    drawn = jax.tree.map(lambda leaf: (rng.normal(size=leaf.shape) / 2).astype(number), shapes)
    return eqx.tree_at(lambda n: n.classifier.bias, drawn, np.full(1, 0.02, number))  # so that both branches are chosen


def random_windows(count: int, window: int, channels: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, window, channels))


# sizes


def test_the_sizes_are_those_of_the_card() -> None:
    assert LSTM.parameters(360, 1) == 1284 == 49 + 1233 + 2
    assert TRANSFORMER.parameters(360, 1) == 49 + ABLATION[1].parameters(360, 1) + 2 == 2693
    products = 360 * 64 * 17 + 16  # the card's: matrix products only
    elementwise = 3 * 16 * 360
    assert products == 391_696
    assert LSTM.operations(360, 1).multiply_adds == products + elementwise + 360
    assert TRANSFORMER.operations(360, 1).multiply_adds == ABLATION[1].operations(360, 1).multiply_adds + 360


@both_kinds
@pytest.mark.parametrize("channels", [1, 4])
def test_both_paths_cost_what_is_declared(model: Sendal, channels: int) -> None:
    plan = fold(random_network(model, 60, channels).plan())
    # of the simple branch: its layers and, at most, one a unit for the slope
    asked, simple = model.classifier_operations(60, channels), Operations(channels * 16 + 16 + 16)
    assert asked == Operations(60 * channels, 120, exponentials=60, divisions=61)
    decision, cheap, dear = (count(part).operations for part in plan.branches or ())
    assert (decision, cheap) == (asked, simple)
    assert model.operations(60, channels) == asked + dear == count(plan).operations
    always_simple = count(plan, 0.0).mean_operations
    assert always_simple.multiply_adds == round(simple.multiply_adds + asked.multiply_adds / 60)
    always_deep = count(plan, 1.0).mean_operations
    assert always_deep.multiply_adds == round(dear.multiply_adds + asked.multiply_adds / 12)


# equations


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def plain_simple(network: SendalNetwork, window: np.ndarray) -> float:
    hidden = [float(v) for v in window[-1] @ network.simple.inner.weight + network.simple.inner.bias]
    bent = [v if v > 0 else 0.1 * v for v in hidden]
    return float(np.array(bent) @ network.simple.head.weight[:, 0] + network.simple.head.bias[0])


def plain_lstm(network: SendalNetwork, window: np.ndarray) -> float:
    cell, head = network.deep.memory, network.deep.head
    state, memory = np.zeros(16), np.zeros(16)
    for row in window:
        gates = row @ cell.input + cell.input_bias + state @ cell.hidden + cell.hidden_bias
        write, keep, new, show = gates.reshape(4, 16)
        memory = sigmoid(keep) * memory + sigmoid(write) * np.tanh(new)
        state = sigmoid(show) * np.tanh(memory)
    return float(state @ head.weight[:, 0] + head.bias[0])


def plain_norm(x: np.ndarray, norm: Any) -> np.ndarray:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(axis=1, keepdims=True) + 1e-6) * norm.gain + norm.bias


def plain_transformer(network: SendalNetwork, window: np.ndarray) -> float:
    """One token a reading, four heads of key width 8, post-norm, feed-forward, head over tokens, then features."""
    deep, attended = network.deep, np.zeros((len(window), 8))
    tokens = window @ deep.embedding.local + deep.embedding.local_bias
    layer = deep.attention
    for head in range(4):
        part = slice(8 * head, 8 * head + 8)
        query, key, value = (
            tokens @ matrix[:, part] + bias[part]
            for matrix, bias in (
                (layer.query, layer.query_bias),
                (layer.key, layer.key_bias),
                (layer.value, layer.value_bias),
            )
        )
        scores = np.exp(query @ key.T / np.sqrt(8))
        attended += scores / scores.sum(axis=1, keepdims=True) @ value @ layer.out[part]
    first = plain_norm(tokens + attended + layer.out_bias, deep.norms[0])
    ff = deep.feed_forward
    fed = np.maximum(first @ ff.inner + ff.inner_bias, 0) @ ff.outer + ff.outer_bias
    out = plain_norm(first + fed, deep.norms[1])
    pooled = deep.head.over_tokens @ out + deep.head.token_bias
    return float(pooled @ deep.head.over_width + deep.head.bias)


@both_kinds
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.usefixtures("double")
def test_the_network_is_the_card_written_out(model: Sendal, channels: int) -> None:
    network, windows = random_network(model, 7, channels), random_windows(20, 7, channels)
    deep = plain_lstm if model.deep is Deep.LSTM else plain_transformer
    expected, chosen = [], 0
    for window in windows:
        decision = np.mean([sigmoid(row @ network.classifier.weight + network.classifier.bias) for row in window])
        chosen += decision > 0.5
        expected.append(deep(network, window) if decision > 0.5 else plain_simple(network, window))
    assert 2 <= chosen <= 18
    np.testing.assert_allclose(eqx.filter_jit(network)(windows), expected, rtol=1e-9)
    np.testing.assert_allclose(run(network.plan(), windows), expected, rtol=1e-9)


def test_the_deep_branch_is_exp_1_of_the_ablation() -> None:
    assert TRANSFORMER.transformer == ABLATION[1]


def test_other_sizes_build_too() -> None:
    model = Sendal(hidden=5, width=4, heads=2, feed_forward=6)
    leaves = jax.tree.leaves(random_network(model, 8, 2))
    assert sum(leaf.size for leaf in leaves) == model.parameters(8, 2)
    assert count(fold(random_network(model, 8, 2).plan())).operations == model.operations(8, 2)


# labels


def plain_labels(targets: np.ndarray, simple: np.ndarray, deep: np.ndarray, margin: float) -> list[float]:
    """The card, example by example; beyond the ends the first and the last label go on."""
    pays = [abs(y - s) - abs(y - d) - margin > 0 for y, s, d in zip(targets, simple, deep, strict=True)]
    last, sums = len(pays) - 1, []
    for t in range(len(pays)):
        box = [pays[min(max(at, 0), last)] for at in range(t - 51, t + 50)]  # one before the box of 100
        flips = sum(a != b for a, b in pairwise(box))
        sums.append((sum(box[1:]) / 100 > 0.5) + flips)
    low, high = min(sums), max(sums)
    scaled = [(u - low) / (high - low + 1e-4) for u in sums]
    return [4 * u / (3 * u + 1) for u in scaled]


@pytest.mark.parametrize("rows", [1, 2, 60, 99, 100, 101, 500])
def test_labels_are_the_card_written_out(rows: int) -> None:
    rng = np.random.default_rng(rows)
    targets = rng.normal(size=rows).cumsum()
    errors = np.repeat(rng.normal(size=(2, rows // 20 + 1)), 20, axis=1)[:, :rows] + 0.3 * rng.normal(size=(2, rows))
    simple, deep = targets + errors
    found = soft_labels(targets, simple, deep, 0.1)
    assert found.dtype == np.float32
    if len(set(plain_labels(targets, simple, deep, 0.1))) > 1:
        np.testing.assert_allclose(found, plain_labels(targets, simple, deep, 0.1), rtol=1e-5, atol=1e-6)
    else:
        assert set(found.tolist()) <= {0.0, 1.0}
    assert rows < 60 or found.std() > 0.1


def test_boxes_lie_as_in_the_published_code() -> None:
    pays = np.repeat(np.random.default_rng(0).random(60) < 0.5, 10)
    pays[:100] = pays[-100:] = False  # so that what lies beyond the ends is the same
    targets, box = np.zeros(600), np.ones(100)
    mostly = np.convolve(pays, box, "same") > 50
    label = mostly + np.convolve(pays ^ np.roll(pays, 1), box, "same")
    scaled = (label - label.min()) / (label.max() - label.min() + 1e-4)
    np.testing.assert_allclose(soft_labels(targets, pays * 1.0, targets, 0.1), 4 * scaled / (3 * scaled + 1), rtol=1e-5)


@pytest.mark.parametrize(("gain", "label"), [(0.2, 1.0), (0.05, 0.0), (-1.0, 0.0)])
def test_a_branch_that_always_or_never_pays_says_so(gain: float, label: float) -> None:
    targets = np.arange(300.0)
    assert set(soft_labels(targets, targets + 2, targets + 2 - gain, 0.1).tolist()) == {label}


def test_the_margin_is_a_share_of_the_spread_of_the_targets() -> None:
    network, targets = random_network(TRANSFORMER, 4, 1), np.random.default_rng(2).normal(0, 30, 400)
    outputs = targets[:, None] + np.array([3.0, 1.0])  # the deep branch gains 2
    for share, label in ((1.9 / targets.std(), 1.0), (2.1 / targets.std(), 0.0)):
        asked = replace(network, architecture=Sendal(margin=share))
        entered, labels = asked.enter(1, targets, lambda _: outputs)
        assert entered.phase == 1
        assert labels is not None
        assert set(labels.tolist()) == {label}


# training


def parts(network: SendalNetwork) -> dict[str, list[np.ndarray]]:
    """The numbers of each part that a phase moves or leaves."""
    heads = {"simple.head": network.simple.head, "deep.head": network.deep.head}
    body = eqx.tree_at(lambda deep: deep.head, network.deep, None)
    rest = {"simple.inner": network.simple.inner, "deep": body, "classifier": network.classifier}
    return {name: jax.tree.leaves(part) for name, part in (heads | rest).items()}


@both_kinds
def test_each_phase_moves_its_parts_and_its_loss_reaches_all_of_them(model: Sendal) -> None:
    network = random_network(model, 6, 1, np.float32)
    windows, targets = random_windows(40, 6, 1).astype(np.float32), np.linspace(0, 1, 40, dtype=np.float32)
    moved = [["simple.inner", "simple.head", "deep", "deep.head"], ["classifier"], ["simple.head", "deep.head"]]
    for phase, names in enumerate(moved):
        moving, rest = split_moving(replace(network, phase=phase))
        for name, leaves in parts(moving).items():
            assert len(leaves) == (len(parts(network)[name]) if name in names else 0)

        def loss(part: Any, rest: Any = rest) -> jax.Array:
            return eqx.combine(part, rest).loss(windows, targets, jax.random.key(0))[0]

        slopes = jax.tree.leaves(eqx.filter_jit(eqx.filter_grad(loss))(moving))
        assert all(np.isfinite(slope).all() for slope in slopes)
        unseen = 1 if phase == 0 and model.deep is Deep.TRANSFORMER else 0  # softmax does not see a bias of all keys
        assert sum(bool(np.any(slope)) for slope in slopes) == len(slopes) - unseen


def test_the_classifier_learns_at_the_newest_row_and_decides_by_the_whole_window() -> None:
    network = replace(random_network(LSTM, 6, 1, np.float32), phase=1)
    windows, labels = random_windows(40, 6, 1).astype(np.float32), np.linspace(0, 1, 40, dtype=np.float32)
    says = sigmoid(windows @ network.classifier.weight + network.classifier.bias)[:, :, 0]
    expected = -(labels * np.log(says[:, -1]) + (1 - labels) * np.log(1 - says[:, -1])).mean()
    assert float(network.loss(windows, labels, jax.random.key(0))[0]) == pytest.approx(float(expected), rel=1e-5)
    np.testing.assert_allclose(network.decision(windows), says.mean(axis=1), rtol=1e-5)


def lagging_readings() -> Readings:
    """A sensor that lags behind the reference while it moves, and is right while it rests."""
    rng = np.random.default_rng(4)
    moving = np.repeat(rng.random(12) < 0.5, 150)
    reference = 20 + np.cumsum(np.where(moving, rng.normal(0, 2.0, 1800), rng.normal(0, 0.01, 1800)))
    values = reference.copy()
    values[1:] = 0.5 * reference[1:] + 0.5 * reference[:-1]
    return make_readings((0.5 * values + 3)[:, None], reference)


@pytest.fixture(scope="module")
def trained() -> Trained:
    settings = TrainingSettings(steps=200, checkpoints=4, batch=32, rate=1e-2, average=0.9)
    return train(lagging_readings(), Recipe("default", Sendal(Deep.LSTM, margin=0.02), 8, settings=settings))


@pytest.mark.slow
def test_the_parts_are_trained_one_after_the_other(trained: Trained) -> None:
    before = [parts(one.given[0].network) for one in trained.rounds]
    after = [parts(one.state.network) for one in trained.rounds]
    phases = [one.given[0].network.phase for one in trained.rounds]
    assert phases == [0] * 4 + [1] + [2]
    moved = {0: set(EVERY) - {"classifier"}, 1: {"classifier"}, 2: {"simple.head", "deep.head"}}
    for phase, start, end in zip(phases, before, after, strict=True):
        for name in EVERY:
            same = all((a == b).all() for a, b in zip(start[name], end[name], strict=True))
            assert same != (name in moved[phase])


def test_the_classifier_learns_the_labels_of_the_trained_branches(trained: Trained) -> None:
    gather, references = trained.rounds[0].given[1:3]
    (second,) = (one for one in trained.rounds if one.given[0].network.phase == 1)
    network, labels = second.given[0].network, np.asarray(second.given[2])
    windows = np.asarray(gather(np.arange(len(references))))
    simple, deep = np.asarray(network.branches(windows)).T
    expected = soft_labels(np.asarray(references), simple, deep, 0.02 * float(references.std()))
    np.testing.assert_allclose(labels, expected, atol=0.1)  # a label may hang on the last bit of an error
    assert labels.std() > 0.1
    assert float(second.losses[-5:].mean()) < float(second.losses[:5].mean())


def test_it_learns_gain_and_offset_and_only_a_whole_network_is_kept(trained: Trained) -> None:
    raw = np.sqrt(np.square(lagging_readings().values[:, 0] - lagging_readings().targets).mean())
    assert trained.calibrator.facts["validation_rmse"] < 0.3 * raw
    assert [np.isfinite(one.best_rmse) for one in trained.progress] == [False] * 5 + [True]
    assert trained.calibrator.facts["parameters"] == LSTM.parameters(8, 1)


def test_only_the_end_of_a_phase_is_scored_before_the_last(trained: Trained) -> None:
    assert [np.isfinite(one.validation_rmse) for one in trained.progress] == [False] * 3 + [True] * 3
    assert [np.isfinite(one.train_rmse) for one in trained.progress] == [True] * 4 + [False] + [True]


# the choice in a stream


@pytest.fixture(scope="module")
def choosing(trained: Trained) -> Calibrator:
    """The trained calibrator, its classifier turned so that it chooses both branches."""
    network = trained.rounds[-1].state.network
    turned = eqx.tree_at(lambda n: (n.classifier.weight, n.classifier.bias), network, (np.ones((1, 1)), np.zeros(1)))
    return replace(trained.calibrator, plan=fold(turned.plan()).astype(np.float32))


def test_predict_chunks_and_live_agree_and_so_does_a_saved_file(choosing: Calibrator, tmp_path: Path) -> None:
    readings = lagging_readings()
    calibrated = choosing.predict(readings)[CALIBRATED].fill_null(np.nan).to_numpy()
    loaded = Calibrator.load(choosing.save(tmp_path / "sendal.scare"))
    np.testing.assert_array_equal(loaded.predict(readings)[CALIBRATED].fill_null(np.nan), calibrated)
    stream, live, ends = loaded.stream(readings.device), loaded.live(readings.device), [0, 3, 70, 71, 700, 1800]
    chunks = [stream.push(readings.times[a:b], readings.values[a:b])[0] for a, b in pairwise(ends)]
    np.testing.assert_allclose(np.concatenate(chunks), calibrated, rtol=1e-5)
    one_by_one = [live.push(t, row)[0] for t, row in zip(readings.times.tolist(), readings.values, strict=True)]
    np.testing.assert_allclose(one_by_one, calibrated, rtol=1e-5)


def test_a_decision_holds_for_12_or_60_windows(choosing: Calibrator) -> None:
    readings = lagging_readings()
    decision, simple, deep = (
        replace(choosing, plan=part).predict(readings)[CALIBRATED].to_numpy()[7:]
        for part in choosing.plan.branches or ()
    )
    target = choosing.inputs.scaling.target
    asked = (decision - target.center) / target.scale > 0.5
    expected, use_deep, counter = [], False, 0
    for step in range(len(asked)):
        if step == 0 or counter == (12 if use_deep else 60):
            use_deep, counter = asked[step], 0
        counter += 1
        expected.append(deep[step] if use_deep else simple[step])
    np.testing.assert_allclose(choosing.predict(readings)[CALIBRATED].to_numpy()[7:], expected, rtol=1e-5)
    assert 0.1 < np.mean(asked) < 0.9


def test_the_cost_of_a_calibrator_is_the_mean_and_the_worst_reading(choosing: Calibrator) -> None:
    cost = choosing.cost()
    assert cost.operations == LSTM.operations(8, 1)
    assert 3 * LSTM.hidden < cost.mean_operations.multiply_adds
    assert cost.mean_operations.multiply_adds < cost.operations.multiply_adds


BATCH, ROWS, HIDDEN = 3, 6, 4


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("channels", [1, 3])
def test_it_gives_the_last_state_and_so_do_its_kernel_calls(channels: int) -> None:
    layer, x = random_layer(Lstm.create, channels, HIDDEN), random_tokens(BATCH, ROWS, channels)
    expected = np.empty((BATCH, HIDDEN))
    for b, window in enumerate(x):
        state, memory = np.zeros(HIDDEN), np.zeros(HIDDEN)
        for row in window:
            gates = row @ layer.input + layer.input_bias + state @ layer.hidden + layer.hidden_bias
            write, keep, new, show = gates.reshape(4, HIDDEN)
            for unit in range(HIDDEN):
                memory[unit] = sigmoid(keep[unit]) * memory[unit] + sigmoid(write[unit]) * np.tanh(new[unit])
                state[unit] = sigmoid(show[unit]) * np.tanh(memory[unit])
        expected[b] = state
    np.testing.assert_allclose(layer(x), expected, rtol=1e-11)
    np.testing.assert_allclose(compute(layer.steps("x", "h"), "h", (HIDDEN, 1), x), expected, rtol=1e-11)


@pytest.mark.usefixtures("double")
def test_the_published_size_has_1216_parameters() -> None:
    layer = random_layer(Lstm.create, 1, 16)
    assert sum(array.size for array in (layer.input, layer.hidden, layer.input_bias, layer.hidden_bias)) == 1216
