"""Networks whose references are hidden: error and coverage of what calibrates them, by set, distance and months.

    python -m benchmarks.network DATA [--work out/network] [--scale] [--out docs/benchmarks/network.md] [--json]

Scores of a set are kept in `--work`, a file a set; a second call goes on where the first was stopped. With --scale,
networks of up to 10,000 boxes are drawn and solved, too.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from string import Template
from typing import Any

import numpy as np

from benchmarks.network_real import DISTANT, DISTANT_KIND, GRAPH, NOTHING, OWN, PERCENTILES, POOLED, TRAVELLER
from benchmarks.network_real import Score, judge, read_sets
from scare.files import replacing

ORDER = (NOTHING, POOLED, PERCENTILES, GRAPH, DISTANT, DISTANT_KIND, TRAVELLER, OWN)
SIZES = (1250, 2500, 5000, 10_000)
KM_EDGES = (0.0, 1.0, 2.0, 4.0, 8.0)


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
    sizes = [measure_size(boxes, distant, given.work) for distant in (False, True) for boxes in SIZES] if given.scale else []
    text = page(scores, sizes)
    if given.out:
        _write(given.out, text)
        plain = {"scores": [asdict(score) for score in scores], "sizes": sizes}
        _write(given.out.with_suffix(".json"), json.dumps(plain))
    print(json.dumps(table_of_sets(scores)) if given.json else text)


def measure_size(boxes: int, distant: bool, work: Path) -> dict[str, Any]:
    """Solve a network of this size in a process of one thread, or return what was measured before."""
    path = work / f"scale_{boxes}{'_distant' if distant else ''}.json"
    if not path.exists():
        print(f"{boxes} boxes", file=sys.stderr)
        command = [sys.executable, "-m", "benchmarks.network_scale", str(boxes), *(["--distant"] if distant else [])]
        one_thread = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        _write(path, subprocess.run(command, env=one_thread, check=True, capture_output=True, text=True).stdout)
    return {"distant": distant, **json.loads(path.read_text(encoding="utf-8"))}


def _write(path: Path, text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def rmse(scores: Iterable[Score]) -> float:
    """Return the root mean square over boxes and known places of the RMSE of each, so that all count alike.

    >>> one, other = (Score("", "", "", box, 0, 1.0, 10, square, 0.0, 0.9) for box, square in (("a", 1.0), ("b", 3.0)))
    >>> round(rmse([one, other]), 3)
    1.414
    """
    squares: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for one in scores:
        squares.setdefault((one.known, one.box), []).append((one.hours, one.square))
    return float(np.sqrt(np.mean([np.average([s for _, s in each], weights=[h for h, _ in each]) for each in squares.values()])))
