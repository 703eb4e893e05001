"""Runners: how the model in an export is run on this computer, by the word that its target names.

A runner is given an export and scaled windows [n, window, channels], and gives results [n] in the target's unit.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from scare.board.exported import exported_c
from scare.board.host import HostModel
from scare.board.plain_python import run_module
from scare.export.scare_json import ExportFolder
from scare.export.tensors.flatbuffer import run_flatbuffer, run_micro
from scare.export.tensors.onnx_model import run_onnx
from scare.extras import is_installed, require


@dataclass(frozen=True)
class Runner:
    """A runtime by its name, and how it runs an export.

    The package it needs is of an extra, or may be missing: then the runtime is left out.
    """

    runtime: str
    run: Callable[[ExportFolder, np.ndarray], np.ndarray]
    package: str = ""
    extra: str = ""

    @property
    def is_here(self) -> bool:
        """Whether it can be used; a package of an extra that is missing is refused with what to install."""
        if self.extra:
            require(self.extra, self.package)
        return not self.package or is_installed(self.package)


def _run_c(export: ExportFolder, windows: np.ndarray) -> np.ndarray:
    """As `scare_push` gives it."""
    model = HostModel(exported_c(export))
    scaled, _ = model.run(windows)
    return scaled.astype(np.float64) * model.facts.target_scale + model.facts.target_center


def _run_python(export: ExportFolder, windows: np.ndarray) -> np.ndarray:
    return run_module(export.model.parent, export.model.stem, windows)


def _file(run: Callable[[bytes, np.ndarray], np.ndarray]) -> Callable[[ExportFolder, np.ndarray], np.ndarray]:
    """Of a runtime that takes the content of a file."""
    return lambda export, windows: run(export.model.read_bytes(), windows)


RUNNERS: dict[str, tuple[Runner, ...]] = {
    "c": (Runner("C", _run_c),),
    "python": (Runner("Python", _run_python),),
    "tflite": (
        Runner("LiteRT", _file(run_flatbuffer), "ai_edge_litert", "tflite"),
        Runner("TFLite-Micro", _file(run_micro), "tflite_micro"),
    ),
    "onnx": (Runner("ONNX Runtime", _file(run_onnx), "onnxruntime", "onnx"),),
}
