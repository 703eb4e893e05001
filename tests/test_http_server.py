"""The server of `live` and `web` stops quietly."""

import gc
import logging
import warnings
from collections.abc import Iterator
from itertools import repeat
from socket import create_connection
from time import sleep

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route

from scare.http_server import ThreadedServer
from tests.needs import needs

pytestmark = needs("web")


def test_a_client_that_no_longer_reads_is_cut_off_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def endless(request: Request) -> StreamingResponse:
        chunks: Iterator[bytes] = repeat(bytes(1 << 20))
        return StreamingResponse(chunks)

    server = ThreadedServer(Starlette(routes=[Route("/", endless)]), "127.0.0.1", 0)
    server.start()
    with create_connection(("127.0.0.1", server.port)) as client:
        client.sendall(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert client.recv(100).startswith(b"HTTP/1.1 200")
        sleep(0.5)  # the buffers between the two fill, and the server waits
        with caplog.at_level(logging.ERROR):
            server.stop()
    assert caplog.records == []
    assert not logging.getLogger("uvicorn.error").filters
    with warnings.catch_warnings():  # the connection that was cut off ends with the process
        warnings.simplefilter("ignore", ResourceWarning)
        del server
        gc.collect()
