"""Settings of a cluster with security that could not mean anything."""

import pytest

from ottla.base.errors import UserError
from ottla.client.connecting.security import librdkafka_settings, parse_security

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


def test_librdkafka_gets_javas_settings_in_its_own_words() -> None:
    """For `ottla mirror --mode reproduce`, which produces through it."""
    login = 'ScramLoginModule required username="ana" password="x";'
    settings = {
        "sasl.jaas.config": login,
        "ssl.truststore.location": "ca.pem",
        "ssl.truststore.type": "pem",
        "ssl.keystore.location": "own.pem",
        "client.rack": "a",
    }
    assert librdkafka_settings(settings) == {
        "client.rack": "a",
        "sasl.username": "ana",
        "sasl.password": "x",
        "ssl.ca.location": "ca.pem",
        "ssl.certificate.location": "own.pem",
        "ssl.key.location": "own.pem",
    }
    stores = {"ssl.keystore.location": "own.p12", "ssl.keystore.password": "x"}
    assert librdkafka_settings(stores) == stores
    with pytest.raises(UserError, match="librdkafka reads PEM"):
        librdkafka_settings({"ssl.truststore.password": "x"})
    for wrong in (login.replace(";", ' tokenauth="true";'), "Krb5LoginModule required;"):
        with pytest.raises(UserError, match="user and password"):
            librdkafka_settings({"sasl.jaas.config": wrong})
