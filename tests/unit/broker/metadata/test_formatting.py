"""Directories of a new node are formatted as Kafka formats them, once, and wholly or not at all."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from ottla.base.errors import CorruptionError, RefusalError, UserError
from ottla.base.files import FileSystem, OsFileSystem, read_file, replace_file
from ottla.base.ids import Uuid, parse_uuid
from ottla.broker.metadata.bootstrap import read_bootstrap
from ottla.broker.metadata.formatting import (
    FormatOptions,
    begin_as_first_voter,
    format_directories,
    parse_initial_controllers,
)
from ottla.codec.schema import Message
from ottla.metadata.records import FeatureLevelRecord, UserScramCredentialRecord
from ottla.quorum.election_state import ElectionState
from ottla.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet
from ottla.record.batch import iter_batches
from ottla.storage.files.meta_properties import (
    MetaProperties,
    properties_of,
    write_meta_properties,
)
from ottla.testing import CrashMode, FakeFileSystem
from ottla.testing.crash_points import every_crash_point
from tests.support import SHARED
from tests.support.brokers import NOW_MS, disk, id_of
from tests.support.quorum_logs import QuorumDirectory

FORMATTED = (SHARED or Path("none")) / "recorded" / "kraft" / "dynamic" / "formatted"
CHECKPOINT = "__cluster_metadata-0/00000000000000000000-0000000000.checkpoint"
CLUSTER_ID = "AAECAwQFBgcICQoLDA0ODw"
CONTROLLER = Endpoint("CONTROLLER", "localhost", 9201)
needs_shared = pytest.mark.skipif(not FORMATTED.exists(), reason="needs the shared directories")


def level(number: int) -> tuple[Message, int]:
    return FeatureLevelRecord(name="metadata.version", feature_level=number), 0


def options(
    node_id: int = 101,
    *,
    records: tuple[tuple[Message, int], ...] = (level(21),),
    first_id: Uuid | None = None,
    standalone: Endpoint | None = None,
    voters: VoterSet | None = None,
    ignore_formatted: bool = False,
) -> FormatOptions:
    later = (id_of(number) for number in itertools.count(500))
    ids = later if first_id is None else itertools.chain([first_id], later)
    return FormatOptions(
        node_id=node_id,
        cluster_id=CLUSTER_ID,
        records=records,
        now_ms=NOW_MS,
        new_id=lambda: next(ids),
        standalone=standalone,
        voters=voters,
        ignore_formatted=ignore_formatted,
    )


# As Kafka does


def without_times(content: bytes) -> bytes:
    """Batches without checksums and times, also that in a snapshot's header."""
    left = bytearray(content)
    for batch in iter_batches(content):
        left[batch.position + 17 : batch.position + 21] = bytes(4)
        left[batch.position + 27 : batch.position + 43] = bytes(16)
    left[74:82] = bytes(8)
    return bytes(left)


def lines_of(content: bytes) -> list[bytes]:
    first, _, *fields = content.split(b"\n")
    return [first, *fields]


INITIAL = (
    "101@localhost:9201:BSdryjGAQd2pk2NjCws51g,103@localhost:9203:GIH6m5uaSpW6v9W2c3MUYw,"
    "102@localhost:9202:qVDFUu6iTTSbrEYZVqLzwQ"
)
ALICE = UserScramCredentialRecord(
    name="alice",
    mechanism=1,
    salt=b"cyn5q9l34agv6wvj2b9xp2aa6",
    stored_key=bytes.fromhex("1ace339d841374b7be7b2cd1c59aa18279e0134d447884d528d099b59c853504"),
    server_key=bytes.fromhex("522a93bbc14c06db0bb39cb2b63976d4b1a58eb9c2acd4cb62b021e785228438"),
    iterations=4096,
)


