"""Has the active controller of a KRaft cluster answer what clients ask a broker (KIP-590).

The request is passed on as it came, and its response is decoded, since quotas of this broker may
add to it. Without a controller the handlers of this broker refuse each element, as any node does
that is not the controller, or as one whose request has timed out. Kafka's counterparts:
`ForwardingManager`, `ConfigAdminManager.preprocess`.
"""

import logging
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any, Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.base.files import Buffer
from ottla.base.resource_kinds import ResourceKind
from ottla.base.timestamps import Timestamps
from ottla.base.turns import CURRENT, Pace, turn_list
from ottla.broker.configs.config_changes import ResourceAlteration
from ottla.broker.configs.resources import check_broker_name
from ottla.broker.configs.settings import ConfigSource
from ottla.broker.membership.membership import QuorumMembership
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, Struct, reader
from ottla.config.listeners import PLAINTEXT
from ottla.metadata.image import ALL_BROKERS
from ottla.protocol.api_keys import ApiKey
from ottla.protocol.headers import (
    FRAME_SIZE,
    RequestHeader,
    encode_request,
    read_request_header,
    read_response_header,
)
from ottla.protocol.messages import module_name, request_class, response_class
from ottla.server.dispatching.request_context import (
    Handler,
    LongPendingAnswer,
    PendingResponse,
    RequestContext,
    amended,
)
from ottla.server.handling.altering import responses

logger = logging.getLogger(__name__)

TOKENS: Final = (
    ApiKey.CREATE_DELEGATION_TOKEN,
    ApiKey.RENEW_DELEGATION_TOKEN,
    ApiKey.EXPIRE_DELEGATION_TOKEN,
)
SETTINGS: Final = (ApiKey.ALTER_CONFIGS, ApiKey.INCREMENTAL_ALTER_CONFIGS)

SHORT_SIZE: Final = 1024
"""Maximum size of requests about settings that are decoded at once."""

Answer = Message | PendingResponse | None


def forwarded(api_key: ApiKey, api_version: int, handle: Handler) -> Handler:
    """The handler of a frame that is to be passed on; `handle` is that of this broker."""
    if api_key in SETTINGS:
        return ForwardedSettings(api_key, api_version, handle).handle
    if api_key in TOKENS:
        return ForwardedTokens(api_key, api_version, handle).handle
    return ForwardedApi(api_key, api_version, handle).handle


def whole_frame(frame: Buffer, position: int, pace: Pace | None = None) -> tuple[Buffer, int]:
    """What is read of a request that is passed on: all of it, with its header. It stays in the
    buffer of its connection, which takes nothing more before the response.
    """
    return frame, len(frame)


class ForwardedApi:
    """One API in one version."""

    def __init__(self, api_key: ApiKey, api_version: int, handle: Handler) -> None:
        self._api_key = api_key
        self._api_version = api_version
        self._handle_here = handle
        self._unread_count = 0

    def handle(self, frame: Buffer, context: RequestContext) -> Answer:
        return self._sent(frame, context)

    def _sent(self, frame: Buffer, context: RequestContext) -> PendingResponse:
        membership, client = context.broker.membership, context.client
        assert isinstance(membership, QuorumMembership)
        waiting = membership.forward(
            frame, client.principal, client.host, is_by_token=client.is_by_token
        )

        def answered(at: Timestamps) -> Any:
            answer = waiting.result
            assert answer is not None, "the broker returns only what is over"
            if isinstance(answer, ApiError):
                return self._refused(frame, context.later(at), answer)
            try:
                return self._read_response(answer, read_request_header(frame)[0])
            except ProtocolError as error:
                return self._refused(frame, context.later(at), self._unread_answer(error))

        return LongPendingAnswer(waiting, answered)

    def _refused(self, frame: Buffer, context: RequestContext, error: ApiError) -> Any:
        if error.code is ErrorCode.UNSUPPORTED_VERSION:
            name, version = self._api_key.name, self._api_version
            raise ProtocolError(f"the controller does not answer {name} in version {version}")
        refused = self._handle_here(self._read_request(frame), context)
        if error.code is ErrorCode.REQUEST_TIMED_OUT:
            return amended(refused, partial(_time_out, error))
        return refused

    def _read_request(self, frame: Buffer) -> Any:
        _, position = read_request_header(frame)
        read: Callable[..., tuple[Any, int]]
        read = reader(request_class(self._api_key), self._api_version)
        return read(frame, position, CURRENT.get())[0]

    def _unread_answer(self, error: ProtocolError) -> ApiError:
        """The client may ask again: what it wants may be done, as after one that timed out."""
        self._unread_count += 1
        name = self._api_key.name
        if self._unread_count.bit_count() == 1:  # clients ask again: the 1st, 2nd, 4th, 8th, ...
            logger.warning(
                "the controller's answer to %s cannot be read (%d in total): %s",
                name, self._unread_count, error,
            )  # fmt: skip
        return ApiError(
            ErrorCode.REQUEST_TIMED_OUT, f"The controller's answer to {name} cannot be read."
        )

    def _read_response(self, frame: Buffer, asked: RequestHeader) -> Any:
        """Raises `ProtocolError`, also for a response to another request."""
        correlation_id, position = read_response_header(frame, self._api_key, self._api_version)
        if correlation_id != asked.correlation_id:
            raise ProtocolError("a response to another request")
        read: Callable[..., tuple[Any, int]]
        read = reader(response_class(self._api_key), self._api_version)
        return read(frame, position, CURRENT.get())[0]


