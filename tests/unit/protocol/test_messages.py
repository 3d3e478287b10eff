"""What holds for every message: names, versions, types, and safety against any bytes."""

import pkgutil
import random
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Any, get_args, get_type_hints

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.base.files import Buffer
from ottla.base.ids import Uuid
from ottla.codec.fields import Field
from ottla.codec.primitives import Output, Records
from ottla.codec.schema import Message, reader, writer
from ottla.protocol import messages
from ottla.protocol.api_keys import FIRST_FLEXIBLE_VERSIONS, NEVER, ApiKey
from ottla.protocol.messages import DECLARED, module_name, request_class, response_class
from tests.support.random_messages import random_message

APIS = sorted(DECLARED)
PYTHON_TYPES: dict[str, Any] = {
    **dict.fromkeys(("int8", "int16", "uint16", "int32", "int64"), int),
    "float64": float,
    "boolean": bool,
    "string": str,
    "binary": bytes,
    "uuid": Uuid,
}
RECORDS = (set(get_args(Buffer)), set(get_args(Records)))
"""Records are a buffer in a produce, and anything in a fetch."""

each_api = pytest.mark.parametrize("api_key", APIS, ids=lambda key: key.name)


def both(api_key: ApiKey) -> Iterator[type[Message]]:
    yield request_class(api_key)
    yield response_class(api_key)


def versions(message: type[Message]) -> range:
    return range(message.VERSIONS.first, message.VERSIONS.last + 1)


def test_every_declared_api_has_a_file_and_every_file_is_declared() -> None:
    files = {module.name for module in pkgutil.iter_modules(messages.__path__)}
    assert files == {module_name(api_key) for api_key in DECLARED}


@each_api
def test_request_and_response_agree_on_key_and_versions(api_key: ApiKey) -> None:
    request, response = both(api_key)
    assert request.API_KEY == response.API_KEY == api_key
    assert request.VERSIONS == response.VERSIONS
    assert request.FLEXIBLE == response.FLEXIBLE
    is_flexible_from = request.FLEXIBLE.first if request.FLEXIBLE.last >= 0 else NEVER
    assert FIRST_FLEXIBLE_VERSIONS[api_key] == is_flexible_from


def test_an_api_without_messages_is_an_unsupported_version() -> None:
    for api_key in (ApiKey.STREAMS_GROUP_HEARTBEAT, 999):
        for find in (request_class, response_class):
            with pytest.raises(ApiError) as caught:
                find(api_key)
            assert caught.value.code is ErrorCode.UNSUPPORTED_VERSION


@each_api
def test_annotations_say_what_the_fields_hold(api_key: ApiKey) -> None:
    for message in both(api_key):
        check_annotations(message)


def check_annotations(struct: Any) -> None:
    hints = get_type_hints(struct)
    for field in struct.FIELDS:
        hint = hints[field.name]
        types = set(get_args(hint)) if isinstance(hint, UnionType) else {hint}
        where = f"{struct.__name__}.{field.name}"
        assert (NoneType in types) == may_be_none(field), where
        types.discard(NoneType)
        if field.kind == "records":
            assert types in RECORDS, where
        else:
            assert types == {expected_type(field)}, where
        if field.struct is not None:
            check_annotations(field.struct)


def may_be_none(field: Field) -> bool:
    return field.nullable is not None or (field.kind == "nested" and field.tag is not None)


def expected_type(field: Field) -> Any:
    if field.kind == "array":
        element = field.struct if field.element is None else PYTHON_TYPES[field.element.kind]
        return list[element]
    return field.struct if field.kind == "nested" else PYTHON_TYPES[field.kind]


@each_api
def test_every_message_survives_the_way_there_and_back(api_key: ApiKey) -> None:
    chance = random.Random(7)
    for message in both(api_key):
        for version in versions(message):
            made = random_message(message, version, chance)
            data = b"before" + encode(made, version)
            again, position = reader(message, version)(data + b"behind", len(b"before"))
            assert (again, position) == (made, len(data))
            assert encode(again, version) == data[len(b"before") :]


@each_api
def test_a_default_message_can_be_written_in_every_version(api_key: ApiKey) -> None:
    for message in both(api_key):
        for version in versions(message):
            data = encode(message(), version)
            assert reader(message, version)(data, 0)[1] == len(data)


@each_api
def test_broken_messages_are_read_or_refused_with_our_error(api_key: ApiKey) -> None:
    chance = random.Random(11)
    for message in both(api_key):
        for version in versions(message):
            data = encode(random_message(message, version, chance), version)
            for broken in damaged(data, chance):
                check_that_only_our_error_comes(message, version, broken)


def damaged(data: bytes, chance: random.Random) -> Iterator[bytes]:
    """Cut short, with bytes replaced, and with huge counts and lengths written over it."""
    for _ in range(4):
        yield data[: chance.randrange(len(data) + 1)]
    for extreme in (b"\xff", b"\x7f", b"\x80", b"\x00", b"\x7f\xff\xff\xff", b"\xff" * 5):
        position = chance.randrange(len(data) + 1)
        yield data[:position] + extreme + data[position + len(extreme) :]
        yield data[:position] + extreme + data[position:]


def check_that_only_our_error_comes(message: type[Message], version: int, data: bytes) -> None:
    try:
        _, position = reader(message, version)(data, 0)
    except ProtocolError:
        return
    assert position <= len(data)


@given(st.sampled_from(APIS), st.booleans(), st.integers(0, 18), st.binary(max_size=120))
def test_garbage_is_read_or_refused_with_our_error(
    api_key: ApiKey, is_request: bool, version: int, data: bytes
) -> None:
    message = request_class(api_key) if is_request else response_class(api_key)
    known = message.VERSIONS
    check_that_only_our_error_comes(message, min(max(version, known.first), known.last), data)


def encode(message: Message, version: int) -> bytes:
    output = Output()
    writer(type(message), version)(message, output)
    return output.read_all()
