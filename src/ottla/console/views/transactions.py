"""Transactions: hanging ones first, then those of the coordinators; and the form to abort one."""

from collections.abc import Sequence
from dataclasses import replace

from ottla.base.errors import CorruptionError, UserError
from ottla.base.partitions import MAX_PARTITION, TopicPartition
from ottla.base.texts import whole_number
from ottla.base.times import second_text
from ottla.client.administration.admin import Admin
from ottla.client.administration.descriptions import ActiveProducer
from ottla.client.administration.group_resets import check_there
from ottla.client.administration.stuck import abort_by_id
from ottla.client.refusals import RefusedError
from ottla.console.changes import Change, Plan, propose
from ottla.console.commands import Command
from ottla.console.contents import visible
from ottla.console.pages import Ask, Fields, Page, Redirect, left_out
from ottla.console.views.view import View
from ottla.diagnosis.words.transactions import verdict_text, ways_out
from ottla.storage.diagnosis.open_transactions import (
    CoordinatedTransaction,
    CoordinatorView,
    Holding,
    Judged,
    Verdict,
    began_ms,
    judge,
)
from ottla.storage.reading.read_only_directory import LostPartitionError

URGENCY = {
    Verdict.HANGING: 0,
    Verdict.OVERDUE: 1,
    Verdict.UNKNOWN: 2,
    Verdict.OPEN: 3,
    Verdict.ENDING: 4,
}
LISTED = 200
"""The number of transactional ids on a page; open ones come first."""


def transactions(ask: Ask) -> Page:
    """The transactions of one topic, or all open ones in topics that coordinators know.

    A transaction that no coordinator knows hangs in a partition. Such transactions are looked up
    in all topics with `everywhere=1`, because each partition must be asked. Of damaged files what
    is sound is shown, and of a cluster what the brokers know that answer.
    """
    topic = ask.query.get("topic", "").strip()
    is_everywhere = ask.flag("everywhere")
    lost: list[str] = []
    with ask.place.reading(lost.append) as admin:
        view = _view(admin, lost)
        if topic or is_everywhere:
            topics = sorted(admin.partitions([topic] if topic else None))
        else:
            topics = sorted({place.topic for one in view.transactions for place in one.partitions})
        judged = [_with_begin(admin, one) for one in _judged(admin, view, topics, ask, lost)]
    judged.sort(key=lambda one: (URGENCY[one.verdict], one.holding.last_timestamp_ms))
    listed = sorted(view.transactions, key=lambda one: (one.due_ms is None, one.transactional_id))
    return Page(
        template="transactions.html",
        title="Transactions",
        section="transactions",
        data={
            "topic": topic,
            "lost": [visible(line) for line in lost],
            "is_everywhere": is_everywhere,
            "open": [_fields(one, ask) for one in judged],
            "stuck_count": sum(one.verdict in (Verdict.HANGING, Verdict.OVERDUE) for one in judged),
            "transactions": [_listed(one) for one in listed[:LISTED]],
            "count": len(listed),
            "is_complete": view.is_complete,
        },
    )


def _judged(
    admin: Admin, view: CoordinatorView, topics: Sequence[str], ask: Ask, lost: list[str]
) -> list[Judged]:
    """The open transactions of topics; `lost` gets a line for each topic that cannot be read."""
    judged = [judge(one, view, ask.now_ms) for one in _open(admin, topics, lost)]
    if all(one.verdict is not Verdict.HANGING for one in judged):
        return judged
    # One that began since the coordinators were asked seems to hang: they are asked again.
    view = _view(admin, lost)
    still = {one.identity for one in _open(admin, topics, [])}
    return [judge(one.holding, view, ask.now_ms) for one in judged if one.holding.identity in still]


def _view(admin: Admin, lost: list[str]) -> CoordinatorView:
    """What the brokers coordinate that answer; `lost` gets a line for each other."""
    return admin.coordinator_view(
        on_unreachable=left_out(lost, "the transactions that it coordinates are left out")
    )


