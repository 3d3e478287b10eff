"""The sentences of `base/files.py` about names and directories, asked of every file system."""

import errno

import pytest

from ottla.base.file_copies import unshare
from ottla.base.files import (
    FileStatus,
    read_file,
    remove_if_present,
    replace_file,
)
from tests.integration.conftest import Place


def test_a_missing_file_is_not_opened(place: Place) -> None:
    for options in ({}, {"writable": True}):
        with pytest.raises(FileNotFoundError) as raised:
            place.file_system.open(place.path("a"), **options)
        assert raised.value.errno == errno.ENOENT
        assert raised.value.filename == place.path("a")


def test_create_makes_a_file_and_keeps_the_one_that_is_there(place: Place) -> None:
    place.file_system.open(place.path("a"), create=True).close()
    assert place.read("a") == b""
    place.write("a", b"kept")
    file = place.file_system.open(place.path("a"), create=True)
    assert file.path == place.path("a")
    assert file.pread(9, 0) == b"kept"
    file.close()


def test_a_file_is_not_created_where_there_is_no_directory(place: Place) -> None:
    with pytest.raises(FileNotFoundError):
        place.file_system.open(place.path("none", "a"), create=True)
    place.write("a", b"")
    with pytest.raises(NotADirectoryError):
        place.file_system.open(place.path("a", "b"), create=True)


@pytest.mark.parametrize("options", [{}, {"writable": True}, {"create": True}])
def test_a_directory_is_not_opened(place: Place, options: dict[str, bool]) -> None:
    with pytest.raises(IsADirectoryError):
        place.file_system.open(place.root, **options)


def test_a_name_of_256_bytes_is_too_long(place: Place) -> None:
    place.file_system.open(place.path("n" * 255), create=True).close()
    for name in ("n" * 256, "ø" * 128):
        with pytest.raises(OSError) as raised:
            place.file_system.open(place.path(name), create=True)
        assert raised.value.errno == errno.ENAMETOOLONG


def test_names_are_listed_sorted(place: Place) -> None:
    for name in ("b", "a", "C", "a.b"):
        place.write(name, b"")
    place.file_system.make_directory(place.path("aa"))
    assert place.file_system.list(place.root) == ["C", "a", "a.b", "aa", "b"]


def test_only_a_directory_is_listed(place: Place) -> None:
    place.write("a", b"")
    with pytest.raises(NotADirectoryError):
        place.file_system.list(place.path("a"))
    with pytest.raises(FileNotFoundError):
        place.file_system.list(place.path("none"))


def test_status_says_size_and_kind(place: Place) -> None:
    path = place.write("a", b"12345")
    status = place.file_system.status(path)
    assert isinstance(status, FileStatus)
    assert (status.size, status.is_directory) == (5, False)
    assert status.modified_ms > 1_500_000_000_000
    directory = place.file_system.status(place.root)
    assert directory is not None
    assert directory.is_directory


def test_status_distinguishes_a_file_from_the_one_that_replaced_it(place: Place) -> None:
    path = place.write("a", b"1")
    before = place.file_system.status(path)
    replace_file(place.file_system, path, b"2")
    after = place.file_system.status(path)
    assert before is not None
    assert after is not None
    assert before.number != after.number


def test_status_of_nothing_is_none(place: Place) -> None:
    path = place.write("a", b"")
    assert place.file_system.status(place.path("none")) is None
    assert place.file_system.status(place.path("none", "none")) is None
    assert place.file_system.status(f"{path}/below-a-file") is None


def test_space_says_the_size_of_the_disk_that_a_path_is_on(place: Place) -> None:
    place.write("a", bytes(1 << 20))
    for path in (place.root, place.path("a")):
        space = place.file_system.space(path)
        assert 0 < space.usable < space.total
    with pytest.raises(FileNotFoundError):
        place.file_system.space(place.path("none"))


def test_make_directory_makes_parents_and_is_content_with_what_exists(place: Place) -> None:
    for _ in range(2):
        place.file_system.make_directory(place.path("a", "b", "c"))
    assert place.file_system.list(place.path("a", "b")) == ["c"]


def test_make_directory_does_not_take_a_file_for_a_directory(place: Place) -> None:
    place.write("a", b"")
    with pytest.raises(FileExistsError):
        place.file_system.make_directory(place.path("a"))
    with pytest.raises(NotADirectoryError):
        place.file_system.make_directory(place.path("a", "b"))


