"""From a co-location CSV to calibrated readings on a board, with proof.

>>> import scare
>>> boxes = scare.simulate(scare.Simulation(boxes=3, days=2, seed=1))
>>> boxes[0].device, boxes[0].channels[0].name, len(boxes[0])
('box-01', 'pm25_raw', 2880)
"""

from typing import Any

__version__ = "0.2.0"

# Public names and the module of each, imported when first used: importing scare is quick, and needs no JAX until
# something is trained.
_MODULES = {
    "Calibrator": "scare.calibrator.calibrator",
    "Channel": "scare.data.readings",
    "ColumnMapping": "scare.data.column_mapping",
    "Flag": "scare.data.flags",
    "Readings": "scare.data.readings",
    "Recipe": "scare.training.recipe",
    "SensorCalibrator": "scare.training.estimator",
    "Simulation": "scare.data.simulate",
    "fit": "scare.training.fit",
    "read_readings": "scare.data.column_mapping",
    "simulate": "scare.data.simulate",
    "split_by_device": "scare.data.split",
    "split_by_site": "scare.data.split",
    "split_by_time": "scare.data.split",
}

__all__ = ["__version__", *_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'scare' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
