"""One small question every few milliseconds, asked by a process of its own: what others wait.

`Probe` starts it; `python -m benchmarks.probe` is the process, which reads whom to ask, and writes
each wait and the part of it without waits for cores. Its parent is the broker's process.
"""

import os
import select
import socket
import struct
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from benchmarks.machine import queued_seconds
from benchmarks.wire import frame_of
from ottla.protocol.messages.api_versions import ApiVersionsRequest

PAUSE_S = 0.003
WAIT = struct.Struct("<dd")  # seconds in all, without waits for cores
BEGINS = WAIT.pack(-1.0, -1.0)
READ_SIZE = 1 << 16


class Wait(NamedTuple):
    all_s: float
    served_s: float


class Probe:
    """The process, seen from the broker's."""

    def __init__(self) -> None:
        root = Path(__file__).parent.parent
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.probe"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=root,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input, self._output = self._process.stdin, self._process.stdout
        self._left = b""

    def __enter__(self) -> "Probe":
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        self._input.close()
        self._output.close()

    def ask(self, address: tuple[str, int]) -> None:
        """Asks this server from now on; the one before it has an end when this returns."""
        self._input.write(f"{address[0]} {address[1]}\n".encode())
        self._input.flush()
        os.set_blocking(self._output.fileno(), True)
        while self._output.read(WAIT.size) != BEGINS:
            pass
        os.set_blocking(self._output.fileno(), False)
        self._left = b""

    def take(self) -> list[Wait]:
        """All waits that have ended since the last call."""
        while some := self._output.read(READ_SIZE):
            self._left += some
        end = len(self._left) // WAIT.size * WAIT.size
        waits = [Wait(*one) for one in WAIT.iter_unpack(self._left[:end])]
        self._left = self._left[end:]
        return waits


def main() -> None:
    while address := sys.stdin.readline().split():
        sys.stdout.buffer.write(BEGINS)
        sys.stdout.buffer.flush()
        with (
            suppress(ConnectionError),
            socket.create_connection((address[0], int(address[1]))) as peer,
        ):
            _ask_until_told(peer)


def _ask_until_told(peer: socket.socket) -> None:
    frame = frame_of(ApiVersionsRequest(), 0)
    while not select.select([sys.stdin], [], [], PAUSE_S)[0]:
        queued, asked = _queued(), perf_counter()
        peer.sendall(frame)
        _received(peer, int.from_bytes(_received(peer, 4), "big"))
        waited = perf_counter() - asked
        served = max(0.0, waited - max(0.0, _queued() - queued))
        sys.stdout.buffer.write(WAIT.pack(waited, served))
        sys.stdout.buffer.flush()


def _queued() -> float:
    """Of this process, and of the broker's threads: its main one only asks for much."""
    broker = os.getppid()
    threads = [int(one) for one in os.listdir(f"/proc/{broker}/task")]
    seconds = sum(queued_seconds(broker, one) for one in threads if one != broker)
    return seconds + queued_seconds(os.getpid())


def _received(peer: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        some = peer.recv(size - len(data))
        if not some:
            raise ConnectionError("the broker has closed the connection")
        data += some
    return data


if __name__ == "__main__":
    main()
