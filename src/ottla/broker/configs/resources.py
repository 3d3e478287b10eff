"""Checks of the names of what has settings (Kafka: `ConfigResource`)."""

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError


def check_broker_name(name: str, node_id: int) -> None:
    """Raises `ApiError` unless a broker's resource is this broker."""
    if not name.isdecimal():
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
    if int(name) != node_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Unexpected broker id, expected {node_id}, but received {name}",
        )


def check_group_name(name: str) -> None:
    """Raises `ApiError` for a group without a name; it need not exist."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Group name must not be empty")


def no_settings(resource_type: int) -> ApiError:
    """The refusal for a kind of resource that has no settings here."""
    return ApiError(
        ErrorCode.INVALID_REQUEST, f"Resources of type {resource_type} have no settings here."
    )
