"""A link, its key and tickets: each gives access as it should, links and tickets only once."""

from pathlib import Path

import pytest

from scare.web import auth
from scare.web.auth import AccessTokens


def test_a_link_works_once() -> None:
    tokens = AccessTokens()
    first, second = (tokens.link("http://127.0.0.1:1/").partition("#token=")[2] for _ in range(2))
    assert first != second
    assert tokens.exchange(first) == tokens.key
    assert tokens.exchange(first) is None
    assert tokens.exchange("") is None
    assert tokens.exchange(second) == tokens.key


def test_a_ticket_works_once_and_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    tokens, path = AccessTokens(), Path("model.scare")
    assert tokens.redeem(tokens.issue_ticket(path)) == path
    assert tokens.redeem("another") is None
    used, old = tokens.issue_ticket(path), tokens.issue_ticket(path)
    assert tokens.redeem(used) == path
    assert tokens.redeem(used) is None
    later = auth.monotonic() + auth.TICKET_SECONDS + 1
    monkeypatch.setattr(auth, "monotonic", lambda: later)
    assert tokens.redeem(old) is None
