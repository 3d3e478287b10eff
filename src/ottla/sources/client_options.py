"""Options for the Kafka client: Java's names and values, as jobs for Spark's own source give them.

Settings are kept under librdkafka's names, most of which are Java's. The rest is put into its
words, has nothing to act on and is let go, or is refused with what to give instead. Which client
gets them, `wire_settings.py` says.
"""

import logging
import re
from collections.abc import Mapping

from ottla.base.errors import UserError

CLIENT_PREFIX = "kafka."
BOOTSTRAP_OPTION = "kafka.bootstrap.servers"

logger = logging.getLogger(__name__)

_OTHER_NAMES = {
    "fetch.max.wait.ms": "fetch.wait.max.ms",
    "request.timeout.ms": "socket.timeout.ms",
    "receive.buffer.bytes": "socket.receive.buffer.bytes",
    "send.buffer.bytes": "socket.send.buffer.bytes",
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
"""Java's name -> librdkafka's, for settings that mean the same."""

_WITHOUT_EFFECT = frozenset(
    {
        "max.poll.records",
        "default.api.timeout.ms",
        "metrics.recording.level",
        "ssl.truststore.type",
        "ssl.keystore.type",
        "sasl.client.callback.handler.class",
        "exclude.internal.topics",
    }
)

_REFUSED = {
    "auto.offset.reset": "give startingOffsets; a restarted query continues where it was",
    "enable.auto.commit": "give kafka.group.id, and offsets are committed after each batch",
    "key.deserializer": "keys are bytes; cast the column",
    "value.deserializer": "values are bytes; cast the column",
    "interceptor.classes": "leave it out",
    "ssl.truststore.location": "give kafka.ssl.ca.location, a file in PEM format",
    "ssl.truststore.password": "give kafka.ssl.ca.location, a file in PEM format",
}

_LOGIN = re.compile(r"(\w+)\s*=\s*\"((?:[^\"\\]|\\.)*)\"")
_PASSWORD_MODULES = ("PlainLoginModule", "ScramLoginModule")


def parse_client_options(options: Mapping[str, str]) -> dict[str, str]:
    """Settings in librdkafka's words, of options with names in lower case; raises `UserError`."""
    given = {
        name.removeprefix(CLIENT_PREFIX): value
        for name, value in sorted(options.items())
        if name.startswith(CLIENT_PREFIX)
    }
    found: dict[str, str] = {}
    for name, value in given.items():
        if name in _REFUSED:
            raise UserError(
                f"option {CLIENT_PREFIX}{name} is not for this source: {_REFUSED[name]}"
            )
        if name in _WITHOUT_EFFECT:
            logger.warning("option %s%s has no effect here", CLIENT_PREFIX, name)
        elif name == "sasl.jaas.config":
            found |= _parse_login(value)
        else:
            found[_OTHER_NAMES.get(name, name)] = value
    return found


def _parse_login(text: str) -> dict[str, str]:
    """User and password out of Java's way to write them (JAAS)."""
    told = dict(_LOGIN.findall(text))
    is_known = any(module in text for module in _PASSWORD_MODULES)
    if not is_known or not {"username", "password"} <= set(told):
        raise UserError(
            "option kafka.sasl.jaas.config is read for user and password only; for other logins "
            "give librdkafka's settings, such as kafka.sasl.kerberos.principal"
        )
    plain = {name: re.sub(r"\\(.)", r"\1", value) for name, value in told.items()}
    return {"sasl.username": plain["username"], "sasl.password": plain["password"]}
