"""Access rules: the list, rules to add and to remove, and the question who may do what."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from itertools import groupby
from urllib.parse import urlencode

from ottla.base.errors import UnknownNameError, UserError
from ottla.client.administration.acl_rulings import (
    NOT_KNOWN,
    OPEN_WITHOUT_RULES,
    AccessSettings,
    Answer,
    Question,
    administrators,
    alters,
    ask_access,
    judge,
    question_of,
    settings_shown,
)
from ottla.client.administration.acl_words import (
    ANY_PRINCIPAL,
    OPTIONS,
    RESOURCES,
    ROLES,
    AclWords,
    acl_fields,
    operation_name,
    operations_of,
    resource_options,
)
from ottla.client.administration.admin import Admin
from ottla.client.administration.security_values import AclBinding, AclBindingFilter
from ottla.console.changes import Change, Plan, is_of_brokers, propose, to_type
from ottla.console.commands import Command
from ottla.console.contents import counted, visible
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.views.access import SECTION, absence_of, paged, principal_of
from ottla.console.views.view import View

BY_PRINCIPAL, BY_RESOURCE = "principal", "resource"
PATTERNS = ("literal", "prefixed")
PERMISSIONS = ("allow", "deny")
MOST_SHOWN = 500
"""The number of rules in a preview; the others are counted."""
COLUMNS = ("Permission", "Principal", "Host", "Operation", "Resource", "Name", "Pattern")
LABELS = {
    "topic": "Topic",
    "group": "Group",
    "transactional_id": "Transactional id",
    "cluster": "Cluster",
    "delegation_token": "Delegation token",
    "owner": "Owner of tokens",
}
EVERY_OPERATION = list(
    dict.fromkeys(one for kind in RESOURCES.values() for one in operations_of(kind))
)


def acls(ask: Ask) -> Page:
    """All rules, or those of a principal or with a text, by principal or by resource."""
    by = ask.choice("by", (BY_PRINCIPAL, BY_RESOURCE))
    principal, wanted = ask.query.get("principal", ""), ask.query.get("q", "").strip()
    found: list[AclBinding] = []
    absence = ""
    with ask.place.reading() as admin:
        try:
            found = admin.describe_acls(AclBindingFilter(principal=principal or None))
        except UserError as error:
            absence = absence_of(error)
    if wanted:
        text = wanted.lower()
        found = [one for one in found if text in one.principal.lower() or text in one.name.lower()]
    key = _principal_key if by == BY_PRINCIPAL else _resource_key
    found.sort(key=lambda one: (*key(one), *_order(one)))
    shown, pages = paged(ask, found)
    return Page(
        template="acls.html",
        title="ACLs",
        section=SECTION,
        data={
            "by": by,
            "principal": principal,
            "q": wanted,
            "absence": absence,
            "has_broker": ask.place.has_broker,
            "groups": [
                {"title": visible(_title(by, rules[0])), **_group_fields(by, rules)}
                for rules in (list(each) for _, each in groupby(shown, key))
            ],
            **pages,
        },
    )


def _principal_key(one: AclBinding) -> tuple[str, ...]:
    return (one.principal,)


def _resource_key(one: AclBinding) -> tuple[str, ...]:
    return (one.resource_type, one.name, one.pattern_type)


def _order(one: AclBinding) -> tuple[str, ...]:
    """As the rules' own order, which is slow for 100,000 of them."""
    return (
        one.resource_type,
        one.name,
        one.pattern_type,
        one.principal,
        one.host,
        one.operation,
        one.permission,
    )


def _title(by: str, one: AclBinding) -> str:
    if by == BY_PRINCIPAL:
        return one.principal
    name = f"{one.name}*" if one.pattern_type == "PREFIXED" else one.name
    return f"{_label(one)} {name}" if one.resource_type != "CLUSTER" else "The cluster"


def _label(one: AclBinding) -> str:
    option = OPTIONS.get(one.resource_type)
    return one.resource_type.lower() if option is None else LABELS[option]


def _group_fields(by: str, rules: Sequence[AclBinding]) -> Fields:
    first = rules[0]
    of_all: dict[str, str] = {"principal": first.principal, "all": "1"}
    if by == BY_RESOURCE and first.resource_type not in OPTIONS:
        of_all = {}
    elif by == BY_RESOURCE:
        of_all = {"principal": ANY_PRINCIPAL, **_resource_query(first)}
    return {
        "remove": f"/acls/remove?{urlencode(of_all)}" if of_all else "",
        "rules": [{**_rule_fields(one), "remove": _removal_path(one)} for one in rules],
    }


