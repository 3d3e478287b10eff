"""Records sent again to a cluster: each once, whatever breaks off, as committed readers see it."""

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.mirror import reproduce
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.mirror import PartitionReport, RoundReport
from ottla.mirror.reproduce import ReproduceOptions, Reproducer
from ottla.mirror.throttle import Throttle
from ottla.storage.files.filenames import (
    COPIED_META_PROPERTIES,
    META_PROPERTIES,
    PARTITION_METADATA,
)
from ottla.storage.files.meta_properties import read_meta_properties, write_meta_properties
from tests.integration.cli.support import run_python
from tests.support.metadata import lose_metadata
from tests.support.mirroring import SOURCE, SourceLog
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture
def target(tmp_path: Path) -> Iterator[str]:
    """A cluster that its clients know nothing of."""
    with served(tmp_path / "target") as address:
        yield address


@contextmanager
def served(directory: Path) -> Iterator[str]:
    broker = open_broker(
        directory,
        offsets_topic_num_partitions="1",
        transaction_state_log_num_partitions="1",
    )
    with serving(broker) as server:
        yield "{}:{}".format(*server.address)


def full_source() -> SourceLog:
    source = SourceLog()
    source.create(partitions=2, max_message_bytes="100000")
    source.fill(20)
    source.append(b"dropped", producer=7)
    source.append(b"kept", producer=8)
    source.end(7, commit=False)
    source.append(None, keys=(b"tombstone",))
    source.end(8, commit=True)
    source.fill(3, partition=1)
    source.append(b"open", producer=9)
    source.fill(2)
    return source


def send(
    source: SourceLog, target: str, *, on_progress: Any = lambda _: None, **options: Any
) -> RoundReport:
    throttle = Throttle(None, SystemClock(), time.sleep)
    with Reproducer(
        DirectorySource(SOURCE, source.files),
        target,
        ReproduceOptions(**options),
        throttle=throttle,
        on_progress=on_progress,
    ) as sender:
        return sender.run_round()


def received(target: str, partition: int = 0) -> list[tuple[Any, ...]]:
    """What a consumer of committed records is given."""
    settings = {
        "bootstrap.servers": target,
        "group.id": "reader",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "fetch.wait.max.ms": 10,
    }
    consumer = Consumer(settings)
    found = []
    try:
        consumer.assign([TopicPartition("t", partition, 0)])
        while True:
            message = consumer.poll(PATIENCE_S)
            assert message is not None
            if message.error() is not None:
                return found
            found.append(
                (message.timestamp()[1], message.key(), message.value(), message.headers())
            )
    finally:
        consumer.close()


def expected(source: SourceLog, partition: int = 0) -> list[tuple[Any, ...]]:
    opened = DirectorySource(SOURCE, source.files)
    bounds = opened.bounds("t", partition)
    return [
        (record.timestamp_ms, record.key, record.value, list(record.headers))
        for record in opened.committed_records("t", partition, bounds.start, bounds.stable)
    ]


def test_committed_records_are_sent_once_with_all_they_carry(target: str) -> None:
    source = full_source()
    report = send(source, target)
    assert report.refusals == {}
    for partition in (0, 1):
        assert received(target, partition) == expected(source, partition)
    assert [one[2] for one in received(target)][-2:] == [b"kept", None]
    assert send(source, target).size == 0
    source.end(9, commit=True)
    source.fill(1)
    assert send(source, target).size > 0
    assert received(target) == expected(source)


class Broken(Exception):  # noqa: N818
    """What comes between a mirror and its end."""


def break_off(report: PartitionReport) -> None:
    if report.until_offset >= 10:
        raise Broken


@contextmanager
def interrupted(with_what: Callable[[], None]) -> Iterator[list[int]]:
    """Gives the offsets that were begun with; the eighth record finds seven of them sent."""
    began: list[int] = []
    produce = Reproducer._produce

    def produce_seven(self: Reproducer, report: PartitionReport, record: Any) -> None:
        began.append(record.offset)
        if len(began) == 8:
            assert self._producer.flush(PATIENCE_S) == 0
            with_what()
        produce(self, report, record)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Reproducer, "_produce", produce_seven)
        yield began


def fail() -> None:
    raise Broken


