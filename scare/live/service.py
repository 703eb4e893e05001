"""The systemd unit of a gateway, with the access that it needs and no more."""

import getpass
import sys
from pathlib import Path
from string import Template

UNIT = Template("""\
# Gateway for sensor readings; docs/live.md of scare.
[Unit]
Description=scare live: calibrates sensor readings as they arrive
Wants=network-online.target
After=network-online.target mosquitto.service

[Service]
Type=exec
ExecStart="$python" -m scare live run "$config"
WorkingDirectory=$folder
Restart=on-failure
RestartSec=5
# Secrets: SCARE_MQTT_PASSWORD and SCARE_HTTP_TOKEN, one NAME=VALUE a line, readable by the service alone.
EnvironmentFile=-$folder/live.env
MemoryMax=1G
LimitNOFILE=8192
$sandbox
[Install]
WantedBy=$target
""")
# What an unprivileged user's manager can restrict, and what only the system's can.
ANY_SANDBOX = """\
NoNewPrivileges=yes
RestrictRealtime=yes
LockPersonality=yes
SystemCallArchitectures=native
UMask=0077
"""
SYSTEM_SANDBOX = """\
User=$user
ProtectSystem=strict
ProtectHome=read-only
ReadWritePaths="$folder"
PrivateTmp=yes
PrivateDevices=yes
ProtectKernelTunables=yes
ProtectKernelModules=yes
ProtectControlGroups=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX
CapabilityBoundingSet=
"""


def systemd_unit(config: Path, for_user: bool) -> str:
    """Return the unit that runs the gateway with this config, for the user's own service manager or the system's.

    The gateway may write to the folder of the config only. If the config names other folders, add them to
    `ReadWritePaths`.
    """
    config = config.resolve()
    paths = {"python": sys.executable, "config": config, "folder": config.parent}
    # A single % would begin a specifier of systemd.
    places = {name: str(path).replace("%", "%%") for name, path in paths.items()} | {"user": getpass.getuser()}
    sandbox = ANY_SANDBOX if for_user else ANY_SANDBOX + Template(SYSTEM_SANDBOX).substitute(places)
    return UNIT.substitute(places, sandbox=sandbox, target="default.target" if for_user else "multi-user.target")
