"""What is no regular file is never opened as one: neither waited for nor followed."""

import os
import socket
from pathlib import Path

import pytest

from ottla.base.files import OsFileSystem


def test_a_directory_is_nobody_elses_to_write_into_whatever_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        OsFileSystem().make_directory(f"{tmp_path}/a/b//c/")
    finally:
        os.umask(before)
    for one in ("a", "a/b", "a/b/c"):
        assert (tmp_path / one).stat().st_mode & 0o777 == 0o755
    OsFileSystem().make_directory(f"{tmp_path}/a/b")
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(FileExistsError):
        OsFileSystem().make_directory(f"{tmp_path}/file")


def fifo(path: Path) -> None:
    os.mkfifo(path)


def dangling_link(path: Path) -> None:
    path.symlink_to(path.with_name("nothing"))


def link_to_itself(path: Path) -> None:
    path.symlink_to(path)


def link_to_a_file(path: Path) -> None:
    path.with_name("other").write_bytes(b"another file's bytes")
    path.symlink_to(path.with_name("other"))


def unix_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))


KINDS = [fifo, dangling_link, link_to_itself, link_to_a_file, unix_socket]
OPTIONS: list[dict[str, bool]] = [{}, {"writable": True}, {"create": True}]


@pytest.mark.parametrize("options", OPTIONS, ids=["read", "write", "create"])
@pytest.mark.parametrize("make", KINDS)
def test_only_a_regular_file_is_opened(
    make: object, options: dict[str, bool], tmp_path: Path
) -> None:
    assert callable(make)
    make(path := tmp_path / "file")
    with pytest.raises(OSError, match="where a regular file belongs; move it away") as caught:
        OsFileSystem().open(str(path), **options)
    assert caught.value.filename == str(path)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("make", KINDS)
def test_only_a_regular_file_is_locked(make: object, tmp_path: Path) -> None:
    assert callable(make)
    make(path := tmp_path / ".lock")
    with pytest.raises(OSError, match="where a regular file belongs"):
        OsFileSystem().lock(str(path))


@pytest.mark.parametrize("make", KINDS)
def test_what_is_no_regular_file_is_something_all_the_same(make: object, tmp_path: Path) -> None:
    assert callable(make)
    make(path := tmp_path / "file")
    status = OsFileSystem().status(str(path))
    assert status is not None
    assert not status.is_directory


def test_a_directory_may_be_reached_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "here").symlink_to(tmp_path / "there")
    OsFileSystem().open(str(tmp_path / "here" / "file"), create=True).close()
    assert (tmp_path / "there" / "file").exists()
