"""What a person does with a registry, over HTTP with the served one, and with a directory."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("avro")

from ottla.base.errors import RefusalError, UnreachableError
from ottla.schema_registry.administration import (
    NewSchema,
    Reference,
    RegistryAdmin,
    SubjectVersion,
    open_admin,
)
from ottla.schema_registry.directory import DirectoryRegistry
from ottla.schema_registry.http import HttpRegistry
from ottla.schema_registry.registry import UnknownSchemaError
from ottla.schema_registry.served.api import Api
from ottla.schema_registry.served.http import RegistryServer
from tests.unit.schema_registry.test_served_api import ListedLog

INT, LONG, TEXT = (NewSchema(text=f'"{kind}"') for kind in ("int", "long", "string"))
SUBJECT = "shop/orders value"


@pytest.fixture
def admin() -> Iterator[RegistryAdmin]:
    server = RegistryServer(("127.0.0.1", 0), Api(ListedLog()), [])
    server.start()
    yield open_admin(HttpRegistry(f"http://127.0.0.1:{server.port}"))
    server.close()


def test_a_subject_is_registered_listed_and_read(admin: RegistryAdmin) -> None:
    assert admin.subjects() == []
    assert admin.register(SUBJECT, INT) == 1
    assert admin.register(SUBJECT, LONG) == 2
    assert admin.subjects() == [SUBJECT]
    assert admin.versions(SUBJECT) == [1, 2]
    assert admin.version(SUBJECT, 2) == SubjectVersion(
        subject=SUBJECT, version=2, schema_id=2, text='"long"'
    )
    found = admin.find(SUBJECT, INT)
    assert found is not None
    assert found.version == 1
    assert admin.find(SUBJECT, TEXT) is None
    with pytest.raises(UnknownSchemaError, match="has no version 9 of subject"):
        admin.version(SUBJECT, 9)


def test_a_schema_that_may_not_follow_has_reasons(admin: RegistryAdmin) -> None:
    assert admin.faults(SUBJECT, TEXT) == []
    admin.register(SUBJECT, INT)
    (fault,) = admin.faults(SUBJECT, TEXT)
    assert "the new schema cannot read what the old one wrote" in fault
    assert admin.faults(SUBJECT, LONG) == []
    with pytest.raises(RefusalError, match="schema registry http"):
        admin.register(SUBJECT, TEXT)
    with pytest.raises(RefusalError):
        admin.faults(SUBJECT, NewSchema(text="{"))


def test_levels_are_of_all_or_of_a_subject(admin: RegistryAdmin) -> None:
    admin.register(SUBJECT, INT)
    assert admin.level() == ("BACKWARD", True)
    assert admin.level(SUBJECT) == ("BACKWARD", False)
    admin.set_level(SUBJECT, "NONE")
    admin.set_level(None, "FULL")
    assert (admin.level(SUBJECT), admin.level()) == (("NONE", True), ("FULL", True))
    admin.set_level(SUBJECT, None)
    assert admin.level(SUBJECT) == ("FULL", False)
    with pytest.raises(RefusalError):
        admin.set_level(None, "SIDEWARD")


def test_what_is_deleted_is_there_until_it_is_deleted_for_good(admin: RegistryAdmin) -> None:
    admin.register(SUBJECT, INT)
    admin.register(SUBJECT, LONG)
    with pytest.raises(UnknownSchemaError, match="deleted"):
        admin.delete(SUBJECT, 1, is_permanent=True)
    admin.delete(SUBJECT, 1, is_permanent=False)
    assert (admin.versions(SUBJECT), admin.versions(SUBJECT, with_deleted=True)) == ([2], [1, 2])
    assert admin.version(SUBJECT, 1).text == '"int"'
    admin.delete(SUBJECT, 1, is_permanent=True)
    assert admin.versions(SUBJECT, with_deleted=True) == [2]
    admin.delete(SUBJECT, None, is_permanent=False)
    assert (admin.subjects(), admin.subjects(with_deleted=True)) == ([], [SUBJECT])
    admin.delete(SUBJECT, None, is_permanent=True)
    assert admin.subjects(with_deleted=True) == []


def test_references_go_both_ways(admin: RegistryAdmin) -> None:
    money = '{"type": "record", "name": "Money", "fields": [{"name": "cents", "type": "int"}]}'
    admin.register("money", NewSchema(text=money))
    bill = '{"type": "record", "name": "Bill", "fields": [{"name": "total", "type": "Money"}]}'
    reference = Reference("Money", "money", 1)
    new = NewSchema(text=bill, references=(reference,))
    schema_id = admin.register("bill", new)
    assert admin.version("bill", 1).references == (reference,)
    assert admin.referenced_by("money", 1) == [schema_id]
    assert admin.referenced_by("bill", 1) == []


def test_a_directory_is_read_only(tmp_path: Path) -> None:
    for name in ("orders-value.1.avsc", "orders-value.3.avsc", "bills.json", "7.avsc"):
        (tmp_path / name).write_text('"int"')
    (tmp_path / "notes.txt").write_text("not a schema")
    (tmp_path / "89791762-2336-4186-9674-299b90a802e2.avsc").write_text('"int"')
    admin = open_admin(DirectoryRegistry(str(tmp_path)))
    assert admin.subjects() == ["bills", "orders-value"]
    assert admin.versions("orders-value") == [1, 3]
    assert (admin.version("bills", 1).kind, admin.version("bills", 1).schema_id) == ("JSON", None)
    assert (admin.level("bills"), admin.referenced_by("bills", 1)) == (("NONE", False), [])
    with pytest.raises(UnknownSchemaError, match="has no subject order"):
        admin.versions("order")
    with pytest.raises(UnknownSchemaError, match="no version 2"):
        admin.version("orders-value", 2)
    writes = (
        lambda: admin.register("a", INT),
        lambda: admin.delete("a", None, is_permanent=False),
        lambda: admin.set_level(None, "NONE"),
        lambda: admin.find("a", INT),
        lambda: admin.faults("a", INT),
    )
    for write in writes:
        with pytest.raises(RefusalError, match="change its files"):
            write()


def test_a_registry_that_is_not_there_may_be_later() -> None:
    with pytest.raises(UnreachableError, match="cannot be reached"):
        open_admin(HttpRegistry("http://127.0.0.1:1")).subjects()
