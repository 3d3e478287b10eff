"""Copies files, and separates files that share their content, as those of a snapshot do.

A write to a file with several names is visible under all of them. Code that changes a log file in
place therefore calls `unshare` first.
"""

from ottla.base.files import FileSystem, parent_directory

COPY_SIZE = 1 << 20


def copy_file(file_system: FileSystem, source: str, target: str, most: int | None = None) -> int:
    """Copies content and modification time; syncs the content, but not the name. Returns the size.

    At most `most` bytes are copied, since the file may grow meanwhile.
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
                # Retention of a segment without timestamps uses the modification time.
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
    """Replaces a file of several names by a copy; returns whether it had other names.

    A process that has the file open keeps the shared one. After a crash the name has either file,
    and `path.tmp` may remain, which nothing reads.
    """
    status = file_system.status(path)
    if status is None or status.link_count < 2:
        return False
    temporary = path + ".tmp"
    copy_file(file_system, path, temporary)
    file_system.rename(temporary, path)
    file_system.sync_directory(parent_directory(path))
    return True
