"""A change as a value: what its preview shows, and the deed. Every write of the console is one.

    def delete(ask: Ask) -> Page | Redirect:
        change = Change(
            title="Delete topic orders",
            lines=("The topic is deleted with its 3 partitions.",),
            command=Command(verb=("topics", "delete"), options=("--yes",), arguments=("orders",)),
            typed="orders",
            section="topics",
            back="/topics",
            deed=lambda: ...,
        )
        return propose(ask, change)

A view makes the change anew for each request, from the request's fields and the cluster. It is
carried out if the form brings the confirmation of exactly this preview, and is shown otherwise.
"""

import json
import logging
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from itertools import compress
from typing import Any

from ottla.base.errors import OttlaError, RefusalError, UnreachableError, UserError
from ottla.base.values import dataclass
from ottla.client.connecting.cluster import PASSING
from ottla.client.connecting.connection import ADDRESS_HINT
from ottla.client.connecting.security import AuthenticationError
from ottla.client.refusals import DENIALS, RefusedError
from ottla.console.access import FORM_TOKEN_FIELD
from ottla.console.audit import AuditEntry, Outcome
from ottla.console.commands import Command
from ottla.console.confirming import Confirmed
from ottla.console.contents import visible
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.runs import Run, RunState, Work

logger = logging.getLogger(__name__)

CONFIRM_FIELD, TYPED_FIELD, SECRET_FIELD, AGAIN_FIELD = "confirm", "typed", "secret", "again"
_NOT_OF_THE_CHANGE = (
    FORM_TOKEN_FIELD, CONFIRM_FIELD, TYPED_FIELD, SECRET_FIELD, AGAIN_FIELD, "done", "format",
)  # fmt: skip
SHOWN_VISITOR = 8
Cell = str | int | None
NOTHING_SHOWN: Fields = {
    "lines": [], "figures": [], "warnings": [], "plan": None, "command": "", "typed": "",
    "secret": "", "button": "", "problem": "", "fields": {}, "confirm": "", "back": "",
}  # fmt: skip
"""The data of a page that has only the form."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A table of what changes: the columns' titles, those of numbers with `#` before them.

    `passing` are columns that may be others when it is carried out, such as a lag.
    """

    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]
    passing: tuple[str, ...] = ()

    def decisive(self) -> list[list[Cell]]:
        """The rows without the columns that are passing."""
        lasting = [one not in self.passing for one in self.columns]
        return [list(compress(row, lasting)) for row in self.rows]

    def fields(self) -> Fields:
        return {
            "columns": [
                {"title": one.removeprefix("#"), "is_number": one.startswith("#")}
                for one in self.columns
            ],
            "rows": [
                [visible(cell) if isinstance(cell, str) else cell for cell in row]
                for row in self.rows
            ],
        }


