"""How the conversion kernels are called in integers."""

from scare.export.kernels.c_form import CForm, MakeForm, PlacedStep


def _result(placed: PlacedStep) -> CForm:
    return CForm((float(placed.step.settings["unit"]),), kind="float")


INT8: dict[str, MakeForm] = {"result_s8": _result}
