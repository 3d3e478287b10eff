"""What the leader of a partition asks of the settings of a share group."""

from collections.abc import Callable
from typing import Final, NamedTuple

from ottla.broker.configs.settings import BrokerSettings
from ottla.broker.shares.start_offsets import LATEST
from ottla.coordinator.share.records_in_flight import Limits
from ottla.metadata.cluster_view import ClusterView
from ottla.metadata.levels import SHARE_VERSION
from ottla.storage.log.offsets import Isolation

FIRST_WITH_DEAD_LETTERS: Final = 2
READ_COMMITTED: Final = "read_committed"


class ShareSettings(NamedTuple):
    """`limits` of deliveries and locks; where a partition begins that was never delivered
    (`share.auto.offset.reset`); which records are delivered (`share.isolation.level`); whether
    locks may be renewed (`share.renew.acknowledge.enable`); whether records say by headers when
    they are delivered (`ottla.share.scheduling.enable`).
    """

    limits: Limits = Limits()
    offset_reset: str = LATEST
    isolation: Isolation = Isolation.HIGH_WATERMARK
    may_renew: bool = True
    is_scheduled: bool = False


SettingsOf = Callable[[str], ShareSettings]
"""Returns the settings of a group, which need not exist."""


def share_settings(
    settings: BrokerSettings, view: Callable[[], ClusterView], group_id: str
) -> ShareSettings:
    """Those in effect: a cluster has dead letters from a level of `share.version` on."""
    config = settings.groups.of(group_id)
    is_committed = config.share_isolation_level == READ_COMMITTED
    return ShareSettings(
        limits=Limits(
            config.share_delivery_count_limit,
            config.share_record_lock_duration_ms,
            config.share_partition_max_record_locks,
            has_dead_letters=bool(config.errors_deadletterqueue_topic_name)
            and view().level(SHARE_VERSION) >= FIRST_WITH_DEAD_LETTERS,
        ),
        offset_reset=config.share_auto_offset_reset,
        isolation=Isolation.LAST_STABLE if is_committed else Isolation.HIGH_WATERMARK,
        may_renew=config.share_renew_acknowledge_enable,
        is_scheduled=config.ottla_share_scheduling_enable,
    )
