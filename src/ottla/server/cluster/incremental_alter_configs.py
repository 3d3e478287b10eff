"""IncrementalAlterConfigs, 0 to 1: changes settings in ZooKeeper, from where all brokers take them.

Kafka's counterpart: `ZkConfigRepository`, `ZkAdminManager.incrementalAlterConfigs`.
"""

from functools import partial

from ottla.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from ottla.server.cluster.altering import alter_all
from ottla.server.handlers.incremental_alter_configs import alterations, answer
from ottla.server.request_context import PendingAnswer, RequestContext


def handle(request: IncrementalAlterConfigsRequest, context: RequestContext) -> PendingAnswer:
    context.may_take_long()
    wanted = alterations(request, context)
    return alter_all(wanted, partial(answer, request), context, validate_only=request.validate_only)
