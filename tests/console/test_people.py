"""Users, access rules and quotas: pages, previews, and the commands that do the same."""

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from click.testing import CliRunner

import ottla
from ottla.cli.main import cli
from ottla.client.administration.acl_rulings import NOT_KNOWN, AccessSettings
from ottla.client.administration.security_values import AclBinding
from ottla.console.views.acls import lockouts
from ottla.testing import LocalBroker
from tests.console.asking import AUTHORIZER, FEW_LOGS, HOST, Browser, console_over, fill
from tests.console.test_changes import audited
from tests.console.test_signing_in import USERS, WITHOUT_USER, secured, sign_in

__all__ = ["secured"]

HOSTILE = "<img src=x onerror=alert(1)>\"'`$(id) :/é\u202e\n*,=--yes"


@contextmanager
def guarded_broker(directory: Path) -> Iterator[LocalBroker]:
    """A broker with an authorizer, a user, rules and quotas."""
    with LocalBroker(directory, {**FEW_LOGS, **AUTHORIZER}) as found:
        fill(found.log)
        with ottla.Admin(found.log) as admin:
            admin.alter_user_scram_credentials(
                ottla.UserScramCredentialUpsertion(user="ana", mechanism=mechanism, password="tea")
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512")
            )
            admin.create_acls(RULES)
            admin.alter_quotas({"user": "ana"}, {"producer_byte_rate": 5e6})
            limits = {"producer_byte_rate": 1e7, "request_percentage": 50}
            admin.alter_quotas({"client-id": "loader"}, limits)
        yield found


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[LocalBroker]:
    with guarded_broker(tmp_path / "data") as found:
        yield found


