"""Keys and values decoded by a registry or a schema file: as the commands decode them."""

import json
import time
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from markupsafe import escape

import ottla
from ottla.base.errors import UserError
from ottla.console.decoding import (
    LARGEST_SCHEMA,
    LARGEST_VALUE,
    MOST_UNKNOWN,
    REST_S,
    Decodings,
    SchemaFile,
)
from ottla.record.record import Record
from ottla.schema_registry.administration import NewSchema, open_admin
from ottla.schema_registry.directory import DirectoryRegistry
from ottla.schema_registry.framing import PREFIX
from ottla.schema_registry.http import HttpRegistry
from ottla.schema_registry.registry import RegisteredSchema, UnknownSchemaError
from ottla.schema_registry.served.api import Api
from ottla.schema_registry.served.http import RegistryServer
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, Browser, console_over
from tests.support.patience import PATIENCE_S
from tests.unit.schema_registry.test_served_api import ListedLog

fastavro = pytest.importorskip("fastavro")
pytest.importorskip("avro")

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "tea", "type": "string"},
        {"name": "pots", "type": "int"},
        {"name": "raw", "type": "bytes", "default": ""},
    ],
}


def avro(schema: Any, value: Any, prefix: bytes = b"") -> bytes:
    stream = BytesIO(prefix)
    stream.seek(0, 2)
    fastavro.schemaless_writer(stream, fastavro.parse_schema(schema), value)
    return stream.getvalue()


def order(tea: str, pots: int, schema_id: int | None = 7) -> bytes:
    prefix = b"" if schema_id is None else PREFIX.pack(0, schema_id)
    return avro(ORDER, {"tea": tea, "pots": pots, "raw": b"\xff"}, prefix)


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("registry")
    (folder / "7.avsc").write_text(json.dumps(ORDER))
    (folder / "8.avsc").write_text('{"type": "record"}')
    (folder / "9.json").write_text("{}")
    (folder / "k.avsc").write_text('"string"')
    (folder / "10.avsc").write_text('"string"')
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("decoded") / "data"
    with ottla.open(path, FEW_LOGS) as log:
        log.create_topic("orders")
        log.append("orders", order("Assam", 3), avro("string", "eva", PREFIX.pack(0, 10)))
        log.append("orders", order("Sencha", 40), b"plain")
        log.append("orders", PREFIX.pack(0, 99) + b"\xff\xfe", b"k")
        log.append("orders", order("Assam", 1)[:-1], b"k")
        log.append("orders", PREFIX.pack(0, 8) + b"<b>", b"k")
        log.append("orders", b'{"tea": "Assam", "pots": 2}', b"k")
        log.append("orders", PREFIX.pack(0, 9) + b'{"tea": "</script><b>\\u202e"}', None)
        log.append("orders", None, b"k")
        log.create_topic("bills")
        log.append("bills", order("Rooibos", 5, None), b"k")
        log.append("bills", b"\xff", b"k")
    return path


def decodings(registry: Path | None = None, **files: Path) -> Decodings:
    opened = None if registry is None else DirectoryRegistry(str(registry))
    return Decodings(opened, {(topic, "value"): SchemaFile(path=at) for topic, at in files.items()})


@pytest.fixture
def browser(data: Path, registry: Path) -> Iterator[Browser]:
    with console_over(data, decodings=decodings(registry, bills=registry / "7.avsc")) as found:
        yield found


def shown(browser: Browser, path: str = "/topics/orders/messages?order=oldest") -> list[Any]:
    found = browser.json(path)
    return [(one["key"]["text"], one["value"]) for one in found["messages"]]


def test_values_are_decoded_by_their_schemas_in_the_registry(browser: Browser) -> None:
    keys, values = zip(*shown(browser), strict=True)
    assert keys[:2] == ('"eva"', "plain")
    assert json.loads(values[0]["text"]) == {"tea": "Assam", "pots": 3, "raw": "/w=="}
    assert [one["by"] for one in values] == ["schema 7"] * 2 + [""] * 4 + ["schema 9", ""]
    assert values[5]["kind"] == "json"
    assert values[7]["kind"] == "null"


