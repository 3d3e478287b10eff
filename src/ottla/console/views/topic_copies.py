"""A copy of a topic, which goes on in the background, and the runs of the jobs page."""

from collections.abc import Callable

from ottla.base.errors import RefusalError, UnknownNameError
from ottla.base.texts import size_text
from ottla.client.administration.admin import Admin
from ottla.console.changes import Begun, Change, Plan, propose, propose_by_form
from ottla.console.commands import Command
from ottla.console.contents import counted, segment, visible
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.runs import Run, RunState, new_run
from ottla.console.views.topic_changes import field_of, form_of
from ottla.console.views.topics import partition_sizes
from ottla.console.views.view import View
from ottla.mirror.topic_copy import (
    CopyPlan,
    CopyProgress,
    copy_records,
    create_copy,
    plan_topic_copy,
)


def copy(ask: Ask) -> Page | Redirect:
    """The name of the new topic, and what is copied."""
    name, new = ask.path["topic"], ask.fields.get("new", "").strip()
    form = form_of(name, f"Copy {name}", [field_of("new", "Name of the copy", new, f"{name}-copy")])
    return propose_by_form(ask, form, (lambda: _copy(ask, name, new)) if new else None)


def _copy(ask: Ask, name: str, new: str) -> Change:
    with ask.place.reading() as admin:
        plan = plan_topic_copy(admin, name, new)
        if ask.place.has_broker:
            create_copy(admin, plan, validate_only=True)
        indexes = [one.partition for one in plan.ranges]
        size = sum(partition_sizes(admin, {name: indexes}).values())

    def deed() -> Begun:
        run = new_run(
            title=f"Copy {name} to {new}",
            user=ask.place.user,
            path=f"/topics/{segment(new)}",
            begun_ms=ask.now_ms,
            total=plan.total,
            unit="offsets",
        )
        if ask.place.has_broker:
            # What the broker refuses is said now, and not on the jobs page.
            with ask.place.admin() as admin:
                create_copy(admin, plan)
            return Begun(run, lambda run: _with_broker(ask, plan, run))
        return Begun(run, lambda run: _at_rest(ask, plan, run))

    return Change(
        title=f"Copy {name} to {new}",
        lines=(
            f"{new} is created with {counted(len(indexes), 'partition')} of "
            f"{counted(plan.replication_factor, 'replica')} each, and the settings of {name}.",
            "Committed records are copied with their keys, values, headers, times and partitions; "
            "they get new offsets, and groups begin anew.",
            "The copy goes on in the background: its progress is on the jobs page, where it can be "
            "cancelled.",
        ),
        figures=(
            f"{name} has {counted(plan.total, 'offset')} in {size_text(size)} at this moment; "
            "what is written later is not copied.",
        ),
        plan=Plan(("Setting of both", "Value"), list(plan.settings.items())),
        command=Command(verb=("topics", "copy"), arguments=(name, new)),
        button=f"Copy to {new}",
        back=f"/topics/{segment(name)}",
        section="topics",
        topic=name,
        deed=deed,
    )


def _with_broker(ask: Ask, plan: CopyPlan, run: Run) -> str:
    with ask.place.cluster() as reader, ask.place.cluster() as writer:
        return _said(plan, copy_records(reader, writer, plan, _steps(run)))


def _at_rest(ask: Ask, plan: CopyPlan, run: Run) -> str:
    with ask.place.changing() as cluster:
        create_copy(Admin(cluster), plan)
        return _said(plan, copy_records(cluster, cluster, plan, _steps(run)))


def _steps(run: Run) -> Callable[[CopyProgress], None]:
    def on_progress(progress: CopyProgress) -> None:
        run.step(progress.offset_count)

    return on_progress


def _said(plan: CopyPlan, done: CopyProgress) -> str:
    what = counted(done.record_count, "record")
    return f"copied {what} ({size_text(done.size)}) of {plan.source} to {plan.target}"


# Runs


def run_fields(ask: Ask) -> list[Fields]:
    """The changes of this user that go on, or have ended since the console started."""
    return [
        {
            "id": one.id,
            "title": visible(one.title),
            "path": one.path,
            "begun_ms": one.begun_ms,
            "state": one.state.value,
            "is_running": one.state is RunState.RUNNING,
            "done": one.done,
            "total": one.total,
            "unit": one.unit,
            "said": visible(one.said),
        }
        for one in ask.state.runs.of(ask.place.user)
    ]


def cancel(ask: Ask) -> Page | Redirect:
    """Ends a run; what it has done stays."""
    name = ask.fields.get("run", "")
    known = {one.id: one for one in ask.state.runs.of(ask.place.user)}
    if name not in known:
        raise UnknownNameError("run", name, known)
    run = known[name]

    def deed() -> Redirect:
        if run.state is not RunState.RUNNING:
            raise RefusalError(f"{run.title}: it has ended: {run.said}")
        run.cancelled.set()
        return Redirect("/jobs", f"cancelled: {run.title}")

    return propose(
        ask,
        Change(
            title=f"Cancel: {run.title}",
            lines=("It ends after its present step. What it has done until then stays.",),
            command=None,
            button="Cancel it",
            back="/jobs",
            section="jobs",
            deed=deed,
        ),
    )


VIEWS = {
    "/topics/{topic}/copy": View(copy, takes_forms=True),
    "/jobs/cancel": View(cancel, takes_forms=True),
}
