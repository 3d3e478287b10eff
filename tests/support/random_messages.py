"""Messages filled at random from their declarations, for round trips and comparisons."""

import random
from typing import Any

from ottla.base.error_codes import ErrorCode
from ottla.codec.fields import Field
from ottla.codec.schema import Message
from ottla.protocol.own_tags import OWN_TAG

RANGES = {
    "int8": (-128, 127),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
TEXTS = ("", "a", "topic-7", "grüße", "日本", "x" * 130, "y" * 300)
TIMES_MS = (0, 1, 1_700_000_000_123, 4_102_444_800_000)
"""Neither negative nor beyond what a `datetime` holds, since others read them as one."""

UNKNOWN_TO_OTHERS = {ErrorCode.CONTROLLER_ID_NOT_REGISTERED}
"""Of Kafka 4.4, which is later than those who read what we write here."""

ERROR_CODES = [int(code) for code in ErrorCode if code not in UNKNOWN_TO_OTHERS]


def random_message(message: type[Message], version: int, chance: random.Random) -> Message:
    """A message whose fields of `version` hold anything that the wire allows; Ottla's own fields,
    which others leave out, have their defaults.
    """
    made: Message = _random_struct(message, version, chance)
    return made


def _random_struct(struct: Any, version: int, chance: random.Random) -> Any:
    values = {
        field.name: _random_value(field, version, chance)
        for field in struct.FIELDS
        if field.is_in(version)
        and not (field.tag is not None and (field.tag >= OWN_TAG or chance.random() < 0.4))
    }
    return struct(**values)


def _random_value(field: Field, version: int, chance: random.Random) -> Any:
    if field.is_nullable_in(version) and chance.random() < 0.3:
        return None
    if field.kind == "nested":
        made = _random_struct(field.struct, version, chance)
        # A tagged struct of defaults is not written, and so reads as none.
        return None if field.tag is not None and made == field.struct() else made
    if field.kind == "array":
        count = chance.choice((0, 1, 1, 2, 3))
        if field.element is not None:
            return [_random_value(field.element, version, chance) for _ in range(count)]
        return [_random_struct(field.struct, version, chance) for _ in range(count)]
    return _random_primitive(field, chance)


def _random_primitive(field: Field, chance: random.Random) -> Any:
    match field.kind:
        case "string":
            return chance.choice(TEXTS)
        case "binary" | "records":
            return chance.randbytes(chance.choice((0, 1, 20, 130)))
        case "uuid":
            return chance.choice((bytes(16), chance.randbytes(16)))
        case "boolean":
            return chance.random() < 0.5
        case "float64":
            return chance.choice((0.0, -1.5, 1e300))
    if field.name.endswith("error_code"):
        return chance.choice(ERROR_CODES)
    if field.kind == "int64" and is_time(field.name):
        return chance.choice(TIMES_MS)
    low, high = RANGES[field.kind]
    return chance.choice((low, high, 0, 1, 127, max(low, -1), chance.randint(low, high)))


def is_time(name: str) -> bool:
    return name.endswith("_ms") or "timestamp" in name
