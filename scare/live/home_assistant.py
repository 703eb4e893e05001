"""Home Assistant discovery over MQTT: one retained message per device, with its sensors.

Keys and spellings follow the documentation of Home Assistant's device-based discovery.
"""

import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from math import floor, log10
from typing import Any

from scare import __version__
from scare.calibrator.air_index import IndexOf
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.intervals import UNCERTAIN
from scare.data.quantities import display_unit, find_quantity, spell_unit
from scare.data.readings import Channel
from scare.live.messages import topic_level
from scare.live.pipeline import Result
from scare.upkeep.drift import DriftState

CO_LOCATION = "co-location"  # topic below ours
EXPIRES_AFTER_STEPS = 3  # after this many steps without a result a sensor becomes unavailable
DIAGNOSTIC = {"entity_category": "diagnostic"}
MICRO, MU = "\u00b5", "\u03bc"  # two characters that look alike; Home Assistant uses the second


class Discovery:
    """Discovery messages of the devices that have reported.

    `prefix` is the topic prefix of discovery, `results` that of results; `indices` are the air quality indices of
    models that have one; `reference_unit` is that of the reference beside which devices stand, None if none do.
    """

    def __init__(
        self,
        prefix: str,
        results: str,
        calibrators: Mapping[str, Calibrator],
        indices: Mapping[str, IndexOf] | None = None,
        has_sites: bool = False,
        reference_unit: str | None = None,
    ) -> None:
        self._prefix, self._results, self._calibrators = prefix, results, calibrators
        self._indices, self._has_sites, self._reference_unit = indices or {}, has_sites, reference_unit
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
        messages = {topic: text for device in list(self._models) for topic, text in self._message(device).items()}
        return messages | self.co_location()

    def co_location(self) -> dict[str, str]:
        """Return the message of the co-location as {topic: payload}; empty if there is none."""
        if self._reference_unit is None:
            return {}
        return self._as_message(co_location_config(self._reference_unit, self._results))

    def _message(self, device: str) -> dict[str, str]:
        """Return the discovery message of a device as {topic: payload}."""
        model = self._models[device]
        config = device_config(
            device, model, self._calibrators[model], self._results, self._indices.get(model), self._has_sites
        )
        return self._as_message(config)

    def _as_message(self, config: Mapping[str, Any]) -> dict[str, str]:
        topic = f"{self._prefix}/device/{config['device']['identifiers'][0]}/config"
        return {topic: json.dumps(config, ensure_ascii=False)}


def device_config(
    device: str,
    model: str,
    calibrator: Calibrator,
    prefix: str,
    index: IndexOf | None = None,
    has_sites: bool = False,
) -> dict[str, Any]:
    """Return the discovery config of a device: calibrated value, interval, raw value and diagnostic entities."""
    name = f"scare_{object_id(device)}"
    raw, target = _measurement(calibrator.inputs.channels[0]), _measurement(calibrator.target) | _digits(calibrator)
    components = {
        "calibrated": _entity("Calibrated", "value_json.calibrated", target),
        **(_interval_entities(target) if calibrator.intervals else {}),
        "raw": _entity("Raw", "value_json.raw", raw | DIAGNOSTIC),
        "problem": _entity(
            "Problem",
            f"'ON' if value_json.calibrated is none or value_json.flags | bitwise_and({int(UNCERTAIN)}) else 'OFF'",
            {"platform": "binary_sensor", "device_class": "problem"},
        ),
        "flags": _entity("Flags", "value_json.flag_names | join(', ')", DIAGNOSTIC),
        "watch": _entity(
            "Drift",
            "value_json.watch",
            _one_of([state.label for state in DriftState]) | DIAGNOSTIC,
        ),
        "product": _entity("Model version", "value_json.product", DIAGNOSTIC),
        **(_index_entities(index) if index else {}),
        **({"site": _entity("Site", "value_json.site", DIAGNOSTIC)} if has_sites else {}),
    }
    expiry = {"expire_after": max(1, round(EXPIRES_AFTER_STEPS * calibrator.inputs.step_seconds))}
    components = {key: component | expiry for key, component in components.items()}
    described = {"identifiers": [name], "name": device, "manufacturer": "scare", "model": model}
    return _config(described, components, f"{topic_level(device)}/state", prefix)