def test_what_does_not_decode_has_its_bytes_and_the_reason(browser: Browser) -> None:
    values = [value for _, value in shown(browser)]
    unknown, short, invalid = values[2:5]
    assert (unknown["kind"], unknown["text"]) == ("hex", "00 00 00 00 63 ff fe")
    assert "no schema id 99" in unknown["fault"]
    assert "not of the Avro schema" in short["fault"]
    assert (invalid["text"], invalid["size"]) == ("\\x00\\x00\\x00\\x00\\x08<b>", 8)
    assert "Avro" in invalid["fault"]
    page = browser.text("/topics/orders/messages")
    assert "not decoded: " in page
    assert "<b>" not in page.replace("<b>{{", "")
    one = browser.text("/topics/orders/messages/0/2")
    assert "Not decoded: " in one


def test_a_schema_file_decodes_a_topics_values(browser: Browser) -> None:
    good, bad = [value for _, value in shown(browser, "/topics/bills/messages?order=oldest")]
    assert (json.loads(good["text"])["tea"], good["by"]) == ("Rooibos", "avro")
    assert (bad["kind"], bad["text"]) == ("hex", "ff")
    assert bad["fault"]


@pytest.mark.parametrize(
    ("query", "kind", "text"),
    [
        ("value_as=hex", "hex", "00 00 00 00 07 0a"),
        ("value_as=base64", "base64", "AAAAAAcK"),
        ("value_as=text", "text", "\\x00\\x00\\x00\\x00\\x07"),
        ("value_as=registry", "json", '{\n  "tea": "Assam"'),
    ],
)
def test_another_view_is_chosen_by_a_parameter(
    browser: Browser, query: str, kind: str, text: str
) -> None:
    value = browser.json(f"/topics/orders/messages/0/0?{query}")["value"]
    assert value["kind"] == kind
    assert value["text"].startswith(text)


def test_a_choice_goes_along_with_the_links_of_its_page(browser: Browser) -> None:
    page = browser.text("/topics/orders/messages?value_as=hex&key_as=text")
    assert 'href="/topics/orders/messages/0/0?key_as=text&amp;value_as=hex"' in page
    assert 'href="/topics/orders/tail?key_as=text&amp;value_as=hex"' in page
    assert '<option value="hex" selected>' in page
    tail = browser.text("/topics/orders/tail?value_as=hex&partition=0")
    assert 'data-tail="/topics/orders/tail-stream?value_as=hex&amp;partition=0"' in tail


def test_a_choice_that_a_topic_does_not_have_is_refused(browser: Browser, data: Path) -> None:
    found = browser.get("/topics/orders/messages?value_as=avro&format=json")
    assert (found.status_code, found.json()["parameter"]) == (400, "value_as")
    assert browser.get("/topics/bills/messages?value_as=avro").status_code == 200
    with console_over(data) as plain:
        found = plain.get("/topics/orders/messages/0/0?value_as=registry")
        assert found.status_code == 400
        assert "auto, json, text, hex, base64" in found.text
        assert "names schema 7 of a registry" in plain.text("/topics/orders/messages/0/0")


@pytest.mark.parametrize(
    ("query", "offsets"),
    [
        ("where=.tea+%3D+Assam", [0, 5]),
        ("where=.pots+%3E+10", [1]),
        ("text=%22tea%22%3A%22Assam%22", [0]),
        ("text=eva", [0]),
        ("key=eva", [0]),
        ("key=%22eva%22", [0]),
        ("key=plain", [1]),
        ("where=.tea+%3D+Assam&value_as=json", [5]),
    ],
)
def test_conditions_are_tested_with_decoded_fields(
    browser: Browser, query: str, offsets: list[int]
) -> None:
    found = browser.json(f"/topics/orders/messages?order=oldest&{query}")
    assert [one["offset"] for one in found["messages"]] == offsets


def test_the_tail_and_a_search_that_goes_on_decode_too(browser: Browser, data: Path) -> None:
    with browser.client.stream(
        "GET", "/topics/orders/messages-stream?where=.pots+%3E+2&order=oldest"
    ) as answer:
        text = "".join(answer.iter_text())
    assert "&#34;tea&#34;:&#34;Sencha&#34;" in text
    page = browser.text("/topics/bills/tail")
    assert "&#34;tea&#34;:&#34;Rooibos&#34;" in page


# Bounds


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Failing:
    """A registry that fails, or has nothing."""

    def __init__(self, error: type[UserError]) -> None:
        self.error = error
        self.asked = 0

    def schema(self, schema_id: int) -> RegisteredSchema:
        self.asked += 1
        raise self.error(f"no schema {schema_id}")

    def schema_of_guid(self, guid: str) -> RegisteredSchema:
        return self.schema(0)

    def versions(self, subject: str) -> list[RegisteredSchema]:
        raise self.error("nothing")


