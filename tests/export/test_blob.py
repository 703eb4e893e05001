"""A model as one file: what the interpreter takes and what it refuses; each model in test_every_model.py."""

import struct
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.board.boards import board
from scare.board.build import compile_c, link
from scare.board.virtual import OUTSIDE, Machine
from scare.calibrator.plan import Plan
from scare.errors import DataError
from scare.export.blob import (
    HEAD_BYTES,
    TAIL_BYTES,
    check_blob,
    inputs_checksum,
    is_signed_by,
    make_blob,
    sign_blob,
    unsigned,
)
from scare.export.blob_kernels import blob_kernels
from scare.export.c_source import CModel, print_header, print_source
from scare.export.ed25519 import new_key, public_key
from scare.export.lowering import Arithmetic, compile_calibrator
from scare.export.package import export_calibrator
from scare.kernels.c_extents import Op
from scare.live.blobs import Blob as Served
from tests.calibrator.building import curve_plan, make_calibrator, newest_plan, tree_plan, with_edges
from tests.export.blobs import DAMAGED, FOREIGN, MEMORY, OK, UNSIGNED, Blob
from tests.export.building import RUNTIME, compile_models, sources
from tests.fuzz.pushes import network_plan

PLANS = {"line": newest_plan(3), "curve": curve_plan(20), "network": network_plan(), "trees": tree_plan()}
KEY, STACK, MOST_PARAMETERS = bytes(range(32)), 8, 16  # of scare_blob.c


def compiled(plan: Plan, arithmetic: str = "float32", settle: int = 0) -> CModel:
    calibrator = with_edges(make_calibrator(plan, settle))
    return compile_calibrator(calibrator, arithmetic, "" if settle else "box-1").c_model


def write_generated(model: CModel, folder: Path) -> Path:
    """The model in C, in its own folder; the runtime is compiled beside it."""
    (folder / "model").mkdir()
    (folder / "model" / "model.h").write_text(print_header(model, ""), encoding="utf-8")
    (folder / "model" / "model.c").write_text(print_source(model, ""), encoding="utf-8")
    return folder / "model"


def resealed(content: bytes) -> bytes:
    """With a right checksum."""
    body = content[:-TAIL_BYTES]
    return body + struct.pack("<I", crc32(body)) + content[-64:]


CURVE = compiled(PLANS["curve"], Arithmetic.FIXED)
BLOB = make_blob(CURVE)


def test_the_same_model_is_the_same_file() -> None:
    assert make_blob(compiled(PLANS["curve"], Arithmetic.FIXED)) == BLOB
    check_blob(BLOB, "curve.blob")
    for other in (b"", BLOB[:-1], BLOB + b"\0", BLOB[:HEAD_BYTES] + b"\1" + BLOB[HEAD_BYTES + 1 :]):
        with pytest.raises(DataError, match="export it again"):
            check_blob(other, "curve.blob")


def test_what_it_says_of_itself() -> None:
    blob = Blob(BLOB)
    assert blob.status == OK
    assert (blob.title, blob.inputs, blob.bytes) == (CURVE.title, inputs_checksum(CURVE), len(BLOB))
    assert blob.facts.window == 20
    assert blob.begin(CURVE.memory_bytes - 4) == MEMORY


def test_firmware_and_gateway_give_a_file_the_same_version() -> None:
    content = sign_blob(make_blob(compiled(PLANS["line"])), KEY)
    assert Blob(content, public_key(KEY)).version == Served("pm", content).version
    other = sign_blob(make_blob(compiled(PLANS["curve"])), KEY)
    assert Served("pm", other).version != Served("pm", content).version


def test_it_may_lie_before_something_else() -> None:
    assert Blob(BLOB + bytes(range(256)) * 8).status == OK


