"""The metrics of share groups: where they are in the partitions that this broker leads."""

from collections.abc import Iterator

from ottla.broker.broker import Broker
from ottla.cli.metrics.families import Families
from ottla.coordinator.share.records_in_flight import DeliveryState
from ottla.metadata.deciding.topic_rules import INTERNAL_TOPICS


def collect_share_groups(broker: Broker, families: Families) -> Iterator[None]:
    """In slices, as `collector.Steps`. A broker that no share group has used has none of these."""
    if broker.has_share_groups:
        families.add("ottla_share_group_rebalances", (), broker.share_groups.rebalance_count)
    if not broker.has_shares:
        return
    families.add("ottla_share_sessions", (), len(broker.shares.sessions))
    for led in list(broker.shares.led):
        topic, records = led.partition.topic, led.machine.records
        if not led.is_active or topic in INTERNAL_TOPICS:
            continue
        labels = (led.key.group_id, topic, str(led.partition.index))
        end = led.partition.log.high_watermark
        with_members = sum(
            run.count for run in records.runs() if run.state is DeliveryState.ACQUIRED
        )
        families.add("ottla_share_group_start_offset", labels, records.start)
        lag = max(0, end - records.start - records.complete_count)
        families.add("ottla_share_group_lag", labels, lag)
        families.add("ottla_share_group_records_in_flight", labels, with_members)
        yield
