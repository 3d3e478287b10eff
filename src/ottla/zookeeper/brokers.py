"""`/brokers/ids/<id>`: a broker and its endpoints. Kafka's counterpart: `BrokerIdZNode`."""

import re
from collections.abc import Mapping
from typing import Any, Final

from ottla.base.patterns import lazy_pattern
from ottla.config.inter_broker_version import InterBrokerVersion
from ottla.metadata.brokers import BrokerRegistration, Endpoint
from ottla.zookeeper.nodes import decode_node, encode_node, number, text
from ottla.zookeeper.paths import broker_path

_ENDPOINT = lazy_pattern(r"(.*)://\[?([0-9a-zA-Z\-%._:]*)\]?:(-?[0-9]+)", re.ASCII)
PLAINTEXT: Final = "PLAINTEXT"


def registration_version(version: InterBrokerVersion) -> int:
    """The version of the node that all brokers of the cluster can read."""
    if version.has_features:
        return 5
    return 4 if version.has("0.10.0-IV1") else 2


def encode_broker(broker: BrokerRegistration) -> bytes:
    """Encodes a broker; its host and port are the first PLAINTEXT endpoint's (before 0.9)."""
    version = broker.version
    plain = next((one for one in broker.endpoints if one.security_protocol == PLAINTEXT), None)
    fields: dict[str, Any] = {}
    if version >= 5:
        fields["features"] = {name: dict(one) for name, one in broker.features.items()}
    if version >= 4:
        fields["listener_security_protocol_map"] = {
            one.listener: one.security_protocol for one in broker.endpoints
        }
    fields["endpoints"] = [one.connection_text for one in broker.endpoints]
    if version >= 3 and broker.rack is not None:
        fields["rack"] = broker.rack
    fields["jmx_port"] = broker.jmx_port
    fields["port"] = -1 if plain is None else plain.port
    fields["host"] = None if plain is None else plain.host
    fields["version"] = version
    fields["timestamp"] = str(broker.timestamp_ms)
    return encode_node(fields)


def decode_broker(broker_id: int, content: bytes | None) -> BrokerRegistration:
    """Decodes any version from 1 on; raises `NodeError`."""
    return decode_node(broker_path(broker_id), content, _parse)


def _parse(fields: Any) -> BrokerRegistration:
    version = number(fields["version"])
    if version < 1:
        raise ValueError(f"version {version}")
    if version == 1:
        host, port = text(fields["host"]), number(fields["port"])
        only = Endpoint(listener=PLAINTEXT, host=host, port=port, security_protocol=PLAINTEXT)
        endpoints: tuple[Endpoint, ...] = (only,)
    else:
        protocols = fields.get("listener_security_protocol_map")
        endpoints = tuple(_parse_endpoint(text(one), protocols) for one in fields["endpoints"])
    rack = fields.get("rack")
    return BrokerRegistration(
        endpoints=endpoints,
        rack=None if rack is None else text(rack),
        features={
            name: {label: number(level) for label, level in one.items()}
            for name, one in (fields.get("features") or {}).items()
        },
        jmx_port=number(fields["jmx_port"]),
        timestamp_ms=int(fields.get("timestamp", 0)),
        version=version,
    )


def _parse_endpoint(connection: str, protocols: Mapping[str, str] | None) -> Endpoint:
    """Parses an endpoint; before version 4 a listener has the name of its protocol."""
    match = _ENDPOINT.fullmatch(connection)
    if match is None:
        raise ValueError(f"endpoint {connection}")
    listener, host, port = match.groups()
    protocol = listener if protocols is None else text(protocols[listener])
    return Endpoint(listener=listener, host=host, port=int(port), security_protocol=protocol)
