"""Options for the Kafka client, with Java's names and values, as for Spark's own source.

Settings that have no effect here are ignored, with a warning, and some are rejected with the
alternative. Security settings are parsed by `client/connecting/security.py`, the others by
`wire_settings.py`, which also take librdkafka's names.
"""

import logging
from collections.abc import Mapping

from ottla.base.errors import UserError

CLIENT_PREFIX = "kafka."
BOOTSTRAP_OPTION = "kafka.bootstrap.servers"

logger = logging.getLogger(__name__)

_WITHOUT_EFFECT = frozenset(
    {
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "auto.include.jmx.reporter",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "default.api.timeout.ms",
        "enable.metrics.push",
        "exclude.internal.topics",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "max.poll.interval.ms",
        "max.poll.records",
        "metadata.max.age.ms",
        "metadata.recovery.rebootstrap.trigger.ms",
        "metadata.recovery.strategy",
        "metric.reporters",
        "metrics.num.samples",
        "metrics.recording.level",
        "metrics.sample.window.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "sasl.client.callback.handler.class",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    }
)
"""Settings of Kafka's consumer that do not change which records are read."""

SECURITY = ("ssl.", "sasl.", "security.")
"""Prefixes of the settings of TLS and logins."""

_SHOWN_KEYS = frozenset({"ssl.keystore.key", "ssl.key.pem"})
"""Secrets whose names do not contain the words that Spark redacts."""

_REFUSED = {
    "auto.offset.reset": "give startingOffsets; a restarted query continues where it was",
    "enable.auto.commit": "give kafka.group.id, and offsets are committed after each batch",
    "key.deserializer": "keys are bytes; cast the column",
    "value.deserializer": "values are bytes; cast the column",
    "interceptor.classes": "leave it out",
}


def parse_client_options(options: Mapping[str, str]) -> dict[str, str]:
    """The client's settings, from options in lower case; raises `UserError`."""
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
            warn_without_effect(f"{CLIENT_PREFIX}{name}")
        else:
            found[name] = value
            if name in _SHOWN_KEYS and "ENCRYPTED" not in value:
                logger.warning(
                    "option %s%s: Spark shows the key in its plans, UI and event log; name a file "
                    "(%sssl.keystore.location), give it encrypted with %sssl.key.password, or have "
                    "spark.redaction.regex match the option",
                    CLIENT_PREFIX, name, CLIENT_PREFIX, CLIENT_PREFIX,
                )  # fmt: skip
    return found


def is_ignored_or_refused(name: str) -> bool:
    """Whether a setting, without its prefix, is ignored or refused by name.

    Unknown settings of TLS and logins are refused: a warning would come too late.
    """
    return name in _WITHOUT_EFFECT or name in _REFUSED or name.startswith(SECURITY)


def warn_without_effect(option: str) -> None:
    """Logs a warning; in Spark's own processes each appears once (`ottla/spark/worker.py`)."""
    logger.warning("option %s has no effect here", option)
