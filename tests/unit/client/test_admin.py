"""`ottla.Admin`: what a cluster is asked, what is changed in it, and how refusals read."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import UnknownNameError, UnreachableError, UserError
from ottla.base.partitions import TopicPartition
from ottla.base.resource_kinds import ResourceKind
from ottla.client.administration.admin import MAX_TIMESTAMP, Admin
from ottla.client.administration.asking import TIMEOUT_MS
from ottla.client.administration.config_values import ALL_BROKERS, ConfigOrigin
from ottla.client.administration.descriptions import ListedGroup
from ottla.client.bulk.reading import EARLIEST, LATEST
from ottla.client.connecting.cluster import ClientSettings
from ottla.client.connecting.settings import admin_settings
from ottla.client.refusals import RefusedError
from ottla.embedded.log import Log

ORDERS = TopicPartition("orders", 0)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with ottla.open(tmp_path / "d", {"offsets.topic.num.partitions": 1}) as log:
        log.create_topic("orders", partitions=2)
        yield log


@pytest.fixture(params=["over a socket", "in process"])
def admin(log: Log, request: pytest.FixtureRequest) -> Iterator[Admin]:
    target = log if request.param == "in process" else log.listen("127.0.0.1:0").address
    with ottla.Admin(target) as admin:
        yield admin


def test_a_directory_is_administered_without_a_broker(tmp_path: Path) -> None:
    ottla.open(tmp_path / "d").close()
    with ottla.Admin(tmp_path / "d") as admin:
        admin.create_topic("orders")
    with ottla.open(tmp_path / "d") as log:
        assert "orders" in log.topics()


def test_a_topic_is_made_described_grown_and_deleted(admin: Admin) -> None:
    admin.create_topic("books", partitions=3, configs={"retention.ms": "5"})
    assert admin.list_topics() == ["books", "orders"]
    (books,) = admin.describe_topics(["books"])
    assert [one.partition for one in books.partitions] == [0, 1, 2]
    admin.create_partitions("books", 4)
    assert admin.partitions(["books"]) == {"books": [0, 1, 2, 3]}
    admin.delete_topics(["books"])
    assert admin.list_topics() == ["orders"]


def test_several_topics_are_made_at_once_but_for_those_that_are_there(admin: Admin) -> None:
    admin.create_topic("orders", partitions=9, exist_ok=True)
    assert admin.partitions(["orders"]) == {"orders": [0, 1]}
    with pytest.raises(RefusedError, match="topic orders: TOPIC_ALREADY_EXISTS"):
        admin.create_topics({"books": 2, "orders": 1}, configs={"retention.ms": "5"})
    admin.create_topics({"pens": 1, "maps": -1}, validate_only=True)
    assert admin.partitions() == {"books": [0, 1], "orders": [0, 1]}


def test_internal_topics_are_listed_on_request(admin: Admin) -> None:
    admin.alter_group_offsets("readers", {ORDERS: 0})
    assert admin.list_topics() == ["orders"]
    assert "__consumer_offsets" in admin.list_topics(internal=True)


def test_offsets_are_listed_and_records_before_one_deleted(log: Log, admin: Admin) -> None:
    for number in range(5):
        log.append("orders", b"x", partition=0, timestamp_ms=1000 + number)
    assert admin.list_offsets([ORDERS])[ORDERS].offset == 5
    assert admin.list_offsets([ORDERS], 1003)[ORDERS].offset == 3
    assert admin.list_offsets([ORDERS], MAX_TIMESTAMP)[ORDERS].timestamp_ms == 1004
    assert admin.delete_records({ORDERS: 2}) == {ORDERS: 2}
    assert admin.list_offsets([ORDERS], EARLIEST)[ORDERS].offset == 2
    assert admin.delete_records({ORDERS: LATEST}) == {ORDERS: 5}


def test_settings_have_an_origin_and_a_default(admin: Admin) -> None:
    def retention() -> tuple[str | None, ConfigOrigin, str | None]:
        one = admin.describe_configs(ResourceKind.TOPIC, ["orders"])["orders"]["retention.ms"]
        return one.value, one.origin, one.default

    assert retention() == ("604800000", ConfigOrigin.DEFAULT, "604800000")
    admin.alter_configs(ResourceKind.TOPIC, "orders", {"retention.ms": "5"})
    assert retention() == ("5", ConfigOrigin.OF_THE_RESOURCE, "604800000")
    admin.alter_configs(ResourceKind.TOPIC, "orders", {"retention.ms": None})
    assert retention()[1] is ConfigOrigin.DEFAULT


def test_settings_of_brokers_and_groups_are_changed_too(admin: Admin) -> None:
    admin.alter_configs(ResourceKind.BROKER, ALL_BROKERS, {"log.cleaner.threads": "2"})
    name = str(*admin.describe_cluster().brokers)
    found = admin.describe_configs(ResourceKind.BROKER, [name])[name]["log.cleaner.threads"]
    assert (found.value, found.origin) == ("2", ConfigOrigin.OF_ALL_BROKERS)
    changes = {"consumer.session.timeout.ms": "50000"}
    admin.alter_configs(ResourceKind.GROUP, "readers", changes)
    group = admin.describe_configs(ResourceKind.GROUP, ["readers"])["readers"]
    assert group["consumer.session.timeout.ms"].is_own


def test_a_groups_offsets_are_committed_listed_and_forgotten(admin: Admin) -> None:
    other = TopicPartition("orders", 1)
    admin.alter_group_offsets("readers", {ORDERS: 3, other: 4})
    assert [(one.group, one.state, one.kind) for one in admin.list_groups()] == [
        ("readers", "Empty", "classic")
    ]
    (described,) = admin.describe_groups(["readers"])
    assert described.is_empty
    found = admin.group_offsets("readers")
    assert {place: one.offset for place, one in found.items()} == {ORDERS: 3, other: 4}
    with pytest.raises(UnknownNameError, match="no group reader; did you mean readers"):
        admin.delete_group_offsets("reader", [other])
    admin.delete_group_offsets("readers", [other])
    assert set(admin.group_offsets("readers")) == {ORDERS}
    admin.delete_groups(["readers"])
    assert admin.list_groups() == []


def test_quotas_are_set_described_and_removed(admin: Admin) -> None:
    loader = {"client-id": "loader"}
    admin.alter_quotas(loader, {"producer_byte_rate": 1000, "consumer_byte_rate": 2000})
    admin.alter_quotas({"user": None}, {"request_percentage": 50})
    (found,) = admin.describe_quotas(loader)
    assert found.limits == {"producer_byte_rate": 1000.0, "consumer_byte_rate": 2000.0}
    assert len(admin.describe_quotas()) == 2
    admin.alter_quotas(loader, {"producer_byte_rate": None, "consumer_byte_rate": None})
    assert [one.entity for one in admin.describe_quotas()] == [{"user": None}]


def test_a_broker_and_its_directories_are_described(log: Log, admin: Admin, tmp_path: Path) -> None:
    (directory,) = admin.log_directories()
    assert directory.path == str(tmp_path / "d")
    assert ORDERS in directory.sizes
    (directory,) = admin.log_directories({ORDERS.topic: [ORDERS.partition]})
    assert list(directory.sizes) == [ORDERS]
    assert admin.describe_cluster().cluster_id
    admin.elect_leaders()
    admin.elect_leaders([ORDERS])


REFUSALS: list[tuple[Callable[[Admin], object], type[UserError], str]] = [
    (
        lambda admin: admin.delete_topics(["order"]),
        UnknownNameError,
        "there is no topic order; did you mean orders?",
    ),
    (
        lambda admin: admin.describe_topics(["zzz"]),
        UnknownNameError,
        "there is no topic zzz; there is orders",
    ),
    (
        lambda admin: admin.create_topic("orders"),
        RefusedError,
        "topic orders: TOPIC_ALREADY_EXISTS: Topic 'orders' already exists.",
    ),
    (
        lambda admin: admin.list_offsets([TopicPartition("orders", 9)]),
        UnknownNameError,
        "there is no partition orders-9 in topic orders, which has 2",
    ),
    (lambda admin: admin.delete_groups(["g"]), UnknownNameError, "there is no group g"),
    (
        lambda admin: admin.delete_records({ORDERS: 9}),
        RefusedError,
        "orders-0: OFFSET_OUT_OF_RANGE",
    ),
    (
        lambda admin: admin.describe_transactions(["t"]),
        UnknownNameError,
        "there is no transactional id t",
    ),
    (
        lambda admin: admin.describe_configs(ResourceKind.BROKER, ["77"]),
        UserError,
        "there is no broker 77; there are 1",
    ),
]


@pytest.mark.parametrize(("ask", "kind", "text"), REFUSALS)
def test_a_refusal_is_one_line_that_names_the_thing(
    ask: Callable[[Admin], object], kind: type[UserError], text: str, admin: Admin
) -> None:
    with pytest.raises(kind) as caught:
        ask(admin)
    assert str(caught.value).startswith(text)


def test_groups_are_listed_once_however_many_are_described_or_lose_offsets(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [f"readers-{number}" for number in range(5)]
    for name in names:
        admin.alter_group_offsets(name, {ORDERS: 1})
    listings = 0
    list_groups = Admin.list_groups

    def counted(self: Admin, **more: Any) -> list[ListedGroup]:
        nonlocal listings
        listings += 1
        return list_groups(self, **more)

    monkeypatch.setattr(Admin, "list_groups", counted)
    listed = admin.list_groups()
    for one in listed:
        (described,) = admin.describe_groups([one])
        assert described.group == one.group
    assert [one.group for one in admin.describe_groups([listed[1], names[0]])] == names[1::-1]
    for name in names:
        assert set(admin.group_offsets(name)) == {ORDERS}
        admin.delete_group_offsets(name, [ORDERS])
    assert listings == 2


def test_a_client_has_kafkas_settings_and_names_one_that_it_does_not_know(log: Log) -> None:
    settings = {"client.id": "nightly", "request.timeout.ms": 45_000, "retry.backoff.ms": "20"}
    with ottla.Admin(log.listen("127.0.0.1:0").address, settings) as admin:
        assert admin.list_topics() == ["orders"]
    client = admin_settings(settings)
    assert (client.client_id, client.request_timeout_s, client.first_pause_s) == (
        "nightly",
        45,
        0.02,
    )
    with pytest.raises(UserError, match=r"request.timeout: .*did you mean request\.timeout\.ms"):
        ottla.Admin(log, {"request.timeout": 45_000})


def test_a_client_waits_as_long_for_a_response_as_a_broker_may_take_for_a_request() -> None:
    assert ClientSettings().request_timeout_s * 1000 >= TIMEOUT_MS
    assert admin_settings(None) == admin_settings({"client.id": "ottla"})


def test_a_leader_that_is_away_hides_no_lag_where_nothing_is_committed(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    admin.create_partitions("orders", 3)
    admin.alter_group_offsets("billing", {ORDERS: 0})
    (billing,) = admin.describe_groups(["billing"])
    leaders = admin._cluster.leaders
    away = {TopicPartition("orders", 2)}
    monkeypatch.setattr(
        admin._cluster,
        "leaders",
        lambda places: {one: of for one, of in leaders(places).items() if one not in away},
    )
    found = [(one.end_offset, one.lag) for one in admin.group_lag(billing)]
    assert found == [(0, 0), (0, None), (-1, None)]
    bounds = admin.bounds

    def refused(places: list[TopicPartition]) -> dict[TopicPartition, tuple[int, int]]:
        if not away.isdisjoint(places):
            raise UnreachableError("h:9: Connection refused")
        return bounds(places)

    monkeypatch.setattr(admin, "bounds", refused)
    monkeypatch.setattr(admin._cluster, "leaders", leaders)
    found = [(one.end_offset, one.lag) for one in admin.group_lag(billing)]
    assert found == [(0, 0), (-1, None), (-1, None)], "one broker leads both"
    away = {ORDERS}
    with pytest.raises(UnreachableError):
        admin.group_lag(billing)


def test_settings_of_many_topics_are_asked_in_several_requests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = [f"t{number}" for number in range(5)]
    monkeypatch.setattr("ottla.client.administration.configs.AT_ONCE", 2)
    with ottla.open(tmp_path / "many") as log, Admin(log) as admin:
        for number, name in enumerate(names):
            log.create_topic(name, config={"retention.ms": number})
        settings = admin.topics_settings(names)
        assert [settings[name]["retention.ms"] for name in names] == ["0", "1", "2", "3", "4"]
        overrides = admin.topic_overrides(names)
        assert overrides == {name: {"retention.ms": name[1:]} for name in names}
        assert admin.topics_settings([]) == admin.topic_overrides([]) == {}
