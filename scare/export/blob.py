"""A model as one file for the interpreter of `runtime/src/scare_blob.c`: head, parts, CRC-32, Ed25519 signature.

    CModel -> make_blob -> bytes, unsigned -> sign_blob -> bytes; the target is in blob_package.py

Every number is little-endian, every part on a word boundary. A pointer is a word: an offset in bytes, whose two
lowest bits would always be zero and say instead from where it counts (`CONTENT`, `WINDOW` or `SCRATCH`). The same model
always gives the same bytes.
"""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha512
from time import time
from zlib import crc32

import numpy as np

from scare.errors import DataError, NotApplicableError
from scare.export.blob_kernels import REAL, blob_kernels
from scare.export.c_source import CModel
from scare.export.ed25519 import SIGNATURE_BYTES, sign, verify
from scare.export.memory_layout import WORD
from scare.kernels.c_arguments import Branch, CCall, CTable, CValue

MARK = b"SCB\x02"  # "SCB", version of the format
CONTENT, WINDOW, SCRATCH = range(3)  # from where the offset of a pointer counts
MOST_KERNELS = 32  # different ones: SCARE_BLOB_KERNELS
MOST_TITLE = 1024  # bytes, the last of them zero
QUANTA = 1 / 524_288, 524_288  # smallest and largest number of steps of a scaled value of 1
HEAD_BYTES, PARTS = 220, 13
SEQUENCE_AT = 216  # where the head says when it was signed
INTEGER_AT = 40  # where the head says whether the window holds integers
TAIL_BYTES = WORD + SIGNATURE_BYTES
Part = tuple[int, int]  # bytes from the start of the file; number of elements


@dataclass
class _Writer:
    """Writes the parts of a blob, such as tables, one after the other, equal ones once; its head is filled in last."""

    content: bytearray = field(default_factory=lambda: bytearray(HEAD_BYTES))
    known: dict[bytes, int] = field(default_factory=dict)

    def add(self, numbers: bytes, count: int) -> Part:
        """Add a part of `count` elements, unless there is an equal one; returns where it is."""
        if numbers not in self.known:
            self.known[numbers] = len(self.content)
            self.content += numbers + bytes(-len(numbers) % WORD)  # up to a word boundary
        return self.known[numbers], count

    def add_array(self, numbers: np.ndarray) -> Part:
        """Add the numbers of a table, little-endian; returns where they are."""
        return self.add(numbers.astype(numbers.dtype.newbyteorder("<")).tobytes(), numbers.size)

    def add_rows(self, rows: Iterable[Sequence[float]], form: str) -> Part:
        """Add structures, each packed by this format of `struct`; returns where they are."""
        packed = [struct.pack(f"<{form}", *row) for row in rows]
        return self.add(b"".join(packed), len(packed))


def make_blob(model: CModel) -> bytes:
    """Write the unsigned file of a model; `NotApplicableError` if the interpreter could not run it."""
    writer, descriptor, training = _Writer(), model.descriptor, model.descriptor.training
    for channel, label in zip(descriptor.channels, model.labels, strict=True):
        if channel.quantum and not QUANTA[0] <= channel.quantum <= QUANTA[1]:
            raise DataError(f"{label} has {channel.quantum:g} steps for a scaled value of 1; a blob cannot hold that")
    # Cut off after a whole character, not in the middle of its bytes.
    title = model.title.encode()[: MOST_TITLE - 1].decode(errors="ignore").encode() + b"\0"
    interval = descriptor.interval
    channel_rows = [
        (
            *channel.valid,
            channel.center,
            channel.rest,
            channel.inverse,
            channel.quantum,
            *channel.clamp,
            *channel.trained,
        )
        for channel in descriptor.channels
    ]
    interval_rows = [(*interval.edge, *interval.below, *interval.above, interval.widening)] if interval else []
    parts = [
        writer.add(title, len(title)),
        writer.add_rows(channel_rows, "10f"),
        writer.add_array(np.array(descriptor.absent, np.float32)),
        writer.add_rows(interval_rows, "24f"),
        writer.add_array(np.array(training.whitening, np.float32)),
        writer.add_array(np.array(descriptor.spike_floors, np.float32)),
        writer.add_rows(descriptor.moving, "Iff"),
        writer.add_rows(zip(model.self_test.seeds, model.self_test.results, strict=True), "If"),
    ]
    code = _Code(model, writer)
    if len(code.kernels) > MOST_KERNELS:
        raise NotApplicableError(
            f"the model has {len(code.kernels)} different kernels; a blob has at most {MOST_KERNELS}"
        )
    sections = [writer.add_array(np.array(words, np.uint32)) for words in code.sections]
    identities = [blob_kernels()[name].identity for name in code.kernels]
    parts += [writer.add_array(np.array(identities, np.uint32)), *sections]
    program = model.program
    # The head, in the order in which scare_blob.c reads it: facts, then where each part is, then the choice of a
    # branch, the result and the sequence.
    head = struct.pack(
        "<4s13I10f",
        *(MARK, len(writer.content), model.identity, inputs_checksum(model)),
        *(program.window, program.channels, descriptor.step_ms, descriptor.checked, descriptor.needed),
        *(descriptor.hold, int(program.kind != "float"), model.scratch_bytes, descriptor.settle, descriptor.stuck_rows),
        *(descriptor.target_scale, descriptor.target_center, descriptor.floor, training.limit, training.slow_limit),
        *(training.rising, training.lowest, training.slope, descriptor.spike_share, model.self_test.tolerance),
    )
    head += struct.pack(f"<{2 * PARTS}I", *(number for part in parts for number in part))
    no_sequence = 0  # `sign_blob` numbers the file
    head += struct.pack("<5I", code.decided, *code.periods, code.pointer(program.result), no_sequence)
    assert len(head) == HEAD_BYTES
    writer.content[:HEAD_BYTES] = head
    return _seal(bytes(writer.content)) + bytes(SIGNATURE_BYTES)


