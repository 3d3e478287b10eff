"""Encryption of passwords in a broker's settings in ZooKeeper, in Kafka's format.

The format is a comma-separated list of NAME:VALUE: how the key is derived from the secret, how the
password is encrypted, and the result. Decoding needs no setting except the secret. Kafka's
counterpart: `EncryptingPasswordEncoder`.
"""

import hashlib
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Final

from ottla.base.extras import needed_for
from ottla.base.values import dataclass

SALT_SIZE: Final = 256
CBC, GCM = "AES/CBC/PKCS5Padding", "AES/GCM/NoPadding"
BLOCK_SIZE: Final = 16
NONCE_SIZE: Final = 12
TAG_BITS: Final = 128

HASHES: Final = {
    "PBKDF2WithHmacSHA1": "sha1",
    "PBKDF2WithHmacSHA224": "sha224",
    "PBKDF2WithHmacSHA256": "sha256",
    "PBKDF2WithHmacSHA384": "sha384",
    "PBKDF2WithHmacSHA512": "sha512",
}
"""Java's key factories -> their hash functions."""

DEFAULT_FACTORY: Final = "PBKDF2WithHmacSHA512"
CIPHERS: Final = (CBC, GCM)
KEY_LENGTHS: Final = (128, 192, 256)

NewBytes = Callable[[int], bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Encryption:
    """How new passwords are encrypted (`password.encoder.*`)."""

    key_factory: str = DEFAULT_FACTORY
    cipher: str = CBC
    key_bits: int = 128
    iterations: int = 4096


class PasswordEncoder:
    """Decryption tries `old_secret` if the current secret fails."""

    def __init__(
        self, secret: str, old_secret: str | None, encryption: Encryption, new_bytes: NewBytes
    ) -> None:
        self._secret = secret
        self._old_secret = old_secret
        self._encryption = encryption
        self._new_bytes = new_bytes

    def encode(self, password: str) -> str:
        how, salt = self._encryption, self._new_bytes(SALT_SIZE)
        key = _key(self._secret, how, salt)
        vector = self._new_bytes(NONCE_SIZE if how.cipher == GCM else BLOCK_SIZE)
        fields = {
            "keyFactoryAlgorithm": how.key_factory,
            "cipherAlgorithm": how.cipher,
            "keyLength": str(how.key_bits),
            "salt": _text(salt),
            "iterations": str(how.iterations),
            "encryptedPassword": _text(_encrypted(how.cipher, key, vector, password.encode())),
            "passwordLength": str(_java_length(password)),
            "initializationVector": _text(vector),
        }
        if how.cipher == GCM:
            fields["authenticationTagLength"] = str(TAG_BITS)
        return ",".join(f"{name}:{value}" for name, value in fields.items())

    def decode(self, text: str) -> str:
        """Raises `ValueError`, whose text does not reveal the password."""
        try:
            return _decode(text, self._secret)
        except ValueError:
            if self._old_secret is None:
                raise
        return _decode(text, self._old_secret)

    def renewed(self, text: str) -> str:
        """Re-encrypts a password with the current secret if only the old one can decrypt it."""
        if self._old_secret is None:
            return text
        try:
            _decode(text, self._secret)
        except ValueError:
            return self.encode(_decode(text, self._old_secret))
        return text


def _decode(text: str, secret: str) -> str:
    fields = dict(one.partition(":")[::2] for one in text.split(","))
    try:
        how = Encryption(
            key_factory=fields["keyFactoryAlgorithm"],
            cipher=fields["cipherAlgorithm"],
            key_bits=int(fields["keyLength"]),
            iterations=int(fields["iterations"]),
        )
        _check(how)
        salt, vector, encrypted = (
            b64decode(fields[name], validate=True)
            for name in ("salt", "initializationVector", "encryptedPassword")
        )
        length = int(fields["passwordLength"])
    except KeyError as error:
        raise ValueError(f"{error.args[0]} is missing: it was not encrypted by Kafka") from error
    key = _key(secret, how, salt)
    try:
        password = _decrypted(how.cipher, key, vector, encrypted).decode()
    except ValueError as error:
        raise ValueError("it was encrypted with another secret") from error
    if _java_length(password) != length:
        raise ValueError("it was encrypted with another secret")
    return password


def _check(how: Encryption) -> None:
    """Raises `ValueError` for unsupported parameters."""
    if how.key_factory not in HASHES:
        raise ValueError(f"{how.key_factory} is not supported; supported: {', '.join(HASHES)}")
    if how.cipher not in CIPHERS:
        raise ValueError(f"{how.cipher} is not supported; supported: {', '.join(CIPHERS)}")
    if how.key_bits not in KEY_LENGTHS or not 0 < how.iterations < 2**31:
        raise ValueError("its key length or its iterations are invalid")


def _key(secret: str, how: Encryption, salt: bytes) -> bytes:
    return hashlib.pbkdf2_hmac(
        HASHES[how.key_factory], secret.encode(), salt, how.iterations, how.key_bits // 8
    )


def _encrypted(cipher: str, key: bytes, vector: bytes, content: bytes) -> bytes:
    with needed_for("password.encoder.secret"):
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.padding import PKCS7
    if cipher == GCM:
        return AESGCM(key).encrypt(vector, content, None)
    padder = PKCS7(8 * BLOCK_SIZE).padder()
    encryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).encryptor()
    padded = padder.update(content) + padder.finalize()
    return encryptor.update(padded) + encryptor.finalize()


def _decrypted(cipher: str, key: bytes, vector: bytes, encrypted: bytes) -> bytes:
    """Raises `ValueError` for a wrong key or damaged text."""
    with needed_for("password.encoder.secret"):
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        from cryptography.hazmat.primitives.padding import PKCS7
    if cipher == GCM:
        try:
            return AESGCM(key).decrypt(vector, encrypted, None)
        except InvalidTag as error:
            raise ValueError("another key") from error
    unpadder = PKCS7(8 * BLOCK_SIZE).unpadder()
    decryptor = Cipher(algorithms.AES(key), modes.CBC(vector)).decryptor()
    padded = decryptor.update(encrypted) + decryptor.finalize()
    return unpadder.update(padded) + unpadder.finalize()


def _java_length(password: str) -> int:
    """Returns the length as Java counts it, in UTF-16 code units."""
    return len(password.encode("utf-16-le")) // 2


def _text(content: bytes) -> str:
    return b64encode(content).decode()
