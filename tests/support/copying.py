"""Segments as a broker hands them to a tier."""

from collections.abc import Mapping

from ottla.base.files import FileSlice, FileSystem, OsFileSystem
from ottla.storage.remote.segment_files import SegmentFiles
from ottla.storage.remote.segment_metadata import IndexType
from tests.support.tiers import Uploaded


def segment_files(
    log: bytes, indexes: Mapping[IndexType, bytes], directory: str, disk: FileSystem | None = None
) -> SegmentFiles:
    """The files of a segment whose log is written into a directory."""
    disk = disk or OsFileSystem()
    disk.make_directory(directory)
    file = disk.open(f"{directory}/00000000000000000000.log", create=True)
    file.truncate(0)
    file.pwrite(log, 0)
    return SegmentFiles(log=FileSlice(file, 0, len(log)), indexes=indexes)


def files_of(one: Uploaded, directory: str, disk: FileSystem | None = None) -> SegmentFiles:
    return segment_files(one.log, one.indexes, directory, disk)
