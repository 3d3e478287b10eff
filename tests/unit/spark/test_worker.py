"""What a process of Spark's does once."""

import gc
import os
import signal
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from subprocess import PIPE

import pytest

from ottla.spark.worker import exempt_imports


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    exempt_imports.cache_clear()
    yield
    gc.unfreeze()


@pytest.mark.slow
def test_what_is_there_is_not_looked_at_again_and_what_comes_later_is() -> None:
    exempt_imports()
    count = gc.get_freeze_count()
    later: list[object] = []
    later.append(later)
    exempt_imports()
    assert 0 < gc.get_freeze_count() <= count
    assert any(one is later for one in gc.get_objects())
    assert not any(one is gc for one in gc.get_objects())


@pytest.mark.slow
@pytest.mark.parametrize("module", ["ottla.spark.daemon", "pyspark.daemon"])
def test_only_in_a_session_of_ours_a_process_says_nothing_of_java_that_hung_up_before_it_began(
    module: str,
) -> None:
    assert ("BrokenPipeError" in stderr_after_a_hang_up(module)) == (module == "pyspark.daemon")


def stderr_after_a_hang_up(module: str) -> str:
    """All that a daemon and its processes say when a connection is closed before it is accepted."""
    with tempfile.TemporaryDirectory(prefix="o") as directory:
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join(sys.path),
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": directory,
        }
        daemon = subprocess.Popen(
            [sys.executable, "-m", module, "pyspark.worker"],
            env=environment,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
        )
        assert daemon.stdout is not None
        (length,) = struct.unpack(">i", daemon.stdout.read(4))
        path = daemon.stdout.read(length)
        daemon.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, daemon.pid, os.WSTOPPED)
        with socket.socket(socket.AF_UNIX) as java:
            java.connect(path)
        with socket.socket(socket.AF_UNIX) as java:
            java.connect(path)
            daemon.send_signal(signal.SIGCONT)
            # Once the second process is there, so is the first.
            (second,) = struct.unpack(">i", java.recv(4, socket.MSG_WAITALL))
            os.kill(second, signal.SIGKILL)
        return daemon.communicate()[1].decode()


@pytest.mark.slow
def test_a_process_that_plans_says_nothing_of_java_that_hung_up() -> None:
    """Spark takes no daemon of ours for it; the source's module is what such a process imports."""
    program = (
        "import importlib.util, sys, traceback\n"
        "sys.modules['__main__'].__spec__ = importlib.util.find_spec('pyspark.daemon')\n"
        "import pyspark_ottla\n"
        "for error in BrokenPipeError, ValueError:\n"
        "    try:\n"
        "        raise error\n"
        "    except error:\n"
        "        traceback.print_exc()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], stderr=PIPE, text=True, check=True)
    assert "BrokenPipeError" not in done.stderr
    assert "ValueError" in done.stderr