def test_rename_replaces_a_file(place: Place) -> None:
    place.write("a", b"new")
    place.write("b", b"old")
    old = place.file_system.open(place.path("b"))
    place.file_system.rename(place.path("a"), place.path("b"))
    assert place.file_system.list(place.root) == ["b"]
    assert place.read("b") == b"new"
    assert old.pread(9, 0) == b"old"
    old.close()


def test_rename_moves_a_file_to_another_directory(place: Place) -> None:
    place.file_system.make_directory(place.path("d"))
    place.write("a", b"1")
    place.file_system.rename(place.path("a"), place.path("d", "b"))
    assert place.file_system.list(place.root) == ["d"]
    assert place.read("d/b") == b"1"


def test_rename_to_its_own_name_changes_nothing(place: Place) -> None:
    place.write("a", b"1")
    place.file_system.make_directory(place.path("d"))
    place.file_system.rename(place.path("a"), place.path("a"))
    place.file_system.rename(place.path("d"), place.path("d"))
    assert place.read("a") == b"1"


def test_rename_of_a_directory_takes_its_files_along(place: Place) -> None:
    place.file_system.make_directory(place.path("d"))
    place.write("d/a", b"1")
    place.file_system.make_directory(place.path("empty"))
    place.file_system.rename(place.path("d"), place.path("empty"))
    assert place.file_system.list(place.root) == ["empty"]
    assert place.read("empty/a") == b"1"


def test_a_file_with_two_names_is_one_until_a_name_is_removed(place: Place) -> None:
    files = place.file_system
    one, other = place.write("a", b"1"), place.path("b")
    files.link(one, other)
    statuses = [files.status(path) for path in (one, other)]
    assert statuses[0] == statuses[1]
    assert statuses[0] is not None
    assert statuses[0].link_count == 2
    file = files.open(one, writable=True)
    file.pwrite(b"2", 0)
    file.close()
    assert place.read("b") == b"2"
    files.remove(one)
    left = files.status(other)
    assert left is not None
    assert left.link_count == 1


def test_a_file_gets_no_second_name_that_is_taken(place: Place) -> None:
    place.write("a", b"1")
    place.write("b", b"2")
    with pytest.raises(FileExistsError):
        place.file_system.link(place.path("a"), place.path("b"))
    with pytest.raises(FileNotFoundError):
        place.file_system.link(place.path("none"), place.path("c"))


def test_a_shared_file_gets_a_copy_of_its_own_with_its_time(place: Place) -> None:
    files = place.file_system
    one, other = place.write("a", b"123"), place.path("b")
    assert not unshare(files, one)
    files.link(one, other)
    files.set_modified_ms(one, 1_000_000)
    assert unshare(files, one)
    assert place.read("a") == place.read("b") == b"123"
    own, left = files.status(one), files.status(other)
    assert own is not None
    assert left is not None
    assert (own.link_count, left.link_count) == (1, 1)
    assert own.modified_ms == left.modified_ms == 1_000_000


def test_two_directories_change_places(place: Place) -> None:
    files = place.file_system
    for name in ("d", "e"):
        files.make_directory(place.path(name))
        place.write(f"{name}/a", name.encode())
    files.exchange(place.path("d"), place.path("e"))
    assert (place.read("d/a"), place.read("e/a")) == (b"e", b"d")
    with pytest.raises(FileNotFoundError):
        files.exchange(place.path("d"), place.path("none"))
    with pytest.raises(OSError) as raised:
        files.exchange(place.path("d"), place.path("d/a"))
    assert raised.value.errno == errno.EINVAL


def test_rename_refuses_what_would_lose_a_directory(place: Place) -> None:
    for name in ("d", "full"):
        place.file_system.make_directory(place.path(name))
    place.write("a", b"1")
    place.write("full/b", b"2")
    for source, target, code in (
        ("none", "a", errno.ENOENT),
        ("a", "none/a", errno.ENOENT),
        ("a", "d", errno.EISDIR),
        ("d", "a", errno.ENOTDIR),
        ("d", "full", errno.ENOTEMPTY),
        ("full", "full/inside", errno.EINVAL),
    ):
        with pytest.raises(OSError) as raised:
            place.file_system.rename(place.path(source), place.path(target))
        assert raised.value.errno == code, (source, target)
    assert place.file_system.list(place.root) == ["a", "d", "full"]


