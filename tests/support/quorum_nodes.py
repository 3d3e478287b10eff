"""Nodes of a quorum in this process, with their threads; what they say goes through Kafka's bytes.

Each has a directory in memory, which outlives its process. No sockets: `NodeServer` has one for
clients.
"""

import socket
from collections.abc import Callable, Sequence
from functools import partial
from math import inf
from queue import SimpleQueue
from random import Random
from threading import Event
from typing import Any, TypeVar

from ottla.base.clock import SystemClock, read_clock
from ottla.base.errors import ApiError, UnreachableError, UserError
from ottla.base.ids import ZERO_UUID, Uuid
from ottla.base.timestamps import Timestamps
from ottla.base.turns import in_one_part
from ottla.broker.metadata.log import SnapshotLimits
from ottla.broker.metadata.quorum_snapshots import QuorumSnapshots
from ottla.cluster.quorum.quorum_thread import Published, QuorumParts, QuorumThread
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader
from ottla.metadata.brokers import Endpoint as BrokerEndpoint
from ottla.metadata.image import MetadataImage
from ottla.metadata.image_changes import VersionedRecord
from ottla.metadata.records import TopicRecord
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import (
    RequestHeader,
    encode_request,
    encode_response,
    read_request_header,
    read_response_header,
)
from ottla.protocol.messages import request_class, response_class
from ottla.protocol.messages.api_versions import (
    ApiVersion,
    ApiVersionsResponse,
    SupportedFeatureKey,
)
from ottla.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from ottla.quorum.messages import Request, Response
from ottla.quorum.options import KRAFT_VERSION, QuorumOptions
from ottla.quorum.voters import NO_VOTERS, Endpoint, ReplicaKey, Voter, VoterSet
from ottla.server.orders import (
    add_raft_voter,
    begin_quorum_epoch,
    describe_quorum,
    end_quorum_epoch,
    fetch_metadata,
    fetch_snapshot,
    remove_raft_voter,
    update_raft_voter,
    vote,
)
from ottla.storage.files.patient_files import Patience, patient_files
from ottla.testing import CrashMode, FakeFileSystem
from tests.support.brokers import disk, id_of
from tests.support.patience import PATIENCE_S, wait_until
from tests.support.quorum_logs import QuorumDirectory
from tests.support.shortages import ScarceFileSystem
from tests.support.threaded_server import ThreadedServer

CLUSTER_ID = "a-cluster-for-tests-01"
FIRST_PORT = 9000
T = TypeVar("T")

HANDLERS: dict[ApiKey, Any] = {
    ApiKey.VOTE: vote,
    ApiKey.BEGIN_QUORUM_EPOCH: begin_quorum_epoch,
    ApiKey.END_QUORUM_EPOCH: end_quorum_epoch,
    ApiKey.FETCH: fetch_metadata,
    ApiKey.FETCH_SNAPSHOT: fetch_snapshot,
    ApiKey.ADD_RAFT_VOTER: add_raft_voter,
    ApiKey.REMOVE_RAFT_VOTER: remove_raft_voter,
    ApiKey.UPDATE_RAFT_VOTER: update_raft_voter,
    ApiKey.DESCRIBE_QUORUM: describe_quorum,
}


def endpoint_of(node_id: int) -> Endpoint:
    return Endpoint("CONTROLLER", "node", FIRST_PORT + node_id)


class TopicMaker:
    """A controller that knows topics by name alone."""

    def __init__(self, image: MetadataImage, end_offset: int, epoch: int, at: Timestamps) -> None:
        self.names = set(image.topics)
        self.end_offset = end_offset
        self.epoch = epoch
        self.deadline_ms = inf
        self._batches: list[list[VersionedRecord]] = []

    def create(self, name: str) -> int:
        """The offset of its record; raises `ApiError` and `KeyError` for some."""
        if name in self.names:
            raise ApiError(36, f"{name} exists")
        if name == "fault":
            raise KeyError(name)
        self.names.add(name)
        number = len(self.names) + 1000 * self.epoch
        self._batches.append([(TopicRecord(name=name, topic_id=id_of(number)), 0)])
        self.end_offset += 1
        return self.end_offset - 1

    def write(self, record: Message) -> None:
        self._batches.append([(record, 0)])
        self.end_offset += 1

    def look(self) -> list[str]:
        return sorted(self.names)

    def take_batches(self) -> list[list[VersionedRecord]]:
        batches, self._batches = self._batches, []
        return batches

    def note_time(self, at: Timestamps) -> None:
        pass

    def advance(self, at: Timestamps) -> None: ...


