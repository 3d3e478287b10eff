"""What commands show a user who may read one topic, write another and see nothing else."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import ottla
from ottla.cli.main import cli
from ottla.testing import LocalBroker

SECURED = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:root",
}
RIGHTS = (
    ("orders", "READ"),
    ("logs", "WRITE"),
    ("bills", "DESCRIBE"),
    ("bills", "DESCRIBE_CONFIGS"),
)
As = Callable[..., Result]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    path = tmp_path_factory.mktemp("broker")
    users = {"ana": "pot", "root": "kettle"}
    with LocalBroker(path, SECURED, security="SASL_PLAINTEXT", users=users) as broker:
        with ottla.Admin(broker.log) as admin:
            admin.create_acls(
                ottla.AclBinding(name=name, principal="User:ana", operation=operation)
                for name, operation in RIGHTS
            )
        for topic in ("orders", "logs", "bills", "secrets"):
            broker.create_topic(topic)
            broker.produce(topic, "tea")
        yield broker


@pytest.fixture
def ana(broker: LocalBroker, tmp_path: Path) -> As:
    file = tmp_path / "ana.properties"
    # As files of clients have it, with an address that is not the target's.
    settings = {**broker.client_settings("ana"), "bootstrap.servers": "elsewhere:1"}
    file.write_text("".join(f"{name}={text}\n" for name, text in settings.items()))

    def run(*words: str) -> Result:
        command = [*words, "-b", broker.address, "--command-config", str(file)]
        return CliRunner().invoke(cli, command)

    return run


def test_topics_are_listed_without_what_the_user_may_not_see(ana: As) -> None:
    listed = ana("topics", "list")
    assert listed.exit_code == 0, listed.output
    rows = listed.stdout.splitlines()[2:]
    assert [row.split()[0] for row in rows] == ["bills", "logs", "orders"]
    assert ["not shown" in row for row in rows] == [False, True, True]
    rows_of_json = [
        json.loads(line) for line in ana("topics", "list", "--json").stdout.splitlines()
    ]
    assert [(one["topic"], one["records"], one["cleanup_policy"]) for one in rows_of_json] == [
        ("bills", 1, "delete"),
        ("logs", 1, None),
        ("orders", 1, None),
    ]


@pytest.mark.parametrize("topic", ["orders", "logs"])
def test_a_topic_is_described_without_what_the_user_may_not_see(ana: As, topic: str) -> None:
    described = ana("topics", "describe", topic)
    assert described.exit_code == 0, described.output
    assert f"{topic}: 1 partition, 1 records" in described.stdout
    assert "retention not shown" in described.stdout
    assert json.loads(ana("topics", "describe", topic, "--json").stdout)["settings"] == {}


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("consume", "logs", "-o", "beginning", "-e"), "logs-0: TOPIC_AUTHORIZATION_FAILED"),
        (("explain", "retention", "orders"), "orders: TOPIC_AUTHORIZATION_FAILED"),
        (("explain", "retention", "bills"), "shows no size of topic bills"),
        (("configs", "get", "orders"), "topic orders: TOPIC_AUTHORIZATION_FAILED"),
        (("users", "list"), "users: CLUSTER_AUTHORIZATION_FAILED"),
        (("acls", "list"), "ACLs: CLUSTER_AUTHORIZATION_FAILED"),
        (("quotas", "list"), "quotas: CLUSTER_AUTHORIZATION_FAILED"),
        (("topics", "create", "new"), "new: TOPIC_AUTHORIZATION_FAILED"),
        (("topics", "describe", "secrets"), "there is no topic secrets"),
        (("topics", "delete", "orders", "--yes"), "orders: TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_what_is_denied_is_one_line_that_names_what_and_says_how_to_allow_it(
    ana: As, words: tuple[str, ...], told: str
) -> None:
    denied = ana(*words)
    assert denied.exit_code == 1, denied.output
    (line,) = denied.stderr.splitlines()
    assert told in line
    assert "ottla acls add" in line or "there is no" in line


def test_a_listener_that_asks_for_a_login_is_named_as_such(broker: LocalBroker) -> None:
    refused = CliRunner().invoke(cli, ["topics", "list", broker.address])
    assert refused.exit_code == 2
    assert "the connection was closed; set security.protocol if" in refused.stderr
