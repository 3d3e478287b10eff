"""What becomes of the directories of partitions at a start, whatever mixture of them there is."""

from dataclasses import replace

import pytest

from ottla.base.errors import UserError
from ottla.base.ids import Uuid
from ottla.base.partitions import TopicPartition
from ottla.broker.startup.startup_plan import find_lost, plan_startup
from ottla.metadata.image import NO_PARTITION, TopicImage
from ottla.storage.directory.found_logs import FoundLog
from ottla.storage.directory.found_logs import StartupAction as Action
from ottla.storage.files.filenames import INTEGRITY, PARTITION_METADATA, parse_directory_name
from ottla.storage.files.integrity import Integrity
from ottla.storage.files.known_topics import KnownTopics

ID, OTHER_ID = Uuid(bytes(15) + b"\1"), Uuid(bytes(15) + b"\2")
U, V = "0" * 31 + "a", "0" * 31 + "b"

LIVE = "t-0"
COPY = f"t-0.{U}-future"
RETIRED = f"t-0.{U}-delete"
OTHER_RETIRED = f"t-0.{V}-delete"


def found(path: str, topic_id: Uuid | None = ID) -> FoundLog:
    name = parse_directory_name(path.rsplit("/", 1)[1])
    assert name is not None
    return FoundLog(path=path, name=name, topic_id=topic_id)


def entry(topic_id: Uuid = ID) -> TopicImage:
    return TopicImage("t", topic_id, dict.fromkeys(range(2), NO_PARTITION))


def known(topic: TopicImage | None = None, gone: frozenset[Uuid] = frozenset()) -> KnownTopics:
    return KnownTopics(entries={"t": topic or entry()}, gone=gone)


def actions(
    *names: str, topics: KnownTopics | None = None, is_complete: bool = True, at: str = "de"
) -> list[Action]:
    """The actions of names, each in the directory whose letter stands at its place."""
    logs = [found(f"/{place}/{name}") for place, name in zip(at, names, strict=False)]
    (plan,) = plan_startup([logs], topics or known(), is_complete=is_complete).directories
    assert [one for one, _ in plan] == logs
    return [action for _, action in plan]


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_log_is_loaded_and_the_copy_beside_it_continues(is_complete: bool) -> None:
    assert actions(LIVE, COPY, is_complete=is_complete) == [Action.LOAD, Action.COPY]
    assert actions(COPY, LIVE, is_complete=is_complete) == [Action.COPY, Action.LOAD]


def test_a_copy_in_the_directory_of_its_log_is_removed() -> None:
    assert actions(LIVE, COPY, at="dd") == [Action.LOAD, Action.REMOVE]


def test_of_two_copies_the_second_is_removed() -> None:
    second = f"t-0.{V}-future"
    assert actions(LIVE, COPY, second, at="def") == [
        Action.LOAD,
        Action.COPY,
        Action.REMOVE,
    ]


@pytest.mark.parametrize("is_complete", [True, False])
def test_a_copy_takes_the_place_of_a_log_that_was_put_away_for_it(is_complete: bool) -> None:
    assert actions(RETIRED, COPY, is_complete=is_complete) == [
        Action.REMOVE,
        Action.PROMOTE,
    ]
    assert actions(COPY, RETIRED, is_complete=is_complete) == [
        Action.PROMOTE,
        Action.REMOVE,
    ]


def test_the_copy_that_was_decided_for_counts_before_any_other() -> None:
    names = [f"t-0.{V}-future", COPY, RETIRED]
    assert actions(*names, at="def") == [
        Action.REMOVE,
        Action.PROMOTE,
        Action.REMOVE,
    ]


def test_what_was_put_away_goes_when_the_log_is_elsewhere() -> None:
    assert actions(RETIRED, LIVE) == [Action.REMOVE, Action.LOAD]


def test_a_copy_without_its_log_waits_for_the_directory_that_is_away() -> None:
    assert actions(COPY, is_complete=False) == [Action.KEEP]
    assert actions(COPY, OTHER_RETIRED, is_complete=False) == [
        Action.KEEP,
        Action.KEEP,
    ]


def test_a_copy_without_any_log_is_kept_for_a_person() -> None:
    assert actions(COPY) == [Action.STRAY]


def test_a_log_that_was_put_away_and_is_nowhere_else_is_never_removed() -> None:
    assert actions(RETIRED, is_complete=False) == [Action.KEEP]
    assert actions(RETIRED) == [Action.STRAY]


def test_a_replica_that_was_put_away_is_removed_since_other_brokers_host_it() -> None:
    """The controller moved it away; a crash must not keep its files for ever."""
    for is_complete, action in ((True, Action.REMOVE), (False, Action.KEEP)):
        plan = plan_startup(
            [[found(f"/d/{RETIRED}")]], known(), is_complete=is_complete, is_replicated=True
        )
        assert [one for _, one in plan.directories[0]] == [action]


