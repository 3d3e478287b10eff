"""`ottla serve --background`, `ottla status` and `ottla stop`, as a user types them."""

import json
from pathlib import Path

import pytest

import ottla
from ottla.client.administration.admin import Admin
from tests.integration.cli.support import run_ottla

pytestmark = pytest.mark.slow


def test_a_broker_in_the_background_is_seen_and_stopped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listen = ("--listen", "127.0.0.1:0", "--listen", "127.0.0.1:0")
    begun = run_ottla("serve", *listen, "--background", directory=tmp_path)
    assert begun.returncode == 0, begun.stderr
    _, addresses, pid, *_ = begun.stdout.split()
    try:
        assert begun.stdout.endswith(f"log={tmp_path}/ottla-data.log\n")
        assert len(addresses.split(",")) == 2
        status = run_ottla("status", "--json", directory=tmp_path)
        assert json.loads(status.stdout) == {
            "directory": "ottla-data",
            "is_running": True,
            "pid": int(pid.removeprefix("pid=")),
            "addresses": addresses.split(","),
            "command": "serve",
            "doing": None,
            "tables": [],
        }
        assert run_ottla("status", "-q", directory=tmp_path).stdout == f"{addresses}\n"
        with Admin(addresses) as admin:
            assert admin.describe_topics() == []
        again = run_ottla("serve", "ottla-data", *listen, "--background", directory=tmp_path)
        assert again.returncode == 2
        assert f"{pid.removeprefix('pid=')}, a broker at {addresses.split(',')[0]}" in again.stderr
    finally:
        stopped = run_ottla("stop", directory=tmp_path)
    assert (stopped.returncode, stopped.stdout) == (0, f"stopped {pid} data=ottla-data\n")
    assert (tmp_path / "ottla-data" / ".kafka_cleanshutdown").exists()
    status = run_ottla("status", directory=tmp_path)
    assert status.returncode == 1
    assert status.stdout.startswith("no process runs on ottla-data")


def test_the_log_of_the_background_is_written_through_no_link(tmp_path: Path) -> None:
    (tmp_path / "ottla-data.log").symlink_to(tmp_path / "profile")
    begun = run_ottla("serve", "--listen", "127.0.0.1:0", "--background", directory=tmp_path)
    assert begun.returncode == 2
    assert "ottla-data.log, the log of --background: it is a symbolic link" in begun.stderr
    assert not (tmp_path / "profile").exists()


def test_a_program_that_is_no_serve_is_not_stopped(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log:
        address = log.listen("127.0.0.1:0").address
        stopped = run_ottla("stop", tmp_path)
        assert stopped.returncode == 2
        assert f"a broker at {address}, which is not ottla serve" in stopped.stderr
        status = run_ottla("status", tmp_path)
        assert status.returncode == 0
        assert status.stdout.startswith(f"running {address} pid=")
