"""A site: it answers the server's tasks from its own readings, which never leave it.

    task                                          reply
    moments   how columns are made                count, means and covariances of columns and reference
    errors    a calibrator                        a histogram of its errors, in bands of the calibrated value
    ways      a regression of the others          mean errors of ways to combine it with short co-locations (`combined`)
    design, round  (`training.rounds`)            moments of a network's columns; what a round of training changed

A site protects itself: it sends nothing of few rows, no small counts, no more replies than a fit needs, and with noise
(`privacy`) only one reply, which is drawn once. Called by `cli/federate`; the server's side is `pooled`.
"""

from base64 import b64decode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from scare.calibrator.calibrator import Calibrator
from scare.calibrator.moments import Moments
from scare.data.colocation import read_colocation
from scare.data.column_mapping import DataSection
from scare.data.flags import drop_unusable_references
from scare.data.quantities import spell_unit
from scare.data.readings import Channel, Readings
from scare.data.reference_file import Notify
from scare.errors import DataError, UsageError
from scare.federated.agreement import Agreement
from scare.federated.combined import SharedRegression, make_ways, mean_errors, short_splits
from scare.federated.privacy import Privacy
from scare.federated.rows import Rows, collect_rows
from scare.schema import convert
from scare.words import plural

ROWS_PER_COLUMN = 10  # rows with a reference that a site has at least, for each column of its moments
SMALLEST_COUNT = 5  # of a histogram; smaller ones are added to the next bin away from 0
BINS, BIN_RANGE = 160, 8.0  # of a histogram of errors: bins, and how many units it reaches below and above 0
HELD_OUT = 0.15  # share of a site's rows, the latest, that no network is trained on
MOST_REPLIES = {"moments": 2, "errors": 2, "ways": 1}  # of each kind; as many rounds as agreed on
DONE = "done"  # the kind of the last task, which brings the calibrator
Values = dict[str, Any]  # a task or a reply, as in JSON
AnswerNetwork = Callable[[Mapping[str, Any]], Values]


