"""`ottla.open(path, read_only=True)`: beside whoever writes the directory, and after them."""

import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.files import OsFileSystem
from ottla.embedded.followed import FollowedLog
from ottla.testing import RecordingFileSystem


def values(records: Any) -> list[bytes]:
    return [one.value for one in records]


def test_a_log_is_read_while_it_is_open_elsewhere_and_what_is_appended_is_seen(
    tmp_path: Path,
) -> None:
    with ottla.open(tmp_path, {"log.segment.bytes": 1000}) as log:
        log.create_topic("t", partitions=2)
        log.append("t", b"a", key=b"k", partition=0, timestamp_ms=10, headers=[("h", b"1")])
        with ottla.open(tmp_path, read_only=True) as reader:
            assert reader.topics() == {"t": 2}
            assert list(reader.read("t")) == list(log.read("t"))
            for number in range(100):
                log.append("t", b"%d" % number, partition=1, timestamp_ms=1000 + number)
            assert list(reader.scan("t")) == list(log.scan("t"))
            assert reader.scan("t").to_arrow() == log.scan("t").to_arrow()
            assert reader.offsets("t") == log.offsets("t") == {0: (0, 1), 1: (0, 100)}
            assert reader.offsets_for_time("t", 1040) == log.offsets_for_time("t", 1040)
            assert values(reader.read("t", 1, from_offset=40, until=42)) == [b"40", b"41"]
            log.delete_records("t", {1: 98})
            assert reader.offsets("t")[1] == (98, 100)
            assert values(reader.read("t", 1)) == [b"98", b"99"]


def test_a_scan_that_retention_passes_by_continues_where_the_log_then_starts(
    tmp_path: Path,
) -> None:
    # Each batch is longer than what is read at a time.
    with ottla.open(tmp_path, {"log.segment.bytes": 1 << 20, "message.max.bytes": 2 << 20}) as log:
        log.create_topic("t", config={"segment.bytes": 2 << 20})
        for number in range(3):
            log.append("t", b"%d" % number + bytes(1 << 20))
        with ottla.open(tmp_path, read_only=True) as reader:
            reading = iter(reader.read("t"))
            assert next(reading).offset == 0
            log.delete_records("t", {0: 2})
            log.run_due_jobs()
            assert [one.offset for one in reading] in ([1, 2], [2])


class CountingFileSystem(RecordingFileSystem):
    """Counts the names that are listed."""

    listed = 0

    def list(self, path: str) -> list[str]:
        names = super().list(path)
        self.listed += len(names)
        return names


def test_a_scan_lists_the_files_of_a_log_as_often_as_if_they_were_few(tmp_path: Path) -> None:
    def names_listed(path: Path, segments: int) -> float:
        """For each name that is there."""
        with ottla.open(path) as log:
            log.create_topic("t", config={"segment.bytes": 100})
            for number in range(segments):
                log.append("t", b"%d" % number)
        disk = CountingFileSystem(OsFileSystem())
        with FollowedLog([str(path)], disk) as reader:
            assert len(list(reader.scan("t"))) == segments
        return disk.listed / len(list((path / "t-0").iterdir()))

    assert names_listed(tmp_path / "many", 80) < 2 * names_listed(tmp_path / "few", 8)


def test_transactions_are_seen_once_they_are_committed(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        with (
            ottla.Producer(log, settings={"transactional.id": "till"}) as producer,
            ottla.open(tmp_path, read_only=True) as reader,
        ):
            with suppress(KeyError), producer.transaction():
                producer.send("t", b"never")
                producer.flush()
                raise KeyError
            with producer.transaction():
                producer.send("t", b"once")
                producer.flush()
                assert values(reader.scan("t")) == []
            assert values(reader.scan("t")) == values(log.scan("t")) == [b"once"]
            assert reader.scan("t").to_arrow() == log.scan("t").to_arrow()


def test_a_tail_hands_out_what_another_appends_and_ends_when_nothing_comes(
    tmp_path: Path,
) -> None:
    with ottla.open(tmp_path) as log, ottla.open(tmp_path, read_only=True) as reader:
        log.create_topic("t")
        log.append("t", b"before")
        tail = reader.tail("t", timeout_s=60)
        writer = threading.Thread(target=lambda: [log.append("t", b"%d" % n) for n in range(20)])
        writer.start()
        came = iter(tail)
        assert values(next(came) for _ in range(20)) == [b"%d" % number for number in range(20)]
        writer.join()
        assert not list(reader.tail("t", timeout_s=0))


def test_a_tail_ends_with_its_log(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
        reader = ottla.open(tmp_path, read_only=True)
        tail = iter(reader.tail("t"))
        threading.Timer(0.02, reader.close).start()
        with pytest.raises(ottla.UserError, match="this log is closed"):
            next(tail)


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.append("t", b"x"),
        lambda log: log.append_many("t", [b"x"]),
        lambda log: log.create_topic("u", partitions=2),
        lambda log: log.delete_topic("t"),
        lambda log: log.delete_records("t", {0: 1}),
        lambda log: log.compact("t"),
        lambda log: log.flush(),
        lambda log: log.listen(),
    ],
)
def test_what_would_change_the_log_is_refused(
    tmp_path: Path, change: Callable[[ottla.FollowedLog], Any]
) -> None:
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    with (
        ottla.open(tmp_path, read_only=True) as reader,
        pytest.raises(ottla.UserError, match="opened with read_only=True; open it without"),
    ):
        change(reader)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}


def test_mistakes_are_reported_in_one_line_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(ottla.UserError, match="does not exist"):
        ottla.open(tmp_path / "missing", read_only=True)
    with pytest.raises(ottla.UserError, match="omit them"):
        ottla.open(tmp_path, {"log.segment.bytes": 1000}, read_only=True)
    with pytest.raises(ottla.UserError, match="is a new log"):
        ottla.open(":memory:", read_only=True)
    with ottla.open(tmp_path) as log:
        log.create_topic("t")
    reader = ottla.open(tmp_path, read_only=True)
    with pytest.raises(ottla.UserError, match="no topic u; there is t"):
        reader.scan("u")
    with pytest.raises(ottla.UserError, match="t has 1 partition; 3 is not one"):
        list(reader.read("t", 3))
    with pytest.raises(ottla.UserError, match="serves no clients"):
        ottla.Producer(reader)  # type: ignore[arg-type]


def test_a_topic_that_is_created_again_under_way_is_not_read_as_the_same(tmp_path: Path) -> None:
    with ottla.open(tmp_path, {"log.segment.bytes": 1 << 20, "message.max.bytes": 2 << 20}) as log:
        config = {"segment.bytes": 2 << 20}
        log.create_topic("t", config=config)
        log.append_many("t", [bytes(1 << 20), b"b"])
        reading = iter(ottla.open(tmp_path, read_only=True).read("t"))
        assert next(reading).offset == 0
        log.delete_topic("t")
        log.create_topic("t", config=config)
        log.append_many("t", [bytes(1 << 20), b"c"])
        with pytest.raises(ottla.UserError, match=r"created again|no topic"):
            list(reading)
