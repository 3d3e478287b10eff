"""A fetch's answer on its way: copied through memory, or handed to `sendfile`.

`sendfile` moves no bytes through the process but costs a second call, so small runs are copied;
`server/network/send_queue.py` draws the line by what is measured here. The receiver is a process of
its own.
"""

import contextlib
import socket
import subprocess
import sys
from collections.abc import Iterator
from time import process_time

from benchmarks.measuring import Samples, Scale, figure, touch_file
from benchmarks.report import Report
from ottla.base.files import File, FileSlice, OsFileSystem
from ottla.server.network.send_queue import INLINE_SIZE, SendQueue
from ottla.server.network.transport import PlaintextTransport

SIZES = (1_024, 4_096, 8_192, 16_384, 32_768, 65_536, 131_072, 262_144)
HEADER = bytes(80)
"""About what stands before the records in a fetch's answer."""

BYTES_PER_RUN = 200_000_000
MAX_COUNT = 20_000

DRAIN = """
import socket, sys
peer = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
buffer = bytearray(1 << 20)
while peer.recv_into(buffer):
    pass
"""


def run(scale: Scale) -> Iterator[Report]:
    report = Report(
        f"An answer to a socket, sender's CPU us (the broker copies up to {INLINE_SIZE:,} bytes)",
        ("bytes", "copied", "from ... to", "sendfile", "from ... to", "sendfile over copied"),
    )
    with scale.data_directory() as directory, _drained_socket() as peer:
        path = directory / "log"
        touch_file(path, max(SIZES) * 4)
        file = OsFileSystem().open(str(path))
        for size in SIZES:
            count = scale.of(min(MAX_COUNT, BYTES_PER_RUN // size), 4)
            slices = _slices(file, size)
            samples = scale.sampled(
                {
                    "copied": lambda slices=slices, count=count: _cpu_each(  # type: ignore[misc]
                        count, slices, peer, max(SIZES)
                    ),
                    "sendfile": lambda slices=slices, count=count: _cpu_each(  # type: ignore[misc]
                        count, slices, peer, 0
                    ),
                }
            )
            _add(report, size, samples)
        file.close()
    yield report


@contextlib.contextmanager
def _drained_socket() -> Iterator[socket.socket]:
    """A connection whose other end takes everything in as fast as it can."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with contextlib.suppress(AttributeError, OSError):  # as the broker does, where it may
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
        command = [sys.executable, "-c", DRAIN, str(listener.getsockname()[1])]
        process = subprocess.Popen(command)
        peer, _ = listener.accept()
    try:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield peer
    finally:
        peer.close()
        process.wait()


def _slices(file: File, size: int) -> list[FileSlice]:
    return [FileSlice(file, start, size) for start in range(0, max(SIZES) * 4 - size + 1, size)]


def _cpu_each(count: int, slices: list[FileSlice], peer: socket.socket, inline_size: int) -> float:
    """What an answer with one slice takes, from the send queue to the socket."""
    queue, sink = SendQueue(inline_size), PlaintextTransport(peer)
    started = process_time()
    for number in range(count):
        slice_ = slices[number % len(slices)]
        queue.add(bytearray(HEADER), [(len(HEADER), slice_)])
        while not queue.send(sink):
            pass
    return (process_time() - started) / count


def _add(report: Report, size: int, samples: dict[str, Samples]) -> None:
    copied, sent = samples["copied"].scaled(1e6), samples["sendfile"].scaled(1e6)
    ratio = sent.over(copied).median if all(copied.values) else float("nan")
    report.add(
        f"{size:,}",
        figure(copied.median),
        copied.spread,
        figure(sent.median),
        sent.spread,
        f"{figure(ratio)} x",
    )