def record(value: bytes) -> Record:
    return Record(offset=0, value=value)


def test_a_registry_that_fails_rests_before_it_is_asked_again() -> None:
    clock, registry = Clock(), Failing(UserError)
    decoding = Decodings(registry, clock=clock).of("orders")
    for _ in range(5):
        found = decoding.decoded("value", record(order("Assam", 1)))
        assert found is not None
        assert found.fault == "no schema 7"
    assert registry.asked == 1
    clock.now = REST_S + 1
    decoding.begin()
    decoding.decoded("value", record(order("Assam", 1)))
    assert registry.asked == 2


def test_unknown_ids_are_asked_for_a_limited_number_of_times() -> None:
    clock, registry = Clock(), Failing(UnknownSchemaError)
    known = Decodings(registry, clock=clock)
    for number in range(3 * MOST_UNKNOWN):
        decoding = known.of("orders")
        decoding.decoded("value", record(PREFIX.pack(0, number) + b"a"))
    assert registry.asked == MOST_UNKNOWN
    clock.now = 61
    known.of("orders").decoded("value", record(PREFIX.pack(0, 1) + b"a"))
    assert registry.asked == MOST_UNKNOWN + 1


class Huge(Failing):
    def schema(self, schema_id: int) -> RegisteredSchema:
        self.asked += 1
        return RegisteredSchema(text='{"doc": "' + "x" * LARGEST_SCHEMA + '", "type": "string"}')


def test_large_schemas_large_values_and_slow_pages_are_shown_as_bytes() -> None:
    clock = Clock()
    decoding = Decodings(Huge(UserError), clock=clock).of("orders")
    found = decoding.decoded("value", record(order("Assam", 1)))
    assert found is not None
    assert "the console decodes with schemas of at most 256.0 KiB" in found.fault
    found = decoding.decoded("value", record(PREFIX.pack(0, 1) + b"a" * LARGEST_VALUE))
    assert found is not None
    assert "more than the 1.0 MiB" in found.fault
    clock.now = 3
    found = decoding.decoded("value", record(order("Assam", 1)))
    assert found is not None
    assert "took 2 s to decode" in found.fault


def test_bytes_of_a_schema_file_may_look_as_if_they_named_a_schema(registry: Path) -> None:
    text = json.dumps({"type": "record", "name": "Maybe", "fields": [
        {"name": "a", "type": ["int", "null"]}, {"name": "b", "type": "string"}]})  # fmt: skip
    (registry / "maybe.avsc").write_text(text)
    decoding = decodings(registry, orders=registry / "maybe.avsc").of("orders")
    value = avro(json.loads(text), {"a": 0, "b": "abc"})
    assert value[0] == 0
    found = decoding.decoded("value", record(value))
    assert found is not None
    assert (found.name, found.found) == ("avro", {"a": 0, "b": "abc"})


# Producing


def registered(browser: Browser, *fields: dict[str, Any]) -> None:
    found = browser.console.place.target.decodings.registry
    assert found is not None
    text = json.dumps({"type": "record", "name": "Order", "fields": list(fields)})
    open_admin(found).register("orders-value", NewSchema(text=text))


@pytest.fixture
def writing(broker: LocalBroker, registry: Path) -> Iterator[Browser]:
    """A console over a broker and a served registry, with a schema file for the keys of orders."""
    server = RegistryServer(("127.0.0.1", 0), Api(ListedLog()), [])
    server.start()
    files = {("orders", "key"): SchemaFile(path=registry / "k.avsc")}
    opened = HttpRegistry(f"http://127.0.0.1:{server.port}")
    with console_over(broker.address, decodings=Decodings(opened, files)) as found:
        yield found
    server.close()


