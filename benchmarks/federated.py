"""A federation on real readings: exact regression and averaged network, against pooled rows and each site alone.

    python -m benchmarks.federated FOLDER --page docs/benchmarks/federated.md

FOLDER is that of `benchmarks.progress`: `colocations/NAME.csv.gz` and the boxes of Ispra, `jrc_ispra/BOX.csv.gz`. The
latest quarter of each site's rows is the test. Finished sets are kept in `--rows`, so a run that was stopped goes on.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import lying_sites, newcomers
from benchmarks.newcomers import coverage, cut, read_sites, rmse
from benchmarks.progress import JRC
from scare.calibrator.calibrator import Calibrator
from scare.calibrator.moments import Moments
from scare.data.readings import Channel, Readings
from scare.federated.agreement import AgreedData, AgreedNetwork, AgreedRules, Agreement
from scare.federated.combined import combine
from scare.federated.pooled import Ask, federate
from scare.federated.rows import scaled_columns
from scare.federated.site import Site
from scare.training.rounds import NetworkSite, train_rounds

ABOUT = {
    "jrc_no2": "NO2, 7 boxes side by side in Ispra, 10 days, 10-minute means; each box a site",
    "beijing_pm25_time": "PM2.5, 7 boxes at 7 stations of Beijing, a year, hourly; each station a site",
    "quant_no2": "NO2, one box of QUANT over 7 months, hourly; each third of the period as if it were a site",
}
HEAD = """\
# Federations on real readings

`python -m benchmarks.federated FOLDER --page docs/benchmarks/federated.md` makes this page. The latest quarter of each site's rows is the test;
*federated* is fitted by all sites without sharing readings, *own* by the site alone, *combined* drawn from the federated to the site's own rows, *others* by all other sites, as at a new place. Errors are RMSE, the mean over sites.
Networks: {rounds} rounds of {steps} steps, a window of {window} readings, one seed. A network that is no better than the regression on rows that
no site trained on is not kept: then both columns are equal.

| set | as it reads | regression, own | federated | combined | others | network, own | federated | pooled | largest difference of a weight from pooled ridge |
|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"""  # noqa: E501
LINEAR_START = "the network's linear start"
LOSERS = """
Sites that lose by joining, and coverage of the 90 % intervals of the federated regression:

