"""A node of a quorum whose peers are hostile: what they ask and answer has the right shape, and the
worst in it.

The code of the quorum's thread runs here without the thread, on a log in memory, with a clock and
peers that do what chance says. Nothing of it may let an error out that is none of its own.
"""

import random
from collections.abc import Iterator
from typing import Any

from ottla.base.errors import UnreachableError
from ottla.base.ids import ZERO_UUID
from ottla.base.partitions import CLUSTER_METADATA, CLUSTER_METADATA_ID
from ottla.base.turns import in_one_part
from ottla.cluster.quorum.quorum_channels import _detached
from ottla.cluster.quorum.quorum_messages import answer_of, api_key_of, message_of
from ottla.cluster.quorum.quorum_thread import QuorumParts, QuorumThread, _Input, nothing
from ottla.codec.api_messages import encode_record
from ottla.codec.fields import Field
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, reader, writer
from ottla.metadata.control import (
    KRaftVersionRecord,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    control_key,
    encode_control_record,
)
from ottla.metadata.control import Voter as VoterStruct
from ottla.metadata.records import ConfigRecord, TopicRecord
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.messages import request_class, response_class
from ottla.quorum.effects import Send, SyncLog
from ottla.quorum.messages import FetchSnapshot, Request, Response
from ottla.quorum.options import QuorumOptions
from ottla.quorum.voters import ReplicaKey, Voter, VoterSet
from ottla.record.builder import RecordBatchBuilder
from ottla.testing import FakeFileSystem
from ottla.testing.clock import FakeClock
from tests.support.brokers import NOW_MS, disk, id_of
from tests.support.hostile_requests import Filler, Told
from tests.support.quorum_logs import QuorumDirectory
from tests.support.quorum_nodes import CLUSTER_ID, HANDLERS, TopicMaker, endpoint_of

ME = 1
STEPS_PER_INPUT = 12
STEPS_PER_NODE = 400
TIME_STEPS_MS = (0, 1, 30, 30, 150, 150, 700, 5_000, 10**6)
VOTERS = (1, 2, 3)
FIRST_VERSIONS = {ApiKey.FETCH: 12, ApiKey.VOTE: 2}
"""The first that can say what a node of today asks."""

OTHER_ENDS = ("diverging_epoch", "snapshot_id")
EXTREMES = (2**31 - 1, 2**31 - 2, -(2**31), -1)


