"""The target `esphome`: an external component with a JSON description of its model, and YAML to paste.

    Compiled -> c_package.Library with the templates of `esphome` -> Artefact

The model's name in C gets a prefix, because ESPHome compiles every id of a node's YAML and every header of a component
into one program.
"""

import json
from collections.abc import Iterable, Mapping

from scare.data.quantities import display_unit, find_quantity, spell_unit
from scare.data.readings import Channel
from scare.export.c_package import Library, library_target, sensor_fields
from scare.export.c_source import CModel, distinct_names
from scare.export.lowering import Compiled
from scare.export.target import to_ascii

PREFIX, COMPONENT = "scare_model_", "components/scare"
YAML_WORDS = {"y", "n", "yes", "no", "on", "off", "true", "false", "null"}  # YAML does not read them as strings
OWN = "own"  # platform of channels without a known sensor: users read their own
BUSES = {
    "pmsx003": "uart:\n  rx_pin: GPIO13 # that the sensor's TXD is wired to\n  baud_rate: 9600\n\n",
    "sht3xd": "i2c:\n\n",
}


def input_keys(names: Iterable[str]) -> list[str]:
    """Make a distinct YAML key from each channel name.

    >>> input_keys(["PM2.5 raw", "NO", "pm2.5_raw", "channel NO"])
    ['pm2_5_raw', 'channel_no', 'pm2_5_raw_2', 'channel_no_2']
    """
    texts = (f"channel_{name}" if name.lower() in YAML_WORDS else name for name in names)
    return distinct_names(texts, set())


def describe_component(compiled: Compiled, model: CModel) -> dict[str, str]:
    """Make the JSON file that the component's `sensor.py` reads."""
    calibrator = compiled.calibrator
    facts = {
        "name": compiled.name,
        "c_name": model.name,
        "about": model.title,
        "inputs": _channel_keys(compiled),
        "window": model.program.window,
        "step_ms": model.descriptor.step_ms,
        "unit": display_unit(calibrator.target.unit),
        "raw_unit": display_unit(calibrator.inputs.channels[0].unit),
        "device_class": _device_class(calibrator.target),
    }
    return {f"{model.name}.json": json.dumps(facts, indent=2, ensure_ascii=False) + "\n"}


def _device_class(target: Channel) -> str:
    """Find Home Assistant's device class of the target; empty if there is none for it in this unit.

    >>> _device_class(Channel("Ref.PM2.5", "µg/m³")), _device_class(Channel("PM10", "mg/m3"))
    ('pm25', '')
    """
    quantity = find_quantity(target.name)
    has_its_unit = quantity is not None and spell_unit(quantity.unit) == spell_unit(target.unit)
    return quantity.device_class if quantity and has_its_unit else ""


def yaml_fields(compiled: Compiled, model: CModel) -> dict[str, str]:
    """Return the placeholders of the ESPHome templates, in addition to those of every library."""
    keys = _channel_keys(compiled)
    step = _duration(model.descriptor.step_ms)
    labelled = zip(keys, map(to_ascii, model.labels), strict=True)
    platforms: dict[str, dict[str, str]] = {}  # channel key by platform and by what it measures, such as pm_2_5
    for key, field in zip(keys, sensor_fields(compiled.calibrator), strict=True):
        platform, measurement = field.esphome or (OWN, key)
        if measurement in platforms.get(platform, {}):  # a second channel of the same sensor field
            platform, measurement = OWN, key
        platforms.setdefault(platform, {})[measurement] = key
    return {
        "step": step,
        "window": str(model.program.window),
        "inputs": "\n".join(f"      {key}: read_{key} # {label}" for key, label in labelled),
        "buses": "".join(text for platform, text in BUSES.items() if platform in platforms),
        "sensors": "\n".join(_sensor_yaml(platform, keys, step) for platform, keys in platforms.items()),
        "simulated": "\n".join(_simulated_yaml(model, key, index, step) for index, key in enumerate(keys)),
    }


def _channel_keys(compiled: Compiled) -> list[str]:
    return input_keys([to_ascii(channel.name) for channel in compiled.calibrator.inputs.channels])


def _duration(ms: int) -> str:
    """Print milliseconds as ESPHome writes a duration.

    >>> _duration(60_000), _duration(2_500)
    ('60s', '2500ms')
    """
    return f"{ms}ms" if ms % 1000 else f"{ms // 1000}s"


def _sensor_yaml(platform: str, keys: Mapping[str, str], step: str) -> str:
    """Write the YAML of a sensor; `keys` are channel keys by the platform's measurement, such as pm_2_5."""
    if platform == OWN:
        return "\n".join(_template_yaml(key, step, "return NAN; // read your own sensor here") for key in keys.values())
    setting = "type: PMSX003" if platform == "pmsx003" else f"update_interval: {step}"
    ids = [f"    {measurement}:\n      id: read_{key}" for measurement, key in keys.items()]
    return "\n".join([f"  - platform: {platform}", f"    {setting}", *ids])


def _simulated_yaml(model: CModel, key: str, index: int, step: str) -> str:
    """Write the YAML of a template sensor that returns channel `index` of a simulated reading."""
    declare = f"float row[{model.name.upper()}_CHANNELS];"
    simulate = f"{model.name}_simulate(millis() / {model.descriptor.step_ms}, row);"
    return _template_yaml(key, step, f"{declare} {simulate} return row[{index}];")


def _template_yaml(key: str, step: str, body: str) -> str:
    """Write the YAML of a template sensor; `body` is its lambda in C++."""
    lines = ("  - platform: template", f"    id: read_{key}", f"    update_interval: {step}")
    return "\n".join([*lines, "    lambda: |-", f"      {body}"])


ESPHOME = library_target(
    "Write an ESPHome external component, with YAML to paste.",
    ("barkjohn-2021 --name pm25 --out pm25", "no2.scare --board esp8266 --out no2"),
    Library("esphome", COMPONENT, PREFIX, yaml_fields, describe_component, in_c=False),
)
