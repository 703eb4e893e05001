"""The agreement of a federation: channels, units, time step and rules, which all sites follow, as a TOML file.

    [data]                                                    # the columns that every site's tables have
    channels = [{ name = "pm25_raw", unit = "ug/m3" }, { name = "humidity", unit = "%" }]
    reference = { name = "pm25_reference", unit = "ug/m3" }
    step = 600
    [sites]                                                   # each with the file of its token
    north = "north.token"
    south = "south.token"

The server reads the file; a site gets what it needs of it from the server and checks its own tables against it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Le, MinLen

from scare.data.column_mapping import tidy_columns
from scare.data.readings import Channel
from scare.errors import DataError, UsageError
from scare.live.config import Http, secret
from scare.schema import Count, Finite, Name, Positive, convert, load_toml
from scare.words import listed

VERSION = 1  # of tasks and replies; server and sites must have the same
FEWEST_SITES = 2  # of a federation


@dataclass(frozen=True)
class AgreedData:
    """The columns of every site's tables, with their units, and the time step in seconds."""

    channels: Annotated[tuple[Channel, ...], MinLen(1)]
    reference: Channel
    step: Positive


@dataclass(frozen=True)
class AgreedRules:
    """Rules that protect the sites from each other."""

    fewest_rows: Count = 500  # with a reference; a site with fewer sends nothing
    tolerated: Annotated[int, Ge(0)] = 1  # hostile sites that a round of networks withstands
    patience: Positive = 60.0  # seconds to wait for a site


@dataclass(frozen=True)
class AgreedNoise:
    """The range of each channel and then of the reference, to which a site that adds noise clips its rows."""

    low: tuple[Finite, ...]
    high: tuple[Finite, ...]

    def __post_init__(self) -> None:
        if len(self.low) != len(self.high) or any(low >= high for low, high in zip(self.low, self.high, strict=True)):
            raise UsageError("[noise] has as many numbers in low as in high, each below the one in high")


@dataclass(frozen=True)
class AgreedNetwork:
    """A network that the sites train together, round by round; it starts as the regression of all sites."""

    rounds: Annotated[int, Ge(1), Le(1000)] = 20
    steps: Annotated[int, Ge(1), Le(100_000)] = 100  # of training at each site in a round
    window: Annotated[int, Ge(4), Le(4096)] = 24  # readings
    seed: Annotated[int, Ge(0)] = 0


@dataclass(frozen=True)
class Agreement:
    """What all sites of a federation do; `sites` maps each to the file of its token, which only the server knows."""

    data: AgreedData
    sites: Mapping[Name, Name] = field(default_factory=dict)
    rules: AgreedRules = AgreedRules()
    noise: AgreedNoise | None = None
    network: AgreedNetwork | None = None
    http: Http = field(default_factory=Http)
    version: int = VERSION

    def __post_init__(self) -> None:
        names = [channel.name for channel in (*self.data.channels, self.data.reference)]
        if twice := next((name for name in names if names.count(name) > 1), ""):
            raise UsageError(f"[data] names the column '{twice}' twice")
        if self.noise and len(self.noise.low) != len(names):
            raise UsageError(
                f"[noise] has {len(self.noise.low)} ranges, but there are {len(names)} columns: {listed(names)}"
            )
        if self.sites and len(self.sites) < FEWEST_SITES:
            raise UsageError("[sites] has one site; a federation needs two or more")

    @property
    def for_sites(self) -> dict[str, Any]:
        """What sites are told, as plain values: all but the other sites' tokens and the server's settings."""
        shared = asdict(replace(self, sites={}, http=Http()))
        del shared["sites"], shared["http"]
        for channel in (*shared["data"]["channels"], shared["data"]["reference"]):
            for limit in ("low", "high"):
                if not isfinite(channel[limit]):  # JSON has no infinity; it is the default
                    del channel[limit]
        return shared


def read_agreement(path: Path) -> Agreement:
    """Read the server's file; files that it names are relative to its folder."""
    tables = load_toml(path)
    if isinstance(tables.get("data"), Mapping):
        tables["data"] = tidy_columns(tables["data"])
    agreement = convert(tables, Agreement, path)
    if not agreement.sites:
        raise UsageError(f"{path}: the table [sites] is missing: name each site and the file of its token")
    if agreement.http.token_file:
        raise UsageError(f"{path}: http.token_file has no use here: every site has a token of its own in [sites]")
    folder = path.parent
    http = agreement.http
    certificate, key = (str(folder / file) if file else "" for file in (http.certificate, http.key))
    sites = {name: str(folder / file) for name, file in agreement.sites.items()}
    return replace(agreement, sites=sites, http=replace(http, certificate=certificate, key=key))


def read_tokens(agreement: Agreement) -> dict[str, str]:
    """Return the name of the site for each token; two sites with one token could not be told apart."""
    tokens: dict[str, str] = {}
    for site, file in agreement.sites.items():
        token = secret(file, "")
        if len(token) < 16:
            raise UsageError(f"{file}: the token of '{site}' is too short; take 16 characters or more, drawn at random")
        if token in tokens:
            raise UsageError(f"'{tokens[token]}' and '{site}' have the same token; give each its own")
        tokens[token] = site
    return tokens


def agreement_from_server(values: Any, where: str) -> Agreement:
    """Check what a server sent as its agreement."""
    version = values.get("version") if isinstance(values, Mapping) else None
    if version != VERSION:
        raise DataError(
            f"{where} has version {version} of the exchange, and this scare version {VERSION}:"
            " install the same scare on both sides"
        )
    return convert(values, Agreement, where, DataError)
