"""A throw-away broker, alone and around a command."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.main import cli
from ottla.cli.quick.quick_command import CLIENTS, settings_lines
from tests.integration.cli.support import ENVIRONMENT, run_ottla
from tests.support.patience import PATIENCE_S

ASK = """
import os, sys
from ottla.client.administration.admin import Admin
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


BECOMING = """
import os, signal, sys
assert sys.argv[1:] == ["x y", "-o"], sys.argv
inherited = [one for one in os.listdir("/proc/self/fd") if int(one) > 2]
assert len(inherited) == 1, inherited  # of the listing itself
mask = signal.pthread_sigmask(signal.SIG_BLOCK, [])
assert os.environ["MASK"] == str(sorted(mask)), mask
print(sys.stdin.read(), flush=True)
os.kill(os.getpid(), signal.SIGTERM)
signal.pause()
"""

PAUSING = "import os, signal; print(os.getpid(), flush=True); signal.pause()"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_command_is_as_its_user_started_it_and_ends_when_its_broker_is_killed() -> None:
    quick = [sys.executable, "-m", "ottla", "quick", "--", sys.executable, "-c"]
    done = subprocess.run(
        [*quick, BECOMING, "x y", "-o"],
        input="what is piped in", capture_output=True, text=True,
        env={**ENVIRONMENT, "MASK": str(sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])))},
    )  # fmt: skip
    assert done.returncode == 128 + signal.SIGTERM, done.stderr
    assert done.stdout == "what is piped in\n"
    with subprocess.Popen([*quick, PAUSING], stdout=subprocess.PIPE, env=ENVIRONMENT) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) != process.pid
        process.kill()
        # The command has the other end too: the output is over when both have ended.
        assert process.communicate(timeout=PATIENCE_S)[0] == b""


def test_every_client_is_given_the_address() -> None:
    lines = settings_lines("h:1").values()
    assert all("h:1" in line and "{{" not in line for line in lines)


@pytest.mark.slow
def test_a_program_or_a_broker_that_cannot_start_is_one_line() -> None:
    done = run_ottla("quick", "--listen", "x", "--", sys.executable, "-c", "print('began')")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "an address is HOST:PORT" in done.stderr
    done = run_ottla("quick", "--", "/no/such/program")
    assert (done.returncode, done.stdout) == (127, "")
    assert done.stderr == "ottla: /no/such/program: No such file or directory\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--topic", "a:x"], 2, "--topic takes NAME or NAME:PARTITIONS, such as orders:3"),
        (["--listen", "x"], 2, "an address is HOST:PORT"),
    ],
)
def test_what_cannot_be_run_is_one_line(words: list[str], code: int, said: str) -> None:
    result = CliRunner().invoke(cli, ["quick", *words])
    assert result.exit_code == code
    assert said in result.output