def _open(admin: Admin, topics: Sequence[str], lost: list[str]) -> list[Holding]:
    try:
        if not topics:
            return []
        return admin.open_transactions(
            admin.existing_of(topics),
            on_unreachable=left_out(lost, "what is open in partitions that it leads is left out"),
        )
    except (CorruptionError, LostPartitionError) as error:
        if len(topics) > 1:
            return [one for each in topics for one in _open(admin, [each], lost)]
        lost.append(f"{error}; the open transactions of {topics[0]} are not shown")
        return []


def _with_begin(admin: Admin, one: Judged) -> Judged:
    """With the time of its first record, if no coordinator knows when it began."""
    if began_ms(one) is not None:
        return one
    place = TopicPartition(one.holding.topic, one.holding.partition)
    try:
        time_ms = admin.timestamp_at(place, one.holding.first_offset)
    except (CorruptionError, RefusedError):
        return one
    return replace(one, holding=replace(one.holding, began_ms=time_ms))


def _fields(one: Judged, ask: Ask) -> Fields:
    holding, coordinated = one.holding, one.coordinated
    return {
        "topic": holding.topic,
        "partition": holding.partition,
        "producer_id": holding.producer_id,
        "producer_epoch": holding.producer_epoch,
        "first_offset": holding.first_offset,
        "began_ms": began_ms(one),
        "last_timestamp_ms": holding.last_timestamp_ms,
        "verdict": one.verdict.value,
        "is_stuck": one.verdict in (Verdict.HANGING, Verdict.OVERDUE),
        "words": visible(verdict_text(one)),
        "transactional_id": coordinated and visible(coordinated.transactional_id),
        "due_ms": coordinated and coordinated.due_ms,
        "ways_out": [visible(line) for line in ways_out(one, ask.place.target.text)],
        "raw_id": coordinated and coordinated.transactional_id,
    }


def _listed(one: CoordinatedTransaction) -> Fields:
    return {
        "transactional_id": visible(one.transactional_id),
        "raw_id": one.transactional_id,
        "producer_id": one.producer_id,
        "producer_epoch": one.producer_epoch,
        "state": one.state,
        "timeout_ms": one.timeout_ms,
        "start_ms": one.start_ms if one.start_ms >= 0 else None,
        "due_ms": one.due_ms,
        "partitions": [f"{place[0]}-{place[1]}" for place in sorted(one.partitions)],
    }


def producers(ask: Ask) -> Page:
    """The producers with a producer id that have written to a partition, the latest first."""
    topic = ask.query.get("topic", "").strip()
    partition = ask.number("partition", 0, most=MAX_PARTITION)
    found: list[ActiveProducer] = []
    open_ids: dict[int, str] = {}
    lost: list[str] = []
    if topic:
        place = TopicPartition(topic, partition)
        with ask.place.reading(lost.append) as admin:
            check_there(admin, [place])
            found = list(admin.describe_producers([place])[place])
            open_ids = {
                one.producer_id: one.transactional_id for one in _view(admin, lost).transactions
            }
    found.sort(key=lambda one: (-one.last_timestamp_ms, one.producer_id))
    return Page(
        template="producers.html",
        title="Producers",
        section="transactions",
        data={
            "topic": topic,
            "partition": partition,
            "lost": [visible(line) for line in lost],
            "count": len(found),
            "producers": [
                {
                    "producer_id": one.producer_id,
                    "producer_epoch": one.producer_epoch,
                    "transactional_id": visible(open_ids.get(one.producer_id, "")),
                    "last_timestamp_ms": one.last_timestamp_ms,
                    "first_offset": one.transaction_start_offset,
                }
                for one in found[:LISTED]
            ],
        },
    )


def abort(ask: Ask) -> Page | Redirect:
    """Aborts by transactional id, or a hanging transaction by its place."""
    name = ask.fields.get("transactional_id", "")
    return propose(ask, _abort_by_id(ask, name) if name else _abort_at(ask))


