"""Who may commit offsets of a group of the new protocol in a transaction (KIP-447, KIP-848)."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.base.timestamps import Timestamps
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import Member
from ottla.coordinator.decision import Draft
from ottla.coordinator.requests import MemberClaim

EPOCH = 3
DRAFT = Draft("g", Timestamps(now_ms=0, monotonic_ms=0.0))


@pytest.fixture
def group() -> ConsumerGroup:
    group = ConsumerGroup("g")
    group.members["m"] = Member(member_id="m", epoch=EPOCH)
    return group


def test_producers_of_old_do_not_say_for_which_member(group: ConsumerGroup) -> None:
    simple = MemberClaim(group_id="g")
    group.admit_commit(simple, DRAFT, is_transactional=True)
    with pytest.raises(ApiError) as refusal:
        group.admit_commit(simple, DRAFT, is_transactional=False)
    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_commits_in_its_epoch_alone(group: ConsumerGroup) -> None:
    for epoch in (EPOCH - 1, EPOCH, EPOCH + 1):
        claim = MemberClaim(group_id="g", member_id="m", generation=epoch)
        if epoch == EPOCH:
            group.admit_commit(claim, DRAFT, is_transactional=True)
            continue
        with pytest.raises(ApiError) as refusal:
            group.admit_commit(claim, DRAFT, is_transactional=True)
        assert refusal.value.code is ErrorCode.STALE_MEMBER_EPOCH
