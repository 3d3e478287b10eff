"""`ottla groups`: lag, and where groups continue."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from ottla.base.errors import UnreachableError
from ottla.client.administration import groups
from ottla.client.administration.descriptions import ListedGroup
from ottla.client.administration.groups import GroupAdmin
from ottla.client.connecting.connection import Connection
from tests.unit.cli.administered import Administered, administered


def committed(broker: Administered, group: str = "billing") -> list[int | None]:
    (found,) = broker.json("groups", "describe", "TARGET", group)
    return [one["committed"] for one in found["by_partition"]]


def test_groups_are_listed_with_their_lag_in_records_and_time(broker: Administered) -> None:
    heading, _, billing = broker.lines("groups", "list", "TARGET")
    assert heading.split() == ["group", "state", "protocol", "members", "topics", "lag", "late",
                               "by", "uncommitted"]  # fmt: skip
    assert billing.split()[:6] == ["billing", "Empty", "classic", "0", "orders", "60"]
    (found,) = broker.json("groups", "list", "TARGET", "bill*")
    assert found["lag"] == 60
    # The first unread record is of November 2023.
    assert found["late_ms"] > 365 * 86_400_000
    assert broker.lines("groups", "list", "TARGET", "-q") == ["billing"]


def test_a_list_asks_a_broker_for_its_groups_twice_whatever_their_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    of_broker = groups._groups_of

    def count(states: Collection[str], node_id: int, broker: Connection) -> list[ListedGroup]:
        asked.append(node_id)
        return of_broker(states, node_id, broker)

    with administered(tmp_path, is_served=True) as broker:
        for group in ("books-1", "books-2", "books-3"):
            broker.lines("groups", "commit", "TARGET", group, "orders:0=7")
        monkeypatch.setattr(groups, "_groups_of", count)
        assert len(broker.json("groups", "list", "TARGET")) == 4
        assert len(asked) == 2


def test_what_the_other_brokers_know_is_changed_while_one_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group that nobody knows may be the silent broker's: it is named, and not denied."""
    list_groups = GroupAdmin.list_groups
    silent = UnreachableError("h:9: Connection refused")

    def list_some(admin: GroupAdmin, **asked: Any) -> list[ListedGroup]:
        found = list_groups(admin, **asked)
        if asked.get("on_unreachable") is None:
            raise silent
        asked["on_unreachable"](silent)
        return found

    warning = f"warning: a broker does not answer, and its groups are left out: {silent}"
    unknown = "warning: no broker that answers has a group bills"
    with administered(tmp_path, is_served=True) as broker:
        monkeypatch.setattr(GroupAdmin, "list_groups", list_some)
        code, text = broker.end("groups", "describe", "TARGET", "billing", "bills")
        assert (code, text.splitlines()[:2]) == (1, [warning, unknown])
        assert "billing: Empty" in text
        reset = ("groups", "reset", "TARGET")
        done = broker.end(*reset, "billing", "--to", "earliest", "--yes", "-q")
        assert done == (0, warning)
        refused = broker.end(*reset, "bills", "--to", "earliest", "--yes", "-q")
        assert refused == (2, f"{warning}\nottla: {silent}")
        deleted = broker.end("groups", "delete", "TARGET", "billing", "bills", "--yes")
        assert deleted == (1, f"{warning}\n{unknown}\ndeleted billing")
        assert broker.end("groups", "delete", "TARGET", "bills", "--yes")[0] == 1


def test_a_group_is_described_by_partition(broker: Administered) -> None:
    (found,) = broker.json("groups", "describe", "TARGET", "billing")
    first, second = found["by_partition"]
    assert (first["committed"], first["next_offset"], first["lag"]) == (40, 100, 60)
    assert (second["lag"], second["late_ms"]) == (0, None)
    lines = broker.lines("groups", "describe", "TARGET", "billing")
    assert lines[0].startswith("billing: Empty, classic protocol, 0 members, 60 records behind, ")
    assert lines[4].split()[:5] == ["orders", "0", "40", "100", "60"]


def test_records_that_were_deleted_unread_are_reported(broker: Administered) -> None:
    broker.lines("delete-records", "TARGET", "orders", "--before", "50")
    lines = broker.lines("groups", "describe", "TARGET", "billing")
    assert "orders-0: 10 records were deleted before the group had read them" in lines
    (found,) = broker.json("groups", "describe", "TARGET", "billing")
    assert (found["lag"], found["by_partition"][0]["lost"]) == (50, 10)


def test_partitions_that_were_never_committed_are_counted_apart(broker: Administered) -> None:
    broker.lines("topics", "grow", "TARGET", "orders", "3")
    (found,) = broker.json("groups", "describe", "TARGET", "billing")
    assert (found["lag"], found["uncommitted"]) == (60, 1)
    assert [one["lag"] for one in found["by_partition"]] == [60, 0, None]
    lines = broker.lines("groups", "describe", "TARGET", "billing")
    assert lines[0].endswith("late, without 1 partition not committed")
    assert broker.lines("groups", "list", "TARGET")[2].split()[-1] == "1"


def test_a_reset_is_shown_first_and_done_on_demand(broker: Administered) -> None:
    shown = broker.lines("groups", "reset", "TARGET", "billing", "--to", "earliest")
    assert shown[-1] == "billing: 1 offset would change; --yes does it"
    assert committed(broker) == [40, 0]
    done = broker.lines("groups", "reset", "TARGET", "billing", "--to", "earliest", "--execute")
    assert done[2].split() == ["orders", "0", "40", "0", "-40", "100"]
    assert committed(broker) == [0, 0]


