"""How long a command waits for moves: until brokers that are asked show them."""

import pytest

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.cli.cluster import moves
from ottla.cli.cluster.moves import wait_for_moves
from tests.support.answering_brokers import AnsweringBrokers

OLD, NEW = (1, 2), (1, 3)
ORDERS = TopicPartition("orders", 0)


class SlowToHear:
    """Replicas of a partition as brokers know them: each is asked so often before it has heard."""

    def __init__(self, **looks: int) -> None:
        self.looks = {int(name[1:]): left for name, left in looks.items()}

    def __call__(self, broker: int) -> tuple[int, ...]:
        left = self.looks.get(broker, 0)
        self.looks[broker] = max(0, left - 1)
        return OLD if left else NEW


def test_moves_are_over_when_every_broker_shows_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "LOOK_S", 0)
    replicas = SlowToHear(b2=2, b3=1)
    wait_for_moves({ORDERS: NEW}, AnsweringBrokers(replicas).admin())
    assert replicas.looks == {1: 0, 2: 0, 3: 0}


def test_brokers_are_waited_for_as_long_as_they_hear_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(moves, "LOOK_S", 0)
    monkeypatch.setattr(moves, "HEARD_S", 0)
    replicas = SlowToHear(b1=1, b2=1, b3=1)
    wait_for_moves({ORDERS: NEW}, AnsweringBrokers(replicas).admin())
    assert replicas.looks == {1: 0, 2: 0, 3: 0}


def test_a_move_that_somebody_takes_back_is_not_waited_for_forever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(moves, "LOOK_S", 0)
    monkeypatch.setattr(moves, "HEARD_S", 0)
    admin = AnsweringBrokers(SlowToHear(b2=9)).admin()
    with pytest.raises(UserError, match="orders-0 is on 1,2, says broker 2: the move may have"):
        wait_for_moves({ORDERS: NEW}, admin)