class Node:
    """A node, from `start` to `stop` or `kill`, and again."""

    def __init__(self, quorum: "QuorumNodes", node_id: int, *, is_controller: bool = True) -> None:
        self.quorum = quorum
        self.id = node_id
        self.is_controller = is_controller
        self.is_first = node_id in quorum.voter_ids
        self.cluster_id = CLUSTER_ID
        self.disk: FakeFileSystem = disk("/d")
        self.directory_id: Uuid = id_of(100 + node_id) if quorum.is_dynamic else ZERO_UUID
        self.is_up = False
        self.is_cut_off = False
        self.refusal: str | None = None
        """Why it cannot have a controller."""
        self.newest: dict[ApiKey, int] = {}
        """The versions that it knows, where they are not the newest."""
        self.complaints: list[str] = []
        self.failures: list[Exception] = []
        self.published: list[Published] = []

    def start(self) -> None:
        self.open()
        self.is_up = True
        self.thread.start()

    def open(self) -> None:
        """Has a thread that is not started yet."""
        quorum = self.quorum
        self.published = []
        self.files = ScarceFileSystem(self.disk)
        self.stops = Event()
        patience = Patience(self.stops.wait, "the quorum's part of this node", "/d")
        key = ReplicaKey(self.id, self.directory_id)
        endpoints = (endpoint_of(self.id),) if self.is_controller else ()
        self.used = QuorumDirectory(
            patient_files(self.files, patience),
            voters=quorum.settings_voters if self.is_first or not quorum.is_dynamic else NO_VOTERS,
            own=Voter(key, endpoints) if self.is_first else None,
        )
        opened = self.used.opened
        options = QuorumOptions(
            key=key,
            cluster_id=self.cluster_id,
            endpoints=endpoints,
            first_voter=opened.first_voter or (quorum.is_dynamic and self.is_first),
            bootstrap=tuple(endpoint_of(one) for one in quorum.voter_ids),
            **quorum.times,
        )
        self.thread: QuorumThread[TopicMaker] = QuorumThread(
            QuorumParts(
                options=options,
                log=opened.log,
                elections=opened.elections,
                election=opened.election,
                history=opened.history,
                snapshots=QuorumSnapshots(
                    opened.log, quorum.snapshot_limits, read_clock(SystemClock())
                ),
                connect=partial(_Connection, quorum, self),
                clock=SystemClock(),
                random_below=Random(self.id).randrange,
                new_controller=self._new_controller if self.is_controller else None,
                complain=self.complaints.append,
                failed=self.failures.append,
            )
        )
        self.thread.follow(self.published.append)

    def _new_controller(
        self, image: MetadataImage, end_offset: int, epoch: int, at: Timestamps
    ) -> TopicMaker:
        if self.refusal is not None:
            raise UserError(self.refusal)
        return TopicMaker(image, end_offset, epoch, at)

    def stop(self) -> None:
        """As at the end of a process that has time for it."""
        self.stops.set()
        self.thread.stop()
        self.is_up = False
        self.used.close()

    def kill(self) -> None:
        """Nobody hears of it any more, and it loses what was not synced."""
        self.is_up = False
        self.stops.set()
        self.thread.stop()
        self.disk = self.disk.crash(CrashMode.STRICT)

    @property
    def image(self) -> MetadataImage:
        return self.published[-1].image if self.published else MetadataImage()

    def ask(self, verb: Callable[[TopicMaker], T]) -> T | ApiError:
        done: SimpleQueue[T | ApiError] = SimpleQueue()
        self.thread.ask(lambda one: in_one_part(lambda: verb(one)), done.put)
        return done.get(timeout=PATIENCE_S)

    def answer(self, frame: bytes) -> bytes | None:
        """The response to a frame without its size, as a server gives it."""
        header, position = read_request_header(frame)
        key = ApiKey(header.api_key)
        message, _ = reader(request_class(key), header.api_version)(frame, position)
        response = self._response(key, header.api_version, message)
        if response is None:
            return None
        output = Output()
        encode_response(header, response, output)
        return bytes(output.read_all())[4:]

    def tell(self, request: Request) -> Any:
        """The response of the machine to a tool's request."""
        told: SimpleQueue[Response] = SimpleQueue()
        self.thread.receive(request, told.put)
        return told.get(timeout=PATIENCE_S)

    def _response(self, key: ApiKey, version: int, message: Any) -> Message | None:
        if key is ApiKey.API_VERSIONS:
            return self._versions()
        if key is ApiKey.DESCRIBE_CLUSTER:
            return self.quorum.described()
        handler = HANDLERS[key]
        request = handler.request_of(message)
        assert request is not None, message
        found: list[Response] = []
        has_come = Event()

        def answered(response: Response) -> None:
            found.append(response)
            has_come.set()

        self.thread.receive(request, answered)
        if not has_come.wait(PATIENCE_S):
            return None
        more = (message.topics, version) if key is ApiKey.FETCH else ()
        response: Message = handler.response_of(*more, *found)
        return response

    def _versions(self) -> ApiVersionsResponse:
        known = [*HANDLERS, ApiKey.API_VERSIONS, ApiKey.DESCRIBE_CLUSTER]
        return ApiVersionsResponse(
            api_keys=[
                ApiVersion(
                    api_key=key,
                    min_version=request_class(key).VERSIONS.first,
                    max_version=self.newest.get(key, request_class(key).VERSIONS.last),
                )
                for key in known
            ],
            supported_features=[
                SupportedFeatureKey(name=KRAFT_VERSION, min_version=0, max_version=1)
            ],
        )