@pytest.fixture(scope="module")
def shown_only(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """For tests that change nothing."""
    with (
        guarded_broker(tmp_path_factory.mktemp("people") / "data") as broker,
        console_over(broker.address) as found,
    ):
        yield found


def rule(operation: str, name: str = "orders", **more: str) -> AclBinding:
    return AclBinding(**{"principal": "User:ana", "name": name, "operation": operation, **more})


RULES = (
    rule("READ"),
    rule("WRITE", "ord", pattern_type="PREFIXED"),
    rule("WRITE", permission="DENY", host="10.0.0.9"),
    rule("READ", principal="User:bob", resource_type="GROUP", name="billing"),
    rule("ALTER", "kafka-cluster", principal="User:bob", resource_type="CLUSTER"),
)


@pytest.fixture
def people(guarded: LocalBroker) -> Iterator[Browser]:
    with console_over(guarded.address) as found:
        yield found


def preview(browser: Browser, path: str, **fields: str) -> Any:
    return browser.json(f"{path}?{urlencode(fields)}")


def done(browser: Browser, path: str, secret: str = "", **fields: str) -> Any:
    """Opens a preview by its link, and confirms it as its page does."""
    address = f"{path}?{urlencode(fields)}"
    shown = browser.get(address)
    assert shown.status_code == 200, shown.text
    typed = {"secret": secret, "again": secret} if secret else {}
    return browser.confirm(address, shown, **typed)


def words_of(command: str) -> list[str]:
    """The words that a shell makes of a command, without its name."""
    script = f"ottla() {{ printf '%s\\0' \"$@\"; }}; {command}"
    found = subprocess.run(["bash", "-c", script], capture_output=True, check=True).stdout
    return found.decode().split("\0")[:-1]


def run(shown: Any, code: int = 0, **more: Any) -> str:
    """Runs the command that a preview shows."""
    result = CliRunner().invoke(cli, words_of(shown["command"]), **more)
    assert result.exit_code == code, result.output
    return result.output


def rules_of(broker: LocalBroker) -> list[AclBinding]:
    with ottla.Admin(broker.log) as admin:
        return sorted(admin.describe_acls())


def users_of(broker: LocalBroker) -> dict[str, dict[str, int]]:
    with ottla.Admin(broker.log) as admin:
        return admin.describe_user_scram_credentials()


pytestmark = pytest.mark.slow


# Users


def test_users_are_listed_with_their_mechanisms(shown_only: Browser) -> None:
    (ana,) = shown_only.json("/users")["users"]
    assert (ana["name"], ana["mechanisms"][0]) == (
        "ana",
        {"name": "SCRAM-SHA-256", "iterations": 4096},
    )
    assert shown_only.json("/users?q=x")["users"] == []
    text = shown_only.text("/users")
    assert "SCRAM-SHA-512" in text
    assert shown_only.json("/users")["no_tokens"] in unescape(text)


def test_a_user_is_created_with_a_password_that_nothing_shows(
    guarded: LocalBroker, people: Browser
) -> None:
    fields = {"user": HOSTILE, "SCRAM-SHA-512": "1", "iterations": "8192"}
    shown = preview(people, "/users/set", **fields)
    assert shown["plan"]["rows"][1] == [
        "SCRAM-SHA-512",
        "none",
        "the new password, 8,192 iterations",
    ]
    answer = done(people, "/users/set", secret="very secret", **fields)
    assert "logs in with the new password now" in answer.text
    assert users_of(guarded)[HOSTILE] == {"SCRAM-SHA-512": 8192}
    assert "very secret" not in answer.text + str(audited(people))
    with ottla.Admin(guarded.log) as admin:
        admin.alter_user_scram_credentials(
            [ottla.UserScramCredentialDeletion(user=HOSTILE, mechanism="SCRAM-SHA-512")]
        )
    run(shown, env={"OTTLA_USER_PASSWORD": "very secret"})
    assert users_of(guarded)[HOSTILE] == {"SCRAM-SHA-512": 8192}


def test_the_command_that_is_shown_asks_for_the_password(
    guarded: LocalBroker, people: Browser
) -> None:
    shown = preview(people, "/users/set", user="eva")
    assert shown["command"] == f"ottla users set {guarded.address} eva"
    run(shown, input="tea\ntea\n")
    assert set(users_of(guarded)["eva"]) == {"SCRAM-SHA-256", "SCRAM-SHA-512"}


@pytest.mark.parametrize(
    ("typed", "problem"),
    [
        ({}, "Type the password."),
        ({"secret": "a", "again": "b"}, "The two passwords are not the same."),
    ],
)
def test_a_password_is_typed_twice(
    guarded: LocalBroker, people: Browser, typed: dict[str, str], problem: str
) -> None:
    address = "/users/set?user=eva"
    answer = people.confirm(address, people.get(address), **typed)
    assert answer.status_code == 400
    assert problem in answer.text
    assert list(users_of(guarded)) == ["ana"]


def test_the_form_of_a_preview_has_no_password(shown_only: Browser) -> None:
    shown = shown_only.json("/users/set?user=ana&secret=leaked&again=leaked")
    assert (shown["secret"], "leaked" in str(shown)) == ("New password", False)
    text = shown_only.text("/users/set?user=ana&secret=leaked")
    assert "leaked" not in text.partition('class="stack confirm"')[2].partition("</form>")[0]
    assert "Clients that log in with the password of before fail" in text


def test_a_user_is_deleted_and_what_stays_is_said(guarded: LocalBroker, people: Browser) -> None:
    shown = preview(people, "/users/remove", user="ana")
    assert shown["typed"] == "ana"
    assert shown["figures"] == ["3 ACLs of User:ana stay."]
    assert shown["warnings"] == ["No user with a password is left: nobody can log in by SCRAM."]
    one = preview(people, "/users/remove", user="ana", mechanism="SCRAM-SHA-256")
    run(one)
    assert users_of(guarded) == {"ana": {"SCRAM-SHA-512": 4096}}
    assert "removed SCRAM-SHA-512" in done(people, "/users/remove", user="ana").text
    assert users_of(guarded) == {}
    assert people.get("/users/remove?user=ana").status_code == 404
    assert "There are no users" in people.text("/users")


# ACLs


def test_rules_are_listed_by_principal_and_by_resource(shown_only: Browser) -> None:
    found = shown_only.json("/acls")
    assert [one["title"] for one in found["groups"]] == ["User:ana", "User:bob"]
    assert found["count"] == 5
    found = shown_only.json("/acls?by=resource")
    titles = [one["title"] for one in found["groups"]]
    assert titles == ["The cluster", "Group billing", "Topic ord*", "Topic orders"]
    assert shown_only.json("/acls?principal=User:bob")["count"] == 2
    assert shown_only.json("/acls?q=BILL")["count"] == 1
    assert "There are no such ACLs" in shown_only.text("/acls?q=x")
    assert shown_only.get("/acls?by=x").status_code == 400


def test_rules_are_added_as_their_command_adds_them(guarded: LocalBroker, people: Browser) -> None:
    fields = {"principal": "User:eva", "role": "consumer", "topic": "orders", "group": "g",
              "host": "10.0.0.8"}  # fmt: skip
    shown = preview(people, "/acls/add", **fields)
    assert [row[3:6] for row in shown["plan"]["rows"]] == [
        ["read", "topic", "orders"], ["describe", "topic", "orders"], ["read", "group", "g"],
    ]  # fmt: skip
    assert "3 ACLs added" in done(people, "/acls/add", **fields).text
    by_console = rules_of(guarded)
    assert len(by_console) == len(RULES) + 3
    assert "there already" in str(preview(people, "/acls/add", **fields))
    with ottla.Admin(guarded.log) as admin:
        admin.delete_acls([ottla.AclBindingFilter(principal="User:eva")])
    run(shown)
    assert rules_of(guarded) == by_console


def test_a_hostile_rule_is_added_and_removed_by_both_ways(
    guarded: LocalBroker, people: Browser
) -> None:
    fields = {"principal": f"User:{HOSTILE}", "operations": "read", "group": HOSTILE,
              "pattern": "prefixed", "permission": "deny"}  # fmt: skip
    adding = preview(people, "/acls/add", **fields)
    added = rule("READ", HOSTILE, principal=f"User:{HOSTILE}", resource_type="GROUP",
                 pattern_type="PREFIXED", permission="DENY")  # fmt: skip
    assert "1 ACL added" in done(people, "/acls/add", **fields).text
    assert added in rules_of(guarded)
    (group,) = people.json(f"/acls?{urlencode({'principal': added.principal})}")["groups"]
    (row,) = group["rules"]
    text = people.text("/acls")
    assert "<img" not in text
    assert unescape(text).count(row["remove"]) == 1
    removing = people.json(row["remove"])
    assert len(removing["plan"]["rows"]) == 1
    assert "1 ACL removed" in people.confirm(row["remove"], people.get(row["remove"])).text
    assert rules_of(guarded) == sorted(RULES)
    run(adding)
    assert added in rules_of(guarded)
    run(removing)
    assert rules_of(guarded) == sorted(RULES)


def test_ends_of_lines_are_those_of_the_address_however_a_browser_sends_them(
    guarded: LocalBroker, people: Browser
) -> None:
    added = rule("READ", "a\nb", principal="User:x\r", resource_type="GROUP")
    query = {"principal": added.principal, "operations": "read", "group": added.name}
    address = f"/acls/add?{urlencode(query)}"
    sent = {"principal": "User:x\r\n", "group": "a\r\nb"}
    assert "1 ACL added" in people.confirm(address, people.get(address), **sent).text
    assert added in rules_of(guarded)


def test_exactly_the_rules_that_were_shown_are_removed(
    guarded: LocalBroker, people: Browser
) -> None:
    address = "/acls/remove?principal=User:ana&all=1"
    shown = people.get(address)
    assert people.json(address)["typed"] == "User:ana"
    with ottla.Admin(guarded.log) as admin:
        admin.create_acls([rule("DESCRIBE", "bills")])
    again = people.confirm(address, shown)
    assert (again.status_code, "Look at it again" in again.text) == (409, True)
    assert "4 ACLs removed" in people.confirm(address, again).text
    assert [one.principal for one in rules_of(guarded)] == ["User:bob", "User:bob"]


def test_wide_removals_do_what_their_commands_do(guarded: LocalBroker, people: Browser) -> None:
    (of_orders,) = (
        one for one in people.json("/acls?by=resource")["groups"] if one["title"] == "Topic orders"
    )
    run(people.json(of_orders["remove"]))
    assert rule("READ") not in rules_of(guarded)
    assert len(rules_of(guarded)) == 3
    run(preview(people, "/acls/remove", principal="any", all="1", permission="allow"))
    assert rules_of(guarded) == []


@pytest.mark.parametrize(
    ("path", "status", "words"),
    [
        ("/acls/add?principal=ana&topic=t&operations=read", 400, "a principal looks like User:ana"),
        ("/acls/add?principal=User:a&topic=t", 400, "name operations"),
        ("/acls/add?principal=User:a&topic=t&operations=reed", 400, "no operation reed"),
        ("/acls/add?principal=User:a&operations=read", 400, "name resources"),
        ("/acls/add?principal=User:a&topic=t&role=cook", 400, "a role is producer or consumer"),
        ("/acls/remove?principal=User:a&topic=t", 404, "no ACL of User:a like that"),
        ("/acls/remove?principal=User:a&topic=t&all=1", 400, "stands alone"),
        ("/acls/may?principal=ana&operation=write&resource=topic", 400, "name the topic"),
        ("/acls/may?principal=ana&operation=juggle&resource=topic&name=t", 400, "juggle"),
        ("/acls/may?resource=x", 400, "resource"),
    ],
)
def test_mistakes_in_forms_are_said_beside_the_form(
    shown_only: Browser, path: str, status: int, words: str
) -> None:
    answer = shown_only.get(path)
    assert answer.status_code == status
    assert words in unescape(answer.text)


@pytest.mark.parametrize(
    ("fields", "answer"),
    [
        ({"principal": "ana"}, "Yes: allow User:ana write on topic ord*"),
        ({"principal": "User:ana", "host": "10.0.0.9"},
         "No: deny User:ana from 10.0.0.9 write on topic orders"),
        ({"principal": "bob"},
         "No: there are 3 rules for the resource, and none allows this"),
        ({"principal": HOSTILE}, "No: there are 3 rules for the resource, and none allows this"),
    ],
)  # fmt: skip
def test_who_may_write_orders(shown_only: Browser, fields: dict[str, str], answer: str) -> None:
    asked = {"operation": "write", "resource": "topic", "name": "orders", **fields}
    assert answer in unescape(shown_only.text(f"/acls/may?{urlencode(asked)}"))
    found = preview(shown_only, "/acls/may", **asked)["answer"]
    assert answer.lower() in run(found, 0 if found["is_allowed"] else 1).lower()


def test_a_directory_without_a_broker_has_rules_too(tmp_path: Path) -> None:
    with ottla.open(tmp_path / "d", AUTHORIZER) as log, ottla.Admin(log) as admin:
        admin.create_acls(RULES)
    with console_over(tmp_path / "d") as browser:
        text = browser.text("/acls")
        assert "No broker runs here" in text
        assert "Only a running broker tells them." in browser.text("/users")
        done(browser, "/acls/remove", principal="User:bob", all="1")
        assert browser.json("/acls")["count"] == 3


def test_a_broker_without_an_authorizer_says_how_to_have_one(browser: Browser) -> None:
    for path in ("/acls", "/acls/may?principal=ana&name=t"):
        assert "authorizer.class.name" in browser.get(path).text, path


CLUSTER = {"resource_type": "CLUSTER", "name": "kafka-cluster"}


@pytest.mark.parametrize(
    ("after", "settings", "visitor", "words"),
    [
        ([], AccessSettings(), None, ["super.users is empty"]),
        ([], NOT_KNOWN, "User:ana", ["only those of super.users", "You lock yourself out"]),
        ([], AccessSettings(super_users=frozenset({"User:root"})), "User:ana",
         ["You lock yourself out"]),
        ([rule("ALTER", principal="User:bob", **CLUSTER)], AccessSettings(), "User:ana",
         ["You lock yourself out"]),
        ([rule("ALTER", principal="User:bob", **CLUSTER)], AccessSettings(), "User:eva", []),
        ([rule("ALTER", **CLUSTER), rule("ALL", permission="DENY", principal="User:*", **CLUSTER)],
         AccessSettings(), "User:ana", ["Nobody could", "You lock yourself out"]),
    ],
)  # fmt: skip
def test_who_would_lock_themselves_or_everybody_out_is_warned(
    after: list[AclBinding], settings: AccessSettings, visitor: str | None, words: list[str]
) -> None:
    found = lockouts([rule("ALTER", **CLUSTER)], after, settings, visitor)
    assert len(found) == len(words)
    for sentence, word in zip(found, words, strict=True):
        assert word in sentence


def test_a_removal_that_leaves_no_administrator_warns(shown_only: Browser) -> None:
    found = preview(shown_only, "/acls/remove", principal="User:bob", cluster="1")
    assert "Nobody could change ACLs" in found["warnings"][0]


# Quotas


def quotas_of(broker: LocalBroker) -> dict[str, dict[str, float]]:
    with ottla.Admin(broker.log) as admin:
        return {str(dict(one.entity)): dict(one.limits) for one in admin.describe_quotas()}


def test_limits_are_set_and_removed_as_their_commands_do(
    guarded: LocalBroker, people: Browser
) -> None:
    fields = {"user": HOSTILE.strip(), "client_id": "(default)", "producer_byte_rate": "1Mi",
              "request_percentage": "12.5"}  # fmt: skip
    entity = str({"client-id": None, "user": HOSTILE.strip()})
    shown = preview(people, "/quotas/set", **fields)
    assert shown["plan"]["rows"][0] == ["producer_byte_rate", "none", "1,048,576 bytes/s"]
    assert "are set" in done(people, "/quotas/set", **fields).text
    limits = {"producer_byte_rate": 1048576.0, "request_percentage": 12.5}
    assert quotas_of(guarded)[entity] == limits
    names = {one: fields[one] for one in ("user", "client_id")}
    removing = preview(people, "/quotas/remove", **names)
    done(people, "/quotas/remove", limit="request_percentage", **names)
    assert quotas_of(guarded)[entity] == {"producer_byte_rate": 1048576.0}
    run(removing)
    assert entity not in quotas_of(guarded)
    run(shown)
    assert quotas_of(guarded)[entity] == limits


def test_the_quota_that_applies_is_shown_with_those_that_do_not(shown_only: Browser) -> None:
    found = shown_only.json("/quotas?explain=1&user=ana&client_id=loader")
    rate, percentage = found["applied"]
    assert (rate["entity"], rate["text"]) == ("user ana", "5,000,000 bytes/s")
    assert rate["overridden"] == ["client-id loader: 10,000,000 bytes/s"]
    assert percentage["entity"] == "client-id loader"
    assert "producer_byte_rate" in run(found)
    assert "No quota applies" in shown_only.text("/quotas?explain=1&client_id=x")


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/quotas/set?producer_byte_rate=1", "name what is limited"),
        ("/quotas/set?user=a", "name a limit"),
        ("/quotas/set?user=a&producer_byte_rate=fast", "a limit is a number, such as 10M"),
        ("/quotas/set?user=a&ip=10.0.0.1&producer_byte_rate=1", "--ip stands alone"),
        ("/quotas/remove?user=nobody", "there is no quota"),
    ],
)
def test_wrong_limits_are_refused_in_one_line(shown_only: Browser, path: str, words: str) -> None:
    answer = shown_only.get(path)
    assert answer.status_code in (400, 404)
    assert words in unescape(answer.text)


