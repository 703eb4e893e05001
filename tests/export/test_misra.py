"""What cppcheck's add-on finds against MISRA C:2012 is on its page, with a reason; no mandatory rule is among it."""

import re
import shlex
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from scare.export.lowering import Arithmetic
from scare.export.package import export_calibrator
from tests.calibrator.building import make_calibrator, tree_plan, with_edges
from tests.export.building import RUNTIME
from tests.fuzz.pushes import network_plan

PAGE = (Path(__file__).parents[2] / "docs" / "misra.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| (\d+)\.(\d+) \| (\w+) \| (\d+) \| .+ \| .+ \|$", PAGE, re.MULTILINE)
LISTED = {f"{group}.{rule}": int(places) for group, rule, _, places in ROWS}
MANDATORY = {"9.1", "12.5", "13.6", "17.3", "17.4", "17.6", "19.1", "22.2", "22.4", "22.5", "22.6"} | {
    f"21.{rule}" for rule in (13, 17, 18, 19, 20)
}
PLANS = {"network": network_plan(), "trees": tree_plan()}


def test_the_page_has_each_rule_once_in_order_and_none_is_mandatory() -> None:
    order = [(int(group), int(rule)) for group, rule, _, _ in ROWS]
    assert len(order) > 20
    assert order == sorted(set(order))
    assert {category for _, _, category, _ in ROWS} == {"required", "advisory"}
    assert not MANDATORY & set(LISTED)


@pytest.mark.slow
def test_no_deviation_is_new(tmp_path: Path) -> None:
    if shutil.which("cppcheck") is None:
        pytest.skip("cppcheck (Debian) would look for deviations from MISRA C:2012")
    shutil.copytree(RUNTIME, tmp_path / "src")
    for arithmetic in Arithmetic:
        for plan_name, plan in PLANS.items():
            name = f"{plan_name}_{arithmetic}"
            folder = export_calibrator(
                with_edges(make_calibrator(plan)), "c", arithmetic, tmp_path / f"{name}_export", "box-1", name
            ).folder
            for suffix in "ch":
                shutil.move(folder / f"{name}.{suffix}", tmp_path)
    (line,) = re.findall(r"^\$ (cppcheck .*) model\.c ", PAGE, re.MULTILINE)
    sources = [*tmp_path.glob("*.c"), *tmp_path.glob("src/*.c"), *tmp_path.glob("src/kernels/*.c")]
    command = [*shlex.split(line), "--quiet", "--template={file}:{line} {id}"]
    command += [str(path.relative_to(tmp_path)) for path in sorted(sources)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=1_200, check=True)
    assert "preprocessorErrorDirective" not in done.stderr
    places = re.findall(r"^(\S+) misra-c2012-(\d+\.\d+)$", done.stderr, re.MULTILINE)
    assert not [f"{rule} at {place}" for place, rule in places if rule not in LISTED]
    version = subprocess.run(["cppcheck", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if version in PAGE:  # another version counts otherwise
        found = Counter(rule for _, rule in places)
        assert {rule: count for rule, count in found.items() if count > LISTED[rule]} == {}
        assert set(found) == set(LISTED)
