"""Files of settings, and settings on the command line: `server.properties`, a client's, KEY=VALUE.

Kafka's counterpart: `Utils.loadProps`.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.texts import setting_value
from ottla.storage.files.java_properties import parse_properties

if TYPE_CHECKING:
    from ottla.client.connecting.security import Security
    from ottla.config.broker import BrokerConfig
    from ottla.schema_registry.registry import RegistryLogin

REGISTRY_URL = "schema.registry.url"
"""The setting of a client or a context that names its registry."""

FilePath = str | os.PathLike[str]
"""Options give texts: the import of pathlib is a thirtieth of a short command's processor time."""

broker_config_option = click.option(
    "--config",
    "-c",
    "config_file",
    type=click.Path(),
    metavar="FILE",
    help="The broker's server.properties, which is not in its data directories.",
)


def client_config_option(side: str) -> Callable[[Any], Any]:
    """`--source-config` or `--target-config`."""
    return click.option(
        f"--{side}-config",
        type=click.Path(dir_okay=False),
        metavar="FILE",
        help=f"Security of the {side}'s cluster: lines such as security.protocol=SASL_SSL.",
    )


registry_config_option = click.option(
    "--registry-config",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Login at a schema registry: lines such as basic.auth.user.info=USER:PASSWORD, "
    "bearer.auth.token=TOKEN, schema.registry.ssl.ca.location=CA.pem.",
)


def registry_options(words: str) -> tuple[Callable[[Any], Any], ...]:
    """Adds the options for a schema registry and the login there."""
    registry = click.option(
        "--registry",
        metavar="URL-OR-DIRECTORY",
        help=f"Schema registry with the schemas {words}.",
    )
    return registry, registry_config_option


def read_registry_login(path: FilePath | None) -> "RegistryLogin | None":
    """Reads a registry's login from a file; raises `UserError`."""
    if path is None:
        return None
    from ottla.schema_registry.registry import parse_login

    return parse_login(read_client_settings(path))


def registry_login(
    path: FilePath | None, settings: Mapping[str, str], address: str
) -> "RegistryLogin | None":
    """The login in a file, or else in a target's settings, which is for the registry that they name
    and no other. Raises `UserError`.
    """
    if path is not None or settings.get(REGISTRY_URL) != address:
        return read_registry_login(path)
    from ottla.schema_registry.registry import parse_login

    return parse_login(settings)


def read_server_properties(path: FilePath) -> dict[str, str]:
    """Reads a broker's settings by Kafka's names; raises `UserError` naming the file."""
    # Java reads properties as Latin-1; other characters are written as \uXXXX.
    return _read_properties(path, "a server.properties file", encoding="latin-1")


def read_client_settings(path: FilePath | None) -> dict[str, str]:
    """Reads a client's settings by librdkafka's names; raises `UserError` naming the file."""
    if path is None:
        return {}
    return with_secrets(_read_properties(path, "a file of client settings", encoding="utf-8"))


_REFERENCE = lazy_pattern(r"\$\{(env|file):([^}]+)\}")


def with_secrets(values: Mapping[str, str]) -> dict[str, str]:
    """Replaces `${env:NAME}` and `${file:PATH}` in settings; raises `UserError`.

    With them, neither a command line nor a settings file needs to hold a password.
    """
    return {name: _REFERENCE.sub(_referred, text) for name, text in values.items()}


def _referred(found: re.Match[str]) -> str:
    kind, name = found.groups()
    if kind == "env":
        if name not in os.environ:
            raise UserError(f"${{env:{name}}}: the environment variable is not set")
        return os.environ[name]
    try:
        with open(name, encoding="utf-8") as file:
            return file.read().rstrip("\r\n")
    except OSError as error:
        raise UserError(f"${{file:{name}}}: {error.strerror}") from error


def read_security(path: FilePath | None) -> "Security":
    """Returns how to connect to a cluster, according to a settings file; raises `UserError`."""
    from ottla.client.connecting.security import parse_security

    return parse_security(read_client_settings(path))


def _read_properties(path: FilePath, wanted: str, *, encoding: str) -> dict[str, str]:
    try:
        with open(path, encoding=encoding) as file:
            fields = parse_properties(file.read())
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; name {wanted}") from error
    except ValueError as error:
        raise UserError(f"{path}: {error}") from error
    return {name: value.strip() for name, value in fields.items()}


def given_settings(path: FilePath | None, options: Iterable[str]) -> dict[str, str]:
    """Returns the settings of a file, if one is named, overridden by those of `-o KEY=VALUE`, in
    which times and sizes may have units.
    """
    values = read_server_properties(path) if path else {}
    given = dict(parse_setting(text, "log.segment.bytes=1048576") for text in options)
    found = with_secrets(given).items()
    values.update({name: setting_value(name, value) for name, value in found})
    return values


def parse_setting(text: str, example: str, *, option: str = "-o") -> tuple[str, str]:
    """Splits KEY=VALUE; raises `UserError`, and warns of a secret, which others can read."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"{option} {text}: a setting is KEY=VALUE, such as {example}")
    name, value = name.strip(), value.strip()
    if is_secret(name) and value and not _REFERENCE.search(value):
        click.echo(
            f"warning: {option} {name}=...: everybody on this machine can read a command's "
            f"arguments; '{name}=${{env:VARIABLE}}', '{name}=${{file:PATH}}' or a file of settings "
            "keep it secret",
            err=True,
        )
    return name, value


_SECRET = (
    "password",
    "secret",
    "secret.key",
    "master.key",
    "jaas.config",
    "keystore.key",
    "key.pem",
)


def is_secret(name: str) -> bool:
    """Whether the value of a setting must never be shown."""
    return name.lower().endswith(_SECRET)


def log_directories(config: "BrokerConfig", default: str | None = None) -> tuple[str, ...]:
    """Returns the log directories of the settings, or `default`; raises `UserError` if there are
    none.
    """
    paths = config.log_dirs or ((config.log_dir,) if config.log_dir else ())
    if not paths and default is not None:
        return (default,)
    if not paths:
        raise UserError("name a data directory: --data-dir DIR, or log.dirs in the --config file")
    return paths
