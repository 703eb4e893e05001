"""Pushes of an exported model, in C under the sanitizers of addresses and of undefined behaviour."""

import shutil
import struct
import subprocess
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import numpy as np

from scare.board.build import cache_folder, read_export
from scare.calibrator.plan import Plan, Step
from scare.export.package import export_calibrator
from scare.files import replacing
from tests.calibrator.building import EDGES, attention_plan, curve_plan, make_calibrator, newest_plan
from tests.fuzz.target import LieError, Target

COMPILER = shutil.which("gcc") or shutil.which("clang")
FLAGS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-O1", "-g", "-std=c99", "-ffp-contract=off")
PAST = "-DSCARE_PAST=1"  # STUCK and SPIKE too
PUSHES, STEP = 2000, 60_000


def network_plan() -> Plan:
    """The attention of a small network, as integers can have it, and a line of its tokens."""
    plan = attention_plan()
    steps = [_in_integers(step) for step in plan.steps[:13]]
    weight = {"weight": np.linspace(-1, 1, 12, dtype=np.float32)[:, None]}
    return Plan(plan.window, 2, (*steps, Step("flatten", ("r",), "rf"), Step("dense", ("rf",), "y", weight)))


def _in_integers(step: Step) -> Step:
    if step.kernel == "lens":
        return replace(step, weights={"weight": step.weights["weight"]})
    if step.kernel != "hash_codes":
        return step
    supports = step.weights["supports"]
    unit = supports / np.linalg.norm(supports, axis=1, keepdims=True) * np.float32(step.settings["sharpness"])
    return replace(step, weights={**step.weights, "supports": unit})


PLANS = {"newest": newest_plan(3), "network": network_plan(), "curve": curve_plan(20)}
MODELS = [(name, arithmetic) for name in PLANS for arithmetic in ("float32", "fixed")]
NASTY = (0x7FC00000, 0x7F800000, 0xFF800000, 0x7F7FFFFF, 0xFF7FFFFF, 1, 0x80000000, 0x00800000, 0x7F800001, 0x4F800000)


@cache
def program(number: int) -> Path:
    """The model of a number, compiled; made once for this computer and these sources."""
    name, arithmetic = MODELS[number]
    with TemporaryDirectory() as folder:
        calibrator = make_calibrator(PLANS[name], training_range=EDGES if name == "network" else None)
        export_calibrator(calibrator, "c", arithmetic, Path(folder) / "model", "box-1")
        exported = read_export(Path(folder) / "model")
        sources = [exported.source, Path(__file__).with_name("pushes.c"), *exported.runtime]
        made_of = sha256(repr((FLAGS, PAST)).encode() + b"".join(source.read_bytes() for source in sources))
        out = cache_folder() / "fuzz" / f"{name}-{arithmetic}-{made_of.hexdigest()[:16]}"
        if not out.exists():
            includes = [f"-I{one}" for one in (*exported.includes, exported.runtime_headers)]
            command = [str(COMPILER), *FLAGS, PAST, *exported.defines, *includes, *map(str, sources), "-lm"]
            with replacing(out) as temporary:
                subprocess.run([*command, "-o", str(temporary)], check=True)
            out.chmod(0o755)
    return out


def make(chance: Random) -> bytes:
    """The model's number, then readings: usual ones, wild ones, any bits; at steady, jumping and wrapping times."""
    rows, now = [bytes([chance.randrange(len(MODELS))])], chance.getrandbits(32)
    wild = chance.choice((0.01, 0.2, 1.0))
    for _ in range(PUSHES):
        now = (
            chance.getrandbits(32)
            if chance.random() < wild * 0.05
            else now + chance.choice((STEP, STEP, STEP, 0, 3 * STEP, 61))
        )
        rows.append(struct.pack("<I", now % 2**32) + b"".join(_number(chance, wild) for _ in range(2)))
    return b"".join(rows)


def _number(chance: Random, wild: float) -> bytes:
    if chance.random() >= wild:
        return struct.pack("<f", chance.uniform(0, 400))
    return struct.pack("<I", chance.choice(NASTY) if chance.random() < 0.5 else chance.getrandbits(32))


def use(path: Path) -> int:
    """Push them all; how many values there were."""
    content, rows = path.read_bytes(), path.with_suffix(".rows")
    rows.write_bytes(content[1:])
    done = subprocess.run([program(content[0] % len(MODELS)), rows], capture_output=True, text=True)
    if done.returncode:
        raise LieError(f"{MODELS[content[0] % len(MODELS)]} ended with {done.returncode}: {done.stderr[:2000]}")
    return int(done.stdout)


def prepare() -> None:
    """Compile every model."""
    for number in range(len(MODELS)):
        program(number)


TARGET = Target("pushes", ".bin", make, use, inputs=PUSHES, prepare=prepare)
