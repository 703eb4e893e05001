"""Sessions are folders: names are made, nothing outside is reached, what is deleted is gone."""

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.errors import DataError
from scare.web.sessions import SUFFIXES, SessionRegistry, safe_name

MEMORY = 1 << 30


@given(st.text(max_size=200), st.sampled_from(SUFFIXES))
def test_a_name_is_made_of_harmless_characters(text: str, suffix: str) -> None:
    name = safe_name(text + suffix)
    assert re.fullmatch(r"[A-Za-z0-9_-]+(\.[a-z]+){1,2}", name)
    assert name.endswith(suffix)
    assert safe_name(name) == name


@pytest.mark.parametrize("name", ["evil.exe", "page.html", "", ".csv.exe", "model.scare"])
def test_what_is_no_table_is_refused(name: str) -> None:
    with pytest.raises(DataError, match=r"is not a table\. Upload "):
        safe_name(name)


def test_closing_and_opening_again_continues_and_deleting_deletes(tmp_path: Path) -> None:
    made = SessionRegistry(tmp_path, 1e9, MEMORY).create("  Roof <b>  ")
    assert made.title == "Roof <b>"
    again = SessionRegistry(tmp_path, 1e9, MEMORY)
    assert [one.id for one in again.list()] == [made.id]
    loaded = again.load(made.id)
    assert (loaded.title, loaded.created, loaded.selections) == (made.title, made.created, {})
    asyncio.run(again.delete(made.id))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["..", "../x", "/etc", "a/b", "A", "", "x" * 61])
def test_no_other_folder_is_a_session(tmp_path: Path, name: str) -> None:
    (tmp_path / "session.json").write_text("{}")
    with pytest.raises(DataError, match="There is no such session"):
        SessionRegistry(tmp_path / "sessions", 1e9, MEMORY).load(name)


def test_only_files_of_the_session_are_given_away(tmp_path: Path) -> None:
    session = SessionRegistry(tmp_path / "sessions", 1e9, MEMORY).create("x")
    (tmp_path / "secret.txt").write_text("secret")
    (session.folder / "link.txt").symlink_to(tmp_path / "secret.txt")
    for name in ("../../secret.txt", str(tmp_path / "secret.txt"), "link.txt", "", "files"):
        with pytest.raises(DataError, match="in this session yet"):
            session.find_output(name)
    assert session.find_output("session.json").is_file()


def test_files_may_take_up_to_the_quota(tmp_path: Path) -> None:
    sessions = SessionRegistry(tmp_path, 2000, MEMORY)
    session = sessions.create("x")
    before = sessions.free_bytes()
    (session.folder / "files" / "a.csv").write_bytes(b"x" * 500)
    assert before - sessions.free_bytes() == 500
    (session.folder / "files" / "a.csv").write_bytes(b"x" * 5000)
    assert sessions.free_bytes() == 0
