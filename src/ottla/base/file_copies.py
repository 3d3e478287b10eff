"""Copies of files, and files that have a second name elsewhere, as those of a snapshot do.

What is written to such a file is seen under both names. So whatever changes a log file in place
takes a copy of it first (`unshare`).
"""

from ottla.base.files import FileSystem, parent_directory

COPY_SIZE = 1 << 20


def copy_file(file_system: FileSystem, source: str, target: str, most: int | None = None) -> int:
    """Copies content and modification time, durably but for the name; returns the size.

    At most so many bytes are copied of a file that grows meanwhile.
    """
    read = file_system.open(source)
    try:
        write = file_system.open(target, create=True)
        try:
            write.truncate(0)
            position = 0
            while chunk := read.pread(_next_size(position, most), position):
                write.pwrite(chunk, position)
                position += len(chunk)
            status = file_system.status(source)
            if status is not None:
                # Retention judges a segment without timestamps by it.
                file_system.set_modified_ms(target, status.modified_ms)
            write.sync()
        finally:
            write.close()
    finally:
        read.close()
    return position


def _next_size(position: int, most: int | None) -> int:
    return COPY_SIZE if most is None else min(COPY_SIZE, most - position)


def unshare(file_system: FileSystem, path: str) -> bool:
    """Gives a file of several names a copy of its own under this one; whether it had any other.

    A process that has the file open keeps the shared one. A crash leaves either under the name,
    and perhaps `path.tmp`, which nothing reads.
    """
    status = file_system.status(path)
    if status is None or status.link_count < 2:
        return False
    temporary = path + ".tmp"
    copy_file(file_system, path, temporary)
    file_system.rename(temporary, path)
    file_system.sync_directory(parent_directory(path))
    return True
