"""How the attention kernels are called in float32."""

from math import e, log2, prod, sqrt

import numpy as np

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep
from scare.export.kernels.float32_tables import CHUNK, FOUR, chunked, padded, table


def _hash_codes(placed: PlacedStep) -> CForm:
    """Supports and sharpness in powers of two; supports and bits that only fill up change nothing."""
    supports = padded(log2(e) * placed.weight("supports").T, 1, CHUNK)
    projection = padded(padded(placed.weight("projection"), 0, CHUNK), 1, FOUR)
    bias = padded(placed.bias(placed.step.weights["projection"].shape[1]), 0, FOUR, -1.0)
    numbers = table(np.concatenate([bias, chunked(supports, projection)]), "bias, supports and projection")
    sharpness, epsilon = (float(placed.step.settings[name]) for name in ("sharpness", "epsilon"))
    sizes = *placed.shapes[0], *projection.shape
    return CForm((numbers, *sizes, log2(e) * sharpness, epsilon), kind="uint32_t", kept=True)


def _bitwise_attention(placed: PlacedStep) -> CForm:
    return _attention_on_bits(placed, "bitwise_attention")


def _memory_attention(placed: PlacedStep) -> CForm:
    """Pair by pair: less than a memory for the one query that models ask."""
    return _attention_on_bits(placed, "memory_attention" if placed.step.settings["own"] else "bitwise_attention")


def _attention_on_bits(placed: PlacedStep, function: str) -> CForm:
    (keys, width), settings = placed.shapes[2], placed.step.settings
    sizes = prod(placed.shapes[0]), keys, width, int(settings["bits"]), int(settings["bias"])
    return CForm(sizes, work=keys, function=function)


def _softmax_attention(placed: PlacedStep) -> CForm:
    (queries, width), (keys, values), heads = placed.shapes[0], placed.shapes[2], placed.step.settings["heads"]
    sizes = queries, keys, heads, width // heads, values // heads
    return CForm((*sizes, 1 / sqrt(width // heads)), work=keys)


def _attention_scores(placed: PlacedStep) -> CForm:
    heads, queries, keys = placed.out
    return CForm((queries, keys, heads, placed.shapes[0][1] // heads))


def _softmax_mix(placed: PlacedStep) -> CForm:
    heads, queries, keys = placed.shapes[0]
    return CForm((queries, keys, heads, placed.out[1] // heads), work=keys)


FLOAT32: dict[str, MakeForm] = {
    "hash_codes": _hash_codes,
    "bitwise_attention": _bitwise_attention,
    "memory_attention": _memory_attention,
    "softmax_attention": _softmax_attention,
    "attention_scores": _attention_scores,
    "softmax_mix": _softmax_mix,
}
