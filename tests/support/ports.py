"""Ports for servers that are known before they are there, or come back where they were."""

import secrets
import socket

LEAST = 10_000
NEXT = 32_768
"""From here on Linux hands out ports automatically: to whoever connects, or asks for port 0."""


def free_port() -> int:
    """A port of the loopback that nobody has now, and nobody gets who does not ask for it.

    One that the system chose may be somebody's connection by the time that it is needed. Chosen
    by chance that no seed of a test run decides, or all its processes would choose the same.
    """
    while True:
        port = LEAST + secrets.randbelow(NEXT - LEAST)
        try:
            with socket.create_server(("127.0.0.1", port)):
                return port
        except OSError:
            continue
