"""A link, its key and tickets: each lets in whom it should, and links and tickets only once."""

from pathlib import Path

import pytest

from scare.web import auth
from scare.web.auth import AccessTokens


def test_a_link_works_once() -> None:
    entrance = AccessTokens()
    first, second = (entrance.link("http://127.0.0.1:1/").partition("#token=")[2] for _ in range(2))
    assert first != second
    assert entrance.enter(first) == entrance.key
    assert entrance.enter(first) is None
    assert entrance.enter("") is None
    assert entrance.enter(second) == entrance.key


def test_a_ticket_works_once_and_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    entrance, path = AccessTokens(), Path("model.scare")
    assert entrance.take(entrance.ticket(path)) == path
    assert entrance.take("another") is None
    used, old = entrance.ticket(path), entrance.ticket(path)
    assert entrance.take(used) == path
    assert entrance.take(used) is None
    later = auth.monotonic() + auth.TICKET_SECONDS + 1
    monkeypatch.setattr(auth, "monotonic", lambda: later)
    assert entrance.take(old) is None
