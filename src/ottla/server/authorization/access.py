"""The rights of one request's client, and the log of denials.

Kafka's counterparts: `AuthHelper`, and the audit log of `StandardAuthorizerData`.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any, Final

from ottla.base.timestamps import Timestamps
from ottla.base.turns import turn_list
from ottla.broker.security.authorizer import Authorizer
from ottla.codec.schema import Message
from ottla.metadata.acls import CLUSTER_NAME, Operation, ResourceType
from ottla.protocol.api_keys import ApiKey
from ottla.server.dispatching.request_context import (
    Client,
    PendingResponse,
    RequestContext,
    amended,
)

logger = logging.getLogger("ottla.authorizer")

LINES_PER_WINDOW: Final = 100
WINDOW_MS: Final = 10_000.0
MAX_LOGGED_NAME: Final = 256

Answer = Message | PendingResponse | None
Handle = Callable[..., Answer]


class AuditLog:
    """One line per denial, at most so many in a time; the number of omitted ones is logged
    afterwards.
    """

    def __init__(self) -> None:
        self._window_ms = 0.0
        self._lines = 0

    def denied(
        self,
        client: Client,
        operation: Operation,
        resource: tuple[ResourceType, str],
        api_key: int,
        at: Timestamps,
    ) -> None:
        if at.monotonic_ms - self._window_ms >= WINDOW_MS:
            if self._lines > LINES_PER_WINDOW:
                logger.info("%d more denials were not logged", self._lines - LINES_PER_WINDOW)
            self._window_ms, self._lines = at.monotonic_ms, 0
        self._lines += 1
        if self._lines <= LINES_PER_WINDOW:
            resource_type, name = resource
            logger.info(
                "principal %s from host %s is denied %s on %s %r, for request %s",
                _cut(str(client.principal)),
                client.host,
                operation.name,
                resource_type.name,
                _cut(name),
                ApiKey(api_key).name,
            )


def _cut(name: str) -> str:
    """Clients name resources, and the issuer of a token its user, at any length."""
    return name if len(name) <= MAX_LOGGED_NAME else f"{name[:MAX_LOGGED_NAME]}..."


class Access:
    """Decides for a guard about the client of one request."""

    __slots__ = ("_audit", "_authorizer", "_context")

    def __init__(self, authorizer: Authorizer, audit: AuditLog, context: RequestContext) -> None:
        self._authorizer = authorizer
        self._audit = audit
        self._context = context

    def allows(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        if self.sees(operation, resource_type, name):
            return True
        context = self._context
        resource = (resource_type, name)
        self._authorizer.note_denial(context.client.principal)
        self._audit.denied(context.client, operation, resource, context.header.api_key, context.at)
        return False

    def sees(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Like `allows`, for resources that the client has not named: nothing is logged."""
        client = self._context.client
        return self._authorizer.allows(
            client.principal, client.host, operation, resource_type, name
        )

    def name_of(self, topic_id: bytes) -> str | None:
        """The topic's name, to which ACLs apply; `None` for an unknown id.

        Every broker knows all topics of its cluster; topics with partitions here are known even
        before UpdateMetadata.
        """
        broker = self._context.broker
        return broker.topics.name_by_id(topic_id) or broker.catalog.name_by_id(topic_id)

    def cluster(self, operation: Operation) -> bool:
        return self.allows(operation, ResourceType.CLUSTER, CLUSTER_NAME)

    def topic(self, operation: Operation, name: str) -> bool:
        return self.allows(operation, ResourceType.TOPIC, name)

    def group(self, operation: Operation, name: str) -> bool:
        return self.allows(operation, ResourceType.GROUP, name)

    def transactional_id(self, operation: Operation, name: str) -> bool:
        return self.allows(operation, ResourceType.TRANSACTIONAL_ID, name)

    def some_topic(self, operation: Operation) -> bool:
        """Whether the operation is allowed on any topic."""
        client = self._context.client
        return self._authorizer.allows_any(
            client.principal,
            client.host,
            operation,
            ResourceType.TOPIC,
            self._context.may_take_long,
        )

    @property
    def revision(self) -> int:
        """Rises when the rules change."""
        return self._authorizer.revision

    def operations(self, supported: int, resource_type: ResourceType, name: str) -> int:
        """The allowed ones of the supported operations, as bits (KIP-430)."""
        return sum(
            1 << operation
            for operation in Operation
            if supported >> operation & 1 and self.sees(operation, resource_type, name)
        )

    def split(
        self, elements: Sequence[Any], may: Callable[[Any], bool]
    ) -> tuple[list[Any], list[Any]]:
        """Splits resources into those that the client may use, and the others."""
        allowed: list[Any] = turn_list()
        denied: list[Any] = turn_list()
        for one in elements:
            (allowed if may(one) else denied).append(one)
        return allowed, denied


def joined(allowed: Sequence[Any], rest: Callable[[], Answer], refusal: Any, field: str) -> Answer:
    """The handler's response for the `allowed` elements, with the refusals of the list `field`.

    If nothing is allowed, the handler is not called: even an empty request may have an effect, such
    as the creation of an internal topic.
    """
    if not allowed:
        answer: Answer = refusal
        return answer
    refused = getattr(refusal, field)
    return amended(rest(), lambda answer: getattr(answer, field).extend(refused))


Guard = Callable[[Any, RequestContext, Access, Handle], Answer]
"""`guard(request, context, access, handle)`: returns the handler's response for what is allowed."""
