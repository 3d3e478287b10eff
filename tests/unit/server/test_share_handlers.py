"""ShareFetch and ShareAcknowledge: sessions, records acquired, given back and finished."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.timestamps import Timestamps
from ottla.broker.quotas.quota_changes import QuotaAlteration
from ottla.coordinator.share.records_in_flight import AcknowledgeType, DeliveryState, ReturnReason
from ottla.metadata.quotas import quota_entity
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.record.batch import iter_batches
from ottla.server.dispatching.metering import Held
from tests.support.altering import alter_quota
from tests.support.brokers import NOW_MS, at, disk
from tests.support.log_transactions import Transactions
from tests.support.share_asking import Member, acquired, append, begin, errors, share_broker

GAP, ACCEPT, RELEASE, REJECT, RENEW = (int(one) for one in AcknowledgeType)
LOCK_MS = 30_000


def values(count: int) -> list[bytes]:
    return [b"value %d" % one for one in range(count)]


def two_members() -> tuple[Member, Member]:
    """Of a group whose topic has batches with offsets 0 to 4 and 5 to 9."""
    broker = share_broker()
    begin(broker)
    append(broker, *values(5))
    append(broker, *values(5))
    return Member(broker), Member(broker, "b")


def test_a_record_is_delivered_to_one_member_and_once_accepted_to_nobody() -> None:
    a, b = two_members()
    first = a.fetch()
    assert first.error_code == 0
    assert first.acquisition_lock_timeout_ms == LOCK_MS
    assert acquired(first) == [(0, 9, 1)]
    assert acquired(b.fetch()) == []
    assert errors(a.fetch([(0, 9, ACCEPT)])) == [(0, 0)]
    assert acquired(b.fetch()) == []
    append(a.broker, b"new")
    assert acquired(b.fetch()) == [(10, 10, 1)]


def test_whole_batches_are_sent_as_far_as_their_records_are_acquired() -> None:
    a, b = two_members()
    answer = a.fetch(max_records=3)
    assert acquired(answer) == [(0, 4, 1)]
    records = answer.responses[0].partitions[0].records
    assert [(one.base_offset, one.last_offset) for one in iter_batches(records)] == [(0, 4)]
    assert acquired(b.fetch()) == [(5, 9, 1)]


def test_no_more_records_than_asked_for_are_acquired_by_a_strict_fetch() -> None:
    a, b = two_members()
    assert acquired(a.fetch(max_records=3, share_acquire_mode=1)) == [(0, 2, 1)]
    assert acquired(b.fetch(batch_size=2)) == [(3, 4, 1), (5, 9, 1)]


def test_what_is_released_is_delivered_again_and_says_how_often() -> None:
    a, b = two_members()
    a.fetch()
    assert errors(a.fetch([(0, 1, ACCEPT), (2, 3, RELEASE), (4, 9, REJECT)], max_records=0)) == [
        (0, 0)
    ]
    assert acquired(b.fetch()) == [(2, 3, 2)]


@pytest.mark.parametrize("version", [1, 2])
def test_acknowledgements_alone_have_a_request_of_their_own(version: int) -> None:
    a, b = two_members()
    a.version = b.version = version
    a.fetch()
    answer = a.acknowledge((0, 3, ACCEPT), (4, 9, RELEASE))
    assert [answer.error_code, answer.responses[0].partitions[0].error_code] == [0, 0]
    assert acquired(b.fetch()) == [(4, 9, 2)]


def test_what_another_member_has_cannot_be_acknowledged() -> None:
    a, b = two_members()
    a.fetch()
    b.fetch()
    assert errors(b.fetch([(0, 0, ACCEPT)])) == [(0, ErrorCode.INVALID_RECORD_STATE)]
    answer = b.acknowledge((0, 0, ACCEPT))
    assert answer.responses[0].partitions[0].error_code == ErrorCode.INVALID_RECORD_STATE


def test_a_fetch_waits_for_new_records_and_for_released_ones() -> None:
    a, b = two_members()
    b.fetch(max_records=5)
    a.fetch()
    waiting = a.wait()
    assert waiting.answer() is None
    append(a.broker, b"new")
    assert acquired(waiting.answer()) == [(10, 10, 1)]
    waiting = a.wait()
    b.fetch([(0, 4, RELEASE)], max_records=0)
    assert acquired(waiting.answer()) == [(0, 4, 2)]


def test_a_fetch_is_answered_without_records_when_it_has_waited_long_enough() -> None:
    a, _ = two_members()
    a.fetch()
    waiting = a.wait()
    a.pass_to(499)
    assert waiting.answer() is None
    a.pass_to(500)
    assert waiting.answer().responses == []


def test_a_fetch_waits_for_as_many_bytes_as_it_wants() -> None:
    a, _ = two_members()
    a.fetch()
    waiting = a.wait(min_bytes=300)
    append(a.broker, b"x" * 20)
    assert waiting.answer() is None
    append(a.broker, b"x" * 300)
    assert acquired(waiting.answer()) == [(10, 11, 1)]


def test_a_lock_expires_and_can_be_renewed() -> None:
    a, b = two_members()
    a.fetch()
    b.fetch()
    a.pass_to(20_000)
    renewal = {"is_renew_ack": True, "max_bytes": 0, "min_bytes": 0, "max_records": 0}
    assert errors(a.fetch([(0, 4, RENEW)], **renewal)) == [(0, 0)]
    b.pass_to(29_900)
    waiting = b.wait()
    b.pass_to(LOCK_MS)
    assert acquired(waiting.answer()) == [(5, 9, 2)]
    waiting = b.wait()
    b.pass_to(30_400)
    b.pass_to(50_000)
    assert acquired(waiting.answer()) == [(0, 4, 2)]


def test_a_renewal_fetches_nothing_and_is_announced() -> None:
    a, _ = two_members()
    a.fetch()
    assert a.fetch([(0, 4, RENEW)]).error_code == ErrorCode.INVALID_REQUEST
    a.epoch -= 1
    assert a.fetch([(0, 4, RENEW)], is_renew_ack=True).error_code == ErrorCode.INVALID_REQUEST


def test_what_a_member_has_is_available_when_its_connection_ends() -> None:
    a, b = two_members()
    a.fetch()
    b.fetch()
    waiting = b.wait()
    a.hang_up()
    assert acquired(waiting.answer()) == [(0, 9, 2)]
    assert a.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_closed_session_gives_back_what_it_does_not_acknowledge() -> None:
    a, b = two_members()
    a.fetch()
    answer = a.acknowledge((0, 4, ACCEPT), share_session_epoch=-1)
    assert answer.responses[0].partitions[0].error_code == 0
    assert acquired(b.fetch()) == [(5, 9, 2)]
    assert a.acknowledge((5, 9, ACCEPT)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert errors(b.fetch([(5, 9, ACCEPT)], share_session_epoch=-1)) == [(0, 0)]


def test_sessions_go_on_with_the_next_epoch_and_begin_without_acknowledgements() -> None:
    a, b = two_members()
    assert a.fetch([(0, 0, ACCEPT)]).error_code == ErrorCode.INVALID_REQUEST
    assert a.fetch().error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    a.epoch = 0
    assert a.fetch().error_code == 0
    assert a.fetch(share_session_epoch=5).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert b.acknowledge((0, 0, ACCEPT)).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_a_broker_has_no_more_sessions_than_its_setting_says() -> None:
    broker = share_broker(group_share_max_share_sessions="1")
    begin(broker)
    assert Member(broker).fetch().error_code == 0
    refused = Member(broker, "b").fetch()
    assert refused.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


def test_a_request_names_its_group_and_its_member() -> None:
    a, _ = two_members()
    a.name = "x" * 37
    assert a.fetch().error_code == ErrorCode.INVALID_REQUEST
    assert a.acknowledge().error_code == ErrorCode.INVALID_REQUEST


def test_partitions_that_are_not_here_are_named() -> None:
    a, _ = two_members()
    answer = a.fetch(partitions=[7])
    assert errors(answer) == [(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)]
    a.broker.admin.delete_topic(a.broker.topics.get("t"))
    assert errors(a.fetch(partitions=[0])) == [(ErrorCode.UNKNOWN_TOPIC_ID, 0)] * 2


def test_partitions_take_turns_so_that_none_waits_for_the_others() -> None:
    broker = share_broker()
    begin(broker, partitions=2)
    for partition in (0, 1):
        append(broker, *values(5), partition=partition)
        append(broker, *values(5), partition=partition)
    a = Member(broker)
    answers = [a.fetch(partitions=[0, 1], max_records=1) for _ in range(4)]
    assert sorted(partition for one in answers for partition in (0, 1) if acquired(one, partition))
    assert [bool(acquired(one, 0)) for one in answers] in (
        [True, False, True, False],
        [False, True, False, True],
    )


def test_a_group_begins_at_the_end_unless_its_setting_says_otherwise() -> None:
    broker = share_broker()
    begin(broker, start_offset=-1)
    append(broker, *values(5))
    a = Member(broker)
    assert acquired(a.fetch()) == []
    append(broker, b"new")
    assert acquired(a.fetch()) == [(5, 5, 1)]


def test_a_group_may_begin_with_the_first_record() -> None:
    broker = share_broker()
    begin(broker, start_offset=-1)
    append(broker, *values(5))
    broker.settings.groups.change("g", {"share.auto.offset.reset": "earliest"})
    assert acquired(Member(broker).fetch()) == [(0, 4, 1)]


def test_a_restart_delivers_again_what_was_not_finished() -> None:
    file_system = disk("/d")
    broker = share_broker(file_system)
    begin(broker, start_offset=-1)
    a = Member(broker)
    a.fetch()
    append(broker, *values(10))
    assert acquired(a.fetch()) == [(0, 9, 1)]
    a.fetch([(0, 4, ACCEPT), (5, 6, RELEASE)], max_records=0)
    broker.close()
    again = Member(share_broker(file_system))
    waiting = again.wait()
    for monotonic_ms in range(0, 400, 50):  # The states are loaded in slices.
        again.pass_to(monotonic_ms)
    assert acquired(waiting.answer()) == [(5, 6, 2), (7, 9, 1)]


def test_people_are_told_where_each_record_is_and_why() -> None:
    a, b = two_members()
    a.fetch(max_records=5)
    b.fetch(max_records=5)
    a.fetch([(0, 0, ACCEPT), (1, 2, RELEASE)], max_records=0)
    b.hang_up()
    found = a.broker.shares.in_flight(
        "g", (a.topic_id, 0), Timestamps(now_ms=NOW_MS + 7, monotonic_ms=7.0)
    )
    assert [(one.first, one.last, one.state.name, one.member, one.reasons) for one in found] == [
        (1, 2, "AVAILABLE", "", (ReturnReason.RELEASED,)),
        (3, 4, "ACQUIRED", "a", ()),
        (5, 9, "AVAILABLE", "", (ReturnReason.MEMBER_LOST,)),
    ]
    assert found[1].since_ms == NOW_MS
    assert found[1].locked_until_ms == NOW_MS + LOCK_MS
    assert {one.topic for one in found} == {"t"}
    assert found[0].state is DeliveryState.AVAILABLE
    asked = DescribeProducersRequest(
        topics=[TopicRequest(name="t", partition_indexes=[0])], share_group_id="g"
    )
    told = a.asker.ask(asked, 0).topics[0].partitions[0]
    assert [(one.first_offset, one.member_id, one.reasons) for one in told.records_in_flight] == [
        (1, "", [ReturnReason.RELEASED]),
        (3, "a", []),
        (5, "", [ReturnReason.MEMBER_LOST]),
    ]
    assert a.broker.shares.in_flight("other", (a.topic_id, 0), at(0.0)) == []


def test_the_reasons_are_known_to_members_that_come_back_to_an_empty_group() -> None:
    a, _ = two_members()
    a.fetch()
    a.hang_up()
    a.epoch = 0
    assert acquired(a.fetch(max_records=5)) == [(0, 4, 2)]
    (first, rest) = a.broker.shares.in_flight("g", (a.topic_id, 0), at(0.0))
    assert first.reasons == rest.reasons == (ReturnReason.MEMBER_LOST,)


def test_what_an_admin_has_begun_anew_is_read_again_by_the_first_member() -> None:
    a, _ = two_members()
    a.fetch()
    a.fetch([(0, 9, ACCEPT)], max_records=0)
    a.hang_up()
    begin(a.broker, start_offset=3, epoch=2)
    a.epoch = 0
    assert acquired(a.fetch()) == [(3, 9, 1)]


def test_records_below_the_start_of_the_log_are_not_delivered() -> None:
    a, b = two_members()
    partition = a.broker.topics.get("t").partition(0)
    a.fetch(max_records=5)
    partition.log.maintenance.delete_records_before(7)
    assert acquired(b.fetch()) == [(7, 9, 1)]
    assert errors(a.fetch([(0, 4, RELEASE)])) == [(0, 0)]
    assert acquired(b.fetch()) == []


def with_transactions(isolation_level: str) -> Member:
    """A record each of an aborted transaction (0, its marker 1), of a committed one (2, 3), of an
    open one (4), and of none (5).
    """
    broker = share_broker()
    begin(broker)
    broker.settings.groups.change("g", {"share.isolation.level": isolation_level})
    log = Transactions(broker.topics.get("t").partition(0).log)
    log.write(1)
    log.end(1, is_commit=False)
    log.write(2)
    log.end(2, is_commit=True)
    log.write(3)
    append(broker, b"of none")
    return Member(broker)


def test_a_group_that_reads_committed_records_gets_no_others() -> None:
    a = with_transactions("read_committed")
    assert acquired(a.fetch()) == [(2, 2, 1)]
    waiting = a.wait()
    Transactions(a.broker.topics.get("t").partition(0).log).end(3, is_commit=False)
    append(a.broker, b"more of none")
    assert acquired(waiting.answer()) == [(5, 5, 1), (7, 7, 1)]


def test_a_group_that_reads_all_records_gets_no_markers() -> None:
    a = with_transactions("read_uncommitted")
    assert acquired(a.fetch()) == [(0, 0, 1), (2, 2, 1), (4, 5, 1)]


def test_what_was_delivered_often_comes_in_parts_and_at_last_is_given_up() -> None:
    broker = share_broker()
    begin(broker)
    append(broker, *values(8))
    a = Member(broker)
    sizes: list[int] = []
    while parts := acquired(a.fetch()):
        sizes.append(sum(last - first + 1 for first, last, _ in parts))
        a.fetch([(first, last, RELEASE) for first, last, _ in parts], max_records=0)
    deliveries = sum(sizes)
    assert deliveries == 8 * 5
    assert sizes[:3] == [8, 8, 8]
    assert max(sizes[3:]) < 8
    assert sizes[-1] == 1
    led = broker.shares.led.find("g", (a.topic_id, 0))
    assert led.machine.records.start == 8


def test_a_member_over_its_quota_gets_nothing_and_acquires_nothing() -> None:
    broker = share_broker()
    begin(broker)
    for _ in range(20):
        append(broker, b"x" * 1000)
    limits = {"consumer_byte_rate": 100.0}
    anybody = quota_entity({"client-id": None})
    alter_quota(broker, QuotaAlteration(names=anybody, limits=limits))
    a, b = Member(broker), Member(broker, "b")
    later, output = a.asker.send(a.fetch_request(max_records=15), 2)
    assert isinstance(later, Held), "the connection waits"
    first = a.asker.decode(a.fetch_request(), 2, output)
    assert first.throttle_time_ms > 0
    assert acquired(first)
    _, output = b.asker.send(b.fetch_request(max_wait_ms=500), 2)
    other = b.asker.decode(b.fetch_request(), 2, output)
    assert (other.error_code, acquired(other)) == (0, [])
    held = broker.shares.in_flight("g", (a.topic_id, 0), at(0.0))
    assert {one.member for one in held} == {"a"}
