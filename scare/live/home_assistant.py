"""Home Assistant discovery over MQTT: one retained message per device, with its sensors.

Keys and spellings follow the documentation of Home Assistant's device-based discovery.
"""

import json
import re
from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from scare import __version__
from scare.calibrator.calibrator import Calibrator
from scare.data.quantities import display_unit, find_quantity, spell_unit
from scare.data.readings import Channel
from scare.live.messages import topic_level
from scare.live.pipeline import Result

EXPIRES_AFTER_STEPS = 3  # after this many steps without a result a sensor becomes unavailable
MICRO, MU = "\u00b5", "\u03bc"  # two characters that look alike; Home Assistant uses the second


class Discovery:
    """Discovery messages of the devices that have reported.

    `prefix` is the topic prefix of discovery, `results` that of results.
    """

    def __init__(self, prefix: str, results: str, calibrators: Mapping[str, Calibrator]) -> None:
        self._prefix, self._results, self._calibrators = prefix, results, calibrators
        self._models: dict[str, str] = {}
        self.birth_topic = f"{prefix}/status"

    def update(self, result: Result) -> dict[str, str]:
        """Return the discovery message to publish as {topic: payload}; empty unless the device or its model is new."""
        if self._models.get(result.device) == result.model:
            return {}
        self._models[result.device] = result.model
        return self._message(result.device)

    def all(self) -> dict[str, str]:
        """Return the messages of all devices as {topic: payload}, for a Home Assistant that has restarted."""
        return {topic: text for device in list(self._models) for topic, text in self._message(device).items()}

    def _message(self, device: str) -> dict[str, str]:
        """Return the discovery message of a device as {topic: payload}."""
        model = self._models[device]
        config = device_config(device, model, self._calibrators[model], self._results)
        topic = f"{self._prefix}/device/{config['device']['identifiers'][0]}/config"
        return {topic: json.dumps(config, ensure_ascii=False)}


def device_config(device: str, model: str, calibrator: Calibrator, prefix: str) -> dict[str, Any]:
    """Return the discovery config of a device: calibrated value with its interval, raw value, flags."""
    name = f"scare_{object_id(device)}"
    expires = {"expire_after": max(1, round(EXPIRES_AFTER_STEPS * calibrator.inputs.step_seconds))}
    target = calibrator.target
    raw = calibrator.inputs.channels[0]
    return {
        "device": {"identifiers": [name], "name": device, "manufacturer": "scare", "model": model},
        "origin": {"name": "scare", "sw_version": __version__},
        "components": {
            "calibrated": _sensor(name, "calibrated", "Calibrated", _measurement(target) | expires),
            "low": _sensor(name, "low", "Low", _measurement(target) | expires | {"entity_category": "diagnostic"}),
            "high": _sensor(name, "high", "High", _measurement(target) | expires | {"entity_category": "diagnostic"}),
            "raw": _sensor(name, "raw", "Raw", _measurement(raw) | expires | {"entity_category": "diagnostic"}),
            "flags": _sensor(name, "flags", "Flags", expires | {"entity_category": "diagnostic"}),
        },
        "state_topic": f"{prefix}/{topic_level(device)}/state",
        "availability": [{"topic": f"{prefix}/status"}],
        "qos": 1,
    }


def _sensor(device: str, key: str, name: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the component that shows one key of a result, plus the entries `more`."""
    shown = "{{ value_json.flag_names | join(', ') }}" if key == "flags" else f"{{{{ value_json.{key} }}}}"
    return {"platform": "sensor", "unique_id": f"{device}_{key}", "name": name, "value_template": shown, **more}


def _measurement(channel: Channel) -> dict[str, Any]:
    """Return the unit and state class of a channel, and its device class if Home Assistant has one for the unit."""
    quantity = find_quantity(channel.name)
    unit = display_unit(channel.unit).replace(MICRO, MU)
    known = quantity is not None and quantity.device_class and spell_unit(quantity.unit) == spell_unit(channel.unit)
    kind = {"device_class": quantity.device_class} if quantity is not None and known else {}
    return kind | ({"unit_of_measurement": unit} if unit else {}) | {"state_class": "measurement"}


def object_id(device: str) -> str:
    """Return a device's name in the characters that discovery topics allow.

    A changed name ends with a hash, which makes it longer than any name that stays as it is: no two devices share one.

    >>> object_id("box-1"), object_id("84:f3")[:9], len(object_id("84:f3"))
    ('box-1', '84_f3_b28', 70)
    """
    changed = re.sub(r"[^A-Za-z0-9_-]", "_", device)
    return changed if changed == device else f"{changed}_{sha256(device.encode()).hexdigest()}"
