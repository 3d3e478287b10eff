"""The versions of requests between brokers, by `inter.broker.protocol.version`, and in a KRaft
cluster by the level of `metadata.version`.

Brokers do not negotiate versions with each other, except for requests to the controller
(AlterPartition, AllocateProducerIds). Kafka's counterparts: `MetadataVersion`,
`AbstractControllerBrokerRequestBatch`, `KafkaServer.controlledShutdown`.
"""

from functools import cache
from typing import Final

from ottla.config.inter_broker_version import InterBrokerVersion
from ottla.protocol.api_keys import ApiKey

SENT_VERSIONS: Final[dict[ApiKey, dict[str, int]]] = {
    ApiKey.LEADER_AND_ISR: {
        "0.10.0-IV0": 0,
        "1.0-IV0": 1,
        "2.2-IV0": 2,
        "2.4-IV0": 3,
        "2.4-IV1": 4,
        "2.8-IV1": 5,
        "3.2-IV0": 6,
        "3.4-IV0": 7,
    },
    ApiKey.STOP_REPLICA: {
        "0.10.0-IV0": 0,
        "2.2-IV0": 1,
        "2.4-IV1": 2,
        "2.6-IV0": 3,
        "3.4-IV0": 4,
    },
    ApiKey.UPDATE_METADATA: {
        "0.10.0-IV0": 1,
        "0.10.0-IV1": 2,
        "0.10.2-IV0": 3,
        "1.0-IV0": 4,
        "2.2-IV0": 5,
        "2.4-IV1": 6,
        "2.8-IV1": 7,
        "3.4-IV0": 8,
    },
    ApiKey.CONTROLLED_SHUTDOWN: {"0.10.0-IV0": 1, "2.2-IV0": 2, "2.4-IV1": 3},
    ApiKey.FETCH: {
        "0.10.0-IV0": 2,
        "0.10.1-IV1": 3,
        "0.11.0-IV0": 4,
        "0.11.0-IV1": 5,
        "1.1-IV0": 7,
        "2.0-IV1": 8,
        "2.1-IV2": 10,
        "2.3-IV1": 11,
        "2.7-IV1": 12,
        "3.1-IV0": 13,
        "3.5-IV0": 14,
        "3.5-IV1": 15,
        "3.7-IV4": 16,
        "3.9-IV0": 17,
        "4.1-IV1": 18,
    },
    ApiKey.OFFSET_FOR_LEADER_EPOCH: {
        "0.11.0-IV2": 0,
        "2.0-IV0": 1,
        "2.1-IV1": 2,
        "2.3-IV1": 3,
        "2.8-IV0": 4,
    },
    ApiKey.LIST_OFFSETS: {
        "0.10.0-IV0": 0,
        "0.10.1-IV2": 1,
        "0.11.0-IV0": 2,
        "2.0-IV1": 3,
        "2.1-IV1": 4,
        "2.2-IV1": 5,
        "2.8-IV0": 6,
        "3.0-IV1": 7,
        "3.5-IV0": 8,
        "3.9-IV0": 9,
        "4.0-IV3": 10,
        "4.2-IV1": 11,
    },
    ApiKey.WRITE_TXN_MARKERS: {"0.10.0-IV0": 0, "2.8-IV0": 1},
    # the newest; the peers negotiate a common version
    ApiKey.ALTER_PARTITION: {"2.7-IV2": 1, "2.8-IV0": 3},
    ApiKey.ALLOCATE_PRODUCER_IDS: {"3.0-IV0": 0},
}
"""The request version from each inter-broker version on; not sent before the first one."""


@cache
def sent_version(api_key: ApiKey, version: InterBrokerVersion) -> int | None:
    """The version to send; `None` if brokers of that version do not send the request."""
    found = None
    for name, sent in SENT_VERSIONS[api_key].items():
        if version.has(name):
            found = sent
    return found
