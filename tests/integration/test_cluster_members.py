"""Brokers in the registries of a real ZooKeeper: registration, elections, lost sessions."""

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import pytest

from ottla.base.clock import SystemClock
from ottla.base.error_codes import ErrorCode
from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.cluster.member import Callbacks, ClusterMember, MemberOptions
from ottla.controller.acls import ChangedAcls, change_acls, read_all_acls
from ottla.controller.events import Answer, CreateTopic, ElectLeaders
from ottla.controller.parts import ControllerOptions
from ottla.controller.requests import LeaderAndIsr, Outgoing, UpdateMetadata
from ottla.controller.settings import change_settings, read_clients
from ottla.metadata.acls import (
    Entry,
    Operation,
    PatternType,
    Permission,
    ResourcePattern,
    ResourceType,
)
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.zookeeper import paths
from ottla.zookeeper.brokers import decode_broker
from ottla.zookeeper.controllers import decode_cluster_id, decode_controller
from ottla.zookeeper.topics import decode_state
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.ports import free_port
from tests.support.zookeeper_server import SOON, TIMEOUT_S, zookeeper_client, zookeeper_server

kazoo_client = pytest.importorskip("kazoo.client")

pytestmark = pytest.mark.slow

SESSION_MS = 6000
"""No member is to lose it because the host is busy."""

SHORT_MS = 2000
"""Of one that gives up after twice as long."""
CLUSTER = "gYegNMCUSVinTtnlHUNGwQ"
numbers = iter(range(1000))


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with zookeeper_server(tmp_path_factory.mktemp("zookeeper")) as address:
        yield address


@pytest.fixture
def tools(server: str) -> Iterator[object]:
    """Another client, as `zookeeper-shell`, at a chroot of this test's own."""
    with zookeeper_client(server) as client:
        client.ensure_path(chroot := f"/c{next(numbers)}")
        client.chroot = chroot
        yield client


@pytest.fixture
def members() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


class Member:
    """One with a record of what it was called with."""

    def __init__(self, address: str, broker_id: int, **options: object) -> None:
        self.epochs: list[int] = []
        self.outgoing: list[Outgoing] = []
        self.complaints: list[str] = []
        self.configured: dict[str, Mapping[str, str]] = {}
        self.ruled: dict[ResourcePattern, object] = {}
        self.tokens: dict[str, object] = {}
        self.fenced = threading.Event()
        endpoint = Endpoint(
            listener="PLAINTEXT", host="h", port=9092, security_protocol="PLAINTEXT"
        )
        settings = {
            "connect": address,
            "broker_id": broker_id,
            "session_timeout_ms": SESSION_MS,
            "controller": ControllerOptions(broker_id=-1),
            **options,
        }
        self.member = ClusterMember(
            MemberOptions(**settings),  # type: ignore[arg-type]
            Callbacks(
                fenced=self.fenced.set,
                registered=self.epochs.append,
                send=lambda outgoing, _: self.outgoing.extend(outgoing),
                configured=self.configured.update,
                ruled=self.ruled.update,
                tokens_changed=self.tokens.update,
                complain=self.complaints.append,
            ),
            SystemClock(),
            new_cluster_id=lambda: CLUSTER,
        )
        self.member.join()
        self.member.start(BrokerRegistration(endpoints=(endpoint,)))


def knows(controller: Member, broker_id: int) -> bool:
    orders = [one.order for one in controller.outgoing]
    return any(broker_id in one.brokers for one in orders if isinstance(one, UpdateMetadata))


def address_of(tools: object) -> str:
    host, port = tools.hosts[0]  # type: ignore[attr-defined]
    return f"{host}:{port}{tools.chroot}"  # type: ignore[attr-defined]


@pytest.fixture
def join(tools: object, members: ExitStack) -> Callable[..., Member]:
    def joined(broker_id: int, address: str | None = None, **options: object) -> Member:
        one = Member(address or address_of(tools), broker_id, **options)
        members.callback(one.member.stop)
        return one

    return joined