class _Connection:
    """A `PeerConnection` to a node of this process."""

    def __init__(
        self, quorum: "QuorumNodes", owner: Node, endpoint: BrokerEndpoint, client_id: str
    ) -> None:
        self._owner = owner
        self._client_id = client_id
        self._node = quorum.nodes[endpoint.port - FIRST_PORT]
        self._thread = self._node.thread if self._node.is_up else None
        self._is_closed = Event()
        self._check()

    def _check(self) -> None:
        node, owner = self._node, self._owner
        is_same = node.is_up and node.thread is self._thread and owner.is_up
        if not is_same or node.is_cut_off or owner.is_cut_off or self._is_closed.is_set():
            raise UnreachableError("nobody answers")

    def version_of(self, api_key: int, *, newest: int | None = None) -> int:
        self._check()
        last = request_class(api_key).VERSIONS.last
        return min(last, self._node.newest.get(ApiKey(api_key), last), newest or last)

    def ask(self, request: Message, *, newest: int | None = None) -> Any:
        assert request.API_KEY is not None
        version = newest if newest is not None else self.version_of(request.API_KEY)
        header = RequestHeader(request.API_KEY, version, 1, self._client_id)
        output = Output()
        encode_request(header, request, output)
        self._check()
        frame = self._node.answer(bytes(output.read_all())[4:])
        self._check()
        if frame is None:
            raise UnreachableError("no response in time")
        _, position = read_response_header(frame, header.api_key, version)
        response, _ = reader(response_class(header.api_key), version)(frame, position)
        return response

    def close(self) -> None:
        self._is_closed.set()


class NodeServer(ThreadedServer):
    """A node for clients with sockets."""

    def __init__(self, node: Node) -> None:
        self._node = node
        super().__init__()

    def serve(self, peer: socket.socket) -> None:
        with peer.makefile("rb") as frames:
            while size := frames.read(4):
                answer = self._node.answer(frames.read(int.from_bytes(size, "big")))
                if answer is None:
                    return
                peer.sendall(len(answer).to_bytes(4, "big") + answer)


class QuorumNodes:
    """Voters 1 to `count` of the settings, and nodes that are added. The only voter of a dynamic
    quorum writes itself into its log.
    """

    def __init__(self, count: int = 3, *, is_dynamic: bool = False, **times: int) -> None:
        self.is_dynamic = is_dynamic
        self.times: dict[str, Any] = {
            "election_timeout_ms": 200,
            "fetch_timeout_ms": 600,
            "request_timeout_ms": 1000,
            "fetch_max_wait_ms": 100,
            "append_linger_ms": 1,
            **times,
        }
        self.snapshot_limits = SnapshotLimits()
        self.voter_ids = tuple(range(1, count + 1))
        self.settings_voters = VoterSet.of(
            Voter(ReplicaKey(one), (endpoint_of(one),)) for one in self.voter_ids
        )
        self.nodes = {one: Node(self, one) for one in self.voter_ids}
        self.servers: dict[int, NodeServer] = {}

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def add_observer(
        self, node_id: int, cluster_id: str = CLUSTER_ID, *, is_controller: bool = False
    ) -> Node:
        node = self.nodes[node_id] = Node(self, node_id, is_controller=is_controller)
        node.cluster_id = cluster_id
        node.start()
        return node

    def stop(self) -> None:
        for server in self.servers.values():
            server.close()
        for node in self.nodes.values():
            if node.is_up:
                node.stop()

    def serve(self, node: Node) -> NodeServer:
        server = self.servers[node.id] = NodeServer(node)
        return server

    @property
    def up(self) -> list[Node]:
        return [one for one in self.nodes.values() if one.is_up]

    def leader(self, among: Sequence[Node] | None = None) -> Node:
        """The node that decides, once there is one."""

        def found() -> Node | None:
            nodes = self.up if among is None else among
            leading = [one for one in nodes if one.thread.status().is_active_controller]
            return max(leading, key=lambda one: one.thread.status().epoch, default=None)

        return wait_until(found, lambda: f"nobody leads: {self.statuses()}")

    def statuses(self) -> list[Any]:
        return [(one.id, one.thread.status()) for one in self.up]

    def create(self, name: str) -> int:
        """Creates a topic at whoever leads, as a client that tries again."""

        def tried() -> int | None:
            outcome = self.leader().ask(lambda controller: controller.create(name))
            if isinstance(outcome, ApiError):
                assert outcome.code == 41, outcome
                return None
            return outcome

        return wait_until(tried)

    def await_topics(self, *names: str) -> None:
        """All that are up have an image with these topics."""
        wait_until(
            lambda: all(set(names) <= set(one.image.topics) for one in self.up),
            lambda: f"{names} are not in {[(one.id, [*one.image.topics]) for one in self.up]}",
        )

    def described(self) -> DescribeClusterResponse:
        return DescribeClusterResponse(
            endpoint_type=2,
            cluster_id=CLUSTER_ID,
            brokers=[
                DescribeClusterBroker(broker_id=key, host="127.0.0.1", port=one.port)
                for key, one in self.servers.items()
            ],
        )
