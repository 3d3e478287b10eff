"""Transactions: hanging ones first, then those of the coordinators; and the form to abort one."""

from ottla.base.errors import CorruptionError, UserError
from ottla.base.partitions import MAX_PARTITION
from ottla.base.texts import whole_number
from ottla.client.administration.admin import Admin
from ottla.client.administration.stuck import abort_by_id, find_hanging
from ottla.console.contents import visible
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.views.view import View, check_writes
from ottla.diagnosis.stuck import coordinators_on_disk, held_on_disk
from ottla.diagnosis.words.transactions import verdict_text, ways_out
from ottla.storage.diagnosis.open_transactions import (
    CoordinatedTransaction,
    CoordinatorView,
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
    """The transactions of one topic, or all open ones that coordinators know.

    A transaction that no coordinator knows hangs in a partition. Such transactions are looked up
    for a named topic, or in all topics with `everywhere=1`, because each partition must be asked.
    """
    topic = ask.query.get("topic", "").strip()
    is_everywhere = ask.query.get("everywhere") == "1"
    lost: list[str] = []
    if ask.place.has_broker:
        with ask.place.admin() as admin:
            view = admin.coordinator_view()
            judged = _open(admin, view, topic, ask.now_ms)
            if is_everywhere:
                known = {one.holding.identity for one in judged}
                judged += [
                    one
                    for one in find_hanging(admin, None, ask.now_ms)
                    if one.holding.identity not in known
                ]
    else:
        view, judged = _on_disk(ask, topic, lost)
    judged.sort(key=lambda one: (URGENCY[one.verdict], one.holding.last_timestamp_ms))
    listed = sorted(view.transactions, key=lambda one: (one.due_ms is None, one.transactional_id))
    return Page(
        template="transactions.html",
        title="Transactions",
        section="transactions",
        data={
            "topic": topic,
            "lost": [visible(line) for line in lost],
            "is_everywhere": is_everywhere or not ask.place.has_broker,
            "open": [_fields(one, ask) for one in judged],
            "stuck_count": sum(one.verdict in (Verdict.HANGING, Verdict.OVERDUE) for one in judged),
            "transactions": [_listed(one) for one in listed[:LISTED]],
            "count": len(listed),
            "is_complete": view.is_complete,
        },
    )


def _open(admin: Admin, view: CoordinatorView, topic: str, now_ms: int) -> list[Judged]:
    """Open transactions in the partitions that coordinators name, or in those of a topic."""
    places = {place for one in view.transactions for place in one.partitions}
    if topic:
        places = set(admin.places([topic]))
    holdings = admin.open_transactions(admin.existing(places)) if places else []
    return [judge(one, view, now_ms) for one in holdings]


def _on_disk(ask: Ask, topic: str, lost: list[str]) -> tuple[CoordinatorView, list[Judged]]:
    """What is sound; `lost` gets a line for each file that is not."""
    files = ask.place.files()
    assert files is not None
    view = coordinators_on_disk(files, lost.append)
    named = {place.topic for one in view.transactions for place in one.partitions}
    topics = [topic] if topic else sorted(named.intersection(files.topics))
    judged = []
    for name in topics:
        try:
            held = held_on_disk(files, name)
        except (CorruptionError, LostPartitionError) as error:
            lost.append(f"{error}; the open transactions of {name} are not shown")
            continue
        judged += [judge(one, view, ask.now_ms) for each in held for one in each.holdings]
    return view, judged


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


def abort(ask: Ask) -> Redirect:
    """Aborts by transactional id, or a hanging transaction by its place."""
    check_writes(ask)
    form = ask.form or {}
    name = form.get("transactional_id", "")
    with ask.place.changing() as cluster:
        admin = Admin(cluster)
        if name:
            return Redirect("/transactions", visible(abort_by_id(admin, name).text))
        topic = form.get("topic")
        partition = whole_number(form.get("partition", ""), MAX_PARTITION)
        offset = whole_number(form.get("first_offset", ""))
        if topic is None or partition is None or offset is None:
            raise UserError("name a transactional id, or topic, partition and offset")
        admin.abort_at(topic, partition, offset)
    return Redirect(
        "/transactions", f"the transaction in {topic}-{partition} from {offset} is aborted"
    )


VIEWS = {
    "/transactions": View(transactions),
    "/transactions/abort": View(lambda ask: abort(ask), takes_forms=True),
}
