"""A partition whose directory is lost is missed by everybody who reads files, the last of a topic
too."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import ottla
from ottla.base.errors import RefusalError
from ottla.diagnosis.directories import read_directories
from ottla.mirror.directory_source import DirectorySource
from ottla.mirror.source import Selection
from ottla.search.sources import FileRecords
from ottla.sources.log_files import LogFiles
from ottla.sources.topic_choice import TopicChoice
from tests.support.read_only import reading

TRANSACTIONAL = {"transactional.id": "payments"}


def make(path: Path, partitions: int) -> None:
    """Every topic has so many partitions."""
    settings = {
        "offsets.topic.num.partitions": partitions,
        "transaction.state.log.num.partitions": partitions,
    }
    with ottla.open(path, settings) as log, ottla.Admin(log) as admin:
        for topic in ("orders", "stays"):
            log.create_topic(topic, partitions=partitions)
            for index in range(partitions):
                log.append(topic, b"x", partition=index)
        admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 1})
        with ottla.Producer(log, settings=TRANSACTIONAL) as producer, producer.transaction():
            producer.send("stays", b"x", partition=0).result()


def list_groups(path: Path) -> object:
    return reading(path).list_groups()


def committed_offsets(path: Path) -> object:
    return DirectorySource(str(path)).committed_offsets()


def list_transactions(path: Path) -> object:
    return reading(path).list_transactions()


def describe_topics(path: Path) -> object:
    topics = reading(path)
    return topics.topic_activity(topics.describe_topics(), 0)


def read_all(path: Path) -> object:
    records = FileRecords.at([str(path)], read_committed=False)
    return records.bounds(
        [
            ottla.TopicPartition(topic, index)
            for topic in records.topics()
            for index in records.partitions(topic)
        ]
    )


def mirror_all(path: Path) -> object:
    source = DirectorySource(str(path))
    return [
        source.bounds(one.name, index)
        for one in source.topics(Selection())
        for index in range(one.partition_count)
    ]


def offered_to_loads(path: Path) -> object:
    """By `ottla sql`, `ottla export`, a load and a stream too."""
    files = LogFiles([str(path)], TopicChoice(subscribed=("orders", "stays")))
    return files.partitions(allow_missing=True)


def follow_all(path: Path) -> object:
    with ottla.open(path, read_only=True) as log:
        return [log.offsets(topic) for topic in log.topics()]


def explain_all(path: Path) -> object:
    found = read_directories([str(path)])
    return [found.logs(topic) for topic in found.topics]


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(
    ("lost", "ask"),
    [
        ("__consumer_offsets", list_groups),
        ("__consumer_offsets", committed_offsets),
        ("__transaction_state", list_transactions),
        ("orders", describe_topics),
        ("orders", read_all),
        ("orders", mirror_all),
        ("orders", offered_to_loads),
        ("orders", follow_all),
        ("orders", explain_all),
    ],
)
def test_what_is_lost_is_named_by_who_would_read_it(
    lost: str, ask: Callable[[Path], object], partitions: int, tmp_path: Path
) -> None:
    make(tmp_path, partitions)
    assert ask(tmp_path)
    path = tmp_path / f"{lost}-{partitions - 1}"
    shutil.rmtree(path)
    with pytest.raises(RefusalError, match="is not there, though recovery-point-") as caught:
        ask(tmp_path)
    assert str(path) in str(caught.value)


def test_a_topic_that_was_deleted_is_not_missed(tmp_path: Path) -> None:
    make(tmp_path, 1)
    names = ("recovery-point-offset-checkpoint", "replication-offset-checkpoint")
    old = {name: (tmp_path / name).read_bytes() for name in names}
    with ottla.open(tmp_path) as log:
        log.delete_topic("orders")
    for name, content in old.items():  # as if nobody had written them since
        (tmp_path / name).write_bytes(content)
    assert "orders" not in FileRecords.at([str(tmp_path)], read_committed=False).topics()
    assert read_directories([str(tmp_path)]).topics == [
        "__consumer_offsets",
        "__transaction_state",
        "stays",
    ]