def test_brokers_register_and_one_of_them_is_the_controller(
    tools: object, join: Callable[..., Member]
) -> None:
    first = join(1)
    wait_until(lambda: first.member.is_controller)
    second = join(2)
    get = tools.get  # type: ignore[attr-defined]
    content, stat = get(paths.broker_path(2))
    assert decode_broker(2, content).endpoints[0].port == 9092
    assert second.epochs == [stat.czxid]
    assert decode_cluster_id(get(paths.CLUSTER_ID)[0]) == first.member.cluster_id == CLUSTER
    assert decode_controller(get(paths.CONTROLLER)[0]).broker_id == 1
    wait_until(lambda: knows(first, 2), "the controller has not heard of the other broker")
    created = first.member.ask(
        CreateTopic(pending_id=0, topic="orders", assignment={0: (2, 1)}), TIMEOUT_S
    )
    assert created.error is ErrorCode.NONE
    orders = TopicPartition("orders", 0)
    wait_until(lambda: any(isinstance(one.order, LeaderAndIsr) for one in first.outgoing))
    state = decode_state(orders, get(paths.state_path(orders))[0])
    assert (state.leader, state.isr) == (2, (2, 1))
    asked = second.member.ask(ElectLeaders(pending_id=0, partitions=None), TIMEOUT_S)
    assert asked.error is ErrorCode.NOT_CONTROLLER
    # When the controller leaves, the other one takes over.
    first.member.stop()
    wait_until(lambda: second.member.is_controller)
    wait_until(lambda: decode_state(orders, get(paths.state_path(orders))[0]).isr == (2,))
    assert get(paths.CONTROLLER_EPOCH)[0] == b"2"


def test_a_broker_whose_session_expires_is_fenced_and_registers_again(
    tools: object, join: Callable[..., Member]
) -> None:
    one = join(1)
    wait_until(lambda: one.member.is_controller)
    expire(one)
    wait_until(lambda: len(one.epochs) == 2)
    assert one.fenced.is_set()
    assert one.epochs[1] > one.epochs[0]
    wait_until(lambda: one.member.is_controller)
    epoch = tools.get(paths.CONTROLLER_EPOCH)[0]  # type: ignore[attr-defined]
    assert epoch == b"2"


def test_what_changes_after_a_lost_connection_is_heard_of_in_the_same_session(
    join: Callable[..., Member],
) -> None:
    one = join(1)
    wait_until(lambda: one.member.is_controller)
    # Answered when it has taken over: from then on it watches.
    assert one.member.ask(ElectLeaders(pending_id=0, partitions=None), TIMEOUT_S).error is (
        ErrorCode.NONE
    )
    lose_connection(one)
    second = join(2)
    wait_until(lambda: knows(one, 2), "the controller watches the brokers no more")
    change = {"retention.ms": "1"}
    second.member.run(lambda: change_settings("topics/t", lambda _: change), [].append)
    wait_until(lambda: one.configured.get("topics/t") == change)


def test_settings_that_one_broker_changes_reach_the_others(join: Callable[..., Member]) -> None:
    first, second = join(1), join(2)
    answers: list[object] = []

    def raised(known: Mapping[str, str]) -> dict[str, str]:
        return {**known, "retention.ms": str(1 + int(known.get("retention.ms", 0)))}

    for count in (1, 2):
        first.member.run(lambda: change_settings("topics/orders", raised), answers.append)
        wait_until(lambda: len(answers) == count)  # noqa: B023
    assert answers == [{"retention.ms": "1"}, {"retention.ms": "2"}]
    for one in (first, second):
        wait_until(lambda: one.configured.get("topics/orders") == {"retention.ms": "2"})  # noqa: B023


def test_a_folder_that_is_missing_above_settings_is_made(
    tools: object, join: Callable[..., Member]
) -> None:
    first, second = join(1), join(2)
    entity = "users/alice/clients/app"
    quota = {"producer_byte_rate": "1024"}
    first.member.run(lambda: change_settings(entity, lambda _: quota), [].append)
    wait_until(lambda: second.configured.get(entity) == quota)
    found: list[object] = []
    second.member.run(read_clients, found.append)
    wait_until(lambda: bool(found))
    assert found == [{"users/alice": {}, entity: quota}]


def test_rules_that_one_broker_changes_reach_the_others(
    tools: object, join: Callable[..., Member]
) -> None:
    first, second = join(1, has_acls=True), join(2, has_acls=True)
    read = Entry("User:a", "*", Operation.READ, Permission.ALLOW)
    orders = ResourcePattern(ResourceType.TOPIC, PatternType.LITERAL, "orders")
    billing = ResourcePattern(ResourceType.TRANSACTIONAL_ID, PatternType.PREFIXED, "billing-")
    answers: list[object] = []
    for resource in (orders, billing):
        first.member.run(partial(change_acls, resource, lambda _: (read,)), answers.append)
    wait_until(lambda: second.ruled == {orders: (read,), billing: (read,)})
    exists = tools.exists  # type: ignore[attr-defined]
    assert exists("/kafka-acl/Topic/orders")
    assert exists("/kafka-acl-extended/prefixed/TransactionalId/billing-")
    second.member.run(lambda: change_acls(orders, lambda _: ()), answers.append)
    wait_until(lambda: first.ruled.get(orders) == ())
    assert answers[-1] == ChangedAcls((read,), ())
    assert not exists("/kafka-acl/Topic/orders")
    found: list[object] = []
    first.member.run(read_all_acls, found.append)
    wait_until(lambda: found == [{billing: (read,)}])


