"""Checks consumers' reads: skipped records, records that must not be read, and order."""

from collections import defaultdict
from collections.abc import Iterator

from ottla.testing.history.facts import Facts, OffsetSpan, SeenRead, TransactionOutcome
from ottla.testing.history.findings import Finding, FindingKind
from ottla.testing.history.operations import LogEnd, Operation, Outcome, Poll, Read, Send


def check_reads(facts: Facts) -> Iterator[Finding]:
    """All findings about reads."""
    yield from _lost_after_the_end(facts)
    yield from _skipped(facts)
    yield from _duplicates(facts)
    yield from _inconsistent_offsets(facts)
    for seen in facts.reads:
        yield from _wrong_read(facts, seen)
    for span in facts.spans:
        yield from _backward(span)


# Records that must have been read


def _lost_after_the_end(facts: Facts) -> Iterator[Finding]:
    ends: dict[str, list[LogEnd]] = defaultdict(list)
    for end in facts.of(LogEnd):
        ends[end.partition].append(end)
    for send in facts.acknowledged():
        shorter = next((end for end in ends[send.partition] if _is_without(end, send)), None)
        if shorter is not None:
            yield Finding(
                kind=FindingKind.LOST_WRITE,
                text=f"{_sent(send)}, but later {shorter.process} found the log end at offset "
                f"{shorter.offset}",
                operations=(send, shorter),
            )


def _is_without(end: LogEnd, send: Send) -> bool:
    """Whether the log ended below a record that had been acknowledged by then."""
    assert send.offset is not None
    return end.offset <= send.offset and send.ended is not None and send.ended < end.began


def _skipped(facts: Facts) -> Iterator[Finding]:
    lost: set[str] = set()
    torn: dict[tuple[str, str], list[tuple[Send, int, Poll]]] = defaultdict(list)
    for span in facts.spans:
        for offset, send in facts.known_between(span.partition, span.first, span.end):
            if offset in span.reads:
                continue
            if not facts.is_visible(send, to_committed=span.is_committed):
                continue
            poll = span.passed(offset)
            if _is_torn(facts, send, span):
                torn[send.transaction or "", span.process].append((send, offset, poll))
            elif any(facts.reads_of(send.value)):
                yield _skip(facts, send, offset, poll)
            elif send.value not in lost:
                lost.add(send.value)
                yield _lost(send, poll, span)
    for (name, process), missing in torn.items():
        yield _torn(facts, name, process, missing)


def _is_torn(facts: Facts, send: Send, span: OffsetSpan) -> bool:
    if send.transaction is None or not span.is_committed:
        return False
    if not any(facts.reads_of(send.value)):
        return facts.is_seen_committed(send.transaction)
    return any(
        seen.poll.process == span.process and seen.poll.is_committed
        for other in facts.transactions[send.transaction].sends
        for seen in facts.reads_of(other.value)
    )


def _lost(send: Send, poll: Poll, span: OffsetSpan) -> Finding:
    return Finding(
        kind=FindingKind.LOST_WRITE,
        text=f"{_sent(send)}, but {span.process} read from offset {span.first} up to "
        f"{span.end} without it, and nobody else saw it",
        operations=(send, poll),
    )


def _skip(facts: Facts, send: Send, offset: int, poll: Poll) -> Finding:
    seen = facts.reads_of(send.value)[0]
    return Finding(
        kind=FindingKind.POLL_SKIP,
        text=f"{poll.process} read past offset {offset} of {send.partition} without "
        f"{send.value!r}, which {seen.poll.process} read there",
        operations=(send, seen.poll, poll),
    )


def _torn(facts: Facts, name: str, process: str, missing: list[tuple[Send, int, Poll]]) -> Finding:
    seen = [
        one
        for send in facts.transactions[name].sends
        for one in facts.reads_of(send.value)
        if one.poll.is_committed
    ]
    first = next((one for one in seen if one.poll.process == process), seen[0])
    places = ", ".join(
        f"{send.value!r} at {send.partition} offset {offset}" for send, offset, _ in missing
    )
    operations: list[Operation] = [one for send, _, poll in missing for one in (send, poll)]
    return Finding(
        kind=FindingKind.TORN_TRANSACTION,
        text=f"of transaction {name}, {first.poll.process} read {_record(first.read)}, but "
        f"{process} read past {places}",
        operations=(*operations, first.poll),
    )


# Records that were read more than once


