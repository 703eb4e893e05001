"""What the fuzzers have found stays found: each file in `findings`, named after its target, ends as all must."""

from pathlib import Path

import pytest

from tests.fuzz.running import try_one
from tests.fuzz.targets import TARGETS

FINDINGS = sorted((Path(__file__).parent / "findings").iterdir())


@pytest.mark.parametrize("path", FINDINGS, ids=lambda path: path.stem)
def test_a_finding_is_no_finding_any_more(path: Path) -> None:
    became, wrong = try_one(TARGETS[path.name.partition("-")[0]], path)
    assert (became in ("used", "refused"), wrong) == (True, "")
