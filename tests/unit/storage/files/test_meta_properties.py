"""Whose directory it is."""

import hypothesis.strategies as st
import pytest
from hypothesis import given

from ottla.base.errors import CorruptionError
from ottla.base.files import read_file
from ottla.base.ids import parse_uuid
from ottla.storage.files.filenames import COPIED_META_PROPERTIES
from ottla.storage.files.meta_properties import (
    MetaProperties,
    copy_meta_properties,
    first_properties,
    java_date,
    properties_of,
    read_meta_properties,
    write_meta_properties,
)
from ottla.testing import FakeFileSystem

PATH = "meta.properties"
NOW_MS = 1_795_232_008_999
KRAFT = (
    b"#\n#Sat Nov 21 03:33:28 UTC 2026\nnode.id=1\ndirectory.id=CTOx29aQsr2diaGBHzPc4Q\n"
    b"version=1\ncluster.id=AAAAAAAAAAAAAAAAAAAAAQ\n"
)
KRAFT_PROPERTIES = MetaProperties(
    cluster_id="AAAAAAAAAAAAAAAAAAAAAQ",
    node_id=1,
    directory_id=parse_uuid("CTOx29aQsr2diaGBHzPc4Q"),
)
ZOOKEEPER = (
    b"#\n#Sat Nov 21 03:33:28 UTC 2026\nbroker.id=1\nversion=0\ncluster.id=1WIEWAEjSraX4XZAFJCJJw\n"
)
ZOOKEEPER_PROPERTIES = MetaProperties(version=0, cluster_id="1WIEWAEjSraX4XZAFJCJJw", node_id=1)


def disk_with(content: bytes) -> FakeFileSystem:
    disk = FakeFileSystem()
    disk.open(PATH, create=True).pwrite(content, 0)
    return disk


@pytest.mark.parametrize(
    ("content", "properties"), [(KRAFT, KRAFT_PROPERTIES), (ZOOKEEPER, ZOOKEEPER_PROPERTIES)]
)
def test_the_text_is_kafkas(content: bytes, properties: MetaProperties) -> None:
    assert read_meta_properties(disk_with(content), PATH) == properties
    disk = FakeFileSystem()
    write_meta_properties(disk, PATH, properties, now_ms=NOW_MS)
    assert read_file(disk, PATH) == content


def test_a_directory_without_the_file_is_nobodys() -> None:
    assert read_meta_properties(FakeFileSystem(), PATH) is None


@pytest.fixture
def copied() -> FakeFileSystem:
    """A directory with the file, and its copy."""
    disk = FakeFileSystem()
    disk.make_directory("/d")
    disk.open("/d/meta.properties", create=True).pwrite(KRAFT, 0)
    copy_meta_properties(disk, "/d")
    return disk


def test_a_flipped_bit_changes_no_node_for_a_reader(copied: FakeFileSystem) -> None:
    at = KRAFT.index(b"node.id=1") + len("node.id=")
    file = copied.open("/d/meta.properties", writable=True)
    file.pwrite(b"0", at)
    assert properties_of(copied, "/d") == KRAFT_PROPERTIES
    file.pwrite(b"1", at)
    file.pwrite(b"oode", KRAFT.index(b"node.id=1"))
    assert properties_of(copied, "/d") == KRAFT_PROPERTIES


def test_where_the_file_is_lost_its_copy_says_whose_the_directory_is(
    copied: FakeFileSystem,
) -> None:
    copied.remove("/d/meta.properties")
    assert properties_of(copied, "/d") == KRAFT_PROPERTIES
    copied.remove(f"/d/{COPIED_META_PROPERTIES}")
    assert properties_of(copied, "/d") is None


def test_what_is_damaged_by_more_than_a_bit_is_not_guessed(copied: FakeFileSystem) -> None:
    copied.open("/d/meta.properties", writable=True).pwrite(bytes(50), 20)
    with pytest.raises(CorruptionError, match=r"meta\.properties at byte 0"):
        properties_of(copied, "/d")


def test_of_several_directories_one_that_can_be_read_says_whose_they_are(
    copied: FakeFileSystem,
) -> None:
    copied.make_directory("/a")
    copied.open("/a/meta.properties", create=True).pwrite(b"version=9\n", 0)
    assert first_properties(["/nothing", "/a", "/d"], copied) == KRAFT_PROPERTIES
    assert first_properties(["/nothing"], copied) is None
    with pytest.raises(CorruptionError, match=r"/a/meta\.properties at byte 0: version 9"):
        first_properties(["/nothing", "/a"], copied)


def test_unknown_keys_and_spaces_are_skipped() -> None:
    content = b"! x\r\n version : 1\r\nnode.id 3\rcluster.id = a b\\\n   c\nnew.key=1\nalone\n\n"
    assert read_meta_properties(disk_with(content), PATH) == MetaProperties(
        cluster_id="a bc", node_id=3
    )


@pytest.mark.parametrize(
    "content",
    [
        b"",
        KRAFT.replace(b"version=1", b"version=2"),
        KRAFT.replace(b"version=1", b"version=one"),
        KRAFT.replace(b"node.id=1", b"node.id=-1"),
        KRAFT.replace(b"node.id=1", b"node.id=2147483648"),
        KRAFT.replace(b"node.id=1", b"broker.id=1"),
        KRAFT.replace(b"cluster.id", b"cluster"),
        KRAFT.replace(b"=CTO", b"=C!O"),
        KRAFT + b"x=\\u12",
        b"version: 0\ntopic_id: EeusvhYn50HdR1Ol4ncqWg",
    ],
)
def test_impossible_properties_are_corrupt(content: bytes) -> None:
    with pytest.raises(CorruptionError) as error:
        read_meta_properties(disk_with(content), PATH)
    assert error.value.path == PATH


@pytest.mark.parametrize(
    ("now_ms", "text"),
    [
        (0, "Thu Jan 01 00:00:00 UTC 1970"),
        (951_827_696_789, "Tue Feb 29 12:34:56 UTC 2000"),
        (1_700_000_000_000, "Tue Nov 14 22:13:20 UTC 2023"),
    ],
)
def test_a_date_is_javas(now_ms: int, text: str) -> None:
    assert java_date(now_ms) == text


@pytest.mark.slow
@given(
    st.builds(
        MetaProperties,
        version=st.sampled_from([0, 1]),
        cluster_id=st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"])),
        node_id=st.integers(0, 2**31 - 1),
        directory_id=st.none() | st.binary(min_size=16, max_size=16),
    )
)
def test_properties_are_read_back(properties: MetaProperties) -> None:
    disk = FakeFileSystem()
    write_meta_properties(disk, PATH, properties, now_ms=NOW_MS)
    assert read_meta_properties(disk.crash(), PATH) == properties


@given(st.binary(max_size=80))
def test_any_bytes_are_properties_or_corruption(content: bytes) -> None:
    for garbage in (content, KRAFT + content):
        try:
            assert read_meta_properties(disk_with(garbage), PATH) is not None
        except CorruptionError as error:
            assert error.path == PATH  # noqa: PT017
