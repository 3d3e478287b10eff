"""The loggers of this broker, whose levels clients change while it runs (KIP-412).

`root` is the parent of Ottla's own loggers, so that a program that embeds a broker keeps its own.
Levels are not stored. Kafka's counterparts: `Log4jController`,
`ConfigAdminManager.validateLogLevelConfigs`.
"""

import logging
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.configs.config_changes import Alteration, ConfigChange, ConfigOperation
from ottla.broker.configs.resources import check_broker_name

ROOT: Final = "root"
PARENT: Final = "ottla"
LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


def check_logger_name(name: str, node_id: int) -> None:
    """Raises `ApiError` unless the loggers are those of this broker."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Broker id must not be empty")
    check_broker_name(name, node_id)


def logger_levels() -> dict[str, str]:
    """The level in effect of each logger, by name."""
    names = sorted(logging.root.manager.loggerDict)
    ours = [name for name in names if name.startswith(f"{PARENT}.")]
    return {ROOT: _level(PARENT)} | {name: _level(name) for name in ours}


def alter_loggers(alteration: Alteration, *, validate_only: bool) -> None:
    """Changes all levels or none; raises `ApiError`."""
    if alteration.is_whole:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Levels of loggers are changed incrementally")
    known = logger_levels()
    for change in alteration.changes:
        _check(change, known)
    if validate_only:
        return
    for change in alteration.changes:
        is_set = change.operation is ConfigOperation.SET
        _logger(change.name).setLevel(LEVELS[change.value] if is_set else logging.NOTSET)


def _check(change: ConfigChange, known: dict[str, str]) -> None:
    name, operation = change.name, change.operation
    if operation not in (ConfigOperation.SET, ConfigOperation.DELETE):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{operation.name} operation is not allowed for the BROKER_LOGGER resource",
        )
    if name not in known:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Logger {name} does not exist!")
    if operation is ConfigOperation.DELETE and name == ROOT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Removing the log level of the {ROOT} logger is not allowed"
        )
    if operation is ConfigOperation.SET and change.value not in LEVELS:
        raise ApiError(
            ErrorCode.INVALID_CONFIG,
            f"Cannot set the log level of {name} to {change.value} as it is not a supported log "
            f"level. Valid log levels are {', '.join(LEVELS)}",
        )


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(PARENT if name == ROOT else name)


def _level(name: str) -> str:
    number = logging.getLogger(name).getEffectiveLevel()
    return next((text for text, least in reversed(LEVELS.items()) if number >= least), "TRACE")
