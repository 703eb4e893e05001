"""The server's side of a federation: from the moments of all sites to one calibrator, without their readings.

    moments of each site ─ pooled ─ ridge regression ─ calibrator
                         └ of all other sites ─ columns and penalty, chosen by the error on the site left out
    histograms of errors of the calibrators made without each site ─ intervals
    errors of ways to combine these with a site's own rows ─ what sites choose by (`combined`)

The regression is that of all rows together, but for rounding (`Moments.pooled`). All errors follow from moments, too.
With fewer than `FEWEST_TO_LEAVE_OUT` sites no site is left out: what remained would be a regression for other air than
that of the federation. Then columns and intervals are for the air of the sites themselves, not for a new place.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from scare.calibrator.calibrator import Calibrator, Sample
from scare.calibrator.intervals import LEVEL, MIN_ERRORS, MIN_ROWS, USUAL_WIDENING, Intervals
from scare.calibrator.linear import linear_calibrator, same_unit
from scare.calibrator.model_card import SHARED_FACT
from scare.calibrator.moments import PENALTIES, Moments, Solution
from scare.data.flags import DEFAULT_SETTINGS
from scare.errors import DataError
from scare.federated.agreement import FEWEST_SITES, Agreement
from scare.federated.combined import SharedRegression, make_ways
from scare.federated.plausibility import find_implausible
from scare.federated.robust import robust_mean
from scare.federated.rows import column_sets
from scare.federated.site import BINS, DONE, Values, bin_edges, moments_from_values, numbers
from scare.windowing.inputs import Inputs
from scare.windowing.scaling import Affine, Scaling
from scare.windowing.windows import STRICT

GOLDEN = 64  # drawn windows, to test other runtimes
BAND_EDGES = (-0.5, 0.5, 1.5)  # between the bands of intervals, in standard deviations of the reference
FEWEST_TO_LEAVE_OUT = 4  # sites
SIMPLER_WITHIN = 1.02  # with fewer, the fewest columns whose error is at most this many times the lowest
DOUBTFUL_GAIN = 0.8  # a site is doubtful if without it the error on the others falls to less than this share
Ask = Callable[[Mapping[str, Mapping[str, Any]]], Mapping[str, Values]]  # a task for each site: replies of those there


@dataclass(frozen=True)
class Structure:
    """Which columns a regression has, and its ridge penalty."""

    name: str
    inputs: np.ndarray  # indices of columns
    penalty: float

    def solve(self, moments: Moments) -> Solution:
        """Fit the regression to moments; returns its weights [columns] and bias."""
        return moments.solve(self.penalty, self.inputs)


@dataclass(frozen=True)
class Federation:
    """The calibrator of a federation, and what was known of each site when it was made."""

    calibrator: Calibrator
    moments: Mapping[str, Moments]  # of each site's scaled columns
    structure: Structure

    @property
    def others(self) -> dict[str, Solution]:
        """For each site the regression of all other sites."""
        return {
            site: self.structure.solve(Moments.pooled([part for name, part in self.moments.items() if name != site]))
            for site in self.moments
        }

    @property
    def errors(self) -> dict[str, dict[str, float]]:
        """RMSE at each site, in the target's unit, of four calibrators.

        "own" is the regression of the site alone, "others" that of all other sites, "all" that of all sites, and
        "constant" the mean of the site's reference.
        """
        unit = float(self.calibrator.inputs.scaling.target.scale[0])
        everything = self.structure.solve(Moments.pooled(list(self.moments.values())))
        others, found = self.others, {}
        for site, own in self.moments.items():
            solutions = {"own": self.structure.solve(own), "others": others[site], "all": everything}
            found[site] = {name: unit * own.mean_squared_error(one) ** 0.5 for name, one in solutions.items()}
            found[site]["constant"] = unit * own.target_variance**0.5
        return found

    def last_tasks(self, calibrator: bytes, sites: Sequence[str]) -> dict[str, Values]:
        """Make the last task of each site: a `.scare` file, and the regression of the others if the site took part."""
        task = {"kind": DONE, "calibrator": b64encode(calibrator).decode()}
        others = {
            site: {"others": {"weights": weights.tolist(), "bias": bias}}
            for site, (weights, bias) in self.others.items()
        }
        return {site: {**task, **others.get(site, {})} for site in sites}

    @property
    def doubts(self) -> list[str]:
        """Sentences about sites whose sums are implausible, or without which the others would be calibrated better."""
        return find_doubts(self.moments, self.structure)


def federate(ask: Ask, agreement: Agreement) -> Federation:
    """Fit the regression of all sites' rows, with intervals from the errors of calibrators made without each site."""
    channels = len(agreement.data.channels)
    replies = ask({site: {"kind": "moments"} for site in agreement.sites})
    if len(replies) < FEWEST_SITES:
        raise DataError(f"only {len(replies)} of {len(agreement.sites)} sites answered; a federation needs two or more")
    raw = {site: moments_from_values(reply, channels, site) for site, reply in replies.items()}
    private = {site: reply["privacy"] for site, reply in replies.items() if "privacy" in reply}
    pooled = Moments.pooled(list(raw.values()))
    center, scale = pooled.mean, np.sqrt(np.diag(pooled.covariance))
    target_scale = float(np.sqrt(pooled.target_variance))
    names = [channel.name for channel in (*agreement.data.channels, agreement.data.reference)]
    if constant := [name for name, spread in zip(names, [*scale, target_scale], strict=True) if not spread > 0]:
        raise DataError(f"{constant[0]} is constant at all sites: nothing can be learned from it")
    if private:  # a site with noise answers once, so its products are unknown
        moments = {site: part.scaled(center, scale, pooled.target_mean, target_scale) for site, part in raw.items()}
    else:
        task = {"kind": "moments", "center": center.tolist(), "scale": scale.tolist()}
        task["target"] = [pooled.target_mean, target_scale]
        replies = ask(dict.fromkeys(raw, task))
        columns = channels + channels * (channels + 1) // 2  # channels, and the products of every two, squares included
        moments = {site: moments_from_values(reply, columns, site) for site, reply in replies.items()}
        if len(moments) < FEWEST_SITES:
            raise DataError("only one site is left; a federation needs two or more")
    scaling = Scaling(
        "standard", Affine(center, scale), Affine(np.array([pooled.target_mean]), np.array([target_scale]))
    )
    inputs = Inputs(agreement.data.channels, scaling, agreement.data.step, 1, STRICT, DEFAULT_SETTINGS)
    structure = choose_structure(moments, channels)
    made = _make_calibrator(inputs, agreement, Moments.pooled(list(moments.values())), structure)
    federation = Federation(made, moments, structure)
    intervals = _learn_intervals(ask, agreement, federation, [site for site in moments if site not in private])
    facts = {
        "federated": {site: round(part.count) for site, part in moments.items()},
        "structure": f"{structure.name}, penalty {structure.penalty:g}",
        "site_rmse": {site: round(error["all"], 6) for site, error in federation.errors.items()},
        "left_out_rmse": {site: round(error["others"], 6) for site, error in federation.errors.items()},
        SHARED_FACT: asdict(_share(ask, agreement, federation, [site for site in moments if site not in private])),
        **({"privacy": private} if private else {}),
    }
    return replace(federation, calibrator=replace(made.with_facts(**facts), intervals=intervals))


