"""Users and rules of a directory by its files are those that its broker describes."""

from pathlib import Path

import ottla
from tests.support.read_only import reading

SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
ACLS = [
    ottla.AclBinding(name="orders", principal="User:ana", operation="READ"),
    ottla.AclBinding(
        name="log",
        pattern_type="PREFIXED",
        principal="User:bob",
        operation="WRITE",
        host="10.0.0.1",
    ),
    ottla.AclBinding(
        resource_type="GROUP", name="*", principal="User:ana", operation="READ", permission="DENY"
    ),
]
FILTERS = [
    ottla.AclBindingFilter(),
    ottla.AclBindingFilter(principal="User:ana"),
    ottla.AclBindingFilter(name="logs", pattern_type="MATCH"),
    ottla.AclBindingFilter(resource_type="GROUP", permission="DENY"),
    ottla.AclBindingFilter(operation="WRITE", host="10.0.0.1"),
    ottla.AclBindingFilter(name="orders", resource_type="CLUSTER"),
]


def test_users_and_their_mechanisms_are_what_the_broker_describes(tmp_path: Path) -> None:
    with ottla.open(tmp_path) as log, ottla.Admin(log) as admin:
        assert reading(tmp_path).describe_user_scram_credentials() == {}
        admin.alter_user_scram_credentials(
            ottla.UserScramCredentialUpsertion(user=user, mechanism=mechanism, password="pot")
            for user, mechanism in (
                ("bob", "SCRAM-SHA-512"),
                ("ana", "SCRAM-SHA-512"),
                ("ana", "SCRAM-SHA-256"),
            )
        )
        found = reading(tmp_path).describe_user_scram_credentials()
        assert found == admin.describe_user_scram_credentials()
        assert list(found) == ["ana", "bob"]


def test_rules_that_match_are_those_that_the_broker_describes(tmp_path: Path) -> None:
    with ottla.open(tmp_path, SETTINGS) as log, ottla.Admin(log) as admin:
        admin.create_acls(ACLS)
        at_rest = reading(tmp_path)
        assert len(at_rest.describe_acls()) == 3
        for wanted in FILTERS:
            assert sorted(at_rest.describe_acls(wanted)) == sorted(admin.describe_acls(wanted))
