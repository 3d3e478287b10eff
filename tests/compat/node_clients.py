"""Sessions of the clients for Node: programs in `node/`, one per client.

Each runs once for all tests of a process, which takes less than its start for every session.
"""

import atexit
import base64
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

from tests.support.patience import PATIENCE_S

NODE = Path(__file__).with_name("node")
PROGRAMS = {"kafkajs": "kafkajs.js", "@platformatic/kafka": "platformatic.js"}


@cache
def absence() -> str | None:
    """Why no session can be held, with the fix."""
    if shutil.which("node") is None:
        return "node is not installed"
    if not all((NODE / "node_modules" / name).exists() for name in PROGRAMS):
        return "the clients for Node are not installed (make node-clients)"
    return None


def codecs_of(client: str) -> tuple[str, ...]:
    """What a client can compress with by itself, on the Node that is here."""
    if client == "kafkajs":
        return ("none", "gzip")
    return ("none", "gzip", "snappy", "lz4", *(("zstd",) if _has_zstd() else ()))


@cache
def _has_zstd() -> bool:
    """Node has it from 22.15 on."""
    probe = "process.exit(require('zlib').zstdCompressSync ? 0 : 1)"
    return absence() is None and not subprocess.run(["node", "-e", probe], check=False).returncode


def hold_session(client: str, address: str, session: str, **given: Any) -> Any:
    """Holds one session of a client to its end; what it printed."""
    program = _running.get(client)
    if program is None:
        program = _running[client] = Program(PROGRAMS[client])
    try:
        return program.hold(address, session, given)
    except BaseException:
        _running.pop(client).end()
        raise


class Program:
    """A client's program, which holds one session after the other."""

    def __init__(self, name: str) -> None:
        self._process = subprocess.Popen(
            ["node", "--no-deprecation", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=NODE,
        )

    def hold(self, address: str, session: str, given: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = {"address": address, "session": session, "given": given}
        patience = Timer(PATIENCE_S, self._process.kill)
        patience.start()
        try:
            print(json.dumps(question), file=self._process.stdin, flush=True)
            answer = self._process.stdout.readline()
        finally:
            patience.cancel()
        try:
            return json.loads(answer)
        except ValueError:
            # Said on the side, or the error that ended the program.
            self._process.kill()
            raise AssertionError(answer + self._process.stdout.read()) from None

    def end(self) -> None:
        with self._process:
            self._process.kill()


_running: dict[str, Program] = {}


@atexit.register
def _end_all() -> None:
    for program in _running.values():
        program.end()


def as_text(data: bytes | None) -> str | None:
    """Bytes as the programs take and give them."""
    return None if data is None else base64.b64encode(data).decode()
