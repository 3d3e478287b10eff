"""A fetch that waits while what its client may read is changed."""

from ottla.metadata.acls import Permission
from ottla.protocol.messages.fetch import FetchRequest
from tests.unit.server.authorization.judge import Judge
from tests.unit.server.authorization.record_rows import fetch_request
from tests.unit.server.authorization.row import TOPIC_DENIED, Op, T, acl, error_codes


def test_a_fetch_that_waits_brings_nothing_once_reading_is_denied() -> None:
    """Kafka's brings the records still: it asks the authorizer only when a request comes."""
    judge = Judge()
    assert judge.broker.security.authorizer is not None
    request = fetch_request(min_size=1000)
    judge.broker.security.authorizer.change([])
    assert TOPIC_DENIED in error_codes(judge.asker.ask(request, 13)), "a denied one does not wait"
    judge.broker.security.authorizer.change([acl((Op.READ, T))])
    later, _ = judge.asker.send(request, 13)
    assert later is not None
    judge.broker.security.authorizer.change([acl((Op.READ, T), Permission.DENY)])
    assert judge.broker.answers.take_answered(1e9) == [later.pending_id]
    assert TOPIC_DENIED in error_codes(judge.asker.finish(later, request, 13))


def test_a_session_that_was_begun_when_reading_was_allowed_is_refused_once_it_is_denied() -> None:
    judge = Judge()
    assert judge.broker.security.authorizer is not None
    judge.broker.security.authorizer.change([acl((Op.READ, T))])
    request = fetch_request()
    assert isinstance(request, FetchRequest)
    request.session_epoch = 0
    begun = judge.asker.ask(request, 13)
    assert begun.session_id
    assert error_codes(begun) == {0}

    def further(epoch: int) -> set[int]:
        request = FetchRequest(session_id=begun.session_id, session_epoch=epoch, topics=[])
        return error_codes(judge.asker.ask(request, 13))

    assert further(1) == {0}
    judge.broker.security.authorizer.change([acl((Op.READ, T), Permission.DENY)])
    for epoch in (2, 3):
        assert further(epoch) == {0, TOPIC_DENIED}, "each time, as what is new"
    judge.broker.security.authorizer.change([acl((Op.READ, T))])
    assert further(4) == {0}