def choose_structure(moments: Mapping[str, Moments], channels: int) -> Structure:
    """Choose columns and penalty by the error on sites that are left out, each with the same weight.

    With few sites, choose the fewest columns that fit all rows nearly as well as all columns do. As there are many more
    rows than columns, the error of the fit itself is a fair measure.
    """
    columns = len(next(iter(moments.values())).mean)
    inputs = column_sets(columns, channels)
    if len(moments) >= FEWEST_TO_LEAVE_OUT:
        structures = [Structure(name, chosen, penalty) for name, chosen in inputs.items() for penalty in PENALTIES]
        return min(structures, key=lambda structure: left_out_error(moments, structure, list(moments)))
    structures = [Structure(name, chosen, PENALTIES[0]) for name, chosen in inputs.items()]  # fewest columns first
    pooled = Moments.pooled(list(moments.values()))
    errors = [pooled.mean_squared_error(structure.solve(pooled)) for structure in structures]
    enough = SIMPLER_WITHIN**2 * min(errors)  # squared errors
    return next(structure for structure, error in zip(structures, errors, strict=True) if error <= enough)


def find_doubts(moments: Mapping[str, Moments], structure: Structure) -> list[str]:
    """Return sentences about sites that spoil the regression of the others, or whose sums are implausible."""
    if len(moments) <= FEWEST_SITES:
        return []
    found = []
    for site in moments:
        others = {name: part for name, part in moments.items() if name != site}
        without = left_out_error(others, structure, list(others))
        with_site = left_out_error({**others, site: moments[site]}, structure, list(others))
        if without < DOUBTFUL_GAIN**2 * with_site:  # both are squared errors
            found.append(
                f"without '{site}' the error at the other sites falls to {(without / with_site) ** 0.5:.0%}: its"
                " columns, units or reference may differ; check them, or leave it out with --without"
            )
    return found + find_implausible(moments, structure.solve)


