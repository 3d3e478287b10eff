"""Users with SCRAM passwords, and delegation tokens. No page shows a password or a secret."""

from collections.abc import Mapping, Sequence

from ottla.base.errors import UnknownNameError, UnreachableError, UserError
from ottla.base.texts import whole_number
from ottla.base.times import second_text
from ottla.client.administration.admin import Admin
from ottla.client.administration.security_values import (
    DEFAULT_ITERATIONS,
    AclBindingFilter,
    DelegationToken,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
    find_token,
)
from ottla.console.changes import Change, Plan, propose, secret_of, to_type
from ottla.console.commands import Command
from ottla.console.contents import counted, visible
from ottla.console.pages import Ask, Fields, Page, Redirect
from ottla.console.views.access import SECTION, absence_of, paged
from ottla.console.views.view import View

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
MOST_ITERATIONS = 16384
MOST_TOKENS = 500


def users(ask: Ask) -> Page:
    """Who can log in by SCRAM, and the delegation tokens that the visitor may see."""
    wanted = ask.query.get("q", "").strip()
    known: Mapping[str, Mapping[str, int]] = {}
    absence = ""
    with ask.place.reading() as admin:
        try:
            known = admin.describe_user_scram_credentials()
        except UserError as error:
            absence = absence_of(error)
    names = sorted(name for name in known if wanted.lower() in name.lower())
    shown, pages = paged(ask, names)
    return Page(
        template="users.html",
        title="Users",
        section=SECTION,
        data={
            "users": [_fields(name, known[name]) for name in shown],
            "q": wanted,
            "absence": absence,
            "mechanisms": MECHANISMS,
            "least_iterations": DEFAULT_ITERATIONS,
            "most_iterations": MOST_ITERATIONS,
            **pages,
            **_tokens(ask),
        },
    )


def _fields(name: str, mechanisms: Mapping[str, int]) -> Fields:
    return {
        "name": name,
        "shown": visible(name),
        "mechanisms": [
            {"name": one, "iterations": count} for one, count in sorted(mechanisms.items())
        ],
    }


def _tokens(ask: Ask) -> Fields:
    """The tokens; what the broker says if it has none, or does not show them to the visitor."""
    if not ask.place.has_broker:
        return {"tokens": [], "token_count": 0, "no_tokens": "Only a running broker tells them."}
    try:
        with ask.place.admin() as admin:
            found = admin.describe_delegation_token()
    except UnreachableError:
        raise
    except UserError as error:
        return {"tokens": [], "token_count": 0, "no_tokens": str(error)}
    found.sort(key=lambda one: (one.owner, one.expires_ms))
    shown = [_token_fields(one) for one in found[:MOST_TOKENS]]
    return {"tokens": shown, "token_count": len(found), "no_tokens": ""}


def _token_fields(one: DelegationToken) -> Fields:
    return {
        "id": one.token_id,
        "shown": visible(one.token_id),
        "owner": visible(str(one.owner)),
        "renewers": [visible(str(each)) for each in one.renewers],
        "issued_ms": one.issued_ms,
        "expires_ms": one.expires_ms,
        "max_ms": one.max_ms,
    }


def set_password(ask: Ask) -> Page | Redirect:
    """Creates a user, or changes the password."""
    name = ask.fields.get("user", "")
    if not name:
        raise UserError("name a user")
    chosen = [one for one in MECHANISMS if ask.fields.get(one)] or list(MECHANISMS)
    text = ask.fields.get("iterations", "").strip() or str(DEFAULT_ITERATIONS)
    iterations = whole_number(text, MOST_ITERATIONS)
    if iterations is None or iterations < DEFAULT_ITERATIONS:
        raise UserError(
            f"iterations={text}: a number from {DEFAULT_ITERATIONS} to {MOST_ITERATIONS}"
        )
    with ask.place.reading() as admin:
        now = admin.describe_user_scram_credentials().get(name, {})

    def deed() -> Redirect:
        password = secret_of(ask)
        with ask.place.changing() as cluster:
            Admin(cluster).alter_user_scram_credentials(
                UserScramCredentialUpsertion(
                    user=name, mechanism=one, password=password, iterations=iterations
                )
                for one in chosen
            )
        return Redirect("/users", f"{visible(name)} logs in with the new password now")

    options = () if len(chosen) == len(MECHANISMS) else (f"--mechanism={chosen[0]}",)
    if iterations != DEFAULT_ITERATIONS:
        options = (*options, f"--iterations={iterations}")
    return propose(ask, Change(
        title=f"Change the password of {name}" if now else f"Create user {name}",
        lines=(
            "The password is typed here, and leaves the console only as a salted hash.",
            "The command asks for it; --password-file - reads it from standard input.",
        ),
        warnings=tuple(_of_new_password(ask, name, now, chosen)),
        plan=Plan(
            ("Mechanism", "Now", "Then"),
            [_row(one, now.get(one), one in chosen, iterations) for one in MECHANISMS],
        ),
        command=Command(verb=("users", "set"), options=options, arguments=(name,)),
        secret="New password" if now else "Password",
        button="Change the password" if now else "Create the user",
        back="/users",
        section=SECTION,
        deed=deed,
    ))  # fmt: skip


