"""The picture of a log whose first segments are in a remote tier alone."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.main import cli
from ottla.console.targets import Place
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, console_over
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
    assert heading.rstrip().endswith("local size   tier size")
    (row,) = [line.split() for line in text.splitlines() if line.strip().startswith("0 ")]
    assert row[5:8] == ["700", "839", "920"]
    found = CliRunner().invoke(cli, ["topics", "describe", str(directory), "plain", "--json"])
    assert '"first_local_offset": 700, "last_tiered_offset": 839' in found.stdout
    (partition,) = json.loads(found.stdout)["by_partition"]
    uploads = (RECORDED / "1-basic" / "tier").glob("kafka-tiered-storage/plain-0-*/*.log")
    assert partition["tier_size"] == sum(one.stat().st_size for one in uploads) > 0


def test_the_page_of_tiers_has_what_lies_where_and_what_is_to_be_copied(directory: Path) -> None:
    with console_over(directory) as browser:
        found = browser.json("/tiers")
        topics = {one["topic"]: one for one in found["topics"]}
        (row,) = [one for one in found["partitions"] if one["topic"] == "plain"]
        assert (row["local_start"], row["tiered_until"], row["end"]) == (700, 840, 920)
        assert row["behind"] == topics["plain"]["behind"] == 80
        assert row["behind_size"] == 0
        assert topics["plain"]["tier_size"] > topics["plain"]["local_size"] > 0
        assert found["problems"] == []
        assert "Offsets to copy" in browser.text("/tiers")


def test_a_broker_on_another_machine_tells_the_offsets_of_its_tier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        **FEW_LOGS,
        "remote.log.storage.system.enable": "true",
        "remote.log.storage.manager.class.name": (
            "org.apache.kafka.server.log.remote.storage.LocalTieredStorage"
        ),
        "rsm.config.dir": str(tmp_path / "tier"),
        "rlmm.config.remote.log.metadata.topic.num.partitions": "1",
    }
    monkeypatch.setattr(Place, "files", lambda *_: None)
    with LocalBroker(tmp_path / "data", settings) as broker:
        broker.create_topic("tiered", config={"remote.storage.enable": "true"})
        broker.create_topic("plain")
        broker.produce("tiered", "one")
        with console_over(broker.address) as browser:
            found = browser.json("/tiers")
            (row,) = found["partitions"]
            assert (row["topic"], row["local_start"], row["end"]) == ("tiered", 0, 1)
            assert (row["tiered_until"], row["behind"], row["local_size"]) == (0, 1, None)
            assert "only offsets" in browser.text("/tiers")
