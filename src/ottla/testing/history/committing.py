"""Checks committed offsets against processed records and against restarts of groups."""

from collections import defaultdict
from collections.abc import Iterator

from ottla.base.values import dataclass
from ottla.testing.history.facts import Facts, Place, TransactionOutcome
from ottla.testing.history.findings import Finding, FindingKind
from ottla.testing.history.operations import (
    Assign,
    CommitOffsets,
    Crash,
    Operation,
    Outcome,
    Poll,
    Send,
)


def check_commits(facts: Facts) -> Iterator[Finding]:
    """All findings about committed offsets and the records produced from those below them."""
    commits = _commits_by_group(facts)
    yield from _ahead_of_polls(facts)
    yield from _wrong_starts(facts, commits)
    yield from _ahead_of_outputs(facts)
    yield from _processed_twice(facts)
    yield from _never_processed(facts, commits)


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed offset of one partition, with the time span in which the commit took effect."""

    offset: int
    began: int
    ended: int | None
    is_sure: bool
    operation: CommitOffsets


GroupPartition = tuple[str, str]


def _commits_by_group(facts: Facts) -> dict[GroupPartition, list[Committed]]:
    found: dict[GroupPartition, list[Committed]] = defaultdict(list)
    for commit in facts.of(CommitOffsets):
        if commit.outcome is Outcome.FAIL:
            continue
        is_sure, ended = commit.outcome is Outcome.OK, commit.ended
        if commit.transaction is not None:
            outcome = facts.outcome(commit.transaction)
            if outcome not in (TransactionOutcome.COMMITTED, TransactionOutcome.UNDECIDED):
                continue
            ends = facts.transactions[commit.transaction].deciding_ends
            is_sure = is_sure and outcome is TransactionOutcome.COMMITTED
            ended = ends[-1].ended if ends[-1].outcome is Outcome.OK else None
        for partition, offset in commit.offsets.items():
            one = Committed(offset, commit.began, ended if is_sure else None, is_sure, commit)
            found[commit.group, partition].append(one)
    return found


# Compared with polled records


def _ahead_of_polls(facts: Facts) -> Iterator[Finding]:
    standing: dict[str, dict[str, int]] = defaultdict(dict)
    committed_only: set[str] = set()
    for one in facts.history:
        if isinstance(one, Assign):
            standing[one.process] = {
                partition: position
                for partition, position in one.positions.items()
                if position is not None
            }
        elif isinstance(one, Crash):
            standing[one.process] = {}
        elif isinstance(one, Poll):
            if one.is_committed:
                committed_only.add(one.process)
            _move(standing[one.process], one)
        elif isinstance(one, CommitOffsets):
            is_committed = one.process in committed_only
            yield from _ahead_of_standing(facts, one, standing[one.process], is_committed)


def _move(places: dict[str, int], poll: Poll) -> None:
    ends = [(read.partition, read.offset + 1) for read in poll.records]
    for partition, end in (*ends, *poll.positions.items()):
        places[partition] = max(places.get(partition, 0), end)


def _ahead_of_standing(
    facts: Facts, commit: CommitOffsets, places: dict[str, int], is_committed: bool
) -> Iterator[Finding]:
    for partition, offset in commit.offsets.items():
        stands = places.get(partition)
        for at, send in facts.known_between(partition, stands, offset):
            if facts.is_visible(send, to_committed=is_committed):
                yield _mismatch(
                    f"{commit.process} committed offset {offset} of {partition} for group "
                    f"{commit.group}, but it had read only up to {stands}, without {send.value!r} "
                    f"at offset {at}",
                    send,
                    commit,
                )
                break


# Compared with where a group continues


def _wrong_starts(
    facts: Facts, commits: dict[GroupPartition, list[Committed]]
) -> Iterator[Finding]:
    for assign in facts.of(Assign):
        if assign.group is None:
            continue
        for partition, position in assign.positions.items():
            known = commits.get((assign.group, partition), [])
            if position is not None:
                yield from _wrong_start(assign, partition, position, known)


def _wrong_start(
    assign: Assign, partition: str, position: int, known: list[Committed]
) -> Iterator[Finding]:
    settled = [
        one for one in known if one.is_sure and one.ended is not None and one.ended < assign.began
    ]
    if not settled:
        return
    newest = max(one.began for one in settled)
    possible = [
        one
        for one in known
        if (assign.ended is None or one.began < assign.ended)
        and (one.ended is None or one.ended >= newest)
    ]
    if any(one.offset == position for one in possible):
        return
    expected = " or ".join(str(offset) for offset in sorted({one.offset for one in possible}))
    yield _mismatch(
        f"{assign.process} continued at offset {position} of {partition} for group {assign.group}, "
        f"which had committed {expected}",
        *(one.operation for one in possible),
        assign,
    )


# Compared with the records produced from the inputs


def _ahead_of_outputs(facts: Facts) -> Iterator[Finding]:
    for transaction in facts.transactions.values():
        for commit in transaction.commits:
            for send in transaction.sends:
                if send.source is None:
                    continue
                partition, at = send.source
                offset = commit.offsets.get(partition)
                if offset is not None and at >= offset:
                    yield _mismatch(
                        f"transaction {transaction.name} of {commit.process} produced "
                        f"{send.value!r} from {partition} offset {at}, but commits offset {offset}",
                        send,
                        commit,
                    )


def _processed_twice(facts: Facts) -> Iterator[Finding]:
    for group, outputs in _outputs_by_group(facts, TransactionOutcome.COMMITTED).items():
        for (partition, at), sends in outputs.items():
            by_transaction = {send.transaction: send for send in sends}
            if len(by_transaction) > 1:
                names = " and ".join(str(name) for name in by_transaction)
                yield Finding(
                    kind=FindingKind.DUPLICATE,
                    text=f"group {group} processed {partition} offset {at} in more than one "
                    f"committed transaction: {names}",
                    operations=tuple(by_transaction.values()),
                )


def _never_processed(
    facts: Facts, commits: dict[GroupPartition, list[Committed]]
) -> Iterator[Finding]:
    made = _outputs_by_group(facts, TransactionOutcome.COMMITTED, TransactionOutcome.UNDECIDED)
    for (group, partition), known in commits.items():
        sure = [one for one in known if one.is_sure and one.operation.transaction is not None]
        places = {at for name, at in made.get(group, {}) if name == partition}
        if not sure or not places:
            continue
        last = max(sure, key=lambda one: one.offset)
        first = min([*places, *_starts(facts, group, partition)])
        for at, send in facts.known_between(partition, first, last.offset):
            if at not in places and facts.is_visible(send, to_committed=True):
                yield _mismatch(
                    f"group {group} committed offset {last.offset} of {partition}, but no "
                    f"committed transaction has processed {send.value!r} at offset {at}",
                    send,
                    last.operation,
                )


def _starts(facts: Facts, group: str, partition: str) -> Iterator[int]:
    for assign in facts.of(Assign):
        position = assign.positions.get(partition)
        if assign.group == group and position is not None:
            yield position


def _outputs_by_group(
    facts: Facts, *outcomes: TransactionOutcome
) -> dict[str, dict[Place, list[Send]]]:
    found: dict[str, dict[Place, list[Send]]] = defaultdict(lambda: defaultdict(list))
    for transaction in facts.transactions.values():
        if facts.outcome(transaction.name) not in outcomes:
            continue
        for group in {commit.group for commit in transaction.commits}:
            for send in transaction.sends:
                if send.source is not None and send.outcome is not Outcome.FAIL:
                    found[group][send.source].append(send)
    return found


def _mismatch(text: str, *operations: Operation) -> Finding:
    return Finding(kind=FindingKind.COMMIT_MISMATCH, text=text, operations=operations)
