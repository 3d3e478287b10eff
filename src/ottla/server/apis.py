"""Which requests are answered, and in which versions: what ApiVersions tells, and nothing more.

A new API is one row here and one file in `handlers/`, named like the file of its messages.
"""

from dataclasses import dataclass

from ottla.protocol.api_keys import ApiKey


@dataclass(frozen=True, slots=True)
class Api:
    """One request, and the oldest and newest version of it that are answered."""

    key: ApiKey
    oldest: int
    newest: int


APIS: dict[int, Api] = {
    api.key: api
    for api in (
        Api(ApiKey.PRODUCE, 0, 13),
        Api(ApiKey.FETCH, 0, 18),
        Api(ApiKey.LIST_OFFSETS, 0, 11),
        Api(ApiKey.METADATA, 0, 13),
        Api(ApiKey.FIND_COORDINATOR, 0, 6),
        Api(ApiKey.API_VERSIONS, 0, 4),
        Api(ApiKey.CREATE_TOPICS, 0, 7),
        Api(ApiKey.DELETE_TOPICS, 0, 6),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 6),
        Api(ApiKey.DESCRIBE_CONFIGS, 0, 4),
    )
}
