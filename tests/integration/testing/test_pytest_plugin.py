"""The fixtures as a user's tests have them, in a process of their own."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.integration.cli.support import ENVIRONMENT

ROOT = Path(__file__).parents[3]

TESTS = """
import pytest
from confluent_kafka import Producer

@pytest.mark.parametrize("number", range(6))
def test_each_test_has_a_broker_of_its_own(ottla_broker, number):
    producer = Producer({"bootstrap.servers": ottla_broker.address, "linger.ms": 0})
    producer.produce("t", b"%d" % number)
    producer.flush(60)
    ottla_broker.assert_produced("t", value=str(number), count=1)
    assert len(ottla_broker.records("t")) == 1

def test_a_log_is_embedded(ottla_log):
    ottla_log.create_topic("t")
    ottla_log.append("t", b"v")
    assert [one.value for one in ottla_log.read("t")] == [b"v"]

class TestOwnSettings:
    @pytest.fixture
    def ottla_settings(self):
        return {"num.partitions": 3}

    def test_a_class_has_settings_of_its_own(self, ottla_broker):
        Producer({"bootstrap.servers": ottla_broker.address}).list_topics("t", timeout=60)
        assert ottla_broker.log.topics()["t"] == 3
"""


@pytest.mark.slow
def test_fixtures_are_separate_in_several_processes(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(TESTS)
    plugins = ["-p", "ottla.testing.pytest_plugin", "-p", "xdist"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", *plugins, "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=ENVIRONMENT | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "8 passed" in result.stdout


def test_pytest_finds_the_fixtures_wherever_ottla_is_installed() -> None:
    if not os.path.exists(ROOT / "pyproject.toml"):
        pytest.skip("this is no checkout")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"ottla": "ottla.testing.pytest_plugin"}
