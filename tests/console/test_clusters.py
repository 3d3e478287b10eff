"""A console of several contexts: an overview, and each cluster's pages under its own path."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from click.testing import CliRunner
from starlette.testclient import TestClient

import ottla
from ottla.cli.console import console_command
from ottla.cli.console.console_command import console_target
from ottla.cli.target import parse_target
from ottla.console.access import AccessPolicy
from ottla.console.clusters import make_clusters_app
from ottla.console.state import ConsoleState
from ottla.console.state_directory import StateDirectory
from ottla.testing import LocalBroker
from tests.console.asking import FEW_LOGS, HOST, PLACES, fill
from tests.console.test_signing_in import USERS, WITHOUT_USER

NOWHERE = "127.0.0.1:1"
PATHS = re.compile(r'(?:href|action|data-[a-z]+)="(/[^"]*)"')


@contextmanager
def clusters_over(targets: dict[str, Any], **state: Any) -> Iterator[TestClient]:
    """Targets by context; a pair is a target with its client's settings."""
    pairs = {name: one if isinstance(one, tuple) else (one, {}) for name, one in targets.items()}
    with TemporaryDirectory() as directory:
        states = [
            ConsoleState(
                target=console_target(parse_target(text, client)),
                directory=StateDirectory(directory),
                name=name,
                clusters=tuple(targets),
                **state,
            )
            for name, (text, client) in pairs.items()
        ]
        app = make_clusters_app(states, AccessPolicy(secret=b"of this test"))
        with TestClient(app, base_url=HOST) as found:
            yield found


@pytest.fixture
def data(tmp_path: Path) -> str:
    with ottla.open(tmp_path / "data", FEW_LOGS) as log:
        fill(log)
    return str(tmp_path / "data")


def rows_of(client: TestClient) -> dict[str, Any]:
    """The overview's rows, once all clusters have answered."""
    while True:
        rows = client.get("/?format=json").json()["rows"]
        if not any(row["is_looking"] for row in rows):
            return {row["name"]: row for row in rows}


def test_a_cluster_that_is_not_reached_does_not_spoil_the_others(data: str) -> None:
    with clusters_over({"prod": NOWHERE, "test": data}) as client:
        rows = rows_of(client)
        assert rows["prod"]["summary"] is None
        assert NOWHERE in rows["prod"]["failure"]
        assert rows["test"]["summary"]["topic_count"] == 1
        assert rows["test"]["failure"] == ""
        assert client.get("/clusters/prod/topics").status_code == 502
        assert "orders" in client.get("/clusters/test/topics").text
        page = client.get("/").text
        assert "not reached" in page
        assert "files, without a broker" in page


def test_every_link_of_a_clusters_pages_stays_in_the_cluster(data: str) -> None:
    own = ("/clusters/test/", "/clusters/prod", "/static/")
    with clusters_over({"prod": NOWHERE, "test": data}) as client:
        for place in PLACES:
            answer = client.get(f"/clusters/test{place}")
            assert answer.status_code == 200, place
            left = [
                one
                for one in PATHS.findall(answer.text)
                if one not in ("/", "/clusters/test") and not one.startswith(own)
            ]
            assert left == [], place


def test_a_change_leads_to_a_page_of_the_same_cluster(data: str) -> None:
    with clusters_over({"prod": NOWHERE, "test": data}) as client:
        page = "/clusters/test/topics/orders/produce"
        token = re.search(r'name="form_token" value="([0-9a-f]+)"', client.get(page).text)
        assert token is not None
        headers = {"origin": HOST, "sec-fetch-site": "same-origin"}
        fields = {"form_token": token[1], "value": "late", "partition": "0"}
        shown = client.post(page, data=fields, headers=headers)
        assert '<a href="/clusters/test/topics/orders/produce">Cancel</a>' in shown.text
        confirm = re.search(r'name="confirm" value="([^"]+)"', shown.text)
        assert confirm is not None
        fields["confirm"] = confirm[1]
        answer = client.post(page, data=fields, headers=headers, follow_redirects=False)
        assert answer.headers["location"].startswith("/clusters/test/topics/orders/messages/0/3?")


