"""Lines in a pipe: every one comes out again, with what `predict` would give, also after a stop and another start."""

import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from scare.cli.app import run
from scare.errors import ExitCode
from scare.live.line_protocol import parse_line
from scare.live.line_stream import Influx, Json, LineStream
from tests.calibrator.building import attention_plan, make_calibrator, make_readings, with_edges

NOW, START = 1.8e9, 1767225600.0
CALIBRATOR = with_edges(make_calibrator(attention_plan()))
FIELDS = {channel.name: key for channel, key in zip(CALIBRATOR.inputs.channels, ("dust", "current"), strict=True)}
RESULT = ("calibrated", "low", "high", "flags")


def values(rows: int, seed: int = 0) -> np.ndarray:
    """Readings within the training range, some missing."""
    draw = np.random.default_rng(seed)
    drawn = np.array([20.0, 3.0]) + draw.normal(0, 1, (rows, 2)) * [4.0, 0.5]
    drawn[draw.random(rows) < 0.1, 0] = np.nan
    return drawn


def json_line(device: str, row: int, numbers: np.ndarray) -> str:
    known = [None if np.isnan(number) else number for number in numbers.tolist()]
    return json.dumps({"device": device, "time": START + 60 * row, "dust": known[0], "current": known[1], "site": "é"})


def influx_line(device: str, row: int, numbers: np.ndarray) -> str:
    fields = [
        f"{key}={number!r}" for key, number in zip(FIELDS.values(), numbers.tolist(), strict=True) if number == number
    ]
    return f"air,device={device} {','.join(fields)} {int(START + 60 * row) * 10**9}"


def expected(device: str, numbers: np.ndarray) -> np.ndarray:
    """Value, both ends and flags of `predict` [rows, 4]."""
    times = START + 60.0 * np.arange(len(numbers))
    table = CALIBRATOR.predict(make_readings(times, numbers, CALIBRATOR.inputs.channels, device))
    return table.select(RESULT).to_numpy().astype(float)


def written(lines: Sequence[str]) -> np.ndarray:
    results: list[dict[str, Any]] = [json.loads(line) for line in lines]
    return np.array([[np.nan if one[key] is None else one[key] for key in RESULT] for one in results])


@pytest.mark.parametrize("sizes", [(1,) * 120, (120,), (7, 50, 63)])
def test_lines_get_what_predict_gives(sizes: Sequence[int]) -> None:
    """Of two devices, in batches of any size."""
    boxes = {"box-1": values(60), "box-9": values(60, 1)}
    lines = [json_line(device, row, numbers[row]) for row in range(60) for device, numbers in boxes.items()]
    stream, out = LineStream(CALIBRATOR, Json(), FIELDS), list[str]()
    for size in sizes:
        out += stream.process(lines[len(out) : len(out) + size], NOW)[0]
    assert len(out) == len(lines)
    for index, (device, numbers) in enumerate(boxes.items()):
        assert_allclose(written(out[index::2]), expected(device, numbers), atol=2e-6)
    for line, result in zip(lines, out, strict=True):
        assert {**json.loads(line), **json.loads(result)} == json.loads(result)  # nothing is lost


def test_influx_and_json_say_the_same() -> None:
    numbers = values(40)
    plain = [json_line("box-1", row, numbers[row]) for row in range(40)]
    results = written(LineStream(CALIBRATOR, Json(), FIELDS).process(plain, NOW)[0])
    lines = [influx_line("box-1", row, numbers[row]) for row in range(40)]
    out, rejections = LineStream(CALIBRATOR, Influx("time"), FIELDS, prefix="c_").process(lines, NOW)
    assert rejections == []
    found = [parse_line(line).numbers for line in out]
    assert_array_equal([[one.get(f"c_{key}", np.nan) for key in RESULT] for one in found], results)
    heads = [line.rpartition(" ")[0] for line in lines]
    assert all(line.startswith(head) for line, head in zip(out, heads, strict=True))


BYTES = st.binary().map(lambda raw: raw.translate(None, b"\n\r").decode("utf-8", "surrogateescape"))  # as stdin is read


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n\r")) | BYTES))
@settings(max_examples=50)
def test_whatever_comes_in_comes_out(lines: list[str]) -> None:
    for form in (Json(), Influx("time")):
        out, rejections = LineStream(CALIBRATOR, form, FIELDS).process(lines, NOW)
        assert len(out) == len(lines)
        assert all(out[number] == lines[number] for number, _ in rejections)


