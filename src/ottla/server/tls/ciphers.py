"""Cipher suites by the names of the standard, as Java and Kafka have them, for OpenSSL.

Python cannot select single suites of TLS 1.3: all of them are strong, and enabled together or not.
"""

from collections.abc import Sequence
from typing import Final

OWN: Final = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""Suites of TLS 1.2 that are enabled by default.

Forward secret and authenticated; not with finite fields, whose handshakes cost ten times as much.
"""

TLS13: Final = frozenset(
    {
        "TLS_AES_128_GCM_SHA256",
        "TLS_AES_256_GCM_SHA384",
        "TLS_CHACHA20_POLY1305_SHA256",
        "TLS_AES_128_CCM_SHA256",
        "TLS_AES_128_CCM_8_SHA256",
    }
)


def has_tls13_suite(suites: Sequence[str]) -> bool:
    return not TLS13.isdisjoint(suites)


def cipher_list(suites: Sequence[str]) -> str:
    """OpenSSL's list for TLS 1.2; empty when only suites of TLS 1.3 are named."""
    if not suites:
        return OWN
    return ":".join(_openssl_name(one) for one in suites if one not in TLS13)


def _openssl_name(suite: str) -> str:
    """`TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256` is `ECDHE-RSA-AES128-GCM-SHA256`."""
    exchange, with_, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    if not with_:
        return suite  # OpenSSL's own name
    cipher = cipher.replace("AES_", "AES").replace("POLY1305_SHA256", "POLY1305")
    cipher = cipher.replace("_CBC", "").replace("_", "-")
    return cipher if exchange == "RSA" else f"{exchange.replace('_', '-')}-{cipher}"
