"""Targets: what a calibrator can be exported to, a file for each. A new one is listed here."""

from scare.errors import UsageError
from scare.export.target_contract import Target
from scare.export.targets import arduino, c, esphome, micropython, onnx, platformio, tflite, zephyr
from scare.words import suggestion

TARGETS: dict[str, Target] = {
    one.TARGET.name: one.TARGET for one in (c, arduino, platformio, zephyr, esphome, micropython, tflite, onnx)
}


def find_target(name: str) -> Target:
    """The target of this name; another name is refused with the nearest one."""
    if name not in TARGETS:
        raise UsageError(f"nothing is exported to '{name}'{suggestion(name, TARGETS)}")
    return TARGETS[name]
