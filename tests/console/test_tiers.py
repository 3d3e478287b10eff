"""The picture of a log whose first segments are in a remote tier alone."""

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.main import cli
from tests.console.asking import console_over
from tests.golden.test_golden_remote_log_metadata import RECORDED

pytestmark = pytest.mark.skipif(not RECORDED.exists(), reason="needs the recorded tiers")


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return shutil.copytree(RECORDED / "1-basic" / "logdir", tmp_path / "data")


def test_segments_in_the_tier_are_drawn_before_those_on_the_disk(directory: Path) -> None:
    with console_over(directory) as browser:
        found = browser.json("/topics/plain/log/0")
        picture = found["picture"]
        parts = [(one["part"], one["base_offset"]) for one in picture["shapes"]]
        assert parts == [
            *(("tiered", offset) for offset in range(0, 700, 140)),
            ("kept", 700),
            ("active", 840),
        ]
        markers = {one["name"]: one["offset"] for one in picture["markers"]}
        assert (markers["log start"], markers["local start"]) == (0, 700)
        assert markers["end of the tier"] == 840
        page = browser.text("/topics/plain/log/0")
        assert "in the remote tier alone; copied by broker 1" in page


def test_a_description_of_the_topic_has_the_local_and_the_tiered_offsets(directory: Path) -> None:
    text = CliRunner().invoke(cli, ["topics", "describe", str(directory), "plain"]).stdout
    heading = next(line for line in text.splitlines() if line.startswith("partition"))
    assert "first local   last in tier" in heading
    (row,) = [line.split() for line in text.splitlines() if line.strip().startswith("0 ")]
    assert row[5:8] == ["700", "839", "920"]
    found = CliRunner().invoke(cli, ["topics", "describe", str(directory), "plain", "--json"])
    assert '"first_local_offset": 700, "last_tiered_offset": 839' in found.stdout
