"""The subject of a client's certificate, written as Java writes it (RFC 2253).

Kafka's counterpart: `X500Principal.getName`, which `DefaultKafkaPrincipalBuilder` asks.
"""

from collections.abc import Iterable
from typing import Any, Final

from ottla.base.patterns import lazy_pattern

NAMES: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "userId": "UID",
}
"""Maps OpenSSL's names to those of RFC 2253.

Others are written as a number and the value's encoding.
"""

IA5_STRING, PRINTABLE_STRING, UTF8_STRING = 0x16, 0x13, 0x0C
OTHERS: Final = {
    "emailAddress": ("1.2.840.113549.1.9.1", IA5_STRING),
    "dnQualifier": ("2.5.4.46", PRINTABLE_STRING),
    "generationQualifier": ("2.5.4.44", UTF8_STRING),
    "givenName": ("2.5.4.42", UTF8_STRING),
    "initials": ("2.5.4.43", UTF8_STRING),
    "pseudonym": ("2.5.4.65", UTF8_STRING),
    "serialNumber": ("2.5.4.5", PRINTABLE_STRING),
    "surname": ("2.5.4.4", UTF8_STRING),
    "title": ("2.5.4.12", UTF8_STRING),
}
"""Maps OpenSSL's names to their number, and to the value's standard type."""

_SPECIAL = lazy_pattern(r'([,+"\\<>;])')


def subject_of(certificate: dict[str, Any]) -> str:
    """Formats the result of `SSLSocket.getpeercert`, with the last part first."""
    parts: Iterable[Iterable[tuple[str, str]]] = certificate.get("subject", ())
    texts = ["+".join(_attribute(name, value) for name, value in part) for part in parts]
    return ",".join(reversed(texts))


def _attribute(name: str, value: str) -> str:
    short = NAMES.get(name)
    if short is not None:
        return f"{short}={_escaped(value)}"
    number, kind = OTHERS.get(name, (name, UTF8_STRING))
    data = value.encode()
    return f"{number}=#{kind:02x}{_length(len(data)).hex()}{data.hex()}"


def _length(size: int) -> bytes:
    if size < 0x80:
        return bytes([size])
    digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(digits)]) + digits


def _escaped(value: str) -> str:
    text = _SPECIAL.sub(r"\\\1", value)
    if text.startswith(("#", " ")):
        text = "\\" + text
    if text.endswith(" ") and len(text) > 1:
        text = text[:-1] + "\\ "
    return text
