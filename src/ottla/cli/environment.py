"""Settings of a broker in the environment, as Kafka's Docker images read them.

`KAFKA_LOG_RETENTION_MS` is `log.retention.ms`: `_` stands for a dot, `__` for `_` and `___` for
`-`. `OTTLA_LOG_RETENTION_MS` is the same, and takes precedence.
"""

import logging
from collections.abc import Mapping

logger = logging.getLogger(__name__)

NOT_SETTINGS = frozenset(
    [
        "BOOTSTRAP_SERVERS",
        "CLUSTER_ID",
        "GC_LOG_OPTS",
        "HEAP_OPTS",
        "HOME",
        "JMX_HOSTNAME",
        "JMX_OPTS",
        "JMX_PORT",
        "JVM_PERFORMANCE_OPTS",
        "LOG4J_LOGGERS",
        "LOG4J_OPTS",
        "LOG4J_ROOT_LOGLEVEL",
        "MODE",
        "OPTS",
        "TOOLS_LOG4J_LOGLEVEL",
        "VERSION",
    ]
)
"""Variables KAFKA_... of the images and other programs that are not broker settings."""


def settings_in(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns settings by Kafka's names. An unknown name after KAFKA_ is logged, and ignored."""
    found: dict[str, str] = {}
    for prefix in ("KAFKA_", "OTTLA_"):
        for variable, text in environment.items():
            if not variable.startswith(prefix):
                continue
            rest = variable.removeprefix(prefix)
            name = _known(setting_name(rest))
            if name is not None:
                found[name] = text
            elif prefix == "KAFKA_" and rest not in NOT_SETTINGS:
                logger.warning("%s: there is no setting %s", variable, setting_name(rest))
    return found


def setting_name(rest: str) -> str:
    """Returns the setting's name for a variable's name without its prefix."""
    text = rest.lower().replace("___", "-").replace("__", "\0")
    return text.replace("_", ".").replace("\0", "_")


def _known(name: str) -> str | None:
    from ottla.config.broker import broker_settings
    from ottla.config.without_effect import is_without_effect

    if name in broker_settings() or is_without_effect(name):
        return name
    # OTTLA_X is also ottla.x, for settings whose names begin with ottla.
    own = f"ottla.{name}"
    return own if own in broker_settings() else None
