"""JSON with a checksum: what goes in comes out, and no changed byte is believed."""

import json
from typing import Any

import pytest

from ottla.base.errors import CorruptionError
from ottla.base.files import replace_file
from ottla.codec.crc32c import crc32c
from ottla.storage.files.summed_json import check_summed_json, read_summed_json, summed_json
from ottla.testing import FakeFileSystem
from tests.support.brokers import disk

FIELDS = {"revision": 1, "nothing": None, "texts": {"a": "b"}, "many": ["x", {"y": 1}]}


def written(content: bytes) -> FakeFileSystem:
    files = disk("/d")
    replace_file(files, "/d/f", content)
    return files


def read(content: bytes) -> Any:
    return read_summed_json(written(content), "/d/f", lambda found: found, "what is wanted")


def whole() -> bytes:
    return b"".join(summed_json(FIELDS))


def test_what_is_written_is_read() -> None:
    found = read(whole())
    assert {name: found[name] for name in FIELDS} == FIELDS
    check_summed_json("/d/f", whole())
    assert read_summed_json(disk("/d"), "/d/f", lambda found: found, "what is wanted") is None


def test_no_flipped_bit_and_no_cut_is_believed() -> None:
    content = whole()
    harmed = [content[:size] for size in range(len(content))]
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        harmed.append(bytes(flipped))
    for one in harmed:
        with pytest.raises(CorruptionError, match="/d/f"):
            read(one)
        with pytest.raises(CorruptionError, match="/d/f"):
            check_summed_json("/d/f", one)


def test_the_checksum_is_that_of_the_file_without_its_line() -> None:
    """Also where a topic has several lines."""
    body = json.dumps({"version": 2, "topics": [{"name": "t"}]}, indent=1)
    line = f',\n "checksum": "{crc32c(body.encode()):08x}"\n}}\n'
    assert read((body.removesuffix("\n}") + line).encode())["topics"] == [{"name": "t"}]


@pytest.mark.parametrize("version", [1, 3, '"2"', "null"])
def test_a_file_of_another_version_is_refused_by_name_with_what_to_do(version: object) -> None:
    words = r"/d/f.*its format has version .*, and this ottla knows 2 only: use the ottla that"
    content = whole().replace(b'"version": 2', f'"version": {version}'.encode())
    with pytest.raises(CorruptionError, match=words):
        read(content)
    with pytest.raises(CorruptionError, match=words):
        check_summed_json("/d/f", content)


@pytest.mark.parametrize("content", [b"[" * 100_000, b"1", b"[]", b"null", b'"version"', b"\xff"])
def test_nonsense_is_damage_and_no_other_error(content: bytes) -> None:
    with pytest.raises(CorruptionError, match="/d/f"):
        read(content)
    with pytest.raises(CorruptionError, match="/d/f"):
        check_summed_json("/d/f", content)
