"""How long a command waits for moves: until brokers that are asked show them."""

import pytest

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.cli.cluster import moves
from ottla.cli.cluster.moves import wait_for_moves, wait_until_led
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


def test_who_was_elected_says_itself_that_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "LOOK_S", 0)
    monkeypatch.setattr(moves, "LED_S", 0)
    wait_until_led([ORDERS], AnsweringBrokers().admin())
    late = AnsweringBrokers(lambda _: (2, 1, 3)).admin()
    with pytest.raises(UserError, match="orders-0 is led by 1, says broker 2: what was elected"):
        wait_until_led([ORDERS], late)
    wait_until_led([ORDERS], late, is_unclean=True)


def test_an_elected_broker_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moves, "LOOK_S", 0)
    monkeypatch.setattr(moves, "LED_S", 0)
    brokers = AnsweringBrokers(lambda _: (2, 1, 3))
    brokers.down.add(2)
    with pytest.raises(UserError, match=r"orders-0 was to be led by broker 2.*nobody answers"):
        wait_until_led([ORDERS], brokers.admin())