class Site:
    """Answers tasks from the readings of one site; `network`, if JAX is installed, those of training a network."""

    def __init__(
        self,
        readings: Sequence[Readings],
        agreement: Agreement,
        privacy: Privacy | None = None,
        network: AnswerNetwork | None = None,
    ) -> None:
        check_columns(readings, agreement)
        if privacy is not None and agreement.noise is None:
            raise UsageError(
                "noise needs the range of every column, agreed on before anyone looks at the readings: add a table"
                " [noise] to the server's file"
            )
        self._agreement, self._privacy, self._network = agreement, privacy, network
        self._readings = [drop_unusable_references(box) for box in readings]
        self.rows = collect_rows(readings)
        self.answered: Counter[str] = Counter()
        fewest = max(agreement.rules.fewest_rows, ROWS_PER_COLUMN * self.rows.columns.shape[1])
        if len(self.rows) < fewest:
            raise DataError(
                f"this site has {plural(len(self.rows), 'complete row')} with a reference, fewer than {fewest}:"
                " sums of few rows would give them away, so nothing was sent"
            )

    @property
    def adds_noise(self) -> bool:
        """Whether all that this site sends has noise."""
        return self._privacy is not None

    def answer(self, task: Mapping[str, Any]) -> Values:
        """Answer a task; raises a DataError for one that a site does not answer."""
        kind = str(task.get("kind"))
        most = dict(MOST_REPLIES)
        if self._agreement.network is not None:
            most |= {"design": 1, "round": self._agreement.network.rounds + 1}  # the last round only tells the error
        if self._privacy is not None:
            most = {"moments": 1}
        self.answered[kind] += 1
        if self.answered[kind] > most.get(kind, 0):
            noise = "that adds noise " if self._privacy else ""
            raise DataError(f"a site {noise}answers no more than {most.get(kind, 0)} tasks of the kind '{kind}'")
        if kind == "moments":
            return self._answer_moments(task)
        if kind == "errors":
            return self._answer_errors(task)
        if kind == "ways":
            return self._answer_ways(task)
        if self._network is None:
            raise UsageError("the federation trains a network, which needs JAX: pip install '.[train]'")
        return self._network(task)

    def _answer_moments(self, task: Mapping[str, Any]) -> Values:
        """Return the moments of the channels, or of `scaled_columns` if the task has a "center" and a "scale"."""
        if self._privacy is not None:
            noise = self._agreement.noise
            assert noise is not None  # the constructor refuses privacy without it
            low, high = np.array(noise.low), np.array(noise.high)
            rng = np.random.default_rng()  # never a known seed: who knows the noise can subtract it
            moments = self._privacy.noisy_moments(self.rows.columns, self.rows.targets, low, high, rng)
            return {**moments_as_values(moments), "privacy": dict(vars(self._privacy))}
        if "center" not in task:
            return moments_as_values(self.rows.moments)
        return moments_as_values(self._scaled_rows(task).moments)

    def _answer_ways(self, task: Mapping[str, Any]) -> Values:
        """Return the mean error of each way to combine the regression of the others with short co-locations here."""
        others = convert(task.get("others"), SharedRegression, "others", DataError)
        rows = self._scaled_rows(task, len(others.weights))
        return {"errors": mean_errors(rows, short_splits(rows.times), make_ways(others, others.solution))}

    def _scaled_rows(self, task: Mapping[str, Any], size: int | None = None) -> Rows:
        channels = self.rows.columns.shape[1]
        center, scale = (numbers(task.get(name), (channels,), name) for name in ("center", "scale"))
        target_center, target_scale = numbers(task.get("target"), (2,), "target")
        return self.rows.scaled(center, scale, target_center, target_scale, size)

    def _answer_errors(self, task: Mapping[str, Any]) -> Values:
        """Return a histogram of a calibrator's errors (reference - value) by band of the value [bands, BINS + 2]."""
        calibrator = calibrator_from(task)
        edges = numbers(task.get("edges"), (-1,), "edges")
        (unit,) = numbers([task.get("unit")], (1,), "unit")
        values, references = [], []
        for box in self._readings:
            rows = box.rows(box.times >= validation_start(self._readings)) if task.get("held_out") else box
            calibrated = calibrator.stream(box.device).push(rows.times, calibrator.inputs.select(rows))
            values.append(calibrated.values)
            references.append(rows.targets)
        value, errors = np.concatenate(values), np.concatenate(references) - np.concatenate(values)
        known = np.isfinite(errors)
        bands = np.searchsorted(edges, value[known], side="right")
        bins = np.searchsorted(unit * bin_edges(), errors[known], side="right")
        counts = np.zeros((len(edges) + 1, BINS + 2), np.int64)
        np.add.at(counts, (bands, bins), 1)
        middle = BINS // 2 + 1  # the first bin above 0; small counts are merged from 0 outwards on both sides
        merged = [
            [*merge_small_counts(band[:middle][::-1])[::-1], *merge_small_counts(band[middle:])] for band in counts
        ]
        return {"counts": merged}


def read_site(files: Sequence[Path], agreement: Agreement, data: DataSection, note: Notify) -> list[Readings]:
    """Read a site's tables: the agreed columns, in the units that [data] or the table states."""
    if data.step not in (None, agreement.data.step):
        raise UsageError(f"data.step is {data.step:g} s, and {agreement.data.step:g} s is agreed on")
    described = {channel.name: channel for channel in (*data.channels, *([data.reference] if data.reference else ()))}

    def at_site(channel: Channel) -> Channel:
        """Return an agreed channel as the site describes it, or by its name alone."""
        return described.get(channel.name, Channel(channel.name))

    channels = tuple(map(at_site, agreement.data.channels))
    return read_colocation(files, replace(data, channels=channels, reference=at_site(agreement.data.reference)), note)


def calibrator_from(task: Mapping[str, Any]) -> Calibrator:
    """Open the calibrator in a task; one from the server is as suspicious as any file of a stranger."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "sent.scare"
        path.write_bytes(b64decode(str(task.get("calibrator", ""))))
        return Calibrator.load(path)


def merge_small_counts(counts: np.ndarray) -> list[int]:
    """Add counts below `SMALLEST_COUNT` (5) to those after them until the sum reaches it.

    A remainder at the end is added to the last sum that did. If all together do not reach it, they are left out.

    >>> merge_small_counts(np.array([7, 2, 0, 4, 9, 1]))
    [7, 0, 0, 6, 10, 0]
    """
    merged, carried, last = [0] * len(counts), 0, -1
    for place, count in enumerate(counts.tolist()):
        carried += count
        if carried >= SMALLEST_COUNT:
            merged[place], carried, last = carried, 0, place
    if last >= 0:
        merged[last] += carried
    return merged


def bin_edges() -> np.ndarray:
    """Return the edges of a histogram's bins as multiples of its unit [BINS + 1]; beyond them are two more bins."""
    return np.linspace(-BIN_RANGE, BIN_RANGE, BINS + 1)


