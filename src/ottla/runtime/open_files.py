"""How many files a broker may have open: as many as the system lets its process have.

A partition needs up to five, the two internal topics have fifty partitions each, and a process has
mostly 1,024 by default, or 256. Java raises the limit for Kafka in the same way.
"""

from contextlib import suppress


def allow_open_files() -> None:
    """Raises this process's limit as far as it may; what holds for its children follows."""
    try:
        import resource
    except ImportError:
        return  # no such limit on this system
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
