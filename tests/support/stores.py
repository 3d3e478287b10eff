"""An object store that speaks as S3 does, conditional puts included: moto's, in its own process.

`deltalake` waits for its answers without letting other threads of Python run, so a server in this
process would never answer.
"""

import secrets
import subprocess
import sys
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

REGION = "us-east-1"
_SERVER = """
import logging, sys
from moto.server import ThreadedMotoServer
logging.getLogger("werkzeug").setLevel(logging.ERROR)
server = ThreadedMotoServer(ip_address="127.0.0.1", port=int(sys.argv[1]), verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def environment_of(port: int) -> Mapping[str, str]:
    """What clients of S3, in whatever process, go by."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "anybody",
        "AWS_SECRET_ACCESS_KEY": "anything",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def served(port: int = 0) -> Iterator[int]:
    """The port. Skips the test that asks for it where moto is not installed."""
    pytest.importorskip("deltalake", reason="deltalake is not installed")
    pytest.importorskip("moto.server", reason="moto is not installed")
    # It ends when its standard input does, however this process ends.
    with subprocess.Popen(
        [sys.executable, "-c", _SERVER, str(port)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        yield int(server.stdout.readline())
        server.stdin.close()


def new_bucket(port: int, prefix: str = "bucket-") -> str:
    """The address of a bucket that nobody has used."""
    bucket = f"{prefix}{secrets.token_hex(4)}"
    asked = urllib.request.Request(f"http://127.0.0.1:{port}/{bucket}", method="PUT")
    with urllib.request.urlopen(asked) as answer:
        assert answer.status == 200
    return f"s3://{bucket}"
