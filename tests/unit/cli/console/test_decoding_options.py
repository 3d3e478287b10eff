"""How `ottla console` is told of schemas: by options, or by the settings of a context."""

from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

pytest.importorskip("fastavro")

import ottla
from ottla.base.errors import UserError
from ottla.cli.console.decoding_options import decodings
from ottla.cli.main import cli
from ottla.cli.settings_files import registry_login
from ottla.schema_registry.framing import PREFIX
from ottla.schema_registry.http import HttpRegistry

NOTHING: dict[str, Any] = {
    "registry": None,
    "registry_config": None,
    "schema": (),
    "message": (),
    "key_schema": (),
    "key_message": (),
}


@pytest.fixture
def schema(tmp_path: Path) -> str:
    path = tmp_path / "orders.avsc"
    path.write_text('"string"')
    return str(path)


def test_a_schema_file_is_of_one_topics_keys_or_values(schema: str) -> None:
    given = {"schema": (f"orders={schema}",), "key_schema": (f"bills={schema}",)}
    found = decodings({**NOTHING, **given}, {})
    assert "avro" in found.choices("orders", "value")
    assert "avro" not in found.choices("orders", "key")
    assert "avro" in found.choices("bills", "key")
    assert "registry" not in found.choices("orders", "value")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"schema": ("orders.avsc",)}, "--schema orders.avsc: name the topic too, such as orders="),
        ({"key_message": ("shop.Key",)}, "--key-message shop.Key: name the topic too"),
        ({"message": ("orders=shop.Order",)}, "add --schema orders=FILE"),
        ({"schema": ("orders=/nowhere.avsc",)}, "/nowhere.avsc: No such file"),
        ({"schema": ("orders=/nowhere.proto",)}, "/nowhere.proto: "),
    ],
)
def test_what_names_no_schema_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises(UserError, match=words):
        decodings({**NOTHING, **given}, {})


def test_a_message_is_of_a_schema_with_messages(schema: str) -> None:
    given = {"schema": (f"orders={schema}",), "message": ("orders=shop.Order",)}
    with pytest.raises(UserError, match="a message is a type of a Protobuf schema"):
        decodings({**NOTHING, **given}, {})


def test_a_registry_is_of_an_option_or_else_of_the_settings() -> None:
    settings = {"schema.registry.url": "http://registry:8081", "basic.auth.user.info": "me:secret"}
    found = decodings(NOTHING, settings).registry
    assert isinstance(found, HttpRegistry)
    assert found.url == "http://registry:8081"
    found = decodings({**NOTHING, "registry": "http://other:8081"}, settings).registry
    assert isinstance(found, HttpRegistry)
    assert found.url == "http://other:8081"
    with pytest.raises(UserError, match=r"schema\.registry\.usr has no effect here"):
        decodings(NOTHING, settings | {"schema.registry.usr": "me"})


def test_a_login_is_for_the_registry_that_was_named_with_it() -> None:
    url = "http://registry:8081"
    settings = {"schema.registry.url": url, "basic.auth.user.info": "me:secret"}
    login = registry_login(None, settings, url)
    assert login is not None
    assert (login.user, login.password) == ("me", "secret")
    assert registry_login(None, settings, "http://other:8081") is None


def test_a_context_may_name_a_registry_that_those_ask_who_need_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ottla.open(tmp_path / "data") as log:
        log.create_topic("orders")
        log.append("orders", PREFIX.pack(0, 4) + b'{"tea": 1}')
    (tmp_path / "4.json").write_text("{}")
    contexts = tmp_path / "contexts.toml"
    contexts.write_text(
        f'[contexts.shop]\ntarget = "{tmp_path / "data"}"\n"schema.registry.url" = "{tmp_path}"\n'
    )
    monkeypatch.setenv("OTTLA_CONTEXTS", str(contexts))
    for target in (("@shop",), (str(tmp_path / "data"), "-X", "schema.registry.url=http://a:1")):
        found = CliRunner().invoke(cli, ["topics", "list", *target])
        assert (found.exit_code, "orders" in found.output) == (0, True), found.output
    found = CliRunner().invoke(cli, ["consume", "@shop", "orders", "--value", "registry"])
    assert (found.exit_code, found.output) == (0, '{"tea":1}\n')
    found = CliRunner().invoke(cli, ["consume", "@shop", "orders"])
    assert (found.exit_code, found.output) == (0, '\0\0\0\0\x04{"tea": 1}\n')
