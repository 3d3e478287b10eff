"""A connection to a broker: requests and responses, in the newest version that both support.

`Connection` is the interface for client code. It is implemented by a socket
(`socket_connection.py`), or by an open log of the same process (`embedded/connection.py`), whose
handlers get the request object itself.
"""

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

from ottla.codec.schema import Message
from ottla.protocol.api_keys import ApiKey

CLIENT_ID = "ottla"

ADDRESS_HINT = "; name a broker's HOST:PORT"


class Connection(Protocol):
    """A connection to one broker. Use it in a `with` statement, and from one thread at a time."""

    @property
    def address(self) -> str:
        """The broker's address, as in error messages."""

    def answers(self, api_key: ApiKey) -> bool:
        """Whether the broker supports an API, in any version."""

    @property
    def has_all_transactions(self) -> bool:
        """Whether the broker lists all transactions that it coordinates: not from damaged files."""

    def version_of(self, api_key: int, *, newest: int | None = None) -> int:
        """The newest version of an API that both support, at most `newest`; raises `UserError`."""

    def ask(self, request: Message, *, newest: int | None = None) -> Any:
        """Sends a request in version `newest` at most, and returns the response; raises
        `UserError`.

        Returns `None` for a request without response: a produce request with acks=0.
        """

    def send(self, request: Message, *, newest: int | None = None) -> Callable[[], Any]:
        """Sends a request, and returns a function that waits for the response."""

    def send_all(
        self, requests: Sequence[Message], *, newest: int | None = None
    ) -> list[Callable[[], Any]]:
        """As `send` for each request, in one write."""

    def close(self) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
