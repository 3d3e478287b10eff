"""The pages of the schema registry: what they show, and what they change."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

pytest.importorskip("avro")

import ottla
from ottla.console.decoding import Decodings
from ottla.console.pages import Ask, Page
from ottla.console.targets import Place
from ottla.console.views.schemas import delete
from ottla.console.views.schemas import register as register_view
from ottla.schema_registry.administration import NewSchema, Reference, RegistryAdmin, open_admin
from ottla.schema_registry.directory import DirectoryRegistry
from ottla.schema_registry.http import HttpRegistry
from ottla.schema_registry.served.api import Api
from ottla.schema_registry.served.http import RegistryServer
from tests.console.asking import FEW_LOGS, Browser, console_over
from tests.unit.schema_registry.test_served_api import ListedLog

HOSTILE = "<img src=x onerror=alert(1)>/orders-value"


def record(*fields: dict[str, Any]) -> str:
    return json.dumps({"type": "record", "name": "Order", "fields": list(fields)})


ID, TEA = {"name": "id", "type": "int"}, {"name": "tea", "type": "string"}
NOTE = {"name": "note", "type": "string", "default": ""}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("schemas") / "data"
    with ottla.open(path, FEW_LOGS) as log:
        log.create_topic("orders")
    return path


@pytest.fixture
def registry() -> Iterator[HttpRegistry]:
    server = RegistryServer(("127.0.0.1", 0), Api(ListedLog()), [])
    server.start()
    yield HttpRegistry(f"http://127.0.0.1:{server.port}")
    server.close()


@pytest.fixture
def admin(registry: HttpRegistry) -> RegistryAdmin:
    found = open_admin(registry)
    found.register("orders-value", NewSchema(text=record(ID)))
    found.register("orders-value", NewSchema(text=record(ID, NOTE)))
    return found


@pytest.fixture
def browser(data: Path, registry: HttpRegistry, admin: RegistryAdmin) -> Iterator[Browser]:
    with console_over(data, decodings=Decodings(registry)) as found:
        yield found


def test_subjects_are_listed_filtered_and_paged(browser: Browser, admin: RegistryAdmin) -> None:
    admin.register("bills-key", NewSchema(text='"string"'))
    admin.register(HOSTILE, NewSchema(text='"string"'))
    found = browser.json("/schemas")
    assert [one["name"] for one in found["subjects"]] == [HOSTILE, "bills-key", "orders-value"]
    assert [one["topic"] for one in found["subjects"]][1:] == ["bills", "orders"]
    assert found["level"] == "BACKWARD"
    assert browser.json("/schemas?q=BILL")["count"] == 1
    page = browser.text("/schemas")
    assert "<img" not in page
    assert f'href="/schema?subject={quote(HOSTILE, safe="/")}"' in page
    assert browser.get("/schemas?page=2").status_code == 400


def test_a_subject_shows_a_version_formatted_with_its_id_and_level(browser: Browser) -> None:
    found = browser.json("/schema?subject=orders-value")
    assert (found["number"], found["id"], found["kind"]) == (2, 2, "AVRO")
    assert [one["number"] for one in found["versions"]] == [2, 1]
    assert found["schema"]["text"].startswith('{\n  "type": "record"')
    assert (found["level"], found["is_own_level"]) == ("BACKWARD", False)
    assert browser.json("/schema?subject=orders-value&version=1")["id"] == 1
    wrong = browser.get("/schema?subject=orders-value&version=3", headers={"accept": "text/html"})
    assert (wrong.status_code, "version is one of 1, 2" in wrong.text) == (400, True)
    missing = browser.get("/schema?subject=order-value")
    assert (missing.status_code, "did you mean orders-value?" in missing.text) == (404, True)


def test_two_versions_are_compared_line_by_line(browser: Browser) -> None:
    found = browser.json("/schema/compare?subject=orders-value")
    assert (found["from"], found["to"]) == (1, 2)
    difference = found["difference"]
    assert difference["added"] > 0
    assert any(one == {"sign": "+", "text": '      "name": "note",'} for one in difference["lines"])
    assert "<ins>+ " in browser.text("/schema/compare?subject=orders-value")
    same = browser.text("/schema/compare?subject=orders-value&from=2&to=2")
    assert "They do not differ." in same


def test_references_lead_to_what_is_referenced(browser: Browser, admin: RegistryAdmin) -> None:
    text = json.dumps({"type": "array", "items": "Order"})
    new = NewSchema(text=text, references=(Reference("Order", "orders-value", 1),))
    schema_id = admin.register("baskets-value", new)
    page = browser.text("/schema?subject=baskets-value")
    assert "/schema?subject=orders-value&amp;version=1" in page
    assert browser.json("/schema?subject=orders-value&version=1")["referenced_by"] == [schema_id]
    refused = browser.post("/schema/delete", {"subject": "orders-value", "version": "1"})
    assert f"It is referenced by 1 schema, with id {schema_id}." in refused.text
    assert 'name="confirm"' not in refused.text


# Writes


def register(text: str, subject: str = "orders-value", **more: str) -> dict[str, str]:
    return {"subject": subject, "kind": "AVRO", "schema": text, **more}


def test_a_version_is_registered_after_a_preview_that_says_it_is_compatible(
    browser: Browser, admin: RegistryAdmin
) -> None:
    form = register(record(ID, NOTE, TEA | {"default": "Assam"}))
    shown = browser.post("/schema/register", form)
    assert shown.status_code == 200, shown.text
    assert "is compatible with subject orders-value, whose level is BACKWARD" in shown.text
    assert "<ins>+ " in shown.text
    command = browser.post("/schema/register?format=json", form).json()["command"]
    assert f"ottla schemas register {admin.address} --type AVRO -- orders-value -" in command
    assert admin.versions("orders-value") == [1, 2]
    done = browser.confirm("/schema/register", shown)
    assert "registered with id 3" in done.text
    assert admin.versions("orders-value") == [1, 2, 3]
    (entry,) = browser.json("/audit")["entries"]
    assert entry["outcome"] == "done"


def test_a_schema_that_may_not_follow_is_shown_with_the_reasons_and_no_button(
    browser: Browser,
) -> None:
    shown = browser.post("/schema/register", register(record(ID, TEA)))
    assert "The schema is not compatible" in shown.text
    assert "cannot read what the old one wrote" in shown.text
    assert 'name="confirm"' not in shown.text
    same = browser.post("/schema/register", register(record(ID)))
    assert "It is version 1 already, with id 1." in same.text
    assert 'name="confirm"' not in same.text


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (register('{"type": "<b>'), "schema registry"),
        (register(" "), "schema is the text of a schema"),
        (register('"int"', references="a b"), "references is a line each"),
        (register('"int"', references="a b one"), "references is a line each"),
        (register('"int"', kind="XML"), "kind is one of AVRO, PROTOBUF, JSON"),
    ],
)
def test_a_wrong_form_is_kept_as_it_was_written(
    browser: Browser, fields: dict[str, str], words: str
) -> None:
    answer = browser.post("/schema/register", fields)
    assert answer.status_code == 400
    assert words in answer.text
    assert 'value="orders-value"' in answer.text
    assert "<b>" not in answer.text


def test_the_form_of_a_known_subject_begins_with_its_latest_version(browser: Browser) -> None:
    fields = browser.json("/schema/register?subject=orders-value")["fields"]
    assert json.loads(fields["schema"]) == json.loads(record(ID, NOTE))
    assert browser.json("/schema/register?subject=new")["fields"]["schema"] == ""


def test_levels_are_set_and_unset(browser: Browser, admin: RegistryAdmin) -> None:
    done = browser.change("/schema/level", {"subject": "orders-value", "level": "NONE"})
    assert "the level is NONE now" in done.text
    assert admin.level("orders-value") == ("NONE", True)
    shown = browser.text("/schema/level?subject=orders-value&level=NONE")
    assert "There is nothing to change." in shown
    done = browser.change("/schema/level", {"subject": "orders-value", "level": "global"})
    assert admin.level("orders-value") == ("BACKWARD", False)
    browser.change("/schema/level", {"level": "FULL_TRANSITIVE"})
    assert admin.level() == ("FULL_TRANSITIVE", True)
    for wrong in ("", "SIDEWARD", "global"):
        assert browser.get(f"/schema/level?level={wrong}").status_code == 400


def test_a_subject_is_deleted_softly_and_then_for_good(
    browser: Browser, admin: RegistryAdmin
) -> None:
    early = browser.text("/schema/delete?subject=orders-value&permanent=1")
    assert "first delete it, then delete it for good" in early
    done = browser.change("/schema/delete", {"subject": "orders-value", "version": "1"})
    assert "version 1 is deleted" in done.text
    assert admin.versions("orders-value") == [2]
    assert browser.json("/schema?subject=orders-value&version=1")["is_deleted"]
    browser.change("/schema/delete", {"subject": "orders-value"})
    assert admin.subjects() == []
    assert browser.json("/schemas")["count"] == 0
    assert browser.json("/schemas?deleted=1")["subjects"][0]["is_deleted"]
    shown = browser.post("/schema/delete", {"subject": "orders-value", "permanent": "1"})
    assert "can no longer be decoded" in shown.text
    mistyped = browser.client.post("/schema/delete", data={})
    assert mistyped.status_code == 403
    browser.confirm("/schema/delete", shown)
    assert admin.subjects(with_deleted=True) == []


def test_a_read_only_console_and_a_directory_of_schemas_change_nothing(
    data: Path, registry: HttpRegistry, admin: RegistryAdmin, tmp_path: Path
) -> None:
    with console_over(data, decodings=Decodings(registry), is_read_only=True) as browser:
        assert "/schema/register" not in browser.text("/schemas")
        assert 'name="confirm"' not in browser.text("/schema/delete?subject=orders-value")
    (tmp_path / "orders-value.avsc").write_text('"int"')
    folder = Decodings(DirectoryRegistry(str(tmp_path)))
    with console_over(data, decodings=folder) as browser:
        assert browser.json("/schema?subject=orders-value")["schema"]["text"] == '"int"'
        page = browser.text("/schema/delete?subject=orders-value")
        assert "is a directory of schemas: change its files" in page


def test_without_a_registry_or_with_one_that_is_gone_pages_say_so(data: Path) -> None:
    with console_over(data) as browser:
        assert "ottla console --registry" in browser.text("/schemas")
        assert browser.get("/schema?subject=a").status_code == 400
    gone = Decodings(HttpRegistry("http://127.0.0.1:1"))
    with console_over(data, decodings=gone) as browser:
        answer = browser.get("/schemas")
        assert (answer.status_code, "cannot be reached" in answer.text) == (502, True)
        assert browser.get("/topics/orders/messages").status_code == 200


def test_a_large_schema_is_cut_and_not_compared(browser: Browser, admin: RegistryAdmin) -> None:
    admin.set_level(None, "NONE")
    symbols = [f"S{number}" for number in range(6000)]
    for kind in (symbols[:-1], symbols):
        text = json.dumps({"type": "enum", "name": "Many", "symbols": kind})
        admin.register("many-value", NewSchema(text=text))
    assert browser.json("/schema/compare?subject=many-value")["difference"]["is_too_large"]
    assert "too large to compare" in browser.text("/schema/compare?subject=many-value")


def test_users_of_the_broker_do_not_change_a_registry_that_does_not_know_them(
    browser: Browser, admin: RegistryAdmin
) -> None:
    target = replace(browser.console.place.target, has_sign_in=True)
    place = Place(target, target.settings)
    ask = Ask(place=place, state=browser.console.state, now_ms=0, query={"subject": "orders-value"})
    shown = delete(ask)
    assert isinstance(shown, Page)
    assert "as users of the broker" in shown.data["problem"]
    assert shown.data["confirm"] == ""
    form = {"subject": "new", "kind": "AVRO", "schema": '"int"'}
    refused = register_view(replace(ask, form=form))
    assert isinstance(refused, Page)
    assert refused.status == 400
    assert admin.subjects() == ["orders-value"]
    place.close()
