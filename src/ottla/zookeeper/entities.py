"""`/config/<type>/<name>`: settings of topics, brokers, clients, users and addresses.

SCRAM credentials are settings of a user. Kafka's counterparts: `ConfigEntityZNode`,
`ScramCredentialUtils`.
"""

import base64
from collections.abc import Mapping
from typing import Any

from ottla.base.scram import ScramCredential
from ottla.config.setting import value_text
from ottla.zookeeper.nodes import decode_node, encode_node, text
from ottla.zookeeper.paths import config_path

SCRAM_PREFIX = "SCRAM-"


def encode_config(settings: Mapping[str, str]) -> bytes:
    return encode_node({"version": 1, "config": dict(settings)})


def decode_config(entity_path: str, content: bytes | None) -> dict[str, str]:
    """Decodes settings; none if the node has no content. Numbers and booleans become texts."""
    if not content:
        return {}
    return decode_node(config_path(entity_path), content, _parse_config)


def _parse_config(fields: Any) -> dict[str, str]:
    return {text(name): setting_text(value) for name, value in fields["config"].items()}


def setting_text(value: Any) -> str:
    """The text of a setting that is a JSON string, number, boolean or list of strings."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ",".join(value)
    if isinstance(value, str | int | float):
        return value_text(value)
    raise TypeError(f"{value!r} is neither a text nor a number")


def encode_scram(credential: ScramCredential) -> str:
    """The value of the setting `SCRAM-SHA-256` or `SCRAM-SHA-512`."""
    parts = (credential.salt, credential.stored_key, credential.server_key)
    salt, stored, server = (base64.b64encode(one).decode() for one in parts)
    return f"salt={salt},stored_key={stored},server_key={server},iterations={credential.iterations}"


def decode_scram(value: str) -> ScramCredential:
    """Decodes a SCRAM credential; raises `ValueError`."""
    fields = dict(one.partition("=")[::2] for one in value.split(","))
    try:
        return ScramCredential(
            salt=base64.b64decode(fields["salt"], validate=True),
            stored_key=base64.b64decode(fields["stored_key"], validate=True),
            server_key=base64.b64decode(fields["server_key"], validate=True),
            iterations=int(fields["iterations"]),
        )
    except (KeyError, ValueError) as error:
        raise ValueError(f"not a SCRAM credential ({error!r})") from error
