"""The page of federations on real readings: its numbers are those of the measurement, and exact is exact."""

from dataclasses import replace

import numpy as np

from benchmarks import lying_sites, newcomers
from benchmarks.federated import ABOUT, agree, difference_from_pooled, page
from benchmarks.newcomers import cut
from scare.federated.agreement import AgreedNetwork
from scare.federated.rows import collect_rows
from tests.federated.small_sites import box

OUTCOME = {"better": False, "either": True, "wrong": True}
LIES = {"jrc_no2": {"sites": 7, "named": 0, "lies": {lie: [OUTCOME] for lie in lying_sites.LIES}}}
NEWCOMERS = [{"others": 4.0, "alone": 2.0, "combined": combined, "covered": 0.9, "days": 2} for combined in (1.0, 4.0)]


def test_the_latest_quarter_is_the_test() -> None:
    before, after = cut([box(0)])
    assert (len(before[0]), len(after[0])) == (300, 100)
    assert before[0].times[-1] < after[0].times[0]


def test_the_federated_regression_is_the_pooled_one() -> None:
    sites = {name: [replace(box(number), device=name)] for number, name in enumerate(("a", "b", "c", "d"))}
    assert difference_from_pooled(sites, agree(sites["a"], list(sites), AgreedNetwork())) < 1e-9


def test_means_and_losers_are_counted() -> None:
    names = (
        "raw",
        "own",
        "all",
        "combined",
        "others",
        "own network",
        "federated network",
        "pooled network",
        "covered",
        "covered new",
    )
    sites = {"one": dict(zip(names, (9, 2, 1, 1.5, 4, 2, 3, 2, 0.9, 0.8), strict=True))}
    sites["two"] = dict(zip(names, (9, 2, 3, 2.5, 4, 2, 3, 2, 0.8, np.nan), strict=True))
    kept = {"network": {"network": 2.0, "regression": 3.0}, "rounds": 0}
    result = {"sites": sites, "difference": 3e-13, "structure": "linear, penalty 1", "kept": kept}
    text = page(
        {"sets": dict.fromkeys(ABOUT, result), "newcomers": {"jrc_no2": NEWCOMERS}, "lies": LIES}, AgreedNetwork()
    )
    assert f"| {ABOUT['quant_no2']} | 9 | 2 | 2 | 2 | 4 | 2 | 3 | 2 | 3e-13 |" in text
    assert "| `quant_no2` | 1 of 2 | 1 of 2 | 2 of 2 | 85 % | 80 % |" in text
    assert "`quant_no2`: linear, penalty 1; the network's linear start (network 2, regression 3" in text


def test_newcomers_are_compared_with_themselves_alone() -> None:
    text = "\n".join(newcomers.table({"jrc_no2": NEWCOMERS}))
    assert "| 4 | 2 / 2 | – | – | – |" in text
    assert "| 2 | 2.00 | 1.00 | 0 of 1 | 50 % | 50 % | 90 % |" in text


def test_a_lie_is_counted_as_named_by_either_check() -> None:
    text = "\n".join(lying_sites.table(LIES))
    assert "of 7 honest ones none is named" in text
    assert f"in {len(lying_sites.LIES)} of {len(lying_sites.LIES)} cases" in text
    assert "| reference × 2 | 0 % | 100 % |" in text
    sites = {name: collect_rows([box(number)]) for number, name in enumerate("abcd")}
    lie = replace(sites["b"], targets=1000 * sites["b"].targets)
    assert ("b", True) in lying_sites.doubts_about({**sites, "b": lie})