def _rule_fields(one: AclBinding) -> Fields:
    fields = {name: visible(text) for name, text in acl_fields(one).items()}
    return {**fields, "label": _label(one)}


def _resource_query(one: AclBinding) -> dict[str, str]:
    option = OPTIONS[one.resource_type]
    name = "1" if option == "cluster" else one.name
    return {option: name, "pattern": one.pattern_type.lower()}


def _removal_path(one: AclBinding) -> str:
    """Empty for a rule of a later Kafka, which no filter can name."""
    if one.resource_type not in OPTIONS or "UNKNOWN" in (one.operation, one.permission):
        return ""
    query = {
        "principal": one.principal,
        "operations": one.operation.lower(),
        **_resource_query(one),
        "host": one.host,
        "permission": one.permission.lower(),
    }
    return f"/acls/remove?{urlencode(query)}"


# Changes


def words_of(ask: Ask) -> AclWords:
    """What a form says; raises `UserError`."""
    fields = ask.fields
    resources = {option: fields[option] for option in RESOURCES if fields.get(option)}
    named = fields.get("operations", "").replace(",", " ").split()
    chosen = [one for one in (*EVERY_OPERATION, "ALL") if fields.get(f"op_{one}")]
    role, permission = fields.get("role", ""), fields.get("permission", "")
    if role and role not in ROLES:
        raise UserError(f"role={role}: a role is {' or '.join(ROLES)}")
    if permission and permission not in PERMISSIONS:
        raise UserError(f"permission={permission}: a permission is {' or '.join(PERMISSIONS)}")
    return AclWords(
        principal=fields.get("principal", ""),
        resources=resources,
        operations=tuple(dict.fromkeys(map(operation_name, (*named, *chosen)))),
        role=role or None,
        is_prefixed=fields.get("pattern") == "prefixed",
        host=fields.get("host", "").strip() or None,
        permission=permission.upper() or None,
        is_anything=fields.get("all") == "1",
    )


def add(ask: Ask) -> Page | Redirect:
    """The form; and, once it names a principal, the rules that would be added."""
    status, problem = 200, ""
    if ask.fields.get("principal") and ask.fields.get("edit") != "1":
        try:
            return propose(ask, _addition(ask, words_of(ask)))
        except UserError as error:
            if ask.form is not None or is_of_brokers(error):
                raise
            status, problem = 400, str(error)
    return Page(
        template="acls_add.html",
        title="Add ACLs",
        section=SECTION,
        status=status,
        data={
            "problem": problem,
            "given": _given(ask),
            "labels": LABELS,
            "operations": [*EVERY_OPERATION, "ALL"],
            "roles": list(ROLES),
        },
    )


def _given(ask: Ask) -> Fields:
    """The fields of the forms, as they were written."""
    names = ("principal", "host", "role", "permission", "pattern", "operations", "all", *RESOURCES)
    boxes = (f"op_{one}" for one in (*EVERY_OPERATION, "ALL"))
    return {name: ask.query.get(name, "") for name in (*names, *boxes)}


def _addition(ask: Ask, words: AclWords) -> Change:
    words = _with_operations_checked(words)
    wanted = words.bindings()
    with ask.place.reading() as admin:
        there = set(admin.describe_acls(AclBindingFilter(principal=words.principal)))
        new = [one for one in wanted if one not in there]
        warnings = _lockouts(ask, admin, lambda rules: [*rules, *new]) + _closing(ask, admin, new)

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            Admin(cluster).create_acls(wanted)
        query = urlencode({"principal": words.principal})
        return Redirect(f"/acls?{query}", f"{counted(len(new), 'ACL')} added")

    return Change(
        title=f"Add {counted(len(new), 'ACL')} of {words.principal}",
        warnings=tuple(warnings),
        plan=Plan(
            (*COLUMNS, "Note"),
            [(*_cells(one), "is there already" if one in there else "") for one in wanted],
        ),
        command=Command(
            verb=("acls", "add"), options=_without_allow(words), arguments=words.arguments
        ),
        button=f"Add {counted(len(new), 'ACL')}",
        problem="" if new else "All of these ACLs are there already.",
        back="/acls",
        section=SECTION,
        deed=deed,
    )


