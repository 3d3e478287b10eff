"""A KRaft cluster on one machine: its directories are formatted, and up to three of its brokers are
controllers too.
"""

import os
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ottla.base.files import OsFileSystem
from ottla.base.scram import make_credential
from ottla.cli.cluster.secured import ADMIN, BROKER, ITERATIONS, MECHANISM, PROTOCOL
from ottla.cli.cluster.zookeeper import LOCAL, free_port

if TYPE_CHECKING:
    from ottla.base.ids import Uuid
    from ottla.cli.cluster.local import LocalBroker, LocalCluster
    from ottla.metadata.image_changes import VersionedRecord
    from ottla.quorum.voters import VoterSet

CONTROLLER: Final = "CONTROLLER"
MOST_CONTROLLERS: Final = 3
SALT_SIZE: Final = 16


def formatted(cluster: "LocalCluster") -> "LocalCluster":
    """Formats the directories of new brokers; raises `UserError`.

    The controllers of a new cluster are its first voters; one of a broker that comes later asks the
    leader to become one.
    """
    from ottla.broker.metadata.formatting import FormatOptions, format_directories
    from ottla.runtime.opening import new_id

    new = [one for one in cluster.brokers if not os.path.isdir(one.directory)]
    is_first = len(new) == len(cluster.brokers)
    cluster = replace(cluster, brokers=tuple(_with_port(one) for one in cluster.brokers))
    voters = _voters(cluster, new_id) if is_first else None
    for one in cluster.brokers:
        if os.path.isdir(one.directory):
            continue
        options = FormatOptions(
            node_id=one.broker,
            cluster_id=cluster.quorum,
            records=_first_records(cluster),
            now_ms=time.time_ns() // 1_000_000,
            new_id=new_id,
            voters=voters if one.controller_port else None,
        )
        format_directories([one.directory], OsFileSystem(), options)
    return cluster


def _with_port(one: "LocalBroker") -> "LocalBroker":
    """A broker that was not here before and is to be a controller gets a port for that."""
    if one.controller_port or one.broker > MOST_CONTROLLERS or os.path.isdir(one.directory):
        return one
    return replace(one, controller_port=free_port())


def _voters(cluster: "LocalCluster", new_id: "Callable[[], Uuid]") -> "VoterSet":
    from ottla.quorum.voters import Endpoint, ReplicaKey, Voter, VoterSet

    chosen = [one for one in cluster.brokers if one.controller_port]
    if len(chosen) < MOST_CONTROLLERS:
        chosen = chosen[:1]  # of two, the loss of either would stop the cluster
    return VoterSet.of(
        Voter(ReplicaKey(one.broker, new_id()), (Endpoint(CONTROLLER, LOCAL, one.controller_port),))
        for one in chosen
    )


def _first_records(cluster: "LocalCluster") -> "list[VersionedRecord]":
    from ottla.metadata.deciding.features import feature_records, new_features
    from ottla.metadata.values import credential_record

    records = feature_records(new_features())
    security = cluster.security
    for user in () if security is None else (ADMIN, BROKER):
        assert security is not None
        salt = secrets.token_bytes(SALT_SIZE)
        made = make_credential(MECHANISM, security.password_of(user).encode(), salt, ITERATIONS)
        records.append((credential_record(user, MECHANISM, made), 0))
    return records


def quorum_settings(cluster: "LocalCluster", one: "LocalBroker") -> Mapping[str, str]:
    """The settings by which a broker finds its cluster, and listens."""
    controllers = [
        f"{LOCAL}:{each.controller_port}" for each in cluster.brokers if each.controller_port
    ]
    name = "PLAINTEXT" if cluster.security is None else PROTOCOL
    listeners = [f"{name}://{LOCAL}:{one.port}"]
    roles = ["broker"]
    if one.controller_port:
        listeners.append(f"{CONTROLLER}://{LOCAL}:{one.controller_port}")
        roles.append("controller")
    settings = {
        "process.roles": ",".join(roles),
        "node.id": str(one.broker),
        "controller.listener.names": CONTROLLER,
        "controller.quorum.bootstrap.servers": ",".join(controllers),
        # All of them begin together on one machine, and none waits for others to come.
        "controller.quorum.election.timeout.ms": "200",
        "controller.quorum.auto.join.enable": "true" if one.controller_port else "false",
        "listeners": ",".join(listeners),
    }
    if cluster.security is not None:
        settings |= {
            "listener.security.protocol.map": f"{PROTOCOL}:{PROTOCOL},{CONTROLLER}:SSL",
            f"listener.name.{CONTROLLER.lower()}.ssl.client.auth": "required",
        }
    return settings
