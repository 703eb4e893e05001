"""`scare federate`: the commands of two agencies, their mistakes, and (slow) real processes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from scare.calibrator.calibrator import Calibrator
from scare.data.column_mapping import DataSection
from scare.federated.agreement import read_agreement
from scare.federated.pooled import federate
from scare.federated.site import Site, read_site
from tests.cli.output import RunCli
from tests.federated.small_sites import asking

SITES = ("north", "south")


@pytest.fixture
def agencies(scare: RunCli) -> Path:
    assert scare("scare federate simulate --boxes 1 --days 30 --out agencies").code == 0
    return Path("agencies")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("server agencies/federation.toml --without nord", "--without names 'nord', which is no site; did you mean"),
        ("server agencies/federation.toml --without north", "--without leaves fewer than two sites"),
        ("site agencies/north.csv --server http://127.0.0.1:1", "a site needs its token: give --token-file, or the"),
        ("site agencies/north.csv --server x:1 --token-file agencies/north.token", "begins with https:// or http://"),
        ("site agencies/north.csv --server http://x:1 --epsilon 0", "privacy needs an epsilon above 0"),
    ],
)
def test_mistakes_are_told(scare: RunCli, agencies: Path, line: str, message: str) -> None:
    output = scare(f"scare federate {line} --out out")
    assert output.code == 2
    assert message in " ".join(output.err.split())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("[sites]", "[places]", "unknown key 'places'"),
        ('south = "south.token"', "", "[sites] has one site; a federation needs two or more"),
        (
            'south = "south.token"',
            'south = "north.token"',
            "'north' and 'south' have the same token; give each its own",
        ),
        ('south = "south.token"', 'south = "no.token"', "cannot read the secret in agencies/no.token"),
        ("low = [0, -20, 0, 0]", "low = [0, -20, 0]", "[noise] has as many numbers in low as in high"),
        ("step = 3600", "step = 0", "data.step is 0; it takes a number above 0"),
        ('name = "humidity"', 'name = "pm25_raw"', "[data] names the column 'pm25_raw' twice"),
    ],
)
def test_mistakes_in_the_servers_file_are_told(scare: RunCli, agencies: Path, old: str, new: str, message: str) -> None:
    file = agencies / "federation.toml"
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new), encoding="utf-8")
    output = scare("scare federate server agencies/federation.toml --out out")
    assert output.code == 2
    assert message in " ".join(output.err.split())


def test_a_newcomer_whose_rows_are_others_is_refused(scare: RunCli, agencies: Path) -> None:
    agreed = read_agreement(agencies / "federation.toml")
    sites = {name: Site(read_site([agencies / f"{name}.csv"], agreed, DataSection(), print), agreed) for name in SITES}
    federate(asking(sites), agreed).calibrator.save("federated.scare")
    week = pl.read_csv("agencies/third_week.csv")
    week[::3].write_csv("slow.csv")
    output = scare("scare federate combine federated.scare slow.csv --out third.scare")
    assert output.code == 3
    assert "has a row every 10800 s, and 3600 s is agreed on" in " ".join(output.err.split())
    output = scare("scare federate combine federated.scare agencies/third_week.csv --out third.scare --json")
    assert set(json.loads(output.out)["forward_rmse"]) == {"alone", "federated", "combined"}
    output = scare("scare federate combine third.scare agencies/third_week.csv --out again.scare")
    assert "this calibrator has no regression to combine with" in " ".join(output.err.split())


def start(*arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "scare", "federate", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=dict(os.environ))


def start_server(folder: Path, more: str = "") -> tuple["subprocess.Popen[str]", str]:
    """Start a server at any free port; returns it and its address."""
    file = folder / "federation.toml"
    text = file.read_text(encoding="utf-8") + "\n[http]\nport = 0\n[rules]\npatience = 90.0\n" + more
    file.write_text(text, encoding="utf-8")
    server = start("server", str(file), "--out", "out/federation", "--json")
    assert server.stderr is not None
    line = server.stderr.readline()
    return server, line.split(" at ")[1].split(". Press")[0]


def start_site(name: str, address: str, *more: str) -> "subprocess.Popen[str]":
    given = ("--server", address, "--token-file", f"agencies/{name}.token", "--out", f"out/{name}", *more)
    return start("site", f"agencies/{name}.csv", *given)


@pytest.mark.slow
def test_two_agencies_get_one_calibrator_and_a_third_town_gains(scare: RunCli, agencies: Path) -> None:
    server, address = start_server(agencies)
    sites = [start_site(name, address, "--json") for name in SITES]
    printed, noted = server.communicate(timeout=120)
    assert server.returncode == 0, noted
    found = json.loads(printed)
    assert set(found["sites"]) == set(SITES)
    for error in found["sites"].values():
        assert error["own"] < error["all"] < error["others"]
    for name, site in zip(SITES, sites, strict=True):
        out, err = site.communicate(timeout=60)
        shown = json.loads(out)
        assert shown["site"] == name, err
        assert shown["forward_rmse"]["combined"] < 1.1 * shown["forward_rmse"]["alone"]
        assert Calibrator.load(f"out/{name}/combined.scare").facts["way"] == shown["way"]
        same = Path(f"out/{name}/federated.scare").read_bytes()
        assert same == Path("out/federation/federated.scare").read_bytes()
        sent = [json.loads(file.read_text()) for file in Path(f"out/{name}/sent").iterdir()]
        assert max(map(longest, sent)) < 720  # nothing as long as the readings was sent
    assert "fitted by the others alone" in Path("out/federation/federation.svg").read_text(encoding="utf-8")
    assert scare("scare predict out/north/federated.scare agencies/third.csv --out third.csv").code == 0
    table, truth = pl.read_csv("third.csv"), pl.read_csv("agencies/third.csv")["pm25_reference"].to_numpy()
    errors = [float(np.sqrt(np.mean((table[name].to_numpy() - truth) ** 2))) for name in ("calibrated", "pm25_raw")]
    assert errors[0] < 0.25 * errors[1]
    assert scare("scare federate combine out/south/federated.scare agencies/third_week.csv --out third.scare").code == 0
    assert scare("scare predict third.scare agencies/third.csv --out combined.csv").code == 0
    later = table["time"].to_numpy() >= pl.read_csv("agencies/third_week.csv")["time"].max()
    found = pl.read_csv("combined.csv")["calibrated"].to_numpy()
    assert np.mean((found - truth)[later] ** 2) < 0.95 * np.mean((table["calibrated"].to_numpy() - truth)[later] ** 2)


@pytest.mark.slow
def test_a_site_that_is_killed_during_training_goes_on_when_it_is_back(scare: RunCli, agencies: Path) -> None:
    file, names = agencies / "federation.toml", (*SITES, "third")
    (agencies / "third.token").write_text("a token of the third town", encoding="utf-8")
    file.write_text(file.read_text(encoding="utf-8") + 'third = "third.token"\n', encoding="utf-8")
    server, address = start_server(agencies, "[network]\nrounds = 4\nsteps = 20\nwindow = 8\n")
    sites = {name: start_site(name, address) for name in names}
    killed = sites["south"]
    assert killed.stderr is not None
    while "Answered 'round'" not in (line := killed.stderr.readline()):
        assert line, "the site ended by itself"
    killed.kill()
    killed.communicate()
    sites["south"] = start_site("south", address)
    printed, noted = server.communicate(timeout=300)
    assert server.returncode == 0, noted
    assert set(json.loads(printed)["sites"]) == set(names)
    assert "On rows that no site trained on, the network's RMSE is" in noted
    assert "left out" not in noted
    for name, site in sites.items():
        site.communicate(timeout=60)
        same = Path(f"out/{name}/federated.scare").read_bytes()
        assert same == Path("out/federation/federated.scare").read_bytes()
    rounds = len(list(Path("out/south/sent").glob("*-round.json")))
    assert rounds == 5  # those of both processes; one of them may have answered a round again


def longest(value: Any) -> int:
    """Length of the longest list in a reply."""
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return max([len(value) if isinstance(value, list) else 0, *map(longest, parts)])
