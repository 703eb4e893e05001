"""The page of continual.py: errors over time with a co-location every two weeks, and a new box after hours of one."""

from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

NEVER, UPDATED = "never updated", "updated"
NEAR = 1.05  # times the fleet's own error: up to this, a box counts as equally good
WORSE = 1.02  # times the error of never updating: counted as a loss
PAGE = Template("""# Updating from co-location sessions

`scare update` after a day of reference every two weeks, compared with never updating and with retraining. A ratio
below 1 means that updating helps.

$summary

Half of the references, in time order, train a calibrator (`scare`, preset `default`, 600 steps, seed 0). From then on
each box stands beside the reference for one day every two weeks (a co-location session). All other days are scored,
all methods on the same rows; RMSE is in the unit of the reference.

- *updated*: each box by [`scare update`](../update.md) after each of its sessions.
- *retrained in full*: the recipe fitted again after each session, to the first half and all sessions so far.
- *retrained line*: likewise, a regression on the newest readings of all channels.
- *chosen on*: the rules of updates (memory, length of the test, prior) were chosen on $chosen and on
  simulated drift of other seeds; the other sets were not used.

Made by `python -m benchmarks.continual --data DATA --out docs/benchmarks/continual.md`; do not edit.

## A new box

JRC boxes that were not in training. The reference is present for the given hours before the test, and `scare update
--device` makes the box's calibrator: from those hours alone, or from all its readings with references in those hours
only.

- *settled*: no reference; scaling from the first 96 hours of readings, as by `scare predict`.
- *the fleet's own*: the error of the same calibrator on its training boxes in the same days.
- *reached*: the hours from which on it is within 5 % of the fleet's own. A dash: the session was rejected.

RMSE. The rules were chosen on simulated fleets.

$transfers

## Fortnight by fortnight

$sections
""")


def page(
    sessions: Mapping[str, Mapping[str, Any]], transfers: Mapping[str, Mapping[str, Any]], chosen: Sequence[str]
) -> str:
    """Render the page in Markdown; `chosen` are the sets on which the rules of updates were chosen."""
    return PAGE.substitute(
        chosen=" and ".join(chosen),
        summary=_summary(sessions, chosen),
        sections="\n\n".join(_section(*item) for item in sessions.items()),
        transfers=_transfers(transfers),
    )


def _table(*rows: Sequence[str]) -> str:
    """Render a table; the first row is its head."""
    head, *others = rows
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *others))


def _summary(sessions: Mapping[str, Mapping[str, Any]], chosen: Sequence[str]) -> str:
    """Tabulate all sets in a row each: errors, and how many fortnights were worse than without updates."""
    methods = list(next(iter(sessions.values()))["rmse"]) if sessions else []
    rows = []
    for name, found in sessions.items():
        errors = [f"{found['rmse'][method]:.4g}" for method in methods]
        ratio = found["rmse"][UPDATED] / found["rmse"][NEVER]
        lost = f"{len(_losses(found))} of {len(found['periods'])}"
        rows.append([f"{name}{' (chosen on)' if name in chosen else ''}", *errors, f"{ratio:.2f}", lost])
    return _table(["set", *methods, "updated / never", "fortnights lost by more than 2 %"], *rows)


def _losses(found: Mapping[str, Any]) -> list[Mapping[str, float]]:
    """Find the fortnights in which updating was worse than never updating."""
    return [period for period in found["periods"] if period[UPDATED] > WORSE * period[NEVER]]


def _section(name: str, found: Mapping[str, Any]) -> str:
    """Render one set, fortnight by fortnight."""
    boxes = "1 box" if found["boxes"] == 1 else f"{found['boxes']} boxes"
    about = (
        f"{boxes}, {found['visits']} sessions each, {found['rows']:,} rows scored;"
        f" {found['changed']} of {found['boxes'] * found['visits']} sessions changed a calibrator."
    )
    rows = [
        [str(index), *(f"{error:.4g}" for error in period.values())] for index, period in enumerate(found["periods"], 1)
    ]
    return "\n\n".join([f"### {name}", about, _table(["after session", *found["rmse"]], *rows)])


def _transfers(transfers: Mapping[str, Mapping[str, Any]]) -> str:
    """Tabulate the errors of new boxes, by hours of co-location."""
    hours = list(next(iter(transfers.values()))["hours"]) if transfers else []
    rows = []
    for name, found in transfers.items():
        fixed = [f"{found[kind]:.4g}" for kind in ("fleet", "settled", "unsettled")]
        for kind in ("hours", "all rows"):
            after = [f"{error:.4g}" if (error := found[kind][hour]) is not None else "–" for hour in hours]
            rows.append([f"{name}, {kind}", *fixed, *after, _reached(found[kind], found["fleet"])])
    heads = [*(f"{hour} h" for hour in hours), "reached"]
    return _table(["task, and what is given", "the fleet's own", "settled, 96 h", "scaled as the fleet", *heads], *rows)


def _reached(errors: Mapping[str, float | None], fleet: float) -> str:
    """Find the hours from which on a box is as good as the fleet itself; "no" if it never is.

    >>> _reached({"2": 9.0, "4": 1.0, "8": 1.04}, 1.0), _reached({"2": 1.0, "4": 9.0}, 1.0)
    ('4 h', 'no')
    """
    missed = [index for index, error in enumerate(errors.values()) if error is None or error > NEAR * fleet]
    first = max(missed, default=-1) + 1
    return f"{list(errors)[first]} h" if first < len(errors) else "no"
