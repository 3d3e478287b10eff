"""The directories that a program names."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ottla.base.addresses import names_brokers
from ottla.base.errors import UserError

Paths = str | os.PathLike[str] | Sequence[str]


def paths_of(path: Any) -> Sequence[str]:
    """The directories of a path or of several; raises `UserError` for anything else."""
    paths = [path] if isinstance(path, str | os.PathLike) else path
    if isinstance(paths, Mapping) or not isinstance(paths, Iterable):
        raise UserError(f"a log's path is a str, a Path or a list of them, not {path!r}")
    found = [_directory(one) for one in paths]
    if not found:
        raise UserError("name at least one directory, not an empty list")
    return found


def _directory(path: Any) -> str:
    if not isinstance(path, str | os.PathLike):
        raise UserError(f"a log's path is a str or a Path, not {path!r}")
    if isinstance(path, str) and names_brokers(path):
        raise UserError(
            f"{path}: a broker's address, where a data directory is opened; read and write a "
            f"broker's topics with ottla.Consumer, ottla.Producer and ottla.Admin, or write "
            f"./{path} for a directory of that name"
        )
    return str(os.fspath(path))