@needs_shared
@pytest.mark.parametrize(
    "name", ["standalone", "initial-controllers", "no-initial-controllers", "static", "scram"]
)
def test_a_directory_is_kafkas_byte_for_byte(name: str, tmp_path: Path) -> None:
    theirs = properties_of(OsFileSystem(), str(FORMATTED / name))
    assert theirs is not None
    assert theirs.node_id is not None
    wanted = options(
        theirs.node_id,
        records=(level(20 if name == "static" else 21), *([(ALICE, 0)] if name == "scram" else [])),
        first_id=theirs.directory_id,
        standalone=CONTROLLER if name in ("standalone", "scram") else None,
        voters=(
            parse_initial_controllers(INITIAL, "CONTROLLER")
            if name == "initial-controllers"
            else None
        ),
    )
    directory = tmp_path / "d"
    format_directories([str(directory)], OsFileSystem(), wanted)
    names = sorted(str(one.relative_to(directory)) for one in directory.rglob("*"))
    expected = FORMATTED / name
    assert names == sorted(str(one.relative_to(expected)) for one in expected.rglob("*"))
    assert lines_of((directory / "meta.properties").read_bytes()) == lines_of(
        (expected / "meta.properties").read_bytes()
    )
    for one in names:
        if one.endswith(".checkpoint"):
            ours = without_times((directory / one).read_bytes())
            assert ours == without_times((expected / one).read_bytes()), one


def test_only_the_metadata_directory_names_the_voters() -> None:
    files = disk("/")
    wanted = replace(options(standalone=CONTROLLER), metadata_directory="/m")
    found = format_directories(["/a", "/b"], files, wanted)
    assert [(one.path, one.is_new) for one in found] == [("/a", True), ("/b", True), ("/m", True)]
    assert len({one.directory_id for one in found}) == 3
    assert files.status(f"/m/{CHECKPOINT}") is not None
    for path in ("/a", "/b"):
        assert files.list(path) == ["bootstrap.checkpoint", "meta.properties"]


# Once


def test_a_formatted_directory_is_refused_and_nothing_is_changed() -> None:
    files = disk("/")
    format_directories(["/a"], files, options())
    with pytest.raises(RefusalError, match="/a is already formatted; --ignore-formatted"):
        format_directories(["/b", "/a"], files, options())
    assert files.status("/b") is None


def test_a_directory_of_another_cluster_or_node_is_named_so() -> None:
    files = disk("/")
    format_directories(["/a"], files, options())
    for wanted in (replace(options(), node_id=99), replace(options(), cluster_id="A" * 22)):
        with pytest.raises(RefusalError, match=r"/a is formatted with (node|cluster)\.id .*, not "):
            format_directories(["/a"], files, wanted)


def test_what_is_formatted_can_be_left_as_it_is() -> None:
    files = disk("/")
    (first,) = format_directories(["/a"], files, options())
    before = read_file(files, "/a/meta.properties")
    found = format_directories(["/a", "/b"], files, options(ignore_formatted=True))
    assert [(one.path, one.is_new) for one in found] == [("/a", False), ("/b", True)]
    assert found[0].directory_id == first.directory_id
    assert read_file(files, "/a/meta.properties") == before


def test_the_directory_of_another_node_is_refused() -> None:
    files = disk("/")
    format_directories(["/a"], files, options(1))
    with pytest.raises(RefusalError, match=r"/a is formatted with node\.id 1, not 2"):
        format_directories(["/a", "/b"], files, options(2, ignore_formatted=True))


@pytest.mark.parametrize("name", ["orders-0", "notes.txt", "__cluster_metadata-0"])
def test_what_holds_something_else_is_refused(name: str) -> None:
    files = disk("/a", f"/a/{name}")
    files.open(f"/a/{name}/00000000000000000000.log", create=True)
    with pytest.raises(UserError, match=f"/a has no meta.properties, but holds {name}"):
        format_directories(["/a"], files, options())


def test_a_crash_leaves_a_directory_that_is_formatted_or_can_be() -> None:
    def workload(files: FileSystem, acknowledged: list[str]) -> None:
        format_directories(["/a", "/b"], files, options(standalone=CONTROLLER))
        acknowledged.append("formatted")

    for point in every_crash_point(workload):
        files = point.file_system
        again = options(standalone=CONTROLLER, ignore_formatted=True)
        found = format_directories(["/a", "/b"], files, again)
        assert not point.acknowledged or not any(one.is_new for one in found)
        own = found[0].directory_id
        assert own is not None
        opened = QuorumDirectory(files, "/a").opened
        assert opened.history.voters == VoterSet.of([Voter(ReplicaKey(101, own), (CONTROLLER,))]), (
            point
        )


# What is begun with it


