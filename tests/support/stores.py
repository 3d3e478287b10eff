"""An object store of this process that speaks as S3 does, conditional puts included: moto's."""

import logging
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

REGION = "us-east-1"


def environment_of(port: int) -> Mapping[str, str]:
    """What clients of S3, in whatever process, go by."""
    return {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "anybody",
        "AWS_SECRET_ACCESS_KEY": "anything",
        "AWS_DEFAULT_REGION": REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
    }


@contextmanager
def served(port: int) -> Iterator[None]:
    """Skips the test that asks for it where moto or s3fs are not installed."""
    pytest.importorskip("s3fs", reason="s3fs is not installed: pip install 'ottla[s3]'")
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    running = server.ThreadedMotoServer(ip_address="127.0.0.1", port=port, verbose=False)
    running.start()
    try:
        yield
    finally:
        running.stop()


def new_bucket() -> str:
    """The address of a bucket that nobody has used."""
    import s3fs

    bucket = f"bucket-{secrets.token_hex(4)}"
    s3fs.S3FileSystem(skip_instance_cache=True).mkdir(bucket)
    return f"s3://{bucket}"
