"""Brokers of a cluster that have not heard yet who else is in it."""

from collections.abc import Callable, Sequence
from itertools import count

import pytest

import ottla
from ottla.client.admin import Admin
from tests.support.answering_brokers import BROKERS, AnsweringBrokers

QUESTIONS = [Admin.describe_cluster, Admin.list_partition_reassignments]


def heard_after(looks: int) -> Callable[[int], Sequence[int]]:
    """They know nobody, not even themselves, when they are asked so often."""
    numbers = count(1)
    return lambda _: BROKERS if next(numbers) > looks else ()


@pytest.mark.parametrize("ask", QUESTIONS)
def test_a_broker_that_knows_no_brokers_yet_is_asked_again(
    ask: Callable[[Admin], object],
) -> None:
    ask(AnsweringBrokers(known=heard_after(3)).admin())


@pytest.mark.parametrize("ask", QUESTIONS)
def test_a_broker_that_never_hears_of_its_cluster_is_named(
    ask: Callable[[Admin], object],
) -> None:
    admin = AnsweringBrokers(known=lambda _: ()).admin()
    with pytest.raises(ottla.UserError, match="the broker knows no brokers of its cluster yet"):
        ask(admin)
