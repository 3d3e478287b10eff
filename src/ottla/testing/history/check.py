"""`check(history)`: what is wrong with a history, as sentences that name the operations.

An empty answer is no proof: it says that Kafka's promises explain what was seen.
"""

from collections.abc import Iterable, Iterator

from ottla.testing.history.committing import check_commits
from ottla.testing.history.facts import Facts
from ottla.testing.history.findings import Finding, FindingKind
from ottla.testing.history.operations import Operation
from ottla.testing.history.reading import check_reads
from ottla.testing.history.sending import check_sends


def check(history: Iterable[Operation]) -> list[Finding]:
    """All that is wrong, in the order of `FindingKind`; operations may come in any order.

    Expects topics that neither retention nor compaction takes records from. A producer without
    `enable.idempotence` may duplicate and reorder what it tries again: leave those kinds out.
    Raises `UnusableHistoryError` for a history that cannot be judged.

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