def test_pages_outside_the_clusters_are_not_found(data: str) -> None:
    with clusters_over({"test": data, "other": data}) as client:
        for path in ("/topics", "/clusters/none/", "/clusters/"):
            assert client.get(path).status_code == 404, path
        assert client.get("/", headers={"host": "evil.example"}).status_code == 403


@pytest.mark.slow
def test_people_sign_in_to_each_cluster_for_itself(tmp_path: Path) -> None:
    with (
        LocalBroker(tmp_path / "a", FEW_LOGS, security="SASL_PLAINTEXT", users=USERS) as first,
        LocalBroker(tmp_path / "b", FEW_LOGS, security="SASL_PLAINTEXT", users=USERS) as second,
        clusters_over(
            {"a": (first.address, WITHOUT_USER), "b": (second.address, WITHOUT_USER)}
        ) as client,
    ):
        user, password = next(iter(USERS.items()))
        for name, others in (("a", {"b"}), ("b", set())):
            sign_in = f"/clusters/{name}/sign-in"
            asked = client.get(f"/clusters/{name}/topics", follow_redirects=False)
            assert asked.headers["location"].startswith(f"{sign_in}?next=")
            token = re.search(r'name="form_token" value="([0-9a-f]+)"', client.get(sign_in).text)
            assert token is not None
            fields = {"form_token": token[1], "username": user, "password": password}
            headers = {"origin": HOST, "sec-fetch-site": "same-origin"}
            client.post(sign_in, data=fields, headers=headers)
            rows = client.get("/?format=json").json()["rows"]
            assert {one["name"] for one in rows if one["needs_sign_in"]} == others
            assert client.get(f"/clusters/{name}/topics").status_code == 200


class _OpenedError(Exception):
    """Instead of serving."""


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], ["prod", "test"]),
        (["--all-contexts"], ["prod", "test"]),
        (["--context", "test", "--context", "@prod"], ["test", "prod"]),
        (["--context", "test"], [""]),
        (["@test"], [""]),
        ([NOWHERE], [""]),
    ],
)
def test_the_command_shows_the_contexts_that_it_names_or_all(
    arguments: list[str],
    expected: list[str],
    data: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = tmp_path / "contexts.toml"
    file.write_text(f'[contexts.test]\ntarget = "{data}"\n[contexts.prod]\ntarget = "{NOWHERE}"\n')
    monkeypatch.setenv("OTTLA_CONTEXTS", str(file))
    seen: list[str] = []

    def opened(targets: Any, **given: Any) -> None:
        seen.extend(targets)
        raise _OpenedError

    monkeypatch.setattr(console_command, "open_console", opened)
    found = CliRunner().invoke(console_command.console_command, arguments)
    assert isinstance(found.exception, _OpenedError)
    assert seen == expected


def test_the_look_is_chosen_on_the_overview_of_clusters_too(data: str) -> None:
    with clusters_over({"test": data, "prod": NOWHERE}) as client:
        page = client.get("/").text
        found = re.search(r'name="form_token" value="([0-9a-f]+)"', page)
        assert found is not None
        form = {"form_token": found[1], "look": "dark", "next": "/"}
        answer = client.post("/look", data=form, headers={"origin": HOST})
        assert '<html lang="en" data-look="dark"' in answer.text


def test_a_context_whose_name_cannot_be_in_an_address_is_named(
    data: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "contexts.toml"
    tables = (f'[contexts."{name}"]\ntarget = "{data}"\n' for name in ("test", "a/../<b>{c}"))
    file.write_text("".join(tables))
    monkeypatch.setenv("OTTLA_CONTEXTS", str(file))
    found = CliRunner().invoke(console_command.console_command, ["--all-contexts"])
    assert "context a/../<b>{c}: a name is letters" in str(found.exception)