def test_only_the_owners_signature_is_taken() -> None:
    signed = sign_blob(BLOB, KEY)
    assert unsigned(signed) == BLOB
    assert is_signed_by(signed, public_key(KEY))
    assert not is_signed_by(BLOB, public_key(KEY))
    assert Blob(signed, public_key(KEY)).status == OK
    assert Blob(signed).status == OK
    assert Blob(signed, public_key(new_key())).status == UNSIGNED
    assert Blob(BLOB, public_key(KEY)).status == UNSIGNED
    changed = bytearray(signed)
    changed[HEAD_BYTES + 8] ^= 1
    assert Blob(bytes(changed), public_key(KEY)).status == DAMAGED
    assert Blob(resealed(bytes(changed)), public_key(KEY)).status == UNSIGNED


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_one_changed_bit_is_noticed(data: st.DataObject) -> None:
    changed = bytearray(BLOB[: -TAIL_BYTES + 4])
    changed[data.draw(st.integers(0, len(changed) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    assert Blob(bytes(changed) + bytes(64)).status == DAMAGED


@given(st.integers(0, len(BLOB) - 1))
def test_a_part_is_not_enough(length: int) -> None:
    assert Blob(BLOB[:length]).status == DAMAGED


def test_another_format_or_kernel_is_foreign() -> None:
    assert Blob(resealed(BLOB[:3] + b"\1" + BLOB[4:])).status == FOREIGN
    identity = struct.pack("<I", blob_kernels()["scare_hat_basis_q"].identity)
    assert BLOB.count(identity) == 1
    assert Blob(resealed(BLOB.replace(identity, b"nono"))).status == FOREIGN
    assert Blob(BLOB, None, "-DSCARE_BLOB_FIXED=0").status == FOREIGN
    assert Blob(make_blob(compiled(PLANS["curve"])), None, "-DSCARE_BLOB_FIXED=0").status == OK


@pytest.mark.parametrize(("plan", "arithmetic"), [(plan, one) for plan in PLANS for one in Arithmetic])
def test_a_changed_word_is_refused_or_safe(plan: str, arithmetic: str) -> None:
    """Words of head and plan replaced by nasty ones; tests/fuzz does it by the million under sanitizers."""
    content = make_blob(compiled(PLANS[plan], arithmetic))
    chance, became = np.random.default_rng(1), []
    for _ in range(300):
        words = np.frombuffer(content[:-TAIL_BYTES], np.uint32).copy()
        words[chance.integers(1, len(words))] = chance.choice([0, 1, 2, 3, 0xFFFF, 0x10000, 0x7FFFFFFF, 0xFFFFFFFF])
        became.append(Blob(resealed(words.tobytes() + content[-TAIL_BYTES:])).status)
    assert {DAMAGED} <= set(became) <= {OK, DAMAGED, FOREIGN}


def test_formulas_fit_the_stack_of_the_interpreter() -> None:
    def depth(code: list[tuple[int, ...]]) -> int:
        most = now = 0
        for one, *_ in code:
            pushes = one < Op.BYTE or one in (Op.BYTE, Op.HALF, Op.WORD, Op.TOTAL, Op.LARGEST, Op.LAST)
            now += 1 if pushes else 0 if one == Op.POWER else -1
            most = max(most, now)
        assert now == 1
        return most

    rules = [rule for kernel in blob_kernels().values() for rule in kernel.rules]
    assert max(depth(rule.code) for rule in rules) <= STACK
    assert max(len(kernel.parameters) for kernel in blob_kernels().values()) <= MOST_PARAMETERS


def test_its_header_counts_the_stack_of_opening_a_signed_file(tmp_path: Path) -> None:
    folder = export_calibrator(make_calibrator(PLANS["line"]), "blob", "float32", tmp_path / "out", "box-1").folder
    (tmp_path / "check.c").write_text(
        '#include "model.h"\n'
        "char is_counted[MODEL_RAM_BYTES - MODEL_BYTES - sizeof(scare) - sizeof(scare_blob) == STACK ? 1 : -1];\n"
    )
    for flags in (["-DSTACK=1536"], ["-DSTACK=712", "-DSCARE_SLOTS_UNSIGNED=1"]):  # 640 in C, 72 to interpret
        compile_c([tmp_path / "check.c"], tmp_path / "check.o", ["-c", *flags], [folder / "src"])
    assert "1,536 bytes of stack" in (folder / "README.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize("core", ["nano33ble", "rp2040", "esp32c3"])
def test_opening_a_signed_file_takes_no_more_stack_than_that(core: str) -> None:
    opens = ["scare_blob_open", "scare_blob_open_unsigned"]
    machine = Machine(link(sources(RUNTIME), board(core), [RUNTIME], ["-DSCARE_SETTLE=1"], opens))
    blob, content, key = (OUTSIDE + offset for offset in (0x1000, 0x10000, 0x2000))
    file = sign_blob(make_blob(compiled(PLANS["trees"], Arithmetic.FIXED)), KEY)
    machine.write(key, public_key(KEY))
    machine.write(content, file)
    signed = machine.call(opens[0], blob, content, len(file), key)
    assert (machine.result, 1000 < signed.stack_bytes <= 1536) == (OK, True)
    alone = machine.call(opens[1], blob, content, len(file))
    assert (machine.result, alone.stack_bytes <= 640) == (OK, True)


@pytest.mark.parametrize("settle", [0, 8])
@pytest.mark.parametrize(("plan", "arithmetic"), [(plan, one) for plan in PLANS for one in Arithmetic])
def test_readings_get_the_answers_of_the_model_in_c(plan: str, arithmetic: str, settle: int, tmp_path: Path) -> None:
    """Gaps, missing and wild readings, a new device that settles: every status, value, interval and flag."""
    model = compiled(PLANS[plan], arithmetic, settle)
    generated = compile_models({"model": write_generated(model, tmp_path)}, tmp_path, "-DSCARE_SETTLE=1")["model"]
    blob, chance, now = Blob(make_blob(model)), np.random.default_rng(7), 0
    assert (blob.status, blob.begin(model.memory_bytes)) == (OK, OK)
    statuses = set()
    for _ in range(150):
        now += int(chance.choice([60_000] * 9 + [20_000, 300_000]))
        reading = chance.uniform([0, 200], [60, 400]) * chance.choice([1, 1, 1, 1, 1, 1, 1, 8, np.nan])
        (status, answer), (expected, other) = blob.calibrate(now, reading), generated.calibrate(now, reading)
        assert (status, answer.tobytes()) == (expected, other.tobytes())
        statuses.add(status)
    assert len(statuses) >= 4