def test_the_first_records_are_those_that_it_was_formatted_with() -> None:
    files = disk("/")
    records = (level(21), (ALICE, 0))
    format_directories(["/a"], files, options(records=records))
    assert read_bootstrap(files, "/a") == list(records)
    assert read_bootstrap(files, "/") == []
    content = bytearray(read_file(files, "/a/bootstrap.checkpoint"))
    content[150] ^= 1
    replace_file(files, "/a/bootstrap.checkpoint", content)
    with pytest.raises(CorruptionError, match="/a/bootstrap"):
        read_bootstrap(files, "/a")


def begun(files: FakeFileSystem, voters: VoterSet) -> QuorumDirectory:
    used = QuorumDirectory(files, "/a", voters)
    assert used.opened.election == ElectionState()
    assert used.log.log_end_offset == 0
    return used


def test_a_dynamic_quorum_begins_with_the_voters_of_its_directory() -> None:
    files = disk("/")
    (one,) = format_directories(["/a"], files, options(standalone=CONTROLLER))
    history = begun(files.crash(CrashMode.STRICT), VoterSet({})).opened.history
    assert history.kraft_version == 1
    assert [voter.key.directory_id for voter in history.voters] == [one.directory_id]


OWN = Voter(ReplicaKey(101, id_of(5)), (CONTROLLER,))


def begin(files: FileSystem) -> None:
    begin_as_first_voter("/a", files, OWN, [level(33)], NOW_MS)


def used_alone() -> FakeFileSystem:
    """The directory of a broker by itself that nothing was asked of."""
    files = disk("/", "/a")
    own = MetaProperties(cluster_id=CLUSTER_ID, node_id=101, directory_id=id_of(5))
    write_meta_properties(files, "/a/meta.properties", own, now_ms=NOW_MS)
    return files


def test_a_broker_by_itself_without_records_begins_as_the_only_voter() -> None:
    files = used_alone()
    begin(files)
    files = files.crash(CrashMode.STRICT)
    assert begun(files, VoterSet({})).opened.history.voters == VoterSet.of([OWN])
    assert read_bootstrap(files, "/a") == [level(33)]


def test_a_crash_leaves_a_directory_that_begins_as_the_only_voter_or_can() -> None:
    def workload(files: FileSystem, _: list[str]) -> None:
        begin(files)

    for point in every_crash_point(workload, make_file_system=used_alone):
        files = point.file_system
        begin(files)
        assert QuorumDirectory(files, "/a").opened.history.voters == VoterSet.of([OWN]), point
        assert read_bootstrap(files, "/a") == [level(33)]


def test_what_was_formatted_or_has_a_log_does_not_begin_again() -> None:
    files = disk("/")
    format_directories(["/a"], files, options())
    used = used_alone()
    QuorumDirectory(used, "/a", VoterSet.of([OWN])).opened.log.close()
    for there in (files, used):
        before = sorted(there.list("/a"))
        begin(there)
        assert sorted(there.list("/a")) == before


def test_a_directory_in_use_does_not_begin() -> None:
    files = used_alone()
    assert files.lock("/a/.lock") is not None
    with pytest.raises(UserError, match=r"^/a is in use.*; stop it first$"):
        begin(files)
    assert files.list("/a") == [".lock", "meta.properties"]


def test_a_static_quorum_begins_with_the_voters_of_the_settings() -> None:
    files = disk("/")
    format_directories(["/a"], files, options())
    voters = VoterSet.of([Voter(ReplicaKey(101)), Voter(ReplicaKey(102))])
    history = begun(files.crash(CrashMode.STRICT), voters).opened.history
    assert (history.kraft_version, history.voters) == (0, voters)


# What people write

ID = "BSdryjGAQd2pk2NjCws51g"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "1@h:9093",
        "1@h:9093:short",
        f"x@h:9093:{ID}",
        f"-1@h:1:{ID}",
        "1@h:9093:AAAAAAAAAAAAAAAAAAAAAA",
        f"1@h:1:{ID},1@i:1:qVDFUu6iTTSbrEYZVqLzwQ",
        f"1@h:1:{ID},2@i:1:{ID}",
    ],
)
def test_what_is_no_list_of_controllers_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError) as error:
        parse_initial_controllers(text, "C")
    assert "\n" not in str(error.value)


def test_a_controller_at_an_ipv6_address_is_understood() -> None:
    (voter,) = parse_initial_controllers(f"7@[::1]:9093:{ID}", "C")
    assert voter.endpoints == (Endpoint("C", "::1", 9093),)
    assert voter.key == ReplicaKey(7, parse_uuid(ID))
