"""The Rust crate: it compiles without another crate, computes what Python does, and tells damage and misuse."""

import shutil
import subprocess
from pathlib import Path

import pytest

from scare.calibrator.calibrator import Calibrator
from scare.export.c_package import statuses
from scare.export.package import export_calibrator
from scare.export.target import TEMPLATES
from tests.calibrator.building import attention_plan, curve_plan, make_calibrator, with_edges
from tests.export.printed import cells, compare, correction

LONGEST = 200  # lines of the wrapper, with its build
CARGO = shutil.which("cargo")
compiled = pytest.mark.skipif(not CARGO or not shutil.which("cc"), reason="cargo and gcc (Debian) would run it")
TEST = """
use scare_no2::{flags, Calibration, Memory, Status, CHANNELS, STEP_MS, STORE_BYTES, STORE_ROUNDED_BYTES};

fn reading(number: u32) -> [f32; CHANNELS] {
    core::array::from_fn(|channel| [20.0, 290.0][channel] + (number * 7 % 11) as f32)
}

/// A calibration may move: it points into the memory only.
fn moved(mut one: Calibration) -> Calibration {
    for number in 0..40 {
        let _ = one.calibrate(number * STEP_MS, &reading(number));
    }
    one
}

#[test]
fn it_goes_on_from_a_blob() {
    let (mut memory, mut other) = (Memory::new(), Memory::new());
    let mut first = moved(Calibration::new(&mut memory).unwrap());
    let mut second = Calibration::new(&mut other).unwrap();
    let mut blob = [0; STORE_BYTES];
    first.store(39 * STEP_MS as u64, &mut blob).unwrap();
    second.restore(40 * STEP_MS as u64, &blob).unwrap();
    for number in 40..60 {
        let answer = first.calibrate(number * STEP_MS, &reading(number));
        assert!(answer.is_ok());
        assert_eq!(answer, second.calibrate(number * STEP_MS, &reading(number)));
    }
    let mut rounded = [0; STORE_ROUNDED_BYTES];
    first.store(59 * STEP_MS as u64, &mut rounded).unwrap();
    second.restore(60 * STEP_MS as u64, &rounded).unwrap();
    assert!(second.calibrate(60 * STEP_MS, &reading(60)).is_ok());
}

#[test]
fn what_is_wrong_is_refused() {
    let mut memory = Memory::new();
    let mut one = Calibration::new(&mut memory).unwrap();
    let mut blob = [0; STORE_BYTES];
    one.store(0, &mut blob).unwrap();
    blob[20] ^= 1;
    assert_eq!(one.restore(0, &blob), Err(Status::DAMAGED));
    assert_eq!(one.restore(0, &[]), Err(Status::DAMAGED));
    assert_eq!(one.store(0, &mut [0; 8]), Err(Status::MEMORY));
    let none = one.calibrate(0, &[f32::NAN; CHANNELS]).unwrap_err();
    assert_eq!((none.status, none.flags), (Status::MISSING, flags::MISSING));
    assert_eq!(format!("{:?}", none.status), "a number of the reading is missing (2)");
    assert_eq!(one.calibrate(STEP_MS, &[-5.0; CHANNELS]).unwrap_err().status, Status::RANGE);
    one.reset();
    assert_eq!(one.calibrate(STEP_MS, &reading(1)).unwrap_err().status, Status::HISTORY);
}

#[test]
fn it_may_go_to_another_thread() {
    static MEMORY: std::sync::Mutex<Memory> = std::sync::Mutex::new(Memory::new());
    let thread = std::thread::spawn(|| {
        let mut memory = MEMORY.lock().unwrap();
        let mut one = Calibration::new(&mut memory).unwrap();
        (0..40).filter(|number| one.calibrate(number * STEP_MS, &reading(*number)).is_ok()).count()
    });
    assert!(thread.join().unwrap() > 20);
}
"""


def cargo(folder: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    command = [str(CARGO), *words, "--offline"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@compiled
@pytest.mark.slow
@pytest.mark.parametrize(
    ("calibrator", "arithmetic", "share"),
    [
        (make_calibrator(attention_plan()), "float32", 2e-5),
        (make_calibrator(curve_plan(12)), "fixed", 0.02),
        (make_calibrator(settle=30), "float32", 2e-5),
        (correction("barkjohn-2021"), "float32", 2e-5),
    ],
    ids=["network", "fixed", "new", "correction"],
)
def test_the_example(calibrator: Calibrator, arithmetic: str, share: float, tmp_path: Path) -> None:
    crate = export_calibrator(calibrator, "rust", arithmetic, tmp_path / "out", name="no2").folder
    done = cargo(crate, "run", "--example", "calibrate")
    assert "warning" not in done.stderr
    rows = cells(done.stdout)[1:]
    assert len(rows) == calibrator.window + 60
    assert compare(calibrator, rows, share) >= 50


@compiled
@pytest.mark.slow
def test_it_is_safe_to_use(tmp_path: Path) -> None:
    calibrator = with_edges(make_calibrator(curve_plan(12)))
    crate = export_calibrator(calibrator, "rust", "fixed", tmp_path / "out", "box-1", name="no2").folder
    (crate / "tests").mkdir()
    (crate / "tests" / "use.rs").write_text(TEST)
    assert "3 passed" in cargo(crate, "test").stdout
    if shutil.which("cargo-clippy"):
        assert "warning" not in cargo(crate, "clippy", "--all-targets").stderr


def test_statuses_and_flags_are_those_of_c(tmp_path: Path) -> None:
    crate = export_calibrator(make_calibrator(), "rust", "float32", tmp_path / "out").folder
    text = (crate / "src" / "lib.rs").read_text("utf-8")
    assert "pub const WRONG: Status = Status(10);" in text
    assert "pub const NOT_FINITE: u32 = 1 << 14;" in text
    assert text.count(": Status = ") == len(statuses()) - 1
    assert "#![no_std]" in text


def test_it_is_short() -> None:
    files = [TEMPLATES / "rust" / "src" / "lib.rs", TEMPLATES / "rust" / "build.rs"]
    assert sum(len(file.read_text("utf-8").splitlines()) for file in files) < LONGEST
