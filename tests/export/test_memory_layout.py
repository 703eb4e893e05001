"""Values that live at the same time lie apart; those that do not share memory."""

from hypothesis import given, settings
from hypothesis import strategies as st

from scare.export.memory_layout import WORD, Layout, find_blocks, least_bytes, plan_memory, values_by_name
from scare.kernels.c_arguments import WINDOW_NAME, Branch, CCall, CValue, Program

INPUT = CValue(WINDOW_NAME, "float", (5, 2))


def value(name: str, size: int, **other: object) -> CValue:
    return CValue(name, "float", (size,), **other)  # type: ignore[arg-type]


def program(*calls: CCall | Branch, result: CValue | None = None) -> Program:
    last = calls[-1]
    return Program("float", 5, 2, calls, result or last.output)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Calls that read earlier values or views of them, and may take over what they read."""
    known: list[CValue] = [INPUT]
    calls = []
    for index in range(draw(st.integers(1, 12))):
        reads = draw(st.lists(st.sampled_from(known), min_size=1, max_size=3, unique=True))
        over = draw(st.lists(st.sampled_from([one.name for one in reads]), max_size=2, unique=True))
        kind = draw(st.sampled_from(["float", "int16_t", "int8_t"]))
        shape = (draw(st.integers(1, 30)),)
        output = CValue(f"v{index}", kind, shape, over=tuple(over), kept=draw(st.integers(0, 9)) == 0)
        calls.append(CCall("f", (*reads, output), output))
        known.append(output)
        if shape[0] > 2 and draw(st.booleans()):
            start = draw(st.integers(0, shape[0] - 1))
            known.append(CValue(f"v{index}.part", kind, (shape[0] - start,), view_of=output.name, start=start))
    return program(*calls)


def extents(made: Program, layout: Layout) -> dict[str, range]:
    values = values_by_name(made)
    return {
        name: range(place.offset, place.offset + values[name].bytes)
        for name, place in layout.places.items()
        if not place.in_window
    }


def overlap(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def run_through(made: Program, layout: Layout) -> None:
    """Who wrote each byte last: what a call reads must still be there."""
    places, values = extents(made, layout), values_by_name(made)
    owner: dict[int, str] = {}

    def root(one: CValue) -> str:
        while one.view_of:
            one = values[one.view_of]
        return one.name

    def intact(one: CValue) -> bool:
        return root(one) == WINDOW_NAME or all(owner[byte] == root(one) for byte in places[one.name])

    for call in made.every_call():
        assert all(intact(one) for one in call.reads)
        for one in call.reads:
            if root(one) != WINDOW_NAME and overlap(places[one.name], places[call.output.name]):
                assert one.name in call.output.over
                assert places[one.name].start == places[call.output.name].start
        owner.update(dict.fromkeys(places[call.output.name], root(call.output)))
    assert all(intact(one) for one in values.values() if one.kept or one.name == made.result.name)


@settings(deadline=None, max_examples=150)
@given(made=programs())
def test_what_is_read_is_still_there_and_nothing_goes_below_the_bound(made: Program) -> None:
    layout = plan_memory(made)
    run_through(made, layout)
    blocks = find_blocks(made)
    assert least_bytes(blocks) <= layout.bytes <= sum(block.size for block in blocks)
    assert all(
        place.offset % WORD == 0 for name, place in layout.places.items() if not values_by_name(made)[name].view_of
    )
    assert all(extent.stop <= layout.bytes for extent in extents(made, layout).values())


@settings(deadline=None, max_examples=30)
@given(made=programs())
def test_the_same_program_gives_the_same_layout(made: Program) -> None:
    assert plan_memory(made) == plan_memory(made)


def test_a_chain_takes_two_places() -> None:
    values = [value(f"v{i}", 10) for i in range(6)]
    calls = [CCall("f", (a, b), b) for a, b in zip([INPUT, *values[:-1]], values, strict=True)]
    assert plan_memory(program(*calls)).bytes == 80


def test_a_chain_in_place_takes_one() -> None:
    values = [value("v0", 10)] + [value(f"v{i}", 10, over=(f"v{i - 1}",)) for i in range(1, 6)]
    calls = [CCall("f", (a, b), b) for a, b in zip([INPUT, *values[:-1]], values, strict=True)]
    assert plan_memory(program(*calls)).bytes == 40


def test_a_value_read_later_is_not_taken_over() -> None:
    a, b = value("a", 10), value("b", 10, over=("a",))
    c = value("c", 1)
    made = program(CCall("f", (INPUT, a), a), CCall("g", (a, b), b), CCall("h", (a, b, c), c))
    assert plan_memory(made).bytes == 84


def test_a_value_read_twice_by_a_call_is_not_taken_over() -> None:
    a = value("a", 10)
    part, b = value("part", 5, view_of="a", start=5), value("b", 10, over=("a",))
    assert plan_memory(program(CCall("f", (INPUT, a), a), CCall("g", (a, part, b), b))).bytes == 80


def test_a_view_begins_inside_its_value_also_when_taken_over() -> None:
    a = value("a", 10)
    part = value("part", 6, view_of="a", start=4)
    b = value("b", 6, over=("part",))
    layout = plan_memory(program(CCall("f", (INPUT, a), a), CCall("g", (part, b), b)))
    assert layout.places["part"].offset == layout.places["a"].offset + 16 == layout.places["b"].offset
    assert layout.bytes == 40


def test_a_view_of_the_window_lies_in_the_window() -> None:
    newest = value("newest", 2, view_of=WINDOW_NAME, start=8)
    y = value("y", 1)
    layout = plan_memory(program(CCall("f", (newest, y), y)))
    assert (layout.places["newest"].in_window, layout.places["newest"].offset) == (True, 32)
    assert layout.bytes == 4


def test_what_is_kept_stays_to_the_end() -> None:
    codes = CValue("codes", "uint32_t", (4,), kept=True)
    a, b = value("a", 10), value("b", 10)
    made = program(CCall("f", (INPUT, codes), codes), CCall("f", (codes, a), a), CCall("g", (a, b), b))
    run_through(made, plan_memory(made))
    assert plan_memory(made).bytes == 96


def test_branches_share_memory() -> None:
    decision, y = value("decision", 1), value("y", 1)
    simple, deep = value("s", 50), value("d", 60)
    branch = Branch(
        (CCall("f", (INPUT, decision), decision),),
        (CCall("f", (INPUT, simple), simple), CCall("g", (simple, y), y)),
        (CCall("f", (INPUT, deep), deep), CCall("g", (deep, y), y)),
        60,
        12,
        y,
    )
    made = program(branch, result=y)
    run_through(made, plan_memory(made))
    assert plan_memory(made).bytes == 4 * 61


def test_an_order_by_size_alone_is_improved() -> None:
    spare, a, b, y = value("spare", 10), value("a", 10), value("b", 9), value("y", 5)
    made = program(CCall("f", (INPUT, spare, a), a), CCall("f", (a, b), b), CCall("f", (a, b, y), y))
    assert plan_memory(made).bytes == 96  # 100 with `spare` below `a`