class HostileQuorum:
    """Node 1 of three voters, or the only one; it is replaced before its log has become large."""

    def __init__(self) -> None:
        self._steps_left = 0

    def __call__(self, chance: random.Random) -> None:
        """Some inputs; raises what none may raise."""
        if self._steps_left <= 0:
            self._steps_left = STEPS_PER_NODE
            self._begin(chance)
        for _ in range(STEPS_PER_INPUT):
            self._steps_left -= 1
            self._step(chance)

    def take(self, request: Request) -> list[Response]:
        """What the node answers at once."""
        answers: list[Response] = []
        self.thread.receive(request, answers.append)
        self._run()
        return answers

    def _begin(self, chance: random.Random) -> None:
        is_dynamic, count = chance.random() < 0.5, chance.choice((1, 3, 3))
        ids = VOTERS[:count]
        keys = [ReplicaKey(one, id_of(100 + one) if is_dynamic else ZERO_UUID) for one in ids]
        voters = [Voter(one, (endpoint_of(one.id),)) for one in keys]
        self.clock = FakeClock(NOW_MS)
        self.disk: FakeFileSystem = disk("/d")
        self.complaints: list[str] = []
        self._begin_on_disk(chance, voters, is_dynamic=is_dynamic)

    def _begin_on_disk(
        self, chance: random.Random, voters: list[Voter], *, is_dynamic: bool
    ) -> None:
        own = voters[0]
        is_first = is_dynamic and len(voters) == 1
        directory = QuorumDirectory(
            self.disk,
            voters=VoterSet.of(() if is_first else voters),
            own=own if is_first else None,
        )
        opened = directory.opened
        options = QuorumOptions(
            key=own.key,
            cluster_id=CLUSTER_ID,
            endpoints=own.endpoints,
            first_voter=opened.first_voter or is_first,
            bootstrap=tuple(endpoint_of(one) for one in VOTERS),
            auto_join=chance.random() < 0.3,
        )
        parts: QuorumParts[TopicMaker] = QuorumParts(
            options=options,
            log=opened.log,
            elections=opened.elections,
            election=opened.election,
            history=opened.history,
            connect=_nobody,
            clock=self.clock,
            random_below=lambda count: count // 2,
            new_controller=TopicMaker,
            complain=self.complaints.append,
            failed=_raise,
        )
        self.log = opened.log
        self.thread: QuorumThread[TopicMaker] = QuorumThread(parts)
        self.sent: list[Send] = []
        self._syncs: list[SyncLog] = []
        self.thread._channels = _Channels(self.sent)  # type: ignore[assignment]
        self.thread._syncs.begin_stop()
        self.thread._syncs = _Syncs(self._syncs)  # type: ignore[assignment]
        self.thread._act(lambda at: self.thread._quorum.start(opened.election, at))
        self._run()

    def _run(self) -> None:
        """One round of the thread, which does not wait."""
        self.thread._post(_Input(nothing, nothing))
        self.thread._round()

    # Inputs

    def _step(self, chance: random.Random) -> None:
        kind = chance.random()
        if kind < 0.3:
            self._ask(chance)
        elif kind < 0.75 and self.sent:
            self._answer(chance)
        elif kind < 0.85:
            self._sync()
        elif kind < 0.9:
            name = f"t{chance.randrange(50)}"
            self.thread.ask(
                lambda controller: in_one_part(lambda: controller.create(name)), lambda _: None
            )
        else:
            self.clock.advance(chance.choice(TIME_STEPS_MS))
        self._run()

    def _sync(self) -> None:
        if self._syncs:
            effect = self._syncs.pop()
            self._syncs.clear()
            self.log.sync()
            self.thread._synced(effect, None)

    def _ask(self, chance: random.Random) -> None:
        api_key = chance.choice(list(HANDLERS))
        handler, kind = HANDLERS[api_key], request_class(api_key)
        version = chance.randrange(FIRST_VERSIONS.get(api_key, 0), kind.VERSIONS.last + 1)
        message = self._filled(kind, version, chance)
        request = handler.request_of(message)
        if request is None:
            return
        for response in self.take(request):
            more = (message.topics, version) if api_key is ApiKey.FETCH else ()
            _written(handler.response_of(*more, response), version)

    def _answer(self, chance: random.Random) -> None:
        sent = self.sent.pop(chance.randrange(len(self.sent)))
        if chance.random() < 0.05:
            self.thread._answered(sent.number, None)
            return
        api_key = api_key_of(sent.request)
        kind = response_class(api_key)
        version = chance.randrange(FIRST_VERSIONS.get(api_key, 0), kind.VERSIONS.last + 1)
        _written(message_of(sent.request, version), version)
        message = self._filled(kind, version, chance)
        if chance.random() < 0.7:
            self._make_true(message, sent.request)
        answer = answer_of(sent.request, message)
        self.thread._answered(sent.number, _detached(answer))

    def _make_true(self, message: Any, request: Request) -> None:
        """What does not agree with the node's leader and request is left soon."""
        topics = getattr(message, "topics", None) or getattr(message, "responses", ())
        message.error_code = 0
        for one in (each for topic in topics for each in topic.partitions):
            one.error_code = 0
            current = getattr(one, "current_leader", one)
            if current is not None and hasattr(current, "leader_epoch"):
                current.leader_epoch = self.thread._quorum.epoch
                current.leader_id = self.thread._quorum.role.leader_id or -1
            if isinstance(request, FetchSnapshot):
                one.snapshot_id.end_offset, one.snapshot_id.epoch = request.snapshot
                one.position = request.position

    def _filled(self, kind: type[Message], version: int, chance: random.Random) -> Any:
        message = QuorumFiller(self, version, chance).fill(kind)
        found, _ = reader(kind, version)(_written(message, version), 0)
        return found


def _written(message: Message, version: int) -> bytes:
    output = Output()
    writer(type(message), version)(message, output)
    return output.read_all()


def _nobody(*_: Any) -> Any:
    raise UnreachableError("nobody is asked by the real channels")


def _raise(error: Exception) -> None:
    raise error


