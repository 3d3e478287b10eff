"""docs/service.md: the unit is one that systemd takes, and it and the image start what there is."""

import json
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ottla.cli.environment import settings_in
from ottla.cli.serve.control import status_command
from ottla.cli.serve.serve_command import serve_command

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "service.md").read_text()
UNIT = re.search(r"<!-- file: ottla.service -->\n```ini\n(.*?)```", PAGE, re.DOTALL)


def unit() -> str:
    assert UNIT is not None
    return UNIT[1]


def test_the_unit_calls_the_command_as_it_is() -> None:
    (line,) = re.findall(r"^ExecStart=/opt/ottla/bin/ottla serve (.*)$", unit(), re.MULTILINE)
    given = serve_command.make_context("serve", shlex.split(line)).params
    assert given["directory"] == "/var/lib/ottla/data"
    assert str(given["config_file"]) == "/etc/ottla/server.properties"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not here")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    path = tmp_path / "ottla.service"
    path.write_text(unit().replace("/opt/ottla/bin/ottla", sys.executable))
    done = subprocess.run(
        ["systemd-analyze", "verify", path], capture_output=True, text=True, check=False
    )
    assert "ottla.service" not in done.stderr
    assert done.returncode == 0, done.stderr


def image() -> dict[str, list[str]]:
    """The arguments of each instruction of the Dockerfile."""
    follower = runpy.run_path(str(ROOT / "release" / "follow_dockerfile.py"))
    found: dict[str, list[str]] = {}
    for name, arguments in follower["instructions_of"]((ROOT / "release/Dockerfile").read_text()):
        found.setdefault(name, []).append(arguments)
    return found


def test_the_image_calls_commands_as_they_are_on_data_in_its_volume() -> None:
    found = image()
    start = json.loads(found["ENTRYPOINT"][0])
    health = json.loads(found["HEALTHCHECK"][0].partition(" CMD ")[2])
    assert (start[:2], health[:2]) == (["ottla", "serve"], ["ottla", "status"])
    given = serve_command.make_context("serve", start[2:]).params
    asked = status_command.make_context("status", health[2:]).params
    assert given["directory"] == asked["directory"]
    (volume,) = json.loads(found["VOLUME"][0])
    assert Path(given["directory"]).parent == Path(volume)
    assert found["RUN"][-1] == f"install -d -o ottla -g ottla {volume}"
    assert given["metrics"] == "0.0.0.0:9404"
    assert settings_in(dict([found["ENV"][0].split("=", 1)])) == {
        "listeners": "PLAINTEXT://0.0.0.0:9092"
    }
    assert found["EXPOSE"] == ["9092 9404"]


def test_the_image_has_a_python_and_extras_that_there_are() -> None:
    found = image()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (python,) = re.findall(r"^python:(3\.\d+)-slim$", found["FROM"][0])
    assert f"Programming Language :: Python :: {python}" in project["classifiers"]
    (extras,) = re.findall(r"ottla\[(.*)\]", found["RUN"][1])
    assert {*extras.split(",")} <= {*project["optional-dependencies"]}
