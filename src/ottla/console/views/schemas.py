"""The schema registry: subjects, versions and differences, compatibility levels, and writes."""

from collections.abc import Iterator
from dataclasses import replace
from difflib import SequenceMatcher
from itertools import chain
from urllib.parse import urlencode

from ottla.base.errors import RefusalError, UnknownNameError, UserError
from ottla.base.texts import size_text, whole_number
from ottla.console.changes import Change, propose
from ottla.console.commands import Command
from ottla.console.contents import WHOLE_SIZE, counted, shown, visible
from ottla.console.pages import Ask, Fields, Page, QueryError, Redirect
from ottla.console.views.view import View
from ottla.schema_registry.administration import (
    NewSchema,
    Reference,
    RegistryAdmin,
    SubjectVersion,
    open_admin,
)
from ottla.schema_registry.registry import KINDS, LEVELS, PROTOBUF

PER_PAGE = 100
SIDES = ("-value", "-key")
MOST_LINES = 4000
"""Of a schema that is compared line by line: the time grows with their square."""
LATEST = 0
NO_SIGNED_IN = (
    "People sign in to this console as users of the broker, whom the registry does not know: "
    "change it with a client of its own"
)


def _admin(ask: Ask) -> RegistryAdmin:
    registry = ask.place.target.decodings.registry
    if registry is None:
        raise RefusalError("this console has no registry; ottla console --registry URL names one")
    return open_admin(registry)


def subjects(ask: Ask) -> Page:
    """The subjects, and the global compatibility level."""
    data: Fields = {"has_registry": ask.place.target.decodings.registry is not None}
    if data["has_registry"]:
        data |= _subjects(ask, _admin(ask))
    return Page(template="schemas.html", title="Schemas", section="schemas", data=data)


