"""What a consumer does about damage before the application hears of it."""

from ottla.base.partitions import TopicPartition
from ottla.client.administration.group_offsets import ReadUpTo
from ottla.client.consumer.delivery import RepeatedDamage

ORDERS = TopicPartition("orders", 0)


def test_damage_at_one_position_is_fetched_twice_more_each_time_the_application_asks() -> None:
    damage = RepeatedDamage()
    at_seven = [damage.may_end(ORDERS, ReadUpTo(7)) for _ in range(6)]
    assert at_seven == [True, True, False, True, True, False]
    assert damage.may_end(ORDERS, ReadUpTo(9))
