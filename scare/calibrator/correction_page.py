"""The page of published corrections, docs/corrections.md, made from the registry; a test keeps the two equal.

python -c "from scare.calibrator.correction_page import page; print(page(), end='')" > docs/corrections.md
"""

from collections.abc import Iterable

from scare.calibrator.corrections import EVERY, Correction

INTRODUCTION = """# Published corrections

Made from `scare/calibrator/corrections.toml`; change that file, not this page. Each entry is a calibrator: a row in
every comparison, saved and exported like any model. An entry's numbers never change; another reading of its source
is a new version.

Sources disagree about the coefficients of one correction, so each reading is an entry of its own: 0.0862 / 5.75
(`barkjohn-2021`) is what EPA's later slides and AirGradient use, 0.0852 / 5.72 (`barkjohn-2021-sensortoolkit`) is
what EPA's sensortoolkit computes. They differ by at most 0.07 ug/m3. What differs more is the field read:
`airnow-2021` reads the Plantower field CF = ATM, the other PurpleAir corrections CF = 1.

A reading outside the valid range is flagged `RANGE` and gives no value. Results are never cut off at zero.
"""


def page() -> str:
    """The whole page, in Markdown."""
    overview = _table(("correction", "corrects", "reads", "DOI"), map(_overview, EVERY.values()))
    return "\n".join([INTRODUCTION, overview, *map(_section, EVERY.values())])


def _overview(entry: Correction) -> tuple[str, ...]:
    reads = ", ".join(role.quantity for role in entry.roles)
    return f"`{entry.name}`", entry.quantity, reads, _link(entry.doi)


def _section(entry: Correction) -> str:
    facts = {"Formula": entry.formula, "Source": entry.source, "DOI": _link(entry.doi), "How sure": entry.certainty}
    roles = [(role.name, role.about, role.unit, f"{role.low:g} to {role.high:g}") for role in entry.roles]
    names = [role.name for role in entry.roles]
    vectors = [[f"{vector[name]:.10g}" for name in (*names, "expected")] for vector in entry.vectors]
    return "\n".join(
        [
            f"## `{entry.name}`: {entry.title}\n",
            *(f"- {name}: {text}" for name, text in facts.items()),
            *(f"- {note}" for note in entry.notes),
            "\n" + _table(("role", "what", "unit", "valid range"), roles),
            "Worked by hand:\n",
            _table((*names, "result"), vectors),
        ]
    )


def _link(doi: str) -> str:
    return f"[{doi}](https://doi.org/{doi})" if doi else "none"


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