def _abort_by_id(ask: Ask, name: str) -> Change:
    with ask.place.reading() as admin:
        (now,) = admin.describe_transactions([name])

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            return Redirect("/transactions", visible(abort_by_id(Admin(cluster), name).text))

    is_open = now.due_ms is not None
    aborted = "Its records are never read by consumers of committed records."
    return Change(
        title=f"Abort the transaction of {name}",
        lines=(
            aborted if is_open else f"Nothing is open to abort: its state is {now.state}.",
            "Its producer is fenced: it fails at its next request.",
        ),
        figures=_times(now),
        plan=Plan(("Topic", "#Partition"), sorted(now.partitions)),
        command=Command(verb=("transactions", "abort"), options=("--transactional-id", name)),
        button="Abort" if is_open else "Fence the producer",
        back="/transactions",
        section="transactions",
        deed=deed,
    )


def _times(one: CoordinatedTransaction) -> tuple[str, ...]:
    if one.due_ms is None:
        return ()
    return (
        f"It began at {second_text(one.start_ms)} UTC, and its coordinator aborts it at "
        f"{second_text(one.due_ms)} UTC unless its producer ends it.",
    )


def _abort_at(ask: Ask) -> Change:
    topic = ask.fields.get("topic")
    partition = whole_number(ask.fields.get("partition", ""), MAX_PARTITION)
    offset = whole_number(ask.fields.get("first_offset", ""))
    if topic is None or partition is None or offset is None:
        raise UserError("name a transactional id, or topic, partition and offset")
    place = TopicPartition(topic, partition)
    with ask.place.reading() as admin:
        check_there(admin, [place])
        judged = _judged_at(admin, place, offset, ask.now_ms)

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            Admin(cluster).abort_at(topic, partition, offset)
        done = f"the transaction in {topic}-{partition} from {offset} is aborted"
        return Redirect("/transactions", done)

    return Change(
        title=f"Abort the transaction in {topic}-{partition} from offset {offset}",
        lines=(
            "The marker is written to this partition only.",
            "Its records are never read by consumers of committed records.",
        ),
        warnings=() if judged is None else _doubts(judged),
        plan=None if judged is None else _plan_at(judged),
        problem="" if judged is not None else "No transaction is open there any more.",
        command=Command(
            verb=("transactions", "abort"),
            options=("-t", topic, "-p", str(partition), "--start-offset", str(offset)),
        ),
        button="Abort",
        back="/transactions",
        section="transactions",
        deed=deed,
    )


def _judged_at(admin: Admin, place: TopicPartition, offset: int, now_ms: int) -> Judged | None:
    found = [one for one in admin.open_transactions([place]) if one.first_offset == offset]
    return judge(found[0], admin.coordinator_view(), now_ms) if found else None


def _plan_at(judged: Judged) -> Plan:
    one = judged.holding
    last = "Last wrote (UTC)"
    row = (
        one.topic,
        one.partition,
        one.first_offset,
        f"{one.producer_id}/{one.producer_epoch}",
        second_text(one.last_timestamp_ms),
        verdict_text(judged),
    )
    columns = ("Topic", "#Partition", "#First offset", "Producer", last, "Why it is open")
    return Plan(columns, [row], passing=(last,))


def _doubts(judged: Judged) -> tuple[str, ...]:
    """Why a marker in one partition alone may be wrong."""
    if judged.verdict is Verdict.HANGING:
        return ()
    if judged.coordinated is None or judged.verdict is Verdict.UNKNOWN:
        return (
            "Whether a coordinator knows this transaction cannot be told. If one does, its other "
            "partitions may be committed.",
        )
    return (
        f"It does not hang: the coordinator of {judged.coordinated.transactional_id} knows it. "
        "Abort it by this id, in all its partitions.",
    )


VIEWS = {
    "/transactions": View(transactions),
    "/transactions/abort": View(abort, takes_forms=True),
    "/producers": View(producers),
}
