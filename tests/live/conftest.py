"""What tests of this package share."""

from collections.abc import Iterator

import pytest

from tests.live.small_gateway import close


@pytest.fixture(autouse=True)
def _close_states() -> Iterator[None]:
    yield
    close()
