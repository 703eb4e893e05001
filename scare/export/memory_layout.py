"""Memory planning: place each value of a program in scratch memory, shared by values that are not alive at once.

    Program -> find_blocks (lifetimes) -> plan_memory (greedy by size) -> Layout -> c_source.py

Greedy by size: the largest block is placed first, each as low as it fits. Then the block that ends highest is moved to
the front and all are placed again; after a few rounds hardly anything is left to gain.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from scare.kernels.c_arguments import BYTES, WINDOW_NAME, CCall, CValue, Program

WORD = 4  # bytes; every value is aligned to it
ROUNDS = 100  # most times that all blocks are placed

Offsets = dict[str, int]  # offsets of blocks in bytes, by name


@dataclass(frozen=True)
class Place:
    """Where a value begins: bytes from the start of the window or of scratch memory."""

    in_window: bool
    offset: int


@dataclass(frozen=True)
class Layout:
    """The place of every value by name, and the bytes of scratch memory in total."""

    places: Mapping[str, Place]
    bytes: int


@dataclass(frozen=True)
class Block:
    """The memory of a value and its views, alive from call `first` to call `last`, both included.

    `over` are inputs that call `first` may overwrite in place with this block: the offset in bytes at which the block
    must begin in each, by the input's name.
    """

    name: str
    size: int
    first: int
    last: int
    over: Mapping[str, int]

    def lives_with(self, other: "Block") -> bool:
        """Whether both are alive at the same call."""
        return self.first <= other.last and other.first <= self.last


def plan_memory(program: Program) -> Layout:
    """Place every value so that no two alive at once overlap, in as little memory as a short search finds.

    >>> a, b, c = (CValue(name, "float", (8,)) for name in "abc")
    >>> calls = (CCall("f", (a,), a), CCall("g", (a, b), b), CCall("h", (b, c), c))
    >>> layout = plan_memory(Program("float", 4, 1, calls, c))
    >>> layout.bytes, layout.places["c"].offset == layout.places["a"].offset
    (64, True)
    """
    blocks, values = find_blocks(program), values_by_name(program)
    offsets = _best_offsets(blocks)
    places = {}
    for name, value in values.items():
        owner, start = _owner(value, values)
        places[name] = Place(owner == WINDOW_NAME, offsets.get(owner, 0) + start)
    return Layout(places, _total_bytes(blocks, offsets))


def find_blocks(program: Program) -> list[Block]:
    """List the blocks: one for each value that is neither a view nor the window."""
    values, calls = values_by_name(program), list(program.every_call())
    # Indices of the calls that read or write each block, by its name. Using a view uses the block it is a part of.
    alive: dict[str, list[int]] = {}
    for index, call in enumerate(calls):
        for value in (*call.reads, call.output):
            block_name, _ = _owner(value, values)
            alive.setdefault(block_name, []).append(index)
    for value in values.values():
        if value.kept or value.name == program.result.name:  # read after the run, so alive after the last call
            block_name, _ = _owner(value, values)
            alive.setdefault(block_name, []).append(len(calls))
    overwritable: dict[str, Offsets] = {}  # `Block.over`, by name of the block: told by the first call that writes it
    for index, call in enumerate(calls):
        overwritable.setdefault(call.output.name, _reusable_inputs(call, index, alive, values))
    return [
        # `-(-bytes // WORD)` rounds up to whole words.
        Block(name, -(-values[name].bytes // WORD) * WORD, min(indices), max(indices), overwritable.get(name, {}))
        for name, indices in alive.items()
        if name != WINDOW_NAME
    ]


def least_bytes(blocks: Sequence[Block]) -> int:
    """Lower bound for the bytes of any layout: the most bytes that are alive at one call."""

    def alive(index: int) -> int:
        """Count the bytes alive at a call, without those that its output may share with its inputs."""
        living = {block.name: block for block in blocks if block.first <= index <= block.last}
        # A block that begins at this call may begin at `start` in one of its inputs.
        shared = (
            max((min(block.size, living[name].size - start) for name, start in block.over.items()), default=0)
            for block in living.values()
            if block.first == index
        )
        return sum(block.size for block in living.values()) - sum(shared)

    return max((alive(block.first) for block in blocks), default=0)


def values_by_name(program: Program) -> dict[str, CValue]:
    """Return all values of a program, views included."""

    def mentioned() -> Iterator[CValue]:
        for call in program.every_call():
            yield from (*call.reads, call.output)
            yield from (call.codes,) if call.codes else ()
        yield program.result

    return {value.name: value for value in mentioned()}


def _owner(value: CValue, values: Mapping[str, CValue]) -> tuple[str, int]:
    """Resolve a view: the name of the value that owns the memory, and the offset in it in bytes."""
    start = 0
    while value.view_of:
        start += value.start * BYTES[value.kind]
        if value.view_of == WINDOW_NAME:
            return WINDOW_NAME, start
        value = values[value.view_of]
    return value.name, start


def _reusable_inputs(call: CCall, index: int, alive: Mapping[str, list[int]], values: Mapping[str, CValue]) -> Offsets:
    """Return the inputs of a call whose memory its output may reuse, with the offset at which it begins in each.

    The output must be new at this call. The call must read the input once, and no later call may read it.
    """
    output = call.output
    if output.view_of or alive[output.name][0] != index:
        return {}
    owners = [_owner(value, values) for value in call.reads]  # name of a block, and the input's offset in it
    names = [name for name, _ in owners]
    reusable = {}
    for value, (name, start) in zip(call.reads, owners, strict=True):
        may_overwrite = value.name in output.over and name != WINDOW_NAME and start % WORD == 0
        if may_overwrite and names.count(name) == 1 and max(alive[name]) == index:
            reusable[name] = start
    return reusable


def _best_offsets(blocks: Sequence[Block]) -> Offsets:
    """Return the best of a few greedy placements, as the module's docstring describes; stops at the lower bound."""
    order = sorted(blocks, key=lambda block: (-block.size, block.first, block.name))
    best = offsets = _place(order)
    least = least_bytes(blocks)
    for _ in range(ROUNDS - 1):
        if _total_bytes(blocks, best) <= least:
            break
        highest = max(order, key=lambda block: offsets[block.name] + block.size)
        order = [highest, *(block for block in order if block is not highest)]
        offsets = _place(order)
        best = min(best, offsets, key=lambda each: _total_bytes(blocks, each))
    return best


