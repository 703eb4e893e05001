"""Places in flat arrays as sums of loop variables: what `python_module` prints between brackets."""

from collections.abc import Sequence
from math import prod

from scare.kernels import Shape

Index = dict[str, int]  # a sum: how often each variable is in it, and "" for the number


def address(places: Sequence[Index], shape: Shape) -> Index:
    """Where the number at these places is in a flat array of this shape."""
    total: Index = {}
    stride = prod(shape)
    for place, length in zip(places, shape, strict=True):
        stride //= length
        for name, times in place.items():
            total[name] = total.get(name, 0) + times * stride
    return total


def broadcast(places: Sequence[Index], shape: Shape) -> list[Index]:
    """The places in an operand of this shape: its axes are the last ones, those of length 1 stand still."""
    last = places[len(places) - len(shape) :]
    return [place if length > 1 else {} for place, length in zip(last, shape, strict=True)]


def moved(place: Index, number: int) -> Index:
    """The place so many numbers further."""
    return {**place, "": place.get("", 0) + number}


def index_text(index: Index) -> str:
    """As Python.

    >>> index_text({"i": 8, "": -3, "j": 1}), index_text({})
    ('8 * i + j - 3', '0')
    """
    number = index.get("", 0)
    terms = [name if times == 1 else f"{times} * {name}" for name, times in index.items() if name and times]
    if not terms:
        return str(number)
    end = f" {'+' if number > 0 else '-'} {abs(number)}" if number else ""
    return " + ".join(terms) + end


def split_axes(shape: Shape, source: Shape) -> list[slice] | None:
    """For each axis of the source the axes of `shape` that it is split into, which may be none; None: some are joined.

    >>> split_axes((5, 2, 3), (5, 6)), split_axes((30,), (5, 6))
    ([slice(0, 1, None), slice(1, 3, None)], None)
    """
    parts, at = [], 0
    for length in source:
        start, product = at, 1
        while product < length and at < len(shape):
            product *= shape[at]
            at += 1
        if product != length:
            return None
        parts.append(slice(start, at))
    return parts
