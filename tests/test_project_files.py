"""What stands around the code is true: one version, every page in the site, every public name in the reference."""

import re
import shlex
import tomllib
from pathlib import Path

import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import scare
from scare.cli.app import app

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
NAMES = ["README.md", "CONTRIBUTING.md", *(page.relative_to(ROOT).as_posix() for page in PAGES)]
COMMANDS = typer.main.get_command(app)
LINE = re.compile(r"^\$ (scare .*)$|`(scare [a-z][^`]*)`|\"(scare [a-z][^\"]*)\"", re.M)

INSTALLED = re.compile(r"""pip install (?:--?\S+ )*["']?([\w.-]+)""")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def entries(nav: object) -> list[str]:
    """The pages of a navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    below = nav.values() if isinstance(nav, dict) else nav
    return [page for part in below for page in entries(part)]


def test_package_changelog_and_citation_have_one_version() -> None:
    (newest, *older) = re.findall(
        r"^## (\d+\.\d+\.\d+) \((?:unreleased|\d{4}-\d\d-\d\d)\)$", read("CHANGELOG.md"), re.M
    )
    assert newest == scare.__version__
    assert older == ["0.1.0"]
    assert f"\nversion: {newest}\n" in read("CITATION.cff")


def test_every_page_is_in_the_site_once() -> None:
    site = tomllib.loads(read("zensical.toml"))["project"]
    assert sorted(entries(site["nav"])) == [page.relative_to(DOCS).as_posix() for page in PAGES]


def test_every_link_leads_to_a_file() -> None:
    links = [(page, target) for page in NAMES for target in re.findall(r"\]\((?!http)([^)#\s]+)\)", read(page))]
    assert [(page, target) for page, target in links if not (ROOT / page).parent.joinpath(target).exists()] == []


def test_every_public_name_is_in_the_reference() -> None:
    shown = "".join(page.read_text(encoding="utf-8") for page in (DOCS / "api").glob("*.md"))
    for name in set(scare.__all__) - {"__version__"}:
        assert re.search(rf"^::: scare\.[\w.]+\.{name}$", shown, re.M), name


def test_the_page_of_commands_has_every_command() -> None:
    assert set(re.findall(r"^\| `scare (\w+)` \|", read("docs/commands.md"), re.M)) == set(COMMANDS.commands)


def is_offered(line: str) -> bool:
    """Whether a line is one of our commands with options it has."""
    command, words = COMMANDS, shlex.split(line, comments=True)[1:]
    while words and words[0] in getattr(command, "commands", ()):
        command = command.commands[words.pop(0)]
    known = {"--help", *(name for option in command.params for name in (*option.opts, *option.secondary_opts))}
    return command is not COMMANDS and {word.split("=")[0] for word in words if word.startswith("--")} <= known


def test_every_command_typed_on_a_page_exists_with_its_options() -> None:
    typed = ["".join(found) for page in NAMES for found in LINE.findall(read(page).replace("\\\n", " "))]
    assert len(typed) > 100
    assert [line for line in typed if not is_offered(line)] == []
    assert not is_offered("scare trian pm.csv")
    assert not is_offered("scare train pm.csv --splitt time")


def test_the_tutorial_types_what_the_readme_does() -> None:
    lines = {line.split("  #")[0].strip() for line in read("README.md").splitlines()}
    typed = re.findall(r"^\$ scare .*$", read("docs/tutorial.md"), re.M)
    assert len(typed) == 10
    assert set(typed) <= lines


def test_nobody_is_told_to_install_a_strangers_package() -> None:
    """`scare` on PyPI is not ours."""
    pages = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md", "Makefile")]
    for folder in ("docs", "scare", "benchmarks", "runtime"):
        pages += [
            path for path in (ROOT / folder).rglob("*") if path.suffix in (".md", ".py", ".toml", ".in", ".html", ".js")
        ]
    reported = {name for path in pages for name in INSTALLED.findall(path.read_text(encoding="utf-8"))}
    assert "." in reported
    assert {name for name in reported if name.startswith("scare")} <= {"scare-calibration"}


def test_every_action_of_the_workflow_is_pinned_by_its_commit() -> None:
    for workflow in (ROOT / ".github/workflows").glob("*.yml"):
        used = re.findall(r"uses: (\S+)", workflow.read_text(encoding="utf-8"))
        assert used
        assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []


def test_the_lock_file_has_a_version_of_every_dependency_that_fits() -> None:
    project = tomllib.loads(read("pyproject.toml"))["project"]
    wanted = [*project["dependencies"], *(one for some in project["optional-dependencies"].values() for one in some)]
    locked = [Requirement(line) for line in read("requirements.lock").splitlines() if not line.startswith("#")]
    for requirement in map(Requirement, wanted):
        if requirement.name == project["name"]:
            continue
        pins = [one for one in locked if canonicalize_name(one.name) == canonicalize_name(requirement.name)]
        assert pins, requirement
        versions = [next(iter(one.specifier)).version for one in pins]
        assert all(requirement.specifier.contains(one, prereleases=True) for one in versions), requirement
