"""A user's command that is given the address of a broker, and that ends when this process does.

The command's process starts before the broker, so that it costs no time: it first runs
`runtime/_lifeline.py`, waits for the address in `main`, and is then replaced by the command. What
the kernel does at the parent's end (Linux only) also applies to the command; processes that the
command starts are its own.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

import click

from ottla.runtime.children import start_child

EXIT_NOT_FOUND = 127
SIGNALLED = 128
"""Added to the number of a signal that ended a command, as by a shell."""

SERVERS = "KAFKA_BOOTSTRAP_SERVERS"


class Launch:
    def __init__(self, process: "subprocess.Popen[bytes]", pipe: int) -> None:
        self._process = process
        self._pipe = pipe

    def run(self, address: str) -> int:
        """Runs the command, and returns the exit code, as a shell would.

        Ctrl-C goes to the command; SIGTERM is passed on to it.
        """
        process = self._process
        before = {
            signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
            signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
        }
        try:
            with suppress(BrokenPipeError):  # a signal has ended it already
                os.write(self._pipe, address.encode())
            self.give_up()
            code = process.wait()
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        return code if code >= 0 else SIGNALLED - code

    def give_up(self) -> None:
        """Ends a process that has not been given an address; does nothing later."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1


@contextmanager
def launching(command: Sequence[str]) -> Iterator[Launch]:
    """Starts the process; the thread that calls this must stay in the context (`start_child`)."""
    its, ours = os.pipe()
    # Until the command runs, Ctrl-C is for this process alone.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        child = start_child(__name__, [str(its), *command], pass_fds=[its])
    except BaseException:
        os.close(ours)
        raise
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        os.close(its)
    with child as process:
        launch = Launch(process, ours)
        try:
            yield launch
        finally:
            launch.give_up()
            process.wait()


def main() -> None:
    """Waits for the address, and becomes the command."""
    pipe, command = int(sys.argv[1]), sys.argv[2:]
    with open(pipe) as file:
        address = file.read()
    if not address:
        return  # there is no broker; the parent says why
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # Python ignores these
        signal.signal(number, signal.SIG_DFL)
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    try:
        os.execvpe(command[0], command, {**os.environ, SERVERS: address, "OTTLA_TARGET": address})
    except OSError as error:
        click.echo(f"ottla: {command[0]}: {error.strerror}", err=True)
        sys.exit(EXIT_NOT_FOUND)


if __name__ == "__main__":
    main()
