"""Start the gateway with the options of the app and the broker that the Supervisor names.

The app's own folder (/config) holds calibrators. A live.toml there is used as it is; the options then have no effect.
"""

import json
import os
import urllib.request
from pathlib import Path
from typing import Any

import tomli_w

CONFIG = Path("/config")  # the app's folder, which people see as addon_configs/…_scare
DATA = Path("/data")
INGRESS = "172.30.32.2"  # the Supervisor's address, which checks who may see the page


def make_config(options: dict[str, Any], broker: dict[str, Any]) -> dict[str, Any]:
    """Return live.toml as tables: one model, one input, Home Assistant's broker, and the page behind ingress."""
    model = options["model"]
    reading = {"adapter": options["adapter"], "time_zone": options["time_zone"]}
    if options.get("topic"):
        reading["topic"] = options["topic"]
    reading["channels"] = {one["channel"]: one["field"] for one in options["channels"]}
    sensor = {"file": str(CONFIG / model) if model.endswith(".scare") else model}
    if options.get("index"):
        sensor["index"] = options["index"]
    return {
        "state": str(DATA / "state"),
        "models": {"sensor": sensor},
        "mqtt": {
            "host": broker["host"],
            "port": int(broker["port"]),
            "tls": bool(broker["ssl"]),
            "user": broker["username"],
            "home_assistant": True,
        },
        "inputs": [reading],
        "http": {
            "host": "0.0.0.0",
            "port": 8099,
            "names": ["localhost"],
            "tls": False,
            "proxy": INGRESS,
            "uploads": str(CONFIG),
        },
        "files": {"folder": str(CONFIG / "calibrated")},
    }


def read_broker() -> dict[str, Any]:
    """Ask the Supervisor for the MQTT broker: host, port, ssl, username and password."""
    token = {"Authorization": f"Bearer {os.environ['SUPERVISOR_TOKEN']}"}
    request = urllib.request.Request("http://supervisor/services/mqtt", headers=token)
    with urllib.request.urlopen(request, timeout=30) as answer:
        broker: dict[str, Any] = json.load(answer)["data"]
    return broker


def main() -> None:
    """Write the config, if there is none of the user's own, and become the gateway."""
    broker = read_broker()
    secrets = {"SCARE_MQTT_PASSWORD": broker["password"], "SCARE_HTTP_TOKEN": os.urandom(16).hex()}
    path = CONFIG / "live.toml"
    if not path.exists():
        path = DATA / "live.toml"
        options = json.loads((DATA / "options.json").read_text(encoding="utf-8"))
        path.write_text(tomli_w.dumps(make_config(options, broker)), encoding="utf-8")
    command = ["/opt/scare/bin/scare", "live", "run", str(path)]
    os.execve(command[0], command, os.environ | secrets)


if __name__ == "__main__":
    main()
