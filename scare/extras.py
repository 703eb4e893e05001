"""Extras: packages that some commands need and a plain installation lacks."""

from importlib.util import find_spec

from scare.errors import UsageError

PACKAGES = {
    "train": ("equinox", "jax", "matplotlib", "optax", "optuna", "sklearn"),
    "live": ("paho", "starlette", "uvicorn"),
    "web": ("capstone", "elftools", "starlette", "unicorn", "uvicorn", "ziglang"),
    "kafka": ("confluent_kafka",),
    "cluster": ("distributed", "fsspec"),
    "board": ("capstone", "elftools", "unicorn", "ziglang"),
    "tflite": ("ai_edge_litert", "tensorflow"),
    "onnx": ("onnx", "onnxruntime"),
}


def is_installed(package: str) -> bool:
    """Whether a package can be imported."""
    return find_spec(package) is not None


def require(extra: str, *packages: str) -> None:
    """Raise a UsageError with the remedy if packages of an extra (all, unless named) are missing."""
    missing = [name for name in packages or PACKAGES[extra] if not is_installed(name)]
    if missing:
        raise UsageError(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed; {remedy(extra)}")


def remedy(extra: str) -> str:
    """The command that installs an extra.

    >>> remedy("train")
    "run in the folder of your clone: pip install '.[train]'"
    """
    return f"run in the folder of your clone: pip install '.[{extra}]'"