def left_out_error(moments: Mapping[str, Moments], structure: Structure, sites: Sequence[str]) -> float:
    """Return the mean squared error at `sites`, each time with the regression of all other sites."""
    errors = [
        moments[site].mean_squared_error(
            structure.solve(Moments.pooled([part for name, part in moments.items() if name != site]))
        )
        for site in sites
    ]
    return float(np.mean(errors))


def _share(ask: Ask, agreement: Agreement, federation: Federation, sites: Sequence[str]) -> SharedRegression:
    """Return the regression of all sites, and how large the errors of each way to combine it with own rows are.

    Each of `sites` measures these errors with the regression of the other sites, which has not seen its rows.
    """
    channels, inputs = len(agreement.data.channels), tuple(federation.structure.inputs.tolist())

    def shared(solution: Solution) -> SharedRegression:
        weights, bias = solution
        return SharedRegression(channels, inputs, tuple(weights.tolist()), bias, {})

    scaling = federation.calibrator.inputs.scaling
    task = {"kind": "ways", "center": scaling.fleet.center.tolist(), "scale": scaling.fleet.scale.tolist()}
    task["target"] = [float(scaling.target.center[0]), float(scaling.target.scale[0])]
    others = federation.others
    tasks = {site: {**task, "others": asdict(shared(others[site]))} for site in sites}
    everything = shared(federation.structure.solve(Moments.pooled(list(federation.moments.values()))))
    replies = ask(tasks) if tasks else {}
    if not replies:
        return everything
    names = list(make_ways(everything, everything.solution))
    # A reply without a table of errors has no numbers, which `numbers` refuses.
    sent = {
        site: errors if isinstance(errors := reply.get("errors"), Mapping) else {} for site, reply in replies.items()
    }
    errors = np.array([numbers([own.get(name) for name in names], (len(names),), site) for site, own in sent.items()])
    mean_of_site = errors.mean(axis=1, keepdims=True)  # subtracted, so that a site with large errors counts no more
    means = robust_mean(errors - mean_of_site, agreement.rules.tolerated)
    return replace(everything, errors=dict(zip(names, means.round(4).tolist(), strict=True)))


def _make_calibrator(inputs: Inputs, agreement: Agreement, moments: Moments, structure: Structure) -> Calibrator:
    """Make the calibrator of a regression; its test inputs are drawn from the moments, not taken from a site."""
    weights, bias = structure.solve(moments)
    channels = len(inputs.channels)
    curve = weights[channels:] if np.any(weights[channels:]) else None  # weights of the products
    made = linear_calibrator(inputs, agreement.data.reference, weights[:channels], bias, "federated ridge", curve)
    windows = draw_rows(moments, channels, GOLDEN)[:, None].astype(np.float32)
    return replace(made, golden=Sample(windows, made.compute(windows)))


def draw_rows(moments: Moments, columns: int, count: int) -> np.ndarray:
    """Draw `count` rows of the first columns from the normal distribution with these moments [count, columns]."""
    rng = np.random.default_rng(0)
    covariance = moments.covariance[:columns, :columns]
    return rng.multivariate_normal(moments.mean[:columns], covariance, count, method="eigh")


def as_task(calibrator: Calibrator, unit: float, held_out: bool = False) -> Values:
    """Make the task to send a histogram of a calibrator's errors, with bins of `unit` / 10.

    With `held_out` a site counts only the rows that it holds out from training.
    """
    target = calibrator.inputs.scaling.target
    center, scale = float(target.center[0]), float(target.scale[0])
    with TemporaryDirectory() as folder:
        content = calibrator.save(Path(folder) / "sent.scare").read_bytes()
    edges = [center + scale * edge for edge in BAND_EDGES]
    return {
        "kind": "errors",
        "calibrator": b64encode(content).decode(),
        "edges": edges,
        "unit": unit,
        "held_out": held_out,
    }


