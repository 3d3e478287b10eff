from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ottla.base.errors import CorruptionError, UserError
from ottla.base.files import OsFileSystem
from ottla.storage.remote.aiven_encryption import (
    ChunkCipher,
    TierKeys,
    open_sealed,
    private_keys,
    unpadded,
)
from ottla.storage.remote.aiven_manifest import Encryption
from tests.support.tiers import oaep

pytest.importorskip("cryptography")

DATA_KEY = bytes(range(32))


@cache
def private_key(number: int) -> Any:
    from cryptography.hazmat.primitives.asymmetric import rsa

    return rsa.generate_private_key(public_exponent=65537, key_size=1536 + number)


def written(key: Any, encoding: str = "PEM", password: bytes | None = None) -> bytes:
    from cryptography.hazmat.primitives import serialization

    hidden = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    content: bytes = key.private_bytes(
        getattr(serialization.Encoding, encoding), serialization.PrivateFormat.PKCS8, hidden
    )
    return content


def public_text(key: Any) -> bytes:
    from cryptography.hazmat.primitives import serialization

    content: bytes = key.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    return content


def sealed(key: Any, message: bytes = DATA_KEY) -> bytes:
    numbers = key.public_key().public_numbers()
    return oaep(message, numbers.n, numbers.e, Random(1))


def encryption(key: Any, pair: str = "key-1") -> Encryption:
    return Encryption(key_pair_id=pair, sealed_key=sealed(key), associated_data=b"aad")


def keys_at(path: Path) -> TierKeys:
    return TierKeys([str(path)], OsFileSystem())


@pytest.mark.slow
def test_a_sealed_key_is_opened_by_its_own_key_alone() -> None:
    key, other = private_key(0), private_key(8)
    assert open_sealed(key, sealed(key)) == DATA_KEY
    assert open_sealed(key, sealed(key, b"")) == b""
    assert open_sealed(other, sealed(key)) is None
    assert open_sealed(key, sealed(other)) is None
    assert open_sealed(key, sealed(key)[1:]) is None
    assert open_sealed(key, b"\xff" * 192) is None


@pytest.mark.slow
def test_a_sealed_key_of_which_any_bit_was_flipped_is_not_opened() -> None:
    key, random = private_key(0), Random(2)
    for _ in range(20):
        damaged = bytearray(sealed(key))
        damaged[random.randrange(1, len(damaged))] ^= 1 << random.randrange(8)
        assert open_sealed(key, bytes(damaged)) is None


def test_a_block_that_is_no_padding_is_refused() -> None:
    for block in (b"", bytes(129), bytes(256), b"\xff" * 256):
        assert unpadded(block) is None


def test_a_chunk_is_opened_only_as_it_was_written() -> None:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    chunk = b"i" * 12 + AESGCM(DATA_KEY).encrypt(b"i" * 12, b"content", b"aad")
    cipher = ChunkCipher(DATA_KEY, b"aad")
    assert cipher.open(chunk) == b"content"
    assert ChunkCipher(DATA_KEY, b"other").open(chunk) is None
    for position in range(len(chunk)):
        damaged = bytearray(chunk)
        damaged[position] ^= 1
        assert cipher.open(damaged) is None
        assert cipher.open(chunk[:position]) is None


FORMS: dict[str, Callable[[Any], bytes]] = {
    "PEM": written,
    "DER": lambda key: written(key, "DER"),
    "hexadecimal DER": lambda key: written(key, "DER").hex().encode() + b"\n",
    "PEM with its public half": lambda key: public_text(key) + written(key),
    "PEM of two keys": lambda key: written(private_key(8)) + written(key),
}


@pytest.mark.slow
@pytest.mark.parametrize("form", FORMS)
def test_a_private_key_may_be_written_in_any_form(form: str, tmp_path: Path) -> None:
    key = private_key(0)
    (tmp_path / "private.key").write_bytes(FORMS[form](key))
    for path in (tmp_path, tmp_path / "private.key"):
        assert keys_at(path).cipher(encryption(key), "manifest").open(b"") is None


@pytest.mark.slow
def test_a_folder_may_have_the_keys_of_several_pairs(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "private.pem").write_bytes(written(private_key(0)))
    (tmp_path / "new.der").write_bytes(written(private_key(8), "DER"))
    (tmp_path / "new.pub.pem").write_bytes(public_text(private_key(8)))
    (tmp_path / "README").write_text("the keys of our tier")
    (tmp_path / "large").write_bytes(bytes(100_000))
    keys = keys_at(tmp_path)
    for pair, key in (("old", private_key(0)), ("new", private_key(8)), ("old", private_key(0))):
        assert keys.cipher(encryption(key, pair), "manifest")


@pytest.mark.slow
def test_a_missing_or_wrong_key_is_said_with_the_option_that_names_it(tmp_path: Path) -> None:
    (tmp_path / "other.pem").write_bytes(written(private_key(8)))
    (tmp_path / "public.pem").write_bytes(public_text(private_key(0)))
    (tmp_path / "hidden.pem").write_bytes(written(private_key(0), password=b"secret"))
    (tmp_path / "empty").mkdir()
    wanted = encryption(private_key(0))
    for name, words in (
        ("other.pem", "manifest: no private key in .* opens its data key, .* pair key-1; name"),
        ("public.pem", "has no RSA private key in PEM or DER, which --tier-key wants"),
        ("hidden.pem", "the key has a password; write it without one"),
        ("empty", "has no RSA private key"),
        ("none", r"none: there is no such file or folder \(--tier-key\)"),
    ):
        with pytest.raises(UserError, match=words):
            keys_at(tmp_path / name).cipher(wanted, "manifest")
    with pytest.raises(UserError, match=r"manifest: the tier is encrypted .* by --tier-key"):
        TierKeys([], OsFileSystem()).cipher(wanted, "manifest")


@pytest.mark.slow
def test_a_data_key_that_a_proven_key_does_not_open_is_damaged(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_bytes(written(private_key(0)))
    keys = keys_at(tmp_path)
    keys.cipher(encryption(private_key(0)), "manifest")
    with pytest.raises(CorruptionError, match="other at byte 0: its data key is damaged"):
        keys.cipher(encryption(private_key(8)), "other")


@given(st.binary(max_size=60))
@example(b"123")
@example(b"30 82")
@example(b"-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----\n")
def test_a_file_that_is_no_key_has_none(content: bytes) -> None:
    assert list(private_keys(content, "path")) == []


@pytest.mark.slow
def test_a_key_that_was_cut_or_changed_is_none_or_opens_nothing() -> None:
    key = private_key(0)
    for content in (written(key), written(key, "DER")):
        for position in range(0, len(content), len(content) // 12):
            flipped = bytearray(content)
            flipped[position] ^= 4
            for damaged in (content[:position], bytes(flipped)):
                for found in private_keys(damaged, "path"):
                    assert open_sealed(found, sealed(key)) in (None, DATA_KEY)
