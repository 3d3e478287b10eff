"""`ottla snapshot`: what a directory was comes back, or goes its own way."""

import itertools
import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import ottla
from ottla.base.files import OsFileSystem, join
from ottla.cli.main import cli
from ottla.client.administration.admin import Admin
from ottla.storage.files.filenames import CLEAN_SHUTDOWN
from ottla.storage.reading.read_only_directory import open_for_reading
from ottla.storage.snapshots.snapshots import Snapshots
from tests.unit.cli.administered import ORDERS, Administered, administered


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Administered]:
    with administered(tmp_path, is_served=False) as found:
        yield found


def state(directory: str) -> tuple[int, int | None]:
    """How many records `orders` has, and where `billing` continues."""
    with ottla.open(directory) as log, Admin(log) as admin:
        offsets = admin.group_offsets("billing")
        return sum(1 for _ in log.read("orders", 0)), offsets[ORDERS].offset


def append(directory: str) -> None:
    with ottla.open(directory) as log, Admin(log) as admin:
        log.append("orders", b"later", partition=0)
        admin.alter_group_offsets("billing", {ORDERS: 101})


@pytest.mark.slow
def test_a_snapshot_is_a_directory_with_records_groups_and_settings(stopped: Administered) -> None:
    assert stopped.lines("snapshot", "create", "TARGET", "a")[0].startswith("snapshot a: ")
    append(stopped.target)
    assert state(f"{stopped.target}.snapshots/a") == (100, 40)
    assert state(stopped.target) == (101, 101)
    own, kept = (Path(stopped.target, "meta.properties"), Path(f"{stopped.target}.snapshots/a"))
    assert (kept / "meta.properties").read_text() == own.read_text()


def test_a_snapshot_is_sound_to_the_check(stopped: Administered) -> None:
    stopped.lines("snapshot", "create", "TARGET", "a")
    code, text = stopped.end("log", "check", f"{stopped.target}.snapshots/a")
    assert code == 0, text


@pytest.mark.slow
def test_a_restored_directory_is_as_it_was_and_what_was_there_is_kept(
    stopped: Administered,
) -> None:
    stopped.lines("snapshot", "create", "TARGET", "a")
    append(stopped.target)
    assert (
        "its previous state is snapshot before-restore-"
        in stopped.lines("snapshot", "restore", "TARGET", "a")[0]
    )
    assert state(stopped.target) == (100, 40)
    first, kept = stopped.json("snapshot", "list", "TARGET")
    assert first["snapshot"] == "a"
    assert state(kept["path"]) == (101, 101)


def test_a_directory_that_is_gone_is_restored(stopped: Administered) -> None:
    stopped.lines("snapshot", "create", "TARGET", "a")
    Path(stopped.target).rename(f"{stopped.target}.lost")
    stopped.lines("snapshot", "restore", "TARGET", "a")
    assert state(stopped.target) == (100, 40)


@pytest.mark.slow
def test_a_branch_and_its_origin_go_their_own_ways(stopped: Administered) -> None:
    stopped.lines("snapshot", "create", "TARGET", "a")
    branch = f"{stopped.target}-branch"
    assert stopped.json("snapshot", "branch", "TARGET", "a", branch) == [
        {"directory": branch, "snapshot": "a", "ends": [], "groups_beyond": []}
    ]
    append(branch)
    assert state(branch) == (101, 101)
    assert state(stopped.target) == (100, 40)
    code, text = stopped.end("snapshot", "branch", "TARGET", "a", branch)
    assert (code, "already exists" in text) == (1, True)


