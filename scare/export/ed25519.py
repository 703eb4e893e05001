"""Ed25519 signatures (RFC 8032), with keys in the PEM files of OpenSSL: to sign a blob and to check one.

    openssl genpkey -algorithm ed25519 -out owner.pem      # or new_key; keep it secret
    signature = sign(read_key(Path("owner.pem")), message); verify(signature, public_key(...), message)

Slow and plain, for a few signatures; on a board `runtime/src/scare_ed25519.c` verifies. Signing takes a time that
depends on the key, so it is for a computer of your own.
"""

import base64
import binascii
import os
import secrets
from hashlib import sha512
from pathlib import Path

from scare.errors import DataError, UsageError

PRIME = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, PRIME) % PRIME  # of the curve -x² + y² = 1 + D x² y²
ROOT_OF_MINUS_1 = pow(2, (PRIME - 1) // 4, PRIME)
KEY_BYTES, SIGNATURE_BYTES = 32, 64
Point = tuple[int, int, int, int]  # (x / z, y / z), z, and x y / z
ZERO: Point = (0, 1, 1, 0)
# What precedes the 32 bytes of a key in a file (RFC 8410).
PRIVATE, PUBLIC = bytes.fromhex("302e020100300506032b657004220420"), bytes.fromhex("302a300506032b6570032100")
LABELS = {PRIVATE: "PRIVATE KEY", PUBLIC: "PUBLIC KEY"}


def new_key() -> bytes:
    """Return a new, random private key."""
    return secrets.token_bytes(KEY_BYTES)


def public_key(key: bytes) -> bytes:
    """Return the public key of a private key."""
    factor, _ = _secret(key)
    return _encode(_times(factor, BASE))


def sign(key: bytes, message: bytes) -> bytes:
    """Sign a message with a private key (section 5.1.6)."""
    factor, prefix = _secret(key)
    nonce = _hash(prefix, message)
    commitment = _encode(_times(nonce, BASE))
    challenge = _hash(commitment, public_key(key), message)
    return commitment + ((nonce + challenge * factor) % ORDER).to_bytes(32, "little")


def verify(signature: bytes, public: bytes, message: bytes) -> bool:
    """Whether a signature of a message was made with the private key of this public one (section 5.1.7).

    A key of small order, such as 32 zeros, is refused: with it anybody could sign.
    """
    commitment, factor = signature[:32], int.from_bytes(signature[32:], "little")
    point = _decode(public)
    if len(signature) != SIGNATURE_BYTES or factor >= ORDER or point is None or _times(8, point)[0] == 0:
        return False
    # The signature is right if commitment = factor · BASE - challenge · key; (-x, y) is the negative of a point.
    x, y, z, t = _times(_hash(commitment, public, message), point)
    return _encode(_add(_times(factor, BASE), (-x, y, z, -t))) == commitment


def to_pem(key: bytes, kind: bytes) -> str:
    """Return the text of a key file; `kind` is PRIVATE or PUBLIC.

    >>> print(to_pem(bytes(32), PUBLIC), end="")
    -----BEGIN PUBLIC KEY-----
    MCowBQYDK2VwAyEAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=
    -----END PUBLIC KEY-----
    """
    text = base64.b64encode(kind + key).decode()
    return f"-----BEGIN {LABELS[kind]}-----\n{text}\n-----END {LABELS[kind]}-----\n"


def print_key(public: bytes) -> str:
    """Print a public key as the numbers of an array in C.

    >>> print_key(bytes(range(9, 12)))
    '0x09, 0x0a, 0x0b'
    """
    return ", ".join(f"0x{byte:02x}" for byte in public)


def write_private_key(path: Path, key: bytes) -> None:
    """Write a private key to a new file that only its owner may read."""
    try:
        with open(path, "x", encoding="ascii", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            file.write(to_pem(key, PRIVATE))
    except FileExistsError:
        raise UsageError(f"{path} exists already, and a key that is overwritten is lost; give another name") from None
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror or error}") from error


def read_private_key(path: Path) -> bytes:
    """Read the private key of a file."""
    kind, key = _read_key(path)
    if kind != PRIVATE:
        raise UsageError(f"{path} has a public key; a blob is signed with the private one")
    return key


def read_public_key(path: Path) -> bytes:
    """Read the public key of a file, also from one with the private key."""
    kind, key = _read_key(path)
    return public_key(key) if kind == PRIVATE else key


def _read_key(path: Path) -> tuple[bytes, bytes]:
    """Return the kind (PRIVATE or PUBLIC) and the key of a file."""
    try:
        lines = [line.strip() for line in path.read_text(encoding="ascii").split("\n")]
        content = base64.b64decode("".join(line for line in lines if not line.startswith("-----")), validate=True)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror or error}") from error
    except (UnicodeDecodeError, binascii.Error):
        content = b""
    for kind in LABELS:
        if content.startswith(kind) and len(content) == len(kind) + KEY_BYTES:
            return kind, content[len(kind) :]
    raise DataError(f"{path} is no Ed25519 key in PEM format; make one with scare export key --out owner.pem")


