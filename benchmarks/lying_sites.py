"""Sites that lie in a federation: how often each lie is named, and how often an honest site is.

The boxes of a set are sites, as in `newcomers`; one after the other lies, up to four of a set. `federated` puts the
table on its page.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import newcomers
from benchmarks.newcomers import cut, read_sites
from scare.federated.pooled import choose_structure, find_doubts
from scare.federated.rows import Rows, collect_rows

SETS = [name for name in newcomers.SETS if not name.startswith("quant")]  # of more boxes than one
LIARS = 4  # of a set
FEWEST_ROWS = 150  # of a site
SWAPPED = "the first two columns swapped"
HEAD = """
## A site that lies

The boxes of {sets} sets are sites; of {honest} honest ones {named} named. Then up to four of each set lie, one at a time. How many of these are named because the others are better without them,
and how many by that or implausible sums; in {wrong} of {trials} cases an honest site is named, too.

| lie | the others are better | either |
|---|---:|---:|"""  # noqa: E501


LIES: dict[str, Callable[[Rows], Rows]] = {
    "reference × 1.3": lambda rows: replace(rows, targets=1.3 * rows.targets),
    "reference × 2": lambda rows: replace(rows, targets=2 * rows.targets),
    "reference × 1000": lambda rows: replace(rows, targets=1000 * rows.targets),
    "reference + its standard deviation": lambda rows: replace(rows, targets=rows.targets + rows.targets.std()),
    "reference upside down": lambda rows: replace(rows, targets=2 * rows.targets.mean() - rows.targets),
    "references of other rows": lambda rows: replace(rows, targets=np.random.default_rng(0).permutation(rows.targets)),
    SWAPPED: lambda rows: replace(rows, columns=rows.columns[:, [1, 0, *range(2, rows.columns.shape[1])]]),
}


def doubts_about(sites: Mapping[str, Rows]) -> list[tuple[str, bool]]:
    """The sites that are named, and whether because the others are better without them."""
    columns = np.concatenate([rows.columns for rows in sites.values()])
    targets = np.concatenate([rows.targets for rows in sites.values()])
    scaling = columns.mean(axis=0), columns.std(axis=0), float(targets.mean()), float(targets.std())
    moments = {site: rows.scaled(*scaling).moments for site, rows in sites.items()}
    doubts = find_doubts(moments, choose_structure(moments, columns.shape[1]))
    return [(doubt.split("'")[1], doubt.startswith("without")) for doubt in doubts]


def measure(folder: Path, name: str) -> dict[str, Any]:
    """Of a set: its sites, the honest ones that are named, and for each lie what is named."""
    boxes = {site: collect_rows(cut(parts)[0]) for site, parts in read_sites(folder, name).items()}
    sites = {site: rows for site, rows in boxes.items() if len(rows) > FEWEST_ROWS}
    found: dict[str, Any] = {"sites": len(sites), "named": len({site for site, _ in doubts_about(sites)}), "lies": {}}
    for lie, tell in LIES.items():
        for liar in list(sites)[:LIARS]:
            if lie == SWAPPED and sites[liar].columns.shape[1] < 2:
                continue
            doubts = doubts_about({**sites, liar: tell(sites[liar])})
            outcome = {"better": (liar, True) in doubts, "either": liar in dict(doubts)}
            outcome["wrong"] = any(site != liar for site, _ in doubts)
            found["lies"].setdefault(lie, []).append(outcome)
    return found


def table(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The lines of the page."""
    lies = {lie: [one for result in results.values() for one in result["lies"].get(lie, ())] for lie in LIES}
    honest, named = (sum(result[count] for result in results.values()) for count in ("sites", "named"))
    wrong = sum(one["wrong"] for outcomes in lies.values() for one in outcomes)
    trials = sum(map(len, lies.values()))
    lines = [
        HEAD.format(
            honest=honest,
            named="none is" if not named else f"{named} are",
            wrong=wrong,
            trials=trials,
            sets=len(results),
        )
    ]
    for lie, outcomes in lies.items():
        shares = (100 * np.mean([one[check] for one in outcomes]) for check in ("better", "either"))
        lines.append(f"| {lie} | {' | '.join(f'{share:.0f} %' for share in shares)} |")
    return lines