def test_snapshots_are_listed_with_sizes_and_times_and_deleted(stopped: Administered) -> None:
    stopped.lines("snapshot", "create", "TARGET", "a")
    stopped.lines("snapshot", "create", "TARGET", "-q")
    first, second = stopped.json("snapshot", "list", "TARGET")
    assert first["snapshot"] == "a"
    assert first["partitions"] > 0
    assert 0 < first["own_size"] <= first["size"]
    assert first["created_ms"] <= second["created_ms"]
    assert stopped.lines("snapshot", "list", "TARGET", "-q") == ["a", second["snapshot"]]
    assert stopped.lines("snapshot", "list", "TARGET")[0].split() == [
        "snapshot", "created", "partitions", "size", "own", "state"
    ]  # fmt: skip
    assert stopped.lines("snapshot", "delete", "TARGET", "a") == ["deleted snapshot a"]
    assert [one["snapshot"] for one in stopped.json("snapshot", "list", "TARGET")] == [
        second["snapshot"]
    ]
    assert stopped.end("snapshot", "delete", "TARGET", "a")[0] == 1


def test_snapshots_can_lie_elsewhere(stopped: Administered, tmp_path: Path) -> None:
    place = str(tmp_path / "elsewhere")
    stopped.lines("snapshot", "create", "TARGET", "a", "--in", place)
    assert stopped.lines("snapshot", "list", "TARGET", "-q", "--in", place) == ["a"]
    assert state(join(place, "a")) == (100, 40)


def test_a_directory_that_a_crash_left_is_recovered_first(stopped: Administered) -> None:
    Path(stopped.target, CLEAN_SHUTDOWN).unlink()
    assert stopped.end("snapshot", "create", "TARGET", "a")[0] == 0
    assert stopped.json("snapshot", "list", "TARGET")[0]["is_clean"]


def test_what_cannot_be_done_is_one_line(stopped: Administered) -> None:
    stopped.lines("snapshot", "create", "TARGET", "a")
    for words, code, part in [
        (("create", "TARGET", "a"), 1, "snapshot a in "),
        (("create", "TARGET", "../a"), 2, "is not a valid name of a snapshot"),
        (("create", f"{stopped.target}.snapshots"), 2, "is not a data directory"),
        (("create", "localhost:9092"), 2, "name the broker's"),
        (("list", f"{stopped.target}.none"), 2, "there is no such directory"),
        (("restore", "TARGET", "b"), 1, "there is no snapshot b"),
        (("branch", "TARGET", "A", "x"), 1, "there is no snapshot A"),
    ]:
        found, text = stopped.end("snapshot", *words)
        assert (found, part in text) == (code, True), text
        assert text.count("\n") == 0


@pytest.mark.slow
def test_a_directory_that_is_in_use_is_kept_and_not_replaced(stopped: Administered) -> None:
    with ottla.open(stopped.target) as log:
        log.append("orders", b"not flushed", partition=0)
        stopped.lines("snapshot", "create", "TARGET", "a")
        log.append("orders", b"later", partition=0)
        code, text = stopped.end("snapshot", "restore", "TARGET", "a")
        assert code == 2
        assert "is in use by this process" in text
    assert state(f"{stopped.target}.snapshots/a") == (101, 40)
    assert stopped.end("log", "check", f"{stopped.target}.snapshots/a")[0] == 0
    assert state(stopped.target) == (102, 40)
    assert json.loads(stopped.lines("snapshot", "list", "TARGET", "--json")[0])["snapshot"] == "a"


@pytest.mark.slow
def test_a_branch_ends_at_an_offset_and_names_the_groups_beyond(stopped: Administered) -> None:
    stopped.lines("snapshot", "create", "TARGET", "a")
    branch = f"{stopped.target}-branch"
    words = ("snapshot", "branch", "TARGET", "a", branch, "--at", "orders-0:30")
    (found,) = stopped.json(*words)
    assert found["ends"] == [
        {"topic": "orders", "partition": 0, "wanted": 30, "end": 30, "end_before": 100}
    ]
    assert found["groups_beyond"] == [
        {"group": "billing", "topic": "orders", "partition": 0, "offset": 40, "end": 30}
    ]
    assert state(branch) == (30, 40)
    assert state(f"{stopped.target}.snapshots/a") == (100, 40)
    assert state(stopped.target) == (100, 40)


