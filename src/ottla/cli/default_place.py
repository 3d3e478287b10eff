"""The target of a command that names none: a broker of this machine, or `./ottla-data`.

`ottla serve` without arguments serves the same directory at the same address.
"""

import os

from ottla.base.addresses import Address, address_text

DIRECTORY = "ottla-data"
SHOWN_DIRECTORY = f"./{DIRECTORY}"
ADDRESS: Address = ("localhost", 9092)
CONNECT_S = 0.5
"""A machine answers its own connections at once."""


def default_place() -> tuple[str, str]:
    """The target, and why it is this one: the broker that runs on `./ottla-data`, any broker at
    `localhost:9092`, or the directory.
    """
    from ottla.base.files import OsFileSystem
    from ottla.storage.directory.owner_note import owner_of

    address = address_text(*ADDRESS)
    if os.path.isdir(DIRECTORY) and owner_of(OsFileSystem(), DIRECTORY) is not None:
        return SHOWN_DIRECTORY, "a broker runs on it"
    if _answers(ADDRESS):
        return address, "it answers"
    return SHOWN_DIRECTORY, f"nothing answers at {address}"


def _answers(address: Address) -> bool:
    import socket  # A command with a target does not need it.

    try:
        with socket.create_connection(address, timeout=CONNECT_S):
            return True
    except OSError:
        return False
