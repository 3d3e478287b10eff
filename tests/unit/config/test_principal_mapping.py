"""What makes users of the subjects of certificates: Kafka's examples, and what is refused."""

import pytest

from ottla.config.principal_mapping import PrincipalMapping

KAFKAS = (
    "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,"
    "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,"
    "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT"
)
"""The rules of Kafka's documentation and of its tests."""


@pytest.mark.parametrize(
    ("subject", "user"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "Duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=JohnDoe.Example,O=Other", "johndoe.example"),
        ("OU=JavaSoft,O=Sun Microsystems", "OU=JavaSoft,O=Sun Microsystems"),
    ],
)
def test_the_first_rule_that_matches_names_the_user(subject: str, user: str) -> None:
    assert PrincipalMapping.parse(KAFKAS).user_of(subject) == user


@pytest.mark.parametrize(
    ("rules", "subject", "user"),
    [
        ("DEFAULT", "CN=a", "CN=a"),
        ("", "CN=a", "CN=a"),
        (" RULE:CN=(.*)/$1/U , DEFAULT ", "CN=a", "A"),
        (r"RULE:CN=host\/(.*)/svc\/$1/", "CN=host/web", "svc/web"),
        ("RULE:CN=(.*)/$2-$1/", "CN=a", "$2-a"),
        (r"RULE:CN=(.*)/\$1/", "CN=a", "$1"),
        ("RULE:CN=(a)?(.*)/$1$2/", "CN=b", "b"),
        ("RULE:CN=b/x/", "CN=a", None),
        ("RULE:CN=a/x/", "CN=a,O=more", None),
    ],
)
def test_rules_are_read_as_kafka_reads_them(rules: str, subject: str, user: str | None) -> None:
    assert PrincipalMapping.parse(rules).user_of(subject) == user


def test_a_pattern_that_looks_ahead_is_read_too() -> None:
    rules = r"RULE:CN=(?!root)(\w+)-\1/$1/"
    assert PrincipalMapping.parse(rules).user_of("CN=ana-ana") == "ana"
    assert PrincipalMapping.parse(rules).user_of("CN=root-root") is None


def test_a_subject_cannot_keep_the_broker_busy() -> None:
    mapping = PrincipalMapping.parse("RULE:^CN=(([a-z]+)+),O=Acme$/$1/")
    assert mapping.user_of("CN=" + "a" * 10_000) is None  # 2**10000 steps of backtracking


@pytest.mark.parametrize(
    "rules",
    ["DEFAULT/L", "RULE:abc", "RULE:a/b", "RULE:a/b/X", "RULE:a/b/LU", "default", "RULE:(/b/"],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match=r"RULE:|must be"):
        PrincipalMapping.parse(rules)
