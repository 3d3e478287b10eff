"""When another node may be asked again."""

from ottla.quorum.messages import AskVersions
from ottla.quorum.peers import LONGEST_PAUSE, Peers

BACKOFF_MS = 20


def pauses(peers: Peers, count: int) -> list[float]:
    """How long each of some requests without an answer is followed by none, from 0 on."""
    found, now_ms = list[float](), 0.0
    for _ in range(count):
        assert peers.answered(peers.sent(2, AskVersions(), now_ms)) is not None
        peers.is_silent(2, now_ms)
        until_ms = peers.ready_ms(2) or now_ms
        assert not peers.is_ready(2, until_ms - 1)
        assert peers.is_ready(2, until_ms)
        found.append(until_ms - now_ms)
        now_ms = until_ms
    return found


def test_who_does_not_answer_is_asked_less_often_and_at_once_when_it_is_heard() -> None:
    peers = Peers(1000, BACKOFF_MS)
    assert pauses(peers, 7) == [20, 40, 60, 80, 100, 100, 100]
    peers.heard(2)
    assert peers.ready_ms(2) is None
    assert pauses(peers, 2) == [20, 40]


def test_another_state_asks_at_once_and_remembers_who_is_silent() -> None:
    peers = Peers(1000, BACKOFF_MS)
    pauses(peers, LONGEST_PAUSE)
    peers.forget_all()
    assert peers.is_ready(2, 0.0)
    assert pauses(peers, 1) == [100]


def test_a_refusal_is_an_answer() -> None:
    peers = Peers(1000, BACKOFF_MS)
    pauses(peers, 3)
    peers.pause(2, 500.0)
    assert peers.ready_ms(2) == 520.0
    peers.heard(2)
    assert peers.ready_ms(2) == 520.0, "what it has refused it would refuse again"