class ForwardedTokens(ForwardedApi):
    """Over a listener without TLS or logins tokens are refused, which the controller cannot see."""

    def handle(self, frame: Buffer, context: RequestContext) -> Answer:
        if context.client.protocol == PLAINTEXT:
            return self._handle_here(self._read_request(frame), context)
        return self._sent(frame, context)


class ForwardedSettings(ForwardedApi):
    """Loggers are those of this broker, which also checks what is to be set for itself: only it
    knows its other settings.
    """

    def handle(self, frame: Buffer, context: RequestContext) -> Answer:
        if len(frame) > SHORT_SIZE:
            context.may_take_long()
        request = self._read_request(frame)
        left, loggers, refused = turn_list([]), turn_list([]), turn_list([])
        for resource in request.resources:
            if resource.resource_type == ResourceKind.BROKER_LOGGER:
                loggers.append(resource)
                continue
            try:
                self._check(resource, context)
                left.append(resource)
            except ApiError as error:
                refused += responses([resource], [error])
        if len(left) == len(request.resources):
            return self._sent(frame, context)
        here = self._of_loggers(request, loggers, context) + refused
        if not left:
            return response_class(self._api_key)(responses=here)
        request.resources = left
        return amended(self._sent(self._frame(frame, request), context), _with_others(here))

    def _check(self, resource: Any, context: RequestContext) -> None:
        """Raises `ApiError` if this broker could not follow a change of its settings."""
        if resource.resource_type != ResourceKind.BROKER:
            return
        scope, broker = ConfigSource.ALL_BROKERS, context.broker
        if resource.resource_name != ALL_BROKERS:
            check_broker_name(resource.resource_name, broker.node_id)
            scope = ConfigSource.BROKER
        module: Any = import_module(f"ottla.server.handlers.{module_name(self._api_key)}")
        wanted: ResourceAlteration = module.alteration_of(resource, context.who)
        broker.admin.alter_broker(scope, wanted.alteration(), validate_only=True)

    def _of_loggers(self, request: Any, loggers: list[Any], context: RequestContext) -> list[Any]:
        if not loggers:
            return []
        own = request_class(self._api_key)(resources=loggers, validate_only=request.validate_only)
        response: Any = self._handle_here(own, context)
        altered: list[Any] = response.responses
        return altered

    def _frame(self, frame: Buffer, request: Message) -> Buffer:
        header, _ = read_request_header(frame)
        output = Output()
        output.turn = CURRENT.get()
        encode_request(header, request, output)
        return memoryview(output.data)[FRAME_SIZE.size :]


def _time_out(error: ApiError, response: Struct) -> None:
    """Says that a request has timed out wherever it says that this is not the controller."""
    for field in response.FIELDS:
        value = getattr(response, field.name)
        if field.name == "error_code" and value == ErrorCode.NOT_CONTROLLER:
            response.error_code = error.code  # type: ignore[attr-defined]
            if hasattr(response, "error_message"):
                response.error_message = error.message
        for one in value if field.kind == "array" and value else ():
            if isinstance(one, Struct):
                _time_out(error, one)


def _with_others(others: list[Any]) -> Callable[[Any], None]:
    def amend(response: Any) -> None:
        response.responses = [*others, *response.responses]

    return amend
