"""Hostile requests to a controller of a KRaft cluster, as other nodes send them: to the machine of
its quorum, to what decides about the cluster, and those of clients in Envelopes.
"""

import random
from collections.abc import Sequence
from typing import Any

from ottla.base.principal import ANONYMOUS
from ottla.broker.broker import Broker
from ottla.broker.waiting.rooms import Waiting
from ottla.codec.primitives import Output
from ottla.codec.schema import Message
from ottla.protocol.api_keys import FORWARDED, ApiKey
from ottla.protocol.headers import RequestHeader, encode_request
from ottla.protocol.messages import request_class
from ottla.protocol.messages.envelope import EnvelopeRequest
from ottla.protocol.principal_data import encode_principal
from ottla.quorum.messages import Request, Response
from ottla.server.dispatching.apis import APIS_OF, Door
from ottla.server.dispatching.request_context import Client
from tests.support.active_controllers import CLUSTER_ID
from tests.support.asking import ADDRESS
from tests.support.hostile_quorum import HostileQuorum
from tests.support.hostile_requests import SETTINGS, Filler, HostileClient
from tests.support.lonely_node import ME, LonelyNode

NODE = Client(ADDRESS, "10.0.0.8", listener="CONTROLLER")
ASKED = APIS_OF[Door.CONTROLLER]


class NodeOfQuorum(LonelyNode):
    """What the quorum's machine is asked, it answers, as far as that need not wait."""

    def __init__(self) -> None:
        self._machine = HostileQuorum()
        self._machine(random.Random(7))
        super().__init__(**SETTINGS)

    def receive(self, request: Request) -> Waiting[Response]:
        waiting: Waiting[Response] = Waiting()
        for answer in self._machine.take(request):
            waiting.result = answer
            self._done.append(waiting)
        return waiting


class HostileController(HostileClient):
    """As `HostileClient`, on the listener of controllers."""

    peer = NODE

    def _state(self) -> Sequence[tuple[Message, int]]:
        return ()

    def _open(self) -> Broker:
        self._node = NodeOfQuorum()
        return self._node.broker

    def _likely(self) -> dict[str, tuple[str | int, ...]]:
        epoch = self._node.epoch
        return {
            "cluster_id": (CLUSTER_ID,),
            "broker_epoch": (epoch, epoch, -1),
            "broker_id": (ME, ME, 2),
            "controller_id": (ME, 2),
            "topic_name": ("__cluster_metadata", "t"),
            "feature": ("metadata.version", "kraft.version"),
            "level": (7, 19, 25, 0),
            "leader": (ME, 2, -1),
            "port": (9092, 0),
            "id": (ME, 2),
        }

    def _filled(self, api_key: int, version: int, chance: random.Random) -> Message:
        if api_key != ApiKey.ENVELOPE or chance.random() < 0.1:
            return super()._filled(api_key, version, chance)
        inner = chance.choice(sorted(FORWARDED))
        api = ASKED[inner]
        inner_version = chance.randrange(api.oldest, api.newest + 1)
        request: Any = Filler(self.told, inner_version, chance).fill(request_class(inner))
        output = Output()
        encode_request(RequestHeader(inner, inner_version, 7, "test"), request, output)
        return EnvelopeRequest(
            request_data=output.read_all()[4:],
            request_principal=encode_principal(ANONYMOUS, is_by_token=False),
            client_host_address=chance.choice((bytes(4), bytes(16), b"", b"x")),
        )


def controller_versions_of(api_key: int) -> range:
    return range(ASKED[api_key].oldest, ASKED[api_key].newest + 1)
