"""UpdateFeatures, 0 to 2: the controller raises or lowers features of the cluster (KIP-584).

Version 1 has the kind of each update, and 2 no results of each, since all are made or none.
Kafka's counterparts: `ControllerApis.handleUpdateFeatures`,
`KafkaController.processFeatureUpdates`.
"""

from collections.abc import Sequence

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.broker.controlling.outcomes import UpdatedFeatures
from ottla.codec.schema import Message
from ottla.metadata.deciding.features import FeatureUpdate, UpgradeType
from ottla.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.server.dispatching.request_context import PendingResponse, RequestContext, respond
from ottla.server.orders.asking import cluster_controller_of

MAX_FEATURES = 256
"""Maximum in one request: there are a handful, and the controller decides on each separately."""

FIRST_TYPE_VERSION = 1
FIRST_WITHOUT_RESULTS_VERSION = 2


def handle(request: UpdateFeaturesRequest, context: RequestContext) -> Message | PendingResponse:
    if not 0 < len(request.feature_updates) <= MAX_FEATURES:
        return UpdateFeaturesResponse(
            error_code=ErrorCode.INVALID_REQUEST,
            error_message=f"Name 1 to {MAX_FEATURES} features to update.",
        )
    version = context.api_version
    updates = [_update(one, version) for one in request.feature_updates]

    def answer(updated: UpdatedFeatures) -> UpdateFeaturesResponse:
        error = updated.error
        if error is None and version >= FIRST_WITHOUT_RESULTS_VERSION:
            error = next((one for one in updated.outcomes if one is not None), None)
        if error is not None:
            return UpdateFeaturesResponse(error_code=error.code, error_message=error.message)
        return _response(updates, updated.outcomes)

    controller = cluster_controller_of(context)
    return respond(controller.update_features(updates, validate_only=request.validate_only), answer)


def _update(one: FeatureUpdateKey, version: int) -> FeatureUpdate:
    kind = one.upgrade_type
    if version < FIRST_TYPE_VERSION:
        kind = UpgradeType.SAFE_DOWNGRADE if one.allow_downgrade else UpgradeType.UPGRADE
    return FeatureUpdate(one.feature, one.max_version_level, kind)


def _response(
    updates: Sequence[FeatureUpdate], outcomes: Sequence[ApiError | None]
) -> UpdateFeaturesResponse:
    return UpdateFeaturesResponse(
        error_message="",
        results=[
            UpdatableFeatureResult(
                feature=one.name,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for one, error in zip(updates, outcomes, strict=True)
        ],
    )
