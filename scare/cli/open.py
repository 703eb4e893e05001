"""`scare open`: the way from files to firmware in a browser, on this computer."""

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from scare.cli.console import emit, note
from scare.cli.options import Json
from scare.extras import require


def open_page(
    folder: Annotated[
        Path | None, typer.Argument(help="Where sessions are kept.", show_default="scare in your home folder")
    ] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Where the page is; 0 takes any free one.")] = 0,
    quota: Annotated[float, typer.Option("--quota", min=0.001, help="GB that all sessions may take.")] = 50.0,
    memory: Annotated[
        float | None,
        typer.Option("--memory", min=0.1, help="GB that one step may take.", show_default="3/4 of this computer's"),
    ] = None,
    is_opened: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    as_json: Json = False,
) -> None:
    """Open a page on this computer that leads from sensor files to firmware; until Ctrl-C.

    Examples:
      scare open
      scare open my-sessions --no-open
    """
    require("web")
    from scare.web.server import Server

    server = Server(folder or Path.home() / "scare", port, quota * 1e9, int(memory * 1e9) if memory else None)
    server.start()
    try:
        _show(server.link(), is_opened, as_json)
        for _ in sys.stdin if sys.stdin.isatty() else ():  # every Enter is a new link: each works once
            _show(server.link(), is_opened, as_json=False)
        server.wait()
    except KeyboardInterrupt:
        note("ended; sessions are kept")
    finally:
        server.stop()


def _show(link: str, is_opened: bool, as_json: bool) -> None:
    if as_json:
        emit({"page": link})
    if is_opened:
        webbrowser.open(link)
    note(f"the page is at {link}\nthis link works once; Enter gives another, Ctrl-C ends")
