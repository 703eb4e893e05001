"""Where the report comes from: the data's quality, and what the card says of data, model and making."""

import numpy as np

from scare.calibrator.ladder_table import FACTS, HEAD, ladder_table
from scare.data.flags import MEANINGS, Flag, summary
from scare.report.blocks import Block, Facts, Note, Table
from scare.report.numbers import number, percent
from scare.scorecard.run import Run


def quality(run: Run) -> list[Block]:
    """Rows, rows scored and the share that carries each flag, by device."""
    rows: list[list[str]] = []
    for one in run.series:
        found, calibrated = len(one), int(np.isfinite(one.calibrated).sum())
        reference = int(np.isfinite(one.reference).sum())
        span = one.times[-1] - one.times[0] + one.step_seconds
        expected = span / one.step_seconds if one.step_seconds else 1.0
        shares = [percent(min(1.0, found / expected), 1), percent(reference / found, 1)]
        shares.append(percent(calibrated / found, 1))
        rows.append([one.device, f"{found:,}", f"{number(one.step_seconds)} s", *shares, f"{len(one.scored):,}"])
    head = ("device", "rows", "step", "rows of those due", "with a reference", "with a calibrated value", "rows scored")
    return [Table("Completeness", head, rows), _flags(run)]


def _flags(run: Run) -> Block:
    flags = np.concatenate([one.flags for one in run.series])
    counts = {name: count for name, count in summary(flags).items() if count}
    if not counts:
        return Note("No row carries a flag.")
    rows = [
        [name.lower().replace("_", "-"), f"{count:,}", percent(count / len(flags), 2), MEANINGS[Flag[name]]]
        for name, count in counts.items()
    ]
    return Table("Flags: rows are marked, never removed", ("flag", "rows", "share", "meaning"), rows, "words")


def provenance(run: Run) -> list[Block]:
    """Data, model and how it was made, as the card has them."""
    dataset = {name: value for name, value in run.card.dataset.items() if name != "flags"}
    model = {name: value for name, value in run.card.model.items() if name not in FACTS}
    parts = {"The data": dataset, "The model": model, "How it was made": run.card.provenance}
    return [Facts(name, part) for name, part in parts.items() if part]


def verdict(run: Run) -> list[Block]:
    """What the calibrator turned out to be, and every rung of its ladder."""
    if not (rungs := ladder_table(run.card.model)):
        return [Note("The model's file does not tell what simpler methods gave in its training.")]
    sentence = str(run.card.model["verdict"])
    legend = (
        "Each line is tried after the one above, and taken if the error on readings kept from training falls clearly,"
        " or a little and surely (± is a 95 % interval over blocks of time). What is taken is mixed. The sensor's own"
        " value is preferred if nothing is better; a network keeps the share that it has earned."
    )
    return [Note(sentence[:1].upper() + sentence[1:] + "."), Table("The ladder", HEAD, rungs, "words"), Note(legend)]