class _Code:
    """The program's calls as words: for each call the kernel's number in this file and its arguments.

    `sections` are the calls before a choice of branch, its decision, the simple branch and the deep one. `periods` are
    those of the two branches, and `decided` points to the decision's result; all are zero without a choice.
    """

    def __init__(self, model: CModel, writer: _Writer) -> None:
        self.model, self.writer = model, writer
        self.kernels: list[str] = []  # functions that are called; a kernel's number is its index
        self.periods, self.decided = (0, 0), 0
        calls: tuple[CCall | Branch, ...] = model.program.calls
        before = [call for call in calls if isinstance(call, CCall)]
        sections: list[Sequence[CCall]] = [before, (), (), ()]
        match [call for call in calls if isinstance(call, Branch)]:
            case []:
                pass
            case [branch] if calls[-1] is branch:
                sections = [before, branch.decision, branch.simple, branch.deep]
                self.periods = branch.simple_period, branch.deep_period
                self.decided = self.pointer(branch.decision[-1].output)
            case _:
                raise NotApplicableError("a blob has at most one choice of a branch, at the end of its plan")
        self.sections = [[word for call in section for word in self._words(call)] for section in sections]

    def pointer(self, value: CValue) -> int:
        """Return the word that points to a value."""
        place = self.model.layout.places[value.name]
        if place.offset % WORD:
            raise NotApplicableError(f"{value.name} does not begin on a word boundary, as a blob needs")
        return place.offset | (WINDOW if place.in_window else SCRATCH)

    def _words(self, call: CCall) -> list[int]:
        """Return the words of a call: the kernel's number in this file, then a word for each argument."""
        if call.function not in self.kernels:
            self.kernels.append(call.function)
        kinds = blob_kernels()[call.function].kinds
        return [
            self.kernels.index(call.function),
            *(self._word(argument, kind) for argument, kind in zip(call.arguments, kinds, strict=True)),
        ]

    def _word(self, argument: CValue | CTable | float, kind: int) -> int:
        """Return an argument as a word: a pointer to a value or a table, the bits of a float, or a whole number.

        `kind` is that of the kernel's parameter, as in `blob_kernels`.
        """
        if isinstance(argument, CValue):
            return self.pointer(argument)
        if isinstance(argument, CTable):
            return self.writer.add_array(argument.values)[0] | CONTENT
        if kind == REAL:
            return int(np.float32(argument).view(np.uint32))
        return int(argument) & 0xFFFFFFFF


def inputs_checksum(model: CModel) -> int:
    """Return a checksum of channels and target, by which firmware refuses a file for other readings."""
    return crc32("\n".join([*model.labels, model.target]).encode())


def sign_blob(content: bytes, key: bytes, sequence: int | None = None) -> bytes:
    """Sign a file with a private key and number it: devices prefer the file with the largest `sequence`.

    By default that is the time in seconds since 1970, so a file that is signed later is newer.
    """
    body = _numbered(content, int(time()) if sequence is None else sequence)
    return _seal(body) + sign(key, manifest(body))


def manifest(body: bytes) -> bytes:
    """Return the message that is signed: the sequence in the head, and the SHA-512 of head and parts.

    It is short, so the signature can be checked without the whole file.
    """
    return body[SEQUENCE_AT:HEAD_BYTES] + sha512(body).digest()


def is_signed_by(content: bytes, public: bytes) -> bool:
    """Whether the file's signature was made with the private counterpart of this public key."""
    return verify(content[-SIGNATURE_BYTES:], public, manifest(content[:-TAIL_BYTES]))


def unsigned(content: bytes) -> bytes:
    """Return the file as it was before it was signed."""
    return _seal(_numbered(content, 0)) + bytes(SIGNATURE_BYTES)


def _numbered(content: bytes, sequence: int) -> bytes:
    """Return head and parts of a file with this sequence in the head."""
    return content[:SEQUENCE_AT] + struct.pack("<I", sequence) + content[HEAD_BYTES:-TAIL_BYTES]


def _seal(body: bytes) -> bytes:
    """Append the checksum of head and parts."""
    return body + struct.pack("<I", crc32(body))


def check_blob(content: bytes, name: str) -> None:
    """Raise `DataError` unless the file is complete and its checksum is right."""
    end = len(content) - TAIL_BYTES  # of head and parts; then come their checksum and the signature
    has_head = end >= HEAD_BYTES and content[:4] == MARK
    if not has_head or struct.unpack_from("<I", content, 4)[0] != end:
        raise DataError(f"{name} is not a blob of scare, or it is cut short; export it again")
    if crc32(content[:end]) != struct.unpack_from("<I", content, end)[0]:
        raise DataError(f"{name} is damaged: its checksum is wrong; export it again")


def is_fixed(content: bytes) -> bool:
    """Whether the model is in fixed point."""
    return bool(struct.unpack_from("<I", content, INTEGER_AT)[0])
