"""`scare open`: go from files to firmware in a browser, on this computer."""

import sys
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from scare.cli.console import emit, note
from scare.cli.options import Json


def open_page(
    folder: Annotated[Path | None, typer.Argument(help="Folder of the sessions.", show_default="~/scare")] = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the page; 0 for any free one.")] = 0,
    quota: Annotated[float, typer.Option("--quota", min=0.001, help="GB of disk for all sessions.")] = 50.0,
    memory: Annotated[
        float | None,
        typer.Option("--memory", min=0.1, help="GB of memory for one step.", show_default="3/4 of this computer's"),
    ] = None,
    is_opened: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in a browser.")] = True,
    as_json: Json = False,
) -> None:
    """Open a page on this computer that leads from sensor files to firmware; Ctrl-C stops it.

    Examples:
      scare open
      scare open my-sessions --no-open
    """
    from scare.web.server import Server

    server = Server(folder or Path.home() / "scare", port, quota * 1e9, int(memory * 1e9) if memory else None)
    server.start()
    try:
        _show(server.link(), is_opened, as_json)
        if sys.stdin.isatty():
            for _ in sys.stdin:  # every Enter gives a new link, since each works once
                _show(server.link(), is_opened, as_json=False)
        server.wait()
    except KeyboardInterrupt:
        note("Stopped. Sessions are kept.")
    finally:
        server.stop()


def _show(link: str, is_opened: bool, as_json: bool) -> None:
    """Print a link to the page, and open it in a browser if `is_opened`."""
    if as_json:
        emit({"page": link})
    if is_opened:
        webbrowser.open(link)
    note(f"The page is at {link}\nThis link works once. Press Enter for another one, Ctrl-C to stop.")