def test_a_log_of_another_topic_of_that_name_is_stray_beside_the_right_one() -> None:
    logs = [found("/d/t-0"), found("/e/t-0", OTHER_ID), found(f"/e/t-1.{U}-future", OTHER_ID)]
    plan = plan_startup([logs], known(), is_complete=True)
    assert [action for _, action in plan.directories[0]] == [
        Action.LOAD,
        Action.STRAY,
        Action.STRAY,
    ]
    assert plan.refused == {}


def test_a_log_of_another_topic_in_place_of_a_partition_stays_and_is_named() -> None:
    logs = [found("/d/t-0"), found("/e/t-1", OTHER_ID)]
    plan = plan_startup([logs], known(), is_complete=True)
    assert [action for _, action in plan.directories[0]] == [
        Action.LOAD,
        Action.KEEP,
    ]
    assert plan.refused.keys() == {("t", 1)}
    assert (
        "/e/t-1 has another topic id in its partition.metadata than topic t"
        in (plan.refused["t", 1])
    )


def test_swapped_directories_of_two_topics_are_both_refused() -> None:
    other = TopicImage("u", OTHER_ID, {0: NO_PARTITION})
    topics = KnownTopics(entries={"t": entry(), "u": other})
    plan = plan_startup([[found("/d/t-0", OTHER_ID), found("/d/u-0")]], topics, is_complete=True)
    assert [action for _, action in plan.directories[0]] == [
        Action.KEEP,
        Action.KEEP,
    ]
    assert f"/d/t-0/{PARTITION_METADATA}: this is the id of topic u" in plan.refused["t", 0]
    assert f"/d/u-0/{PARTITION_METADATA}: this is the id of topic t" in plan.refused["u", 0]


def test_swapped_directories_of_one_topic_are_both_refused() -> None:
    logs = [
        replace(
            found(f"/d/t-{here}"), integrity=Integrity(topic_id=ID, gapless_from=0, partition=home)
        )
        for here, home in ((0, ("t", 1)), (1, ("t", 0)))
    ]
    plan = plan_startup([logs], known(), is_complete=True)
    assert [action for _, action in plan.directories[0]] == [
        Action.KEEP,
        Action.KEEP,
    ]
    assert f"/d/t-0/{INTEGRITY}: this is the log of t-1" in plan.refused["t", 0]


def test_what_a_checkpoint_names_and_no_directory_holds_is_lost() -> None:
    named = {("t", 0), ("t", 1), ("t", 2), ("gone", 0)}
    assert find_lost(known(), named, {("t", 0)}) == {("t", 1)}
    assert find_lost(KnownTopics(entries={}), named, set()) == set()
    nothing = KnownTopics(entries={}, is_found=False)
    assert find_lost(nothing, named, {("t", 0)}) == named - {("t", 0)}


@pytest.mark.parametrize("name", [LIVE, COPY])
def test_a_log_of_a_topic_that_is_gone_is_removed_if_a_checkpoint_names_it(name: str) -> None:
    topics = KnownTopics(entries={}, gone=frozenset([ID]))
    plan = plan_startup(
        [[found(f"/d/{name}")], [found(f"/e/{name}")]],
        topics,
        is_complete=True,
        named=[{TopicPartition("t", 0)}, set()],
    )
    ((_, here),), ((_, there),) = plan.directories
    assert here is Action.REMOVE
    assert there is (Action.LOAD if name == LIVE else Action.STRAY), "a person has put it there"
    assert plan.deleted == {("t", 0)}


def test_the_disks_are_right_when_the_metadata_log_knows_another_id() -> None:
    assert actions(LIVE, topics=known(entry(OTHER_ID))) == [Action.LOAD]


def test_two_ids_of_which_none_is_known_stop_the_start() -> None:
    logs = [found("/d/t-0"), found("/e/t-1", OTHER_ID)]
    with pytest.raises(UserError, match="/d/t-0 and /e/t-1: topic t has two ids"):
        plan_startup([logs], KnownTopics(entries={}), is_complete=True)


def test_two_logs_of_one_partition_stop_the_start_and_are_both_named() -> None:
    with pytest.raises(UserError, match="/d/t-0 and /e/t-0 are both the log"):
        actions(LIVE, LIVE)


def test_what_was_put_away_of_a_topic_that_is_not_known_goes() -> None:
    assert actions(RETIRED, topics=KnownTopics(entries={})) == [Action.REMOVE]
    beyond = f"t-7.{U}-delete"
    assert actions(beyond) == [Action.REMOVE]


def test_a_stray_stays_as_it_is() -> None:
    assert actions(f"t-0.{U}-stray") == [Action.KEEP]


def test_partitions_without_an_id_belong_to_whatever_has_their_name() -> None:
    log = found("/d/t-0", None)
    (plan,) = plan_startup([[log]], known(), is_complete=True).directories
    assert [action for _, action in plan] == [Action.LOAD]
