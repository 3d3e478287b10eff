"""Sessions of the clients for Node: programs in `node/`, one per client, run one session each."""

import base64
import json
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

NODE = Path(__file__).with_name("node")
PROGRAMS = {"kafkajs": "kafkajs.js", "@platformatic/kafka": "platformatic.js"}
TIMEOUT_S = 60


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
    """Runs one session of a client to its end; what it printed."""
    done = subprocess.run(
        ["node", "--no-deprecation", PROGRAMS[client], address, session],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        cwd=NODE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def as_text(data: bytes | None) -> str | None:
    """Bytes as the programs take and give them."""
    return None if data is None else base64.b64encode(data).decode()