def _duplicates(facts: Facts) -> Iterator[Finding]:
    for value in {seen.read.value: None for seen in facts.reads}:
        by_place = {seen.place: seen for seen in facts.reads_of(value)}
        if len(by_place) > 1 and value in facts.sends:
            send = facts.sends[value]
            places = " and ".join(f"{name} offset {offset}" for name, offset in sorted(by_place))
            yield Finding(
                kind=FindingKind.DUPLICATE,
                text=f"{send.process} sent {value!r} once, and it was read at {places}",
                operations=(send, *(seen.poll for seen in by_place.values())),
            )


def _inconsistent_offsets(facts: Facts) -> Iterator[Finding]:
    for (partition, offset), found in facts.reads_by_place.items():
        by_value = {seen.read.value: seen for seen in found}
        if len(by_value) > 1:
            account = " and ".join(
                f"{one.poll.process} {one.read.value!r}" for one in by_value.values()
            )
            yield Finding(
                kind=FindingKind.INCONSISTENT_OFFSETS,
                text=f"at {partition} offset {offset}, {account} was read",
                operations=tuple(one.poll for one in by_value.values()),
            )
    for send in facts.acknowledged():
        assert send.offset is not None
        there = facts.reads_by_place.get((send.partition, send.offset), [])
        other = next((seen for seen in there if seen.read.value != send.value), None)
        if other is not None:
            yield Finding(
                kind=FindingKind.INCONSISTENT_OFFSETS,
                text=f"{_sent(send)}, but {other.poll.process} read {other.read.value!r} there",
                operations=(send, other.poll),
            )


# Records that must not be read


def _wrong_read(facts: Facts, seen: SeenRead) -> Iterator[Finding]:
    read, poll = seen.read, seen.poll
    send = facts.sends.get(read.value)
    account = f"{poll.process} read {_record(read)}"
    if send is None:
        yield _finding(FindingKind.UNSENT_READ, f"{account}, which nobody sent", poll)
    elif send.partition != read.partition:
        text = f"{account}, which {send.process} sent to {send.partition}"
        yield _finding(FindingKind.UNSENT_READ, text, send, poll)
    elif poll.ended is not None and poll.ended < send.began:
        text = f"{account} before {send.process} sent it"
        yield _finding(FindingKind.UNSENT_READ, text, send, poll)
    elif send.outcome is Outcome.FAIL:
        text = f"{account}, which {send.process} saw fail"
        yield _finding(FindingKind.ABORTED_READ, text, send, poll)
    elif send.transaction is not None and poll.is_committed:
        yield from _uncommitted_read(facts, send, seen)


def _uncommitted_read(facts: Facts, send: Send, seen: SeenRead) -> Iterator[Finding]:
    assert send.transaction is not None
    transaction, poll = facts.transactions[send.transaction], seen.poll
    account = f"{poll.process} read {_record(seen.read)} as committed"
    of = f"transaction {transaction.name} of {send.process}"
    if transaction.outcome is TransactionOutcome.ABORTED:
        text = f"{account}, but {of} was aborted"
        yield _finding(FindingKind.ABORTED_READ, text, send, *transaction.deciding_ends, poll)
        return
    began = transaction.first_commit_began
    if began is None:
        text = f"{account}, but nobody ever tried to commit {of}"
        yield _finding(FindingKind.DIRTY_READ, text, send, poll)
    elif poll.ended is not None and poll.ended < began:
        text = f"{account} before {of} was to be committed"
        yield _finding(FindingKind.DIRTY_READ, text, send, *transaction.deciding_ends, poll)


# Order


def _backward(span: OffsetSpan) -> Iterator[Finding]:
    for seen, stood in span.backward:
        text = (
            f"{span.process} was at offset {stood} of {span.partition}, and then read "
            f"{seen.read.value!r} at offset {seen.read.offset}"
        )
        earlier = span.reads.get(stood - 1)
        operations = (seen.poll,) if earlier in (None, seen.poll) else (earlier, seen.poll)
        yield _finding(FindingKind.NON_MONOTONIC_POLL, text, *operations)


# Texts


def _sent(send: Send) -> str:
    return f"{send.process} sent {send.value!r} to {send.partition} and got offset {send.offset}"


def _record(read: Read) -> str:
    return f"{read.value!r} at {read.partition} offset {read.offset}"


def _finding(kind: FindingKind, text: str, *operations: Operation) -> Finding:
    return Finding(kind=kind, text=text, operations=operations)