def _subjects(ask: Ask, admin: RegistryAdmin) -> Fields:
    wanted, shows_deleted = ask.query.get("q", "").strip(), ask.flag("deleted")
    live = admin.subjects()
    names = admin.subjects(with_deleted=True) if shows_deleted else live
    found = [one for one in names if wanted.lower() in one.lower()]
    pages = max(1, -(-len(found) // PER_PAGE))
    number = ask.number("page", 1, least=1, most=pages)
    listed = set(live)
    return {
        "address": visible(admin.address),
        "subjects": [
            {
                "name": name,
                "shown": visible(name),
                "topic": _topic_of(name),
                "is_deleted": name not in listed,
            }
            for name in found[(number - 1) * PER_PAGE : number * PER_PAGE]
        ],
        "count": len(found),
        "page_number": number,
        "page_count": pages,
        "q": wanted,
        "shows_deleted": shows_deleted,
        "level": visible(admin.level()[0]),
        "levels": list(LEVELS),
        "can_write": _can_write(ask, admin),
    }


def _topic_of(subject: str) -> str:
    """The topic by the usual names of subjects; empty for another name."""
    return next((subject.removesuffix(one) for one in SIDES if subject.endswith(one)), "")


def _can_write(ask: Ask, admin: RegistryAdmin) -> bool:
    return admin.can_write and not ask.state.is_read_only and not ask.place.target.has_sign_in


def subject(ask: Ask) -> Page:
    """One subject, with one of its versions; the latest by default."""
    admin, name = _admin(ask), _name(ask)
    live = _live_versions(admin, name)
    numbers = admin.versions(name, with_deleted=True) if admin.can_write else live
    number = _wanted(ask, "version", numbers, default=(live or numbers)[-1])
    found = admin.version(name, number)
    level, is_own = admin.level(name)
    return Page(
        template="schema.html",
        title=f"Schema {visible(name)}",
        section="schemas",
        data={
            **_version_fields(found),
            "name": name,
            "shown": visible(name),
            "topic": _topic_of(name),
            "versions": [
                {"number": one, "is_deleted": one not in live} for one in reversed(numbers)
            ],
            "is_deleted": number not in live,
            "earlier": max((one for one in numbers if one < number), default=None),
            "referenced_by": admin.referenced_by(name, number),
            "level": visible(level),
            "is_own_level": is_own,
            "levels": list(LEVELS),
            "can_write": _can_write(ask, admin),
            "address": visible(admin.address),
        },
    )


def _name(ask: Ask) -> str:
    name = ask.fields.get("subject", "")
    if not name:
        raise QueryError("subject", "", "the name of a subject")
    return name


def _live_versions(admin: RegistryAdmin, name: str) -> list[int]:
    """The versions that are not deleted; raises `UnknownNameError` for an unknown subject."""
    if name in admin.subjects():
        return admin.versions(name)
    known = admin.subjects(with_deleted=True)
    if name not in known:
        raise UnknownNameError("subject", visible(name), map(visible, known))
    return []


def _wanted(ask: Ask, name: str, numbers: list[int], default: int) -> int:
    number = ask.number(name, default)
    if number not in numbers:
        known = ", ".join(map(str, numbers[-20:]))
        raise QueryError(name, str(number), f"one of {known}")
    return number


def _version_fields(found: SubjectVersion) -> Fields:
    return {
        "number": found.version,
        "id": found.schema_id,
        "kind": visible(found.kind),
        "schema": shown(_pretty(found).encode("utf-8", "backslashreplace"), WHOLE_SIZE),
        "text": found.text[:WHOLE_SIZE],
        "references": [
            {"name": visible(one.name), "subject": one.subject, "version": one.version}
            for one in found.references
        ],
    }


def _pretty(found: SubjectVersion) -> str:
    """The text with one thing a line; Protobuf as it was written."""
    if found.kind == PROTOBUF:
        return found.text
    return str(shown(found.text.encode("utf-8", "replace"), WHOLE_SIZE, is_pretty=True)["text"])


def compare(ask: Ask) -> Page:
    """The lines in which two versions differ."""
    admin, name = _admin(ask), _name(ask)
    numbers = admin.versions(name, with_deleted=True)
    new = _wanted(ask, "to", numbers, default=numbers[-1])
    old = _wanted(ask, "from", numbers, default=max([one for one in numbers if one < new] or [new]))
    lines = _difference(admin.version(name, old), admin.version(name, new))
    return Page(
        template="schema_compare.html",
        title=f"Versions {old} and {new} of {visible(name)}",
        section="schemas",
        data={
            "name": name,
            "shown": visible(name),
            "versions": numbers,
            "from": old,
            "to": new,
            "difference": _difference_fields(lines),
        },
    )


def _difference(old: SubjectVersion, new: SubjectVersion) -> list[tuple[str, str]] | None:
    """Lines with `+`, `-` or a space; `None` if the schemas are too large to compare."""
    before, after = _pretty(old).splitlines(), _pretty(new).splitlines()
    if max(len(before), len(after)) > MOST_LINES:
        return None
    found: list[tuple[str, str]] = []
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for kind, low, high, start, end in matcher.get_opcodes():
        if kind == "equal":
            found += [(" ", line) for line in before[low:high]]
        else:
            found += [("-", line) for line in before[low:high]]
            found += [("+", line) for line in after[start:end]]
    return found


def _difference_fields(lines: list[tuple[str, str]] | None) -> Fields:
    signs = [sign for sign, _ in lines or ()]
    return {
        "is_too_large": lines is None,
        "lines": [{"sign": sign, "text": visible(line)} for sign, line in lines or ()],
        "added": signs.count("+"),
        "removed": signs.count("-"),
    }


# Writes


def _refusal(ask: Ask, admin: RegistryAdmin) -> str:
    """Why nothing is written here; empty if it may be."""
    if not admin.can_write:
        return f"{admin.address} is a directory of schemas: change its files"
    return NO_SIGNED_IN if ask.place.target.has_sign_in else ""


def _command(
    admin: RegistryAdmin, verb: str, *words: str, text: str | None = None, **options: object
) -> Command:
    """A command on the registry; a login is not shown."""
    pairs = ((f"--{name}", value) for name, value in options.items() if value not in (None, False))
    given = [[name] if value is True else [name, str(value)] for name, value in pairs]
    return Command(
        verb=("schemas", verb),
        target=(admin.address,),
        options=tuple(chain.from_iterable(given)),
        arguments=words,
        input=text,
    )


def _page_of(name: str, **more: object) -> str:
    return f"/schema?{urlencode({'subject': name, **more})}"


def register(ask: Ask) -> Page | Redirect:
    """The form for a new version; then whether it is compatible, and what it changes."""
    admin = _admin(ask)
    fields = {one: ask.fields.get(one, "") for one in ("subject", "kind", "schema", "references")}
    problem = _refusal(ask, admin)
    if ask.form is not None and not problem:
        try:
            return propose(ask, _registration(ask, admin))
        except RefusalError as error:
            problem = str(error)  # an invalid schema, which the form still has
        except QueryError as error:
            problem = str(error)
    elif ask.form is None and fields["subject"] and not fields["schema"]:
        fields |= _latest_fields(admin, fields["subject"])
    return Page(
        template="schema_register.html",
        title="Register a schema",
        section="schemas",
        data={
            "fields": fields,
            "kinds": list(KINDS),
            "problem": visible(problem),
            "address": visible(admin.address),
        },
        status=400 if problem and ask.form is not None else 200,
    )


def _latest_fields(admin: RegistryAdmin, name: str) -> dict[str, str]:
    """The latest version, to change it."""
    numbers = admin.versions(name) if name in admin.subjects() else []
    if not numbers:
        return {}
    found = admin.version(name, numbers[-1])
    references = [f"{one.name} {one.subject} {one.version}" for one in found.references]
    return {"kind": found.kind, "schema": _pretty(found), "references": "\n".join(references)}


def _registration(ask: Ask, admin: RegistryAdmin) -> Change:
    name, schema = _name(ask), _new_schema(ask)
    faults = admin.faults(name, schema)
    level, _ = admin.level(name)
    same = None if faults else admin.find(name, schema)
    numbers = admin.versions(name) if name in admin.subjects() else []
    lines = [f"The {schema.kind} schema is compatible with subject {name}, whose level is {level}."]
    data: Fields = {"faults": [visible(one) for one in faults], "before": None}
    problem = ""
    if faults:
        lines = []
        problem = f"The schema is not compatible: the level of subject {name} is {level}."
    elif same is not None:
        lines.append(f"It is version {same.version} already, with id {same.schema_id}.")
        problem = "There is nothing to register."
    elif not numbers:
        lines.append("The subject is new: this is its version 1.")
    if numbers:
        before = admin.version(name, numbers[-1])
        after = SubjectVersion(
            subject=name, version=0, schema_id=None, text=schema.text, kind=schema.kind
        )
        difference = _difference_fields(_difference(before, after))
        data |= {"before": before.version, "difference": difference}
    return Change(
        title=f"Register a version of {name}",
        lines=tuple(lines),
        command=_registering(admin, name, schema),
        button="Register",
        back=_page_of(name) if numbers else "/schemas",
        section="schemas",
        problem=problem,
        template="schema_change.html",
        data=data,
        deed=lambda: _register(admin, name, schema),
    )


def _registering(admin: RegistryAdmin, name: str, schema: NewSchema) -> Command:
    command = _command(admin, "register", name, "-", text=schema.text, type=schema.kind)
    uses = [f"{one.name}={one.subject}:{one.version}" for one in schema.references]
    more = chain.from_iterable(("--reference", one) for one in uses)
    return replace(command, options=(*command.options, *more))


def _new_schema(ask: Ask) -> NewSchema:
    text = ask.fields.get("schema", "").replace("\r\n", "\n").strip()
    if not text:
        raise QueryError("schema", "", "the text of a schema")
    if len(text) > WHOLE_SIZE:
        raise QueryError("schema", "...", f"a text of at most {size_text(WHOLE_SIZE)}")
    kind = ask.choice("kind", KINDS)
    return NewSchema(text=text, kind=kind, references=tuple(_references(ask)))


def _references(ask: Ask) -> Iterator[Reference]:
    for line in filter(None, map(str.strip, ask.fields.get("references", "").splitlines())):
        words = line.rsplit(maxsplit=2)
        version = whole_number(words[-1], (1 << 31) - 1)
        if len(words) != 3 or version is None:
            raise QueryError("references", line, "a line each: NAME SUBJECT VERSION")
        yield Reference(words[0], words[1], version)


def _register(admin: RegistryAdmin, name: str, schema: NewSchema) -> Redirect:
    schema_id = admin.register(name, schema)
    return Redirect(_page_of(name), f"registered with id {schema_id}")


def level(ask: Ask) -> Page | Redirect:
    """Sets the compatibility level of a subject or of all, or removes a subject's own."""
    admin, name = _admin(ask), ask.fields.get("subject", "") or None
    of = "all subjects without one of their own" if name is None else f"subject {name}"
    levels = LEVELS if name is None else (*LEVELS, GLOBAL)
    wanted = ask.choice("level", ("", *levels))
    if not wanted:
        raise QueryError("level", "", f"one of {', '.join(levels)}")
    before, is_own = admin.level(name)
    after = None if wanted == GLOBAL else wanted
    lines = [f"The compatibility level of {of} is {before}{'' if is_own else ', the global one'}."]
    if after is None:
        lines.append(f"It becomes the global one, {admin.level()[0]}.")
    else:
        lines.append(f"It becomes {after}: {MEANINGS[after]}.")
    is_same = before == after and is_own if after is not None else not is_own
    options: Fields = {"unset": True} if after is None else {"set": after}
    return propose(
        ask,
        Change(
            title=f"Set the compatibility level of {of}",
            lines=tuple(lines),
            warnings=(WITHOUT_CHECKS,) if after == "NONE" else (),
            command=_command(admin, "level", subject=name, **options),
            button="Set the level",
            back="/schemas" if name is None else _page_of(name),
            section="schemas",
            problem=_refusal(ask, admin) or ("There is nothing to change." if is_same else ""),
            deed=lambda: _set_level(admin, name, after),
        ),
    )


GLOBAL = "global"
WITHOUT_CHECKS = "Nothing is checked: a new version may be unreadable to consumers."
MEANINGS = {
    "NONE": "any schema may follow",
    "BACKWARD": "a new schema must read what the latest one wrote",
    "BACKWARD_TRANSITIVE": "a new schema must read what all versions wrote",
    "FORWARD": "the latest version must read what a new schema writes",
    "FORWARD_TRANSITIVE": "all versions must read what a new schema writes",
    "FULL": "a new schema and the latest version must read each other's data",
    "FULL_TRANSITIVE": "a new schema and all versions must read each other's data",
}


def _set_level(admin: RegistryAdmin, name: str | None, after: str | None) -> Redirect:
    admin.set_level(name, after)
    path = "/schemas" if name is None else _page_of(name)
    return Redirect(path, f"the level is {after or 'the global one'} now")


def delete(ask: Ask) -> Page | Redirect:
    """Deletes a version or a subject: softly at first, then for good."""
    admin, name = _admin(ask), _name(ask)
    is_permanent = ask.flag("permanent")
    live = _live_versions(admin, name)
    known = admin.versions(name, with_deleted=True)
    number = ask.number("version", LATEST) or None
    if number is not None and number not in known:
        raise QueryError("version", str(number), f"one of {', '.join(map(str, known))}")
    going = [one for one in known if number in (None, one) and (is_permanent or one in live)]
    found = [admin.version(name, one) for one in going]
    uses = sorted({use for one in going for use in admin.referenced_by(name, one)})
    what = f"subject {name}" if number is None else f"version {number} of {name}"
    problem = _refusal(ask, admin) or _undeletable(going, live, uses, is_permanent=is_permanent)
    return propose(
        ask,
        Change(
            title=f"Delete {what}{' for good' if is_permanent else ''}",
            lines=tuple(_deletion_lines(found, is_permanent=is_permanent)),
            warnings=(FOR_GOOD,) if is_permanent else (),
            command=_command(
                admin, "delete", name, version=number, permanent=is_permanent, yes=True
            ),
            typed=name if is_permanent else "",
            back=_page_of(name),
            section="schemas",
            problem=problem,
            deed=lambda: _delete(admin, name, number, is_permanent=is_permanent),
        ),
    )


FOR_GOOD = (
    "Records that name a schema by its id can no longer be decoded if no other subject has it."
)


def _undeletable(going: list[int], live: list[int], uses: list[int], *, is_permanent: bool) -> str:
    if uses:
        return f"It is referenced by {counted(len(uses), 'schema')}, with id {_listed(uses)}."
    if not going:
        return "It is deleted already; it can be deleted for good."
    if is_permanent and set(going) & set(live):
        return "It is not deleted yet: first delete it, then delete it for good."
    return ""


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers[:20])) + (" and others" if len(numbers) > 20 else "")


def _deletion_lines(found: list[SubjectVersion], *, is_permanent: bool) -> Iterator[str]:
    for one in found[:20]:
        yield f"Version {one.version}, {one.kind} with id {one.schema_id}, is deleted."
    if len(found) > 20:
        yield f"So are {counted(len(found) - 20, 'other version')}."
    if found and not is_permanent:
        yield "Records that name it can still be decoded, until it is deleted for good."


def _delete(admin: RegistryAdmin, name: str, number: int | None, *, is_permanent: bool) -> Redirect:
    admin.delete(name, number, is_permanent=is_permanent)
    done = f"{visible(name)} is deleted" if number is None else f"version {number} is deleted"
    try:
        is_there = name in admin.subjects(with_deleted=True)
    except UserError:
        is_there = False
    return Redirect(_page_of(name) if is_there else "/schemas", done)


VIEWS = {
    "/schemas": View(subjects),
    "/schema": View(subject),
    "/schema/compare": View(compare),
    "/schema/register": View(register, takes_forms=True),
    "/schema/level": View(level, takes_forms=True),
    "/schema/delete": View(delete, takes_forms=True),
}
