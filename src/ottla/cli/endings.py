"""How a command ends: with 0, 1 (it failed, or found something), 2 (it was misused), 124 or 130.

Every failure is one line on standard error, never a traceback. Codes 124 and 130 are those of
`timeout` and of a shell whose command was interrupted.
"""

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import click

from ottla.base.errors import (
    DISK_REMEDIES,
    ApiError,
    CorruptionError,
    RefusalError,
    StorageError,
    TaskError,
    UserError,
)
from ottla.base.extras import how_to_install
from ottla.cli.journal import ERROR, priority_mark

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_TIMED_OUT = 124
EXIT_INTERRUPTED = 130

TRACEBACK_VARIABLE = "OTTLA_TRACEBACK"

REMEDIES = {
    **DISK_REMEDIES,
    errno.EACCES: "give this user the right to it, or name another place",
    errno.EPERM: "give this user the right to it, or name another place",
    errno.EROFS: "name a place that can be written",
}


@contextmanager
def ended() -> Iterator[None]:
    """Turns an exception of a command into its error line and its exit code."""
    try:
        yield
        sys.stdout.flush()
    except (click.exceptions.Exit, click.ClickException):
        raise
    except BrokenPipeError:
        _leave_closed_pipe()
    except SystemExit:
        # Output may still be on its way to a reader that is gone.
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            _leave_closed_pipe()
        raise
    except click.Abort:
        sys.exit(EXIT_INTERRUPTED)
    except KeyboardInterrupt as error:
        _end_interrupted(error)
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            import traceback

            traceback.print_exc()
        text, code = _judged(error)
        notes = "".join(f" ({one})" for one in getattr(error, "__notes__", ()))
        click.echo(f"{priority_mark(ERROR)}ottla: {text}{notes}", err=True)
        sys.exit(code)


@contextmanager
def named_files(path: str) -> Iterator[None]:
    """Treats a file that cannot be used as misuse, with a line that names the file, or else the
    path.
    """
    try:
        yield
    except BrokenPipeError:
        raise  # The reader of standard output is gone.
    except OSError as error:
        raise UserError(f"{error.filename or path}: {error.strerror}") from error


def _leave_closed_pipe() -> None:
    """`ottla records ... | head -1`: a reader that has enough is not a failure."""
    with suppress(OSError, ValueError):  # In a test standard output is not a file.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(0)


def _end_interrupted(error: KeyboardInterrupt) -> None:
    from ottla.cli.terminal import DeadlinePassedError

    if isinstance(error, DeadlinePassedError):
        click.echo("ottla: the time given by --timeout is over", err=True)
        sys.exit(EXIT_TIMED_OUT)
    sys.exit(EXIT_INTERRUPTED)


def _judged(error: Exception) -> tuple[str, int]:
    """Returns the error line and the exit code."""
    if isinstance(error, RefusalError):
        return str(error), EXIT_FAILED
    if isinstance(error, UserError):
        return str(error), EXIT_USAGE
    if isinstance(error, ApiError | CorruptionError | StorageError | TaskError):
        cause = error.__cause__
        remedy = REMEDIES.get(cause.errno or 0) if isinstance(cause, OSError) else None
        return f"{error}; {remedy}" if remedy else str(error), EXIT_FAILED
    if isinstance(error, ModuleNotFoundError) and (remedy := how_to_install(error)):
        return remedy, EXIT_USAGE
    if isinstance(error, OSError):
        # The code that opens a file reports one that is not a regular file (a FIFO, a link, a
        # folder).
        reason = error.strerror or str(error)
        if error.errno in REMEDIES:
            reason += f"; {REMEDIES[error.errno]}"
        unnamed = "a file" if error.errno != errno.ENOSPC else "standard output or a file"
        return f"{error.filename or unnamed}: {reason}", EXIT_FAILED
    where = f"{TRACEBACK_VARIABLE}=1 shows the traceback"
    return f"a fault of ours, {type(error).__name__}: {error}; {where}", EXIT_FAILED
