"""Every name and its inverse, and the names that are not Kafka's."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.storage.files.filenames import (
    MAX_OFFSET,
    DirectoryState,
    FileKind,
    FileName,
    FileSuffix,
    PartitionDirectory,
    delete_directory_name,
    future_directory_name,
    is_legal_topic_name,
    log_file_name,
    parse_directory_name,
    parse_file_name,
    parse_file_names,
    partition_directory_name,
    producer_snapshot_file_name,
    stray_directory_name,
    transaction_index_file_name,
)

ID = bytes(range(16))
ID_TEXT = "000102030405060708090a0b0c0d0e0f"

LETTERS = "abcXYZ019._-"
TOPICS = st.text(LETTERS, min_size=1, max_size=249).filter(is_legal_topic_name)


def test_segment_files_are_named_by_twenty_digits() -> None:
    assert log_file_name(0) == "00000000000000000000.log"
    assert FileName(offset=42, kind=FileKind.OFFSET_INDEX).text == "00000000000000000042.index"
    assert FileName(offset=42, kind=FileKind.TIME_INDEX).text == "00000000000000000042.timeindex"
    assert transaction_index_file_name(MAX_OFFSET) == "09223372036854775807.txnindex"
    assert producer_snapshot_file_name(147001) == "00000000000000147001.snapshot"


@given(
    st.builds(
        FileName,
        offset=st.integers(0, MAX_OFFSET),
        kind=st.sampled_from(FileKind),
        suffix=st.sampled_from(FileSuffix),
    )
)
def test_a_file_name_is_parsed_back(name: FileName) -> None:
    assert parse_file_name(name.text) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "0.log",
        "00000000000000000000",
        "00000000000000000000.txt",
        "00000000000000000000.log.tmp",
        "00000000000000000000.log.swap.deleted",
        "0000000000000000000a.log",
        "000000000000000000000.log",
        "99999999999999999999.log",
        "٠0000000000000000000.log",
        "leader-epoch-checkpoint",
        "00000000000000000000.log\n",
    ],
)
def test_other_names_are_no_segment_files(name: str) -> None:
    assert parse_file_name(name) is None


@given(st.text())
def test_any_text_is_a_name_or_is_not(text: str) -> None:
    file, directory = parse_file_name(text), parse_directory_name(text)
    assert file is None or file.text == text
    assert directory is None or directory.text == text


def test_partition_directories_are_named_by_topic_and_partition() -> None:
    assert partition_directory_name("orders", 2) == "orders-2"
    assert delete_directory_name("orders", 2, ID) == f"orders-2.{ID_TEXT}-delete"
    assert future_directory_name("orders", 2, ID) == f"orders-2.{ID_TEXT}-future"
    assert stray_directory_name("orders", 2, ID) == f"orders-2.{ID_TEXT}-stray"


@pytest.mark.parametrize(
    ("name", "topic", "partition"),
    [
        ("a-0", "a", 0),
        ("a-1-2", "a-1", 2),
        ("--1", "-", 1),
        ("...-7", "...", 7),
        ("__consumer_offsets-49", "__consumer_offsets", 49),
        (f"a-1.{ID_TEXT}-delete-0", f"a-1.{ID_TEXT}-delete", 0),
        ("a-2147483647", "a", 2147483647),
    ],
)
def test_the_partition_follows_the_last_dash(name: str, topic: str, partition: int) -> None:
    assert parse_directory_name(name) == PartitionDirectory(topic=topic, partition=partition)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "-",
        "-1",
        "a",
        "a-",
        "a-b",
        "a-01",
        "a--1-",
        "a-2147483648",
        "a b-1",
        ".-0",
        "..-0",
        "a-1-delete",
        f"a-1.{ID_TEXT}",
        f"a-1.{ID_TEXT}-gone",
        f"a.{ID_TEXT}-delete",
        "a-1.0123-delete",
        "lost+found",
        "a-٣",
        "x" * 250 + "-0",
    ],
)
def test_other_names_are_no_partition_directories(name: str) -> None:
    assert parse_directory_name(name) is None


@given(TOPICS, st.integers(0, 2**31 - 1))
def test_a_partition_directory_is_parsed_back(topic: str, partition: int) -> None:
    found = parse_directory_name(partition_directory_name(topic, partition))
    assert found == PartitionDirectory(topic=topic, partition=partition)


@given(
    TOPICS,
    st.integers(0, 2**31 - 1),
    st.sampled_from(DirectoryState),
    st.binary(min_size=16, max_size=16),
)
def test_a_marked_directory_is_parsed_back_but_for_a_cut_topic(
    topic: str, partition: int, state: DirectoryState, unique_id: bytes
) -> None:
    directory = PartitionDirectory(
        topic=topic, partition=partition, state=state, unique_id=unique_id.hex()
    )
    found = parse_directory_name(directory.text)
    assert found is not None
    assert topic.startswith(found.topic)
    assert (found.partition, found.state) == (partition, state)


def test_a_long_topic_is_cut_in_the_name_of_a_deleted_directory() -> None:
    topic = "t" * 249
    for name in (delete_directory_name(topic, 1000, ID), stray_directory_name(topic, 1000, ID)):
        assert len(name) == 255
    assert len(future_directory_name(topic, 1000, ID)) > 255


@pytest.mark.parametrize("topic", ["a", "a.b_c-D9", "t" * 249, "...", "__x"])
def test_legal_topics(topic: str) -> None:
    assert is_legal_topic_name(topic)


@pytest.mark.parametrize("topic", ["", ".", "..", "a b", "a/b", "ä", "t" * 250, "a\n", "a:b"])
def test_illegal_topics(topic: str) -> None:
    assert not is_legal_topic_name(topic)


def test_of_many_names_those_of_some_kinds_and_suffixes_are_parsed() -> None:
    every = [
        FileName(offset=offset, kind=kind, suffix=suffix)
        for offset in (7, MAX_OFFSET)
        for kind in FileKind
        for suffix in FileSuffix
    ]
    names = [one.text for one in every]
    others = [
        "",
        "x.log",
        "7.log",
        "9" * 20 + ".log",
        "leader-epoch-checkpoint",
        "\u0663" * 20 + ".log",
    ]
    assert parse_file_names([*others, *names]) == every
    kinds, suffixes = (FileKind.LOG, FileKind.TIME_INDEX), (FileSuffix.SWAP,)
    assert parse_file_names([*names, *others], kinds=kinds, suffixes=suffixes) == [
        one for one in every if one.kind in kinds and one.suffix in suffixes
    ]
