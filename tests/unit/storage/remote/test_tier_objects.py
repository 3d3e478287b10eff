import errno
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError, StorageError, UserError
from ottla.objects.directory_store import DirectoryStore
from ottla.objects.store import StoreError
from ottla.storage.files.filenames import MAX_OFFSET
from ottla.storage.remote.remote_storage import TierError
from ottla.storage.remote.tier_objects import TierObjects
from tests.support.memory_store import MemoryStore
from tests.support.tiers import uploaded

SEGMENT = uploaded(100).metadata


@pytest.fixture
def objects(tmp_path: Path) -> TierObjects:
    (tmp_path / "a").write_bytes(b"0123456789")
    return TierObjects(DirectoryStore(str(tmp_path)))


def test_what_is_missing_or_cut_is_said_of_the_segment(
    objects: TierObjects, tmp_path: Path
) -> None:
    place = r"\(orders-0, offsets 100 to 115\); put it back .* --before 116"
    for ask in (
        lambda: objects.get("none", 0, 1, SEGMENT),
        lambda: objects.read("none", SEGMENT),
        lambda: objects.size("none", SEGMENT),
    ):
        with pytest.raises(CorruptionError, match=f"{tmp_path}/none at byte 0: is missing {place}"):
            ask()
    with pytest.raises(CorruptionError, match=rf"{tmp_path}/a at byte 10: .*lost its end {place}"):
        objects.get("a", 5, 6, SEGMENT)
    assert objects.get("a", 5, 5, SEGMENT) == b"56789"


def test_a_segment_whose_end_is_not_known_is_named_by_its_start(objects: TierObjects) -> None:
    with pytest.raises(CorruptionError, match=r"\(orders-0, from offset 100\); put it back"):
        objects.read("none", replace(SEGMENT, end_offset=MAX_OFFSET))


def test_an_object_may_be_looked_for(objects: TierObjects) -> None:
    assert (objects.find("a"), objects.find("none")) == (b"0123456789", None)
    assert (objects.has("a"), objects.has("none")) == (True, False)


def test_what_the_disk_refuses_is_one_line_with_the_fix(
    objects: TierObjects, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> bytes:
        raise PermissionError(13, "Permission denied")

    for name in ("get", "read", "size", "names", "folders", "has"):
        monkeypatch.setattr(DirectoryStore, name, refuse)
    for ask in (
        lambda: objects.get("a", 0, 1, SEGMENT),
        lambda: objects.size("a", SEGMENT),
        lambda: objects.find("a"),
        lambda: objects.names("a"),
        lambda: objects.folders("a"),
        lambda: objects.has("a"),
    ):
        with pytest.raises(UserError, match=rf"{tmp_path}/a: Permission denied; let this user"):
            ask()


@pytest.mark.parametrize("path", ["a/../../b", "/etc/a", "a//b", "./a", "a\0b", "a\nb", ""])
def test_a_path_that_leaves_the_store_is_refused(path: str, objects: TierObjects) -> None:
    assert objects.checked(SEGMENT, "a/b-c.d/e") == "a/b-c.d/e"
    with pytest.raises(CorruptionError, match=r"is no name of an object \(orders-0, "):
        objects.checked(SEGMENT, path)


def test_what_is_written_is_measured_by_asking_the_store() -> None:
    store = MemoryStore()
    assert TierObjects(store).put("a/b.log", [b"012", b"34"]) == 5
    assert store.calls[-1] == ("size", "a/b.log")


@pytest.mark.parametrize(("size", "text"), [(4, "has 4 bytes"), (6, "has 6"), (None, "not exist")])
def test_a_store_that_lies_about_a_put_is_found(size: int | None, text: str) -> None:
    store = MemoryStore()
    store.sizes["log"] = size
    with pytest.raises(TierError, match=f"memory://tier/a.log: .*{text}.*check the store") as it:
        TierObjects(store).put("a.log", [b"01234"])
    assert it.value.is_retriable


@pytest.mark.parametrize(
    ("error", "is_retriable"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.EIO, "Input/output error"), True),
        (OSError(errno.ETIMEDOUT, "Connection timed out"), True),
        (PermissionError(errno.EACCES, "Permission denied"), False),
        (OSError(errno.EROFS, "Read-only file system"), False),
        (StoreError("s3://b: 503 Slow Down", is_retriable=True), True),
        (StoreError("s3://b: 403 Forbidden", is_retriable=False), False),
    ],
)
def test_what_a_store_says_is_worth_another_attempt_or_not(
    error: Exception, is_retriable: bool
) -> None:
    def fail(name: str, path: str, number: int) -> None:
        raise error

    objects = TierObjects(MemoryStore(fail))
    for ask in (lambda: objects.put("a", [b""]), lambda: objects.delete_all(["a"])):
        with pytest.raises(TierError) as caught:
            ask()
        assert caught.value.is_retriable == is_retriable
        assert "\n" not in str(caught.value)


def test_what_the_source_of_an_object_raises_passes_through() -> None:
    def parts() -> Iterator[bytes]:
        yield b"0"
        raise StorageError("data", "Input/output error")

    with pytest.raises(StorageError, match="data: Input"):
        TierObjects(MemoryStore()).put("a", parts())
