"""JAAS files, as Java reads them."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.config.jaas import parse_jaas_file

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"
FILE = f"""
// Who brokers are.
KafkaServer {{
    org.apache.kafka.common.security.plain.PlainLoginModule required
    username="admin" /* of all
    brokers */ password="a \\"quoted\\" // secret";
}};
Client {{
    {DIGEST} required
    username=kafka
    password="{{}};";
    com.example.Another optional;
}};
"""


def test_each_section_has_its_first_login_module() -> None:
    found = parse_jaas_file(FILE)
    assert list(found) == ["KafkaServer", "Client"]
    assert found["KafkaServer"].options == {
        "username": "admin",
        "password": 'a "quoted" // secret',
    }
    assert found["Client"].module == DIGEST
    assert found["Client"].options == {"username": "kafka", "password": "{};"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Client", "{ is missing"),
        ("Client { a.B required", "; is missing"),
        ("Client { a.B required; }", "; is missing"),
        ("Client { a.B; };", "a name or value is missing"),
        ("Client { a.B always x=1; };", "required must follow a.B"),
        ("Client { };", "the section Client has no login module"),
        ('Client { a.B required x="1; };', "line 1 is not JAAS"),
    ],
)
def test_what_is_no_jaas_is_said_without_its_values(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_jaas_file(text)


@given(st.text(alphabet='Client{};="ab \n/*\\', max_size=40))
def test_garbage_is_a_value_error(text: str) -> None:
    with suppress(ValueError):
        assert isinstance(parse_jaas_file(text), dict)
