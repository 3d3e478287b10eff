"""The operations that a client may do, as bits of Kafka's `AclOperation`: all of them, without
authorization.

Kafka's counterpart: `AuthHelper.authorizedOperations` (KIP-430).
"""

CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))
"""Create, alter, describe, cluster action, describe and alter configs, idempotent write."""

TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
"""Read, write, create, delete, alter, describe, describe and alter configs."""

GROUP_OPERATIONS = sum(1 << code for code in (3, 6, 8, 10, 11))
"""Read, delete, describe; since Kafka 4 groups have settings: describe and alter configs."""
