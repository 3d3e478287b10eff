"""`ottla serve --console`: runs the console in a separate process, which ends with the broker's.

In the broker's process its searches would block the broker. It is an ordinary client, so it shows
and does only what a user of the broker may; if the broker has users, people sign in.
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
    """Called before the broker starts; raises `UserError` for an invalid address, or without the
    extra.
    """
    parse_address(listen)
    with needed_for("ottla serve --console"):
        for name in NEEDED:
            if find_spec(name) is None:
                raise ModuleNotFoundError(name, name=name)


class ConsoleProcess:
    """Runs from its creation until `close`, or until this process ends for any reason."""

    def __init__(
        self,
        listen: str,
        listeners: Sequence["Listener"],
        addresses: Sequence[tuple[str, int]],
        *,
        is_read_only: bool,
    ) -> None:
        """`addresses` are those of the listeners, in their order; raises `UserError`."""
        protocol, (host, port) = _chosen(listeners, addresses)
        broker = address_text(LOOPBACK.get(host, host), port)
        command = [sys.executable, "-m", "ottla", "console", "-b", broker, "--listen", listen]
        command += ["--until-eof", *(["--read-only"] if is_read_only else [])]
        if protocol != WITHOUT_TLS[0]:
            command += ["-X", f"security.protocol={protocol}"]
        # The link goes to the log: readers of the output expect only the "ready" line.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=sys.stderr.fileno())

    def close(self) -> None:
        """Closes the console's input, upon which it ends."""
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
    """Returns the listener that the console uses: without TLS, for which it would need a CA
    certificate.
    """
    known = {
        listener.protocol: address
        for listener, address in reversed(list(zip(listeners, addresses, strict=True)))
    }
    for protocol in WITHOUT_TLS:
        if protocol in known:
            return protocol, known[protocol]
    address = address_text(*addresses[0])
    raise UserError(
        "--console needs a listener without TLS, and there is none; run ottla console "
        f"{address} -X security.protocol={listeners[0].protocol} -X ssl.ca.location=FILE"
    )
