"""A reverse proxy that serves a gateway below a path, as Home Assistant's ingress does."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


@contextmanager
def below(prefix: str, port: int) -> Iterator[str]:
    """The address under which the server at `port` is seen below `prefix`."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.pass_on()

        def do_PUT(self) -> None:
            self.pass_on()

        def pass_on(self) -> None:
            if not self.path.startswith(f"{prefix}/"):  # an absolute address of the page leads here
                self.send_error(404)
                return
            inner = HTTPConnection("127.0.0.1", port, timeout=30)
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            headers = {"host": f"127.0.0.1:{port}", "x-forwarded-host": self.headers["host"]}
            headers |= {"origin": self.headers["origin"]} if "origin" in self.headers else {}
            inner.request(self.command, self.path.removeprefix(prefix), body, headers)
            answer = inner.getresponse()
            self.send_response(answer.status)
            for name in ("content-type", "content-security-policy", "cache-control"):
                if value := answer.getheader(name):
                    self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # the page has gone
                while part := answer.read1(65536):
                    self.wfile.write(part)
                    self.wfile.flush()
            inner.close()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}{prefix}/"
    finally:
        server.shutdown()
        server.server_close()
