"""Kafka's `server.properties`, read as it is: a broker's settings by Kafka's names.

Kafka's counterpart: `Utils.loadProps`.
"""

from pathlib import Path

from ottla.base.errors import UserError
from ottla.storage.java_properties import parse_properties


def read_server_properties(path: Path) -> dict[str, str]:
    """The settings in a file; raises `UserError` naming it when it cannot be read."""
    try:
        # Java reads properties as Latin-1; whatever that lacks is written as \uXXXX.
        text = path.read_text(encoding="latin-1")
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name a server.properties file") from error
    try:
        return {name: value.strip() for name, value in parse_properties(text).items()}
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