def open_ranges(target: str) -> dict[int, int]:
    """How many offsets of each partition a reader of committed has to wait for."""
    admin = AdminClient({"bootstrap.servers": target})

    def ends(isolation: IsolationLevel) -> dict[int, int]:
        asked = {TopicPartition("t", index): OffsetSpec.latest() for index in range(2)}
        answers = admin.list_offsets(asked, isolation_level=isolation)
        return {one.partition: answer.result().offset for one, answer in answers.items()}

    committed = ends(IsolationLevel.READ_COMMITTED)
    return {
        index: end - committed[index]
        for index, end in ends(IsolationLevel.READ_UNCOMMITTED).items()
    }


def test_a_mirror_that_breaks_off_aborts_its_transaction_and_the_next_continues(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "RECORDS_PER_TRANSACTION", 5)
    source = full_source()
    with pytest.raises(Broken):
        send(source, target, on_progress=break_off)
    with interrupted(fail) as began, pytest.raises(Broken):
        send(source, target)
    assert began[0] == 10
    assert open_ranges(target) == {0: 0, 1: 0}
    send(source, target)
    assert received(target) == expected(source)


def send_until_death(target: str) -> None:
    """In a process of its own, which ends with a transaction begun."""
    reproduce.RECORDS_PER_TRANSACTION = 5
    with interrupted(lambda: os._exit(0)):
        send(full_source(), target)


def in_a_child(function: Callable[[str], None], argument: str) -> subprocess.CompletedProcess[str]:
    program = f"from {__name__} import *; {function.__name__}({argument!r})"
    return run_python(program, directory=ROOT, timeout_s=PATIENCE_S)


def test_a_mirror_that_dies_has_its_transaction_aborted_by_the_next(target: str) -> None:
    child = in_a_child(send_until_death, target)
    assert child.returncode == 0, child.stderr
    assert open_ranges(target)[0] > 0
    source = full_source()
    send(source, target)
    assert open_ranges(target) == {0: 0, 1: 0}
    assert received(target) == expected(source)


def send_until_the_target_goes_away(directory: str) -> None:
    """In a process of its own: librdkafka leaves a thread behind, which troubles later tests."""
    reproduce.RECORDS_PER_TRANSACTION = 5
    reproduce.ANSWER_S = 0.5
    with ExitStack() as stack:
        address = stack.enter_context(served(Path(directory)))
        try:
            send(full_source(), address, on_progress=lambda _: stack.close())
        except UserError as error:
            print(f"{address} {error}", flush=True)
    os._exit(0)


def test_a_target_that_goes_away_in_the_middle_is_reported_and_the_next_mirror_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "RECORDS_PER_TRANSACTION", 5)
    child = in_a_child(send_until_the_target_goes_away, str(tmp_path))
    address, _, told = child.stdout.partition(" ")
    assert told.startswith(f"{address}: "), child.stderr
    assert "run the command again" in told
    source = full_source()
    with served(tmp_path) as address:
        send(source, address)
        assert received(address) == expected(source)


def test_only_one_mirror_of_a_name_continues(target: str) -> None:
    source = full_source()
    throttle = Throttle(None, SystemClock(), time.sleep)
    opened = DirectorySource(SOURCE, source.files)
    with Reproducer(opened, target, ReproduceOptions(), throttle=throttle) as old:
        send(source, target, name="ottla-mirror", selection=reproduce.Selection(topics=["none"]))
        with pytest.raises(UserError, match="another mirror named ottla-mirror has taken over"):
            old.run_round()
    send(source, target)
    assert received(target) == expected(source)


def test_records_removed_before_they_were_sent_are_reported(target: str) -> None:
    source = full_source()
    send(source, target)
    source.end(9, commit=True)
    source.fill(5)
    end = source.log().log_end_offset
    source.delete_before(end - 1)
    report = send(source, target)
    assert f"to {end - 2} were removed" in report.refusals["t-0"]
    report = send(source, target, allow_gaps=True)
    assert report.partitions[0].gaps[0].until_offset == end - 1
    assert received(target)[-1] == expected(source)[-1]


def test_a_topic_with_too_few_partitions_is_refused(target: str) -> None:
    source, more = SourceLog(), SourceLog()
    source.create()
    more.create(partitions=3)
    send(source, target)
    report = send(more, target)
    assert "the target has 1 partitions, the source 3" in report.refusals["t"]


def test_nobody_answering_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "ANSWER_S", 0.5)
    source = SourceLog()
    source.create()
    with pytest.raises(UserError, match=r"127\.0\.0\.1:1: .*run the command again"):
        send(source, "127.0.0.1:1")