def _hash(*parts: bytes) -> int:
    """Return SHA-512 of the parts as a factor: modulo the curve's order."""
    return int.from_bytes(sha512(b"".join(parts)).digest(), "little") % ORDER


def _secret(key: bytes) -> tuple[int, bytes]:
    """Return the factor of a private key, and the prefix for its nonces (section 5.1.5)."""
    digest = sha512(key).digest()
    number = int.from_bytes(digest[:32], "little")
    factor = number & ~(1 << 255) & ~7 | 1 << 254  # the RFC fixes these five bits
    return factor, digest[32:]


def _add(first: Point, second: Point) -> Point:
    """Add two points of the curve, in extended coordinates (section 5.1.4, whose names the variables have)."""
    (x1, y1, z1, t1), (x2, y2, z2, t2) = first, second
    a, b = (y1 - x1) * (y2 - x2), (y1 + x1) * (y2 + x2)
    c, d = 2 * D * t1 * t2, 2 * z1 * z2
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % PRIME, g * h % PRIME, f * g % PRIME, e * h % PRIME


def _times(factor: int, point: Point) -> Point:
    """Multiply a point by a factor, by doubling and adding."""
    result = ZERO
    while factor:
        result = _add(result, point) if factor & 1 else result
        point, factor = _add(point, point), factor >> 1
    return result


def _encode(point: Point) -> bytes:
    """Encode a point: y, and in the highest bit whether x is odd (section 5.1.2)."""
    projective_x, projective_y, z, _ = point
    inverse = pow(z, -1, PRIME)
    x, y = projective_x * inverse % PRIME, projective_y * inverse % PRIME
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _decode(content: bytes) -> Point | None:
    """Decode a point; None if there is none with this encoding (section 5.1.3)."""
    number = int.from_bytes(content, "little")
    y, odd = number & ~(1 << 255), number >> 255
    u, v = (y * y - 1) % PRIME, (D * y * y + 1) % PRIME
    # x = √(u / v), which may have to be multiplied by √-1.
    x = u * pow(v, 3, PRIME) * pow(u * pow(v, 7, PRIME), (PRIME - 5) // 8, PRIME) % PRIME
    if v * x * x % PRIME == -u % PRIME:
        x = x * ROOT_OF_MINUS_1 % PRIME
    if len(content) != KEY_BYTES or y >= PRIME or v * x * x % PRIME != u or (x == 0 and odd):
        return None
    x = PRIME - x if x & 1 != odd else x
    return x, y, 1, x * y % PRIME


_BASE = _decode((4 * pow(5, -1, PRIME) % PRIME).to_bytes(32, "little"))
assert _BASE is not None
BASE: Point = _BASE
