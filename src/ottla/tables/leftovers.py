"""What commits that were killed, or came second, have left among a table's data files."""

import re
from collections.abc import Set

from ottla.tables.manifest import QUARANTINE_DIRECTORY, Action

_ACTIONS = "|".join(one.value for one in Action)
_COMMIT_DIRECTORY = re.compile(rf"({_ACTIONS})-(?P<commit_id>\d{{20}})-[0-9a-f]{{8}}")
_INNER_DIRECTORY = re.compile(r"[^=/]+=[^/]*|" + QUARANTINE_DIRECTORY)
_FILE = re.compile(r"\.?(part-.*\.parquet|_SUCCESS)(\.crc)?")
_SCRATCH = "_temporary"
"""Spark's own committer wrote there, when loads went through it."""


def leftover_of(path: str, committed: Set[str]) -> int | None:
    """The commit for which a file was written that is no table's; `None` for any other file.

    Paths are relative to the table. What has no name that commits give is none of ours.
    """
    _, commit, *inner, name = path.split("/") if path.count("/") > 1 else ("", "", path)
    found = _COMMIT_DIRECTORY.fullmatch(commit)
    if found is None:
        return None
    if _SCRATCH not in inner:
        is_named_so = _FILE.fullmatch(name) and all(map(_INNER_DIRECTORY.fullmatch, inner))
        if not is_named_so or _data_file_of(path) in committed:
            return None
    return int(found["commit_id"])


def is_beside(path: str) -> bool:
    """Whether a leftover is no data file, but what was written beside one."""
    return path.endswith((".crc", "/_SUCCESS")) or f"/{_SCRATCH}/" in path


def checksum_of(path: str) -> str:
    """Where Hadoop kept a data file's checksum, when loads wrote through it."""
    directory, _, name = path.rpartition("/")
    return f"{directory}/.{name}.crc"


def _data_file_of(path: str) -> str:
    """The data file that is meant: this one, or that of which it is the checksum."""
    directory, _, name = path.rpartition("/")
    is_checksum = name.startswith(".") and name.endswith(".crc")
    return f"{directory}/{name[1 : -len('.crc')]}" if is_checksum else path
