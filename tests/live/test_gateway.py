"""A process killed again and again loses nothing: every reading gets the value it would have got without."""

from pathlib import Path

import pytest

from tests.live.broker import needs_broker
from tests.live.killing import kill_often

pytestmark = [needs_broker, pytest.mark.slow]


def test_thirty_kills_in_sixty_thousand_messages(tmp_path: Path) -> None:
    outcome = kill_often(tmp_path)
    assert (outcome.sent, outcome.kills, outcome.lost, outcome.differing) == (60_000, 30, 0, 0)
    assert "Traceback" not in outcome.log
