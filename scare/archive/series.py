"""Series: files that have a device in common, in the order of their times, and what each file's result depends on.

A window reaches back over the border of a file, so a file's result depends on the files before it. Its `chain` is a
hash of all that: the contents so far and the models of their devices. What has the same chain need not be done again.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from scare.archive.listing import Source
from scare.archive.looking import Look

FORMAT = "scare archive 1"


@dataclass(frozen=True)
class Model:
    """A `.scare` file by name and content."""

    path: str
    sha256: str


@dataclass(frozen=True)
class Member:
    """A file of a series, as it was when it was looked at, and what its result depends on."""

    source: Source
    look: Look
    chain: str


@dataclass(frozen=True)
class Series:
    """Files that are read one after the other; `key` names what is kept of them."""

    key: str
    members: tuple[Member, ...]

    @property
    def size(self) -> int:
        """Bytes in all."""
        return sum(member.look.stamp[0] for member in self.members)


def arrange(
    sources: Iterable[tuple[Source, Look]], models: Mapping[str, Model | None], terms: Sequence[object]
) -> list[Series]:
    """The series of files, each in the order of time; `models` by device, `terms` whatever else a result depends on."""
    groups = _Groups()
    together: dict[str, list[tuple[Source, Look]]] = {}
    kept = list(sources)
    for _, look in kept:
        groups.join(look.devices)
    for source, look in kept:
        together.setdefault(groups.of(look.devices[0]), []).append((source, look))
    return [_series(device, files, models, terms) for device, files in sorted(together.items())]


def _series(
    device: str, files: list[tuple[Source, Look]], models: Mapping[str, Model | None], terms: Sequence[object]
) -> Series:
    ordered, members = sorted(files, key=lambda one: (one[1].first, one[0].name)), []
    chain = _hash(FORMAT, list(terms))
    for source, look in ordered:
        used = [(one, model.sha256) for one in look.devices if (model := models.get(one))]
        chain = _hash(chain, source.name, look.sha256, used)
        members.append(Member(source, look, chain))
    return Series(_hash(device)[:20], tuple(members))


def _hash(*parts: object) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


class _Groups:
    """Names that were joined have the same representative: the least of them."""

    def __init__(self) -> None:
        self._above: dict[str, str] = {}

    def of(self, name: str) -> str:
        while (above := self._above.setdefault(name, name)) != name:
            self._above[name] = self._above[above]
            name = above
        return name

    def join(self, names: Sequence[str]) -> None:
        least = min(map(self.of, names))
        for name in names:
            self._above[self.of(name)] = least
