"""The settings of a broker of a cluster, in the form stored in ZooKeeper and in plain form.

They differ in passwords, which ZooKeeper has encrypted. Kafka's counterparts:
`DynamicBrokerConfig.toPersistentProps`, `fromPersistentProps`, `maybeReEncodePasswords`.
"""

from collections.abc import Mapping

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, UserError
from ottla.broker.configs.password_encoder import (
    DEFAULT_FACTORY,
    KEY_LENGTHS,
    Encryption,
    NewBytes,
    PasswordEncoder,
)
from ottla.broker.configs.settings import passwords_among
from ottla.config.broker import BrokerConfig

NO_SECRET = "password.encoder.secret is not set"


class KeptPasswords:
    def __init__(self, config: BrokerConfig, new_bytes: NewBytes) -> None:
        """Raises `UserError`."""
        if config.password_encoder_key_length not in KEY_LENGTHS:
            raise UserError(
                f"password.encoder.key.length={config.password_encoder_key_length}: AES has keys "
                "of 128, 192 or 256 bits; set one of them"
            )
        secret = config.password_encoder_secret
        self._encoder: PasswordEncoder | None = None
        if secret is not None:
            encryption = Encryption(
                key_factory=config.password_encoder_keyfactory_algorithm or DEFAULT_FACTORY,
                cipher=config.password_encoder_cipher_algorithm,
                key_bits=config.password_encoder_key_length,
                iterations=config.password_encoder_iterations,
            )
            old_secret = config.password_encoder_old_secret
            self._encoder = PasswordEncoder(secret, old_secret, encryption, new_bytes)
        self.may_renew = secret is not None and config.password_encoder_old_secret is not None

    def meant(self, kept: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
        """Decrypts the passwords; also returns the errors for those that cannot be decrypted."""
        plain, unread = dict(kept), {}
        for name in passwords_among(kept):
            try:
                if self._encoder is None:
                    raise ValueError(NO_SECRET)
                plain[name] = self._encoder.decode(kept[name])
            except ValueError as error:
                del plain[name]
                unread[name] = str(error)
        return plain, unread

    def to_keep(self, plain: Mapping[str, str], kept: Mapping[str, str]) -> dict[str, str]:
        """Encrypts passwords, except unchanged ones, for storage.

        Raises `ApiError` if `password.encoder.secret` is not set.
        """
        before, _ = self.meant(kept)
        result = dict(plain)
        for name in passwords_among(plain):
            if before.get(name) == plain[name]:
                result[name] = kept[name]
            elif self._encoder is None:
                raise ApiError(
                    ErrorCode.INVALID_REQUEST,
                    f"Password encoder secret not configured: {NO_SECRET}, with which {name} would "
                    "be encrypted in ZooKeeper; set it, or the password in the broker's own "
                    "settings",
                )
            else:
                result[name] = self._encoder.encode(plain[name])
        return result

    def renewed(self, kept: Mapping[str, str]) -> dict[str, str]:
        """Re-encrypts passwords that were encrypted with the old secret."""
        result = dict(kept)
        _, unread = self.meant(kept)
        for name in passwords_among(kept):
            if self._encoder is not None and name not in unread:
                result[name] = self._encoder.renewed(kept[name])
        return result
