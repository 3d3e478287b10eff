"""Which mechanisms of `sasl.enabled.mechanisms` a listener offers."""

import pytest

from ottla.config.broker import broker_config
from ottla.config.setting import SettingError
from ottla.server.authentication.authentication import LoginSettings, login_settings


def offered(mechanisms: str, **settings: str) -> LoginSettings:
    given = {
        "listeners": "CLIENTS://:0",
        "listener.security.protocol.map": "CLIENTS:SASL_PLAINTEXT",
        "sasl.enabled.mechanisms": mechanisms,
        **settings,
    }
    return login_settings(broker_config(given), "CLIENTS")


def test_unknown_mechanisms_beside_known_ones_are_left_out_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert offered("GSSAPI,PLAIN,X").mechanisms == ("PLAIN",)
    assert [record.getMessage() for record in caplog.records] == [
        f"listener CLIENTS: sasl.enabled.mechanisms: {one} is left out" for one in ("GSSAPI", "X")
    ]
    own = {"listener.name.clients.sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-256"}
    assert offered("PLAIN", **own).mechanisms == ("SCRAM-SHA-256",)


def test_unknown_mechanisms_alone_are_refused() -> None:
    with pytest.raises(SettingError, match="GSSAPI: listener CLIENTS needs one of PLAIN"):
        offered("GSSAPI")
