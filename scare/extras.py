"""Extras: optional dependencies that some commands need, and the command that installs them."""

from importlib.util import find_spec
from pathlib import Path

from scare.errors import UsageError

CLONE = Path(__file__).parents[1]  # the folder of a clone, unless this is an installed wheel

# Import names by extra of pyproject.toml.
PACKAGES = {
    "train": ("equinox", "jax", "matplotlib", "optax", "optuna", "sklearn"),
    "live": ("paho",),
    "web": ("capstone", "elftools", "unicorn", "ziglang"),
    "kafka": ("confluent_kafka",),
    "cluster": ("distributed", "fsspec"),
    "board": ("capstone", "elftools", "unicorn", "ziglang"),
    "tflite": ("ai_edge_litert", "tensorflow"),
    "onnx": ("onnx", "onnxruntime"),
}


def is_installed(package: str) -> bool:
    """Whether a package can be imported, without importing it."""
    return find_spec(package) is not None


def missing(extra: str) -> str:
    """Return how to install an extra if one of its packages is missing; empty if all are installed."""
    return "" if all(map(is_installed, PACKAGES[extra])) else remedy(extra)


def require(extra: str, *packages: str) -> None:
    """Raise a UsageError that says how to install an extra if one of these packages (default: all) is missing."""
    absent = [name for name in packages or PACKAGES[extra] if not is_installed(name)]
    if absent:
        raise UsageError(f"{', '.join(absent)} {'is' if len(absent) == 1 else 'are'} not installed; {remedy(extra)}")


def remedy(extra: str) -> str:
    """Return how to install an extra: in the clone that this is, or from the package index.

    >>> remedy("train")
    "run in the folder of your clone: pip install '.[train]'"
    """
    if (CLONE / "pyproject.toml").exists():
        return f"run in the folder of your clone: pip install '.[{extra}]'"
    return f"run: pip install 'scare-calibration[{extra}]'"
