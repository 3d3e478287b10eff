"""How Aiven's layout encrypts: chunks by AES-256-GCM, their key by RSA with OAEP and SHA3-512.

Format page: docs/format/tier-objects.md.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from hmac import compare_digest
from typing import Any, Final

from ottla.base.errors import CorruptionError, UserError
from ottla.base.extras import needed_for
from ottla.base.files import Buffer, FileSystem, base_name, parent_directory
from ottla.base.patterns import lazy_pattern
from ottla.objects.directory_store import DirectoryStore
from ottla.storage.remote.aiven_manifest import Encryption

IV_SIZE: Final = 12
TAG_SIZE: Final = 16
OVERHEAD: Final = IV_SIZE + TAG_SIZE
"""By how many bytes a chunk grows."""

DATA_KEY_SIZE: Final = 32
KEY_FILE_LIMIT: Final = 64 << 10

HASH_SIZE: Final = 64

_PEM = lazy_pattern(
    rb"-----BEGIN (?:[A-Z]+ )*PRIVATE KEY-----.*?-----END (?:[A-Z]+ )*PRIVATE KEY-----", re.DOTALL
)
_HEXADECIMAL = lazy_pattern(rb"(?:[0-9a-fA-F]{2})+")


class ChunkCipher:
    """Opens and seals the chunks of one segment."""

    def __init__(self, data_key: bytes, associated_data: bytes) -> None:
        with needed_for("an encrypted tier"):
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        self._cipher = AESGCM(data_key)
        self._associated_data = associated_data

    def open(self, chunk: Buffer) -> bytes | None:
        """The plain bytes; `None` if they are not those that were encrypted."""
        from cryptography.exceptions import InvalidTag

        view = memoryview(chunk)
        if len(view) < OVERHEAD:
            return None
        try:
            return self._cipher.decrypt(view[:IV_SIZE], view[IV_SIZE:], self._associated_data)
        except InvalidTag:
            return None

    def seal(self, chunk: bytes, iv: bytes) -> bytes:
        """The chunk as it is stored; `iv` are random bytes, others for each chunk of a key."""
        return iv + self._cipher.encrypt(iv, chunk, self._associated_data)


class TierKeys:
    """The private keys in files, or in the files of folders; read when one is needed.

    `origin` is what names the paths, and errors name.
    """

    def __init__(
        self, paths: Sequence[str], file_system: FileSystem, origin: str = "--tier-key"
    ) -> None:
        self._paths = paths
        self._origin = origin
        self._file_system = file_system
        self._keys: list[Any] | None = None
        self._by_pair: dict[str, Any] = {}
        """The keys that have opened a data key, by the id of their pair."""

    def cipher(self, encryption: Encryption, manifest: str) -> ChunkCipher:
        """The cipher of the segment with a manifest, the object's address.

        Raises `UserError` if the key is missing, or another's; `CorruptionError` if it was the
        right one for other manifests.
        """
        pair = encryption.key_pair_id
        keys = [self._by_pair[pair]] if pair in self._by_pair else self._read(pair, manifest)
        for key in keys:
            data_key = open_sealed(key, encryption.sealed_key)
            if data_key is not None and len(data_key) == DATA_KEY_SIZE:
                self._by_pair[pair] = key
                return ChunkCipher(data_key, encryption.associated_data)
        if pair in self._by_pair:
            raise CorruptionError(manifest, 0, f"its data key is damaged: key pair {pair} opens it")
        raise UserError(
            f"{manifest}: no private key in {self._place} opens its data key, which is "
            f"sealed with the key pair {pair}; name the file of that pair's private key, or a "
            f"folder with those of all pairs; if it opens other segments, this manifest is damaged"
        )

    def _read(self, pair: str, manifest: str) -> list[Any]:
        if not self._paths:
            raise UserError(
                f"{manifest}: the tier is encrypted with the key pair {pair}; name the file of its "
                f"private key, or a folder with several, by {self._origin}"
            )
        if self._keys is None:
            with needed_for("an encrypted tier"):
                import cryptography.hazmat.primitives.serialization  # noqa: F401
            files = [name for path in self._paths for name in self._files(path)]
            self._keys = [key for name in files for key in self._keys_in(name)]
            if not self._keys:
                place, origin = " and ".join(self._paths), self._origin
                raise UserError(
                    f"{place}: it has no RSA private key in PEM or DER, which {origin} wants"
                )
        return self._keys

    @property
    def _place(self) -> str:
        return f"{' and '.join(self._paths)} ({self._origin})"

    def _files(self, path: str) -> list[str]:
        """The paths of the file, or of those in the folder."""
        try:
            status = self._file_system.status(path)
            if status is None:
                raise UserError(f"{path}: there is no such file or folder ({self._origin})")
            if not status.is_directory:
                return [path]
            found = DirectoryStore(path, self._file_system).find("")
        except OSError as error:
            raise UserError(f"{path}: {error.strerror} ({self._origin})") from error
        return [f"{path}/{one.path}" for one in found if one.size <= KEY_FILE_LIMIT]

    def _keys_in(self, path: str) -> Iterator[Any]:
        store = DirectoryStore(parent_directory(path), self._file_system)
        try:
            content = store.get(base_name(path), 0, KEY_FILE_LIMIT)
        except OSError as error:
            raise UserError(f"{path}: {error.strerror} ({self._origin})") from error
        yield from private_keys(content, path)


def private_keys(content: bytes, path: str) -> Iterator[Any]:
    """The RSA private keys in a file: PEM, as Aiven's plug-in takes them, DER, or DER in
    hexadecimal. None if it holds something else; raises `UserError` if one needs a password.
    """
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.serialization import (
        load_der_private_key,
        load_pem_private_key,
    )

    digits = b"".join(content.split())
    if _HEXADECIMAL.fullmatch(digits):
        content = bytes.fromhex(digits.decode("ascii"))
    texts = _PEM.findall(content)
    load = load_pem_private_key if texts else load_der_private_key
    for text in texts or [content]:
        try:
            key = load(text, None)
        except TypeError as error:
            raise UserError(f"{path}: the key has a password; write it without one") from error
        except (ValueError, UnsupportedAlgorithm):
            continue
        if isinstance(key, RSAPrivateKey):
            yield key


def public_key(content: bytes, path: str) -> Any:
    """The RSA public key in a file: PEM, as Aiven's plug-in takes it; raises `UserError`."""
    with needed_for("an encrypted tier"):
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
        from cryptography.hazmat.primitives.serialization import load_pem_public_key
    try:
        key = load_pem_public_key(content)
    except (ValueError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPublicKey):
        raise UserError(f"{path}: it has no RSA public key in PEM (-----BEGIN PUBLIC KEY-----)")
    return key


