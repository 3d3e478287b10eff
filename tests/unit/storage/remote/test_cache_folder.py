"""The files of a cache: see `test_index_cache.py` and `test_chunk_files.py` for what they are."""

import re

from ottla.base.files import write_file
from ottla.storage.remote.cache_folder import CacheFolder, FolderContents, Limits
from tests.support.brokers import disk

CONTENTS = FolderContents(
    name=re.compile(r"[a-z]"),
    left=re.compile(r"[a-z]\.[0-9]+\.tmp"),
    noun="letters",
    is_of_use=lambda name, size: size > 0,
)


def anything(content: bytes, path: str) -> None:
    """Finds nothing wrong."""


def test_a_start_takes_over_what_is_of_use_the_oldest_to_go_first() -> None:
    place = disk("/d")
    for name, content in {"b": b"22", "a": b"1", "c": b"", "d.7.tmp": b"half", "dd": b"x"}.items():
        write_file(place, f"/d/{name}", [content])
    folder = CacheFolder(place, "/d", CONTENTS, lambda: Limits(10, 100.0))
    folder.load()
    assert place.list("/d") == ["a", "b", "dd"]
    assert [folder.read(name, anything) for name in "abc"] == [b"1", b"22", None]


def test_a_file_that_is_written_again_counts_once() -> None:
    place = disk("/d")
    folder = CacheFolder(place, "/d", CONTENTS, lambda: Limits(6, 100.0))
    for name in "abab":
        folder.write(name, [b"12", b"3"])
    assert place.list("/d") == ["a", "b"]
    folder.write("c", [b"1"])
    assert place.list("/d") == ["b", "c"]
