"""The recipe "Add a kernel", walked: a new kernel in every form, and the sentence when one is forgotten."""

import shutil
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scare.board.build import read_export
from scare.board.host import HostModel
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.cost import count
from scare.calibrator.plan import Plan, run
from scare.errors import NotApplicableError
from scare.export import c_source
from scare.export.lowering import compile_calibrator
from scare.export.micropython_source import Constants, print_function
from scare.export.package import export_calibrator
from scare.export.tensor_graph import lower_to_tensors
from scare.kernels import QUANTISATION, Kernel, Operations, QuantisationRule, Step, pointwise
from scare.kernels.c_arguments import elementwise_form
from scare.kernels.contract import same_shape
from tests.calibrator.building import make_calibrator, newest_plan
from tests.recipes.pages import ROOT, files, recipe

NEGATE = Kernel(lambda x, weights, settings: -x, same_shape, lambda x, *_: Operations(additions=x[0]))
FORMS: dict[str, tuple[dict[str, Any], str, Any]] = {  # the table of the family, the entry's name, the entry
    "NumPy form": (pointwise.FLOAT_KERNELS, "negate", NEGATE),
    "fixed-point form": (pointwise.FIXED_KERNELS, "negate_q", NEGATE),
    "quantisation rule": (
        pointwise.QUANTISATION,
        "negate",
        QuantisationRule(
            lambda q, step: q.bounds[step.inputs[0]],
            lambda q, step: q.units[step.inputs[0]],
            lambda q, step: Step("negate_q", step.inputs, step.output),
        ),
    ),
    "float32 C form": (pointwise.C_FLOAT32, "negate", elementwise_form),
    "fixed-point C form": (pointwise.C_FIXED, "negate_q", elementwise_form),
    "tensor form": (pointwise.TENSOR_FORMS, "negate", lambda x, weights, settings: x * -1.0),
}
SIGNATURE = "void scare_negate_{kind}({number} *out, const {number} *x, uint32_t count)"
BODY = "{\n    for (uint32_t i = 0; i < count; i++) out[i] = -x[i];\n}\n"
C = {"f32": ("scare_kernels.h", "float"), "q": ("scare_fixed.h", "int32_t")}


class Source:
    """A copy of the runtime that a kernel can be added to."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        shutil.copytree(ROOT / "runtime", folder)
        patch.setattr(c_source, "IN_TREE", folder)
        self.folder, self.patch = folder / "src", patch

    def add(self, *forms: str) -> None:
        """These forms, or the C of these types."""
        for form in forms:
            if form in C:
                self._add_c(form, *C[form])
            else:
                self.patch.setitem(*FORMS[form])

    def _add_c(self, kind: str, header: str, number: str) -> None:
        signature, path = SIGNATURE.format(kind=kind, number=number), self.folder / header
        declared = path.read_text(encoding="utf-8").replace("/* ---- attention", f"{signature};\n\n/* ---- attention")
        path.write_text(declared, encoding="utf-8")
        with (self.folder / "kernels" / f"pointwise_{kind}.c").open("a", encoding="utf-8") as file:
            file.write(f"\n{signature} {BODY}")


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    return Source(tmp_path / "runtime", monkeypatch)


def negated() -> Calibrator:
    """A small calibrator that ends in the new kernel."""
    plan = newest_plan()
    *steps, last = plan.steps
    line = Step(last.kernel, last.inputs, "line", last.weights)
    return make_calibrator(Plan(plan.window, plan.channels, (*steps, line, Step("negate", ("line",), last.output))))


def test_the_recipe_names_files_that_are_there() -> None:
    named = files(recipe("Add a kernel").replace("<family>", "pointwise"))
    assert len(named) >= 7
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_kernel_is_computed_and_counted(source: Source) -> None:
    source.add("NumPy form")
    plan, calibrator = newest_plan(), negated()
    windows = calibrator.golden.windows
    np.testing.assert_array_equal(run(calibrator.plan, windows), -run(plan, windows))
    assert count(calibrator.plan).operations == count(plan).operations + Operations(additions=1)


@pytest.mark.parametrize("arithmetic", ["float32", "fixed"])
def test_it_runs_in_c(arithmetic: str, source: Source, tmp_path: Path) -> None:
    source.add(*FORMS, *C)
    calibrator, windows = negated(), make_calibrator().golden.windows
    compiled = export_calibrator(calibrator, "c", arithmetic, tmp_path / "model").compiled
    outputs, _ = HostModel(read_export(tmp_path / "model")).run(windows)
    np.testing.assert_array_equal(outputs, run(compiled.plan, windows))
    np.testing.assert_allclose(outputs, -run(newest_plan(), windows), atol=1e-2)


def test_it_is_printed_as_tensor_operations(source: Source) -> None:
    source.add("NumPy form", "tensor form")
    calibrator = negated()
    constants, names = Constants(), {"array": array}
    lines = print_function(lower_to_tensors(calibrator.plan), constants).lines
    exec("\n".join([*constants.lines, "def compute(x):", *(f"    {line}" for line in lines)]), names)
    for window, expected in zip(
        calibrator.golden.windows, run(calibrator.plan, calibrator.golden.windows), strict=True
    ):
        assert names["compute"](array("f", window.ravel())) == pytest.approx(expected, rel=1e-5)


FORGOTTEN = {
    "fixed-point form": (
        "fixed",
        "'negate_q' has no fixed-point form: add it to scare/kernels/pointwise.py",
    ),
    "float32 C form": (
        "float32",
        "'negate' has no float32 C form: add it to scare/kernels/pointwise.py",
    ),
    "fixed-point C form": ("fixed", "'negate_q' has no fixed-point C form: add it to scare/kernels/pointwise.py"),
    "tensor form": ("tensors", "'negate' has no tensor form: add it to scare/kernels/pointwise.py"),
    "f32": (
        "float32",
        "'negate' has no C function scare_negate_f32: add it to runtime/src/kernels/pointwise_f32.c and"
        " runtime/src/scare_kernels.h",
    ),
    "q": (
        "fixed",
        "'negate_q' has no C function scare_negate_q: add it to runtime/src/kernels/pointwise_q.c and"
        " runtime/src/scare_fixed.h",
    ),
    "quantisation rule": ("fixed", "float32 only: there is no fixed-point form of negate"),
}


@pytest.mark.parametrize("forgotten", FORGOTTEN)
def test_what_is_forgotten_is_a_sentence(forgotten: str, source: Source) -> None:
    source.add(*({*FORMS, *C} - {forgotten}))
    where, sentence = FORGOTTEN[forgotten]
    with pytest.raises(NotApplicableError) as raised:
        lower_to_tensors(negated().plan) if where == "tensors" else compile_calibrator(negated(), where).program
    assert str(raised.value).removeprefix("the kernel ") == sentence


def test_a_missing_rule_says_where_it_would_stand(source: Source) -> None:
    source.add("NumPy form")
    with pytest.raises(NotApplicableError, match=r"no quantisation rule: add it to .*/kernels/pointwise\.py"):
        QUANTISATION["negate"]


def test_a_kernel_that_is_nowhere_says_what_to_begin_with() -> None:
    with pytest.raises(ValueError, match="no kernel called 'negate'") as raised:
        negated()
    assert str(raised.value.__cause__).endswith("has no NumPy form: add it to scare/kernels/<family>.py")
