"""What a test needs that is not on every computer."""

import pytest

from scare.extras import PACKAGES, is_installed


def needs(*extras: str) -> pytest.MarkDecorator:
    """Skips where a package of these extras is missing; none is imported before the test is run."""
    missing = [extra for extra in extras if not all(map(is_installed, PACKAGES[extra]))]
    return pytest.mark.skipif(bool(missing), reason=f"the extra {' and '.join(missing)} would run it")
