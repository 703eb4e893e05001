"""The certificate passes every model there is, and nothing that computes something else."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import scare
from scare.board import certificate
from scare.board.boards import board
from scare.board.certificate import Certificate, ParityCheck, RuntimeOutput, verify
from scare.board.vectors import all_vectors, edge_case_vectors, stream_rows
from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.corrections import CORRECTIONS, bind
from scare.calibrator.parity_tolerance import Tolerance, coded_steps
from scare.calibrator.plan import Plan, Step
from scare.calibrator.plan_passes import fold
from scare.errors import NotApplicableError
from scare.export import lowering
from scare.export.lowering import Arithmetic, compile_calibrator
from scare.export.package import export_calibrator
from scare.export.scare_json import FixedPointError
from scare.models import Architecture
from tests.calibrator.building import attention_plan, curve_plan, make_calibrator, newest_plan, tree_plan, with_edges
from tests.contract.test_models import CASES, random_network
from tests.kernels.test_choice import choice_plan

NANO = board("nano33ble")
FEW = 110  # edge cases and some random windows
FAST = ("scare-default", "dlinear-default", "ecoformer-default")
ONE = Tolerance(1.0, 1.0)


def certify(calibrator: Calibrator, *arithmetics: Arithmetic, **options: Any) -> Certificate:
    return verify(calibrator, NANO, arithmetics or tuple(Arithmetic), FEW, **options)


def random_calibrator(model: Architecture, window: int) -> Calibrator:
    return make_calibrator(fold(random_network(model, window, 2).plan()).astype(np.float32))


def cases() -> list[Any]:
    pairs = [(name, window) for window in (15, 60) for name in CASES]
    quick = {(name, 15) for name in FAST}
    return [pytest.param(*pair, marks=() if pair in quick else pytest.mark.slow) for pair in pairs]


@pytest.mark.parametrize(("name", "window"), cases())
def test_every_model_passes(name: str, window: int) -> None:
    found = certify(random_calibrator(CASES[name], window))
    assert found.passed, found.reasons
    for result in found.results.values():
        assert result.absent.startswith("float32 only") or result.windows


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_every_model_passes_on_risc_v(name: str) -> None:
    found = verify(random_calibrator(CASES[name], 15), board("esp32c3"), tuple(Arithmetic), FEW)
    assert found.passed, found.reasons


@pytest.mark.parametrize(
    "name", [next(iter(CORRECTIONS)), *(pytest.param(one, marks=pytest.mark.slow) for one in list(CORRECTIONS)[1:])]
)
def test_every_published_correction_passes(name: str) -> None:
    roles = CORRECTIONS[name].roles
    found = certify(bind(CORRECTIONS[name], {role.name: role.channel for role in roles}, 60.0))
    assert found.passed, found.reasons


@pytest.mark.parametrize("plan", [newest_plan(1), attention_plan(), choice_plan()], ids=["row", "network", "branches"])
def test_a_calibrator_passes_for_each_device_and_for_the_fleet(plan: Plan) -> None:
    for device, settle in (("box-2", 0), ("", 30)):
        found = certify(make_calibrator(plan, settle), Arithmetic.FLOAT32, device=device)
        assert found.passed, found.reasons
        assert found.calibrator["device"] == device


def test_values_beyond_training_intervals_and_flags_are_alike() -> None:
    found = certify(with_edges(make_calibrator(curve_plan())))
    assert found.passed, found.reasons
    for result in found.results.values():
        assert result.streaming is not None
        assert result.streaming.flags["OUTSIDE"] > 20
        assert result.streaming.intervals == result.streaming.statuses["ok"]


@pytest.mark.parametrize("hats", [True, False])
def test_trees_pass_in_both_arithmetics(hats: bool) -> None:
    found = certify(with_edges(make_calibrator(tree_plan(hats=hats))))
    assert found.passed, found.reasons
    for result in found.results.values():
        assert result.windows is not None
        assert result.windows.tokens > 90 * (25 + 1)  # a path through each tree, and the guard
        assert result.windows.equal_codes > 0.9999
    assert found.results["float32"].ties is not None


@pytest.mark.parametrize(
    ("arithmetic", "file", "before", "after"),
    [
        (Arithmetic.FLOAT32, "src/trees_f32.c", "x[feature] > table[node]", "x[feature] > 1.01f * table[node]"),
        (Arithmetic.FLOAT32, "src/trees_f32.c", "x[i] <= guard[1]", "x[i] <= 0.5f * guard[1]"),
        (Arithmetic.FIXED, "src/trees_q.c", "- (uint32_t)number)", "- (uint32_t)(number + 4096))"),
    ],
)
def test_other_paths_are_found(
    monkeypatch: pytest.MonkeyPatch, arithmetic: Arithmetic, file: str, before: str, after: str
) -> None:
    edited(monkeypatch, file, lambda text: text.replace(before, after))
    found = certify(make_calibrator(tree_plan()), arithmetic)
    expected = "codes of" if arithmetic is Arithmetic.FLOAT32 else "host and Python differ"
    assert any(expected in reason for reason in found.reasons), found.reasons


def test_a_path_that_ends_elsewhere_tells_how_far_from_a_threshold_it_left(monkeypatch: pytest.MonkeyPatch) -> None:
    calibrator = make_calibrator(tree_plan(hats=False, guarded=0))
    (step,) = coded_steps(calibrator.plan)
    near = calibrator.golden.windows.copy()
    at = int(step.weights["feature"][3, 0])
    near[0].flat[at] = step.weights["threshold"][3, 0] + np.float32(3e-5)
    calibrator = replace(calibrator, golden=replace(calibrator.golden, windows=near))
    other = "x[feature] > table[node] + (tree == 3u && node == 1u ? 1e-4f : 0.0f)"
    edited(monkeypatch, "src/trees_f32.c", lambda text: text.replace("x[feature] > table[node]", other))
    windows = certify(calibrator, Arithmetic.FLOAT32).results["float32"].windows
    assert windows is not None
    assert (windows.listed[0].index, windows.listed[0].kind, windows.listed[0].tokens) == (0, "golden", 1)
    assert windows.listed[0].from_tie == pytest.approx(3e-5, rel=0.05)


@pytest.fixture(scope="module")
def passed() -> Certificate:
    return certify(make_calibrator(newest_plan(6)))


def test_it_reports_what_was_compared(passed: Certificate) -> None:
    reported = passed.as_dict()
    assert (reported["passed"], reported["reasons"]) == (True, [])
    assert reported["made_with"] == {
        "board": "nano33ble",
        "scare": scare.__version__,
        "ziglang": "0.16.0",
        "unicorn": "2.1.4",
    }
    for result in reported["results"].values():
        kinds = result["windows"]["windows"]
        expected = {"golden", "validation", "zero", "tiny", "constant", "step", "spike", "comb", "ramp", "ends", "nan"}
        assert kinds.keys() >= expected | {"infinite", "beyond", "noise", "walk"}
        assert result["windows"]["equal_bits"]["host_board"] == sum(kinds.values()) == FEW + 6
        assert result["streaming"]["statuses"].keys() == {"ok", "history", "missing", "range", "early"}
    assert reported["results"]["fixed"]["windows"]["equal_bits"]["host_python"] == FEW + 6
    assert 0 < reported["results"]["float32"]["windows"]["largest"]["share"] < 1e-5


def test_the_same_calibrator_has_the_same_certificate(passed: Certificate) -> None:
    assert certify(make_calibrator(newest_plan(6))).as_dict() == passed.as_dict()


def test_a_network_in_float32_only_says_so_and_passes() -> None:
    calibrator = make_calibrator(attention_plan())
    found = certify(calibrator)
    assert found.passed
    assert found.results["fixed"].as_dict() == {"absent": found.results["fixed"].absent}
    assert found.results["fixed"].absent.startswith("float32 only")
    assert found.results["float32"].ties is not None
    assert found.results["float32"].windows.tokens == 6 * 91  # type: ignore[union-attr]
    with pytest.raises(NotApplicableError, match="float32 only"):
        certify(calibrator, Arithmetic.FIXED)


Edit = Callable[[str], str]


def edited(monkeypatch: pytest.MonkeyPatch, file: str, edit: Edit) -> None:
    """Someone changes a file of every export."""

    def export(calibrator: Calibrator, target: str, arithmetic: str, folder: Path, device: str = "") -> Any:
        package = export_calibrator(calibrator, target, arithmetic, folder, device)
        path = folder / file
        before = path.read_text(encoding="utf-8")
        after = edit(before)
        assert after != before
        path.write_text(after, encoding="utf-8")
        return package

    monkeypatch.setattr(certificate, "export_calibrator", export)


def other_weight(source: str) -> str:
    """The first number of the first table of weights, a little larger."""
    found = re.search(r"table_\w+\[\d*\][^=]* = \{\s*(-?[\w.+-]+)", source)
    assert found
    number = found[1]
    larger = f"{float.fromhex(number.rstrip('f')) * 1.001:.9g}f" if "x" in number else str(int(number) - 1)
    return source[: found.start(1)] + larger + source[found.end(1) :]


@pytest.mark.parametrize("arithmetic", Arithmetic)
def test_another_weight_is_found(monkeypatch: pytest.MonkeyPatch, arithmetic: Arithmetic) -> None:
    edited(monkeypatch, "model.c", other_weight)
    found = certify(make_calibrator(newest_plan(6)), arithmetic)
    assert not found.passed
    assert any("Python" in reason for reason in found.reasons)
    assert found.results[arithmetic].windows.equal_bits["host_board"] == FEW + 6  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("status = SCARE_RANGE", "status = SCARE_MISSING", "different statuses"),
        ("rest >= step_ms - rest", "rest > 0u", "different statuses"),
        (" - channel->rest) * channel->inverse", ") * 1.001f * channel->inverse", "in the window"),
        ("answer->value = none", "answer->value = 7.0f", "without the status"),
        ("distance > model->limit", "distance > 2.0f * model->limit", "different flags"),
        ("number < range->high", "number < 2.0f * range->high", "different statuses"),
        ("lowest ? lowest : scaled", "lowest ? scaled : scaled", "farther from Python"),
        ("beyond * model->slope", "0.9f * beyond * model->slope", "farther from Python"),
        ("factor * interval->above", "interval->above", "different intervals"),
        ("larger(value, model->floor)", "value", "different intervals"),
    ],
)
def test_another_runtime_is_found(monkeypatch: pytest.MonkeyPatch, before: str, after: str, reason: str) -> None:
    edited(monkeypatch, "src/scare.c", lambda text: text.replace(before, after))
    found = certify(with_edges(make_calibrator(newest_plan(6))), Arithmetic.FLOAT32)
    assert any(reason in one for one in found.reasons), found.reasons


def test_a_board_that_differs_from_the_host_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong = "#ifdef __arm__\n    *scaled += 1e-7f;\n#endif\n}\n\nconst scare_model"
    edited(monkeypatch, "model.c", lambda text: re.sub(r"\}\s+const scare_model", wrong, text))
    found = certify(make_calibrator(newest_plan(6)), Arithmetic.FLOAT32)
    assert any("host and the board differ" in reason for reason in found.reasons)
    assert any("streaming: host and the board differ" in reason for reason in found.reasons)


@pytest.mark.slow
def test_fixed_point_that_is_off_in_the_mean_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    calibrator = make_calibrator(fold(random_network(CASES["scare-default"], 15, 2).plan()).astype(np.float32))
    windows = np.random.default_rng(3).normal(size=(200, 15, 2)).astype(np.float32)
    calibrator = replace(calibrator, validation=Sample(windows, calibrator.compute(windows)))
    correct_bias = lowering.correct_bias

    def shifted(integer: Plan, exact: Plan, windows: np.ndarray) -> Plan:
        """Add 0.003 standard deviations of the target."""
        corrected = correct_bias(integer, exact, windows)
        *steps, last = corrected.steps
        offset = last.settings["offset"] + round(0.003 / last.settings["unit"])
        return replace(corrected, steps=(*steps, replace(last, settings={**last.settings, "offset": offset})))

    good = certify(calibrator, Arithmetic.FIXED).results["fixed"]
    monkeypatch.setattr(lowering, "correct_bias", shifted)
    bad = certify(calibrator, Arithmetic.FIXED).results["fixed"]
    assert good.fixed_point
    assert bad.fixed_point
    assert abs(good.fixed_point.mean) <= 0.02 * good.fixed_point.sd
    assert bad.fixed_point.mean - good.fixed_point.mean == pytest.approx(0.003 * bad.fixed_point.deviation, rel=0.1)
    assert good.reasons == []
    (reason,) = bad.reasons
    assert reason.startswith("fixed point differs from float32 by")


@pytest.mark.parametrize(
    ("mean", "sd", "passes"),
    [
        (0.0019, 0.1, True),
        (0.0021, 0.1, False),  # 0.002 of the target's deviation
        (-0.0009, 0.01, True),
        (-0.0011, 0.01, False),  # 0.1 of the difference's own
        (9e-6, 1e-7, True),  # within the tolerance of float32
    ],
)
def test_the_bar_on_the_mean_is_the_lower_of_two(mean: float, sd: float, passes: bool) -> None:
    result = certificate.ArithmeticResult(fixed_point=FixedPointError(500, 8.0 * mean, 8.0 * sd, 8.0))
    assert (not result.reasons) == passes


def computed(*outputs: float, codes: np.ndarray | None = None) -> RuntimeOutput:
    none = np.empty((len(outputs), 0), np.uint32)
    return RuntimeOutput(np.array(outputs, np.float32), none if codes is None else codes)


def check(python: RuntimeOutput, host: RuntimeOutput, kinds: str = "noise") -> ParityCheck:
    return ParityCheck(np.full(len(host.outputs), kinds), python, host, host)


@pytest.mark.parametrize(
    ("python", "host", "deviation", "agrees"),
    [
        (1.0, 1.0 + 9e-6, 0.1, True),
        (1.0, 1.0 + 12e-6, 0.1, False),
        (0.0, 9e-6, 1.0, True),
        (0.0, 9e-6, 0.1, False),
        (300.0, 300.002, 1.0, True),
        (np.nan, np.nan, 1.0, False),  # a number is due
        (np.nan, 1.0, 1.0, False),
        (1.0, np.inf, 1.0, False),
    ],
)
def test_a_result_is_near_or_not(python: float, host: float, deviation: float, agrees: bool) -> None:
    one = check(computed(python), computed(host))
    assert (not one.agree(False, Tolerance(deviation, 1.0), {}).reasons) == agrees
    assert one.agree(True, Tolerance(deviation, 1.0), {}).reasons or python != python


def test_where_no_number_is_due_all_runtimes_must_know() -> None:
    assert not check(computed(np.nan, 5.0), computed(np.inf, 7.0), "beyond").agree(False, ONE, {}).reasons
    (reason,) = check(computed(np.nan), computed(5.0), "nan").agree(False, ONE, {}).reasons
    assert "not in both" in reason


@pytest.mark.parametrize(("tokens", "agrees"), [(10_001, True), (10_000, False)])
def test_one_hash_code_in_each_ten_thousand_begun_may_differ_and_is_listed(tokens: int, agrees: bool) -> None:
    ours = np.zeros((1, tokens), np.uint32)
    theirs = ours.copy()
    theirs[0, [7, 9]] = 4
    far = check(computed(1.0, codes=ours), computed(2.0, codes=theirs)).agree(False, ONE, {0: 2e-7})
    assert (not far.reasons) == agrees
    assert far.equal_codes == pytest.approx(1 - 2 / tokens)
    (listed,) = far.listed
    assert (listed.index, listed.kind, listed.tokens, listed.difference, listed.from_tie) == (0, "noise", 2, 1.0, 2e-7)
    assert far.largest["share"] == 0.0  # codes differ: not judged by its result


def test_c_may_be_as_far_off_as_float32_is_in_numpy() -> None:
    apart = check(computed(0.1), computed(0.1 + 4e-6))
    assert apart.agree(False, Tolerance(0.1, 1.0), {}).reasons
    assert apart.agree(False, Tolerance(0.1, 1.0, 0.0, 1e-6), {}).reasons
    explained = apart.agree(False, Tolerance(0.1, 1.0, 0.0, 3e-6), {})
    assert (explained.reasons, explained.beyond, explained.rounding) == ((), 1, 3e-6)  # it passes, and says how
    assert check(computed(0.1), computed(0.1)).agree(False, Tolerance(0.1, 1.0, 0.0, 3e-6), {}).beyond == 0


def test_large_numbers_that_cancel_are_off_by_the_rounding_of_large_numbers() -> None:
    """Weights of 60 rows whose signed sum is nearly 0: readings that alternate between ±10,000 give a small result."""
    rng = np.random.default_rng(6)
    weight = rng.normal(0, 0.1, 120).astype(np.float32)
    signs = np.repeat(1 - 2 * (np.arange(60) % 2), 2)  # of rows, for both channels
    weight -= signs * np.float32((weight @ signs) / 120)
    dense = Step("dense", ("all",), "y", {"weight": weight[:, None], "bias": np.array([0.25], np.float32)})
    plan = Plan(60, 2, (Step("flatten", ("x",), "all"), dense))
    validation = Sample(rng.normal(size=(500, 60, 2)).astype(np.float32), rng.normal(size=500))
    found = certify(replace(make_calibrator(plan), validation=validation), Arithmetic.FLOAT32)
    windows = found.results["float32"].windows
    assert windows.largest["share"] > 1e-5  # beyond what the strict rule allows
    assert windows.beyond > 0
    assert found.passed, found.reasons


def test_rounding_grows_with_the_numbers_of_a_window() -> None:
    apart = check(computed(16.0), computed(16.0 + 2e-4))
    assert apart.agree(False, Tolerance(1.0, 1.0, 0.0, 1e-6), {}).reasons
    assert not apart.agree(False, Tolerance(1.0, 1.0, 0.0, 1e-6, np.array([200.0])), {}).reasons
    assert apart.agree(False, Tolerance(1.0, 1.0, 0.0, 1e-6, np.array([50.0])), {}).reasons


def test_vectors_hold_what_is_asked_for() -> None:
    calibrator = make_calibrator(newest_plan(6))
    every, edge_cases = all_vectors(calibrator, 300), edge_case_vectors(calibrator)
    assert len(every) == 300 + 6
    assert len(all_vectors(calibrator, 1)) == len(edge_cases) + 6
    ends = edge_cases.windows[edge_cases.kinds == "ends"]
    seen = np.abs(np.concatenate([calibrator.golden.windows, calibrator.validation.windows])).max(axis=(0, 1))
    np.testing.assert_allclose(ends[:, 0, 0], [(0 - 22) / 8.5, (1000 - 22) / 8.5], rtol=1e-6)
    np.testing.assert_allclose(ends[:, 0, 1], [-8 * seen[1], 8 * seen[1]], rtol=1e-6)  # a current has no limits
    spikes = edge_cases.windows[edge_cases.kinds == "nan"]
    assert any(np.isnan(window[-1]).all() and not np.isnan(window[:-1]).any() for window in spikes)


@pytest.mark.parametrize("arithmetic", Arithmetic)
def test_a_stream_is_bad_in_every_way(arithmetic: Arithmetic) -> None:
    facts = compile_calibrator(make_calibrator(newest_plan(6)), arithmetic, "box-1").descriptor
    readings = stream_rows(facts, 6)
    rows, times = np.stack([one.numbers for one in readings]), np.array([one.now_ms for one in readings])
    assert np.isnan(rows).any()
    assert np.isinf(rows).any()
    assert {*facts.absent} <= {*rows.ravel().tolist()}
    for column, channel in enumerate(facts.channels):
        low, high = channel.valid
        assert (rows[:, column] < low).any()
        assert (rows[:, column] > high).any()
        assert {low, high} <= {*rows[-4:, column].tolist()} or high > 1e29
    waits = np.diff(times) / facts.step_ms
    assert waits.min() < -6 < waits[waits < 0].max() < 0
    assert waits.max() > facts.checked + facts.hold
    assert times[0] < 1 << 32 < times[-1]
    assert sum(one.restart for one in readings) == 1


def test_a_slow_sensor_has_a_stream_too() -> None:
    calibrator = make_calibrator(newest_plan(6))
    hourly = replace(calibrator, inputs=replace(calibrator.inputs, step_seconds=36 * 3600.0))
    found = certify(hourly, Arithmetic.FLOAT32)
    assert found.passed, found.reasons
