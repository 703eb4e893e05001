"""The targets of `scare export`: a new one is a file of this package and a name in `TARGETS`."""

from scare.errors import UsageError
from scare.export.blob_package import BLOB
from scare.export.c_package import ARDUINO, ESPIDF, PLATFORMIO, RUST, ZEPHYR, C
from scare.export.esphome import ESPHOME
from scare.export.lorawan import LORAWAN
from scare.export.micropython import MICROPYTHON
from scare.export.onnx import ONNX
from scare.export.target import Target
from scare.export.tflite import TFLITE
from scare.words import suggestion

TARGETS: dict[str, Target] = {
    target.name: target
    for target in (C, ARDUINO, PLATFORMIO, ESPIDF, ZEPHYR, ESPHOME, LORAWAN, RUST, BLOB, MICROPYTHON, TFLITE, ONNX)
}


def find_target(name: str) -> Target:
    """Find a target by name; the error message suggests the nearest one."""
    if name not in TARGETS:
        raise UsageError(f"there is no export target '{name}'{suggestion(name, TARGETS)}")
    return TARGETS[name]
