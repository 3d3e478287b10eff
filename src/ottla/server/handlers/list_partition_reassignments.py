"""ListPartitionReassignments, 0: always empty with one broker.

Kafka's counterpart: `ReplicationControlManager.listPartitionReassignments` (KIP-455).
"""

from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from ottla.server.request_context import RequestContext


def handle(
    request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)
