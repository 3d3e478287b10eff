"""Changes of rules, users and tokens in ZooKeeper while others are quicker, or answers are lost."""

from collections.abc import Callable
from typing import TypeVar

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.principal import Principal
from ottla.controller.acls import ChangedAcls, change_acls, read_acls
from ottla.controller.operations import Batch, Create, Outcome, Result, Set, Steps
from ottla.controller.settings import change_settings
from ottla.controller.tokens import create_token
from ottla.metadata.acls import (
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.tokens import DelegationToken
from ottla.zookeeper.access import (
    Entries,
    decode_acls,
    encode_acls,
)
from ottla.zookeeper.nodes import NodeError
from ottla.zookeeper.paths import PERSISTENT_WITH_ACLS
from tests.support.model_zookeeper import ModelZooKeeper

T = TypeVar("T")

ORDERS = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "orders")
PATH = "/kafka-acl/Topic/orders"
NOTICES = "/kafka-acl-changes"


READ, WRITE = (
    Entry("User:a", "*", operation, Permission.ALLOW)
    for operation in (Operation.READ, Operation.WRITE)
)


def add(new: Entry) -> Callable[[Entries], Entries]:
    return lambda known: tuple(dict.fromkeys((*known, new)))


@pytest.fixture
def zookeeper() -> ModelZooKeeper:
    made = ModelZooKeeper()
    for path in PERSISTENT_WITH_ACLS:
        made.make(path)
    return made


def run(
    zookeeper: ModelZooKeeper,
    steps: Steps[T],
    meanwhile: Callable[[], None] = lambda: None,
    loses: type[Set] | type[Create] | None = None,
) -> T:
    """`meanwhile` comes before the first write. The first that `loses` names is done, its answer is
    lost, and it is asked again, as a session does after a lost connection."""
    session = zookeeper.connect(lambda _: None)
    results: tuple[Result, ...] | None = None
    try:
        while True:
            batch: Batch = next(steps) if results is None else steps.send(results)
            (first, *_) = batch.operations
            if isinstance(first, Set | Create):
                meanwhile()
                meanwhile = no_more
            results = zookeeper.execute(session, batch)
            if loses is not None and isinstance(first, loses):
                loses = None
                results = zookeeper.execute(session, batch)
    except StopIteration as stop:
        found: T = stop.value
        return found


def no_more() -> None:
    """Nobody changes anything."""


def test_a_rule_is_added_to_those_that_another_broker_has_just_written(
    zookeeper: ModelZooKeeper,
) -> None:
    def others() -> None:
        zookeeper.make(PATH, encode_acls((WRITE,)))

    result = run(zookeeper, change_acls(ORDERS, add(READ)), meanwhile=others)
    assert result == ChangedAcls((WRITE,), (WRITE, READ))
    assert decode_acls(PATH, zookeeper.content(PATH)) == (WRITE, READ)


def test_a_node_that_another_broker_has_removed_is_created_again(
    zookeeper: ModelZooKeeper,
) -> None:
    zookeeper.make(PATH, encode_acls((WRITE,)))
    result = run(
        zookeeper, change_acls(ORDERS, add(READ)), meanwhile=lambda: zookeeper.delete(PATH)
    )
    assert result == ChangedAcls((), (READ,))
    assert decode_acls(PATH, zookeeper.content(PATH)) == (READ,)


@pytest.mark.parametrize("loses", [Create, Set])
def test_others_are_notified_though_the_answer_to_the_write_was_lost(
    zookeeper: ModelZooKeeper, loses: type[Set] | type[Create]
) -> None:
    if loses is Set:
        zookeeper.make(PATH, encode_acls((WRITE,)))
    run(zookeeper, change_acls(ORDERS, add(READ)), loses=loses)
    assert READ in decode_acls(PATH, zookeeper.content(PATH))
    (notice,) = zookeeper.children(NOTICES)
    assert zookeeper.content(f"{NOTICES}/{notice}") == b"TOPIC:orders"


def test_a_node_is_removed_only_while_it_has_the_rules_that_were_read(
    zookeeper: ModelZooKeeper,
) -> None:
    zookeeper.make(PATH, encode_acls((READ,)))

    def only(wanted: Entry) -> Callable[[Entries], Entries]:
        return lambda known: tuple(one for one in known if one != wanted)

    steps = change_acls(ORDERS, only(READ))
    session = zookeeper.connect(lambda _: None)
    results = zookeeper.execute(session, next(steps))
    batch = steps.send(results)
    zookeeper.apply(Set(PATH, encode_acls((READ, WRITE))))
    (refused,) = zookeeper.execute(session, batch)
    assert refused.outcome is Outcome.BAD_VERSION
    assert run(zookeeper, change_acls(ORDERS, only(READ))) == ChangedAcls((READ, WRITE), (WRITE,))
    run(zookeeper, change_acls(ORDERS, only(WRITE)))
    assert PATH not in zookeeper.nodes


def test_rules_that_cannot_be_read_are_not_changed(zookeeper: ModelZooKeeper) -> None:
    zookeeper.make(PATH, b"no JSON")
    result = run(zookeeper, change_acls(ORDERS, add(READ)))
    assert isinstance(result, ApiError)
    assert result.code is ErrorCode.UNKNOWN_SERVER_ERROR
    assert zookeeper.content(PATH) == b"no JSON"
    assert isinstance(run(zookeeper, read_acls([ORDERS]))[ORDERS], NodeError)


def test_folders_that_are_missing_are_made() -> None:
    zookeeper = ModelZooKeeper()
    assert run(zookeeper, change_acls(ORDERS, add(READ))) == ChangedAcls((), (READ,))
    entity = "users/a/clients/b"
    assert run(zookeeper, change_settings(entity, lambda _: {"x": "1"})) == {"x": "1"}
    token = DelegationToken(
        token_id="t",
        owner=Principal("User", "a"),
        requester=Principal("User", "a"),
        renewers=(),
        issued_ms=1,
        expires_ms=2,
        max_ms=3,
    )
    assert run(zookeeper, create_token(token)) == {"t": token}
    for path in (PATH, f"/config/{entity}", "/delegation_token/tokens/t"):
        assert path in zookeeper.nodes