def test_an_open_file_survives_its_name(place: Place) -> None:
    path = place.write("a", b"before")
    file = place.file_system.open(path, writable=True)
    place.file_system.remove(path)
    file.pwrite(b"after", 0)
    assert file.pread(9, 0) == b"aftere"
    assert place.file_system.status(path) is None
    place.write("a", b"another")
    assert file.pread(9, 0) == b"aftere"
    file.close()


def test_remove_takes_only_files_and_remove_directory_only_empty_directories(place: Place) -> None:
    place.file_system.make_directory(place.path("d"))
    path = place.write("d/a", b"")
    for deed, name, code in (
        (place.file_system.remove, "none", errno.ENOENT),
        (place.file_system.remove_directory, "none", errno.ENOENT),
        (place.file_system.remove_directory, "d", errno.ENOTEMPTY),
        (place.file_system.remove_directory, "d/a", errno.ENOTDIR),
    ):
        with pytest.raises(OSError) as raised:
            deed(place.path(name))
        assert raised.value.errno == code, name
    with pytest.raises((IsADirectoryError, PermissionError)):  # macOS has it that way.
        place.file_system.remove(place.path("d"))
    place.file_system.remove(path)
    place.file_system.remove_directory(place.path("d"))
    assert place.file_system.list(place.root) == []


def test_only_a_directory_is_synced_as_one(place: Place) -> None:
    place.file_system.sync_directory(place.root)
    with pytest.raises(NotADirectoryError):
        place.file_system.sync_directory(place.write("a", b""))
    with pytest.raises(FileNotFoundError):
        place.file_system.sync_directory(place.path("none"))


def test_a_lock_keeps_others_out_until_it_is_released(place: Place) -> None:
    path = place.path(".lock")
    lock = place.file_system.lock(path)
    assert lock is not None
    assert place.file_system.list(place.root) == [".lock"]
    assert place.file_system.lock(path) is None
    lock.release()
    again = place.file_system.lock(path)
    assert again is not None
    again.release()


def test_a_lock_released_twice_leaves_the_next_holder_alone(place: Place) -> None:
    first = place.file_system.lock(place.path(".lock"))
    assert first is not None
    first.release()
    second = place.file_system.lock(place.path(".lock"))
    first.release()
    assert place.file_system.lock(place.path(".lock")) is None
    assert second is not None
    second.release()


def test_a_lock_is_on_the_file_and_not_on_its_name(place: Place) -> None:
    lock = place.file_system.lock(place.path("a"))
    other = place.file_system.lock(place.path("b"))
    assert lock is not None
    assert other is not None
    place.file_system.rename(place.path("a"), place.path("c"))
    assert place.file_system.lock(place.path("c")) is None
    lock.release()
    other.release()


def test_only_a_file_is_locked(place: Place) -> None:
    with pytest.raises(IsADirectoryError):
        place.file_system.lock(place.root)
    with pytest.raises(FileNotFoundError):
        place.file_system.lock(place.path("none", ".lock"))


def test_a_small_file_is_replaced_and_read_whole(place: Place) -> None:
    path = place.path("checkpoint")
    for content in (b"a longer content", b"short", b""):
        replace_file(place.file_system, path, content)
        assert read_file(place.file_system, path) == content
    assert place.file_system.list(place.root) == ["checkpoint"]


def test_what_a_crash_left_of_a_replacement_is_used_again(place: Place) -> None:
    place.write("checkpoint.tmp", b"left behind, and longer")
    replace_file(place.file_system, place.path("checkpoint"), b"new")
    assert place.file_system.list(place.root) == ["checkpoint"]
    assert place.read("checkpoint") == b"new"


def test_a_file_is_removed_if_present(place: Place) -> None:
    path = place.write("a", b"")
    for _ in range(2):
        remove_if_present(place.file_system, path)
    assert place.file_system.list(place.root) == []


def test_a_place_has_one_canonical_path_however_it_is_written(place: Place) -> None:
    place.file_system.make_directory(place.path("a", "b"))
    canonical = place.file_system.canonical(place.path("a"))
    assert canonical.startswith("/")
    for other in ("a/", "a/.", "a/b/..", "./a", "a/none/..", "../data/a"):
        assert place.file_system.canonical(place.path(other)) == canonical
    for other in ("a/b", "b", ".", "a/none"):
        assert place.file_system.canonical(place.path(other)) != canonical
    assert place.file_system.canonical("/" + canonical) == canonical
