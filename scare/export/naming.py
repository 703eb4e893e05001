"""What a model may be called in C, in Python and as a file; and text in letters that every build system reads."""

import re
import sys
from html import escape
from keyword import iskeyword
from unicodedata import normalize

from scare.errors import UsageError
from scare.export.c_source import RESERVED

LONGEST_NAME = 31  # what every C compiler tells apart
EXAMPLES = """
begin begun_ms calibrate calibrated calibration delay golden loop millis now_ms number reading row setup status sums
"""
HEADERS = """
assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal stdalign stdarg stdatomic stdbool
stddef stdint stdio stdlib stdnoreturn string tgmath threads time uchar unistd wchar wctype
"""
TAKEN = {*RESERVED, *EXAMPLES.split(), *HEADERS.split()}  # by C, by us, by the examples we write, by C's own headers
ON_BOARDS = {"boot", "esp", "esp32", "framebuf", "machine", "main", "micropython", "network", "rp2", "uasyncio"}


def check_c_name(name: str) -> None:
    """Refuse what cannot name a model in C."""
    if not _is_short_word(name) or name in TAKEN or name.startswith("scare") or name[-2:] == "_t":
        raise UsageError(
            f"'{name}' cannot name a model in C: take up to {LONGEST_NAME} small letters, digits and _, no word of C or"
            " of our examples, no header of C, and no name that begins with scare or ends in _t"
        )


def check_module_name(name: str) -> None:
    """Refuse what cannot name a module of Python."""
    taken = iskeyword(name) or name in sys.stdlib_module_names | ON_BOARDS
    if not _is_short_word(name) or taken or name.startswith("scare"):
        raise UsageError(
            f"'{name}' cannot name a module: take up to {LONGEST_NAME} small letters, digits and _, no word of Python,"
            " no module of Python or MicroPython, and no name that begins with scare"
        )


def check_file_name(name: str) -> None:
    """Refuse what cannot name a file everywhere."""
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]*", name):
        raise UsageError(f"'{name}' cannot name a file: take letters, digits, _ and -")


def plain(text: str) -> str:
    """The text in letters that every build system reads, without those that end a string or a comment.

    >>> plain('PM₂.₅ "raw" [µg/m³] */')
    'PM2.5 raw [ug/m3] /'
    """
    spelled = normalize("NFKC", " ".join(text.split())).replace("μ", "u").replace("°", "deg ")
    return " ".join(re.sub(r"[^\w .,:;/%()\[\]+-]", "", normalize("NFKD", spelled), flags=re.ASCII).split())


def markdown(text: str) -> str:
    """The text as part of a line of Markdown, in which nothing of it is a tag, code, a block or a cell.

    >>> markdown("PM2.5 <b>`raw`</b> | [µg/m³]")
    'PM2.5 &lt;b&gt;&#96;raw&#96;&lt;/b&gt; &#124; [µg/m³]'
    """
    escaped = escape(" ".join(text.split()), quote=False)
    return escaped.replace("`", "&#96;").replace("|", "&#124;").replace("$(", "&#36;(")


def _is_short_word(name: str) -> bool:
    return re.fullmatch(r"[a-z][a-z0-9_]*", name) is not None and len(name) <= LONGEST_NAME