def sealed(key: Any, message: bytes, seed: bytes) -> bytes:
    """A message encrypted by RSA with OAEP, as `open_sealed` opens it; `seed` are `HASH_SIZE`
    random bytes. Raises `ValueError` if the key is too short for it.
    """
    numbers = key.public_numbers()
    size = (numbers.n.bit_length() + 7) // 8
    number = int.from_bytes(padded(message, seed, size), "big")
    return int.to_bytes(pow(number, numbers.e, numbers.n), size, "big")


def padded(message: bytes, seed: bytes, size: int) -> bytes:
    """The block of OAEP (RFC 8017, 7.1.1) with an empty label, of `size` bytes."""
    room = size - len(message) - 2 * HASH_SIZE - 2
    if room < 0:
        raise ValueError(f"a key of {8 * size} bits is too short")
    data = hashlib.sha3_512().digest() + bytes(room) + b"\1" + message
    masked = _mixed(data, _mask(seed, len(data)))
    return b"\0" + _mixed(seed, _mask(masked, HASH_SIZE)) + masked


def open_sealed(key: Any, sealed: bytes) -> bytes | None:
    """What was encrypted by RSA with OAEP, SHA3-512 also for MGF1; `None` if by another key.

    The library refuses SHA-3 here, so that only the number is its business.
    """
    numbers = key.private_numbers()
    modulus = numbers.public_numbers.n
    size = (modulus.bit_length() + 7) // 8
    number = int.from_bytes(sealed, "big")
    if len(sealed) != size or number >= modulus:
        return None
    of_p = pow(number, numbers.dmp1, numbers.p)
    of_q = pow(number, numbers.dmq1, numbers.q)
    plain = of_q + (of_p - of_q) * numbers.iqmp % numbers.p * numbers.q
    return unpadded(plain.to_bytes(size, "big"))


def unpadded(block: bytes) -> bytes | None:
    """The message in a block of OAEP (RFC 8017, 7.1.2) with an empty label; `None` if it is none.

    Every fault has the same answer, and what is compared takes the same time wherever it differs.
    """
    if len(block) < 2 * HASH_SIZE + 2:
        return None
    masked_seed, masked = block[1 : 1 + HASH_SIZE], block[1 + HASH_SIZE :]
    seed = _mixed(masked_seed, _mask(masked, HASH_SIZE))
    data = _mixed(masked, _mask(seed, len(masked)))
    is_sound = compare_digest(data[:HASH_SIZE], hashlib.sha3_512().digest())
    padded = data[HASH_SIZE:].lstrip(b"\0")
    is_sound &= compare_digest(block[:1] + padded[:1], b"\0\1")
    return padded[1:] if is_sound else None


def _mask(seed: bytes, size: int) -> bytes:
    """MGF1."""
    digests = (
        hashlib.sha3_512(seed + number.to_bytes(4, "big")).digest()
        for number in range(-(-size // HASH_SIZE))
    )
    return b"".join(digests)[:size]


def _mixed(one: bytes, other: bytes) -> bytes:
    number = int.from_bytes(one, "big") ^ int.from_bytes(other, "big")
    return number.to_bytes(len(one), "big")