def test_lines_without_a_device_are_of_the_one_that_is_named() -> None:
    line = json.dumps({"at": "2026-01-01T00:00:00Z", "dust": 20, "current": 3})
    out, ((number, reason),) = LineStream(CALIBRATOR, Json(), FIELDS).process([line], NOW)
    assert (out, number) == ([line], 0)
    assert "--device" in reason
    stream = LineStream(CALIBRATOR, Json(), FIELDS, device="box-1", time_key="at")
    out, rejections = stream.process([line], NOW)
    assert rejections == []
    assert json.loads(out[0])["flags"] is not None
    assert "device" not in json.loads(out[0])


def test_only_the_first_rejected_lines_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = CALIBRATOR.save(tmp_path / "pm.scare")
    monkeypatch.setattr("scare.cli.stream.BATCH", 4)  # several batches
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"no reading\n" * 40)))
    assert run(["stream", str(path), "--format", "json"]) == ExitCode.OK
    named = [line.split(":")[0] for line in capsys.readouterr().err.splitlines() if line.startswith("line ")]
    assert named == [f"line {number}" for number in range(1, 11)]


# the command, as a process


def start(tmp_path: Path, *more: str) -> "subprocess.Popen[str]":
    path = CALIBRATOR.save(tmp_path / "pm.scare")
    fields = [word for channel, key in FIELDS.items() for word in ("--field", f"{channel}={key}")]
    line = [sys.executable, "-m", "scare", "stream", str(path), "--format", "json", *fields, *more]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    return subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def test_a_second_process_goes_on_where_the_first_ended(tmp_path: Path) -> None:
    """The first is stopped by a signal, as Telegraf and systemd do, and answers before its input ends."""
    numbers = values(40)
    lines = [json_line("box-1", row, numbers[row]) + "\n" for row in range(40)]
    first = start(tmp_path, "--state", str(tmp_path / "pm.state"))
    assert first.stdin
    assert first.stdout
    first.stdin.write("".join(lines[:17]))
    first.stdin.flush()
    out = [first.stdout.readline() for _ in range(17)]
    first.send_signal(signal.SIGTERM)
    first.stdin.write(lines[17])  # wakes it where a signal alone does not
    rest, errors = first.communicate(timeout=60)
    out += rest.splitlines(keepends=True)
    assert (first.returncode, "18 lines" in errors or "17 lines" in errors) == (0, True), errors
    second = start(tmp_path, "--state", str(tmp_path / "pm.state"))
    rest, errors = second.communicate("".join(lines[len(out) :]), timeout=60)
    assert "Went on with the windows of 1 devices" in errors
    assert_allclose(written(out + rest.splitlines()), expected("box-1", numbers), atol=2e-6)


@pytest.mark.slow
def test_lines_that_nobody_took_may_come_again(tmp_path: Path) -> None:
    """If the reader is gone, what was not written is not in the state either."""
    numbers, state = values(30), tmp_path / "pm.state"
    lines = [json_line("box-1", row, numbers[row]) + "\n" for row in range(30)]
    first = start(tmp_path, "--state", str(state))
    out = first.communicate("".join(lines[:10]), timeout=60)[0].splitlines()
    broken = start(tmp_path, "--state", str(state))
    assert broken.stdin
    assert broken.stdout
    broken.stdout.close()
    broken.stdin.write("".join(lines[10:20]))
    broken.stdin.close()
    broken.stdin = None
    broken.wait(60)
    assert broken.stderr
    broken.stderr.close()
    again = start(tmp_path, "--state", str(state))
    out += again.communicate("".join(lines[10:]), timeout=60)[0].splitlines()
    assert_allclose(written(out), expected("box-1", numbers), atol=2e-6)


@pytest.mark.slow
def test_two_do_not_share_a_state(tmp_path: Path) -> None:
    first = start(tmp_path, "--state", str(tmp_path / "pm.state"))
    assert first.stdin
    assert first.stdout
    first.stdin.write(json_line("box-1", 0, values(1)[0]) + "\n")
    first.stdin.flush()
    first.stdout.readline()
    second = start(tmp_path, "--state", str(tmp_path / "pm.state"))
    _, errors = second.communicate("", timeout=60)
    assert second.returncode == ExitCode.USAGE
    assert "is in use by another scare stream" in errors
    first.communicate(timeout=60)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--field dust", "write CHANNEL=KEY"),
        ("--field dst=pm", "the model has no channel 'dst'"),
        ("", "Missing option '--format'"),
    ],
)
def test_wrong_options_are_refused(
    options: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = CALIBRATOR.save(tmp_path / "pm.scare")
    form = "--format json" if options else ""
    assert run(f"stream {path} {form} {options}".split()) == ExitCode.USAGE
    assert reason in " ".join(capsys.readouterr().err.split())
