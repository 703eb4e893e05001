"""Devices as Home Assistant discovers them over MQTT: one retained message a device, with its sensors.

Keys and spellings are those of its documentation of device-based discovery.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from scare import __version__
from scare.calibrator.calibrator import Calibrator
from scare.data.quantities import display_unit, find_quantity, spell_unit
from scare.data.readings import Channel
from scare.live.pipeline import Result

EXPIRES_AFTER_STEPS = 3
MICRO, MU = "\u00b5", "\u03bc"  # Home Assistant writes the second


@dataclass(frozen=True)
class Topics:
    """Where Home Assistant listens, and where results are."""

    discovery: str
    results: str


class Announcing:
    """What Home Assistant is told of devices that have reported."""

    def __init__(self, topics: Topics, calibrators: Mapping[str, Calibrator]) -> None:
        self._topics, self._calibrators = topics, calibrators
        self._models: dict[str, str] = {}
        self.birth_topic = f"{topics.discovery}/status"

    def news(self, result: Result) -> dict[str, str]:
        """The message about a result's device, by its topic, if it is new or its model is another."""
        if self._models.get(result.device) == result.model:
            return {}
        self._models[result.device] = result.model
        return self._config(result.device)

    def all(self) -> dict[str, str]:
        """The messages about all devices."""
        return {topic: text for device in list(self._models) for topic, text in self._config(device).items()}

    def _config(self, device: str) -> dict[str, str]:
        model = self._models[device]
        config = describe(device, model, self._calibrators[model], self._topics.results)
        topic = f"{self._topics.discovery}/device/{config['device']['identifiers'][0]}/config"
        return {topic: json.dumps(config, ensure_ascii=False)}


def describe(device: str, model: str, calibrator: Calibrator, prefix: str) -> dict[str, Any]:
    """A device, its calibrated sensor with the ends of its interval, its raw one, and its flags."""
    name = f"scare_{object_id(device)}"
    expires = {"expire_after": max(1, round(EXPIRES_AFTER_STEPS * calibrator.inputs.step_seconds))}
    target, raw = calibrator.target, calibrator.inputs.channels[0]
    return {
        "device": {"identifiers": [name], "name": device, "manufacturer": "scare", "model": model},
        "origin": {"name": "scare", "sw_version": __version__},
        "components": {
            "calibrated": _sensor(name, "calibrated", "Calibrated", _measured(target) | expires),
            "low": _sensor(name, "low", "Low", _measured(target) | expires | {"entity_category": "diagnostic"}),
            "high": _sensor(name, "high", "High", _measured(target) | expires | {"entity_category": "diagnostic"}),
            "raw": _sensor(name, "raw", "Raw", _measured(raw) | expires | {"entity_category": "diagnostic"}),
            "flags": _sensor(name, "flags", "Flags", expires | {"entity_category": "diagnostic"}),
        },
        "state_topic": f"{prefix}/{device}/state",
        "availability": [{"topic": f"{prefix}/status"}],
        "qos": 1,
    }


def _sensor(device: str, key: str, name: str, more: Mapping[str, Any]) -> dict[str, Any]:
    shown = "{{ value_json.flag_names | join(', ') }}" if key == "flags" else f"{{{{ value_json.{key} }}}}"
    return {"platform": "sensor", "unique_id": f"{device}_{key}", "name": name, "value_template": shown, **more}


def _measured(channel: Channel) -> dict[str, Any]:
    """What a channel measures, in Home Assistant's words where it has some."""
    quantity = find_quantity(channel.name)
    unit = display_unit(channel.unit).replace(MICRO, MU)
    known = quantity is not None and quantity.device_class and spell_unit(quantity.unit) == spell_unit(channel.unit)
    kind = {"device_class": quantity.device_class} if quantity is not None and known else {}
    return kind | ({"unit_of_measurement": unit} if unit else {}) | {"state_class": "measurement"}


def object_id(device: str) -> str:
    """A device's name in the letters of a topic of discovery; what had to be changed is told apart by a checksum.

    >>> object_id("box-1"), object_id("84:f3")
    ('box-1', '84_f3_8db1a6dd')
    """
    changed = re.sub(r"[^A-Za-z0-9_-]", "_", device)
    return changed if changed == device else f"{changed}_{crc32(device.encode()):08x}"
