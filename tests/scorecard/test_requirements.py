"""The table of requirements: complete, monotone, on its page; a user's file changes it or is refused."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.errors import UsageError
from scare.scorecard.cost import no_latency
from scare.scorecard.requirements import GRADES, Finding, Grade, Measure, RequirementTable

PAGE = Path(__file__).parents[2] / "docs" / "scorecard.md"
TABLE = RequirementTable.load()
GRADED = [measure for measure in TABLE.measures.values() if measure.good is not None]


def test_the_eight_requirements_in_their_dimensions() -> None:
    dimensions = [one.dimension for one in TABLE.requirements.values()]
    assert dimensions == ["accuracy"] * 2 + ["real-time"] * 3 + ["efficiency"] * 3


def test_every_requirement_can_be_graded_and_every_measure_has_one() -> None:
    assert {one.requirement for one in GRADED} == set(TABLE.requirements)
    assert {one.requirement for one in TABLE.measures.values()} == set(TABLE.requirements)
    assert {one.source for one in TABLE.measures.values()} == {"measured", "emulated", "counted", "declared"}
    assert not set(TABLE.measures) & set(TABLE.requirements)


def test_the_page_has_the_table() -> None:
    lines = ["| requirement | measure | unit | source | how | O | △ |", "|---|---|---|---|---|---|---|"]
    for one in TABLE.measures.values():
        sign = "≤" if one.better == "lower" else "≥"
        bounds = [f"{sign} {bound:g}" if bound is not None else "" for bound in (one.good, one.fair)]
        how = f"{one.how}; compared with {one.baseline}" if one.baseline else one.how
        title = TABLE.requirements[one.requirement].title
        lines.append(f"| {' | '.join([title, f'`{one.name}`', one.unit, one.source, how, *bounds])} |")
    assert "\n".join(lines) + "\n" in PAGE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("ratio", "grade"), [(0.55, Grade.GOOD), (0.56, Grade.FAIR), (1.0, Grade.FAIR), (1.01, Grade.POOR)]
)
def test_a_bound_belongs_to_the_better_grade(ratio: float, grade: Grade) -> None:
    assert TABLE.measures["rmse"].grade(ratio) is grade


@given(st.sampled_from(GRADED), st.floats(0, 200), st.floats(0, 200))
def test_a_better_number_never_has_a_worse_grade(measure: Measure, one: float, other: float) -> None:
    better, worse = sorted((one, other), reverse=measure.better == "higher")
    grades = [measure.grade(ratio) for ratio in (better, worse)]
    first, second = (GRADES.index(grade) for grade in grades if grade is not None)
    assert first <= second


def test_a_number_is_compared_in_units_of_its_baseline() -> None:
    entry = TABLE.make_entry(Finding("rmse", 3.0, per=4.0), "ug/m3")
    assert (entry.value, entry.unit, entry.grade, entry.title) == (3.0, "ug/m3", "△", "Mean accuracy")
    assert entry.threshold is not None
    assert (entry.threshold["ratio"], entry.threshold["yardstick_value"]) == (0.75, 4.0)


@pytest.mark.parametrize("finding", [Finding("rmse", None), Finding("rmse", float("nan")), Finding("rmse", 1.0, per=0)])
def test_what_is_not_known_has_no_grade(finding: Finding) -> None:
    assert TABLE.make_entry(finding, "").grade is None


def test_what_never_ends_is_poor_and_has_no_number() -> None:
    entries = [TABLE.make_entry(finding, "") for finding in no_latency("float32 only: lstm")]
    assert [entry.requirement for entry in entries] == ["mean-latency", "max-latency", "sampling-jitter"]
    assert {(entry.value, entry.grade, entry.detail["reason"]) for entry in entries} == {
        (None, Grade.POOR, "float32 only: lstm")
    }


def test_a_number_without_bounds_informs() -> None:
    entry = TABLE.make_entry(Finding("weight_bytes", 9.0), "ppb")
    assert (entry.grade, entry.threshold, entry.unit) == (None, None, "B")


def test_a_file_changes_bounds_and_protocol(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[measures.rmse]\ngood = 0.2\n[protocol]\nblocks = 3\nlengths = [8, 16]\nrequest_hz = 10\n")
    mine = RequirementTable.load(path)
    assert (mine.measures["rmse"].good, mine.measures["rmse"].fair) == (0.2, 1.0)
    assert (mine.protocol.blocks, mine.protocol.lengths, mine.protocol.request_hz) == (3, (8, 16), 10.0)
    assert mine.protocol.windows == TABLE.protocol.windows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[measures.rsme]\ngood = 1", "no measure is called 'rsme'; did you mean 'rmse'"),
        ("[measures.rmse]\nbest = 1", "unknown key 'best' in [measures.rmse]; there are good, fair"),
        ("[measures.rmse]\ngood = 'much'", "measures.rmse.good is 'much'; it takes a number above 0"),
        ("[measures.rmse]\ngood = 2.0", "rmse: good is 2 and fair is 1; lower is better"),
        ("[measures.fits_ram]\nfair = 2.0", "higher is better"),
        ("[measures]\nrmse = 1", "measures.rmse is 1; it takes a table of settings"),
        ("[protocol]\nblocks = 2.5", "protocol.blocks is 2.5; it takes a whole number from 1 on"),
        ("[measures.operations]\ngood = 5", "operations: good and fair go together"),
        ("[protocol]\nwindows = 1", "protocol.windows is 1; it takes a whole number above 1"),
        ("[protocol]\nboard_windows = 1", "protocol.board_windows is 1; it takes a whole number above 1"),
        ("[protocol]\nlengths = [60]", "lengths takes two or more rising whole numbers, not [60]"),
        ("[protocol]\nlengths = [60, 60]", "lengths takes two or more rising"),
        ("[protocol]\nlengths = 60", "protocol.lengths is 60; it takes a list"),
        ("[protocol]\nlengths = [1, 2]", "protocol.lengths[0] is 1; it takes a whole number above 1"),
        ("[protocols]\nblocks = 2", "unknown key 'protocols'; did you mean 'protocol'"),
        ("rmse =", "cannot be read as TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        RequirementTable.load(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot read"):
        RequirementTable.load(tmp_path / "none.toml")