def change_identity(source: SourceLog, **changes: Any) -> None:
    """Rewrites `meta.properties`: as if another cluster had written the directory."""
    path = f"{SOURCE}/{META_PROPERTIES}"
    known = read_meta_properties(source.files, path)
    assert known is not None
    write_meta_properties(source.files, path, replace(known, **changes), now_ms=0)


def filled(*values: bytes, before: int = 0) -> SourceLog:
    """A source whose topic `t` has an id of its own for each number of topics made `before`."""
    source = SourceLog()
    for number in range(before):
        source.create(f"before-{number}")
        source.broker.admin.delete_topic(source.broker.topics.get(f"before-{number}"))
    source.create()
    for value in values:
        source.append(value)
    return source


def values_at(target: str) -> list[bytes]:
    return [one[2] for one in received(target)]


def test_two_sources_with_a_topic_of_one_name_need_names_of_their_own(target: str) -> None:
    """Else the second lost what it had before the position of the first, in silence."""
    first, second = filled(b"a", b"b", b"c"), filled(b"d", b"e", before=1)
    change_identity(second, cluster_id="another-cluster-000001")
    send(first, target)
    refusal = send(second, target).refusals["t-0"]
    assert "is that of another source (cluster a-cluster-for-tests-01, topic id " in refusal
    assert "give each source a --name of its own" in refusal
    assert values_at(target) == [b"a", b"b", b"c"]
    assert not send(second, target, name="second").refusals
    first.append(b"f")
    assert not send(first, target).refusals
    assert values_at(target) == [b"a", b"b", b"c", b"d", b"e", b"f"]


@pytest.mark.parametrize("count", [1, 3, 5])
def test_a_topic_that_was_created_again_is_sent_from_its_start(target: str, count: int) -> None:
    send(filled(b"a", b"b", b"c"), target)
    again = [b"%d" % number for number in range(count)]
    source = filled(*again, before=2)
    (report,) = send(source, target).partitions
    assert report.refusal is None
    assert "was deleted and created again in the source" in str(report.note)
    source.append(b"more")
    (report,) = send(source, target).partitions
    assert (report.note, report.from_offset) == (None, count)
    assert values_at(target) == [b"a", b"b", b"c", *again, b"more"]


def without_ids(source: SourceLog) -> SourceLog:
    """As an old broker leaves a directory, which knows neither cluster nor topic."""
    source.broker.close()
    lose_metadata(source.files, SOURCE)
    for path in (
        META_PROPERTIES,
        COPIED_META_PROPERTIES,
        f"t-0/{PARTITION_METADATA}",
    ):
        with suppress(FileNotFoundError):
            source.files.remove(f"{SOURCE}/{path}")
    return source


@pytest.mark.parametrize("count", [1, 3, 5])
def test_without_ids_the_record_that_was_sent_last_tells_a_topic_from_another(
    target: str, count: int
) -> None:
    send(without_ids(filled(b"a", b"b", b"c")), target)
    assert not send(without_ids(filled(b"a", b"b", b"c", b"d")), target).refusals
    assert values_at(target) == [b"a", b"b", b"c", b"d"]
    other = without_ids(filled(*(b"%d" % number for number in range(count))))
    refusal = send(other, target).refusals["t-0"]
    assert "another --name sends it from its start" in refusal
    assert values_at(target) == [b"a", b"b", b"c", b"d"]


def test_a_copy_of_a_directory_that_has_gone_another_way_is_refused(target: str) -> None:
    """It has the cluster's and the topic's ids."""
    send(filled(b"a", b"b", b"c"), target)
    refusal = send(filled(b"a", b"b", b"x", b"y"), target).refusals["t-0"]
    assert "record at offset 2 is not the one that was sent" in refusal


def test_a_position_without_an_origin_is_continued_and_that_is_said(target: str) -> None:
    consumer = Consumer({"bootstrap.servers": target, "group.id": "ottla-mirror"})
    source = filled(b"a", b"b")
    send(source, target, selection=reproduce.Selection(topics=["none"]))
    with closing(consumer):
        admin = AdminClient({"bootstrap.servers": target})
        admin.create_topics([NewTopic("t", 1)])["t"].result()
        consumer.commit(offsets=[TopicPartition("t", 0, 1)], asynchronous=False)
    (report,) = send(source, target).partitions
    assert "does not say of which source it is" in str(report.note)
    assert values_at(target) == [b"b"]
    assert send(source, target).partitions[0].note is None