| set | federated: sites worse than alone | combined: worse by over 2 % | network: worse than alone | covered | covered, new place |
|---|---:|---:|---:|---:|---:|"""  # noqa: E501


def agree(boxes: Sequence[Readings], names: Sequence[str], network: AgreedNetwork) -> Agreement:
    """An agreement of these sites on the columns of the first box."""
    first = boxes[0]
    reference = Channel(first.reference.name if first.reference else "reference")
    data = AgreedData(tuple(Channel(channel.name) for channel in first.channels), reference, first.step_seconds)
    return Agreement(data, dict.fromkeys(names, ""), AgreedRules(fewest_rows=50), network=network)


def asking(sites: Mapping[str, Sequence[Readings]], agreement: Agreement) -> Ask:
    """Ask sites in this process."""
    there = {name: Site(boxes, agreement, None, NetworkSite(boxes, agreement).answer) for name, boxes in sites.items()}
    return lambda tasks: {name: there[name].answer(task) for name, task in tasks.items()}


def difference_from_pooled(train: Mapping[str, Sequence[Readings]], agreement: Agreement) -> float:
    """The largest difference of a weight from that of ridge regression on all rows in one table, scaled."""
    federation = federate(asking(train, agreement), agreement)
    sites = {name: Site(boxes, agreement) for name, boxes in train.items()}
    rows = np.concatenate([site.rows.columns for site in sites.values()])
    targets = np.concatenate([site.rows.targets for site in sites.values()])
    columns = scaled_columns(rows, rows.mean(axis=0), rows.std(axis=0))[:, federation.structure.inputs]
    centered, scaled = columns - columns.mean(axis=0), (targets - targets.mean()) / targets.std()
    gram = centered.T @ centered / len(rows) + federation.structure.penalty * np.eye(columns.shape[1])
    wanted = np.linalg.solve(gram, centered.T @ scaled / len(rows))
    weights, _ = federation.structure.solve(Moments.pooled(list(federation.moments.values())))
    return float(np.abs(weights[federation.structure.inputs] - wanted).max())


def network_alone(boxes: Sequence[Readings], agreement: Agreement) -> Calibrator:
    """The network trained on these rows as if they were one site: both of its halves have all of them."""
    both = replace(agreement, sites={"a": "", "b": ""})
    ask = asking({"a": boxes, "b": boxes}, both)
    return train_rounds(ask, both, federate(ask, both))


def measure(folder: Path, name: str, settings: AgreedNetwork) -> dict[str, Any]:
    """Errors at each site of a set, by who fitted."""
    parts = {site: cut(boxes) for site, boxes in read_sites(folder, name).items()}
    train, test = ({site: part[which] for site, part in parts.items()} for which in (0, 1))
    agreement = agree(next(iter(train.values())), list(train), settings)
    ask = asking(train, agreement)
    federation = federate(ask, agreement)
    everything = [replace(box, device=f"{site} {box.device}") for site, boxes in train.items() for box in boxes]
    calibrators = {
        "all": federation.calibrator,
        "federated network": train_rounds(ask, agreement, federation),
        "pooled network": network_alone(everything, agreement),
    }
    sites: dict[str, dict[str, float]] = {}
    for site, boxes in test.items():
        others = {one: part for one, part in train.items() if one != site}
        without = replace(agreement, sites=dict.fromkeys(others, ""))
        new = federate(asking(others, without), without).calibrator
        own = replace(agreement, sites={"a": "", "b": ""})
        alone = federate(asking({"a": train[site], "b": train[site]}, own), own).calibrator
        found = {who: rmse(calibrator, boxes) for who, calibrator in calibrators.items()}
        found |= {"own": rmse(alone, boxes), "own network": rmse(network_alone(train[site], agreement), boxes)}
        combined = combine(federation.calibrator, train[site], federation.others[site])
        found |= {"combined": rmse(combined, boxes), "others": rmse(new, boxes)}
        found["covered"] = coverage(federation.calibrator, boxes)
        found |= {"covered new": coverage(new, boxes) if new.intervals else float("nan")}
        readings, references = (np.concatenate([getattr(box, part) for box in boxes]) for part in ("values", "targets"))
        found["raw"] = float(np.sqrt(np.nanmean(np.square(readings[:, 0] - references))))
        sites[site] = found
        print(name, site, {who: round(value, 3) for who, value in found.items()}, flush=True)
    network = calibrators["federated network"]
    kept = {"network": network.facts["rmse_of_rounds"], "rounds": network.facts.get("rounds")}
    structure = federation.calibrator.facts["structure"]
    difference = difference_from_pooled(train, agreement)
    return {"sites": sites, "difference": difference, "structure": structure, "kept": kept}


def page(results: Mapping[str, Mapping[str, Any]], settings: AgreedNetwork) -> str:
    """The page: of each part, the results of its sets."""
    sets = results["sets"]
    lines = [HEAD.format(rounds=settings.rounds, steps=settings.steps, window=settings.window)]
    order = ("raw", "own", "all", "combined", "others", "own network", "federated network", "pooled network")
    for name, result in sets.items():
        means = [np.mean([site[who] for site in result["sites"].values()]) for who in order]
        raw, *others = [f"{mean:.3g}" for mean in means]
        shown = "–" if name in JRC else raw  # a cell's current is not in the reference's unit
        lines.append(f"| {ABOUT[name]} | {shown} | {' | '.join(others)} | {result['difference']:.0e} |")
    lines.append(LOSERS)
    for name, result in sets.items():
        sites = list(result["sites"].values())
        pairs = (("all", 1.0, "own"), ("combined", 1.02, "own"), ("federated network", 1.0, "own network"))
        worse = [sum(site[joined] > slack * site[own] for site in sites) for joined, slack, own in pairs]
        covered = [np.nanmean([site[part] for site in sites]) for part in ("covered", "covered new")]
        cells = [*(f"{count} of {len(sites)}" for count in worse), *(f"{100 * share:.0f} %" for share in covered)]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    lines += [
        "",
        "What was kept: " + "; ".join(f"`{name}`: {_kept(result)}" for name, result in sets.items()) + ".",
        *newcomers.table(results["newcomers"]),
        *lying_sites.table(results["lies"]),
        "",
    ]
    return "\n".join(lines)


def _kept(result: Mapping[str, Any]) -> str:
    errors = result["kept"]["network"]
    number = result["kept"]["rounds"]
    model = "the regression" if number is None else f"the network of round {number}" if number else LINEAR_START
    return (
        f"{result['structure']}; {model} (network {errors['network']:.3g}, regression {errors['regression']:.3g} on"
        " rows held out from training, median of the sites)"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=Path, default=Path("out/federated.json"))
    parser.add_argument("--page", type=Path)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--steps", type=int, default=100)
    options = parser.parse_args()
    settings = AgreedNetwork(options.rounds, options.steps, 24)
    results = json.loads(options.rows.read_text()) if options.rows.exists() else {}
    parts: dict[str, tuple[Iterable[str], Callable[[Path, str], Any]]] = {
        "sets": (ABOUT, lambda folder, name: measure(folder, name, settings)),
        "newcomers": (newcomers.SETS, newcomers.measure),
        "lies": (lying_sites.SETS, lying_sites.measure),
    }
    options.rows.parent.mkdir(parents=True, exist_ok=True)
    for part, (names, measure_set) in parts.items():
        done = results.setdefault(part, {})
        for name in names:
            if name not in done:
                done[name] = measure_set(options.folder, name)
                options.rows.write_text(json.dumps(results, indent=1))
    if options.page:
        options.page.write_text(page(results, settings), encoding="utf-8")


if __name__ == "__main__":
    main()
