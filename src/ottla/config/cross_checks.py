"""Checks of a broker's settings against each other, and against those in force.

Kafka's counterparts: `KafkaConfig.validateValues`, `LogCleaner.validateReconfiguration`,
`DynamicThreadPool`, `DynamicLogConfig`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ottla.config.setting import SettingError
from ottla.config.tiering import check_tiering

if TYPE_CHECKING:
    from ottla.config.broker import BrokerConfig

MIN_DEDUPE_BYTES: Final = 1 << 20
"""Memory for keys of one cleaner thread, which must be more than this."""

THREADS: Final = {
    "background.threads": 10,
    "log.cleaner.threads": 1,
    "num.io.threads": 8,
    "num.network.threads": 3,
    "num.recovery.threads.per.data.dir": 2,
    "num.replica.fetchers": 1,
    "remote.log.reader.threads": 10,
}
"""Kafka's pools of threads with their default sizes; at run time a size may change to anything from
half to double."""


def check_broker(config: "BrokerConfig") -> None:
    """Raises `SettingError` for values with which a job would not run, or would delete data."""
    _check_retention(config)
    buffer_name = "log.cleaner.dedupe.buffer.size"
    size, threads = config.log_cleaner_dedupe_buffer_size, config.log_cleaner_threads
    if size // threads <= MIN_DEDUPE_BYTES:
        raise SettingError(
            buffer_name,
            f"{buffer_name}={size}: must be more than 1 MiB for each of the {threads} threads of "
            "log.cleaner.threads",
            f"{buffer_name} must be at least 1MB per cleaner thread.",
        )
    for name, text in config.given.items():
        if name in THREADS:
            _thread_count(name, text)
    check_tiering(config)
    if config.is_quorate:
        _check_quorum(config)
    _check_replicas(config)
    _check_required_acks(config)
    if config.max_connections_per_ip == 0 and not config.max_connections_per_ip_overrides:
        name = "max.connections.per.ip"
        raise _error(name, f"{name} can be set to zero only if {name}.overrides property is set.")


def _check_quorum(config: "BrokerConfig") -> None:
    roles = config.process_roles
    if len(set(roles)) < len(roles):
        raise _error("process.roles", f"process.roles={','.join(roles)}: a role is named twice")
    _ = config.voters, config.bootstrap_controllers  # raise for what cannot be read


def _check_replicas(config: "BrokerConfig") -> None:
    wait_ms, wait = config.replica_fetch_wait_max_ms, "replica.fetch.wait.max.ms"
    if wait_ms > config.replica_socket_timeout_ms:
        raise _error(
            "replica.socket.timeout.ms",
            f"replica.socket.timeout.ms should always be at least {wait} to prevent unnecessary "
            "socket timeouts",
        )
    if wait_ms > config.replica_lag_time_max_ms:
        raise _error(
            wait,
            f"{wait} should always be less than or equal to replica.lag.time.max.ms to prevent "
            "frequent changes in ISR",
        )


def _check_required_acks(config: "BrokerConfig") -> None:
    """It has no effect here, and a value that Kafka refuses is a slip in what it stands beside."""
    name, factor = "offsets.commit.required.acks", "offsets.topic.replication.factor"
    text = config.given.get(name)
    if text is None:
        return
    count = _whole_number(name, text)
    if not -1 <= count <= config.offsets_topic_replication_factor:
        raise _error(name, f"{name} must be greater or equal -1 and less or equal to {factor}")


def _check_retention(config: "BrokerConfig") -> None:
    if config.topic_defaults.retention_ms == 0:
        given = [name for name in RETENTION if name in config.given] or [RETENTION[0]]
        name = given[0]
        raise SettingError(
            name,
            f"{name}=0: would delete all records; use -1 to keep them forever, or at least 1",
            "log.retention.ms must be unlimited (-1) or, equal or greater than 1",
        )


RETENTION: Final = ("log.retention.ms", "log.retention.minutes", "log.retention.hours")


def _check_local_retention(config: "BrokerConfig") -> None:
    defaults = config.topic_defaults
    pairs = (
        ("ms", defaults.retention_ms, defaults.local_retention_ms),
        ("bytes", defaults.retention_bytes, defaults.local_retention_bytes),
    )
    for unit, all_of_it, local in pairs:
        name = f"log.local.retention.{unit}"
        if all_of_it == -1 or local == -2:
            continue
        if local == -1:
            wanted = f"Value must not be -1 as log.retention.{unit} value is set as {all_of_it}."
        elif local > all_of_it:
            wanted = f"Value must not be more than property: log.retention.{unit} ({all_of_it})."
        else:
            continue
        raise _error(name, f"Invalid value {local} for configuration {name}: {wanted}")


def check_reconfiguration(old: "BrokerConfig", new: "BrokerConfig") -> None:
    """Raises `SettingError` if a number of threads is less than half or more than double of before.

    One step must not take most of the machine, or leave a job almost none of it.
    """
    counts = {
        name: (_threads_of(old, name, default), _threads_of(new, name, default))
        for name, default in THREADS.items()
    }
    counts["remote.log.manager.copier.thread.pool.size"] = old.copier_count, new.copier_count
    expiration = "remote.log.manager.expiration.thread.pool.size"
    counts[expiration] = old.expiration_count, new.expiration_count
    for name, (before, after) in counts.items():
        if after < before // 2:
            raise _change_error(name, before, after, "at least half")
        if after > before * 2:
            raise _change_error(name, before, after, "no more than double")
    _check_local_retention(new)


def _threads_of(config: "BrokerConfig", name: str, default: int) -> int:
    values: Mapping[str, str] = config.given
    return _thread_count(name, values[name]) if name in values else default


def _whole_number(name: str, text: str) -> int:
    try:
        return int(text.strip())
    except ValueError as error:
        raise SettingError(
            name,
            f"{name}={text}: must be a whole number",
            f"Invalid value {text} for configuration {name}: Not a number of type INT",
        ) from error


def _thread_count(name: str, text: str) -> int:
    count = _whole_number(name, text)
    if count < 1:
        raise SettingError(
            name,
            f"{name}={text}: at least 1",
            f"Invalid value {text} for configuration {name}: Value must be at least 1",
        )
    return count


def _change_error(name: str, before: int, after: int, what: str) -> SettingError:
    return _error(
        name,
        f"Dynamic thread count update validation failed for {name}={after}, value should be "
        f"{what} the current value {before}",
    )


def _error(name: str, message: str) -> SettingError:
    return SettingError(name, message, message)
