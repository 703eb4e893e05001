"""Networks whose references are hidden: error and coverage of what calibrates them, by set, distance and months.

    python -m benchmarks.network DATA [--work out/network] [--scale] [--out docs/benchmarks/network.md] [--json]

Scores of a set are kept in `--work`, a file a set; a second call goes on where the first was stopped. With --scale,
networks of up to 10,000 boxes are drawn and solved, and planned trips are taken, too.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from benchmarks import network_plans
from benchmarks.network_real import (
    DISTANT,
    DISTANT_KIND,
    GRAPH,
    NOTHING,
    OWN,
    PERCENTILES,
    POOLED,
    TRAVELLER,
    Score,
    judge,
    read_sets,
)
from scare.data.simulated_city import Journey
from scare.files import replacing

ORDER = (NOTHING, POOLED, PERCENTILES, GRAPH, DISTANT, DISTANT_KIND, TRAVELLER, OWN)
SIZES = (1250, 2500, 5000, 10_000)
KM_EDGES = (0.0, 1.0, 2.0, 4.0, 8.0)
LONG, MONTHS = ("QUANT NO2", "QUANT O3", "Denver PM2.5", "Antwerp PM2.5", "Antwerp PM10"), 7  # sets of several months
PAGE = Template("""# Networks with hidden references

What [`scare network`](../network.md) makes of boxes whose references are hidden, on real boxes that all stood beside
one. The references of all places but one are hidden from every method and given back as the truth; each place (of
boxes side by side, each box) is the known one in turn.

Made by `python -m benchmarks.network DATA --scale --out docs/benchmarks/network.md`; do not edit.

RMSE over that of the pooled model, geometric mean over sets:

$means

Losses of the default, *graph*: on Denver it is no better than the pooled model, and *percentiles* are better by a
hundredth. On JRC PM10, whose last days were twice as dusty as all before, encounters alone are better, and stations far
away make it too sure. Where neither an encounter nor a stated kind tells gains, its intervals hold too little or, on
JRC CO, too much.

## Methods

- *nothing*: what the box reads, where its unit is that of the reference.
- *pooled only*: one least-squares model for all boxes, fitted to the known boxes in the first hours. Its intervals
  are 1.645 standard deviations of its residuals there. All other methods begin with this model's values.
- *percentiles*: and an offset for each box and month, so that its low percentiles at night are those of the known
  station.
- *graph*: `scare network solve`, no kind of site stated. *only encounters*: with `--no-distant`. *kinds taken as
  equal*: all sites are said to be of one kind, so that stations far away tell gains for certain. *all others known*:
  all references are known but those of one place, which are hidden in turn.
- *travelling box*: the known box stood a quarter of the first days beside the reference, then some hours beside each
  other box. In *graph* it joined all others for the rest of these days.
- *own co-location*: a line for each box beside its own reference, in the first hours: what the network is to replace.

## Intervals where gain and level are identifiable

