"""A cluster has the new groups by its features, and refuses what they ask while it has not."""

from typing import Any

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.coordinator.share.sessions import SessionKey
from ottla.metadata.deciding.features import UpgradeType
from ottla.protocol.messages import describe_share_group_offsets as offsets
from ottla.protocol.messages.alter_share_group_offsets import AlterShareGroupOffsetsRequest
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.delete_share_group_offsets import DeleteShareGroupOffsetsRequest
from ottla.protocol.messages.share_acknowledge import ShareAcknowledgeRequest
from ottla.protocol.messages.share_fetch import ShareFetchRequest
from ottla.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from ottla.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from ottla.server.dispatching.apis import listed_apis
from tests.support.lonely_node import LonelyNode
from tests.unit.server.authorization.row import error_codes

OF_CONSUMER_GROUPS = (
    (ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"]), 1),
    (ConsumerGroupDescribeRequest(group_ids=["g", "h"]), 1),
)
OF_SHARE_GROUPS = (
    (ShareGroupHeartbeatRequest(group_id="g", member_id="m", subscribed_topic_names=["t"]), 1),
    (ShareGroupDescribeRequest(group_ids=["g", "h"]), 1),
    (ShareFetchRequest(group_id="g", member_id="m", share_session_epoch=0, max_records=9), 2),
    (ShareAcknowledgeRequest(group_id="g", member_id="m", share_session_epoch=1), 2),
    (
        offsets.DescribeShareGroupOffsetsRequest(
            groups=[offsets.WantedGroup(group_id=one, topics=None) for one in ("g", "h")]
        ),
        1,
    ),
    (AlterShareGroupOffsetsRequest(group_id="g"), 0),
    (DeleteShareGroupOffsetsRequest(group_id="g"), 0),
)
PROTOCOLS = {"group.version": OF_CONSUMER_GROUPS, "share.version": OF_SHARE_GROUPS}


def put(node: LonelyNode, feature: str, level: int) -> None:
    kind = UpgradeType.UPGRADE if level else UpgradeType.SAFE_DOWNGRADE
    update = FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)
    assert node.ask_node(UpdateFeaturesRequest(feature_updates=[update]), 2).error_code == 0


def answered(node: LonelyNode, feature: str) -> list[Any]:
    """The responses that come at once; others wait, since they were not refused."""
    found = []
    for request, version in PROTOCOLS[feature]:
        later, output = node.client.send(request, version)
        if later is None:
            found.append(node.client.decode(request, version, output))
    return found


@pytest.mark.parametrize("feature", PROTOCOLS)
def test_groups_of_a_protocol_are_refused_until_its_feature_is_raised_and_when_it_is_lowered(
    feature: str,
) -> None:
    node = LonelyNode()
    refused = {ErrorCode.UNSUPPORTED_VERSION}

    def all_are_refused() -> bool:
        found = answered(node, feature)
        assert len(found) == len(PROTOCOLS[feature])
        return all(error_codes(one) == refused for one in found)

    assert all_are_refused()
    put(node, feature, 1)
    assert not any(error_codes(one) & refused for one in answered(node, feature))
    put(node, feature, 0)
    assert all_are_refused()


def test_a_refusal_says_what_to_raise() -> None:
    node = LonelyNode()
    refused = node.client.ask(*OF_SHARE_GROUPS[0])
    assert refused.error_message == (
        "The cluster has no share.version: raise it with `ottla cluster features`."
    )


def test_each_group_of_a_refused_description_is_named() -> None:
    node = LonelyNode()
    for request, version in (OF_CONSUMER_GROUPS[1], OF_SHARE_GROUPS[1], OF_SHARE_GROUPS[4]):
        assert [one.group_id for one in node.client.ask(request, version).groups] == ["g", "h"]


def test_the_features_tell_clients_which_protocols_a_cluster_has_and_requests_stay_listed() -> None:
    node = LonelyNode()

    def told() -> tuple[dict[str, int], set[int]]:
        request = ApiVersionsRequest(client_software_name="c", client_software_version="1")
        answer = node.client.ask(request, 4)
        levels = {one.name: one.max_version_level for one in answer.finalized_features}
        return levels, {one.api_key for one in answer.api_keys}

    levels, keys = told()
    assert {"group.version", "share.version"}.isdisjoint(levels)
    assert {request.API_KEY for request, _ in (*OF_CONSUMER_GROUPS, *OF_SHARE_GROUPS)} <= keys
    put(node, "group.version", 1)
    assert told()[0]["group.version"] == 1
    assert {*listed_apis(node.broker, "PLAINTEXT")} >= {(68, 0, 1), (69, 0, 1)}


def test_members_of_share_groups_begin_anew_after_a_cluster_had_none() -> None:
    node = LonelyNode()
    put(node, "share.version", 1)
    fetch, version = OF_SHARE_GROUPS[2]
    node.client.send(fetch, version)
    sessions = node.broker.shares.sessions
    sessions.check(SessionKey("g", "m"))
    put(node, "group.version", 1)
    assert len(sessions) == 1
    put(node, "share.version", 0)
    assert len(sessions) == 0
    put(node, "share.version", 1)
    assert node.client.ask(*OF_SHARE_GROUPS[3]).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_dead_letters_are_for_share_version_2() -> None:
    node = LonelyNode()
    settings = {"errors.deadletterqueue.topic.name": "dead"}
    node.broker.settings.groups.change("g", settings)
    kept = []
    for level in (1, 2):
        put(node, "share.version", level)
        kept.append(node.broker.shares.settings_of("g").limits.has_dead_letters)
    assert kept == [False, True]
