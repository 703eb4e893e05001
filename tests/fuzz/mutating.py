"""Changes that any content may suffer: bytes changed, left out, doubled, cut off, or something nasty put between."""

from collections.abc import Sequence
from random import Random

PIECES = (
    *(
        b"\0",
        b"\xff\xff\xff\x7f",
        b"\xff" * 8,
        b"\xef\xbb\xbf",
        b"\xed\xa0\x80",
        b'"',
        b"'",
        b"\n",
        b"\r\n",
        b";",
        b",",
    ),
    *(b"NaN", b"1e999", b"-0", b"9" * 300, b"null", b"[" * 200, b"{" * 200, b"%s%n", b"../../etc/passwd", b"=1+1"),
)


def mutate(content: bytes, chance: Random, pieces: Sequence[bytes] = PIECES) -> bytes:
    """The content after one to six changes."""
    found = bytearray(content)
    for _ in range(chance.randint(1, 6)):
        at = chance.randrange(len(found) + 1)
        match chance.randrange(6):
            case 0 if at < len(found):
                found[at] = chance.randrange(256)
            case 1 if at < len(found):
                found[at] ^= 1 << chance.randrange(8)
            case 2:
                del found[at : at + chance.randint(1, 20)]
            case 3:
                found[at:at] = found[at : at + chance.randint(1, 40)]
            case 4 if chance.random() < 0.1:
                del found[at:]
            case _:
                found[at:at] = chance.choice(pieces)
    return bytes(found)
