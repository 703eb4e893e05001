"""Streams calibrate the rows of many devices as they come in one table, each device by a stream of its own."""

from collections.abc import Callable, Mapping

import numpy as np
import polars as pl

from scare.calibrator.calibrator import Calibrator, Stream
from scare.data.readings import DEVICE, TIME

ROW = " row"  # no name in a header begins with a space


class Streams:
    """A stream for each device of a table that comes in chunks; chunks of any size give what the whole would."""

    def __init__(self, calibrator: Calibrator, on_new_device: Callable[[str], object] = lambda device: None) -> None:
        self._calibrator, self._on_new_device = calibrator, on_new_device
        self._streams: dict[str, Stream] = {}

    def push(self, chunk: pl.DataFrame) -> pl.DataFrame:
        """The rows of a chunk (`device`, `time`, the channels …), in their order, with what they become."""
        numbered = chunk.with_row_index(ROW)
        parts = [self._push_device(part) for part in numbered.partition_by(DEVICE, maintain_order=True)]
        return pl.concat(parts).sort(ROW).drop(ROW)

    def state(self) -> dict[str, dict[str, np.ndarray]]:
        """What the stream of each device remembers."""
        return {device: stream.state() for device, stream in self._streams.items()}

    def restore(self, state: Mapping[str, Mapping[str, np.ndarray]]) -> None:
        """Go on with these devices where other streams were."""
        self._streams = {device: self._calibrator.stream(device) for device in state}
        for device, stream in self._streams.items():
            stream.restore(state[device])

    def _push_device(self, rows: pl.DataFrame) -> pl.DataFrame:
        device = rows[DEVICE][0]
        if device not in self._streams:
            self._streams[device] = self._calibrator.stream(device)
            self._on_new_device(device)
        names = [channel.name for channel in self._calibrator.inputs.channels]
        values = rows.select(pl.col(names).fill_null(np.nan)).to_numpy()
        answers = self._streams[device].push(rows[TIME].dt.epoch("us").to_numpy() / 1e6, values)
        return rows.with_columns(answers.columns())