def validation_start(readings: Sequence[Readings]) -> float:
    """Return the time from which on a site's rows are held out from training, in seconds."""
    times = np.sort(np.concatenate([box.times[np.isfinite(box.targets)] for box in readings]))
    return float(times[int((1 - HELD_OUT) * len(times))])


def check_columns(readings: Sequence[Readings], agreement: Agreement) -> None:
    """Raise a DataError unless the readings have the agreed channels, units and time step, and a reference."""
    agreed = (*agreement.data.channels, agreement.data.reference)
    for box in readings:
        own = {channel.name: channel for channel in box.channels}
        reference = box.reference or Channel("")
        own[reference.name] = reference
        for channel in agreed:
            if channel.name not in own:
                raise DataError(
                    f"{box.device}: no column {channel.name}, which the sites agreed on; its columns are"
                    f" {', '.join(own)}"
                )
            unit = own[channel.name].unit
            if unit and channel.unit and spell_unit(unit) != spell_unit(channel.unit):
                raise DataError(
                    f"{box.device}: {channel.name} is in {unit} here, and {channel.unit} is agreed on;"
                    " convert the column, or correct its unit in a --config file"
                )
        step = agreement.data.step
        if not 0.75 < box.step_seconds / step < 1.5:
            raise DataError(
                f"{box.device} has a row every {box.step_seconds:g} s, and {step:g} s is agreed on; average the rows"
                " first (data.step in a --config file)"
            )


def numbers(values: Any, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Check numbers from the other side and return them as an array; raises a DataError for anything else.

    A -1 in `shape` takes any length.
    """
    try:
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        array = np.array(np.nan)
    lengths = zip(shape, array.shape, strict=False)
    if array.ndim != len(shape) or any(wanted not in (-1, given) for wanted, given in lengths):
        raise DataError(f"'{name}' should have the shape {shape}, not {array.shape}")
    if not np.isfinite(array).all():
        raise DataError(f"'{name}' has a number that is not finite")
    return array


def moments_as_values(moments: Moments) -> Values:
    """Convert moments to plain values."""
    return {name: np.asarray(value).tolist() for name, value in vars(moments).items()}


def moments_from_values(values: Mapping[str, Any], size: int, where: str) -> Moments:
    """Check the moments of `size` columns that a site sent; error messages begin with `where`, its name."""
    shapes = {"mean": (size,), "covariance": (size, size), "target_covariance": (size,)}
    parts = {}
    for name in Moments.__dataclass_fields__:
        if name not in values:
            raise DataError(f"{where}: its moments have no '{name}': the site may have another version of scare")
        try:
            array = numbers(values[name], shapes.get(name, ()), name)
        except DataError as error:
            raise DataError(f"{where}: its moments cannot be used: {error}") from error
        parts[name] = array if name in shapes else float(array)
    moments = Moments(**parts)  # type: ignore[arg-type]
    # Both must be symmetric and without a negative eigenvalue, but for rounding, or no rows have such moments.
    joint = np.block(
        [[moments.covariance, moments.target_covariance[:, None]], [moments.target_covariance, moments.target_variance]]
    )
    # A column that is constant at a site has a variance of rounding errors.
    rounding = 1e-18 * np.square([*moments.mean, moments.target_mean]) + np.finfo(float).tiny
    scale = np.sqrt(np.maximum(np.diag(joint), rounding))
    correlation = joint / np.outer(scale, scale)
    if moments.count < 1 or not np.allclose(correlation, correlation.T, atol=1e-6):
        raise DataError(f"{where}: these are no moments: the count is below 1, or covariances are not symmetric")
    if np.linalg.eigvalsh(correlation).min() < -1e-6 * size:
        raise DataError(f"{where}: these are no moments: no rows can have such covariances")
    return moments
