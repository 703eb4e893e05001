"""Compiled: a calibrator made ready for export, each part of it once.

Comes from `calibrator`: fused, quantised for fixed point, lowered to a program. Every target makes its files from it.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

import scare
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.passes import fuse, quantise
from scare.calibrator.plan import Plan, run
from scare.calibrator.selection_table import selection_summary
from scare.data.readings import Channel
from scare.export.c_source import CModel
from scare.export.descriptor import Descriptor, choose_device, describe
from scare.export.lowering import Arithmetic, find_arithmetic, window_quanta
from scare.export.lowering import lower_fixed as lower_fixed
from scare.export.lowering import lower_float32 as lower_float32
from scare.export.memory import plan_memory
from scare.export.scare_json import GoldenVectors, golden_vectors, reference_rmse
from scare.kernels.c_arguments import Program


@dataclass(frozen=True)
class Compiled:
    """A calibrator in one arithmetic, with the scaling of a device (empty: of the fleet), and what it is to be called.

    A part is made when it is first asked for: not every target needs all of them, and not every model has them.
    """

    calibrator: Calibrator
    arithmetic: Arithmetic
    device: str
    name: str

    @cached_property
    def fused(self) -> Plan:
        """The plan regrouped for small memory, in float32."""
        return fuse(self.calibrator.plan)

    @cached_property
    def plan(self) -> Plan:
        """The plan that the program computes; one without an integer form says so."""
        if self.arithmetic is Arithmetic.FLOAT32:
            return self.fused
        return quantise(self.fused, window_quanta(self.calibrator))

    @cached_property
    def program(self) -> Program:
        """The plan as calls in C."""
        return (lower_float32 if self.arithmetic is Arithmetic.FLOAT32 else lower_fixed)(self.plan)

    @cached_property
    def descriptor(self) -> Descriptor:
        """How readings become windows."""
        quanta = () if self.arithmetic is Arithmetic.FLOAT32 else self.program.quanta
        return describe(self.calibrator, self.device, quanta)

    @cached_property
    def c_model(self) -> CModel:
        """All that is printed as C."""
        return CModel(self.name, self.title, self.labels, self.program, plan_memory(self.program), self.descriptor)

    @cached_property
    def golden(self) -> GoldenVectors:
        """What the program must give for the golden windows."""
        exact = None if self.arithmetic is Arithmetic.FLOAT32 else self.plan
        return golden_vectors(self.calibrator, integer_plan=exact)

    @property
    def labels(self) -> tuple[str, ...]:
        """What each channel is, with its unit."""
        return tuple(map(_label, self.calibrator.inputs.channels))

    @property
    def title(self) -> str:
        """What it is, in one sentence, and in another what training made of it, if the file tells."""
        title = (
            f"{_label(self.calibrator.target)} from {', '.join(self.labels)}, in this order, one reading every"
            f" {self.calibrator.inputs.step_seconds:g} s; scaled for {self.device or 'the fleet'}, in"
            f" {self.arithmetic.label}. Made by scare {scare.__version__}: do not edit."
        )
        return f"{title} {selection_summary(self.calibrator.facts)}".rstrip()

    def compute(self, windows: np.ndarray) -> np.ndarray:
        """What the program gives for scaled windows [n, window, channels], each by itself, in the target's unit [n]."""
        return self._in_unit(run(self.plan, windows))

    def compute_in_float32(self, windows: np.ndarray) -> np.ndarray:
        """The same without integers."""
        return self._in_unit(run(self.fused, windows))

    def validation_rmse(self) -> float:
        """The root mean squared error to the reference on the file's validation windows, in the target's unit."""
        return reference_rmse(self.calibrator, self.compute(self.calibrator.validation.windows))

    def _in_unit(self, scaled: np.ndarray) -> np.ndarray:
        return self.calibrator.inputs.scaling.target.invert(scaled.astype(np.float64)[:, None])[:, 0]


def compile_calibrator(calibrator: Calibrator, arithmetic: str, device: str = "", name: str = "model") -> Compiled:
    """The calibrator for one of its devices, the only one unless named, or for the fleet."""
    return Compiled(calibrator, find_arithmetic(arithmetic), choose_device(calibrator.inputs.scaling, device), name)


def _label(channel: Channel) -> str:
    return f"{channel.name} [{channel.unit}]" if channel.unit else channel.name


def reading_ranges(compiled: Compiled) -> list[tuple[float, float]]:
    """The least and the largest valid reading of each channel in the calibrator's windows; 0 where there is none."""
    calibrator = compiled.calibrator
    scaling = calibrator.inputs.scaling
    affine = scaling.devices[compiled.device] if compiled.device else scaling.fleet
    windows = np.concatenate([calibrator.golden.windows, calibrator.validation.windows])
    values = affine.invert(windows.reshape(-1, windows.shape[-1]).astype(np.float64))
    ranges = []
    for column, channel in zip(values.T, compiled.descriptor.channels, strict=True):
        valid = np.clip(column[np.isfinite(column)], *channel.valid).astype(np.float32)
        ranges.append((float(valid.min()), float(valid.max())) if len(valid) else (0.0, 0.0))
    return ranges
