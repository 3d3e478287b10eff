"""Checks the offsets that producers got: a log grows only at its end."""

from collections import defaultdict
from collections.abc import Iterator

from ottla.testing.history.facts import Facts
from ottla.testing.history.findings import Finding, FindingKind
from ottla.testing.history.operations import Send


def check_sends(facts: Facts) -> Iterator[Finding]:
    """Checks that a later send has a larger offset: within a process in order of sending, between
    processes if one send was acknowledged before the other began.
    """
    by_partition: dict[str, list[Send]] = defaultdict(list)
    for send in facts.acknowledged():
        by_partition[send.partition].append(send)
    for sends in by_partition.values():
        yield from _in_partition(sends)


def _in_partition(sends: list[Send]) -> Iterator[Finding]:
    answered = sorted(
        (one for one in sends if one.ended is not None), key=lambda one: one.ended or 0
    )
    waiting = iter(answered)
    following = next(waiting, None)
    highest: Send | None = None
    of_process: dict[str, Send] = {}
    for send in sends:
        while following is not None and (following.ended or 0) < send.began:
            if highest is None or _offset(following) > _offset(highest):
                highest = following
            following = next(waiting, None)
        own = of_process.get(send.process)
        for earlier in (own, highest):
            if earlier is not None and _is_contradicted(earlier, send):
                yield _goes_back(earlier, send)
                break
        if own is None or _offset(own) < _offset(send):
            of_process[send.process] = send


def _is_contradicted(earlier: Send, later: Send) -> bool:
    return earlier.began < later.began and _offset(earlier) >= _offset(later)


def _offset(send: Send) -> int:
    return -1 if send.offset is None else send.offset


def _goes_back(earlier: Send, later: Send) -> Finding:
    return Finding(
        kind=FindingKind.NON_MONOTONIC_SEND,
        text=f"{later.process} sent {later.value!r} to {later.partition} and got offset "
        f"{later.offset}, after {earlier.process} had sent {earlier.value!r} and got offset "
        f"{earlier.offset}",
        operations=(earlier, later),
    )
