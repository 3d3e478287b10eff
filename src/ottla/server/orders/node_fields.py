"""What nodes say of themselves when they register, as values of the metadata."""

from collections.abc import Iterable, Mapping
from typing import Any

from ottla.metadata.brokers import Endpoint, protocol_of


def endpoints_of(listeners: Iterable[Any]) -> tuple[Endpoint, ...]:
    return tuple(
        Endpoint(
            listener=one.name,
            host=one.host,
            port=one.port,
            security_protocol=protocol_of(one.security_protocol),
        )
        for one in listeners
    )


def features_of(features: Iterable[Any]) -> Mapping[str, Mapping[str, int]]:
    """The lowest and highest level that a node supports of each feature."""
    return {
        one.name: {
            "min_version": one.min_supported_version,
            "max_version": one.max_supported_version,
        }
        for one in features
    }
