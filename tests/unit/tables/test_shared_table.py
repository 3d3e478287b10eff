"""Tables that several may write at once, in an object store: moto's S3, and Azurite."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("deltalake")

import deltalake
import pyarrow as pa

from ottla.base.errors import UserError
from ottla.objects.arrow_store import STORAGE_OPTIONS
from ottla.tables.columns.identity import Upsert
from ottla.tables.columns.partitions import Partitioning, placed
from ottla.tables.columns.rows import row_columns
from ottla.tables.entries import LedgerEntry, MergeCounts
from ottla.tables.formats.transaction_log import CommitTakenError
from ottla.tables.layout import RAW, TableLayout
from ottla.tables.stores.shared_store import SharedStore
from ottla.tables.table import Table
from tests.support import azure_store, stores
from tests.support.merged_tables import Orders, order
from tests.unit.tables.test_table import entry

pytestmark = pytest.mark.slow

BY_DAY, BY_HOUR = (
    TableLayout(partitioning=placed(Partitioning.by_time(unit), row_columns(), is_spec=False))
    for unit in ("day", "hour")
)


@pytest.fixture(scope="module")
def s3() -> Iterator[int]:
    with stores.served() as port, environment(stores.environment_of(port)):
        yield port


@pytest.fixture(scope="module")
def azure() -> Iterator[int]:
    if reason := azure_store.absence():
        pytest.skip(reason)
    with azure_store.served() as port, environment(azure_store.environment_of(port)):
        yield port


@contextmanager
def environment(variables: Mapping[str, str]) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        yield


@pytest.fixture(params=["s3", "azure"])
def url(request: pytest.FixtureRequest) -> str:
    """The address of a table in a bucket of its own."""
    port = request.getfixturevalue(request.param)
    new = stores.new_bucket if request.param == "s3" else azure_store.new_container
    return f"{new(port)}/orders"


def table_with(url: str, *commits: LedgerEntry) -> Table:
    table = Table(url)
    with table.claim():
        for one in commits:
            table.commit(one)
    return table


def test_a_table_is_seen_by_all_that_open_its_address(url: str) -> None:
    table_with(url, entry(0, "data/a"), entry(1, "data/b"))
    table = Table(url + "/")
    assert (table.path, [one.commit_id for one in table.entries()]) == (url, [0, 1])
    assert [file.path for file in table.current_files()] == ["data/a", "data/b"]


def test_two_may_claim_it_and_one_makes_a_commit(url: str) -> None:
    one, other = Table(url), Table(url)
    with one.claim(), other.claim():
        one.commit(entry(0, "data/a"))
        with pytest.raises(CommitTakenError, match="another writer has made commit 0"):
            other.commit(entry(0, "data/b"))
        other.commit(entry(1, "data/b"))
    assert [file.path for file in one.current_files()] == ["data/a", "data/b"]


def test_a_commit_whose_answer_was_lost_is_known_by_its_content(url: str) -> None:
    one, other = table_with(url, entry(0, "data/a")), Table(url)
    one.commit(entry(1, "data/b"))
    other.commit(entry(1, "data/b"))
    assert len(other.entries()) == 2


def test_the_layout_comes_with_the_commit_that_wins(url: str) -> None:
    one, other = Table(url), Table(url)
    with one.claim(), other.claim():
        assert one.layout() == RAW
        other.commit(entry(0), pinned=other.pinned(BY_HOUR))
        with pytest.raises(CommitTakenError):
            one.commit(entry(0), pinned=one.pinned(BY_DAY))
    assert one.layout() == other.layout() == BY_HOUR


def test_a_late_record_brings_no_row_back_in_a_store(url: str, tmp_path: Path) -> None:
    upsert = Upsert(key=("value.id",), version="value.at", delete_when=".op = delete")
    orders = Orders(tmp_path, upsert)
    orders.table = url
    orders.load(order(1, 5, op="delete"), order(2, 1), order(3, 1))
    report = orders.load(order(1, 4), order(2, 0), order(3, 2))
    assert report.merged == MergeCounts(upserted=1, superseded=1)
    assert orders.differences() == []


def test_a_change_feed_in_a_store_says_what_a_load_changed(url: str, tmp_path: Path) -> None:
    upsert = Upsert(key=("value.id",), version="value.at", delete_when=".op = delete")
    orders = Orders(tmp_path, upsert, has_change_feed=True)
    orders.table = url
    orders.load(order(1, 1), order(2, 1))
    orders.load(order(1, 2), order(2, 2, op="delete"), order(3, 1))
    table = deltalake.DeltaTable(url, storage_options=STORAGE_OPTIONS)
    changes = pa.table(table.load_cdf(starting_version=1).read_all()).to_pylist()
    assert sorted((one["_change_type"], one["value"]["id"]) for one in changes) == [
        ("delete", 2),
        ("insert", 3),
        ("update_postimage", 1),
        ("update_preimage", 1),
    ]
    assert orders.differences() == []


def test_changes_whose_answer_was_lost_are_committed_once(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = SharedStore.put_new

    def put_twice(store: SharedStore, path: str, content: bytes) -> bool:
        return put(store, path, content) and put(store, path, content)

    monkeypatch.setattr(SharedStore, "put_new", put_twice)
    orders = Orders(tmp_path, Upsert(key=("value.id",)), has_change_feed=True)
    orders.table = url
    orders.load(order(1, 1))
    assert orders.load(order(1, 2), order(2, 2)).merged == MergeCounts(upserted=2, superseded=1)
    assert len(Table(url).entries()) == 2
    assert orders.differences() == []


def test_of_two_that_create_an_object_one_does(url: str) -> None:
    one, other = Table(url).store, Table(url).store
    assert one.put_new("a/b", b"one")
    assert not other.put_new("a/b", b"other")
    assert one.read("a/b") == b"one"


def test_what_is_in_the_store_is_put_read_and_removed(url: str) -> None:
    store = Table(url).store
    for content in (b"", b"rows", b"other rows", bytes(300_000)):
        store.put("a/b", content)
        assert store.read("a/b") == content
    assert (store.names("a"), store.names("nowhere")) == (["b"], [])
    assert [(file.path, file.size) for file in store.find("")] == [("a/b", 300_000)]
    store.delete("a/b")
    store.delete("a/b")
    assert not store.has("a/b")
    with pytest.raises(FileNotFoundError):
        store.read("a/b")


def test_an_address_with_other_things_is_refused(url: str) -> None:
    table = Table(url)
    table.store.put("thesis.tex", b"chapter one")
    with pytest.raises(UserError, match=r"files that ottla did not load \(thesis\.tex\)"):
        table.claim().__enter__()


@pytest.mark.usefixtures("s3")
def test_a_file_that_a_store_refuses_is_reported_in_one_line() -> None:
    output = Table("s3://no-such-bucket/orders").store.output("data/a")
    with pytest.raises(UserError, match=r"s3://no-such-bucket/orders: .*NoSuchBucket"), output:
        pass


def test_missing_credentials_are_one_line_that_says_how_to_give_them(tmp_path: Path) -> None:
    given = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    nowhere = {"AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.0.0.1:1", "HOME": str(tmp_path)}
    refused = subprocess.run(
        [sys.executable, "-m", "ottla", "table", "files", "s3://bucket/orders"],
        env={**given, **nowhere},
        capture_output=True,
        text=True,
        check=False,
    )
    (line,) = refused.stderr.splitlines()
    assert line.startswith("ottla: s3://bucket/orders: ")
    assert line.endswith("; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE")


@pytest.mark.usefixtures("s3")
def test_what_a_store_says_is_reported_in_one_line() -> None:
    with pytest.raises(UserError, match=r"s3://no-such-bucket/orders: .*NoSuchBucket") as told:
        Table("s3://no-such-bucket/orders").entries()
    assert len(str(told.value).splitlines()) == 1
