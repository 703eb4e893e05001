"""The first example of docs/live.md runs against a real broker as it is written, but for the ports."""

import json
import re
import subprocess
import sys
from os import environ
from pathlib import Path

from scare.live.demo import make_fleet
from tests.live.broker import Listener, free_port, needs_broker, running_broker, wait_for

pytestmark = needs_broker
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "live.md").read_text(encoding="utf-8")


def test_a_box_says_a_reading_and_its_state_is_heard(tmp_path: Path) -> None:
    (config,) = re.findall(r"```toml\n(\[models.*?)```", PAGE.split("## The file")[0], re.DOTALL)
    ((topic, message),) = re.findall(r"mosquitto_pub -q 1 -t (\S+) -m '(.*)'", PAGE)
    port = free_port()
    text = config.replace('host = "127.0.0.1"', f'host = "127.0.0.1"\nport = {port}').replace("8080", "0")
    (tmp_path / "live.toml").write_text(text)
    make_fleet(2, seed=1).calibrator.save(tmp_path / "pm.scare")
    command = [sys.executable, "-c", "from scare.cli import main; main()", "live", "run", "live.toml"]
    with running_broker(tmp_path, port):
        listener = Listener(port, "scare/#")
        with subprocess.Popen(command, cwd=tmp_path, env=environ | {"PYTHONPATH": str(ROOT)}) as process:
            try:
                wait_for(lambda: listener.last("scare/status") == "online", 60)
                listener.send(topic, message)
                wait_for(lambda: listener.last("scare/box-01/state"))
            finally:
                process.terminate()
        state = listener.last("scare/box-01/state")
        listener.close()
    assert state["raw"] == json.loads(message)["pm25_raw"]
    assert (state["calibrated"], state["model"]) == (None, "pm")
    assert "HISTORY" in state["flag_names"]
