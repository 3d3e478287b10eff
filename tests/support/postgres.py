"""A PostgreSQL server of a test's own, where one is installed."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.ports import free_port

ACCOUNT = "postgres"
"""Debian's, since the server refuses to run as root."""


def _tool(name: str) -> str | None:
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(places[-1]) if places else shutil.which(name)


@contextmanager
def postgres(*settings: str) -> Iterator[str]:
    """Its URL, with settings such as `wal_level=logical`.

    Skips the test, with the reason, where there is no server to start.
    """
    initdb, control = _tool("initdb"), _tool("pg_ctl")
    if initdb is None or control is None:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    # Not below pytest's directory, which other accounts may not enter.
    with TemporaryDirectory(prefix="ottla-postgres-") as directory:
        run_as: list[str] = []
        if os.geteuid() == 0:
            run_as = ["runuser", "-u", ACCOUNT, "--"]
            shutil.chown(directory, ACCOUNT)
        data, port = f"{directory}/data", free_port()
        options = (
            f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        ) + "".join(f" -c {one}" for one in settings)

        def run(*command: str) -> None:
            done = subprocess.run(
                [*run_as, *command],
                cwd="/",
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert not done.returncode, done.stderr

        run(initdb, "-D", data, "-U", ACCOUNT, "-A", "trust", "--no-sync", "-E", "UTF8")
        run(control, "-D", data, "-l", f"{directory}/log", "-w", "-o", options, "start")
        try:
            yield f"postgresql://{ACCOUNT}@127.0.0.1:{port}/{ACCOUNT}"
        finally:
            run(control, "-D", data, "-m", "immediate", "-w", "stop")
