"""Ids as Kafka writes them: 16 random bytes, shown as 22 characters of URL-safe base64.

Kafka's counterpart: `org.apache.kafka.common.Uuid`.
"""

import base64
import binascii
from typing import NewType

Uuid = NewType("Uuid", bytes)

ZERO_UUID = Uuid(bytes(16))
"""Kafka's "no id"."""


def uuid_text(uuid: bytes) -> str:
    """The 22 characters in `partition.metadata` and `meta.properties`."""
    assert len(uuid) == 16
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode("ascii")


def parse_uuid(text: str) -> Uuid:
    """The inverse of `uuid_text`; raises `ValueError` for text that is not 16 bytes."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"{text!r} is not a Kafka id") from error
    if len(raw) != 16:
        raise ValueError(f"{text!r} is not a Kafka id: {len(raw)} bytes instead of 16")
    return Uuid(raw)


def is_reserved(uuid: bytes) -> bool:
    """Whether Kafka reserves the id (`Uuid.RESERVED`), or ids that begin like it."""
    return (uuid[:15] == bytes(15) and uuid[15] < 100) or uuid_text(uuid).startswith("-")
