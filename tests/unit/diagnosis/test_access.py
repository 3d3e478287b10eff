"""What a listener is open to, as doctor says it."""

import pytest

from ottla.base.scram import make_credential
from ottla.config.broker import broker_config
from ottla.diagnosis.access import open_listeners
from ottla.metadata.image import MetadataImage

SETTINGS = {
    "listeners": "SASL_PLAINTEXT://:9092",
    "sasl.enabled.mechanisms": "SCRAM-SHA-512",
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:admin",
}
CREDENTIAL = make_credential("SCRAM-SHA-512", b"secret", b"salt", 4096)


@pytest.mark.parametrize(
    ("more", "who", "what"),
    [
        ({}, "SCRAM-SHA-512 (1 users)", "may do what 0 ACLs allow, and no more; 1 super users"),
        (
            {"super.users": "User:a;admin;:b;User:;User:CN=c,O=d; User:e,User:f;"},
            "SCRAM-SHA-512 (1 users)",
            "may do what 0 ACLs allow, and no more; 2 super users",
        ),
        (
            {"zookeeper.connect": "zk1:2181"},
            "SCRAM-SHA-512 (users in ZooKeeper)",
            "may do what the ACLs in ZooKeeper allow, and no more; 1 super users",
        ),
    ],
)
def test_users_and_rules_of_a_cluster_are_in_zookeeper(
    more: dict[str, str], who: str, what: str
) -> None:
    state = MetadataImage(credentials={("ana", "SCRAM-SHA-512"): CREDENTIAL})
    (found,) = open_listeners(broker_config({**SETTINGS, **more}), state)
    assert found.who == f"clients that log in: {who}"
    assert found.what == what
    assert not found.is_open_to_all


def test_what_a_running_broker_does_not_tell_is_not_counted() -> None:
    """A broker hides `super.users` and the users of PLAIN from everybody."""
    more = {"sasl.enabled.mechanisms": "PLAIN", "super.users": ""}
    config = broker_config({**SETTINGS, **more})
    (found,) = open_listeners(config, MetadataImage(), has_secrets=False)
    assert found.who == "clients that log in: PLAIN"
    assert found.what == "may do what 0 ACLs allow, and no more; super users may do everything"


def test_a_listener_that_takes_any_free_port_says_so() -> None:
    config = broker_config({"listeners": "PLAINTEXT://127.0.0.1:0"})
    (found,) = open_listeners(config, MetadataImage())
    assert found.where == "listener PLAINTEXT (a free port of 127.0.0.1)"