class QuorumFiller(Filler):
    """Fills what nodes of a quorum say to each other."""

    def __init__(self, node: HostileQuorum, version: int, chance: random.Random) -> None:
        quorum, log = node.thread._quorum, node.log
        epoch, end = quorum.epoch, min(log.log_end_offset, 1 << 62)
        leader_id = quorum.role.leader_id or 2
        epochs = (epoch,) * 16 + (epoch + 1, epoch - 1, *EXTREMES)
        offsets = (end,) * 6 + (0, 0, end - 1, end + 1, end + 5, quorum.high_watermark)
        told = Told()
        told.ids = [CLUSTER_METADATA_ID, CLUSTER_METADATA_ID, *(id_of(100 + one) for one in VOTERS)]
        told.likely = {
            "error": (0,),
            "cluster_id": (CLUSTER_ID,),
            "topic_name": (CLUSTER_METADATA,),
            "topic": (CLUSTER_METADATA,),
            "name": (CLUSTER_METADATA, CLUSTER_METADATA, "CONTROLLER", "kraft.version"),
            "partition": (0,),
            "epoch": epochs,
            "position": (0, 0, 1, -1, 2**63 - 1),
            "offset": offsets,
            "watermark": offsets,
            "size": (0, 1, 200, 2**63 - 1, -1),
            "port": (9001, 9002, 9003, 0),
            "host": ("node",),
            "leader_id": (leader_id,) * 6 + (1, 2, 3, -1),
            "id": (1, 2, 3),
        }
        super().__init__(told, version, chance)
        self._epoch, self._end = epoch, end

    def _value(self, field: Field) -> Any:
        """A leader tells of an end that diverges, or of a snapshot, where there is one."""
        may_be_missing = field.kind == "nested" and field.tag is not None
        if may_be_missing and field.name in OTHER_ENDS and self._chance.random() < 0.8:
            return None
        return super()._value(field)

    def _records(self) -> bytes:
        chance = self._chance
        made = b"".join(self._batches(chance.choice((1, 1, 2, 3))))
        if chance.random() < 0.15:
            torn = bytearray(made)
            torn[chance.randrange(len(torn))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
            return bytes(torn[: chance.choice((len(torn), len(torn) - 1, 30))])
        return made

    def _batches(self, count: int) -> Iterator[bytes]:
        chance = self._chance
        offset = chance.choice((self._end, self._end, self._end, 0, self._end + 1))
        for _ in range(count):
            epoch = self._epoch if chance.random() < 0.9 else chance.choice((0, 1, *EXTREMES))
            is_control = chance.random() < 0.4
            builder = RecordBatchBuilder(offset, leader_epoch=epoch, is_control=is_control)
            key, value = self._control() if is_control else (None, self._value_of_record())
            builder.append(key, value, NOW_MS)
            offset += 1
            yield bytes(builder.build())

    def _control(self) -> tuple[bytes | None, bytes]:
        chance = self._chance
        voters = [self.fill(VoterStruct) for _ in range(chance.choice((0, 1, 2, 3)))]
        record = chance.choice(
            (
                KRaftVersionRecord(kraft_version=chance.choice((0, 1, 2, -1))),
                VotersRecord(voters=voters),
                SnapshotHeaderRecord(),
                SnapshotFooterRecord(),
            )
        )
        key, value = control_key(record), encode_control_record(record)
        if chance.random() < 0.2:
            return chance.choice((None, b"", b"\0\0\0\x63", key)), value[: len(value) // 2]
        return key, value

    def _value_of_record(self) -> bytes:
        chance = self._chance
        if chance.random() < 0.2:
            return chance.choice((b"", b"\xff", b"\1\2\0", b"\1\x63\0"))
        if chance.random() < 0.5:
            record: Message = TopicRecord(name="t", topic_id=id_of(chance.randrange(5)))
        else:
            record = ConfigRecord(resource_type=2, resource_name="t", name="a", value="b")
        return encode_record(record, 0)


class _Channels:
    refusal: str | None = None

    def __init__(self, sent: list[Send]) -> None:
        self._sent = sent

    def send(self, effect: Send) -> None:
        self._sent[:] = [one for one in self._sent if one.node_id != effect.node_id]
        self._sent.append(effect)

    def silent(self) -> dict[int, str]:
        return {}


class _Syncs:
    def __init__(self, syncs: list[SyncLog]) -> None:
        self._effects = syncs

    def begin(self, effect: SyncLog) -> None:
        self._effects.append(effect)
