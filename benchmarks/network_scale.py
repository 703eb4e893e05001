"""How long a large network takes, and how much memory: one size in one process of one thread.

    OMP_NUM_THREADS=1 python -m benchmarks.network_scale 10000 [--distant]

A city of `scare network simulate` over a year, with hourly readings that are drawn site by site: air that all sites
share, and an independent part at each. It prints seconds, peak memory, encounters and blocks as JSON.
"""

import argparse
import json
import resource
import time
from dataclasses import replace
from itertools import groupby

import numpy as np

from scare.data.simulated_city import CENTRE, Deployment, Journey, deploy
from scare.data.sites import Place
from scare.upkeep.network.distant import compare_distant
from scare.upkeep.network.doubts import find_doubts
from scare.upkeep.network.encounters import EncounterRules, find_encounters
from scare.upkeep.network.graph import solve
from scare.upkeep.network.hours import HOUR, NetworkHours
from scare.upkeep.network.relations import relate

DAYS = 365
USUAL_BOXES = 30  # of the city, on 10 km × 10 km


def spread_out(deployment: Deployment, factor: float) -> Deployment:
    """Return the deployment with all distances times `factor`, so that a large one is no denser than a small one."""
    places = {
        name: Place(
            CENTRE.latitude + factor * (place.latitude - CENTRE.latitude),
            CENTRE.longitude + factor * (place.longitude - CENTRE.longitude),
            place.kind,
        )
        for name, place in deployment.places.items()
    }
    return replace(deployment, places=places)


def draw_hours(deployment: Deployment, seed: int = 0) -> NetworkHours:
    """Draw the hourly readings of all instruments."""
    names = tuple(sorted({stay.device for stay in deployment.sites.stays}))
    row = {name: index for index, name in enumerate(names)}
    begin = min(stay.first for stay in deployment.sites.stays)
    count = DAYS * 24
    values = np.full((len(names), count), np.nan, np.float32)
    rng = np.random.default_rng(seed)
    hour = np.arange(count)
    regional = 12 * np.exp(0.4 * np.sin(hour / 40) + 0.3 * np.sin(hour / 7.3))
    gains, offsets = 1.4 * rng.lognormal(0, 0.2, len(names)), rng.normal(0, 2, len(names))
    by_site = sorted(deployment.sites.stays, key=lambda stay: stay.site)
    for _, stays in groupby(by_site, key=lambda stay: stay.site):
        air = regional * (1 + 0.2 * rng.standard_normal(count, np.float32))
        for stay in stays:
            part = slice(round((stay.first - begin) / HOUR), round((stay.last - begin) / HOUR))
            k, here = row[stay.device], air[part]
            if stay.device in deployment.references:
                values[k, part] = here
            else:
                noise = rng.standard_normal(len(here), np.float32)
                values[k, part] = gains[k] * here * (1 + 0.08 * noise) + offsets[k]
    return NetworkHours(names, int(begin // HOUR), values, frozenset(deployment.references))


def main() -> None:
    """Solve one network, and print what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("boxes", type=int)
    parser.add_argument("--distant", action="store_true")
    options = parser.parse_args()
    deployment = spread_out(deploy(Journey.CITY, options.boxes, DAYS), (options.boxes / USUAL_BOXES) ** 0.5)
    hours = draw_hours(deployment)
    rules = EncounterRules()
    seconds = {}

    def lap(name: str) -> None:
        seconds[name] = time.process_time() - sum(seconds.values()) - start

    start = time.process_time()
    encounters = find_encounters(hours, deployment.sites, deployment.places, rules)
    lap("encounters")
    relations = relate(hours, encounters, rules)
    lap("relations")
    relations, _ = find_doubts(hours, relations, rules)
    lap("doubts")
    if options.distant:
        relations += compare_distant(hours, deployment.sites, deployment.places, rules)[0]
        lap("distant")
    solution = solve(hours, relations)
    lap("solution")
    print(
        json.dumps(
            {
                "boxes": options.boxes,
                "relations": len(relations),
                "nodes": solution.system.graph.nodes,
                "blocks": len(solution.factor),
                "seconds": seconds,
                "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }
        )
    )


if __name__ == "__main__":
    main()
