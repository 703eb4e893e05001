"""Readings of devices that have to be asked: PurpleAir and AirGradient answer with JSON on the local network."""

from http.client import HTTPException
from threading import Event, Thread
from time import time
from urllib.request import urlopen

from scare.live.config import Input
from scare.live.messages import LARGEST_PAYLOAD, RejectedError
from scare.live.pipeline import Arrival, Monitor, Pipeline
from scare.live.reader import Reader

PATIENCE_SECONDS = 5.0


class Polling:
    """Asks the addresses of one input, one after the other, in a thread."""

    def __init__(self, wanted: Input, reader: Reader, pipeline: Pipeline, monitor: Monitor) -> None:
        self._wanted, self._reader, self._pipeline, self._monitor = wanted, reader, pipeline, monitor
        self._stopping = Event()
        self._thread = Thread(target=self._work, name=f"polling {wanted.adapter}", daemon=True)

    def start(self) -> None:
        """Ask from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Ask no more."""
        self._stopping.set()

    def close(self) -> None:
        """Wait until the last answer."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(2 * PATIENCE_SECONDS)

    def _work(self) -> None:
        wait = 0.0
        while not self._stopping.wait(wait):
            begun = time()
            for address in self._wanted.addresses:
                self._ask(address)
            wait = max(0.0, self._wanted.every_seconds - (time() - begun))

    def _ask(self, address: str) -> None:
        """Hand over the reading of an answer; one that there is no room for is asked for again at its next time."""
        self._monitor.count("received")
        try:
            with urlopen(address, timeout=PATIENCE_SECONDS) as answer:  # http or https: `config` has looked
                payload = answer.read(LARGEST_PAYLOAD + 1)
            reading = self._reader.read(payload, "", time())
            if reading is None or not self._pipeline.submit(Arrival((reading,)), PATIENCE_SECONDS):
                raise RejectedError("more readings wait than can be worked on")
        except RejectedError as refused:
            self._monitor.refuse(address, str(refused))
        except (OSError, HTTPException, ValueError) as error:
            self._monitor.refuse(address, f"no answer: {getattr(error, 'reason', error)}")
