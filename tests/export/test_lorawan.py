"""Eight bytes of an uplink: packed by our C, decoded by the codec in Node, as the header says bit by bit."""

import ctypes
import json
import math
import shutil
import struct
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scare.board.build import STANDARD, STRICT, compile_c, library_name
from scare.export.c_source import lorawan_sources, runtime_sources
from scare.export.package import export_calibrator
from tests.calibrator.building import attention_plan, make_calibrator, with_edges
from tests.export.building import sources
from tests.export.compilers import c, call
from tests.export.printed import correction

PRECISION = 2.0**-11  # of a half, where it has all its bits
SMALLEST = 128 * 2.0**-21  # distance that can be told
WIDENED = 1 / 128 + 1e-6  # of a distance, rounded up to one of 128 steps
CALLER = """
const vm = require("vm"), fs = require("fs");
const codec = vm.createContext({});
vm.runInContext(fs.readFileSync(process.argv[1], "utf8"), codec);
const calls = JSON.parse(fs.readFileSync(0, "utf8"));
console.log(JSON.stringify(calls.map(([name, input]) => codec[name](input))));
"""


class Answer(ctypes.Structure):
    _fields_ = (
        ("value", ctypes.c_float),
        ("low", ctypes.c_float),
        ("high", ctypes.c_float),
        ("flags", ctypes.c_uint32),
    )


class Command(ctypes.Structure):
    _fields_ = (("every_seconds", ctypes.c_uint32), ("reset", ctypes.c_uint32))


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """`scare_lorawan_pack` and `scare_lorawan_read`, compiled with every warning."""
    folder = tmp_path_factory.mktemp("lorawan")
    for name, text in {**runtime_sources(), **lorawan_sources()}.items():
        (folder / name).write_text(text, encoding="utf-8")
    out = folder / library_name("lorawan")
    return ctypes.CDLL(str(compile_c([folder / "scare_lorawan.c"], out, ["-shared", "-fPIC", *STRICT])))


def pack(library: ctypes.CDLL, value: float, low: float, high: float, flags: int) -> bytes:
    payload = ctypes.create_string_buffer(b"\xee" * 9, 9)
    library.scare_lorawan_pack(ctypes.byref(Answer(value, low, high, flags)), payload)
    assert payload.raw[8:] == b"\xee"
    return payload.raw[:8]


