"""Arguments of an admin's calls are checked before a broker sees them."""

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest

import ottla
from tests.support.mistakes import refusal

PLACE = ottla.TopicPartition("orders", 0)
PLACE_FORM = 'a partition is (TOPIC, NUMBER), such as ("orders", 0)'

MISTAKES: list[tuple[Callable[[ottla.Admin], object], str]] = [
    (lambda a: a.create_topic(5), "create_topic: name takes a str, not 5"),  # type: ignore[arg-type]
    (lambda a: a.create_topic("\ud800"), "a text cannot be encoded as UTF-8"),
    (lambda a: a.create_topic("x", partitions="3"), "takes a whole number of 64 bits, not '3'"),  # type: ignore[arg-type]
    (lambda a: a.create_topic("x", partitions=True), "a whole number of 64 bits, not True"),
    (lambda a: a.create_topic("x", partitions=1 << 70), "a whole number of 64 bits, not 11805"),
    (lambda a: a.create_topics({5: 1}), "topics takes a dictionary of strings and whole numbers"),  # type: ignore[dict-item]
    (lambda a: a.create_acls(5), "create_acls: acls takes a list of ottla.AclBinding objects"),  # type: ignore[arg-type]
    (lambda a: a.create_acls(["x"]), "a list of ottla.AclBinding objects, not 'x'"),  # type: ignore[list-item]
    (lambda a: a.list_offsets("orders"), "places takes a list of partitions, not 'orders'"),  # type: ignore[arg-type]
    (lambda a: a.list_offsets(["orders"]), PLACE_FORM),  # type: ignore[list-item]
    (lambda a: a.delete_records({PLACE: "1"}), "partitions and whole numbers, not '1'"),  # type: ignore[dict-item]
    (lambda a: a.describe_configs("topic", ["x"]), "kind takes an ottla.ResourceKind, not 'topic'"),  # type: ignore[arg-type]
    (lambda a: a.describe_topics(["x"], broker=1.5), "a whole number of 64 bits or None, not 1.5"),  # type: ignore[arg-type]
    (lambda a: a.list_groups(on_unreachable=5), "on_unreachable takes a function or None, not 5"),  # type: ignore[arg-type]
]

WRONG: tuple[Any, ...] = (
    *(5, 1.5, True, "x", b"x", None, object(), "\ud800", 1 << 70, 1 << 40, -1),
    *([], [5], [None], ["\ud800"], ["orders"], [["a", "b"]], [b"orders"], PLACE, [("orders", 0)]),
    *({}, {5: 5}, {"a": 5}, {"a": "b"}, {"orders": [1]}, {"orders": {"retention.ms": 5}}),
    *({PLACE: "x"}, {PLACE: 1.5}, {PLACE: 1 << 70}, {PLACE: [1.5]}, {("orders", "0"): [1]}),
)
SOUND: list[tuple[str, Any]] = [
    ("Mapping[ottla.base.partitions.TopicPartition", {PLACE: 0}),
    ("[ottla.base.partitions.TopicPartition", [PLACE]),
    ("TopicPartition", PLACE),
    ("ResourceKind", ottla.ResourceKind.TOPIC),
    ("Mapping", {}),
    ("[str", ["orders"]),
    ("<class 'str'>", "orders"),
    ("<class 'int'>", 1),
    ("", []),
]


@pytest.fixture
def log() -> Iterator[ottla.Log]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with ottla.open(":memory:", settings) as log:
        log.create_topic("orders", partitions=2)
        yield log


@pytest.mark.parametrize(("call", "answer"), MISTAKES)
def test_an_admin_says_what_an_argument_is(
    log: ottla.Log, call: Callable[[ottla.Admin], object], answer: str
) -> None:
    with ottla.Admin(log) as admin:
        assert answer in refusal(call, admin)
        assert log.topics() == {"orders": 2}


def test_what_means_the_same_is_taken(log: ottla.Log) -> None:
    int_of_numpy: Any = np.int64(3)
    pairs: Any = iter([("teas", 0)])
    with ottla.Admin(log) as admin:
        admin.create_topic(
            "teas", partitions=int_of_numpy, configs={"retention.ms": 5, "preallocate": True}
        )
        assert log.topics()["teas"] == 3
        settings = log.topic_settings("teas")
        assert (settings["retention.ms"], settings["preallocate"]) == ("5", "true")
        admin.alter_configs(ottla.ResourceKind.TOPIC, "teas", {"retention.ms": 7})
        assert log.topic_settings("teas")["retention.ms"] == "7"
        found = admin.list_offsets(pairs)
        assert list(found) == [ottla.TopicPartition("teas", 0)]
        admin.delete_topics({"teas"})
        assert log.topics() == {"orders": 2}


@pytest.mark.slow
@pytest.mark.parametrize("is_served", [False, True])
def test_no_argument_of_any_call_fails_in_the_code_behind_it(
    log: ottla.Log, is_served: bool
) -> None:
    with ottla.Admin(log.listen("127.0.0.1:0").address if is_served else log) as admin:
        for name, method in inspect.getmembers(ottla.Admin, inspect.isfunction):
            if name.startswith("_") or name == "close":
                continue
            for arguments in _wrong_arguments(method):
                try:
                    getattr(admin, name)(**arguments)
                except ottla.OttlaError:
                    continue
                except Exception as error:
                    raise AssertionError(f"{name}{arguments}") from error
        assert all(isinstance(one, str) for one in log.topics())


def _wrong_arguments(method: Callable[..., object]) -> Iterator[Mapping[str, Any]]:
    """Sound arguments of a call, with one of them replaced by each wrong one."""
    hints = typing.get_type_hints(method)
    _, *parameters = inspect.signature(method).parameters.values()
    sound = {
        one.name: next(value for part, value in SOUND if part in str(hints[one.name]))
        for one in parameters
        if one.default is one.empty
    }
    for one in parameters:
        for wrong in WRONG:
            yield {**sound, one.name: wrong}
