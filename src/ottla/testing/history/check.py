"""`check(history)` returns violations, as sentences that name the operations.

An empty result is not a proof: it only means that Kafka's guarantees explain the history.
"""

from collections.abc import Iterable, Iterator

from ottla.testing.history.committing import check_commits
from ottla.testing.history.facts import Facts
from ottla.testing.history.findings import Finding, FindingKind
from ottla.testing.history.operations import Operation
from ottla.testing.history.reading import check_reads
from ottla.testing.history.sending import check_sends


def check(history: Iterable[Operation]) -> list[Finding]:
    """Returns violations in the order of `FindingKind`; operations may be in any order.

    Retention and compaction must not have removed records. A producer without
    `enable.idempotence` may duplicate and reorder retried records: ignore those kinds.
    Raises `UnusableHistoryError` for a history that cannot be checked.

    >>> from ottla.testing.history import Outcome, Poll, Read, Send, check
    >>> sent = Send(process="p", began=1, ended=2, partition="orders-0", value="a",
    ...             outcome=Outcome.OK, offset=0)
    >>> read = Poll(process="c", began=3, ended=4, records=(Read("orders-0", 0, "a"),))
    >>> check([sent, read])
    []
    """
    order = list(FindingKind)
    return sorted(_findings(Facts(history)), key=lambda one: order.index(one.kind))


def _findings(facts: Facts) -> Iterator[Finding]:
    yield from check_reads(facts)
    yield from check_sends(facts)
    yield from check_commits(facts)
