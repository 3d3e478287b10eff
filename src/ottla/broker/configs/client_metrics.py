"""Which subscriptions to clients' metrics a client may set.

Kafka's counterpart: `ClientMetricsConfigs.validate` (KIP-714).
"""

import re
import warnings
from collections.abc import Mapping
from typing import Final

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.config.client_metrics import ClientMetricsConfig
from ottla.config.setting import SettingError, settings_of, with_values

MIN_INTERVAL_MS: Final = 100
MAX_INTERVAL_MS: Final = 3_600_000
MATCHED: Final = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)


def check_client_metrics(name: str, values: Mapping[str, str]) -> None:
    """Raises `ApiError` for a subscription that Kafka would refuse."""
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    for key in values:
        if key not in settings_of(ClientMetricsConfig):
            raise ApiError(
                ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {key}"
            )
    try:
        config = with_values(ClientMetricsConfig(), values)
    except SettingError as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, error.api_message) from error
    if not MIN_INTERVAL_MS <= config.interval_ms <= MAX_INTERVAL_MS:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {config.interval_ms} for interval.ms, interval must be between "
            f"{MIN_INTERVAL_MS} and {MAX_INTERVAL_MS} (1 hour)",
        )
    match = values.get("match", "").strip()  # whose empty parts are patterns too
    for pattern in re.split(r"\s*,\s*", match) if match else ():
        if not _is_pattern(pattern):
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {pattern}")


def _is_pattern(text: str) -> bool:
    parts = text.rstrip("=").split("=")  # as Java splits: without empty parts at the end
    if len(parts) != 2 or parts[0].strip() not in MATCHED:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of what later versions of Python read otherwise
            re.compile(parts[1].strip())
    except (re.error, OverflowError, RecursionError):
        return False
    return True
