"""A program that serves several people asks the brokers in the name of each."""

from pathlib import Path

import pytest

from ottla.base.errors import UnreachableError, UserError
from ottla.client.connecting.cluster import ClientSettings, Cluster
from ottla.client.connecting.security import AuthenticationError, Security
from ottla.client.connecting.signing_in import sign_in
from tests.support.logins import PASSWORD, USER, login_broker
from tests.support.serving import serving

pytestmark = pytest.mark.slow

NO_MECHANISM = ClientSettings(security=Security(protocol="SASL_PLAINTEXT"))


def settings_with(mechanism: str) -> ClientSettings:
    security = Security(
        protocol="SASL_PLAINTEXT",
        mechanism=mechanism,
        username="the console",
        password="its own",
        is_token=True,
        token_file="/its/own",
    )
    return ClientSettings(security=security, patience_s=0)


@pytest.mark.parametrize("mechanism", ["", "PLAIN", "SCRAM-SHA-256", "OAUTHBEARER"])
def test_the_brokers_are_asked_in_the_name_of_the_one_who_signed_in(
    tmp_path: Path, mechanism: str
) -> None:
    broker = login_broker(
        tmp_path,
        authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        super_users="User:bob",
    )
    with serving(broker) as server:
        own = sign_in([server.address], settings_with(mechanism), USER, PASSWORD)
        with Cluster([server.address], own, sleep=lambda _: None, topics=()) as cluster:
            assert list(cluster.node_ids()) == [broker.node_id]
        assert own.security.username == USER
        for name, password in ((USER, "another"), ("nobody", PASSWORD), ("", PASSWORD)):
            with pytest.raises(AuthenticationError) as refused:
                sign_in([server.address], settings_with(mechanism), name, password)
            assert password not in str(refused.value)


def test_a_password_as_it_is_does_not_leave_without_tls_unless_the_settings_say_plain(
    tmp_path: Path,
) -> None:
    broker = login_broker(tmp_path, sasl_enabled_mechanisms="PLAIN")
    with serving(broker) as server:
        with pytest.raises(AuthenticationError, match="SCRAM-SHA-512 or SCRAM-SHA-256 in sasl"):
            sign_in([server.address], NO_MECHANISM, USER, PASSWORD)
        assert sign_in([server.address], settings_with("PLAIN"), USER, PASSWORD)


def test_where_nobody_logs_in_or_answers_it_is_said() -> None:
    with pytest.raises(UserError, match="brokers have users where it is SASL_SSL"):
        sign_in([("127.0.0.1", 1)], ClientSettings(), USER, PASSWORD)
    with pytest.raises(UnreachableError):
        sign_in([("127.0.0.1", 1)], NO_MECHANISM, USER, PASSWORD)