def decode(payload: bytes) -> tuple[float, float, float, int]:
    """Value, both ends and flags, by the layout in the header and NumPy's halves."""
    head, half, distances, flags = payload[0], payload[1:3], int.from_bytes(payload[3:6], "big"), payload[6:]
    assert head >> 4 == 1
    scale = 10.0 ** ((head & 15) - 8)
    value = float(np.frombuffer(half, ">f2")[0])

    def distance(code: int) -> float:
        return math.nan if code == 0xFFF else (128 + code % 128) * 2.0 ** (code // 128 - 21)

    low, high = value - distance(distances >> 12), value + distance(distances & 0xFFF)
    return value * scale, low * scale, high * scale, int.from_bytes(flags, "big")


def run_codec(codec: Path, calls: Iterable[tuple[str, dict[str, Any]]]) -> list[dict[str, Any]]:
    if shutil.which("node") is None:
        pytest.skip("node (Debian) would run it")
    done = subprocess.run(
        ["node", "-e", CALLER, codec], input=json.dumps(list(calls)), capture_output=True, text=True, check=True
    )
    answers: list[dict[str, Any]] = json.loads(done.stdout)
    return answers


@pytest.fixture(scope="module")
def codec(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("codec") / "out"
    return export_calibrator(correction("barkjohn-2021"), "lorawan", "float32", out, name="pm25").folder / "codec.js"


sizes = st.floats(2.0**-26, 2.0**33, width=32) | st.floats(0.015625, 65504, width=32) | st.just(0.0)


@given(value=sizes, sign=st.sampled_from([-1, 1]), below=sizes, above=sizes, flags=st.integers(0, 0x7FFF))
@example(value=65504.0, sign=1, below=0.0, above=0.0, flags=0)
@example(value=65520.0, sign=-1, below=1.0, above=2.0, flags=8192)
@example(value=2047.75, sign=1, below=255.0, above=256.0, flags=1)  # rounds up to the next exponent
def test_a_value_comes_back_with_an_interval_that_is_not_narrower(
    packed: ctypes.CDLL, value: float, sign: int, below: float, above: float, flags: int
) -> None:
    value = float(np.float32(sign * value))
    below, above = min(below, abs(value)), min(above, abs(value))
    low, high = float(np.float32(value - below)), float(np.float32(value + above))
    sent, lowest, highest, kept = decode(pack(packed, value, low, high, flags))
    assert kept == flags
    error = PRECISION * abs(value) * 1.001 + 1e-14
    assert abs(sent - value) <= error
    slack = 1e-6 * (abs(value) + 1e-7)  # of the multiplications by ten, in float32
    for outwards, distance in ((low - lowest, sent - low), (highest - high, high - sent)):
        assert outwards >= -slack
        assert outwards <= WIDENED * max(distance, 0.0) + error + slack + SMALLEST * max(1.0, abs(value))


def test_without_a_value_there_are_flags_only(packed: ctypes.CDLL) -> None:
    nan = math.nan
    assert pack(packed, nan, nan, nan, 256) == struct.pack(">B7s", 0x18, b"\x7e\x00\xff\xff\xff\x01\x00")
    assert pack(packed, 1e30, nan, nan, 0)[1:6] == b"\x7e\x00\xff\xff\xff"  # more than 16 bits can say
    value, low, high, _ = decode(pack(packed, 12.5, nan, nan, 0))  # a model without intervals
    assert value == 12.5
    assert math.isnan(low)
    assert math.isnan(high)


def test_a_payload_by_hand(packed: ctypes.CDLL) -> None:
    """12.5 as a half is 0x4A40; 2 and 3 below and above are 128 and 192 times 2^-6."""
    assert pack(packed, 12.5, 10.5, 15.5, 8192).hex() == "184a40" + "780" + "7c0" + "2000"


def test_the_codec_reads_what_c_writes(packed: ctypes.CDLL, codec: Path) -> None:
    draw = np.random.default_rng(4)
    values = np.concatenate([draw.lognormal(2, 3, 300) * draw.choice([-1, 1], 300), [0.0, 1e6, 1e-6, 1e30]])
    spreads, flags = draw.lognormal(0, 2, len(values)), draw.integers(0, 2**15, len(values))
    rows = np.column_stack([values, values - spreads, values + 2 * spreads])
    payloads = [pack(packed, *row, int(one)) for row, one in zip(rows.tolist(), flags, strict=True)]
    payloads.append(pack(packed, math.nan, math.nan, math.nan, 0x0102))
    answers = run_codec(codec, [("decodeUplink", {"bytes": [*one], "fPort": 10}) for one in payloads])
    for payload, answer in zip(payloads, answers, strict=True):
        value, low, high, sent_flags = decode(payload)
        data = answer["data"]
        assert data["flags"] == sent_flags
        wanted = [None if math.isnan(number) else pytest.approx(number, rel=1e-9) for number in (value, low, high)]
        assert [data["calibrated"], data["low"], data["high"]] == wanted
        assert ("warnings" in answer) == math.isnan(value)
        assert (data["target"], data["unit"]) == ("PM2.5", "ug/m3")
    assert answers[-1]["data"]["flag_names"] == ["MISSING"]


def test_the_codec_refuses_other_bytes(codec: Path) -> None:
    calls = [
        ("decodeUplink", {"bytes": [0x18] * 7, "fPort": 10}),
        ("decodeUplink", {"bytes": [0x28] * 8, "fPort": 10}),
        ("encodeDownlink", {"data": {"every_seconds": 70000}}),
        ("encodeDownlink", {"data": {"every_seconds": 1.5}}),
        ("encodeDownlink", {"data": {"seconds": 300}}),
        ("decodeDownlink", {"bytes": [0x20, 0, 0, 0], "fPort": 10}),
    ]
    answers = run_codec(codec, calls)
    assert all(list(answer) == ["errors"] for answer in answers)
    assert "the device sends version 2" in answers[1]["errors"][0]


def test_c_obeys_what_the_codec_writes(packed: ctypes.CDLL, codec: Path) -> None:
    asked = [{"every_seconds": 300, "reset": True}, {"every_seconds": 65535}, {"reset": True}, {}]
    encoded = run_codec(codec, [("encodeDownlink", {"data": one}) for one in asked])
    decoded = run_codec(codec, [("decodeDownlink", {"bytes": one["bytes"], "fPort": one["fPort"]}) for one in encoded])
    for data, downlink, again in zip(asked, encoded, decoded, strict=True):
        command, payload = Command(9, 9), bytes(downlink["bytes"])
        assert packed.scare_lorawan_read(payload, len(payload), ctypes.byref(command)) == 0
        wanted = data.get("every_seconds", 0), bool(data.get("reset"))
        assert (command.every_seconds, bool(command.reset)) == wanted
        assert again["data"] == {"every_seconds": wanted[0], "reset": wanted[1]}
        assert downlink["fPort"] == 10


@pytest.mark.parametrize(("payload", "status"), [(b"\x10\x00\x01", 8), (b"\x20\x00\x01\x00", 9), (b"", 8)])
def test_another_downlink_changes_nothing(packed: ctypes.CDLL, payload: bytes, status: int) -> None:
    command = Command(9, 9)
    assert packed.scare_lorawan_read(payload, len(payload), ctypes.byref(command)) == status
    assert (command.every_seconds, command.reset) == (0, 0)


@pytest.mark.slow
def test_the_example_prints_payloads_of_its_values(tmp_path: Path) -> None:
    calibrator = with_edges(make_calibrator(attention_plan()))
    folder = export_calibrator(calibrator, "lorawan", "float32", tmp_path / "out").folder
    program = [*c("c99"), *STANDARD[1:], f"-I{folder / 'src'}", folder / "examples" / "uplink" / "main.c"]
    call([*program, *sources(folder / "src"), "-lm", "-o", tmp_path / "uplink"], tmp_path)
    heading, *rows, last = call([tmp_path / "uplink"], tmp_path).splitlines()
    assert heading == "value,low,high,flags,payload"
    assert last == "# from now on an uplink every 300 s"
    values = [(float(row.split(",")[0]), decode(bytes.fromhex(row.split(",")[4]))[0]) for row in rows]
    assert sum(not math.isnan(value) for value, _ in values) >= 60
    assert all(
        math.isnan(sent) if math.isnan(value) else abs(sent - value) < 1e-3 * abs(value) for value, sent in values
    )