def _row(mechanism: str, now: int | None, is_set: bool, iterations: int) -> tuple[str, str, str]:
    before = "none" if now is None else f"a password, {now:,} iterations"
    return mechanism, before, f"the new password, {iterations:,} iterations" if is_set else before


def _of_new_password(
    ask: Ask, name: str, now: Mapping[str, int], chosen: Sequence[str]
) -> list[str]:
    found = [f"{one} keeps its password of before." for one in sorted(now) if one not in chosen]
    if now:
        found.append("Clients that log in with the password of before fail at their next login.")
    if name == ask.place.user:
        found.append("You have signed in as this user: sign in again afterwards.")
    return found


def remove(ask: Ask) -> Page | Redirect:
    """Removes a user's passwords, of one mechanism or of all."""
    name, mechanism = ask.fields.get("user", ""), ask.fields.get("mechanism", "")
    with ask.place.reading() as admin:
        known = admin.describe_user_scram_credentials()
        if name not in known:
            raise UnknownNameError("user", name, known)
        rule_count = _rule_count(admin, f"User:{name}")
    if mechanism and mechanism not in known[name]:
        raise UnknownNameError("mechanism", mechanism, known[name])
    gone = [mechanism] if mechanism else sorted(known[name])
    left = sorted(known[name].keys() - set(gone))

    def deed() -> Redirect:
        with ask.place.changing() as cluster:
            Admin(cluster).alter_user_scram_credentials(
                UserScramCredentialDeletion(user=name, mechanism=one) for one in gone
            )
        return Redirect("/users", f"{visible(name)}: removed {', '.join(gone)}")

    way = f"The user still logs in by {' and '.join(left)}." if left else (
        "The user can no longer log in by SCRAM; clients that have logged in stay connected."
    )  # fmt: skip
    stays = "stays" if rule_count == 1 else "stay"
    return propose(ask, Change(
        title=f"Remove {gone[0]} of {name}" if mechanism else f"Delete user {name}",
        lines=(way,),
        figures=(f"{counted(rule_count, 'ACL')} of User:{name} {stays}.",) if rule_count else (),
        warnings=tuple(_of_removal(ask, name, known, left)),
        plan=Plan(
            ("Mechanism", "Now", "Then"),
            [(one, f"a password, {known[name][one]:,} iterations", "none") for one in gone],
        ),
        command=Command(
            verb=("users", "remove"),
            options=(f"--mechanism={mechanism}",) if mechanism else (),
            arguments=(name,),
        ),
        typed=to_type(name),
        button=f"Remove {mechanism}" if mechanism else "Delete the user",
        back="/users",
        section=SECTION,
        deed=deed,
    ))  # fmt: skip


def _rule_count(admin: Admin, principal: str) -> int:
    try:
        return len(admin.describe_acls(AclBindingFilter(principal=principal)))
    except UnreachableError:
        raise
    except UserError:
        return 0  # there is no authorizer, or the visitor may not see its rules


def _of_removal(ask: Ask, name: str, known: Mapping[str, object], left: Sequence[str]) -> list[str]:
    found = []
    if name == ask.place.user:
        found.append("You have signed in as this user, and lock yourself out.")
    if not left and len(known) == 1:
        found.append("No user with a password is left: nobody can log in by SCRAM.")
    return found


def expire_token(ask: Ask) -> Page | Redirect:
    """Expires a delegation token at once."""
    token_id = ask.fields.get("token", "")
    with ask.place.admin() as admin:
        token = find_token(admin.describe_delegation_token(), token_id)

    def deed() -> Redirect:
        with ask.place.admin() as admin:
            admin.expire_delegation_token(token.secret)
        return Redirect("/users", f"the token {visible(token_id)} has expired")

    return propose(ask, Change(
        title=f"Expire delegation token {token_id}",
        lines=(
            f"The token acts for {token.owner}; nobody can log in with it any more.",
            "Clients that have logged in with it are disconnected when they have to log in again.",
        ),
        figures=(f"It would be valid until {second_text(token.expires_ms)} UTC.",),
        command=Command(verb=("tokens", "expire"), arguments=(token_id,)),
        button="Expire the token",
        back="/users",
        section=SECTION,
        deed=deed,
    ))  # fmt: skip


VIEWS = {
    "/users": View(users),
    "/users/set": View(set_password, takes_forms=True),
    "/users/remove": View(remove, takes_forms=True),
    "/tokens/expire": View(expire_token, takes_forms=True),
}
