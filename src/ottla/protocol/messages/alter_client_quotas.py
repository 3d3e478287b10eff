"""AlterClientQuotas (49): sets and removes quotas (KIP-546)."""

from ottla.codec.fields import array, boolean, float64, int16, int32, string
from ottla.codec.schema import Message, Struct


class EntityData(Struct):
    """A null name is the default entity."""

    entity_type: str = string("0+")
    entity_name: str | None = string("0+", nullable="0+")


class OpData(Struct):
    key: str = string("0+")
    value: float = float64("0+")
    remove: bool = boolean("0+")


class EntryData(Struct):
    entity: list[EntityData] = array(EntityData, "0+")
    ops: list[OpData] = array(OpData, "0+")


class AlterClientQuotasRequest(Message, api_key=49, versions="0-1", flexible="1+"):
    entries: list[EntryData] = array(EntryData, "0+")
    validate_only: bool = boolean("0+")


class EntryResult(Struct):
    error_code: int = int16("0+")
    error_message: str | None = string("0+", nullable="0+")
    entity: list[EntityData] = array(EntityData, "0+")


class AlterClientQuotasResponse(Message, api_key=49, versions="0-1", flexible="1+"):
    throttle_time_ms: int = int32("0+")
    entries: list[EntryResult] = array(EntryResult, "0+")