@pytest.mark.parametrize(
    ("words", "offsets"),
    [
        ("--to latest", [100, 0]),
        ("--to 70", [70, 0]),
        ("--to 700", [100, 0]),
        ("--to @2023-11-14T22:13:20.055", [55, 0]),
        ("--to @1700000000007", [7, 0]),
        ("--to 5m", [100, 0]),
        ("--shift -15", [25, 0]),
        ("--shift 1000", [100, 0]),
        ("--to current", [40, 0]),
        ("orders:0 --to 3", [3, 0]),
    ],
)
def test_a_group_continues_where_it_is_told(
    words: str, offsets: list[int], broker: Administered
) -> None:
    broker.lines("groups", "reset", "TARGET", "billing", *words.split(), "--yes")
    assert committed(broker) == offsets


def test_a_plan_is_written_as_csv_and_carried_out_later(
    broker: Administered, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.csv"
    words = ("groups", "reset", "TARGET", "billing")
    plan.write_text("\n".join(broker.lines(*words, "--to", "9", "--csv", "-q")))
    assert plan.read_text() == "orders,0,9\norders,1,0"
    broker.lines(*words, "--from-csv", str(plan), "--yes")
    assert committed(broker) == [9, 0]
    plan.write_text("orders,0\n")
    code, text = broker.end(*words, "--from-csv", str(plan))
    assert code == 2
    assert text.endswith("line 1: a line is TOPIC,PARTITION,OFFSET, not orders,0")


def test_a_new_group_is_given_offsets(broker: Administered) -> None:
    broker.lines("groups", "commit", "TARGET", "fresh", "orders:0=5", "orders:1=0")
    assert committed(broker, "fresh") == [5, 0]
    broker.lines("groups", "reset", "TARGET", "other", "orders", "--to", "latest", "--yes")
    assert committed(broker, "other") == [100, 0]


def test_groups_and_offsets_of_them_are_deleted(broker: Administered) -> None:
    broker.lines("groups", "delete", "TARGET", "billing", "--topic", "orders:0")
    assert committed(broker) == [None, 0]
    assert broker.lines("groups", "delete", "TARGET", "billing") == ["deleted billing"]
    assert broker.lines("groups", "list", "TARGET", "-q") == []


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ("groups describe TARGET biling", 1, "there is no group biling; did you mean billing?"),
        (
            "groups reset TARGET biling --to earliest",
            1,
            "there is no group biling; did you mean billing?",
        ),
        (
            "groups reset TARGET billing ordrs --to earliest",
            1,
            "there is no topic ordrs; did you mean orders?",
        ),
        (
            "groups reset TARGET billing orders:8 --to earliest",
            1,
            "there is no partition 8 in orders; there are 0, 1",
        ),
        (
            "groups commit TARGET billing orders=8",
            2,
            "orders=8: an offset is TOPIC:PARTITION=OFFSET, such as orders:0=1500",
        ),
        ("groups commit TARGET billing orders:x=8", 2,
         "orders:x: partitions are TOPIC:0, or TOPIC:0,2"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_that_helps(
    words: str, code: int, text: str, same_broker: Administered
) -> None:
    assert same_broker.end(*words.split()) == (code, f"ottla: {text}")


def test_one_way_to_name_the_place_is_needed(broker: Administered) -> None:
    code, text = broker.end("groups", "reset", "TARGET", "billing")
    assert code == 2
    assert text.startswith("ottla: name one of --to PLACE, --shift N and --from-csv FILE")


# Share groups


def test_a_share_group_begins_where_it_is_told_and_is_told_again(broker: Administered) -> None:
    told = broker.lines("groups", "commit", "TARGET", "jobs", "--share", "orders:0=40")
    assert told == ["jobs: committed 1 offset"]
    listed = broker.lines("groups", "list", "TARGET", "--protocol", "share")
    assert listed[2].split()[:6] == ["jobs", "Empty", "share", "0", "orders", "60"]
    lines = broker.lines("groups", "describe", "TARGET", "jobs")
    assert lines[0].startswith("jobs: Empty, share protocol, simple, 0 members, 60 records behind")
    assert lines[2].split()[2:4] == ["start", "offset"]
    assert lines[4].split()[:5] == ["orders", "0", "40", "100", "60"]
    broker.lines("groups", "reset", "TARGET", "jobs", "--to", "end", "--yes")
    (found,) = broker.json("groups", "describe", "TARGET", "jobs")
    assert (found["by_partition"][0]["committed"], found["lag"]) == (100, 0)


def test_a_share_group_forgets_whole_topics_and_is_deleted(broker: Administered) -> None:
    broker.lines("groups", "commit", "TARGET", "jobs", "--share", "orders:0=40", "orders:1=0")
    delete = ("groups", "delete", "TARGET", "jobs", "--yes")
    assert broker.end(*delete, "--topic", "orders:0") == (
        2,
        "ottla: share group jobs forgets whole topics; name orders without partitions",
    )
    assert broker.lines(*delete, "--topic", "orders") == ["deleted the offsets of jobs for orders"]
    (found,) = broker.json("groups", "describe", "TARGET", "jobs")
    assert found["by_partition"] == []
    assert broker.lines(*delete) == ["deleted jobs"]


def test_a_group_of_another_protocol_does_not_become_a_share_group(broker: Administered) -> None:
    code, text = broker.end("groups", "commit", "TARGET", "billing", "--share", "orders:0=1")
    assert (code, text) == (2, "ottla: group billing is no share group; leave out --share")
