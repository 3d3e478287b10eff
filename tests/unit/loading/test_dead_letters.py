"""The dead-letter topic of loads: what is set aside is there too, at least once, and read again."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("deltalake")

import ottla
import ottla.table
from ottla.base.errors import UserError
from ottla.cli.main import cli
from ottla.loading.auditing.audit import audit
from ottla.loading.dead_letters import DeadLetters
from ottla.loading.job import LoadJob, LoadOptions, LoadRoute
from ottla.loading.load import load, load_job
from ottla.loading.local_engine import LocalEngine
from ottla.loading.rerun import redrive, rerun
from ottla.loading.rerun_plan import rerun_range
from ottla.sources.opening import open_log, topic_options
from ottla.tables.columns.identity import Upsert
from ottla.tables.layout import LayoutOptions
from ottla.tables.table import Table
from ottla.tables.values.decoder import Decoding, ValueFormat
from ottla.tables.writing.progress import Progress, Step
from ottla.tables.writing.record_writer import OnError

pytestmark = pytest.mark.slow


class Killed(BaseException):
    """Ends work on the spot, as a kill does, but leaves the process."""


class Orders:
    def __init__(self, path: Path) -> None:
        self.log, self.table = str(path / "log"), str(path / "table")
        self.layout: dict[str, Any] = {}
        with ottla.open(self.log) as log:
            log.create_topic("orders", partitions=2)
            log.create_topic("dead")

    def append(self, *values: bytes) -> None:
        with ottla.open(self.log) as log:
            for number, value in enumerate(values):
                headers = [("shop", b"%d" % number)]
                log.append("orders", value, key=b"k", partition=number % 2, headers=headers)

    def job(self, schema: str = "id int", topic: str = "dead") -> LoadJob:
        decoding = Decoding(format=ValueFormat.JSON, schema=schema)
        options = LoadOptions(
            layout=LayoutOptions(decoding=decoding, **self.layout),
            on_error=OnError.QUARANTINE,
            dead_letters=DeadLetters(topic=topic, target=self.log),
        )
        return load_job(LoadRoute(self.log, "orders", self.table), LocalEngine(), options=options)

    def letters(self) -> list[tuple[bytes | None, int, int]]:
        with ottla.open(self.log) as log:
            found = []
            for record in log.read("dead", 0):
                told = dict(record.headers)
                assert told["__dlq.errors.topic"] == b"orders"
                assert told["__dlq.errors.message"]
                assert record.key == b"k"
                assert "shop" in told
                place = (told["__dlq.errors.partition"], told["__dlq.errors.offset"])
                found.append((record.value, *(int(one or b"") for one in place)))
            return sorted(found, key=lambda one: one[1:])

    def ids(self) -> list[int]:
        rows = ottla.table.dataset(self.table).to_table()["value"].combine_chunks()
        return sorted(rows.field("id").to_pylist())


WIDE = b'{"id": 3000000000}'


def test_what_is_set_aside_is_sent_with_its_place_and_read_again_after_a_fix(
    tmp_path: Path,
) -> None:
    orders = Orders(tmp_path)
    orders.append(b'{"id": 1}', WIDE, b"{", b'{"id": 2}')
    load(orders.job())
    assert orders.letters() == [(b"{", 0, 1), (WIDE, 1, 0)]
    orders.append(b'{"id": 3}')
    load(orders.job())
    rerun(orders.job(), rerun_range(None, None, "orders"))
    assert len(orders.letters()) == 2
    assert len(redrive(orders.job("id bigint"))) == 1
    assert orders.ids() == [1, 2, 3, 3000000000]
    assert ottla.table.quarantine(orders.table).count_rows() == 1
    assert len(orders.letters()) == 2


def without_log(orders: Orders) -> None:
    """Rows and quarantine of eight records, of which the log has none, and of two that it has."""
    orders.append(b'{"id": 1}', WIDE, b"{", b'{"id": 2}', WIDE, WIDE, WIDE, b'{"id": 3}')
    load(orders.job())
    with ottla.open(orders.log) as log:
        log.delete_records("orders", {0: 4, 1: 4})
    orders.append(b'{"id": 4}', WIDE)
    load(orders.job())


def test_records_that_only_the_topic_has_become_rows_once_whenever_it_is_killed(
    tmp_path: Path,
) -> None:
    orders = Orders(tmp_path)
    without_log(orders)
    letters = orders.letters()
    assert [one[1:] for one in letters] == [(0, 1), (0, 2), (0, 3), (1, 0), (1, 2), (1, 4)]
    kills, events = 0, 0

    def die(progress: Progress) -> None:
        nonlocal events
        events += 1
        if events > kills:
            raise Killed

    found = [orders.ids()]
    while True:
        job, events, kills = orders.job("id bigint"), 0, kills + 1
        try:
            redrive(load_job(job.route, LocalEngine(), die, job.options))
        except Killed:
            aside = ottla.table.quarantine(orders.table).count_rows()
            found.append(orders.ids())
            assert len(found[-1]) + aside == 10
        else:
            break
    assert [len(one) for one in found] == sorted(len(one) for one in found)
    assert {len(one) for one in found} >= {4, 8, 9}  # It was killed before, between and after.
    assert orders.ids() == [1, 2, 3, 4, *[3000000000] * 5]
    assert ottla.table.quarantine(orders.table).to_table()["offset"].to_pylist() == [1]
    assert orders.letters() == letters
    assert redrive(orders.job("id bigint")) == []
    assert orders.ids() == [1, 2, 3, 4, *[3000000000] * 5]
    log = open_log(topic_options(orders.log, "orders"))
    assert audit(Table(orders.table), log, "orders", compare_all=True).is_equal
    rows = ottla.table.dataset(orders.table).to_table().to_pylist()
    (row,) = (one for one in rows if (one["partition"], one["offset"]) == (1, 2))
    assert (row["key"], row["headers"]) == (b"k", [{"key": "shop", "value": b"5"}])


@pytest.mark.parametrize("partition", [0, 1])
def test_a_letter_that_was_mended_stands_for_its_record_in_whichever_partition_it_is(
    tmp_path: Path, partition: int
) -> None:
    orders = Orders(tmp_path)
    with ottla.open(orders.log) as log:
        log.create_partitions("dead", 2)
    orders.append(b"{", b'{"id": 1}', b"{")
    load(orders.job())
    with ottla.open(orders.log) as log:
        log.delete_records("orders", {0: 2, 1: 1})
        (bad, _) = [one for number in (0, 1) for one in log.read("dead", number)]
        for value in (b'{"id": 7}', bad.value):
            log.append("dead", value, bad.key, partition=partition, headers=bad.headers)
    assert len(redrive(orders.job())) == 1
    assert orders.ids() == [1, 7]
    assert ottla.table.quarantine(orders.table).to_table()["offset"].to_pylist() == [1]
    assert redrive(orders.job()) == []


def test_a_letter_that_cannot_be_decoded_either_leaves_its_record_as_it_was_set_aside(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    orders = Orders(tmp_path)
    orders.append(b"{", b'{"id": 1}')
    load(orders.job())
    with ottla.open(orders.log) as log:
        log.delete_records("orders", {0: 1})
        (bad,) = log.read("dead", 0)

    def mend(value: bytes | None) -> None:
        with ottla.open(orders.log) as log:
            log.append("dead", value, bad.key, headers=bad.headers)

    before = ottla.table.quarantine(orders.table).to_table()
    for value in (b'{"id": "still wrong"}', bad.value):
        mend(value)
        for _ in range(2):
            assert redrive(orders.job()) == []
            assert ottla.table.quarantine(orders.table).to_table() == before
            assert "orders-0, offset 0: the letter that was sent" in caplog.text
            caplog.clear()
    mend(b'{"id": 7}')
    assert len(redrive(orders.job())) == 1
    assert orders.ids() == [1, 7]
    assert redrive(orders.job()) == []


def test_a_late_record_of_the_topic_alone_is_not_merged_in_an_order_that_nobody_knows(
    tmp_path: Path,
) -> None:
    orders = Orders(tmp_path)
    orders.layout = {"upsert": Upsert()}
    without_log(orders)
    before = orders.ids()
    with pytest.raises(UserError, match=r"orders-0: the log no longer has offset 1, .*send it"):
        redrive(orders.job("id bigint"))
    assert orders.ids() == before


def test_a_letter_is_sent_before_the_commit_so_none_is_lost(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.append(b"{", b'{"id": 2}')

    def kill(progress: Progress) -> None:
        if progress.step is Step.SYNCED:
            raise Killed

    job = orders.job()
    with pytest.raises(Killed):
        load(load_job(job.route, LocalEngine(), kill, job.options))
    assert len(orders.letters()) == 1
    load(orders.job())
    assert orders.letters() == [(b"{", 0, 0)] * 2


def test_a_load_whose_letters_are_refused_changes_nothing(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.append(b"{")
    with pytest.raises(UserError, match="nowhere"):
        load(orders.job(topic="nowhere"))
    assert not Path(orders.table, "_delta_log").exists()


def test_the_topic_that_is_loaded_is_no_dead_letter_topic(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    with pytest.raises(UserError, match="dead-letter-topic orders is the topic that is loaded"):
        orders.job(topic="orders")
    letters = DeadLetters(topic="orders", target=f"{orders.log}/../log")
    with pytest.raises(UserError, match="name another topic"):
        letters.check_apart(orders.log, "orders")
    letters.check_apart("localhost:9092", "orders")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["load", *arguments, "--engine", "local"])


def test_the_command_sends_letters_and_reads_them_again(tmp_path: Path) -> None:
    orders = Orders(tmp_path)
    orders.append(WIDE)
    asked = (orders.log, "orders", "--into", orders.table, "--decode", "json")
    where = ("--dead-letter-topic", "dead")
    refused = run(*asked, "--schema", "id int", *where)
    assert "add --on-error quarantine" in refused.output
    done = run(*asked, "--schema", "id int", *where, "--on-error", "quarantine", "--json")
    assert json.loads(done.stdout)["quarantined"] == 1, done.output
    assert orders.letters() == [(WIDE, 0, 0)]
    vain = run(*asked, "--schema", "id int", "--on-error", "quarantine", "--redrive")
    assert "nothing changes: 1 record in quarantine cannot be decoded yet" in vain.output
    again = run(*asked, "--schema", "id bigint", *where, "--redrive")
    assert again.exit_code == 0, again.output
    assert orders.ids() == [3000000000]
