"""A PostgreSQL server of a test's own, where one is installed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.ports import free_port

ACCOUNT = "postgres"
"""Debian's, since the server refuses to run as root."""


def _tool(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(places[-1]) if places else shutil.which(name)


@contextmanager
def postgres(directory: Path) -> Iterator[str]:
    """Its URL. Skips the test, with the reason, where there is no server to start."""
    initdb, control = _tool("initdb"), _tool("pg_ctl")
    if initdb is None or control is None:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    run_as: list[str] = []
    directory.mkdir()
    if os.geteuid() == 0:
        run_as = ["runuser", "-u", ACCOUNT, "--"]
        shutil.chown(directory, ACCOUNT)
        for parent in directory.parents:
            if parent.owner() == "root" and str(parent) != "/":
                parent.chmod(parent.stat().st_mode | 0o011)
    data, port = directory / "data", free_port()
    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"

    def run(*command: str) -> None:
        done = subprocess.run(
            [*run_as, *command],
            cwd=directory,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert not done.returncode, done.stderr

    run(initdb, "-D", str(data), "-U", ACCOUNT, "-A", "trust", "--no-sync", "-E", "UTF8")
    run(control, "-D", str(data), "-l", str(directory / "log"), "-w", "-o", options, "start")
    try:
        yield f"postgresql://{ACCOUNT}@127.0.0.1:{port}/{ACCOUNT}"
    finally:
        run(control, "-D", str(data), "-m", "immediate", "-w", "stop")
