"""Signatures in Python, in C on this computer and on a virtual board: RFC 8032's vectors, OpenSSL, and changed bits."""

import ctypes
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scare.board.boards import board
from scare.board.build import STRICT, compile_once, library_name, link
from scare.board.host import HOST_FLAGS
from scare.board.virtual import OUTSIDE, Machine
from scare.errors import DataError, UsageError
from scare.export.ed25519 import (
    ORDER,
    PRIVATE,
    PUBLIC,
    new_key,
    public_key,
    read_private_key,
    read_public_key,
    sign,
    to_pem,
    verify,
)
from tests.needs import needs

SOURCE = Path(__file__).parents[2] / "runtime" / "src" / "scare_ed25519.c"
# RFC 8032, section 7.1: private key, public key, message, signature (tests 1, 2, 3 and SHA(abc)).
VECTORS = [
    tuple(map(bytes.fromhex, lines.split("/")))
    for lines in (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60"
        "/d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a/"
        "/e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e06522490155"
        "5fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb"
        "/3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c/72"
        "/92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da"
        "085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7"
        "/fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025/af82"
        "/6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        "833fe62409237b9d62ec77587520911e9a759cec1d19755b7da901b96dca3d42"
        "/ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf"
        "/ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a"
        "2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f"
        "/dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b589"
        "09351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704",
    )
]
KEY = VECTORS[0][0]


def verify_in_c(signature: bytes, public: bytes, message: bytes) -> bool:
    flags = ("-shared", *STRICT, *HOST_FLAGS)
    library = ctypes.CDLL(str(compile_once([SOURCE], library_name("ed25519"), flags, [SOURCE.parent])))
    return bool(library.scare_ed25519_verify(signature, public, message, ctypes.c_size_t(len(message))))


@pytest.mark.parametrize(("key", "public", "message", "signature"), VECTORS)
def test_the_vectors_of_the_rfc(key: bytes, public: bytes, message: bytes, signature: bytes) -> None:
    assert public_key(key) == public
    assert sign(key, message) == signature
    for verifier in (verify, verify_in_c):
        assert verifier(signature, public, message)
        assert not verifier(signature, public, message + b"\0")


@settings(max_examples=60, deadline=None)
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=600), st.data())
def test_one_changed_bit_is_enough(key: bytes, message: bytes, data: st.DataObject) -> None:
    public, signature = public_key(key), sign(key, message)
    assert verify_in_c(signature, public, message)
    parts = [bytearray(signature), bytearray(public), bytearray(message)]
    part = data.draw(st.sampled_from([one for one in parts if one]))
    part[data.draw(st.integers(0, len(part) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    changed = tuple(map(bytes, parts))
    assert not verify(*changed)
    assert not verify_in_c(*changed)


@pytest.mark.parametrize("length", range(30, 70))
def test_every_length_of_the_last_block(length: int) -> None:
    message = bytes(range(length))
    assert verify_in_c(sign(KEY, message), public_key(KEY), message)


def test_a_factor_beyond_the_order_is_refused() -> None:
    signature = sign(KEY, b"a")
    larger = signature[:32] + (int.from_bytes(signature[32:], "little") + ORDER).to_bytes(32, "little")
    assert not verify(larger, public_key(KEY), b"a")
    assert not verify_in_c(larger, public_key(KEY), b"a")


@pytest.mark.parametrize("key", [b"\x02" + bytes(31), b"\xff" * 32, b"short"])
def test_no_key_is_refused(key: bytes) -> None:
    assert not verify(sign(KEY, b"a"), key, b"a")


SMALL = [
    "00" * 32,
    "01" + "00" * 31,
    "ec" + "ff" * 30 + "7f",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
]


@pytest.mark.parametrize("key", [bytes.fromhex(one) for one in SMALL])
def test_a_key_with_which_anybody_could_sign_is_refused(key: bytes) -> None:
    """The factor is 0 and the point neutral: right for every hash that is a multiple of the key's order."""
    forged = b"\x01" + bytes(63)
    messages = [bytes([number]) for number in range(64)]
    assert not any(verify(forged, key, message) or verify_in_c(forged, key, message) for message in messages)


@pytest.mark.skipif(not shutil.which("openssl"), reason="OpenSSL would run it")
def test_openssl_makes_the_same_signatures_and_keys(tmp_path: Path) -> None:
    message, path = tmp_path / "message", tmp_path / "owner.pem"
    message.write_bytes(b"a calibration")
    subprocess.run(["openssl", "genpkey", "-algorithm", "ed25519", "-out", path], check=True)
    key = read_private_key(path)
    assert path.read_text() == to_pem(key, PRIVATE)
    command = ["openssl", "pkeyutl", "-sign", "-inkey", path, "-rawin", "-in", message]
    assert subprocess.run(command, capture_output=True, check=True).stdout == sign(key, message.read_bytes())
    printed = subprocess.run(["openssl", "pkey", "-in", path, "-pubout"], capture_output=True, check=True, text=True)
    assert printed.stdout == to_pem(public_key(key), PUBLIC)


def test_keys_are_files(tmp_path: Path) -> None:
    key, path = new_key(), tmp_path / "owner.pem"
    path.write_text(to_pem(key, PRIVATE))
    assert (read_private_key(path), read_public_key(path)) == (key, public_key(key))
    path.write_text(to_pem(public_key(key), PUBLIC))
    assert read_public_key(path) == public_key(key)
    with pytest.raises(UsageError, match="has a public key"):
        read_private_key(path)
    with pytest.raises(UsageError, match="cannot read"):
        read_private_key(tmp_path / "none.pem")
    for text in ("", "hello", to_pem(key[:-1], PRIVATE), "-----BEGIN RSA-----\nAAAA\n", "é"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(DataError, match="no Ed25519 key"):
            read_private_key(path)


@needs("board")
def test_a_board_verifies_too() -> None:
    """The bounds are what docs/blob.md says of a Cortex-M4F."""
    _, public, message, signature = VECTORS[3]
    machine = Machine(link([SOURCE], board("nano33ble"), [SOURCE.parent], keep=["scare_ed25519_verify"]))
    places = [OUTSIDE + 0x1000 * (1 + index) for index in range(3)]
    for place, content in zip(places, (signature, public, message), strict=True):
        machine.write(place, np.frombuffer(content, np.uint8))
    trace = machine.call("scare_ed25519_verify", *places, len(message))
    assert machine.result == 1
    assert trace.instructions < 3_000_000
    assert trace.stack_bytes < 1200
    machine.write(places[2], b"x")
    machine.call("scare_ed25519_verify", *places, len(message))
    assert machine.result == 0