`solve` says *gain and level* of a box if an encounter, or a station at a site of its kind, tells the gain; the standard
deviations of gain and level are at most a fifth (of the references' spread for the level); at least half of the
variance of its readings is not noise; and at least 80 % of its readings lie in the range of those encounters. The rule
sees no hidden reference. Its numbers are round ones, of which 0.2 was taken beside 0.15 and 0.25 with all sets in view.

$identified

In *all*, each hour counts once for each method. On Denver two of three boxes have too narrow intervals, with few
stations to learn that from; of Antwerp PM10's two pairs and JRC O3's twelve, too, as only one reference is known.

Of all boxes, the default covers 65 to 97 % by set (below): it is not to be trusted where `solve` says *level only*.

## Sets

$sets

- *pairs*: known place and hidden box. *in 90 % intervals*: of hidden hourly references after the first hours.
- **JRC**: seven boxes side by side for nine days, of which the first six tenths are seen. The last days had twice as
  much PM10, and even a box's own line has too narrow intervals there. The zero currents of gas cells differ by more
  than the air, so that a pooled model is useless, and the graph depends on which box is known: where boxes correlate
  at less than 0.5, encounters tell only levels. With these days in view were set: that a day counts as one pair where
  no encounter is long; that four nights are enough to compare a box with a station far away (seven before, which JRC
  does not have); that encounters in unlike air tell levels.
- **Denver**: four boxes at three stations, nine months, the first 60 days seen. **Beijing**: seven boxes at seven
  stations in the twelve weeks they have in common, 30 days seen; their gains differ by a factor of two. Distances are
  not in these files: all are taken as 5 km.
- **Antwerp**: eight boxes at seven stations, eight months, the first 60 days seen; hours above 500 µg/m³, a sensor's
  range, are left out as faults. Distances are those of the boxes.
- **QUANT**: the set has one box for each gas, so there is no network: the line of a box ages.
- Boxes at stations are judged in the archive's way: the line of a month may rest on later encounters.

## By distance

RMSE, and the share in 90 % intervals, by kilometres to the known station.

$distances

## By months

RMSE, and the share in 90 % intervals, by months since the last hour that a box's own line was fitted to.

$months

## Plans

Simulated networks of 20 boxes and 70 days, whose best trip of five days was then taken: by how much the box's
uncertainty fell, over what `plan` promised.

$plans

## Scale

Simulated cities over a year, hourly: processor seconds of one thread from hourly means to the solution, without
reading files, and peak memory with all hourly means.

$scale
""")


def main(arguments: Sequence[str] | None = None) -> None:
    """Judge all sets, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--work", type=Path, default=Path("out/network"))
    parser.add_argument("--scale", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    scores = []
    for data, training in read_sets(given.data):
        path = given.work / f"{data.name.replace(' ', '_')}.json"
        if not path.exists():
            print(data.name, file=sys.stderr)
            _write(path, json.dumps([asdict(score) for score in judge(data, training)]))
        scores += [Score(**one) for one in json.loads(path.read_text(encoding="utf-8"))]
    sizes = (
        [measure_size(boxes, distant, given.work) for distant in (False, True) for boxes in SIZES]
        if given.scale
        else []
    )
    text = page(scores, sizes, measure_plans(given.work) if given.scale else [])
    if given.out:
        _write(given.out, text)
    print(json.dumps({"sets": table_of_sets(scores), "sizes": sizes}) if given.json else text)


def measure_size(boxes: int, distant: bool, work: Path) -> dict[str, Any]:
    """Solve a network of this size in a process of one thread, or return what was measured before."""
    path = work / f"scale_{boxes}{'_distant' if distant else ''}.json"
    if not path.exists():
        print(f"{boxes} boxes", file=sys.stderr)
        command = [sys.executable, "-m", "benchmarks.network_scale", str(boxes), *(["--distant"] if distant else [])]
        one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        _write(path, subprocess.run(command, env=one_thread, check=True, capture_output=True, text=True).stdout)
    return {"distant": distant, **json.loads(path.read_text(encoding="utf-8"))}


def measure_plans(work: Path) -> list[dict[str, Any]]:
    """Take planned trips in simulated networks, or return what was measured before."""
    path = work / "plans.json"
    if not path.exists():
        print("plans", file=sys.stderr)
        found = [network_plans.measure(journey, seed) for journey in Journey for seed in range(network_plans.SEEDS)]
        _write(path, json.dumps(found))
    return list(json.loads(path.read_text(encoding="utf-8")))


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def mean(scores: Iterable[Score], name: str) -> float:
    """Return the mean of a number of scores, each weighted by its hours."""
    scores = list(scores)
    return float(np.average([getattr(one, name) for one in scores], weights=[one.hours for one in scores]))


def table_of_sets(scores: Sequence[Score]) -> list[dict[str, Any]]:
    """Return a row for each set and method: boxes, RMSE, the same over that of the pooled model, bias and coverage."""
    rows = []
    for name in dict.fromkeys(one.set for one in scores):
        of_set = [one for one in scores if one.set == name]
        usual = [one for one in of_set if one.method == POOLED]
        for method in ORDER:
            some = [one for one in of_set if one.method == method and np.isfinite(one.square)]
            if some:
                error = np.sqrt(mean(some, "square"))
                rows.append(
                    {
                        "set": name,
                        "method": method,
                        "pairs": len({(one.known, one.box) for one in some}),
                        "rmse": error,
                        "over_pooled": error / np.sqrt(mean(usual, "square")) if usual else np.nan,
                        "bias": mean(some, "bias"),
                        "inside": mean(some, "inside"),
                    }
                )
    return rows


def table_of_identified(scores: Sequence[Score]) -> str:
    """Tabulate the coverage of boxes whose gain and level are identifiable, by set and method, and of all together."""
    rows = []
    for name, method in dict.fromkeys((one.set, one.method) for one in scores):
        some = [one for one in scores if (one.set, one.method) == (name, method)]
        known_pairs = [one for one in some if one.is_identified]
        if known_pairs:
            pairs, of = (len({(one.known, one.box) for one in each}) for each in (known_pairs, some))
            rows.append([name, method, f"{pairs} of {of}", f"{mean(known_pairs, 'inside'):.0%}"])
    every = [one for one in scores if one.is_identified]
    if every:
        pairs = len({(one.set, one.method, one.known, one.box) for one in every})
        rows.append(["all", "all of these", str(pairs), f"{mean(every, 'inside'):.0%}"])
    return _table(["set", "method", "pairs", "in 90 % intervals"], rows)


def _row_of_plans(journey: str, plans: Sequence[dict[str, Any]]) -> list[str]:
    ratios = np.array([plan["ratio"] for plan in plans if plan["journey"] == journey])
    least, low, median, high, most = np.quantile(ratios, (0, 0.1, 0.5, 0.9, 1))
    within = np.mean(np.abs(ratios - 1) <= 0.3)
    return [
        journey,
        str(len(ratios)),
        f"{median:.2f}",
        f"{low:.2f} to {high:.2f}",
        f"{least:.2f} to {most:.2f}",
        f"{within:.0%}",
    ]


def page(scores: Sequence[Score], sizes: Sequence[dict[str, Any]], plans: Sequence[dict[str, Any]]) -> str:
    """Render the page in Markdown."""
    rows = table_of_sets(scores)
    judged = [row for row in rows if np.isfinite(row["over_pooled"])]
    means = []
    for method in ORDER:
        ratios = {row["set"]: row["over_pooled"] for row in judged if row["method"] == method}
        if ratios:
            worst = max(ratios, key=lambda name: ratios[name])
            geometric = float(np.exp(np.mean(np.log(list(ratios.values())))))
            means.append([method, str(len(ratios)), f"{geometric:.2f}", f"{ratios[worst]:.2f} ({worst})"])
    apart = [one for one in scores if np.isfinite(one.km)]
    return PAGE.substitute(
        means=_table(["method", "sets", "RMSE ÷ pooled", "worst set"], means),
        sets=_table(
            ["set", "method", "pairs", "RMSE", "÷ pooled", "bias", "in 90 % intervals"],
            [
                [
                    row["set"],
                    row["method"],
                    str(row["pairs"]),
                    f"{row['rmse']:.3g}",
                    _or_dash(row["over_pooled"], "{:.2f}"),
                    f"{row['bias']:+.2g}",
                    _or_dash(row["inside"], "{:.0%}"),
                ]
                for row in rows
            ],
        ),
        distances=_grid(apart, [f"{low:g} to {high:g} km" for low, high in pairwise(KM_EDGES)], _km_class),
        months=_grid(
            [one for one in scores if one.set in LONG], [f"month {k + 1}" for k in range(MONTHS)], _month_class
        ),
        identified=table_of_identified(scores),
        plans=_table(
            ["network", "trips", "median", "10 % to 90 %", "least to most", "within 30 %"],
            [_row_of_plans(journey, plans) for journey in dict.fromkeys(plan["journey"] for plan in plans)],
        )
        if plans
        else "Not run.",
        scale=_table(
            ["boxes", "stations far away", "relations", "seconds", "per 1,000 relations", "MB"],
            [
                [
                    f"{size['boxes']:,}",
                    "yes" if size["distant"] else "no",
                    f"{size['relations']:,}",
                    f"{sum(size['seconds'].values()):.1f}",
                    f"{1000 * sum(size['seconds'].values()) / size['relations']:.2f}",
                    f"{size['megabytes']:.0f}",
                ]
                for size in sizes
            ],
        )
        if sizes
        else "Not run.",
    )


def _grid(scores: Sequence[Score], labels: Sequence[str], class_of: Callable[[Score], int]) -> str:
    """Tabulate RMSE and coverage by set, method and class."""
    rows = []
    for name in dict.fromkeys(one.set for one in scores):
        for method in ORDER:
            some = [one for one in scores if (one.set, one.method) == (name, method) and np.isfinite(one.square)]
            cells = []
            for k in range(len(labels)):
                inside = [one for one in some if class_of(one) == k]
                error = f"{np.sqrt(mean(inside, 'square')):.3g}" if inside else "–"
                cells.append(f"{error} ({_or_dash(mean(inside, 'inside'), '{:.0%}')})" if inside else error)
            rows += [[name, method, *cells]] if some else []
    return _table(["set", "method", *labels], rows)


def _km_class(score: Score) -> int:
    return int(np.searchsorted(KM_EDGES, score.km, side="right")) - 1


def _month_class(score: Score) -> int:
    return score.months


def _or_dash(value: float, form: str) -> str:
    return form.format(value) if np.isfinite(value) else "–"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


if __name__ == "__main__":
    main()
