"""What a follower or observer does: it fetches, cuts what the leader does not have, and begins with
a snapshot where the leader's log begins later.

Kafka's counterpart: `FollowerState`, and `KafkaRaftClient.handleFetchResponse`.
"""

from typing import NamedTuple

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ProtocolError
from ottla.base.files import Buffer
from ottla.metadata.control import KRaftVersionRecord, VotersRecord
from ottla.quorum.appending import Appending, control_records
from ottla.quorum.effects import FinishSnapshot, LoadSnapshot, WriteSnapshot
from ottla.quorum.membership import own_change
from ottla.quorum.messages import (
    Fetch,
    FetchAnswer,
    FetchSnapshot,
    SnapshotAnswer,
    SnapshotId,
)
from ottla.quorum.node import Node
from ottla.quorum.roles import Follower, Unattached
from ottla.quorum.voters import Endpoint, VoterSet, voters_in
from ottla.record.batch import batch_at, whole_size

BOOTSTRAP_ID = -2
"""The first of the ids that stand for addresses of which the node is not known (Kafka: -2, -3)."""


class Address(NamedTuple):
    node_id: int
    endpoint: Endpoint | None


class Following:
    def __init__(self, node: Node, appending: Appending) -> None:
        self._node = node
        self._appending = appending
        self.complaint: str | None = None
        """Why the last answer of the leader was not taken."""

    # Time

    def advance(self) -> None:
        match self._node.role:
            case Follower() as role:
                self._advance_follower(role)
            case Unattached() if not self._node.unheard:
                self._ask_anybody()
            case _:
                pass

    def _advance_follower(self, role: Follower) -> None:
        """What was fetched is durable before the next fetch says so."""
        node = self._node
        if not node.is_voter and node.now_ms >= role.deadline_ms:
            self._ask_anybody()
        if node.log.synced_offset < node.log.end_offset:
            return
        if not node.peers.is_ready(role.leader_id, node.now_ms):
            return
        change = own_change(node) if node.now_ms >= role.next_change_ms else None
        if change is not None:
            role.next_change_ms = node.now_ms + node.options.fetch_timeout_ms
            node.send(role.leader_id, role.endpoint, change)
        elif role.snapshot is not None:
            node.send(role.leader_id, role.endpoint, self._snapshot_request(role))
        else:
            node.send(role.leader_id, role.endpoint, self._fetch_request())

    def _fetch_request(self) -> Fetch:
        node, options = self._node, self._node.options
        last_epoch, end_offset = node.log.end
        return Fetch(
            options.cluster_id,
            options.key,
            node.epoch,
            end_offset,
            last_epoch,
            options.fetch_max_wait_ms,
            options.fetch_max_bytes,
            node.high_watermark,
        )

    def _snapshot_request(self, role: Follower) -> FetchSnapshot:
        options = self._node.options
        assert role.snapshot is not None
        return FetchSnapshot(
            options.cluster_id,
            options.key,
            role.epoch,
            role.snapshot,
            role.position,
            options.fetch_snapshot_max_bytes,
        )

    def _ask_anybody(self) -> None:
        """A fetch of any node tells who leads; one at a time."""
        node = self._node
        addresses = self._addresses()
        if not addresses or any(node.peers.is_busy(one.node_id) for one in addresses):
            for one in addresses:
                node.peers.is_ready(one.node_id, node.now_ms)  # gives up what takes too long
            return
        ready = [one for one in addresses if node.peers.is_ready(one.node_id, node.now_ms)]
        if ready and node.log.synced_offset == node.log.end_offset:
            chosen = ready[node.random_below(len(ready))]
            node.send(chosen.node_id, chosen.endpoint, self._fetch_request())

    def asked_ids(self) -> list[int]:
        return [one.node_id for one in self._addresses()]

    def _addresses(self) -> list[Address]:
        node = self._node
        others = node.voters.others(node.own_id)
        if others:
            return [Address(one.key.id, (*one.endpoints, None)[0]) for one in others]
        bootstrap = node.options.bootstrap
        return [Address(BOOTSTRAP_ID - place, one) for place, one in enumerate(bootstrap)]

    # Responses

    def fetched(self, node_id: int, request: Fetch, answer: FetchAnswer) -> None:
        node = self._node
        if node.learn(answer.known):
            return
        role = node.role
        is_current = isinstance(role, Follower) and answer.known.leader_id == role.leader_id
        if not is_current or answer.known.epoch != role.epoch or request.epoch != role.epoch:
            node.peers.pause(node_id, node.now_ms)
            return
        assert isinstance(role, Follower)
        if answer.error is not ErrorCode.NONE or request.offset != node.log.end_offset:
            node.peers.pause(node_id, node.now_ms)
            return
        try:
            self._take(role, answer)
        except ProtocolError as error:
            self.complaint = str(error)
            node.peers.pause(node_id, node.now_ms)
            return
        node.losses = 0
        role.has_fetched = role.epoch != node.ended_epoch
        self._put_off(role)

    def _put_off(self, role: Follower) -> None:
        """The leader is heard. What it sent before it resigned may come after the word of that."""
        node = self._node
        if role.epoch != node.ended_epoch:
            role.deadline_ms = node.now_ms + node.options.fetch_timeout_ms

    def _take(self, role: Follower, answer: FetchAnswer) -> None:
        node = self._node
        if answer.diverging is not None:
            self._appending.truncate_to(answer.diverging)
        elif answer.snapshot is not None:
            self._check_snapshot(role, answer.snapshot)
            role.snapshot, role.position, role.head = answer.snapshot, 0, b""
        else:
            self._appending.append(answer.records)
            node.raise_high_watermark(min(answer.high_watermark, node.log.end_offset))

    def _check_snapshot(self, role: Follower, snapshot: SnapshotId) -> None:
        """Raises `ProtocolError` for one that no leader has, or that ends before what is committed
        here.
        """
        committed = self._node.high_watermark
        if not 0 <= snapshot.epoch <= role.epoch or snapshot.end_offset < committed:
            raise ProtocolError(
                f"the leader of epoch {role.epoch} has a snapshot of epoch {snapshot.epoch} until "
                f"offset {snapshot.end_offset}, and offset {committed} is committed here"
            )

    def fetched_snapshot(
        self, node_id: int, request: FetchSnapshot, answer: SnapshotAnswer
    ) -> None:
        node = self._node
        if node.learn(answer.known):
            return
        role = node.role
        if not isinstance(role, Follower) or answer.known.epoch != role.epoch:
            return
        if role.snapshot != request.snapshot or role.position != request.position:
            return
        is_wrong = answer.snapshot != request.snapshot or answer.position != request.position
        if answer.error is ErrorCode.KAFKA_STORAGE_ERROR:
            # There is no room for it here: the leader is heard, and asked again in a while.
            self._put_off(role)
            node.peers.pause(node_id, node.now_ms, node.options.fetch_timeout_ms / 3)
            return
        if answer.error is not ErrorCode.NONE or is_wrong or not answer.content:
            # The leader may have deleted it: the next fetch tells which there is.
            role.snapshot = None
            node.peers.pause(node_id, node.now_ms)
            return
        self._put_off(role)
        try:
            self._take_part(role, answer)
        except ProtocolError as error:
            self.complaint = str(error)
            role.snapshot = None
            node.peers.pause(node_id, node.now_ms)

    def would_complete(self, answer: SnapshotAnswer) -> bool:
        """Whether the machine takes this part of the snapshot as its last one."""
        role = self._node.role
        if not isinstance(role, Follower) or (role.snapshot, role.position) != (
            answer.snapshot,
            answer.position,
        ):
            return False
        is_last = role.position + len(answer.content) >= answer.size
        if answer.error is not ErrorCode.NONE or answer.known.epoch != role.epoch or not is_last:
            return False
        try:
            self._voters_in(role.head if whole_size(role.head) else role.head + answer.content)
        except ProtocolError:
            return False
        return True

    def _take_part(self, role: Follower, answer: SnapshotAnswer) -> None:
        node, snapshot = self._node, answer.snapshot
        if not whole_size(role.head):
            role.head += bytes(answer.content)
        node.do(WriteSnapshot(snapshot, answer.position, answer.content))
        role.position += len(answer.content)
        if role.position < answer.size:
            return
        version, voters = self._voters_in(role.head)
        role.snapshot, role.head = None, b""
        node.do(FinishSnapshot(snapshot))
        self._appending.start_at(snapshot, version, voters)
        node.raise_high_watermark(snapshot.end_offset)
        node.do(LoadSnapshot(snapshot))

    def _voters_in(self, head: Buffer) -> tuple[int, VoterSet]:
        """What a snapshot says of the voters; one of kraft.version 0 says nothing."""
        version, voters = self._node.history.kraft_version, self._node.voters
        if not whole_size(head):
            raise ProtocolError("the snapshot does not begin with a batch")
        for _, record in control_records(batch_at(head, 0)):
            if isinstance(record, KRaftVersionRecord):
                version = record.kraft_version
            elif isinstance(record, VotersRecord):
                voters = voters_in(record)
        return version, voters