class FailsOnce(list[Outgoing]):
    has_failed = False

    def extend(self, outgoing: object) -> None:
        if not self.has_failed:
            self.has_failed = True
            raise AssertionError("a fault")


def test_a_fault_in_a_members_thread_has_the_broker_join_again(join: Callable[..., Member]) -> None:
    one = join(1)
    wait_until(lambda: one.member.is_controller)
    one.outgoing = FailsOnce()
    one.member.begin(CreateTopic(pending_id=0, topic="t", assignment={0: (1,)}), lambda _: None)
    wait_until(lambda: len(one.epochs) == 2)
    assert one.fenced.is_set()
    wait_until(lambda: one.member.is_controller)
    asked = one.member.ask(ElectLeaders(pending_id=0, partitions=None), TIMEOUT_S)
    assert asked.error is ErrorCode.NONE


def test_an_answer_that_cannot_be_taken_costs_a_member_nothing_else(
    join: Callable[..., Member],
) -> None:
    one = join(1)
    change = {"retention.ms": "1"}
    one.member.run(lambda: change_settings("topics/t", lambda _: change), [].index)
    wait_until(lambda: one.configured.get("topics/t") == change)
    assert len(one.epochs) == 1


def lose_connection(one: Member) -> None:
    """Returns once there is another one."""
    client = one.member._session._client
    states: list[str] = []
    client.add_listener(states.append)
    client._connection._socket.shutdown(socket.SHUT_RDWR)
    wait_until(lambda: len(states) >= 2 and states[-1] == "CONNECTED")


def expire(one: Member) -> None:
    """Another connection with the session's id and password ends the session, unless its client
    has taken it back before.
    """
    ours = one.member._session._client
    host, port = ours.hosts[0]
    session = ours.client_id

    def is_over() -> bool:
        thief = kazoo_client.KazooClient(f"{host}:{port}", client_id=session, connection_retry=SOON)
        thief.start_async().wait(TIMEOUT_S)
        thief.stop()
        thief.close()
        return bool(ours.client_id != session)

    wait_until(is_over)


def test_ids_are_generated_where_none_is_given(join: Callable[..., Member]) -> None:
    assert join(-1).member.broker_id == 1001
    assert join(-1).member.broker_id == 1002


def test_without_zookeeper_a_broker_leads_nothing_after_the_time_of_its_session(
    tmp_path: Path,
) -> None:
    with ExitStack() as stack:
        with zookeeper_server(tmp_path) as address:
            one = Member(address, 1)
            stack.callback(one.member.stop)
            wait_until(lambda: one.member.is_controller)
            assert not one.fenced.is_set()
        early: SimpleQueue[Answer] = SimpleQueue()
        for _ in range(2):  # The first may wait for ZooKeeper's answer, and the next for the first.
            one.member.begin(ElectLeaders(pending_id=0, partitions=None), early.put)
        wait_until(one.fenced.is_set)
        for _ in range(2):
            assert early.get(timeout=PATIENCE_S).error is ErrorCode.NOT_CONTROLLER
        assert one.epochs == one.epochs[:1]
        wait_until(lambda: one.complaints)
        assert one.complaints == [
            f"zookeeper.connect={address}: ZooKeeper cannot be reached; this broker leads "
            "nothing until it can: start ZooKeeper, or repair the network"
        ]
        asked = one.member.ask(ElectLeaders(pending_id=0, partitions=None), TIMEOUT_S)
        assert asked.error is ErrorCode.NOT_CONTROLLER, "and not waited for"


def test_what_keeps_a_broker_out_is_said_in_one_line(
    server: str, tools: object, join: Callable[..., Member]
) -> None:
    join(1)

    def refusal(**options: object) -> str:
        with pytest.raises(UserError) as caught:
            join(
                **{
                    "broker_id": 2,
                    "session_timeout_ms": SHORT_MS,
                    "connection_timeout_ms": 1000 * int(TIMEOUT_S),
                    **options,
                }
            )
        assert "\n" not in str(caught.value)
        return str(caught.value)

    taken = refusal(broker_id=1)
    assert taken == (
        "broker.id=1: a broker at PLAINTEXT://h:9092 has this id in the cluster; choose another, "
        "or stop it"
    )
    other = refusal(cluster_id="I_0MTxdmTk-RWI-AxmfAIg")
    assert (
        f"it has cluster {CLUSTER}, but the data directory belongs to cluster I_0MTxdmTk" in other
    )
    chroot = refusal(address=f"{server}/nowhere")
    assert chroot == (
        f"zookeeper.connect={server}/nowhere: there is no node /nowhere; create it, or name the "
        "cluster's chroot"
    )
    port = free_port()
    nobody = refusal(address=f"127.0.0.1:{port}", connection_timeout_ms=SHORT_MS)
    assert nobody.startswith(f"zookeeper.connect=127.0.0.1:{port}: ZooKeeper cannot be reached (")