# Whoever may not


def test_a_read_only_console_offers_and_does_nothing(guarded: LocalBroker) -> None:
    with console_over(guarded.address, is_read_only=True) as browser:
        for path in ("/users", "/acls", "/quotas"):
            text = browser.text(path)
            for word in ("Delete …", "Remove …", "Preview …", "Add ACLs"):
                assert word not in text, path
        token = browser.form_token("/users")
        answer = browser.client.post(
            "/acls/remove", data={"form_token": token, "principal": "any", "all": "1"},
            headers={"origin": HOST},
        )  # fmt: skip
        assert 'name="confirm"' not in answer.text
    assert rules_of(guarded) == sorted(RULES)


def test_what_a_visitor_may_not_see_or_do_is_refused_by_the_broker(secured: LocalBroker) -> None:
    with console_over(secured.address, client=WITHOUT_USER) as browser:
        assert sign_in(browser, "ana", USERS["ana"]) == 200
        for path in ("/users", "/acls", "/acls/may?principal=ana&name=orders", "/quotas"):
            answer = browser.get(path)
            assert (answer.status_code, "authoriz" in answer.text.lower()) == (403, True), path
        with ottla.Admin(secured.log) as admin:
            admin.create_acls([rule("DESCRIBE", **CLUSTER)])
        assert browser.json("/acls")["count"] == 3
        answer = done(browser, "/acls/remove", principal="User:ana", cluster="1")
        assert answer.status_code == 403
        assert len(browser.json("/audit")["entries"]) == 1
        assert browser.json("/audit")["entries"][0]["outcome"] == "refused"


