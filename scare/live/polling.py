"""Polling: readings of devices that do not send, such as PurpleAir and AirGradient on the local network (JSON)."""

from http.client import HTTPException
from threading import Event, Thread
from time import time
from urllib.request import urlopen

from scare.live.config import Input
from scare.live.messages import MAX_PAYLOAD, Reader, RejectedError
from scare.live.pipeline import Delivery, Monitor, Pipeline

TIMEOUT_SECONDS = 5.0


class Poller:
    """Polls the addresses of one input, one after the other, in a thread."""

    def __init__(self, settings: Input, reader: Reader, pipeline: Pipeline, monitor: Monitor) -> None:
        self._settings, self._reader, self._pipeline, self._monitor = settings, reader, pipeline, monitor
        self._stopping = Event()
        self._thread = Thread(target=self._work, name=f"polling {settings.adapter}", daemon=True)

    def start(self) -> None:
        """Start polling."""
        self._thread.start()

    def stop(self) -> None:
        """Stop polling soon."""
        self._stopping.set()

    def close(self) -> None:
        """Stop, and wait for the last answer."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(2 * TIMEOUT_SECONDS)

    def _work(self) -> None:
        wait = 0.0
        while not self._stopping.wait(wait):
            begun = time()
            for address in self._settings.addresses:
                self._poll(address)
            wait = max(0.0, self._settings.every_seconds - (time() - begun))

    def _poll(self, address: str) -> None:
        """Submit a reading of a device; if the queue is full it is dropped, and the next poll brings another."""
        self._monitor.count("received")
        try:
            with urlopen(address, timeout=TIMEOUT_SECONDS) as answer:  # http or https: checked in `config`
                payload = answer.read(MAX_PAYLOAD + 1)
            reading = self._reader.read(payload, "", time())
            if reading is None or not self._pipeline.submit(Delivery((reading,)), TIMEOUT_SECONDS):
                raise RejectedError("the queue is full")
        except RejectedError as rejected:
            self._monitor.reject(address, str(rejected))
        except (OSError, HTTPException, ValueError) as error:
            self._monitor.reject(address, f"no answer: {getattr(error, 'reason', error)}")
