"""Ottla's messages beside kio's, which are generated from Kafka's own declarations.

kio's versions begin where Apache Kafka 4 stopped supporting older ones; those are compared with
kafka-python only.
"""

import io
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any, get_args

import pytest
from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map
from kio.serial import entity_reader, entity_writer

from ottla.codec.fields import Field
from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import DECLARED, request_class
from ottla.protocol.own_tags import OWN_TAG
from tests.compat.messages import APIS, decoded, samples, versions_of

NEVER_WITH_KIO = {
    ApiKey.LEADER_AND_ISR,
    ApiKey.STOP_REPLICA,
    ApiKey.UPDATE_METADATA,
    ApiKey.CONTROLLED_SHUTDOWN,
    ApiKey.UNREGISTER_CONTROLLER,
}
"""APIs of ours that kio has no messages for: Apache Kafka 4 has no ZooKeeper, and kio is older than
4.4.
"""


def kio_class(message: type[Message], version: int) -> Any:
    """kio's class, or `None` when it lacks the version."""
    api_key = message.API_KEY
    assert api_key is not None
    if api_key in NEVER_WITH_KIO or version not in schema_name_map[api_key_map[api_key]]:
        return None
    is_request = message is request_class(api_key)
    load: Any = load_request_schema if is_request else load_response_schema
    return load(api_key, version)


def compared(api_key: ApiKey) -> Iterator[tuple[type[Message], int, Any]]:
    for message, version in versions_of(api_key):
        theirs = kio_class(message, version)
        if theirs is not None:
            yield message, version, theirs


@pytest.mark.parametrize("api_key", APIS, ids=lambda key: key.name)
def test_kio_reads_what_we_write_and_writes_the_same_bytes(api_key: ApiKey) -> None:
    count = 0
    for message, version, theirs in compared(api_key):
        read, write = entity_reader(theirs), entity_writer(theirs)
        for ours, data in samples(message, version):
            if api_key == ApiKey.SHARE_FETCH and has_no_records(ours):
                continue
            value, size = read(data, 0)
            assert size == len(data)
            again = io.BytesIO()
            write(again, value)
            assert again.getvalue() == data
            assert decoded(message, version, again.getvalue()) == ours
            count += 1
    assert count or api_key in NEVER_WITH_KIO


def has_no_records(message: Any) -> bool:
    """Whether a partition's records are null, as Kafka's declaration allows, and kio's does not."""
    topics = getattr(message, "responses", ())
    return any(one.records is None for topic in topics for one in topic.partitions)


@pytest.mark.parametrize("api_key", APIS, ids=lambda key: key.name)
def test_kio_declares_the_same_fields_in_the_same_order(api_key: ApiKey) -> None:
    """A tagged field that one side lacks would show nowhere else, since both may leave it out."""
    for message, version, theirs in compared(api_key):
        assert shape_of_ours(message, version) == shape_of_theirs(theirs)


def test_kio_knows_no_version_that_we_lack() -> None:
    for api_key in DECLARED - NEVER_WITH_KIO:
        known = request_class(api_key).VERSIONS
        for version in schema_name_map[api_key_map[api_key]]:
            assert version in known, f"{api_key.name} version {version}"


def shape_of_ours(struct: Any, version: int) -> list[Any]:
    """(tag, is an array, nested shape or `None`) per field; untagged first, in their order."""
    present: list[Field] = [
        one for one in struct.FIELDS if one.is_in(version) and (one.tag or 0) < OWN_TAG
    ]
    shape = [
        (
            one.tag,
            one.kind == "array",
            shape_of_ours(one.struct, version) if one.struct is not None else None,
        )
        for one in present
    ]
    return sorted(shape, key=by_tag)


def shape_of_theirs(entity: Any) -> list[Any]:
    shape = []
    for one in fields(entity):
        nested = next((kind for kind in flat_types(one.type) if is_dataclass(kind)), None)
        is_array = tuple in flat_types(one.type)
        tag = one.metadata.get("tag")
        shape.append((tag, is_array, shape_of_theirs(nested) if nested else None))
    return sorted(shape, key=by_tag)


def by_tag(field: tuple[int | None, bool, Any]) -> int:
    return -1 if field[0] is None else field[0]


def flat_types(annotation: Any) -> list[Any]:
    """All classes in an annotation such as `tuple[Topic, ...] | None`."""
    origin = getattr(annotation, "__origin__", annotation)
    return [origin] + [one for part in get_args(annotation) for one in flat_types(part)]
