"""What works on the logs of a broker beside its clients. Kafka's counterpart: `LogManager`."""

from ottla.base.values import dataclass
from ottla.broker.log_jobs.cleaner import Cleaner
from ottla.broker.log_jobs.flushes import Flushes
from ottla.broker.log_jobs.jobs import Jobs
from ottla.broker.log_jobs.log_access import LogAccess
from ottla.broker.log_jobs.moves import Moves
from ottla.broker.log_jobs.retention import Retention
from ottla.broker.topics.removals import SegmentRemovals


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LogJobs:
    """`access` says which of them a log may be given to; `periodic` are run at intervals."""

    access: LogAccess
    retention: Retention
    cleaner: Cleaner
    moves: Moves
    flushes: Flushes
    segment_removals: SegmentRemovals
    periodic: Jobs
