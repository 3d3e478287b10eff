"""`ottla serve --console`: the console in a process of its own, which ends with the broker's.

In the broker's process its searches would hold up the broker. It asks like any client, so that it
shows and does what a user of the broker may; where the broker has users people sign in.
"""

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ottla.base.addresses import address_text, parse_address
from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.runtime.owner_notes import LOOPBACK

if TYPE_CHECKING:
    from ottla.config.listeners import Listener

NEEDED = ("jinja2", "starlette", "uvicorn")
WITHOUT_TLS = ("PLAINTEXT", "SASL_PLAINTEXT")
GOODBYE_S = 10


def check_console(listen: str) -> None:
    """Before the broker starts; raises `UserError` for no address, or without the extra."""
    parse_address(listen)
    with needed_for("ottla serve --console"):
        for name in NEEDED:
            if find_spec(name) is None:
                raise ModuleNotFoundError(name, name=name)


class ConsoleProcess:
    """Runs from when it is made until `close`, or until this process ends, however it does."""

    def __init__(
        self,
        listen: str,
        listeners: Sequence["Listener"],
        addresses: Sequence[tuple[str, int]],
        *,
        allows_writes: bool,
    ) -> None:
        """`addresses` are those of the listeners, in their order; raises `UserError`."""
        protocol, (host, port) = _chosen(listeners, addresses)
        broker = address_text(LOOPBACK.get(host, host), port)
        command = [sys.executable, "-m", "ottla", "console", "-b", broker, "--listen", listen]
        command += ["--until-eof", *(["--allow-writes"] if allows_writes else [])]
        if protocol != WITHOUT_TLS[0]:
            command += ["-X", f"security.protocol={protocol}"]
        # Its link goes where logs go: a reader of the output expects "ready" and no more.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr.fileno())

    def close(self) -> None:
        """The console ends with its input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(GOODBYE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def _chosen(
    listeners: Sequence["Listener"], addresses: Sequence[tuple[str, int]]
) -> tuple[str, tuple[str, int]]:
    """The listener that the console asks: with TLS it would need to know whom to believe."""
    known = {
        listener.protocol: address
        for listener, address in reversed(list(zip(listeners, addresses, strict=True)))
    }
    for protocol in WITHOUT_TLS:
        if protocol in known:
            return protocol, known[protocol]
    address = address_text(*addresses[0])
    raise UserError(
        "--console asks a listener without TLS, and there is none; run ottla console "
        f"{address} -X security.protocol={listeners[0].protocol} -X ssl.ca.location=FILE"
    )
