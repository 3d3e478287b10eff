"""UpdateFeatures, 0 to 1: the controller raises or lowers features of the cluster (KIP-584).

Kafka's counterpart: `KafkaController.processFeatureUpdates`.
"""

from ottla.base.error_codes import ErrorCode
from ottla.controller.events import Answer, UpdateFeature
from ottla.protocol.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.server.dispatching.request_context import PendingAnswer, RequestContext
from ottla.server.orders.applying import membership_of

MAX_FEATURES = 256
"""Maximum in one request: there are a handful, and the controller decides on each separately."""


def handle(
    request: UpdateFeaturesRequest, context: RequestContext
) -> UpdateFeaturesResponse | PendingAnswer:
    membership = membership_of(context)
    if not membership.is_controller:
        return UpdateFeaturesResponse(error_code=ErrorCode.NOT_CONTROLLER, error_message=None)
    if request.validate_only:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message="A cluster over ZooKeeper does not say whether an update would work.",
        )
    if not 0 < len(request.feature_updates) <= MAX_FEATURES:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"Name 1 to {MAX_FEATURES} features to update.",
        )
    events = [
        UpdateFeature(pending_id=None, name=one.feature, max_version_level=one.max_version_level)
        for one in request.feature_updates
    ]

    def answered(answers: list[Answer]) -> UpdateFeaturesResponse:
        return UpdateFeaturesResponse(
            error_message=None,
            results=[
                UpdatableFeatureResult(
                    feature=event.name, error_code=answer.error, error_message=None
                )
                for event, answer in zip(events, answers, strict=True)
            ],
        )

    return PendingAnswer(membership.ask(events), answered)
