"""Predictions of methods from other packages on the rows of a suite: LightGBM, CatBoost, a Gaussian process, FLAML.

    python -m venv outside && outside/bin/pip install polars scikit-learn lightgbm catboost flaml
    scare suite run --files DATA --methods raw --out DIR
    outside/bin/python benchmarks/outside_methods.py DIR [--methods lightgbm,catboost] [--minutes 40]
    scare suite run --files DATA --methods DIR/outside/lightgbm.csv,DIR/outside/catboost.csv --out DIR

An environment of its own, and nothing of `scare`: this reads DIR/tasks/*/task.json and the Parquet files beside it, as
any other program can, and writes one CSV a method. A row's features are the newest readings, their means over an eighth
and over the whole of the window's duration, and its device. What has to be chosen is chosen on validation; then the
method is fitted to training and validation together. One thread; each task is kept, so a run resumes.
"""

import argparse
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

ROUNDS, PATIENCE, RATE = 2000, 100, 0.05  # of boosting: at most, without a gain on validation, learning rate
INDUCING = 400  # rows that the Gaussian process is fitted to, evenly spread
SECONDS = 10  # search of FLAML on a task
LEVEL_90 = 1.645  # standard deviations on either side of a normal 90 % interval
LEARNED = ("train", "validation")


@dataclass(frozen=True)
class Part:
    """Features [rows, features], the device as the last one; references [rows]; `keys`, device and time of each row."""

    features: np.ndarray
    targets: np.ndarray
    keys: pl.DataFrame

    def __add__(self, other: "Part") -> "Part":
        return Part(
            np.concatenate([self.features, other.features]),
            np.concatenate([self.targets, other.targets]),
            pl.concat([self.keys, other.keys]),
        )


Method = Callable[[Part, Part, Part], dict[str, np.ndarray]]  # training, validation, test: value, perhaps low and high


def read_parts(folder: Path, task: Mapping[str, Any]) -> dict[str, Part]:
    """Read the three parts of a task: rows with a reference and a newest reading of the first channel."""
    learned = sorted({one["device"] for part in LEARNED for one in task["readings"][part]})
    parts = {}
    for part, boxes in task["readings"].items():
        frames = []
        for number, box in enumerate(boxes):
            frame = pl.read_parquet(folder / "data" / f"{part}-{number}.parquet").sort("time")
            step = frame["time"].diff().median().total_seconds()
            channels = [channel["name"] for channel in box["channels"]]
            window = task["facts"]["suite"]["window"] * step
            means = [
                pl.col(name)
                .fill_nan(None)
                .rolling_mean_by("time", f"{round(1e6 * window * share)}us")
                .alias(f"{name}, {share}")
                for share in (1 / 8, 1)
                for name in channels
            ]
            code = learned.index(box["device"]) if box["device"] in learned else -1
            rows = frame.with_columns(pl.col("reference", *channels).fill_nan(None)).with_columns(*means)
            rows = rows.with_columns(device=pl.lit(box["device"]), code=pl.lit(float(code)))
            frames.append(rows.drop_nulls(["reference", channels[0]]).drop("flags", strict=False))
        rows = pl.concat(frames)
        features = rows.drop("time", "reference", "device").cast(pl.Float64).fill_null(np.nan).to_numpy()
        parts[part] = Part(features, rows["reference"].to_numpy(), rows.select("device", "time"))
    return parts


def lightgbm(train: Part, validation: Part, test: Part) -> dict[str, np.ndarray]:
    """Boosted trees by LightGBM, rounds chosen on validation; the interval from two quantile regressions."""
    import lightgbm as gbm

    both = train + validation

    def fitted(**objective: Any) -> np.ndarray:
        settings = {"learning_rate": RATE, "num_threads": 1, "verbose": -1, "seed": 0, **objective}
        category = [train.features.shape[1] - 1]
        learn, judge, everything = (
            gbm.Dataset(part.features, part.targets, categorical_feature=category, free_raw_data=False)
            for part in (train, validation, both)
        )
        stop = gbm.early_stopping(PATIENCE, verbose=False)
        rounds = gbm.train(settings, learn, ROUNDS, valid_sets=[judge], callbacks=[stop]).best_iteration
        return np.asarray(gbm.train(settings, everything, rounds).predict(test.features))

    low, high = (fitted(objective="quantile", alpha=share) for share in (0.05, 0.95))
    return {"value": fitted(objective="regression"), "low": np.minimum(low, high), "high": np.maximum(low, high)}


