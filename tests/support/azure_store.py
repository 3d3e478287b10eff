"""An object store that speaks as Azure's does: Azurite, which `make azure-store` installs."""

import base64
import hashlib
import hmac
import secrets
import subprocess
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path
from shutil import which

from tests.support.ports import free_port

SERVER = (
    Path(__file__).parents[1]
    / "compat" / "azurite" / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
)  # fmt: skip
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""Both are the emulator's, and public."""

VERSION = "2021-08-06"


def absence() -> str | None:
    """Why it cannot be started here."""
    if which("node") is None or not SERVER.exists():
        return "Azurite is not installed (make azure-store)"
    return None


def environment_of(port: int) -> Mapping[str, str]:
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        "AZURE_STORAGE_USE_EMULATOR": "true",
        "AZURITE_BLOB_STORAGE_URL": f"http://127.0.0.1:{port}",
    }


@contextmanager
def served() -> Iterator[int]:
    """The port."""
    port = free_port()
    words = ["node", str(SERVER), "--silent", "--inMemoryPersistence", "--skipApiVersionCheck"]
    with subprocess.Popen(
        [*words, "--blobPort", str(port)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as server:
        assert server.stdout is not None
        try:
            lines = iter(server.stdout.readline, b"")
            assert any(b"successfully listens" in line for line in lines)
            yield port
        finally:
            server.terminate()


def new_container(port: int) -> str:
    """The address of a container that nobody has used."""
    container = f"container-{secrets.token_hex(4)}"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
    named = [f"{name}:{value}" for name, value in headers.items()]
    place = f"/{ACCOUNT}/{ACCOUNT}/{container}"
    signed = "\n".join(["PUT", *[""] * 11, *named, place, "restype:container"])
    digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/{ACCOUNT}/{container}?restype=container",
        method="PUT",
        headers={**headers, "Content-Length": "0"},
    )
    with urllib.request.urlopen(asked) as answer:
        assert answer.status == 201
    return f"az://{container}"
