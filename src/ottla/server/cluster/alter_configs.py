"""AlterConfigs, 0 to 2: changes settings in ZooKeeper, from where all brokers take them.

Kafka's counterpart: `ZkConfigRepository`, `ZkAdminManager.alterConfigs`.
"""

from functools import partial

from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.server.cluster.altering import alter_all
from ottla.server.handlers.alter_configs import alterations, answer
from ottla.server.request_context import PendingAnswer, RequestContext


def handle(request: AlterConfigsRequest, context: RequestContext) -> PendingAnswer:
    context.may_take_long()
    wanted = alterations(request, context)
    return alter_all(wanted, partial(answer, request), context, validate_only=request.validate_only)
