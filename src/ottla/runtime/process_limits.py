"""What the system lets this process have: open files, and the size of a file.

A partition needs up to five files, the two internal topics have fifty partitions each, and a
process has mostly 1,024 by default, or 256. Java raises the limit for Kafka in the same way.
"""

from collections.abc import Mapping
from contextlib import suppress

from ottla.base.errors import UserError
from ottla.base.texts import size_text


def allow_open_files() -> None:
    """Raises this process's limit as far as it may; what holds for its children follows."""
    _raised("RLIMIT_NOFILE")


def check_file_sizes(sizes: Mapping[str, int]) -> None:
    """Raises the limit as far as this process may; raises `UserError` for settings, by name, that
    ask for larger files: the first of them would take its log directory offline.
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
    """The limit as it is now; `None` where there is none."""
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
