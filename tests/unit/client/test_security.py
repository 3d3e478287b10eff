"""Settings of a cluster with security that could not mean anything."""

import pytest

from ottla.base.errors import UserError
from ottla.client.security import parse_security

LOGIN = {"security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ana"}
JAAS = 'PlainLoginModule required username="ana" password="se\0cret";'


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sasl.password", "se\0cret"),
        ("sasl.jaas.config", JAAS),
        ("ssl.ca.location", "/se\0cret"),
        ("ssl.keystore.key", "se\0cret"),
    ],
)
def test_no_setting_has_the_character_nul_and_its_value_is_not_shown(name: str, text: str) -> None:
    """In a login by PLAIN it ends a field: the rest would be taken for another."""
    with pytest.raises(UserError, match=f"{name}: contains the character NUL") as refused:
        parse_security({**LOGIN, name: text})
    assert "cret" not in str(refused.value)
