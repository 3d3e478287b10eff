"""docs/service.md: the unit is one that systemd takes, and starts what there is."""

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.serve.serve_command import serve_command

PAGE = (Path(__file__).parents[2] / "docs" / "service.md").read_text()
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
