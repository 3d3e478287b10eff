"""Every API with each resource that it names: what Kafka's `KafkaApis` and `ControllerApis` ask."""

from ottla.protocol.api_keys import ApiKey
from tests.unit.server.authorization import (
    cluster_rows,
    group_rows,
    record_rows,
    share_group_rows,
    share_rows,
    token_rows,
    topic_rows,
    transaction_rows,
)
from tests.unit.server.authorization.row import Row

ROWS: dict[ApiKey, list[Row]] = {
    **record_rows.ROWS,
    **topic_rows.ROWS,
    **group_rows.ROWS,
    **share_group_rows.ROWS,
    **transaction_rows.ROWS,
    **cluster_rows.ROWS,
    **token_rows.ROWS,
    **share_rows.ROWS,
}

OPEN_TO_ALL = {
    ApiKey.SASL_HANDSHAKE,
    ApiKey.SASL_AUTHENTICATE,
    ApiKey.API_VERSIONS,
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
    ApiKey.PUSH_TELEMETRY,
}
BY_OWNER = {ApiKey.RENEW_DELEGATION_TOKEN, ApiKey.EXPIRE_DELEGATION_TOKEN}
"""What Kafka decides by the token's owner and renewers (tests/unit/server/test_tokens.py)."""