def co_location_config(unit: str, prefix: str) -> dict[str, Any]:
    """Return the discovery config of the co-location: the advice, and the numbers that it rests on.

    Before the first assessment its message has the advice only.
    """
    measured = {"state_class": "measurement"}
    components = {
        "advice": _entity("Advice", "value_json.advice[:255]", {}),  # the longest state that Home Assistant takes
        "enough": _entity("Enough", "'ON' if value_json.stop else 'OFF'", {"platform": "binary_sensor"}),
        "days": _entity(
            "Days", _unless_missing("days", "| round(1)"), measured | {"unit_of_measurement": "d"} | DIAGNOSTIC
        ),
        "error": _entity(
            "Expected error",
            _unless_missing("error"),
            measured | {"unit_of_measurement": display_unit(unit).replace(MICRO, MU), "suggested_display_precision": 2},
        ),
        "conditions": _entity(
            "Conditions seen",
            "100 * value_json.conditions | map(attribute='share') | min if value_json.conditions else none",
            measured | {"unit_of_measurement": "%", "suggested_display_precision": 0},
        ),
    }
    # No device has this identifier: those of devices begin with scare_.
    described = {"identifiers": ["scare-co-location"], "name": "Co-location", "manufacturer": "scare"}
    return _config(described, components, CO_LOCATION, prefix)


def _unless_missing(key: str, filters: str = "") -> str:
    """Return the Jinja expression that shows a number of our message; null is shown as unknown."""
    return f"value_json.{key} {filters} if value_json.{key} is number else none"


def _config(
    device: Mapping[str, Any], components: Mapping[str, Mapping[str, Any]], topic: str, prefix: str
) -> dict[str, Any]:
    """Return the discovery config of a device whose components show messages on a topic below ours."""
    name = device["identifiers"][0]
    return {
        "device": device,
        "origin": {"name": "scare", "sw_version": __version__},
        "components": {key: {"unique_id": f"{name}_{key}", **component} for key, component in components.items()},
        "state_topic": f"{prefix}/{topic}",
        "availability": [{"topic": f"{prefix}/status"}],
        "qos": 1,
    }


def _entity(name: str, template: str, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the discovery entries of an entity that shows `template`, an expression of a result, and `more`."""
    return {"platform": "sensor", "name": name, "value_template": f"{{{{ {template} }}}}", **more}


def _interval_entities(target: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    more = {**target, **DIAGNOSTIC}
    times = {"state_class": "measurement", "unit_of_measurement": "×"} | DIAGNOSTIC  # relative to the first days
    return {
        "low": _entity("Low", "value_json.low", more),
        "high": _entity("High", "value_json.high", more),
        "expected_error": _entity("Expected error", _unless_missing("expected_error", "| round(2)"), times),
    }


def _index_entities(pollutant_index: IndexOf) -> dict[str, dict[str, Any]]:
    """Return the components of an air quality index: its value, and its category; some indices have only categories."""
    index = pollutant_index.index
    is_number = {"device_class": "aqi", "state_class": "measurement"}
    value = {"index": _entity(index.title, _index_template("value"), is_number)}
    category = _entity(f"{index.title} category", _index_template("category"), _one_of(index.categories))
    return (value if index.values else {}) | {"index_category": category}


def _index_template(key: str) -> str:
    return f"value_json.index.{key} if value_json.index else none"


def _one_of(options: Sequence[str]) -> dict[str, Any]:
    """Return the discovery entries of a sensor whose state is one of these words."""
    return {"device_class": "enum", "options": list(options)}


def _digits(calibrator: Calibrator) -> dict[str, Any]:
    """Return how many decimals are shown: two significant digits of the narrowest interval's half-width.

    For a half-width of 0.3 these are two decimals, for one of 3 it is one.
    """
    half_widths = [*calibrator.intervals.below, *calibrator.intervals.above] if calibrator.intervals else []
    narrowest = min((half_width for half_width in half_widths if half_width > 0), default=None)
    return {} if narrowest is None else {"suggested_display_precision": max(0, 1 - floor(log10(narrowest)))}


def _measurement(channel: Channel) -> dict[str, Any]:
    """Return the unit and state class of a channel, and its device class if Home Assistant has one for the unit."""
    quantity = find_quantity(channel.name)
    entries = {}
    if quantity and quantity.device_class and spell_unit(quantity.unit) == spell_unit(channel.unit):
        entries["device_class"] = quantity.device_class
    if unit := display_unit(channel.unit).replace(MICRO, MU):
        entries["unit_of_measurement"] = unit
    return entries | {"state_class": "measurement"}


def object_id(device: str) -> str:
    """Return a device's name in the characters that discovery topics allow.

    A changed name ends with a hash, which makes it longer than any name that stays as it is: no two devices share one.

    >>> object_id("box-1"), object_id("84:f3")[:9], len(object_id("84:f3"))
    ('box-1', '84_f3_b28', 70)
    """
    allowed = re.sub(r"[^A-Za-z0-9_-]", "_", device)
    return device if allowed == device else f"{allowed}_{sha256(device.encode()).hexdigest()}"
