"""How the fused kernels are called in float32."""

import numpy as np

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep, view
from scare.export.kernels.float32_tables import CHUNK, USUAL, chunked, in_fours, padded, table, tables


def _token_rows(placed: PlacedStep) -> CForm:
    (rows, channels), (inputs,), outputs = *placed.shapes, placed.out[1]
    mix = placed.weight("mix") if "mix" in placed.step.weights else np.zeros((0, outputs))
    rest = table(in_fours(mix, placed.weight("local"), placed.weight("bias")), "mix, local and bias")
    return CForm((*tables(placed, "share"), rest, rows, channels, inputs if len(mix) else 0, outputs))


def _feed_forward(placed: PlacedStep) -> CForm:
    """C's relu gives twice as much, so half of `outer`: the same bits. Hidden numbers that only fill up are zero."""
    relu = placed.step.settings["activation"] == "relu"
    inner = np.concatenate([placed.weight("inner_bias")[None], placed.weight("inner")])
    outer = placed.weight("outer") * (0.5 if relu else 1.0)
    inner, outer = padded(inner, 1, CHUNK), padded(outer, 0, CHUNK)
    numbers = table(np.concatenate([placed.weight("outer_bias"), chunked(inner, outer)]), "outer bias, inner and outer")
    (rows, width), sizes = placed.rows_and_width, (len(outer), placed.out[-1])
    if relu and width == USUAL:
        return CForm((numbers, rows, *sizes), function="feed_forward_8")
    return CForm((numbers, rows, width, *sizes), function="feed_forward" if relu else "feed_forward_gelu")


FLOAT32: dict[str, MakeForm] = {
    "token_rows": _token_rows,
    "feed_forward": _feed_forward,
    "part": view,
}
