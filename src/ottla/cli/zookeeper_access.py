"""TLS and login for ZooKeeper, from a broker's settings or from a command's file.

A login is the section `Client` of a JAAS file, which is named by a setting, or by KAFKA_OPTS as for
Kafka's brokers. Kafka's counterparts: `ZkConfigs`, `JaasUtils.isZkSaslEnabled`, and
`--zk-tls-config-file` of `kafka-configs`.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.cli.settings_files import read_server_properties, with_secrets

if TYPE_CHECKING:
    from ottla.cluster.access import Access, DigestLogin, NewContext
    from ottla.config.broker import BrokerConfig
    from ottla.config.security import JaasEntry

OPTIONS = "KAFKA_OPTS"
"""The variable with options for Java, `-DNAME=VALUE` among them."""

FILE, ENABLED, SECTION = (
    "java.security.auth.login.config",
    "zookeeper.sasl.client",
    "zookeeper.sasl.clientconfig",
)
DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"

zookeeper_access_option = click.option(
    "--zk-tls-config-file",
    "zookeeper_settings",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TLS and login to ZooKeeper: lines such as zookeeper.ssl.client.enable=true, "
    "zookeeper.ssl.truststore.location=ca.pem, ottla.zookeeper.jaas.file=client.jaas.",
)


def zookeeper_access(
    config: "BrokerConfig", environment: Mapping[str, str] = os.environ
) -> "Access":
    """Raises `UserError` for contradictory settings."""
    from ottla.cluster.access import Access

    tls, login = zookeeper_tls(config), zookeeper_login(config, environment)
    if config.zookeeper_set_acl and login is None and not config.zookeeper_ssl_keystore_location:
        raise UserError(
            "zookeeper.set.acl=true needs a login to ZooKeeper; name a JAAS file with a "
            "section Client in ottla.zookeeper.jaas.file, or a certificate in "
            "zookeeper.ssl.keystore.location"
        )
    return Access(tls=tls, login=login, sets_acl=config.zookeeper_set_acl)


def zookeeper_login(
    config: "BrokerConfig", environment: Mapping[str, str] = os.environ
) -> "DigestLogin | None":
    """Returns `None` without a login; raises `UserError` for an invalid one."""
    of_java = _properties(environment.get(OPTIONS, ""))
    named = config.ottla_zookeeper_jaas_file
    path, place = named, "ottla.zookeeper.jaas.file"
    if path is None:
        path, place = of_java.get(FILE), f"{FILE} of {OPTIONS}"
    if path is None:
        return None
    section = of_java.get(SECTION, "Client")
    source = f"section {section} of {path}"
    entry = _entry(Path(path), section, place)
    if entry is None:
        if named is None:
            return None
        raise UserError(f"{place}={path}: it has no section {section}; write one, or name another")
    if of_java.get(ENABLED, "true").lower() != "true":
        raise UserError(f"{OPTIONS}: {ENABLED}=false, but there is a {source}; remove one of them")
    return _login(entry, source)


def _entry(path: Path, section: str, place: str) -> "JaasEntry | None":
    from ottla.config.jaas import parse_jaas_file

    try:
        return parse_jaas_file(path.read_text()).get(section)
    except OSError as error:
        raise UserError(f"{place}={path}: {error.strerror}; name a JAAS file") from error
    except ValueError as error:
        raise UserError(
            f"{place}={path}: {error}; it must look like: "
            f'{section} {{ {DIGEST} required username="kafka" password="secret"; }};'
        ) from error


def _login(entry: "JaasEntry", source: str) -> "DigestLogin":
    from ottla.cluster.access import DigestLogin

    if entry.module != DIGEST:
        raise UserError(f"{source}: {entry.module} is not supported; use {DIGEST}")
    missing = [name for name in ("username", "password") if not entry.options.get(name)]
    if missing:
        raise UserError(f"{source}: {missing[0]} is missing; add it")
    return DigestLogin(
        user=entry.options["username"], password=entry.options["password"], source=source
    )


def _properties(options: str) -> dict[str, str]:
    """Parses `-DNAME=VALUE` options; the last one of a name applies."""
    try:
        words = shlex.split(options)
    except ValueError:
        words = options.split()
    pairs = (word[2:].partition("=") for word in words if word.startswith("-D"))
    return {name: value for name, _, value in pairs}


def zookeeper_tls(config: "BrokerConfig") -> "NewContext | None":
    """Returns a factory of TLS contexts, `None` for connections without TLS; raises `UserError`."""
    if not config.zookeeper_ssl_client_enable:
        return None
    from ottla.client.connecting.login import tls_context
    from ottla.client.connecting.security import Security

    keystore = config.zookeeper_ssl_keystore_location
    security = Security(
        protocol="SSL",
        ca=config.zookeeper_ssl_truststore_location,
        ca_password=config.zookeeper_ssl_truststore_password,
        certificate=keystore,
        certificate_password=config.zookeeper_ssl_keystore_password,
        key_password=config.zookeeper_ssl_keystore_password,
        checks_host=config.zookeeper_ssl_endpoint_identification_algorithm.lower() == "https",
    )
    try:
        tls_context(security)
    except UserError as error:
        reason = str(error).partition("; check ssl.ca.location")[0]
        raise UserError(
            f"zookeeper.ssl.keystore.location or zookeeper.ssl.truststore.location: {reason}"
        ) from error
    return lambda: tls_context(security)


def read_zookeeper_access(path: Path | None) -> "Access":
    """Reads TLS and login from a command's file; raises `UserError`."""
    from ottla.config.broker import broker_config

    given = {} if path is None else with_secrets(read_server_properties(path))
    return zookeeper_access(broker_config(given))
