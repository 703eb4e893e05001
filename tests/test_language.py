"""The project speaks the field's words: what docs, code, messages and tests must not say, and where English may."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("scare", "tests", "benchmarks")
PYTHON = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py") if path != Path(__file__))
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
OTHERS = [
    path
    for folder in ("scare", "runtime", "configs")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in (".toml", ".js", ".html", ".j2", ".h", ".hpp", ".c", ".md", ".in", ".yaml", ".ino")
    and "vendored" not in path.parts
]

# Parts of identifiers (of `snake_case` and `CamelCase` names).
NAMES = {
    *("room", "rooms", "house", "workshop", "entrance", "seats", "ladder", "rung", "rungs", "climb", "sureness"),
    *("yardstick", "yardsticks", "contender", "contenders", "twin", "twins", "held", "visit", "visits", "said", "told"),
    *("say", "mutant", "mutants", "halves", "validity", "s8"),
}
ENGLISH_NAMES = {"held_out", "HELD_OUT", "held_out_x", "held_out_y"}
STORED_NAMES = {"scare/web/sessions.py": {"said"}}  # fields that are keys of files
# Keys of files that earlier versions wrote, and the modules that still read them.
LEGACY = {
    "scare/calibrator/bundle.py": {"validity", "held_low", "held_high"},
    "scare/calibrator/model_card.py": {"ladder", "rung", "sureness"},
    "scare/cli/config.py": {"ladder"},
    "scare/experiments/study_task.py": {"contender"},
    "scare/export/scare_json.py": {"validity"},
    "scare/training/selection.py": {"ladder", "sureness"},
    "scare/report/sections.py": {"yardstick"},
    "scare/scorecard/card.py": {"yardstick"},
    "scare/scorecard/requirements.py": {"yardstick"},
    "scare/training/recipe.py": {"ladder"},
    "scare/upkeep/update.py": {"visits"},
    "benchmarks/continual.py": {"visits"},
    "benchmarks/continual_page.py": {"visits"},
    "tests/calibrator/test_bundle_limits.py": {"ladder"},
    "tests/calibrator/test_model_card.py": {"ladder", "rung", "sureness"},
    "tests/cli/test_bad_input.py": {"ladder"},
    "tests/experiments/test_study.py": {"contender"},
    "tests/report/small_run.py": {"yardstick"},
    "tests/report/test_page.py": {"yardstick"},
    "tests/report/test_sections.py": {"contender"},
    "tests/test_continual_page.py": {"visits"},
    "tests/test_reproduce_page.py": {"contender"},
    "tests/training/test_recipe.py": {"ladder", "sureness"},
    "tests/upkeep/test_update.py": {"visits"},
    "docs/scorecard.md": {"yardstick"},
}
# Words and phrases in prose: docstrings, comments, messages, pages.
PROSE = (
    r"rooms?",
    r"house",
    r"workshop",
    r"ladders?",
    r"rungs?",
    r"climb(s|ed|ing)?",
    r"sureness",
    r"yardsticks?",
    r"contenders?",
    r"twins?",
    r"held",
    r"visits?",
    r"seats",
    r"mutants?",
    r"waiting room",
    r"the one who",
    r"of the say",
    r"had no say",
    r"edges of (training|validity)",
    r"the same of",
)
# English besides: phrases in which these words are the field's own or plain English.
ENGLISH = (
    r"held[- ]out",
    r"(have|has|had|no|enough|leaves?|with|makes?|more|is) room (for|to|left)",
    r"hand-?held",
)


@cache
def words_of(name: str) -> set[str]:
    """The lower-case parts of an identifier."""
    return {part.lower() for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+\d*|\d+", name)}


def identifiers(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) if name.startswith("test_"):
                continue  # a sentence: checked as prose
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name) | ast.arg(arg=name) | ast.Attribute(attr=name):
                yield name
            case ast.keyword(arg=str(name)):
                yield name


def prose(text: str) -> Iterator[str]:
    """Comments, strings and the names of tests."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            yield token.string
        elif token.type == tokenize.NAME and token.string.startswith("test_"):
            yield token.string.replace("_", " ")


def unwelcome(text: str) -> set[str]:
    """The forbidden words of a text, without the phrases in which they are English."""
    plain = re.sub("|".join(ENGLISH), "", text, flags=re.IGNORECASE)
    return {found.group().lower() for found in re.finditer(rf"\b({'|'.join(PROSE)})\b", plain, re.IGNORECASE)}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_name_has_a_word_of_our_own(folder: str) -> None:
    found = {}
    for path in PYTHON:
        if path.relative_to(ROOT).parts[0] == folder:
            names = {
                name
                for name in set(identifiers(ast.parse(path.read_text(encoding="utf-8"))))
                if words_of(name) & NAMES
                and name not in ENGLISH_NAMES | STORED_NAMES.get(path.relative_to(ROOT).as_posix(), set())
            }
            found |= {str(path.relative_to(ROOT)): sorted(names)} if names else {}
    assert found == {}


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_message_or_docstring_has_one(folder: str) -> None:
    found = {}
    for path in PYTHON:
        if path.relative_to(ROOT).parts[0] == folder:
            name = path.relative_to(ROOT).as_posix()
            words = unwelcome("\n".join(prose(path.read_text(encoding="utf-8")))) - LEGACY.get(name, set())
            found |= {name: sorted(words)} if words else {}
    assert found == {}


def test_no_page_has_one() -> None:
    texts = {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in (*PAGES, *OTHERS)}
    found = {name: unwelcome(text) - LEGACY.get(name, set()) for name, text in texts.items()}
    assert {name: sorted(words) for name, words in found.items() if words} == {}


def test_what_is_english_besides_passes() -> None:
    assert unwelcome("scores on held-out rows; there is no room for more") == set()
    assert unwelcome("a held value in the waiting room") == {"held", "waiting room"}
    assert words_of("heldLow") | words_of("_HELD_LOW") | words_of("clamp_low") == {"held", "low", "clamp"}
