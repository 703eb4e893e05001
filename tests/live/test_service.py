"""The systemd unit of a gateway: systemd reads it without a complaint, and finds it well confined."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from scare.live.service import systemd_unit

ANALYZE = shutil.which("systemd-analyze")
needs_systemd = pytest.mark.skipif(ANALYZE is None, reason="systemd-analyze (Debian's systemd) would run it")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    folder = tmp_path / "fleet of 100 %"
    folder.mkdir()
    (folder / "live.toml").write_text('[models.pm]\nfile = "barkjohn-2021"\n[http]\nport = 8080\n')
    return folder / "live.toml"


def saved(config: Path, for_user: bool) -> Path:
    unit = config.parent / "scare-live.service"
    unit.write_text(systemd_unit(config, for_user))
    return unit


@needs_systemd
@pytest.mark.parametrize("for_user", [False, True])
def test_systemd_accepts_the_unit_with_any_path(config: Path, for_user: bool) -> None:
    assert ANALYZE is not None
    line = [ANALYZE, "--user" if for_user else "--system", "--man=no", "verify", saved(config, for_user)]
    done = subprocess.run(line, capture_output=True, text=True, env={"XDG_RUNTIME_DIR": str(config.parent)})
    about_ours = [text for text in done.stderr.splitlines() if "scare-live" in text]
    assert about_ours == []


@needs_systemd
def test_the_service_may_do_little(config: Path) -> None:
    assert ANALYZE is not None
    line = [ANALYZE, "security", "--offline=true", "--threshold=50", saved(config, for_user=False)]
    done = subprocess.run(line, capture_output=True, text=True)
    exposure = re.search(r"Overall exposure level.*: ([\d.]+)", done.stdout)
    assert exposure, done.stdout + done.stderr
    assert float(exposure[1]) < 5.0  # of 10; a service without restrictions has 9.6
