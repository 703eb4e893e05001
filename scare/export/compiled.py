"""A calibrator compiled for export: fused, quantised for fixed point, lowered to a C program.

Calibrator -> Compiled -> a target of package.py writes its files from it
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import scare
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.model_card import selection_summary
from scare.calibrator.passes import fuse, quantise
from scare.calibrator.plan import Plan, run
from scare.data.readings import Channel
from scare.export.c_source import CModel
from scare.export.descriptor import Descriptor, choose_device, make_descriptor
from scare.export.lowering import Arithmetic, find_arithmetic, lower_fixed, lower_float32, window_quanta
from scare.export.memory import plan_memory
from scare.export.scare_json import GoldenVectors, golden_vectors, reference_rmse
from scare.kernels.c_arguments import Program


@dataclass(frozen=True)
class Compiled:
    """A calibrator in one arithmetic, scaled for a device (an empty name: for the fleet), and its name in the export.

    Parts are made on first use: not every target needs all of them, and not every model has them.
    """

    calibrator: Calibrator
    arithmetic: Arithmetic
    device: str
    name: str

    @cached_property
    def fused(self) -> Plan:
        """The float32 plan regrouped for small memory."""
        return fuse(self.calibrator.plan)

    @cached_property
    def plan(self) -> Plan:
        """The plan that the program computes; quantising refuses a plan that has no fixed-point version."""
        if self.arithmetic is Arithmetic.FLOAT32:
            return self.fused
        return quantise(self.fused, window_quanta(self.calibrator))

    @cached_property
    def program(self) -> Program:
        """The plan as C calls."""
        return (lower_float32 if self.arithmetic is Arithmetic.FLOAT32 else lower_fixed)(self.plan)

    @cached_property
    def descriptor(self) -> Descriptor:
        """How readings become windows."""
        quanta = () if self.arithmetic is Arithmetic.FLOAT32 else self.program.quanta
        return make_descriptor(self.calibrator, self.device, quanta)

    @cached_property
    def c_model(self) -> CModel:
        """Everything that is printed as C."""
        return CModel(self.name, self.title, self.labels, self.program, plan_memory(self.program), self.descriptor)

    @cached_property
    def golden(self) -> GoldenVectors:
        """Golden windows with the results that the program must give."""
        exact = None if self.arithmetic is Arithmetic.FLOAT32 else self.plan
        return golden_vectors(self.calibrator, integer_plan=exact)

    @property
    def labels(self) -> tuple[str, ...]:
        """Name and unit of each channel."""
        return tuple(map(_label, self.calibrator.inputs.channels))

    @property
    def title(self) -> str:
        """One sentence on what it computes, and one on how its model was selected, if the file has that."""
        title = (
            f"{_label(self.calibrator.target)} from {', '.join(self.labels)}, in this order, one reading every"
            f" {self.calibrator.inputs.step_seconds:g} s; scaled for {self.device or 'the fleet'}, in"
            f" {self.arithmetic.label}. Made by scare {scare.__version__}: do not edit."
        )
        return f"{title} {selection_summary(self.calibrator.facts)}".rstrip()

    @property
    def reading_ranges(self) -> list[tuple[float, float]]:
        """Smallest and largest valid reading of each channel in the file's windows (0 without any), for examples."""
        calibrator, scaling = self.calibrator, self.calibrator.inputs.scaling
        affine = scaling.devices[self.device] if self.device else scaling.fleet
        windows = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
        values = affine.invert(windows.reshape(-1, windows.shape[-1]).astype(np.float64))
        ranges = []
        for column, channel in zip(values.T, self.descriptor.channels, strict=True):
            valid = np.clip(column[np.isfinite(column)], *channel.valid).astype(np.float32)
            ranges.append((float(valid.min()), float(valid.max())) if len(valid) else (0.0, 0.0))
        return ranges

    def compute(self, windows: np.ndarray) -> np.ndarray:
        """Compute the program's results [n] for scaled windows [n, window, channels], in the target's unit."""
        return self._in_unit(run(self.plan, windows))

    def compute_in_float32(self, windows: np.ndarray) -> np.ndarray:
        """Like `compute`, before quantisation."""
        return self._in_unit(run(self.fused, windows))

    def validation_rmse(self) -> float:
        """RMSE to the reference on the file's validation windows, in the target's unit."""
        return reference_rmse(self.calibrator, self.compute(self.calibrator.validation.windows))

    def _in_unit(self, scaled: np.ndarray) -> np.ndarray:
        return self.calibrator.inputs.scaling.target.invert(scaled.astype(np.float64)[:, None])[:, 0]


def compile_calibrator(calibrator: Calibrator, arithmetic: str, device: str = "", name: str = "model") -> Compiled:
    """Compile for the device named, or for the only one that the calibrator knows, or for the fleet."""
    return Compiled(calibrator, find_arithmetic(arithmetic), choose_device(calibrator.inputs.scaling, device), name)


def _label(channel: Channel) -> str:
    return f"{channel.name} [{channel.unit}]" if channel.unit else channel.name