def test_a_visitor_is_warned_before_locking_out_or_deleting_themselves(
    secured: LocalBroker,
) -> None:
    with ottla.Admin(secured.log) as admin:
        admin.create_acls([rule("ALL", **CLUSTER)])
    with console_over(secured.address, client=WITHOUT_USER) as browser:
        assert sign_in(browser, "ana", USERS["ana"]) == 200
        (warning,) = preview(browser, "/acls/remove", principal="User:ana", cluster="1")[
            "warnings"
        ][1:]
        assert warning.startswith("You lock yourself out: User:ana could no longer change ACLs")
        fields = {
            "principal": "User:*",
            "operations": "alter",
            "permission": "deny",
        }
        assert "You lock yourself out" in str(
            preview(browser, "/acls/add", cluster="1", **fields)["warnings"]
        )
        own = preview(browser, "/users/remove", user="ana")["warnings"]
        assert "You have signed in as this user, and lock yourself out." in own
        assert "sign in again afterwards" in str(preview(browser, "/users/set", user="ana"))
        answer = done(browser, "/users/set", secret="another word", user="ana")
        assert answer.status_code == 200
        browser.client.cookies.clear()
        assert sign_in(browser, "ana", "another word") == 200


def test_delegation_tokens_are_listed_without_secrets_and_expired(tmp_path: Path) -> None:
    settings = {**FEW_LOGS, "delegation.token.secret.key": "sealed"}
    with (
        LocalBroker(tmp_path / "d", settings, security="SASL_PLAINTEXT", users=USERS) as broker,
        ottla.Admin(broker.address, broker.client_settings("ana")) as admin,
        console_over(broker.address, client=WITHOUT_USER) as browser,
    ):
        token = admin.create_delegation_token(renewers=["root"])
        assert sign_in(browser, "ana", USERS["ana"]) == 200
        (listed,) = browser.json("/users")["tokens"]
        assert (listed["id"], listed["renewers"]) == (token.token_id, ["User:root"])
        shown = preview(browser, "/tokens/expire", token=token.token_id)
        assert base64.b64encode(token.secret).decode() not in browser.text("/users") + str(shown)
        run(shown, env={"PASSWORD": USERS["ana"]})
        assert browser.json("/users")["tokens"] == []
        token = admin.create_delegation_token()
        assert "has expired" in done(browser, "/tokens/expire", token=token.token_id).text
        assert browser.get("/tokens/expire?token=x").status_code == 404
