"""kcat lists, produces, consumes, queries offsets and joins groups; also as if of old."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.broker.broker import Broker
from ottla.metadata.deciding.topics import NewTopic
from ottla.storage import scan
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed"),
]

TOPIC = "records"
COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")
FROM_START = ("-o", "beginning", "-e")
AT_ONCE = ("-X", "fetch.wait.max.ms=10")
"""A partition's end is an answer without records, for which the broker would wait half a second."""

OLD_BROKERS = ("0.8.2.2", "0.9.0.1", "0.10.0.0", "0.10.1.0", "0.11.0.0")


class Kcat:
    """Runs kcat against a broker; fails unless it ends well."""

    def __init__(self, address: str) -> None:
        self._address = address

    def __call__(self, *arguments: str, text: str = "") -> str:
        done = subprocess.run(
            ["kcat", "-b", self._address, *arguments],
            input=text,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def produce(self, *arguments: str, text: str) -> None:
        self("-P", "-t", TOPIC, "-p", "0", *arguments, text=text)

    def consume(self, *arguments: str) -> str:
        return self("-C", "-q", "-t", TOPIC, "-p", "0", *AT_ONCE, *arguments)

    def records(self, *arguments: str) -> list[dict[str, Any]]:
        lines = self.consume(*(arguments or FROM_START), "-J").splitlines()
        return [json.loads(line) for line in lines]

    def join(self, *arguments: str) -> list[str]:
        """Partition/offset of what came to a member of a group until the end of all partitions."""
        options = ("-G", "g", "-q", "-e", "-X", "auto.offset.reset=earliest", "-f", "%p/%o\n")
        return sorted(self(*options, *AT_ONCE, *arguments, TOPIC).splitlines())


@pytest.fixture
def broker(tmp_path: Path) -> Broker:
    broker = open_broker(
        tmp_path / "data",
        group_initial_rebalance_delay_ms="0",
        offsets_topic_num_partitions="4",
    )
    broker.admin.create_topic(NewTopic(name=TOPIC, partition_count=2))
    return broker


@pytest.fixture
def kcat(broker: Broker) -> Iterator[Kcat]:
    with serving(broker) as server:
        yield Kcat("{}:{}".format(*server.address))


def values(records: list[dict[str, Any]]) -> list[Any]:
    return [one["payload"] for one in records]


def lines(count: int) -> str:
    return "".join(f"{number}\n" for number in range(count))


def test_brokers_and_topics_are_listed(kcat: Kcat) -> None:
    listed = json.loads(kcat("-L", "-J"))
    assert [one["id"] for one in listed["brokers"]] == [listed["controllerid"]] == [1]
    (topic,) = listed["topics"]
    assert topic["topic"] == TOPIC
    assert [(one["partition"], one["leader"]) for one in topic["partitions"]] == [(0, 1), (1, 1)]
    assert f'topic "{TOPIC}" with 2 partitions' in kcat("-L", "-t", TOPIC)


def test_a_topic_is_made_by_producing_to_it(kcat: Kcat) -> None:
    kcat("-P", "-t", "new", text="one\n")
    assert kcat("-C", "-q", "-t", "new", *FROM_START) == "one\n"


@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_kcat_reads_what_it_wrote(kcat: Kcat, broker: Broker, compression: str) -> None:
    sent = [f"key{number}:{'value ' * 10}{number}" for number in range(50)]
    kcat.produce("-z", compression, "-H", "where=here", "-K:", text="\n".join(sent) + "\n")
    received = kcat.records()
    assert [f"{one['key']}:{one['payload']}" for one in received] == sent
    assert [one["offset"] for one in received] == list(range(50))
    assert all(one["headers"] == ["where", "here"] for one in received)
    (segment,) = broker.topics.partition(TOPIC, 0).log.segments.values
    assert {one.compression.name.lower() for _, one in scan.headers(segment.log)} == {compression}


def test_keys_are_delimited_and_what_is_empty_is_null(kcat: Kcat) -> None:
    kcat.produce("-K", "::", "-D", "|", "-Z", text="k::v|::no key|tombstone::|e::x:y")
    found = [(one["key"], one["payload"]) for one in kcat.records()]
    assert found == [("k", "v"), (None, "no key"), ("tombstone", None), ("e", "x:y")]
    told = kcat.consume(*FROM_START, "-Z", "-f", "%k>%s|")
    assert told == "k>v|NULL>no key|tombstone>NULL|e>x:y|"


def test_headers_keep_their_order_repeat_and_may_be_null(kcat: Kcat) -> None:
    kcat.produce("-H", "a=1", "-H", "a=2", "-H", "empty=", "-H", "none", text="v\n")
    (one,) = kcat.records()
    assert one["headers"] == ["a", "1", "a", "2", "empty", "", "none", None]


def test_a_file_is_one_record(kcat: Kcat, tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("two\nlines " * 20_000)
    kcat("-P", "-t", TOPIC, "-p", "0", str(path))
    assert values(kcat.records()) == [path.read_text()]


def test_reading_begins_and_ends_where_it_is_told(kcat: Kcat) -> None:
    kcat.produce(text=lines(10))
    assert values(kcat.records("-o", "7", "-e")) == ["7", "8", "9"]
    assert values(kcat.records("-o", "-2", "-e")) == ["8", "9"]
    assert values(kcat.records("-o", "beginning", "-c", "3")) == ["0", "1", "2"]
    assert kcat.records("-o", "end", "-e") == []


def test_offsets_are_queried_by_time(kcat: Kcat) -> None:
    kcat.produce(text=lines(5))
    time_ms = kcat.records()[0]["ts"]
    for time, offset in ((-2, 0), (-1, 5), (0, 0), (time_ms, 0), (time_ms + 60_000, -1)):
        told = kcat("-Q", "-t", f"{TOPIC}:0:{time}")
        assert told == f"{TOPIC} [0] offset {offset}\n", time
    assert values(kcat.records("-o", f"s@{time_ms}", "-e")) == list("01234")


def test_a_group_continues_where_it_stopped(kcat: Kcat) -> None:
    kcat.produce(text=lines(3))
    kcat("-P", "-t", TOPIC, "-p", "1", text=lines(2))
    assert kcat.join() == ["0/0", "0/1", "0/2", "1/0", "1/1"]
    assert kcat.join() == []
    kcat.produce("-X", "enable.idempotence=true", text=lines(1))
    assert kcat.join("-X", "partition.assignment.strategy=cooperative-sticky") == ["0/3"]


@pytest.mark.parametrize("version", OLD_BROKERS)
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy"])
def test_as_if_for_an_old_broker_kcat_reads_what_it_wrote(
    kcat: Kcat, version: str, compression: str
) -> None:
    old = ("-X", "api.version.request=false", "-X", f"broker.version.fallback={version}")
    kcat.produce("-K:", "-z", compression, *old, text="".join(f"k:{one}\n" for one in range(9)))
    assert values(kcat.records(*FROM_START, *old)) == list("012345678")
    assert kcat.records(*FROM_START)[8]["key"] == "k"
    assert kcat("-Q", "-t", f"{TOPIC}:0:-1", *old) == f"{TOPIC} [0] offset 9\n"


@pytest.mark.parametrize("version", OLD_BROKERS[1:])
def test_as_if_for_an_old_broker_a_group_continues_where_it_stopped(
    kcat: Kcat, version: str
) -> None:
    old = ("-X", "api.version.request=false", "-X", f"broker.version.fallback={version}")
    kcat.produce(text=lines(2))
    assert kcat.join(*old) == ["0/0", "0/1"]
    kcat.produce(text=lines(1))
    assert kcat.join(*old) == ["0/2"]
