"""Answers what a broker passes on in an Envelope, as if its client had asked the controller.

The request inside is dispatched to the same handlers and guards, with the client's principal and
host. Kafka's counterparts: `EnvelopeUtils`, `ControllerApis.handleEnvelopeRequest`.
"""

from ipaddress import ip_address
from typing import Any, Final, Protocol

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError, ProtocolError
from ottla.base.files import Buffer
from ottla.base.memory_files import uncopied
from ottla.base.timestamps import Timestamps
from ottla.base.turns import in_turns
from ottla.codec.primitives import Output
from ottla.codec.schema import Message, Struct
from ottla.protocol.api_keys import FORWARDED
from ottla.protocol.headers import FRAME_SIZE, read_request_header
from ottla.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from ottla.protocol.principal_data import decode_principal
from ottla.server.dispatching.request_context import (
    Client,
    Handler,
    LongPendingAnswer,
    PendingResponse,
    RequestContext,
    amended,
)

UNTOLD: Final = ""
"""The protocol of a client that another broker has accepted, which has looked at it."""


class Inner(Protocol):
    """The part of the dispatcher that answers the requests inside."""

    def dispatch(self, frame: Buffer, client: Client, output: Output) -> PendingResponse | None: ...

    def finish(self, later: PendingResponse, output: Output) -> PendingResponse | None: ...


class Origin:
    """The connection that a request inside seems to come by. `is_refused`: this node turned out not
    to be the controller, and the broker is to ask another one.
    """

    __slots__ = ("is_refused",)

    def __init__(self) -> None:
        self.is_refused = False


def enveloped(dispatcher: Inner) -> Handler:
    """The handler of Envelope."""

    def handle(request: EnvelopeRequest, context: RequestContext) -> Message | PendingResponse:
        try:
            client = _client_of(request, context)
        except ProtocolError:
            return EnvelopeResponse(error_code=ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
        except ValueError:  # an address of neither 4 nor 16 bytes
            return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
        frame, output = request.request_data, Output()
        assert isinstance(frame, memoryview), "as it is read"
        try:
            header, _ = read_request_header(frame)
            if header.api_key not in FORWARDED:
                return EnvelopeResponse(error_code=ErrorCode.INVALID_REQUEST)
            return sealed(dispatcher.dispatch(frame, client, output), client, output)
        except (ProtocolError, ApiError) as error:
            return _refusal(error)

    def sealed(
        later: PendingResponse | None, client: Client, output: Output
    ) -> Message | PendingResponse:
        """The response, or what waits for what the request inside waits for."""
        if later is None:
            return _response(client, output)

        def go_on(_: Timestamps) -> Message | PendingResponse:
            try:
                return sealed(dispatcher.finish(later, output), client, output)
            except (ProtocolError, ApiError) as error:
                return _refusal(error)

        return LongPendingAnswer(later.pending_id, go_on, takes_long=False)

    return handle


def _client_of(request: EnvelopeRequest, context: RequestContext) -> Client:
    """Raises `ProtocolError` for a principal, and `ValueError` for an address that is none."""
    principal, is_by_token = decode_principal(request.request_principal or b"")
    return context.client._replace(
        host=str(ip_address(bytes(request.client_host_address))),
        principal=principal,
        is_by_token=is_by_token,
        protocol=UNTOLD,
        connection=Origin(),
    )


def _refusal(error: ProtocolError | ApiError) -> EnvelopeResponse:
    code = error.code if isinstance(error, ApiError) else ErrorCode.INVALID_REQUEST
    return EnvelopeResponse(error_code=code)


def _response(client: Client, output: Output) -> EnvelopeResponse:
    assert isinstance(client.connection, Origin)
    if client.connection.is_refused:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    assert not output.slices, "what is forwarded has no records"
    return EnvelopeResponse(response_data=uncopied(memoryview(output.data)[FRAME_SIZE.size :]))


def noting_refusals(handle: Handler) -> Handler:
    """Wraps a controller's handler, so that an Envelope can say that this is not the controller."""

    def handle_and_note(
        request: Any, context: RequestContext, *told: Any
    ) -> Message | PendingResponse | None:
        answer = handle(request, context, *told)
        origin = context.client.connection
        if not isinstance(origin, Origin):
            return answer

        def note(response: Any) -> None:
            origin.is_refused = _is_refused(response)

        return amended(answer, note)

    return handle_and_note


def _is_refused(part: Struct) -> bool:
    """Whether a response names another controller, as a whole or for an element."""
    for field in part.FIELDS:
        value = getattr(part, field.name)
        if field.name.endswith("error_code") and value == ErrorCode.NOT_CONTROLLER:
            return True
        elements = value if field.struct is not None and isinstance(value, list) else ()
        if any(_is_refused(one) for one in in_turns(elements)):
            return True
    return False
