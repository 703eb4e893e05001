"""Names, units and facts are text, whatever they hold: in no printed language do they become anything else."""

import ast
import json
import re
import tomllib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from scare.calibrator.calibrator import Calibrator
from scare.data.readings import Channel
from scare.errors import DataError
from scare.export.lowering import compile_calibrator
from scare.export.target import describe_inputs, fill_templates, readme_fields
from scare.export.targets import TARGETS
from scare.windowing.scaling import Scaling
from tests.calibrator.building import make_calibrator, newest_plan
from tests.report.small_run import series
from tests.report.test_page import Page, write

HOSTILE = {
    "ends a comment of C": '*/ int evil = system("evil"); /*',
    "begins a comment of C": "/* // /",
    "ends a string": '"; evil(); "',
    "ends another string": "'; evil(); '",
    "ends a text of Python": '""" + evil() + """',
    "ends a line": "a\nevil()\n#include <evil>\n",
    "goes on with the line": "evil \\",
    "is a trigraph": "??/ ??) evil",
    "asks a shell": "$(evil) `evil` ; evil | evil & evil",
    "is a field": "${evil} $evil {{ evil }} {% evil %} {evil} %s%n",
    "is a tag": "<script>evil()</script><img src=x onerror=evil()>",
    "ends a tag": "--> ]]> </title></script><script>evil()</script>",
    "is YAML": "a: {b: [evil]} # evil\n- !!python/object/apply:evil []",
    "is a fence": "``` evil\n```sh\nevil\n```",
    "is a cell": "a | b \\| c |\n|---|---|",
    "is CMake": ') execute_process(COMMAND evil) set(x "',
    "reads backwards": "\u202eevil\u202c\u2028evil\u0085evil",
    "is not Latin": "é 微克 µg/m³ 💨",
    "is a path": "../../evil",
}
COMMENTS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL)
HASHES = re.compile(r'"(?:\\.|[^"\\\n])*"|#[^\n]*')
FENCE = re.compile(r"^```.*?^```$", re.DOTALL | re.MULTILINE)
WRITTEN = (
    "c",
    "arduino",
    "platformio",
    "espidf",
    "zephyr",
    "esphome",
    "rust",
    "blob",
    "micropython",
)  # others are binary and one JSON
PLAIN = "plain"


def named(text: str) -> Calibrator:
    """A calibrator in which everything that has a name is called so."""
    calibrator = make_calibrator(newest_plan(4))
    first, second = calibrator.inputs.channels
    scaling = calibrator.inputs.scaling
    devices = {text: scaling.devices["box-1"]}
    return replace(
        calibrator,
        inputs=replace(
            calibrator.inputs,
            channels=(replace(first, name=text, unit=text), second),
            scaling=Scaling(scaling.method, scaling.fleet, scaling.target, devices, 0),
            policy=replace(calibrator.inputs.policy, name=text),
        ),
        target=Channel(text, text, 0.0),
        facts={"model": text, "preset": text, "summary": text, "data": {text: text}, "note": text},
    )


@cache
def files_of(target: str, text: str) -> dict[str, str]:
    """The texts that a target makes."""
    files = TARGETS[target].make(compile_calibrator(named(text), "float32", text)).files
    return {path: content for path, content in files.items() if isinstance(content, str)}


def code_of_c(text: str) -> str:
    """Without comments, and without the words of a blob, their number and the checksum of its channels."""
    return " ".join(re.sub(r"0x[0-9a-f]{8}[,u]?|_content\[\d+\]", "", COMMENTS.sub("", text)).split())


def code_of_python(text: str) -> str:
    """What it does, without its texts."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def shape_of(value: Any) -> Any:
    """Tables and lists, without what is written in them."""
    if isinstance(value, dict):
        return [shape_of(one) for one in value.values()]
    return [shape_of(one) for one in value] if isinstance(value, list) else type(value).__name__


def code_of_markdown(text: str) -> list[str]:
    """Its blocks of code, and tags."""
    return [*map(_block, FENCE.findall(text)), *re.findall(r"<[a-zA-Z/!][^>\n]*>", FENCE.sub("", text))]


def _block(text: str) -> Any:
    """A block of YAML has names that are made of the channels'."""
    return shape_of(yaml.safe_load(text[7:-3])) if text.startswith("```yaml") else text


READ: dict[str, Callable[[str], Any]] = {
    **dict.fromkeys((".c", ".h", ".hpp", ".cpp", ".ino", ".rs", ".js"), code_of_c),
    ".py": code_of_python,
    ".toml": lambda text: shape_of(tomllib.loads(text)),
    ".json": lambda text: shape_of(json.loads(text)),
    **dict.fromkeys((".yaml", ".yml"), lambda text: shape_of(yaml.safe_load(text.replace("!lambda", "")))),
    "": lambda text: (HASHES.sub("", text.partition("help")[0]), text.count("\n")),  # Kconfig
    **dict.fromkeys(
        (".txt", ".conf", ".csv", ".ini", ".defaults"), lambda text: " ".join(HASHES.sub("", text).split())
    ),
    ".properties": lambda text: [line.partition("=")[0] for line in text.splitlines()],
    ".md": code_of_markdown,
}


@pytest.mark.parametrize("what", HOSTILE)
@pytest.mark.parametrize("target", WRITTEN)
def test_no_target_takes_a_name_for_code(target: str, what: str) -> None:
    plain, hostile = files_of(target, PLAIN), files_of(target, HOSTILE[what])
    assert plain.keys() == hostile.keys()
    for path, content in hostile.items():
        read = READ[Path(path).suffix]
        assert read(content) == read(plain[path]), path


@pytest.mark.parametrize("target", ["tflite", "onnx"])
def test_neither_do_pages_of_other_formats(target: str) -> None:
    every = " ".join(HOSTILE.values())
    compiled = compile_calibrator(named(every), "float32", every)
    facts = describe_inputs(compiled, target)
    page = fill_templates(target, readme_fields("model", facts, 1, "none"))["README.md"]
    plain = describe_inputs(compile_calibrator(named(PLAIN), "float32", PLAIN), target)
    assert code_of_markdown(page) == code_of_markdown(
        fill_templates(target, readme_fields("model", plain, 1, "none"))["README.md"]
    )


def test_a_report_takes_none_for_a_tag(tmp_path: Path) -> None:
    every = list(HOSTILE.values())
    model = {"model": every[0], "preset": "\n".join(every), "window": 60, "step_seconds": 60.0}
    target = {"name": " ".join(every), "unit": every[-1]}
    html = write(tmp_path / "hostile", series(3, 1.0, every[:3]), model=model, target=target)
    plain = write(tmp_path / "plain", series(3, 1.0), model={**model, "model": "a", "preset": "b"})
    assert set(Page(html).tags) <= set(Page(plain).tags)
    assert Page(html).tags.count("script") == Page(plain).tags.count("script")
    assert not re.search("<script>evil|<img", html)


def test_a_fact_of_a_file_cannot_write_on_a_terminal(tmp_path: Path) -> None:
    path = make_calibrator().with_facts(note="\x1b[2J\x07evil").save(tmp_path / "a.scare")
    with pytest.raises(DataError, match="control characters"):
        Calibrator.load(path)
