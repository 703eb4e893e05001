"""The file of `scare live`: what is right is read, what is wrong is one error message."""

from pathlib import Path

import pytest

from scare.errors import UsageError
from scare.live.config import PASSWORD, Config, read_config

SMALL = """
[models.pm]
file = "pm.scare"
[http]
port = 0
"""
KAFKA = SMALL + '[[inputs]]\nadapter = "json"\n[kafka]\n'


def read(tmp_path: Path, text: str) -> Config:
    (tmp_path / "live.toml").write_text(text, encoding="utf-8")
    return read_config(tmp_path / "live.toml")


def test_files_lie_beside_the_config(tmp_path: Path) -> None:
    beside = '[co_location]\ndevices = ["a"]\nreference_file = "r.csv"\ndeployment = ["last/*.csv"]\n'
    config = read(tmp_path, SMALL + '[files]\nfolder = "out"\n' + beside)
    assert config.models["pm"].file == str(tmp_path / "pm.scare")
    assert config.state == str(tmp_path / "live")
    assert config.files is not None
    assert config.files.folder == str(tmp_path / "out")
    assert config.co_location is not None
    assert config.co_location.deployment == (str(tmp_path / "last" / "*.csv"),)
    assert read(tmp_path, SMALL.replace("pm.scare", "barkjohn-2021")).models["pm"].file == "barkjohn-2021"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[models.pm]\nfile = "pm.scare"', "no readings can arrive: give [mqtt], [kafka] or [http]"),
        (
            '[models.pm]\nfile = "pm.scare"\n[mqtt]\n[adapters.own]\ndevice = "/id"\n[[inputs]]\nadapter = "own"',
            "inputs (own): no messages can reach it; give topic, addresses or [http]",
        ),
        ("[http]\nport = 1", "the key 'models' is missing"),
        ("[models]\n[http]\nport = 1", "models is {}; it takes a table of settings of 1 or more"),
        (SMALL + '[[inputs]]\nadapter = "tasmotta"', "no adapter is called 'tasmotta'; did you mean 'tasmota'?"),
        (SMALL + '[[inputs]]\nadapter = "tasmota"\ntime_zone = "Mars/Base"', "time_zone 'Mars/Base' is unknown"),
        (SMALL + 'host = "0.0.0.0"', "means every address of this computer: list its host names in names"),
        (SMALL + 'host = "10.0.0.5"', "is reachable from other computers: give certificate and key"),
        (SMALL + "prot = 1", "unknown key 'prot' in [http]; did you mean 'port'?"),
        (SMALL.replace("= 0", "= 70000"), "http.port is 70000; it takes a whole number from 0 on and up to 65535"),
        (SMALL + "[adapters.mine.fields]\na = '/b'\n[[inputs]]\nadapter = 'mine'", "does not name the device"),
        (SMALL + "[adapters.tasmota.fields]\na = 'b'\n[[inputs]]\nadapter = 'json'", "'b' is not a path in a message"),
        (
            SMALL + "[adapters.tasmota]\ntopic = '{device}/{x}'\n[[inputs]]\nadapter = 'json'",
            "may contain {device}, {field} and +",
        ),
        (KAFKA + 'topic = "a b"', "kafka.topic 'a b' is not a topic name; use 1 to 249 letters, digits or . _ -"),
        (KAFKA + 'topic = "in"\npublish = "in"', "results need another topic"),
        (KAFKA + 'topic = "in"\nbrokers = ["kafka.lan"]', "the Kafka broker 'kafka.lan' has no port"),
        (SMALL + '[kafka]\ntopic = "in"', "[kafka] needs exactly one [[inputs]], without addresses"),
        (KAFKA.replace("json", "esphome") + 'topic = "in"', "'esphome' sends one number per message"),
    ],
)
def test_a_mistake_is_one_error_message(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert message in str(refused.value)
    assert "live.toml" in str(refused.value)


def test_channels_and_fields_are_checked_against_models_and_adapters(tmp_path: Path) -> None:
    text = SMALL + '[[inputs]]\nadapter = "tasmota"\n[inputs.channels]\n'
    read(tmp_path, text + 'dust = "pm25"\nheat = "/x/Temperature"').check_channels(["dust", "heat"])
    with pytest.raises(UsageError, match=r"no model reads 'dusd'; did you mean 'dust'\?"):
        read(tmp_path, text + 'dusd = "pm25"').check_channels(["dust"])
    with pytest.raises(UsageError, match=r"no field 'pm2'; did you mean 'pm25'\?"):
        read(tmp_path, text + 'dust = "pm2"').check_channels(["dust"])


def test_tls_is_on_but_on_this_computer(tmp_path: Path) -> None:
    def broker(lines: str) -> tuple[bool, int]:
        found = read(tmp_path, f'{SMALL}[mqtt]\n{lines}\n[[inputs]]\nadapter = "json"').mqtt
        assert found is not None
        return found.is_encrypted, found.used_port

    assert broker("") == (False, 1883)
    assert broker('host = "broker.lan"') == (True, 8883)
    assert broker('host = "broker.lan"\ntls = false') == (False, 1883)
    assert broker("tls = true\nport = 9") == (True, 9)

    def kafka(lines: str) -> bool:
        found = read(tmp_path, f'{KAFKA}topic = "in"\n{lines}').kafka
        assert found is not None
        return found.is_encrypted

    assert not kafka("")
    assert not kafka('brokers = ["[::1]:9092", "localhost:9093"]')
    assert kafka('brokers = ["127.0.0.1:9092", "kafka.lan:9093"]')
    assert not kafka('brokers = ["kafka.lan:9092"]\ntls = false')


def test_secrets_come_from_a_file_or_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "secret").write_text("hush\n")
    text = f'{SMALL}[[inputs]]\nadapter = "json"\n[mqtt]\n'
    monkeypatch.setenv(PASSWORD, "whisper")
    for line, word in (('password_file = "secret"', "hush"), ("", "whisper")):
        config = read(tmp_path, text + line)
        assert config.mqtt is not None
        assert config.mqtt.password() == word
        assert word not in repr(config)
    missing = read(tmp_path, text + 'password_file = "none"').mqtt
    assert missing is not None
    with pytest.raises(UsageError, match="cannot read the secret in"):
        missing.password()
