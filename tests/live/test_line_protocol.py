"""Influx's line protocol: what was escaped comes back, and a line is changed at the end of its fields only."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scare.live.line_protocol import parse_line
from scare.live.messages import RejectedError

names = st.text(
    st.characters(min_codepoint=33, max_codepoint=382, exclude_characters="\\\"#'") | st.just(" "), min_size=1
)
numbers = st.floats(allow_nan=False, allow_infinity=False)


def escape(text: str, signs: str) -> str:
    return "".join(f"\\{sign}" if sign in signs else sign for sign in text)


@given(names, st.dictionaries(names, names), st.dictionaries(names, numbers, min_size=1), st.text())
def test_a_line_says_what_was_written(
    measurement: str, tags: dict[str, str], fields: dict[str, float], words: str
) -> None:
    words = words.replace("\n", "").replace("\r", "")
    quoted = '"' + words.replace("\\", "\\\\").replace('"', '\\"') + '"'
    head = ",".join([escape(measurement, " ,"), *(f"{escape(k, ' ,=')}={escape(v, ' ,=')}" for k, v in tags.items())])
    body = ",".join([*(f"{escape(k, ' ,=')}={v!r}" for k, v in fields.items()), f"text_in_quotes={quoted}"])
    line = parse_line(f"{head} {body} 1767225600000000000")
    assert line.measurement == measurement
    assert line.tags == tags
    assert {**line.numbers} == {key: value for key, value in fields.items() if key != "text_in_quotes"}
    assert line.time == 1767225600
    again = parse_line(line.with_fields({"new one": 2.5, "flags": 3}))
    assert {**again.numbers} == {**line.numbers, "new one": 2.5, "flags": 3.0}
    assert (again.head.startswith(f"{head} {body},"), again.tail) == (True, line.tail)


@pytest.mark.parametrize(
    ("timestamp", "seconds"),
    [
        ("1767225600000000000", 1767225600.0),
        ("1767225600000000", 1767225600.0),
        ("1767225600500", 1767225600.5),
        ("1767225600", 1767225600.0),
    ],
)
def test_the_unit_of_a_timestamp_is_seen_from_its_size(timestamp: str, seconds: float) -> None:
    assert parse_line(f"air pm=1 {timestamp}").time == seconds
    assert parse_line("air pm=1").time is None


@pytest.mark.parametrize(
    "line", ["", "air", "air ", " pm=1", "air pm", "air,box pm=1", "air pm=1 yesterday", "air pm=1 1 2"]
)
def test_what_is_no_line_is_rejected(line: str) -> None:
    with pytest.raises(RejectedError):
        parse_line(line)


def test_only_numbers_are_numbers() -> None:
    line = parse_line('air a=1,b=2i,c=3u,d=t,e="4",f=-1.5e-3,g=true')
    assert line.numbers == {"a": 1, "b": 2, "c": 3, "f": -1.5e-3}
