"""TLS to ZooKeeper: `zookeeper.ssl.*`, of a broker's settings or of a file for commands.

Kafka's counterparts: `ZkConfigs`, and `--zk-tls-config-file` of `kafka-configs`.
"""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.cli.settings_files import read_server_properties, with_secrets

if TYPE_CHECKING:
    from ottla.cluster.session import NewContext
    from ottla.config.broker import BrokerConfig

zookeeper_tls_option = click.option(
    "--zk-tls-config-file",
    "zookeeper_tls",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="TLS to ZooKeeper: lines such as zookeeper.ssl.client.enable=true, "
    "zookeeper.ssl.truststore.location=ca.pem.",
)


def zookeeper_tls(config: "BrokerConfig") -> "NewContext | None":
    """What connections to ZooKeeper begin with, `None` for plain ones; raises `UserError`."""
    if not config.zookeeper_ssl_client_enable:
        return None
    from ottla.client.login import tls_context
    from ottla.client.security import Security

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


def read_zookeeper_tls(path: Path | None) -> "NewContext | None":
    """As a file says that a command was given; raises `UserError`."""
    if path is None:
        return None
    from ottla.config.broker import broker_config

    return zookeeper_tls(broker_config(with_secrets(read_server_properties(path))))
