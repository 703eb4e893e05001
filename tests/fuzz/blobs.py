"""Blobs with words changed and a right checksum, opened and run in C under the sanitizers: refused, or safe."""

import struct
import subprocess
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from zlib import crc32

import numpy as np

from scare.board.build import cache_folder
from scare.export.blob import HEAD_BYTES, TAIL_BYTES, make_blob
from scare.export.lowering import compile_calibrator
from scare.files import replacing
from tests.calibrator.building import (
    EDGES,
    attention_plan,
    curve_plan,
    make_calibrator,
    newest_plan,
    tree_plan,
    with_edges,
)
from tests.fuzz.mutating import mutate
from tests.fuzz.pushes import COMPILER, FLAGS, network_plan
from tests.fuzz.target import LieError, Target

RUNTIME = Path(__file__).parents[2] / "runtime" / "src"
BLOBS = 250  # in one file
FIRST_PART = 4 * 24  # bytes of the head before offsets and counts
PLANS = [newest_plan(3), curve_plan(12), network_plan(), tree_plan(12, trees=4)]
NASTY = (*range(20), 31, 32, 33, 64, 255, 256, 1000, 65535, 65536, 1 << 24, 0x7F800000, 0x7FC00000, 0x7FFFFFFF, 1 << 31)
NASTY = (*NASTY, 0xFF800000, 0xFFFFFFFF, 0xFFFFFFF8)


@cache
def bases() -> list[bytes]:
    """Sound files: every arithmetic, a new device, intervals, a training range."""
    made = []
    for plan in PLANS:
        for arithmetic in ("float32", "fixed"):
            for settle in (0, 5):
                calibrator = with_edges(make_calibrator(plan, settle, training_range=EDGES))
                model = compile_calibrator(calibrator, arithmetic, "" if settle else "box-1").c_model
                made.append(make_blob(model))
    return [*made, make_blob(compile_calibrator(make_calibrator(attention_plan()), "float32", "box-1").c_model)]


@cache
def program() -> Path:
    """The runtime and blobs.c, compiled; made once for this computer and these sources."""
    sources = [*sorted(RUNTIME.rglob("*.c")), Path(__file__).with_name("blobs.c")]
    headers = sorted(RUNTIME.rglob("*.h"))
    made_of = sha256(repr(FLAGS).encode() + b"".join(path.read_bytes() for path in (*sources, *headers)))
    out = cache_folder() / "fuzz" / f"blobs-{made_of.hexdigest()[:16]}"
    if not out.exists():
        flags = [*FLAGS, "-DSCARE_SETTLE=1", "-DSCARE_PAST=1", f"-I{RUNTIME}", f"-I{RUNTIME / 'kernels'}"]
        with replacing(out) as temporary:
            subprocess.run([str(COMPILER), *flags, *map(str, sources), "-lm", "-o", str(temporary)], check=True)
        out.chmod(0o755)
    return out


def make(chance: Random) -> bytes:
    """So many changed blobs, each after its length."""
    made = (_mutated(chance.choice(bases()), chance) for _ in range(BLOBS))
    return b"".join(struct.pack("<I", len(one)) + one for one in made)


def _mutated(content: bytes, chance: Random) -> bytes:
    whole = mutate(content, chance)
    if chance.random() < 0.02 or len(whole) < 2 * HEAD_BYTES:
        return whole
    body = content[:-TAIL_BYTES]
    if chance.random() < 0.05:
        body = whole[:-TAIL_BYTES]
        body += bytes(-len(body) % 4)
    words = np.frombuffer(body, np.uint32).copy()
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        low, high = chance.choice(
            ((1, HEAD_BYTES // 4), (FIRST_PART // 4, HEAD_BYTES // 4), (HEAD_BYTES // 4, len(words)))
        )
        at = min(chance.randrange(low, max(low + 1, high)), len(words) - 1)
        words[at] = _changed(int(words[at]), words, chance)
    words[1] = words.nbytes if chance.random() < 0.99 else words[1]
    return words.tobytes() + struct.pack("<I", crc32(words.tobytes())) + content[-TAIL_BYTES + 4 :]


def _changed(word: int, words: np.ndarray, chance: Random) -> int:
    match chance.randrange(5):
        case 0:
            return chance.choice(NASTY)
        case 1:
            return (word + chance.choice((-8, -4, -3, -2, -1, 1, 2, 3, 4, 8))) % 2**32
        case 2:
            return word ^ 1 << chance.randrange(32)
        case 3:
            return chance.getrandbits(32)
        case _:
            return int(chance.choice(words))


def use(path: Path) -> int:
    """Open and run them all; how many were taken."""
    done = subprocess.run([program(), path], capture_output=True, text=True)
    if done.returncode:
        raise LieError(f"ended with {done.returncode}: {done.stderr[:2000]}")
    return int(done.stdout)


TARGET = Target("blobs", ".bin", make, use, inputs=BLOBS, prepare=program)