def _with_operations_checked(words: AclWords) -> AclWords:
    known = [*EVERY_OPERATION, "ALL"]
    for one in words.operations:
        if one not in known:
            raise UnknownNameError("operation", one.lower(), [each.lower() for each in known])
    return words


def _without_allow(words: AclWords) -> tuple[str, ...]:
    """`ottla acls add` allows without being told."""
    return tuple(one for one in words.options if one != "--allow")


def _cells(one: AclBinding) -> tuple[str, ...]:
    fields = acl_fields(one)
    order = ("permission", "principal", "host", "operation", "resource", "name", "pattern")
    return tuple(fields[name] for name in order)


def remove(ask: Ask) -> Page | Redirect:
    """The form; and, once it names rules, exactly those that would be removed."""
    words = words_of(ask)
    status, problem = 200, ""
    if words.principal and (words.resources or words.is_anything):
        try:
            return propose(ask, _removal(ask, words))
        except UserError as error:
            if ask.form is not None or is_of_brokers(error):
                raise
            status, problem = 404 if isinstance(error, UnknownNameError) else 400, str(error)
    return Page(
        template="acls_remove.html",
        title="Remove ACLs",
        section=SECTION,
        status=status,
        data={"problem": problem, "given": _given(ask), "labels": LABELS},
    )


def _removal(ask: Ask, words: AclWords) -> Change:
    filters = _with_operations_checked(words).filters()
    with ask.place.reading() as admin:
        gone = sorted({acl for one in filters for acl in admin.describe_acls(one)})
        if not gone:
            raise UnknownNameError("ACL", f"of {words.principal} like that", ())
        without = set(gone)
        warnings = _lockouts(
            ask, admin, lambda rules: [one for one in rules if one not in without]
        ) + _opening(ask, admin, gone)

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            removed = Admin(cluster).delete_acls(filters)
        return Redirect("/acls", f"{counted(len(removed), 'ACL')} removed")

    rest = len(gone) - MOST_SHOWN
    return Change(
        title=f"Remove {counted(len(gone), 'ACL')}",
        lines=(f"{rest:,} more ACLs go, which are not shown.",) if rest > 0 else (),
        warnings=tuple(warnings),
        plan=Plan(COLUMNS, [_cells(one) for one in gone[:MOST_SHOWN]]),
        command=Command(
            verb=("acls", "remove"),
            options=(*words.options, *(("--yes",) if words.is_wide else ())),
            arguments=words.arguments,
        ),
        # A rule that comes or goes before the confirmation is shown first.
        fields={**ask.fields, "rules": _digest(gone)},
        typed=to_type(words.principal) if words.is_wide else "",
        button=f"Remove {counted(len(gone), 'ACL')}",
        back="/acls",
        section=SECTION,
        deed=deed,
    )


def _digest(rules: Iterable[AclBinding]) -> str:
    return hashlib.sha256(repr([astuple(one) for one in rules]).encode()).hexdigest()


# Warnings


def _settings(ask: Ask, admin: Admin) -> AccessSettings:
    return settings_shown(admin) if ask.place.has_broker else NOT_KNOWN


def _lockouts(
    ask: Ask, admin: Admin, change: Callable[[list[AclBinding]], list[AclBinding]]
) -> list[str]:
    """Who could no longer change rules, users and quotas; of a directory everybody can who may
    write it.
    """
    if not ask.place.has_broker:
        return []
    rules = admin.describe_acls(AclBindingFilter(resource_type="CLUSTER"))
    return lockouts(rules, change(rules), _settings(ask, admin), principal_of(ask.place))


def lockouts(
    before: Iterable[AclBinding],
    after: Iterable[AclBinding],
    settings: AccessSettings,
    visitor: str | None,
) -> list[str]:
    """Sentences about a change of rules; only those on the cluster count."""
    rules = [[one for one in each if one.resource_type == "CLUSTER"] for each in (before, after)]
    could, can = (administrators(each, settings) for each in rules)
    found = []
    if could and not can:
        found.append(
            "Nobody could change ACLs, users and quotas any more: no rule allows alter on the "
            "cluster"
            + (", and super.users is empty."
               if settings.super_users is not None
               else "; only those of super.users still could.")
        )  # fmt: skip
    if visitor is not None:
        was, will_be = (judge(alters(visitor), each, settings).is_allowed for each in rules)
        if was and not will_be:
            found.append(
                f"You lock yourself out: {visitor} could no longer change ACLs"
                + (", unless it is one of super.users." if settings.super_users is None else ".")
            )
    return found


