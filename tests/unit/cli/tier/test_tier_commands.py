"""`ottla tier` lists, checks, explains and restores: what is printed, and how it ends."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.base.ids import parse_uuid, uuid_text
from ottla.cli.main import cli
from ottla.cli.start import main
from tests.support.tiered import TOPIC, TieredPlace, uploaded
from tests.support.tiers import local_objects, put


@pytest.fixture
def place(tmp_path: Path) -> TieredPlace:
    return TieredPlace(tmp_path, [uploaded(1, 0, 9), uploaded(2, 10, 19)], (10, 19), (20, 25))


def run(place: TieredPlace, command: str, *words: str) -> Result:
    return CliRunner().invoke(cli, ["tier", command, *words, "--tier", str(place.tier)])


def objects(result: Result) -> list[dict[str, object]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_listing_says_what_is_read_and_what_is_local(place: TieredPlace) -> None:
    done = run(place, "list", str(place.data), "--json")
    assert [
        (one["partition"], one["start_offset"], one["end_offset"], one["state"])
        for one in objects(done)
    ] == [(0, 0, 9, "read"), (0, 10, 19, "also local")]
    table = run(place, "list", str(place.data)).stdout.splitlines()
    assert table[0].split()[:4] == ["partition", "offsets", "size", "state"]
    assert [line.split()[:2] for line in table[2:]] == [["orders-0", "0–9"], ["orders-0", "10–19"]]


def test_a_tier_is_listed_without_a_directory(place: TieredPlace) -> None:
    done = run(place, "list", "--json", "-t", "orders", "-p", "0")
    assert [one["state"] for one in objects(done)] == ["read", "read"]
    assert run(place, "list", "-p", "1").stderr.startswith(str(place.tier))
    names = run(place, "list", "-q").stdout.splitlines()
    assert names[0] == f"orders-0 0 {uuid_text(uploaded(1, 0, 9).metadata.segment_id)}"


def test_missing_records_are_remarked(place: TieredPlace) -> None:
    shutil.rmtree(place.data / "__remote_log_metadata-0")
    assert "what lies in the tier is taken" in run(place, "list", str(place.data)).stderr


def test_a_sound_tier_ends_with_0_and_a_damaged_one_with_1(place: TieredPlace) -> None:
    done = run(place, "check", str(place.data))
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        [f"{place.tier}: sound (1 partition, 2 uploads, 10 batches, 20 records, 780 B)"],
    )
    (log,) = place.tier.rglob(f"{0:020}-*.log")
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    done = run(place, "check", str(place.data), "--json")
    finding, summary = objects(done)
    assert done.exit_code == 1
    assert (finding["type"], finding["object"], finding["lost_offsets"]) == (
        "finding",
        str(log),
        [8, 9],
    )
    assert (summary["is_sound"], summary["findings"]) == (False, 1)
    text = run(place, "check", str(place.data)).stdout
    assert "(orders-0, offsets 0 to 9); put it back from a copy of the tier" in text


def test_a_note_is_marked_and_no_damage(place: TieredPlace) -> None:
    (folder,) = (place.tier / "kafka-tiered-storage").iterdir()
    (folder / "notes.txt").write_text("mine")
    done = run(place, "check", str(place.data))
    assert done.exit_code == 0
    assert done.stdout.startswith("note: ")


def test_a_segment_is_explained_by_its_offset(place: TieredPlace) -> None:
    done = run(place, "explain", str(place.data), "-t", "orders", "--offset", "12", "--json")
    heading, *rows = objects(done)
    assert (heading["local_start_offset"], heading["last_tiered_offset"]) == (10, 19)
    assert [(one["place"], one["state"]) for one in rows] == [
        ("tier", "also local"),
        ("local", "copied"),
    ]
    text = run(place, "explain", str(place.data), "-t", "orders").stdout
    assert "log start 0, tier 0–19, local from 10 to before 26" in text
    assert "the active segment" in text
    none = run(place, "explain", str(place.data), "-t", "orders", "-o", "99").stdout
    assert "no segment has offset 99" in none


def test_a_partition_is_restored_with_what_is_known_of_its_topic(
    place: TieredPlace, tmp_path: Path
) -> None:
    target = tmp_path / "restored"
    dry = run(place, "restore", str(target), "--dry-run", "--json")
    assert [one["is_done"] for one in objects(dry)] == [False]
    assert not target.exists()
    done = run(place, "restore", str(target), "--records", str(place.data))
    assert done.exit_code == 0, (done.output, done.exception)
    assert "orders-0: offsets 0 to 19" in done.stdout
    assert f"until `ottla adopt {target}` confirms" in done.stdout
    with ottla.open(target) as log:
        assert [one.offset for one in log.read("orders")] == [*range(20)]
        log.append("orders", b"later")
        assert log.offsets("orders") == {0: (0, 21)}
    again = run(place, "restore", str(target))
    assert (again.exit_code, again.stdout) == (1, "")
    assert "is there already" in again.stderr


def test_the_settings_of_a_topic_are_taken_over(place: TieredPlace, tmp_path: Path) -> None:
    """From the directory whose metadata log has the topic, though its partition is gone."""
    source, target = tmp_path / "source", tmp_path / "restored"
    shutil.rmtree(place.partition)
    with ottla.open(source) as log:
        log.create_topic("orders", config={"retention.ms": "-1", "segment.bytes": "4096"})
    metadata = source / "orders-0" / "partition.metadata"
    topic_id = metadata.read_text().split()[-1]
    old = place.tier / "kafka-tiered-storage" / f"orders-0-{uuid_text(TOPIC.topic_id)}"
    old.rename(old.with_name(f"orders-0-{topic_id}"))
    done = run(place, "restore", str(target), "--records", str(source), "--json")
    assert done.exit_code == 0, (done.output, done.exception)
    (topic,) = [one for one in objects(done) if one["type"] == "topic"]
    assert topic["settings"] == {"retention.ms": "-1", "segment.bytes": "4096"}
    shown = CliRunner().invoke(cli, ["configs", "get", str(target), "orders", "--json"])
    found = {one["name"]: one["value"] for one in objects(shown)}
    assert (found["retention.ms"], found["segment.bytes"]) == ("-1", "4096")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("list",), "name the tier with --tier"),
        (("explain", "--tier", "{tier}"), "name the topic"),
        (("explain", "--tier", "{tier}", "-t", "none"), "nothing of none lies in this tier"),
        (("restore", "{tmp}/new", "--tier", "{tier}", "-t", "none"), "nothing that was asked for"),
        (("check", "--tier", "{tmp}/nowhere"), "no tier lies here"),
        (("check", "{tmp}/nowhere", "--tier", "{tier}"), "does not exist"),
    ],
)
def test_what_is_missing_is_said_in_one_line(
    place: TieredPlace,
    tmp_path: Path,
    words: tuple[str, ...],
    message: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = [one.format(tier=place.tier, tmp=tmp_path) for one in words]
    monkeypatch.setattr("sys.argv", ["ottla", "tier", *given])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line


def test_a_lost_partition_is_put_back_into_its_directory(tmp_path: Path) -> None:
    """Its broker's metadata log has the topic and its settings, and its checkpoints the start."""
    data, tier = tmp_path / "data", tmp_path / "tier"
    with ottla.open(data) as log:
        log.create_topic("orders", partitions=2, config={"retention.ms": "-1"})
        log.append("orders", b"stays", partition=1)
    topic_id = parse_uuid((data / "orders-0" / "partition.metadata").read_text().split()[-1])
    place = replace(TOPIC, topic_id=topic_id)
    for one in (uploaded(1, 0, 9), uploaded(2, 10, 19)):
        put(tier, local_objects(replace(one, metadata=replace(one.metadata, partition=place))))
    shutil.rmtree(data / "orders-0")
    words = ["tier", "restore", str(data), "--tier", str(tier), "--records", str(data)]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert len(done.stdout.splitlines()) == 1
    check = CliRunner().invoke(cli, ["log", "check", str(data)])
    assert check.exit_code == 0, check.output
    with ottla.open(data) as log:
        assert log.offsets("orders") == {0: (0, 20), 1: (0, 1)}
        assert [one.offset for one in log.read("orders", partition=0)] == [*range(20)]
