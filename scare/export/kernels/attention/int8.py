"""How the attention kernels are called in integers."""

from scare.calibrator.kernels.attention.integers import POWER_BITS, score_bits, spare_room, value_bits
from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep
from scare.export.kernels.int8_tables import after_bias, fits, padded, table

USUAL = (16, 8), 5  # supports, width and coefficients for which a kernel is compiled anew


def _hash_codes(placed: PlacedStep) -> CForm:
    weights, (rows, width) = placed.step.weights, placed.shapes[0]
    supports, bits = weights["projection"].shape
    fits("width", width), fits("supports", supports)
    tables = (
        table(padded(padded(weights["supports"], 8).T, 8).T, "supports"),
        table(weights["coefficients"], "kernel polynomial"),
        table(after_bias(weights["bias"], weights["projection"])[::-1], "hash bias and projection"),
    )
    if (weights["supports"].shape, len(weights["coefficients"])) == USUAL:
        return CForm((*tables, rows, bits), function="hash_codes_8_16", kind="uint32_t", kept=True)
    sizes = rows, width, supports, bits, len(weights["coefficients"]) - 1
    return CForm((*tables, *sizes), kind="uint32_t", kept=True)


def _bitwise_attention(placed: PlacedStep) -> CForm:
    (rows, width), settings = placed.shapes[2], placed.step.settings
    fits("tokens", rows), fits("value pairs", (rows + 1) // 2 * width), fits("bits", settings["bits"])
    most = settings["bits"] + settings["bias"]
    return CForm((rows, width, most, spare_room(rows, most)))


def _softmax_attention(placed: PlacedStep) -> CForm:
    settings, rows, most = placed.step.settings, placed.out[0], 1 << POWER_BITS
    width, values = (placed.shapes[place][1] // settings["heads"] for place in (0, 2))
    sizes = fits("tokens", rows), settings["heads"], width, values
    bits = settings["bits"], score_bits(width), value_bits(rows, most), spare_room(rows, most)
    return CForm((*sizes, settings["sharpness"], *bits))


INT8: dict[str, MakeForm] = {
    "hash_codes_s8": _hash_codes,
    "bitwise_attention_s8": _bitwise_attention,
    "softmax_attention_s8": _softmax_attention,
}
