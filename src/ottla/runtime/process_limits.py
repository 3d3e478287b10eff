"""The system's limits for this process: open files, and the size of a file.

A partition needs up to five files, the two internal topics have fifty partitions each, and the
default limit is mostly 1,024 or 256 files. Java raises the limit for Kafka in the same way.
"""

from collections.abc import Mapping
from contextlib import suppress

from ottla.base.errors import UserError
from ottla.base.texts import size_text


def allow_open_files() -> None:
    """Raises the limit of open files as far as permitted; child processes inherit it."""
    _raised("RLIMIT_NOFILE")


def check_file_sizes(sizes: Mapping[str, int]) -> None:
    """Raises the limit of file sizes as far as permitted; raises `UserError` for settings, by name,
    that allow larger files: the first such file would take its log directory offline.
    """
    limit = _raised("RLIMIT_FSIZE")
    too_large = {name: size for name, size in sizes.items() if limit is not None and size > limit}
    if limit is not None and too_large:
        asked = ", ".join(f"{name}={size}" for name, size in too_large.items())
        fix = " ".join(f"-o {name}={limit}" for name in too_large)
        raise UserError(
            f"a file may have {size_text(limit)} here (ulimit -f), less than {asked}: raise the "
            f"limit, or set {fix}"
        )


def _raised(name: str) -> int | None:
    """Raises a limit, and returns its new value; `None` if there is no limit."""
    try:
        import resource
    except ImportError:
        return None  # no such limit on this system
    kind = getattr(resource, name)
    soft, hard = resource.getrlimit(kind)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(kind, (hard, hard))
            soft = hard
    return None if soft == resource.RLIM_INFINITY else soft