def test_a_message_is_encoded_by_the_registry_and_a_schema_file(writing: Browser) -> None:
    registered(writing, {"name": "tea", "type": "string"})
    path = "/topics/orders/produce"
    assert "value_as" in writing.text(path)
    form = {"key": '"eva"', "value": '{"tea": "Oolong"}', "value_as": "registry", "partition": "0"}
    shown = writing.post(path, form)
    assert "The value is encoded with version 1 of subject orders-value." in shown.text
    assert "The key is encoded with the avro schema of the topic." in shown.text
    assert "value_base64" in shown.text or "\\u0000" in shown.text
    writing.confirm(path, shown)
    found = writing.json("/topics/orders/messages?limit=1")["messages"][0]
    assert (found["key"]["text"], found["key"]["by"]) == ('"eva"', "avro")
    assert (found["value"]["text"], found["value"]["by"]) == ('{"tea":"Oolong"}', "schema 1")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        (
            {"value": '{"tea": 1}', "value_as": "registry"},
            "the value cannot be encoded (registry): not of the",
        ),
        ({"value": "{", "value_as": "registry"}, "the value cannot be encoded (registry): "),
        ({"value": "<b>", "value_as": "json"}, "the value cannot be encoded (json): "),
        ({"value": "0", "value_as": "hex"}, "the value cannot be encoded (hex): "),
        ({"value": "=", "value_as": "base64"}, "the value cannot be encoded (base64): "),
        ({"value": "a", "value_as": "xml"}, "value_as is one of "),
        ({"value": "a", "key": "7"}, "the key cannot be encoded (avro): not of the Avro schema"),
        ({"value": "a", "partition": "one"}, "partition one: write a number"),
    ],
)
def test_what_cannot_be_encoded_is_refused_with_the_form_as_it_was_written(
    writing: Browser, form: dict[str, str], words: str
) -> None:
    registered(writing, {"name": "tea", "type": "string"})
    answer = writing.post("/topics/orders/produce", form)
    assert answer.status_code == 400
    assert words in answer.text
    assert f">{escape(form['value'])}</textarea>" in answer.text
    assert "<b>" not in answer.text


def test_a_subject_that_is_not_there_cannot_encode(writing: Browser) -> None:
    form = {"value": "{}", "value_as": "registry"}
    answer = writing.post("/topics/orders/produce", form)
    assert (answer.status_code, "has no subject orders-value" in answer.text) == (400, True)


@pytest.mark.slow  # protoc is a process.
def test_hostile_values_and_schemas_cost_a_page_a_bounded_time(data: Path, registry: Path) -> None:
    """Deep JSON, nested messages, endless lists, invalid UTF-8: a page each, and bytes or a cut."""
    pytest.importorskip("grpc_tools", reason="no compiler of .proto: grpcio-tools is not installed")
    text = 'syntax = "proto3"; message Deep { Deep next = 1; repeated int32 many = 2; }'
    (registry / "20.proto").write_text(text)
    (registry / "21.proto").write_text("syntax = 'proto3'; message A { B b = 1; ")
    nulls = {"type": "array", "items": "null"}
    (registry / "22.avsc").write_text(json.dumps(nulls))
    deep = b""
    for _ in range(300):
        deep = b"\x0a" + _varint(len(deep)) + deep
    many = bytes(900_000)
    values = {
        "deep": b'{"a":' * 50_000,
        "brackets": b"[" * 900_000,
        "wide": b"[" + b"[]," * 250_000 + b"[]]",
        "broken": b'{"a": "\xff"}',
        "nested": PREFIX.pack(0, 20) + b"\0" + deep,
        "repeated": PREFIX.pack(0, 20) + b"\0" + b"\x12" + _varint(len(many)) + many,
        "invalid": PREFIX.pack(0, 21) + b"\0\0",
        "endless": PREFIX.pack(0, 22) + b"\xfe\xff\xff\xff\xff\xff\xff\xff\x7f",
        "surrogate": b'{"a": "\\ud800"}',
    }
    path = data.parent / "hostile"
    with ottla.open(path, {**FEW_LOGS, "message.max.bytes": 2_000_000}) as log:
        log.create_topic("hostile")
        for value in values.values():
            log.append("hostile", value)
    began = time.monotonic()
    with console_over(path, decodings=decodings(registry)) as browser:
        for page in ("messages?order=oldest", "messages?where=.a+%3D+1&order=oldest", "tail"):
            assert browser.get(f"/topics/hostile/{page}").status_code == 200
        faults = {}
        for offset, name in enumerate(values):
            answer = browser.get(f"/topics/hostile/messages/0/{offset}")
            assert answer.status_code == 200, name
            assert len(answer.content) < 8 << 20, name
            found = browser.json(f"/topics/hostile/messages/0/{offset}")["value"]
            faults[name] = found["fault"]
    assert time.monotonic() - began < PATIENCE_S
    assert "not a Protobuf message Deep" in faults["nested"]
    assert "not a Protobuf schema" in faults["invalid"]
    assert faults["endless"]
    assert [one for one in faults if faults[one]] == ["nested", "invalid", "endless"]


def _varint(number: int) -> bytes:
    found = bytearray()
    while number > 0x7F:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*found, number])
