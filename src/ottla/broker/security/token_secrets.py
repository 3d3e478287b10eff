"""The secrets of delegation tokens (KIP-48).

A token's secret is the HMAC of its id under the brokers' `delegation.token.secret.key`; it is not
stored, but computed when needed. Kafka's counterpart: `DelegationTokenManager`.
"""

from typing import Final

from ottla.base.scram import HASHES, ScramCredential, bytes_text, make_credential

ITERATIONS: Final = 4096
TOKEN_HASH: Final = "sha512"


def token_hmac(secret_key: str, token_id: str) -> bytes:
    """Returns the token's secret, which the response to CreateDelegationToken contains."""
    import hmac  # Lazy import: hmac loads OpenSSL, which readers of settings files do not need.

    return hmac.new(secret_key.encode(), token_id.encode(), TOKEN_HASH).digest()


def token_credential(
    mechanism: str, secret_key: str, token_id: str, salt: bytes
) -> ScramCredential:
    """Returns the credential for SCRAM logins, whose password is the secret in base64."""
    assert mechanism in HASHES
    password = bytes_text(token_hmac(secret_key, token_id)).encode()
    return make_credential(mechanism, password, salt, ITERATIONS)