def catboost(train: Part, validation: Part, test: Part) -> dict[str, np.ndarray]:
    """Boosted trees by CatBoost, rounds chosen on validation."""
    from catboost import CatBoostRegressor

    shared = {
        "learning_rate": RATE,
        "thread_count": 1,
        "random_seed": 0,
        "verbose": False,
        "allow_writing_files": False,
    }
    first = CatBoostRegressor(iterations=ROUNDS, early_stopping_rounds=PATIENCE, **shared)
    first.fit(train.features, train.targets, eval_set=(validation.features, validation.targets))
    both, rounds = train + validation, first.get_best_iteration() + 1
    second = CatBoostRegressor(iterations=rounds, **shared).fit(both.features, both.targets)
    return {"value": np.asarray(second.predict(test.features))}


def gaussian_process(train: Part, validation: Part, test: Part) -> dict[str, np.ndarray]:
    """A Gaussian process with a length scale a feature and noise, on evenly spread rows; nothing is chosen."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    both = train + validation
    chosen = np.unique(np.linspace(0, len(both.targets) - 1, INDUCING).astype(int))
    mean = np.nanmean(both.features, axis=0)
    centre, spread = np.nan_to_num(mean), np.nanstd(both.features, axis=0)
    spread = np.where(spread > 0, spread, 1.0)

    def scaled(features: np.ndarray) -> np.ndarray:
        return np.nan_to_num((features - centre) / spread)

    kernel = ConstantKernel(1.0) * RBF(np.full(both.features.shape[1], 3.0), (0.05, 1e4)) + WhiteKernel(0.1)
    process = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    process.fit(scaled(both.features[chosen]), both.targets[chosen])
    pieces = [process.predict(scaled(part), return_std=True) for part in np.array_split(test.features, 20) if len(part)]
    value, deviation = (np.concatenate(one) for one in zip(*pieces, strict=True))
    return {"value": value, "low": value - LEVEL_90 * deviation, "high": value + LEVEL_90 * deviation}


def flaml(train: Part, validation: Part, test: Part) -> dict[str, np.ndarray]:
    """FLAML's search over LightGBM, CatBoost and forests on validation, then its best fitted again to both."""
    from flaml import AutoML

    search = AutoML(task="regression", metric="rmse", time_budget=SECONDS, n_jobs=1, seed=0, verbose=0)
    among = {"estimator_list": ["lgbm", "catboost", "rf", "extra_tree"], "eval_method": "holdout", "retrain_full": True}
    search.fit(train.features, train.targets, X_val=validation.features, y_val=validation.targets, **among)
    return {"value": np.asarray(search.predict(test.features))}


METHODS: dict[str, Method] = {
    "lightgbm": lightgbm,
    "catboost": catboost,
    "gaussian-process": gaussian_process,
    "flaml": flaml,
}


def main() -> None:
    """Predict the tasks that are missing, as long as there is time, and write one CSV for each method."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suite", type=Path, help="folder of `scare suite run --out`")
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--minutes", type=float, default=40.0, help="of processor time; what is left over waits")
    options = parser.parse_args()
    out, names = options.suite / "outside", options.methods.split(",")
    for path in sorted(options.suite.glob("tasks/*/task.json")):
        task = json.loads(path.read_text(encoding="utf-8"))
        missing = [name for name in names if not (out / name / f"{path.parent.name}.csv").exists()]
        parts = read_parts(path.parent, task) if missing else {}
        for name in missing:
            if time.process_time() > 60 * options.minutes:
                continue
            begun = time.process_time()
            found = METHODS[name](parts["train"], parts["validation"], parts["test"])
            rows = parts["test"].keys.select(pl.lit(task["facts"]["suite"]["task"]).alias("task"), "device", "time")
            file = out / name / f"{path.parent.name}.csv"
            file.parent.mkdir(parents=True, exist_ok=True)
            part = file.with_suffix(".part")
            rows.with_columns(**{key: pl.Series(values) for key, values in found.items()}).write_csv(part)
            part.rename(file)
            print(f"{name} {path.parent.name}: {time.process_time() - begun:.1f} s", flush=True)
    for name in names:
        if files := sorted((out / name).glob("*.csv")):
            pl.concat([pl.read_csv(file, schema_overrides={"device": pl.String}) for file in files]).write_csv(
                out / f"{name}.csv"
            )


if __name__ == "__main__":
    main()
