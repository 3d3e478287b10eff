"""Moves of replicas between brokers, and elections of preferred leaders, each with its preview."""

from collections.abc import Iterable, Sequence

from ottla.base.errors import UserError
from ottla.base.partitions import TopicPartition
from ottla.base.texts import matching, whole_number
from ottla.client.administration.admin import Admin
from ottla.client.administration.cluster_status import (
    ClusterStatus,
    PartitionStatus,
    cluster_status,
)
from ottla.client.administration.replica_plans import Move, broker_ids, plan_to
from ottla.console.changes import Change, Plan, is_of_brokers, propose
from ottla.console.commands import Command
from ottla.console.contents import counted
from ottla.console.pages import Ask, Fields, Page, QueryError, Redirect
from ottla.console.views.view import View

BACK = "/cluster"
COLUMNS = ("Topic", "#Partition", "Replicas", "New replicas")
MOST_REPLICAS = 32767


def reassign(ask: Ask) -> Page | Redirect:
    """The form; and, once it names topics, the plan of `ottla cluster reassign`."""
    fields = {name: ask.fields.get(name, "").strip() for name in ("topics", "to", "replicas")}
    problem = ""
    if fields["topics"]:
        try:
            return propose(ask, _reassignment(ask, fields))
        except UserError as error:
            if ask.form is not None or is_of_brokers(error):
                raise
            problem = str(error)
    return Page(
        template="reassign.html",
        title="Move partitions",
        section="cluster",
        data={**fields, "confirm": "", "problem": problem, "live": _live(ask)},
        status=400 if problem else 200,
    )


def _live(ask: Ask) -> list[int]:
    with ask.place.admin() as admin:
        return sorted(admin.describe_cluster().brokers)


def _reassignment(ask: Ask, fields: Fields) -> Change:
    patterns, to = fields["topics"].split(), fields["to"].replace(" ", "")
    with ask.place.admin() as admin:
        status = _status(admin, patterns)
    replicas = None
    if fields["replicas"]:
        replicas = whole_number(fields["replicas"], MOST_REPLICAS)
        if not replicas:
            raise QueryError("replicas", fields["replicas"], "a whole number from 1")
    moves = plan_to(status.partitions, broker_ids(to, status.live) if to else status.live, replicas)
    options = [*(("--to", to) if to else ()), *(("--replicas", str(replicas)) if replicas else ())]

    def deed() -> Redirect:
        with ask.place.admin() as admin:
            admin.alter_partition_reassignments({one.place: one.after for one in moves})
        return Redirect(BACK, f"{counted(len(moves), 'move')} begun")

    return Change(
        title="Move partitions",
        lines=(
            f"{len(moves):,} of {counted(len(status.partitions), 'partition')} get other replicas, "
            "the preferred leader first.",
            "Brokers copy in the background, without a limit of their rate; the page of the "
            "cluster shows how far they are, and cancels.",
        ),
        plan=Plan(COLUMNS, [_row(one) for one in moves]),
        problem="" if moves else "The partitions are on these brokers already.",
        command=Command(
            verb=("cluster", "reassign"),
            options=(*options, "--no-wait", "--yes"),
            arguments=tuple(patterns),
        ),
        button="Begin the moves",
        back=BACK,
        section="cluster",
        template="reassign.html",
        data={**fields, "live": status.live},
        deed=deed,
    )


def _status(admin: Admin, patterns: Sequence[str]) -> ClusterStatus:
    """The status of the topics with such names, or of all without patterns."""
    names = None
    if patterns:
        names = list(matching("topic", patterns, admin.list_topics(internal=True)))
    return cluster_status(admin, names, is_brief=True)


def _row(one: Move) -> tuple[str | int | None, ...]:
    return (*one.place, _text(one.before), _text(one.after))


def _text(brokers: Iterable[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"


def cancel(ask: Ask) -> Page | Redirect:
    """Ends the moves that are under way, all of them or those of topics."""
    patterns = ask.fields.get("topics", "").split()
    with ask.place.admin() as admin:
        status = _status(admin, patterns)
    moving = [one for one in status.partitions if one.reassignment is not None]

    def deed() -> Redirect:
        with ask.place.admin() as admin:
            admin.alter_partition_reassignments(dict.fromkeys(one.place for one in moving))
        return Redirect(BACK, f"{counted(len(moving), 'move')} cancelled")

    return propose(
        ask,
        Change(
            title="Cancel moves",
            lines=("The partitions stay on the replicas that they had; what was copied goes.",),
            plan=Plan(
                ("Topic", "#Partition", "To come", "To stay"),
                [_cancelled_row(one) for one in moving],
            ),
            problem="" if moving else "No partition is moving.",
            command=Command(
                verb=("cluster", "reassign"),
                options=("--cancel", "--yes"),
                arguments=tuple(patterns),
            ),
            button=f"Cancel {counted(len(moving), 'move')}",
            back=BACK,
            section="cluster",
            deed=deed,
        ),
    )


def _cancelled_row(one: PartitionStatus) -> tuple[str | int | None, ...]:
    assert one.reassignment is not None
    adding = one.reassignment.adding
    return (*one.place, _text(adding), _text(each for each in one.replicas if each not in adding))


def elect(ask: Ask) -> Page | Redirect:
    """Makes preferred replicas the leaders again, where they are in sync."""
    patterns = ask.fields.get("topics", "").split()
    with ask.place.admin() as admin:
        status = _status(admin, patterns)
    others = [one for one in status.partitions if one.leader != one.preferred_leader]
    ready = [one for one in others if one.preferred_leader in one.in_sync]
    places: list[TopicPartition] = [one.place for one in ready]

    def deed() -> Redirect:
        with ask.place.admin() as admin:
            admin.elect_leaders(places)
        return Redirect(BACK, f"{counted(len(places), 'leader')} elected")

    late = len(others) - len(ready)
    nothing = "Every partition is led by its preferred broker."
    if late:
        nothing = f"{counted(late, 'partition')}: the preferred broker is not in sync, so it waits."
    return propose(
        ask,
        Change(
            title="Elect preferred leaders",
            lines=("Clients go to the new leaders by themselves; nothing is copied.",),
            warnings=(nothing,) if late and ready else (),
            plan=Plan(
                ("Topic", "#Partition", "#Leader", "#New leader"),
                [(*one.place, one.leader, one.preferred_leader) for one in ready],
            ),
            problem="" if ready else nothing,
            command=Command(verb=("cluster", "elect"), arguments=tuple(patterns)),
            button=f"Elect {counted(len(places), 'leader')}",
            back=BACK,
            section="cluster",
            deed=deed,
        ),
    )


VIEWS = {
    "/cluster/reassign": View(reassign, takes_forms=True),
    "/cluster/cancel": View(cancel, takes_forms=True),
    "/cluster/elect": View(elect, takes_forms=True),
}
