"""Opens a cluster by its target: an open log, a data directory, or brokers' addresses.

    with open_target("data/") as cluster:
        names = cluster.topic_names()

A directory that is used several times in one process is opened once, and closed after the last use.
"""

import os
import time
from typing import TYPE_CHECKING, Union

from ottla.base.addresses import Address, names_brokers, parse_address
from ottla.client.connecting.cluster import ClientSettings, Cluster, SocketTransport, Transport

if TYPE_CHECKING:
    from ottla.embedded.log import Log

PATIENT = ClientSettings()
Target = Union["Log", str, os.PathLike[str]]


def open_target(
    target: Target,
    settings: ClientSettings = PATIENT,
    *,
    may_make: bool = False,
) -> Cluster:
    """Opens a target's cluster; close it afterwards. Raises `UserError`.

    An existing directory is a directory, `HOST:PORT[,HOST:PORT]` are brokers, and anything else,
    such as `./HOST:PORT`, is the path of a directory, which is created if that is allowed. A log
    that was passed open stays open. Topics are looked up only when needed.
    """
    transport: Transport = SocketTransport(settings)
    addresses = _addresses_of(target)
    if addresses is None:
        # The whole broker, which clients of another one need not import.
        from ottla.client.connecting.in_process import ADDRESS, in_process

        addresses = [ADDRESS]
        transport = in_process(target, settings, may_make=may_make)
    try:
        return Cluster(addresses, settings, sleep=time.sleep, topics=(), transport=transport)
    except BaseException:
        transport.close()
        raise


def _addresses_of(target: Target) -> list[Address] | None:
    """The addresses of brokers; `None` for a log or a directory."""
    if not isinstance(target, str) or not names_brokers(target):
        return None
    return [parse_address(one.strip()) for one in target.split(",")]
