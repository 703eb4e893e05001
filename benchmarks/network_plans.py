"""What a planned trip gives, over what `scare network plan` promised: simulated networks in which it is taken.

    python -m benchmarks.network_plans [--seeds 12]

Each network is solved, its best trip is planned and simulated for the next days, and the longer network is solved
again. A ratio is the fall of the box's uncertainty over the promised one. Prints JSON.
"""

import argparse
import json
from dataclasses import replace
from typing import Any

import numpy as np

from scare.data.simulated_city import City, Journey, deploy, simulate_city
from scare.data.sites import Sites, Stay
from scare.upkeep.network.fleet import SolvedNetwork, solve_network
from scare.upkeep.network.hours import DAY, HOUR, NetworkHours
from scare.upkeep.network.trips import plan_trips

BOXES, KNOWN, LENGTH = 20, 70.0, 5.0  # days before the trip, and of it
SEEDS = 12


def measure(journey: Journey, seed: int) -> dict[str, Any]:
    """Return what the first trip of a plan promises, and what it gives."""
    before = solve_city(simulate_city(deploy(journey, BOXES, KNOWN, seed), seed))
    trip = plan_trips(before.solution, sorted(before.hours.references), count=1, days=LENGTH)[0]
    deployment = deploy(journey, BOXES, KNOWN + LENGTH, seed)
    begin = simulate_city(replace(deployment, days=1.0), seed).start.timestamp() + KNOWN * DAY
    stays = list(deploy(journey, BOXES, KNOWN, seed).sites.stays)
    last = {stay.device: stay for stay in stays}
    for name, stay in last.items():
        site = last[trip.beside].site if name == trip.box else stay.site
        stays.append(Stay(site, name, begin, begin + LENGTH * DAY))
    city = simulate_city(replace(deployment, sites=Sites(tuple(stays))), seed)
    after = solve_city(city).solution
    ratio = (trip.before - after.uncertainty(trip.box)) / (trip.before - trip.after)
    return {"journey": str(journey), "seed": seed, "ratio": ratio}


def solve_city(city: City) -> SolvedNetwork:
    """Solve a simulated network by its own tables."""
    names = tuple(sorted(city.readings))
    values = np.array([city.readings[name] for name in names], np.float32)
    references = frozenset(city.deployment.references)
    hours = NetworkHours(names, int(city.start.timestamp() // HOUR), values, references)
    return solve_network(hours, city.deployment.sites, city.deployment.places)


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=SEEDS)
    options = parser.parse_args()
    print(json.dumps([measure(journey, seed) for journey in Journey for seed in range(options.seeds)]))


if __name__ == "__main__":
    main()