def _closing(ask: Ask, admin: Admin, new: Sequence[AclBinding]) -> list[str]:
    """Resources without rules, which everybody may use as long as there is none."""
    if _settings(ask, admin).allows_without_acls is False:
        return []
    return [
        f"{_title(BY_RESOURCE, one)} has no ACLs now. With {OPEN_WITHOUT_RULES} everybody may use "
        "it until it has one."
        for one in _resources(new)
        if one.pattern_type == "LITERAL" and not _matching(admin, one)
    ]


def _opening(ask: Ask, admin: Admin, gone: Sequence[AclBinding]) -> list[str]:
    """Resources whose last rules go."""
    if _settings(ask, admin).allows_without_acls is False:
        return []
    without = set(gone)
    return [
        f"{_title(BY_RESOURCE, one)} has no ACLs afterwards. With {OPEN_WITHOUT_RULES} everybody "
        "may use it then."
        for one in _resources(gone)
        if one.pattern_type == "LITERAL" and not {*_matching(admin, one)} - without
    ]


def _resources(rules: Iterable[AclBinding]) -> list[AclBinding]:
    """One rule of each resource, of a few resources."""
    return list({_resource_key(one): one for one in rules}.values())[:20]


def _matching(admin: Admin, one: AclBinding) -> list[AclBinding]:
    return admin.describe_acls(
        AclBindingFilter(resource_type=one.resource_type, name=one.name, pattern_type="MATCH")
    )


# Who may what


def may(ask: Ask) -> Page:
    """Answers whether a principal may do something, with the rule that decides."""
    given = {name: ask.query.get(name, "").strip()
             for name in ("principal", "operation", "resource", "name", "host")}  # fmt: skip
    option = ask.choice("resource", tuple(RESOURCES))
    data: Fields = {
        "given": given | {"resource": option},
        "labels": LABELS,
        "operations": EVERY_OPERATION,
        "problem": "",
        "answer": None,
    }
    if given["principal"]:
        try:
            question = _question(given, option)
        except UserError as error:
            data["problem"] = str(error)
        else:
            data |= _asked(ask, question)
    return Page(
        template="acls_may.html",
        title="Who may what?",
        section=SECTION,
        data=data,
        status=400 if data["problem"] else 200,
    )


def _asked(ask: Ask, question: Question) -> Fields:
    with ask.place.reading() as admin:
        try:
            answer = ask_access(admin, question, _settings(ask, admin))
        except UserError as error:
            return {"problem": absence_of(error)}
    return {"answer": _answer_fields(ask, question, answer)}


def _question(given: Fields, option: str) -> Question:
    if option != "cluster" and not given["name"]:
        raise UserError(f"name the {LABELS[option].lower()}")
    principal = given["principal"]
    if ":" not in principal:
        principal = f"User:{principal}"
    return question_of(
        principal, given["operation"] or "READ", option, given["name"], given["host"] or None
    )


def _answer_fields(ask: Ask, question: Question, answer: Answer) -> Fields:
    command = Command(
        verb=("acls", "may"),
        options=(
            *resource_options({OPTIONS[question.resource_type]: question.name}),
            *((f"--host={question.host}",) if question.host != "*" else ()),
        ),
        arguments=(question.principal, question.operation.lower()),
    )
    return {
        "question": visible(question.text),
        "is_allowed": answer.is_allowed,
        "reason": answer.reason.name.lower(),
        "text": visible(answer.reason_text),
        "doubts": [visible(one) for one in answer.doubts],
        "rule": None if answer.rule is None else _rule_fields(answer.rule),
        "rules": [
            {**_rule_fields(one), "decides": one == answer.rule}
            for one in answer.matching[:MOST_SHOWN]
        ],
        "rule_count": len(answer.matching),
        "command": command.text(ask.place.command_words),
    }


VIEWS = {
    "/acls": View(acls),
    "/acls/may": View(may),
    "/acls/add": View(add, takes_forms=True),
    "/acls/remove": View(remove, takes_forms=True),
}
