"""The benchmark of the hash's kernel counts bits and codes as its first lines say."""

import numpy as np

from benchmarks.raw_hash import measure
from scare.calibrator.plan import values
from scare.experiments.untrained import draw_method


def test_what_is_measured_is_what_is_said() -> None:
    calibrator = draw_method("scare-paper", 8).with_facts(validation_rmse=2.5)
    found = measure(calibrator)
    plan, windows = calibrator.plan, calibrator.validation.windows
    codes = values(plan, windows, {"query_codes", "key_codes"})
    assert found["codes"] == np.mean([len(set(row.tolist())) for name in codes for row in codes[name]])
    words = np.concatenate([codes[name].ravel() for name in codes])
    shares = [np.mean(words >> bit & 1) for bit in range(16)]
    np.testing.assert_allclose(found["bias"], np.mean([abs(2 * share - 1) for share in shares]))
    assert found["validation RMSE"] == 2.5
