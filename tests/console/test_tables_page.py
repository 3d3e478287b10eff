"""The pages of tables: how far loads are, files, quarantine, and what is wrong."""

from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.files import OsFileSystem
from ottla.storage.directory.owner_note import owner_of
from ottla.testing import LocalBroker
from tests.console.asking import Browser, console_over

pytest.importorskip("deltalake")
from tests.support.local_loads import load


@pytest.fixture
def table(broker: LocalBroker, tmp_path: Path) -> str:
    path = str(tmp_path / "table")
    load(str(broker.directory), "orders", path)
    return path


def test_without_tables_the_page_says_how_to_name_one(browser: Browser) -> None:
    assert "ottla console --table DIR" in browser.text("/tables")
    assert browser.get("/tables/0").status_code == 404
    assert browser.get("/tables/..%2f..%2fetc").status_code == 404


@pytest.mark.slow
def test_a_table_shows_its_lag_its_files_and_its_commits(
    broker: LocalBroker, table: str, tmp_path: Path
) -> None:
    broker.produce("orders", "one more", partition=0)
    with console_over(broker.address, tables=(table, str(tmp_path / "none"))) as browser:
        loaded, none = browser.json("/tables")["tables"]
        assert (loaded["topic"], loaded["row_count"], loaded["problem"]) == ("orders", 6, "")
        assert (loaded["lag"], loaded["file_count"], loaded["small_count"]) == (1, 1, 1)
        of_partition = {one["partition"]: one for one in loaded["partitions"]}
        assert (of_partition[0]["loaded"], of_partition[0]["end"]) == (3, 4)
        assert (of_partition[1]["loaded"], of_partition[1]["end"]) == (3, 3)
        assert (none["commit_id"], none["lag"]) == (None, None)
        assert "no commit yet" in browser.text("/tables")
        one = browser.json("/tables/0")
        assert [(each["action"], each["rows"]) for each in one["commits"]] == [("load", 6)]
        assert "How far partition 0 is loaded" in browser.text("/tables/0")
        assert "Nothing is loaded yet" in browser.text("/tables/1")


@pytest.mark.slow
def test_a_table_of_a_topic_that_was_deleted_or_is_another_one_says_so(
    broker: LocalBroker, table: str
) -> None:
    with console_over(broker.address, tables=(table,)) as browser:
        broker.log.delete_topic("orders")
        assert browser.json("/tables/0")["problem"] == "topic orders is not there"
        broker.create_topic("orders", partitions=2)
        assert "topic orders is another one since the load" in browser.text("/tables/0")


@pytest.mark.slow
def test_a_damaged_table_is_named_and_the_others_are_shown(
    broker: LocalBroker, table: str, tmp_path: Path
) -> None:
    damaged = tmp_path / "damaged"
    load(str(broker.directory), "orders", str(damaged))
    (log,) = (damaged / "_delta_log").glob("*.json")
    log.write_text("{")
    with console_over(broker.address, tables=(str(damaged), table)) as browser:
        first, second = browser.json("/tables")["tables"]
        assert str(damaged) in first["problem"]
        assert (second["problem"], second["lag"]) == ("", 0)


def test_a_table_that_a_broker_keeps_is_there_with_the_error_of_its_load(
    broker: LocalBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    status = {"topic": "orders", "into": str(tmp_path / "served"), "error": "no <b>space</b>"}
    found = owner_of(OsFileSystem(), str(broker.directory))
    assert found is not None
    noted = replace(found, tables=(status,))
    monkeypatch.setattr("ottla.console.views.tables.owner_of", lambda *_: noted)
    with console_over(broker.address) as browser:
        (only,) = browser.json("/tables")["tables"]
        assert (only["path"], only["is_followed"]) == (status["into"], True)
        assert "no &lt;b&gt;space&lt;/b&gt;" in browser.text("/tables/0")
