"""Who may commit offsets of a group of the new protocol in a transaction (KIP-447, KIP-848)."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.coordinator.classic.requests import MemberClaim
from ottla.coordinator.consumer.group import ConsumerGroup
from ottla.coordinator.consumer.member import Member

EPOCH = 3


@pytest.fixture
def group() -> ConsumerGroup:
    group = ConsumerGroup("g")
    group.members["m"] = Member(member_id="m", epoch=EPOCH)
    return group


def test_producers_of_old_do_not_say_for_which_member(group: ConsumerGroup) -> None:
    simple = MemberClaim(group_id="g")
    group.check_commit(simple, is_transactional=True)
    with pytest.raises(ApiError) as refusal:
        group.check_commit(simple)
    assert refusal.value.code is ErrorCode.UNKNOWN_MEMBER_ID


def test_a_member_commits_in_its_epoch_alone(group: ConsumerGroup) -> None:
    for epoch in (EPOCH - 1, EPOCH, EPOCH + 1):
        claim = MemberClaim(group_id="g", member_id="m", generation=epoch)
        if epoch == EPOCH:
            group.check_commit(claim, is_transactional=True)
            continue
        with pytest.raises(ApiError) as refusal:
            group.check_commit(claim, is_transactional=True)
        assert refusal.value.code is ErrorCode.STALE_MEMBER_EPOCH
