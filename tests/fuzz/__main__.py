"""`make fuzz`: mutated inputs of every target, a share of them at a time, from where the last run stopped.

python -m tests.fuzz --count 100000 --seconds 3600 --out out/fuzz [--targets bundles,csv] [--seed 0]
"""

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from scare.files import replacing
from tests.fuzz.running import Finding, content_of, run_numbers
from tests.fuzz.target import Target
from tests.fuzz.targets import TARGETS

SHARE = 250  # mutated inputs of a target before the next has its turn


def fuzz(targets: list[Target], seed: int, count: int, seconds: float, out: Path) -> dict[str, Any]:
    """Run until each target has had so many mutated inputs in all, or time is up; what became of them."""
    state, end = _state(out / f"state-{seed}.json"), time.monotonic() + seconds
    while time.monotonic() < end:
        left = [target for target in targets if state.get(target.name, {}).get("next", 0) < count]
        if not left:
            break
        for target in left:
            _run_share(target, seed, count, state, out)
            with replacing(out / f"state-{seed}.json") as path:
                path.write_text(json.dumps(state, indent=1), encoding="utf-8")
    return state


def _run_share(target: Target, seed: int, count: int, state: dict[str, Any], out: Path) -> None:
    own = state.setdefault(target.name, {"next": 0, "inputs": 0, "became": {}, "findings": 0})
    numbers = range(own["next"], min(own["next"] + SHARE, count))
    with TemporaryDirectory() as folder:
        for counts, findings in run_numbers(target, seed, numbers, Path(folder)):
            own["became"] = dict(Counter(own["became"]) + counts)
            own["next"] += sum(counts.values())
            own["inputs"] += target.inputs * sum(counts.values())
            own["findings"] += len(findings)
            for finding in findings:
                _keep(target, seed, finding, out)
    print(target.name, json.dumps(own), file=sys.stderr, flush=True)


def _keep(target: Target, seed: int, finding: Finding, out: Path) -> None:
    """The mutated input, and what is wrong with it beside it."""
    folder = out / "findings"
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{target.name}-{seed}-{finding.number}"
    (folder / f"{name}{target.suffix}").write_bytes(content_of(target, seed, finding.number))
    (folder / f"{name}.txt").write_text(finding.what, encoding="utf-8")


def _state(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def main() -> None:
    """Read the line, run, and end with 1 if anything was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--targets", default=",".join(TARGETS))
    parser.add_argument(
        "--count", type=int, default=200_000, help="mutated inputs of each target, in all runs together"
    )
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("out/fuzz"))
    given = parser.parse_args()
    chosen = [TARGETS[name] for name in given.targets.split(",")]
    state = fuzz(chosen, given.seed, given.count, given.seconds, given.out)
    print(json.dumps(state, indent=1))
    sys.exit(any(one["findings"] for one in state.values()))


if __name__ == "__main__":
    main()