@pytest.mark.slow
def test_a_directory_is_restored_as_of_a_time(stopped: Administered) -> None:
    stopped.lines("snapshot", "create", "TARGET", "a")
    lines = stopped.lines(
        "snapshot", "restore", "TARGET", "a", "--at", "@1700000000060", "--at", "orders-1:0"
    )
    assert lines[1:] == [
        "orders-0 ends at 60, and ended at 100",
        "orders-1 ends at 0, and ended at 0",
    ]
    assert state(stopped.target) == (60, 40)
    assert state(f"{stopped.target}.snapshots/a") == (100, 40)


@pytest.mark.slow
def test_a_transaction_that_a_cut_would_leave_open_goes_with_it(
    stopped: Administered, tmp_path: Path
) -> None:
    settings = {"transactional.id": "t", "linger.ms": 0}
    with ottla.Producer(stopped.target, settings=settings) as producer, producer.transaction():
        for _ in range(3):
            producer.send("orders", b"in it", partition=0).result()
    stopped.lines("snapshot", "create", "TARGET", "a")
    (found,) = stopped.json(
        "snapshot", "branch", "TARGET", "a", f"{tmp_path}/b", "--at", "orders-0:102"
    )
    assert found["ends"][0]["end"] == 100
    with ottla.open(f"{tmp_path}/b") as log:
        log.append("orders", b"later", partition=0)
        assert log.find_partition("orders", 0).log.last_stable_offset == 101


@pytest.mark.slow
def test_an_end_that_cannot_be_leaves_nothing(stopped: Administered, tmp_path: Path) -> None:
    stopped.lines("snapshot", "create", "TARGET", "a")
    for place, code, part in [
        ("orders-0:101", 1, "orders-0 has offsets 0 to 100, and cannot end at 101"),
        ("order-0:1", 1, "there is no partition order-0; did you mean orders-0"),
        ("latest", 2, "--at latest: use TOPIC-PARTITION:OFFSET, @TIME"),
        ("soon", 2, "--at soon: use TOPIC-PARTITION:OFFSET, @TIME"),
    ]:
        found, text = stopped.end(
            "snapshot", "branch", "TARGET", "a", f"{tmp_path}/b", "--at", place
        )
        assert (found, part in text) == (code, True), text
    assert not [one for one in tmp_path.iterdir() if "b" in one.name.split(".")]


@pytest.mark.slow
def test_transactions_that_end_meanwhile_are_in_a_snapshot_whole_or_not_at_all(
    tmp_path: Path,
) -> None:
    settings = {"offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 2}
    is_over = threading.Event()
    with ottla.open(tmp_path / "d", settings) as log:
        for topic in ("a", "b"):
            log.create_topic(topic, config={"segment.bytes": "20000"})

        def write() -> None:
            with ottla.Producer(log, settings={"transactional.id": "t"}) as producer:
                for number in itertools.count():
                    if is_over.is_set():
                        return
                    with producer.transaction():
                        for topic in ("a", "b"):
                            producer.send(topic, b"%d" % number)

        thread = threading.Thread(target=write)
        thread.start()
        try:
            snapshots = Snapshots(OsFileSystem(), str(tmp_path / "d"))
            counts = []
            for name in ("s1", "s2", "s3"):
                # 20 transactions more, each of a record and a marker.
                for record in log.tail("b", from_offset={0: 0}):
                    if record.offset > 40 * (1 + len(counts)):
                        break
                end = CliRunner().invoke(cli, ["snapshot", "create", str(tmp_path / "d"), name])
                assert end.exit_code == 0, end.output
                found = open_for_reading(*snapshots.paths_of(name))
                both = [
                    [
                        one.value
                        for one in found.partition(topic, 0).records.read(0, read_committed=True)
                    ]
                    for topic in ("a", "b")
                ]
                assert both[0] == both[1] == [b"%d" % number for number in range(len(both[0]))]
                counts.append(len(both[0]))
            assert 0 < counts[0] < counts[1] < counts[2]
        finally:
            is_over.set()
            thread.join()