def _place(order: Sequence[Block]) -> Offsets:
    """Place blocks in this order, each at the lowest offset where it fits among those placed before it."""
    offsets: Offsets = {}
    placed: list[Block] = []
    for block in order:
        alive = [other for other in placed if other.lives_with(block)]
        # The lowest offset that fits is 0, the end of another block, or where it may overlap one.
        ends = (offsets[other.name] + other.size for other in alive)
        on_others = [
            offsets[other.name] + start for other in alive if (start := _allowed_overlap(block, other)) is not None
        ]
        candidates = sorted({0, *ends, *(offset for offset in on_others if offset >= 0)})
        fitting = (offset for offset in candidates if all(_fits(block, offset, other, offsets) for other in alive))
        offsets[block.name] = next(fitting)  # the end of the highest block fits in any case
        placed.append(block)
    return offsets


def _allowed_overlap(block: Block, other: Block) -> int | None:
    """Return the offset from the start of `other` at which the block may overlap it; None if it may not."""
    if other.name in block.over:
        return block.over[other.name]
    return -other.over[block.name] if block.name in other.over else None


def _fits(block: Block, offset: int, other: Block, offsets: Offsets) -> bool:
    """Whether the block at this offset does not overlap `other`, or overlaps it where it may."""
    start = offsets[other.name]
    is_apart = offset >= start + other.size or start >= offset + block.size
    return is_apart or offset - start == _allowed_overlap(block, other)


def _total_bytes(blocks: Sequence[Block], offsets: Offsets) -> int:
    """Return the bytes of memory up to the end of the highest block."""
    return max((offsets[block.name] + block.size for block in blocks), default=0)
