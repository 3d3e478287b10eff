"""Child processes that end with this process at once, even if it is killed with SIGKILL.

A child runs `_lifeline.py` as a script, before it imports anything of Ottla: until a child watches
its parent, the parent's death leaves an orphan.
"""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, Final

LIFELINE: Final = str(Path(__file__).with_name("_lifeline.py"))


def child_command(pipe: int, module: str, arguments: Sequence[str] = ()) -> list[str]:
    """The command line of a child of this process.

    `pipe` is the reading end of a pipe whose writing end only this process has open. The child
    must inherit it.
    """
    lifeline = [LIFELINE, str(pipe), str(os.getpid()), module]
    return [sys.executable, "-P", *lifeline, *arguments]


def start_child(
    module: str, arguments: Sequence[str] = (), *, pass_fds: Sequence[int] = (), **options: Any
) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """Starts `python -m module ARGUMENTS`; raises `OSError`.

    `options` are those of `subprocess.Popen`. The thread that calls this must wait in the context
    until the child has ended: on Linux the child ends with that thread.
    """
    ours, its = os.pipe()
    try:
        process = subprocess.Popen(
            child_command(ours, module, arguments), pass_fds=[ours, *pass_fds], **options
        )
    except BaseException:
        os.close(its)
        raise
    finally:
        os.close(ours)
    return _held(process, its)


@contextmanager
def _held(process: "subprocess.Popen[bytes]", pipe: int) -> Iterator["subprocess.Popen[bytes]"]:
    try:
        yield process
    finally:
        os.close(pipe)
