"""Throughput and latency of live calibration, part by part; makes docs/benchmarks/live.md.

    python -m benchmarks.live [--parts fleet,gateway] [--work out/live] [--out docs/benchmarks/live.md] [--json]

The result of a part stays in `--work`; the page has every part that was measured.
"""

import argparse
import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markdown import Markdown

from benchmarks import live_fleet, live_gateway
from scare.files import replacing

PARTS = {"fleet": live_fleet, "gateway": live_gateway}  # each has measure() and section(found)
HEAD = """# Live

Made by `python -m benchmarks.live --out docs/benchmarks/live.md`; do not edit.
"""


def main() -> None:
    """Measure the parts asked for, print and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--work", type=Path, default=Path("out/live"))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    for part in filter(None, options.parts.split(",")):
        write(options.work / f"{part}.json", json.dumps(PARTS[part].measure(), indent=2))
    found = {part: json.loads((options.work / f"{part}.json").read_text()) for part in known(options.work)}
    page = print_page(found)
    if options.out:
        write(options.out, page)
    Console(stderr=options.json).print(Markdown(page))
    if options.json:
        print(json.dumps(found, indent=2))


def known(folder: Path) -> list[str]:
    """The parts with a result in the folder."""
    return [part for part in PARTS if (folder / f"{part}.json").is_file()]


def print_page(found: dict[str, Any]) -> str:
    """Render the page in Markdown from the results by part."""
    return "\n".join([HEAD, *(PARTS[part].section(facts) for part, facts in found.items())])


def write(path: Path, text: str) -> None:
    """Write a file, and create its folder if needed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
