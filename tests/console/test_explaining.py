"""What pages explain: settings with their origin, doctor's findings, moves and loads."""

from pathlib import Path

import pytest

import ottla
from ottla.base.clock import SystemClock
from ottla.base.files import OsFileSystem
from ottla.diagnosis.doctor import check_directories
from ottla.diagnosis.words.remedies import remedy_text
from ottla.metadata.deciding.topics import NewTopic
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, Browser, console_over, fill
from tests.support.brokers import open_broker
from tests.support.moving import produce
from tests.support.patience import wait_until
from tests.support.serving import serving


@pytest.mark.slow
def test_a_topics_settings_have_a_value_an_origin_a_default_and_an_effect(
    broker: LocalBroker, browser: Browser
) -> None:
    broker.create_topic("teas", config={"retention.ms": 3_600_000})
    rows = browser.json("/topics/teas/settings?all=1")["settings"]
    found = {one["name"]: one for one in rows}
    own, default = found["retention.ms"], found["retention.bytes"]
    assert (own["value"], own["origin"], own["default"]) == ("3600000", "its own", "604800000")
    assert (own["is_default"], default["is_default"]) == (False, True)
    assert default["value"] == "-1"
    assert own["effect"] != default["effect"]
    html = browser.text("/topics/teas/settings")
    _, _, row = html.partition("<code>retention.ms</code>")
    row, _, _ = row.partition("</tr>")
    for shown in ('<span class="tag">its own</span>', own["effect"]):
        assert shown in row
    assert "<code>retention.bytes</code>" not in html


def test_the_first_page_shows_the_findings_of_doctor_with_their_fixes(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "data", FEW_LOGS) as log:
        fill(log)
    (segment,) = (tmp_path / "data" / "orders-0").glob("*.log")
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    segment.write_bytes(content)
    with console_over(tmp_path / "data") as browser:
        wait_until(lambda: browser.json("/")["has_looked"], "the check ends")
        page = browser.json("/")
        place = browser.console.place
        files = place.files()
        assert files is not None
        expected = {
            (one.where, one.what, remedy_text(one, place.target.text))
            for one in check_directories(files, SystemClock().now_ms())
            if not one.is_note
        }
        problems = [one for one in page["findings"] if not one["is_note"]]
        assert {(one["where"], one["what"], one["fix"]) for one in problems} == expected
        assert page["problem_count"] == len(expected) > 0
        html = browser.text("/")
        assert all(one["where"] in html for one in problems)
        assert 'class="finding problem"' in html


@pytest.mark.slow
def test_jobs_show_how_far_a_move_between_directories_is(tmp_path: Path) -> None:
    paths = [str(tmp_path / name) for name in ("a", "b")]
    slow = {"replica_alter_log_dirs_io_max_bytes_per_second": "1", "log_segment_bytes": "300"}
    broker = open_broker(OsFileSystem(), *paths, **slow)
    broker.admin.create_topic(NewTopic(name="t", partition_count=1))
    produce(broker, *(b"%d" % number for number in range(100)))
    to = next(one for one in paths if not Path(one, "t-0").exists())
    with serving(broker) as server, console_over(f"127.0.0.1:{server.address[1]}") as browser:
        assert "No partition is moving to another directory." in browser.text("/jobs")
        with ottla.Admin(f"127.0.0.1:{server.address[1]}") as admin:
            admin.move_partitions(1, {ottla.TopicPartition("t", 0): to})
        (move,) = browser.json("/jobs")["moves"]
        assert (move["topic"], move["partition"], move["to"]) == ("t", 0, to)
        assert 0 <= move["copied"] < move["size"]
        assert move["offset_lag"] > 0
        assert f"t-0</a> to {to}: " in browser.text("/jobs")