def _learn_intervals(ask: Ask, agreement: Agreement, federation: Federation, sites: Sequence[str]) -> Intervals | None:
    """Learn intervals from histograms of each site's errors with a calibrator made from the others; None without any.

    With few sites, the errors are those of the calibrator of all. Bins of the histograms are as wide as a tenth of
    `unit`, the mean of all sites' RMSE, so that they suit the size of the errors.
    """
    leaves_out = len(federation.moments) >= FEWEST_TO_LEAVE_OUT
    unit = float(np.mean([error["others" if leaves_out else "all"] for error in federation.errors.values()]))
    tasks = {}
    for site in sites:
        others = Moments.pooled([part for name, part in federation.moments.items() if name != site])
        from_others = _make_calibrator(federation.calibrator.inputs, agreement, others, federation.structure)
        # With few sites it is not used: those that remain may be of quite other air.
        tasks[site] = as_task(from_others if leaves_out else federation.calibrator, unit)
    if not tasks:
        return None
    return intervals_from(ask(tasks), unit, federation.calibrator.inputs.scaling.target)


def intervals_from(replies: Mapping[str, Values], unit: float, target: Affine) -> Intervals | None:
    """Make intervals from histograms of errors: quantiles in each band of the value, all sites with the same weight.

    None if a histogram has too few errors.
    """
    histograms = []  # of each site: the counts, and their shares of all its errors
    for site, reply in replies.items():
        counts = np.asarray(reply.get("counts"), np.float64)
        if counts.shape != (len(BAND_EDGES) + 1, BINS + 2) or not np.isfinite(counts).all() or (counts < 0).any():
            raise DataError(f"{site}: its histogram of errors has the shape {counts.shape} or a count below 0")
        if counts.sum() < MIN_ERRORS:
            return None
        histograms.append((counts, counts / counts.sum()))
    all_counts, all_shares = (np.sum(parts, axis=0) for parts in zip(*histograms, strict=True))  # [bands, BINS + 2]
    whole = all_shares.sum(axis=0)
    # Edges of the bins [BINS + 3]. The first and the last bin, beyond the range, end nowhere: they count as its ends.
    edges = unit * np.concatenate([bin_edges()[:1], bin_edges(), bin_edges()[-1:]])
    below, above = [], []
    for count, band in zip(all_counts.sum(axis=1), all_shares, strict=True):
        # A band with too few errors for a quantile in its tails takes those of all bands.
        shares_of_band = np.cumsum(band if count >= 10 * MIN_ROWS else whole)
        low, high = (
            np.searchsorted(shares_of_band, q * shares_of_band[-1]) for q in ((1 - LEVEL) / 2, (1 + LEVEL) / 2)
        )
        below.append(max(-edges[low], 0.0))
        above.append(max(edges[high + 1], 0.0))
    center, scale = float(target.center[0]), float(target.scale[0])
    borders = np.array([center + scale * edge for edge in BAND_EDGES], np.float32).astype(float)
    # Rounded to float32, as on a board.
    lower, upper = (tuple(np.array(side, np.float32).tolist()) for side in (below, above))
    return Intervals(LEVEL, tuple(borders.tolist()), lower, upper, USUAL_WIDENING)


def raw_error(moments: Moments, calibrator: Calibrator) -> float | None:
    """Return the RMSE of a site's first channel without calibration; None if its unit is not the target's."""
    scaling = calibrator.inputs.scaling
    if not same_unit(calibrator.inputs.channels[0], calibrator.target):
        return None
    target_center, target_scale = float(scaling.target.center[0]), float(scaling.target.scale[0])
    # The first channel as it is, written as a regression of scaled columns.
    weights = np.zeros(len(moments.mean))
    weights[0] = float(scaling.fleet.scale[0]) / target_scale
    bias = (float(scaling.fleet.center[0]) - target_center) / target_scale
    return target_scale * moments.mean_squared_error((weights, bias)) ** 0.5
