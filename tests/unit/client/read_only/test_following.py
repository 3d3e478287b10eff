"""`ottla.Admin(path, read_only=True)` asks a directory that another process may serve."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
import ottla.aio
from ottla.base.resource_kinds import ResourceKind
from ottla.client.administration.security_values import (
    AclBinding,
    AclBindingFilter,
    UserScramCredentialDeletion,
)
from ottla.client.connecting.target import open_target
from ottla.embedded.log import Log
from ottla.embedded.read_only import following
from ottla.runtime.loops import BlockingCallError

ORDERS = ottla.TopicPartition("orders", 0)
SETTINGS = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with ottla.open(tmp_path / "data", SETTINGS) as log:
        log.create_topic("orders")
        yield log


@pytest.fixture
def admin(log: Log, tmp_path: Path) -> Iterator[ottla.Admin]:
    with ottla.Admin(tmp_path / "data", read_only=True) as admin:
        yield admin


def test_each_answer_is_of_the_files_as_they_are_then(log: Log, admin: ottla.Admin) -> None:
    owner = ottla.Admin(log)
    assert admin.bounds([ORDERS]) == {ORDERS: (0, 0)}
    log.append("orders", b"tea")
    assert admin.bounds([ORDERS]) == {ORDERS: (0, 1)}
    log.append("orders", b"tea")
    log.delete_records("orders", {0: 1})
    assert admin.bounds([ORDERS]) == {ORDERS: (1, 2)}

    log.create_topic("teas")
    assert admin.list_topics() == ["orders", "teas"]
    log.create_partitions("teas", 3)
    assert admin.partitions(["teas"]) == {"teas": [0, 1, 2]}
    assert len(admin.bounds(admin.places(["teas"]))) == 3
    (before,) = admin.describe_topics(["teas"])
    log.delete_topic("teas")
    assert admin.list_topics() == ["orders"]
    log.create_topic("teas")
    (after,) = admin.describe_topics(["teas"])
    assert before.topic_id != after.topic_id == owner.describe_topics(["teas"])[0].topic_id

    for milliseconds in ("1000", "2000"):
        owner.alter_configs(ResourceKind.TOPIC, "orders", {"retention.ms": milliseconds})
        assert admin.topic_settings("orders")["retention.ms"] == milliseconds


def test_groups_and_transactions_are_those_that_coordinators_wrote_last(
    log: Log, admin: ottla.Admin
) -> None:
    owner = ottla.Admin(log)
    log.append_many("orders", [b"a", b"b", b"c"])
    assert admin.list_groups() == []
    for offset in (1, 2):
        owner.alter_group_offsets("billing", {ORDERS: offset})
        log.flush()
        assert admin.group_offsets("billing")[ORDERS].offset == offset
        (described,) = admin.describe_groups(["billing"])
        assert [one.lag for one in admin.group_lag(described)] == [3 - offset]

    with ottla.Producer(log, settings={"transactional.id": "payments"}) as producer:
        producer.begin_transaction()
        producer.send("orders", b"d").result()
        assert [one.state for one in admin.describe_transactions(["payments"])] == ["Ongoing"]
        assert len(admin.open_transactions([ORDERS])) == 1
        producer.commit_transaction()
        assert admin.open_transactions([ORDERS]) == []
        (known,) = admin.describe_transactions(["payments"])
        assert known.state == "CompleteCommit"


def test_what_did_not_change_is_not_read_again(
    log: Log, admin: ottla.Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    ottla.Admin(log).alter_group_offsets("billing", {ORDERS: 0})
    log.append("orders", b"coffee")
    admin.list_groups()
    monkeypatch.setattr(following, "read_directories", lambda paths: pytest.fail("read again"))
    log.append("orders", b"tea")
    assert admin.bounds([ORDERS]) == {ORDERS: (0, 2)}
    assert [one.group for one in admin.list_groups()] == ["billing"]
    assert admin.list_topics() == ["orders"]


ACL = AclBinding(
    resource_type="TOPIC", name="orders", principal="User:ana", operation="READ", permission="ALLOW"
)
CHANGES: list[Callable[[ottla.Admin], object]] = [
    lambda admin: admin.abort_at("orders", 0, 0),
    lambda admin: admin.alter_configs(ResourceKind.TOPIC, "orders", {"retention.ms": 1}),
    lambda admin: admin.alter_group_offsets("billing", {ORDERS: 0}),
    lambda admin: admin.alter_partition_reassignments({ORDERS: [2]}),
    lambda admin: admin.alter_quotas({"user": "ana"}, {"producer_byte_rate": 1.0}),
    lambda admin: admin.alter_user_scram_credentials(
        [UserScramCredentialDeletion(user="ana", mechanism="SCRAM-SHA-256")]
    ),
    lambda admin: admin.create_acls([ACL]),
    lambda admin: admin.create_delegation_token(),
    lambda admin: admin.create_partitions("orders", 3),
    lambda admin: admin.create_topic("teas", validate_only=True),
    lambda admin: admin.create_topics({"teas": 1}),
    lambda admin: admin.delete_acls([AclBindingFilter()]),
    lambda admin: admin.delete_group_offsets("billing", [ORDERS]),
    lambda admin: admin.delete_groups(["billing"]),
    lambda admin: admin.delete_records({ORDERS: 0}),
    lambda admin: admin.delete_topics(["orders"]),
    lambda admin: admin.elect_leaders(),
    lambda admin: admin.expire_delegation_token(b"secret"),
    lambda admin: admin.fence("payments", timeout_ms=1000),
    lambda admin: admin.move_partitions(1, {ORDERS: "/data"}),
    lambda admin: admin.renew_delegation_token(b"secret"),
]


def test_whatever_would_change_something_says_so_and_what_to_open(
    log: Log, admin: ottla.Admin
) -> None:
    with ottla.Producer(log, settings={"transactional.id": "payments"}) as producer:
        producer.begin_transaction()
        producer.send("orders", b"d").result()
        ottla.Admin(log).alter_group_offsets("billing", {ORDERS: 0})
        for change in CHANGES:
            with pytest.raises(ottla.UserError, match=r"is only read, and [A-Z_]+ would change it"):
                change(admin)
        producer.abort_transaction()


def test_what_no_file_tells_is_asked_of_a_broker(admin: ottla.Admin) -> None:
    for ask in (admin.describe_delegation_token, admin.list_partition_reassignments):
        with pytest.raises(ottla.UserError, match="is answered by a running broker alone; ask one"):
            ask()


def test_several_paths_are_the_directories_of_one_broker(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    with ottla.open([str(one) for one in paths]) as log:
        log.create_topic("orders", partitions=4)
        with ottla.Admin([str(one) for one in paths], read_only=True) as admin:
            assert admin.partitions() == {"orders": [0, 1, 2, 3]}
            assert [one.path for one in admin.log_directories()] == [str(one) for one in paths]


MISTAKES: list[tuple[Any, str]] = [
    ("localhost:9092", "a broker's address, where a data directory is opened"),
    ("missing", "missing does not exist"),
    ([], "name at least one directory"),
    (5, "a log's path is a str, a Path or a list of them, not 5"),
]


def test_a_target_that_is_no_directory_is_refused_in_one_sentence(log: Log) -> None:
    with open_target(log) as cluster:
        for target, reason in (*MISTAKES, (log, "not <"), (cluster, "not <")):
            with pytest.raises(ottla.UserError, match=reason):
                ottla.Admin(target, read_only=True)
    with pytest.raises(ottla.UserError, match="omit them with read_only"):
        ottla.Admin("data", {"client.id": "x"}, read_only=True)
    with pytest.raises(ottla.UserError, match="name at least one directory"):
        ottla.open([])


def test_an_event_loop_asks_the_files_too(log: Log, tmp_path: Path) -> None:
    async def ask() -> list[str]:
        with pytest.raises(BlockingCallError, match=r"call ottla\.aio\.Admin"):
            ottla.Admin(tmp_path / "data", read_only=True)
        async with ottla.aio.Admin(tmp_path / "data", read_only=True) as admin:
            with pytest.raises(ottla.UserError, match="CREATE_TOPICS would change it"):
                await admin.create_topic("teas")
            return await admin.list_topics()

    assert asyncio.run(ask()) == ["orders"]
