"""A throw-away broker, alone and around a command."""

import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.main import cli
from ottla.cli.quick.command import CLIENTS, settings_lines
from tests.integration.cli.support import ENVIRONMENT, run_ottla
from tests.support.patience import PATIENCE_S

ASK = """
import os, sys
from ottla.client.admin import Admin
with Admin(os.environ["KAFKA_BOOTSTRAP_SERVERS"]) as admin:
    print(sorted((one.name, len(one.partitions)) for one in admin.describe_topics()))
sys.exit(7)
"""


@pytest.mark.slow
def test_a_command_finds_the_broker_and_its_exit_code_is_ours() -> None:
    done = run_ottla("quick", "--topic", "a:3", "--topic", "b", "--", sys.executable, "-c", ASK)
    assert (done.returncode, done.stdout) == (7, "[('a', 3), ('b', 1)]\n"), done.stderr


@pytest.mark.slow
def test_alone_it_prints_what_to_paste_and_leaves_nothing(tmp_path: Path) -> None:
    import signal
    import subprocess

    with subprocess.Popen(
        [sys.executable, "-m", "ottla", "quick", "--json"],
        stdout=subprocess.PIPE,
        env={**ENVIRONMENT, "TMPDIR": str(tmp_path)},
    ) as process:
        assert process.stdout is not None
        said = json.loads(process.stdout.readline())
        assert said["pid"] == process.pid
        assert said["clients"].keys() == CLIENTS.keys()
        assert list(tmp_path.iterdir()) != []
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    assert list(tmp_path.iterdir()) == []


def test_every_client_is_given_the_address() -> None:
    lines = settings_lines("h:1").values()
    assert all("h:1" in line and "{{" not in line for line in lines)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--topic", "a:x"], 2, "--topic takes NAME or NAME:PARTITIONS, such as orders:3"),
        (["--listen", "x"], 2, "an address is HOST:PORT"),
        (["--", "/no/such/program"], 127, "/no/such/program: No such file or directory"),
    ],
)
def test_what_cannot_be_run_is_one_line(words: list[str], code: int, said: str) -> None:
    result = CliRunner().invoke(cli, ["quick", *words])
    assert result.exit_code == code
    assert said in result.output
