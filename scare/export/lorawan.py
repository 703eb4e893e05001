"""The target `lorawan`: C that packs an answer into eight bytes, and the codec that reads them on a network server.

    Compiled -> c_package.Library with the templates of `lorawan` -> Artefact

The layout of the bytes is in runtime/src/scare_lorawan.h; the codec follows TS013 of the LoRa Alliance.
"""

import json
import re
from collections.abc import Mapping

from scare.export.c_package import Library, library_target
from scare.export.c_source import CModel, lorawan_sources, runtime_sources
from scare.export.lowering import Compiled
from scare.export.target import to_ascii


def codec_fields(compiled: Compiled, model: CModel) -> Mapping[str, str]:
    """Return the placeholders of the codec: what is calibrated, the flags of scare.h, sizes of scare_lorawan.h."""
    header, target = lorawan_sources()["scare_lorawan.h"], compiled.calibrator.target
    sizes = dict(re.findall(r"#define SCARE_LORAWAN_(\w+) (\d+)", header))
    flags = re.findall(r"SCARE_FLAG_(\w+) = 1 << (\d+)", runtime_sources()["scare.h"])
    return {
        "target_json": json.dumps(to_ascii(target.name)),
        "unit_json": json.dumps(to_ascii(target.unit)),
        "flags_json": json.dumps({name: 1 << int(bit) for name, bit in flags}),
        "port": sizes["PORT"],
        "payload_version": sizes["VERSION"],
        "uplink_bytes": sizes["UPLINK"],
        "downlink_bytes": sizes["DOWNLINK"],
    }


LORAWAN = library_target(
    "Write C that packs value, interval and flags into 8 bytes, and the codec for the network server.",
    ("pm.scare --arithmetic fixed --out pm", "barkjohn-2021 --name pm25 --out pm25"),
    Library("lorawan", fields=codec_fields, files=lambda compiled, model: lorawan_sources()),
)
