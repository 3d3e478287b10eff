"""Kafka's `server.properties`, read as it is: a broker's settings by Kafka's names.

Kafka's counterpart: `Utils.loadProps`.
"""

from collections.abc import Iterable
from pathlib import Path

from ottla.base.errors import UserError
from ottla.config.broker import BrokerConfig
from ottla.storage.files.java_properties import parse_properties


def read_server_properties(path: Path) -> dict[str, str]:
    """The settings in a file; raises `UserError` naming it when it cannot be read."""
    # Java reads properties as Latin-1; whatever that lacks is written as \uXXXX.
    return read_properties(path, "a server.properties file", encoding="latin-1")


def read_properties(path: Path, wanted: str, *, encoding: str) -> dict[str, str]:
    """The lines `name=value` of a file; raises `UserError` with what kind of file is wanted."""
    try:
        fields = parse_properties(path.read_text(encoding=encoding))
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name {wanted}") from error
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    return {name: value.strip() for name, value in fields.items()}


def given_settings(path: Path | None, options: Iterable[str]) -> dict[str, str]:
    """The settings in a file, if one is named, over which those of `-o KEY=VALUE` count."""
    values = read_server_properties(path) if path else {}
    values.update(parse_setting(text) for text in options)
    return values


def parse_setting(text: str) -> tuple[str, str]:
    """KEY=VALUE as a pair; raises `UserError`."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"-o {text}: a setting is KEY=VALUE, such as log.segment.bytes=1048576")
    return name.strip(), value.strip()


def log_directories(config: BrokerConfig) -> tuple[str, ...]:
    """The log directories that the settings name; raises `UserError` when they name none."""
    paths = config.log_dirs or ((config.log_dir,) if config.log_dir else ())
    if not paths:
        raise UserError("name a data directory: --data-dir DIR, or log.dirs in the --config file")
    return paths