@dataclass(frozen=True, slots=True)
class Begun:
    """A deed that takes a while, which goes on in a thread; its `run` is on the jobs page."""

    run: Run
    work: Work


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A write. What a person confirms is `title`, `lines`, `warnings`, `plan` and `command`; if one
    of them is another at the confirmation, it is shown again.
    """

    title: str
    """What is done, as an order: `Delete topic orders`."""
    deed: "Callable[[], Redirect | Begun]"
    """Carries it out; returns the page that shows it, and what was done as a sentence."""
    command: Command | None
    """`None` for a change of the console itself."""
    back: str
    """The page for who does not confirm."""
    section: str
    lines: tuple[str, ...] = ()
    """What will happen, a sentence each."""
    figures: tuple[str, ...] = ()
    """What is so at this moment, such as sizes. They may be others when it is carried out."""
    warnings: tuple[str, ...] = ()
    plan: Plan | None = None
    typed: str = ""
    """For a change that loses something: the name that the person types to confirm."""
    secret: str = ""
    """The label of a password that is typed twice with the confirmation. It is in no page, command
    or line of the audit log: the deed takes it of `secret_of`.
    """
    button: str = ""
    """The words of the button; by default the title."""
    fields: Mapping[str, str] | None = None
    """The fields that make this change again; by default those of the request. With them a change
    holds on to what was shown: `to=1500` for the `to=end` of the request.
    """
    problem: str = ""
    """Why it cannot be carried out now; there is then no button."""
    topic: str | None = None
    template: str = "change.html"
    """One that extends `change.html`, with a form above the preview."""
    data: Fields = field(default_factory=dict)
    """More data for the template."""


def propose(ask: Ask, change: Change) -> Page | Redirect:
    """Carries out a change that the request confirms; shows the preview of another.

    Raises what the deed raises, after the audit log has it.
    """
    if ask.form is None or not (given := ask.form.get(CONFIRM_FIELD, "")):
        return _preview(ask, change)
    if change.problem:
        return _preview(ask, change, change.problem, 409)
    if _typable(ask.form.get(TYPED_FIELD, "")) != (name := _typable(change.typed)):
        return _preview(ask, change, f"Type {name} to confirm.", 400)
    if change.secret and (problem := _secret_problem(ask)):
        return _preview(ask, change, problem, 400)
    verdict = ask.state.confirmations.take(ask.visitor, _shown(ask, change), given)
    if verdict is not Confirmed.YES:
        return _preview(ask, change, verdict.value, 409)
    return _carry_out(ask, change)


def to_type(name: str) -> str:
    """What is typed to confirm the loss of what has a name: the name, if a person can type it."""
    return name if name.isprintable() and name.strip() == name else "delete"


def secret_of(ask: Ask) -> str:
    """The password that was typed with a confirmation."""
    return (ask.form or {}).get(SECRET_FIELD, "")


def _secret_problem(ask: Ask) -> str:
    if not secret_of(ask):
        return "Type the password."
    is_same = secret_of(ask) == (ask.form or {}).get(AGAIN_FIELD, "")
    return "" if is_same else "The two passwords are not the same. Type them again."


def propose_by_form(ask: Ask, form: Page, make: Callable[[], Change] | None) -> Page | Redirect:
    """As `propose`, for a change whose form is above its preview, and shows what is wrong with it.

    `form` is the page with the form alone; `make` is `None` if nothing is filled in.
    """
    problem = ""
    if make is not None:
        try:
            change = make()
        except UserError as error:
            if is_of_brokers(error):
                raise
            problem = str(error)
        else:
            data = form.data | change.data
            return propose(ask, replace(change, template=form.template, data=data))
    data = NOTHING_SHOWN | form.data | {"title": form.title, "problem": visible(problem)}
    return replace(form, data=data, status=400 if problem else 200)


def is_of_brokers(error: UserError) -> bool:
    """Whether the fields of a form can be right, and brokers do not answer, or not this user."""
    if isinstance(error, RefusedError):
        return error.code in DENIALS or error.code in PASSING
    return isinstance(error, (UnreachableError, AuthenticationError))


def _preview(ask: Ask, change: Change, problem: str = "", status: int = 200) -> Page:
    can_confirm = not ask.state.is_read_only and not change.problem
    confirm = ask.state.confirmations.new(ask.visitor, _shown(ask, change)) if can_confirm else ""
    data: Fields = {
        "title": visible(change.title),
        "lines": [visible(one) for one in change.lines],
        "figures": [visible(one) for one in change.figures],
        "warnings": [visible(one) for one in change.warnings],
        "plan": None if change.plan is None else change.plan.fields(),
        "command": _command(ask, change),
        "typed": _typable(change.typed),
        "secret": change.secret,
        "button": visible(change.button or change.title),
        "problem": visible(problem or change.problem),
        "fields": dict(_fields(ask, change)),
        "confirm": confirm,
        "back": change.back,
    }
    return Page(
        template=change.template,
        title=visible(change.title),
        section=change.section,
        topic=change.topic,
        data=change.data | data,
        status=status,
    )


def _fields(ask: Ask, change: Change) -> Mapping[str, str]:
    fields = ask.fields if change.fields is None else change.fields
    return {name: text for name, text in fields.items() if name not in _NOT_OF_THE_CHANGE}


def _typable(name: str) -> str:
    """A name as a person reads and types it, in one line."""
    return " ".join(visible(name).split())


def _command(ask: Ask, change: Change) -> str:
    return "" if change.command is None else change.command.text(ask.place.command_words)


def _shown(ask: Ask, change: Change) -> bytes:
    """What a confirmation is for: all that decides what is done."""
    plan = None if change.plan is None else change.plan.decisive()
    decisive: list[Any] = [
        dict(ask.path), sorted(_fields(ask, change).items()), change.title, change.lines,
        change.warnings, plan, _command(ask, change), change.typed,
    ]  # fmt: skip
    return json.dumps(decisive).encode()


def _carry_out(ask: Ask, change: Change) -> Redirect:
    """Does it between two lines of the audit log; without the first it is not done."""
    entry = AuditEntry(
        id=secrets.token_hex(8),
        at_ms=ask.now_ms,
        outcome=Outcome.BEGUN,
        user=ask.place.user,
        visitor=ask.visitor[:SHOWN_VISITOR],
        address=ask.address,
        target=ask.place.target.text,
        title=change.title,
        command=_command(ask, change),
    )
    ask.state.audit.add(entry)
    try:
        found = change.deed()
    except Exception as error:
        outcome = Outcome.REFUSED if _is_refusal(error) else Outcome.FAILED
        said = str(error) if isinstance(error, (OttlaError, OSError)) else type(error).__name__
        _add_outcome(ask, replace(entry, outcome=outcome, said=said))
        if isinstance(error, UnreachableError):
            raise _in_doubt(change, error) from error
        raise
    if isinstance(found, Begun):
        return _go_on(ask, entry, found)
    _add_outcome(ask, replace(entry, outcome=Outcome.DONE, said=found.done))
    return found


def _in_doubt(change: Change, error: UnreachableError) -> UnreachableError:
    """A broker that does not answer may have what it was sent, and do it later."""
    reason = str(error).removesuffix(ADDRESS_HINT)
    return UnreachableError(
        f"{change.title}: {reason}. It is not known whether this was done: look before you do it "
        "again"
    )


def _go_on(ask: Ask, entry: AuditEntry, begun: Begun) -> Redirect:
    """Does the rest in a thread, whose end is the change's outcome."""

    def add_end(state: RunState, said: str) -> None:
        outcome = Outcome.DONE if state is RunState.DONE else Outcome.FAILED
        _add_outcome(ask, replace(entry, outcome=outcome, said=said))

    ask.state.runs.begin(begun.run, begun.work, add_end)
    return Redirect("/jobs", f"begun: {begun.run.title}")


def _is_refusal(error: Exception) -> bool:
    return isinstance(error, (RefusedError, RefusalError)) and not isinstance(
        error, UnreachableError
    )


def _add_outcome(ask: Ask, entry: AuditEntry) -> None:
    """The change has happened, or has not: what the page says does not depend on this line."""
    try:
        ask.state.audit.add(replace(entry, at_ms=ask.state.now_ms()))
    except OttlaError as error:
        logger.error("%s: %s: %s", entry.outcome.value, entry.title, error)
