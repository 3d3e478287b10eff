"""Clusters with TLS and logins, mirrored; and what is told when they do not let us in."""

import ssl
from pathlib import Path

import pytest

import ottla
from ottla.cli.main import main
from ottla.testing import LocalBroker
from tests.support.secured_front import PASSWORD, USER, SecuredFront, certificate_files

pytestmark = pytest.mark.slow


class Mirrored:
    """A broker behind a front, with ten records; `mirror` copies them and returns what was said."""

    def __init__(self, directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._directory = directory
        self._capsys = capsys

    def run(self, front: SecuredFront, **settings: str) -> tuple[int, str]:
        address = f"localhost:{front.port}"
        told = {"advertised.listeners": f"PLAINTEXT://{address}"}
        with ottla.open(self._directory / "data", told) as log:
            if "orders" not in log.topics():
                log.create_topic("orders")
                for number in range(10):
                    log.append("orders", b"%d" % number)
            front.broker_port = int(log.listen("127.0.0.1:0").address.rpartition(":")[2])
            config = self._directory / "client.properties"
            lines = (f"{name.replace('_', '.')}={value}\n" for name, value in settings.items())
            config.write_text("".join(lines))
            target = self._directory / "copy"
            with pytest.raises(SystemExit) as end:
                main(["mirror", address, str(target), "--source-config", str(config)])
            said = self._capsys.readouterr()
            return int(end.value.code or 0), " ".join((said.out + said.err).split())

    def assert_copied(self) -> None:
        with ottla.open(self._directory / "copy") as copy:
            assert copy.offsets("orders") == {0: (0, 10)}


@pytest.fixture
def mirrored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Mirrored:
    return Mirrored(tmp_path, capsys)


LOGIN = {"security_protocol": "SASL_PLAINTEXT", "sasl_username": USER, "sasl_password": PASSWORD}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_cluster_that_wants_a_login_is_mirrored(mirrored: Mirrored, mechanism: str) -> None:
    with SecuredFront(mechanism) as front:
        assert mirrored.run(front, **LOGIN, sasl_mechanism=mechanism)[0] == 0
    mirrored.assert_copied()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_one_line(mirrored: Mirrored, mechanism: str) -> None:
    with SecuredFront(mechanism) as front:
        wrong = {**LOGIN, "sasl_mechanism": mechanism, "sasl_password": "kettle"}
        code, said = mirrored.run(front, **wrong)
    assert code == 2
    assert f"{USER} is refused (Authentication failed); check sasl.username" in said
    assert "kettle" not in said


def test_a_mechanism_that_is_not_taken_is_named_with_those_that_are(mirrored: Mirrored) -> None:
    with SecuredFront("SCRAM-SHA-512") as front:
        code, said = mirrored.run(front, **LOGIN, sasl_mechanism="PLAIN")
    assert code == 2
    assert "does not support PLAIN; set sasl.mechanism to one of: SCRAM-SHA-512" in said


def test_a_cluster_behind_tls_is_mirrored_and_one_of_an_unknown_name_is_not(
    mirrored: Mirrored, tmp_path: Path
) -> None:
    certificate, key = certificate_files(tmp_path)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    with SecuredFront("SCRAM-SHA-256", context) as front:
        secured = {**LOGIN, "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256"}
        code, said = mirrored.run(front, **secured)
        assert code == 2
        assert "certificate verify failed" in said
        assert mirrored.run(front, **secured, ssl_ca_location=str(certificate))[0] == 0
    mirrored.assert_copied()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"sasl_mechanism": "GSSAPI"}, "sasl.mechanism=GSSAPI: it is one of PLAIN, SCRAM-SHA-256"),
        ({"security_protocol": "SASL_SSL"}, "SASL_SSL needs sasl.mechanism (PLAIN"),
        ({"ssl_cipher_suites": "x"}, "ssl.cipher.suites: unknown setting; known are"),
        ({"security_protocol": "SSL", "ssl_ca_location": "none.pem"}, "none.pem: "),
    ],
)
def test_settings_that_cannot_be_are_reported(
    mirrored: Mirrored, settings: dict[str, str], words: str
) -> None:
    with SecuredFront() as front:
        code, said = mirrored.run(front, **settings)
    assert code == 2
    assert words in said


def test_records_are_sent_again_from_one_secured_cluster_to_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("confluent_kafka")
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ana",
    }
    users = {"ana": "pot;kettle", "bob": "x"}
    with (
        LocalBroker(tmp_path / "from", authorizer, security="SASL_SSL", users=users) as source,
        LocalBroker(tmp_path / "to", authorizer, security="SASL_SSL", users=users) as target,
    ):
        source.produce("orders", "tea")
        config = {
            (broker, user): written(tmp_path / f"{number}-{user}", broker, user)
            for number, broker in enumerate((source, target))
            for user in users
        }

        def mirror(source_user: str, target_user: str) -> tuple[int, str]:
            with pytest.raises(SystemExit) as end:
                main(["mirror", source.address, target.address, "--mode", "reproduce",
                      "--source-config", str(config[source, source_user]),
                      "--target-config", str(config[target, target_user])])  # fmt: skip
            said = capsys.readouterr()
            return int(end.value.code or 0), " ".join((said.out + said.err).split())

        assert mirror("ana", "ana")[0] == 0
        target.assert_produced("orders", value="tea")
        code, said = mirror("ana", "bob")
        assert code != 0
        assert "uthorization" in said
        assert "Traceback" not in said


def written(path: Path, broker: LocalBroker, user: str) -> Path:
    """A file of settings with the login as Java's clients write it."""
    settings = broker.client_settings(user)
    name, password = settings.pop("sasl.username"), settings.pop("sasl.password")
    settings["sasl.jaas.config"] = (
        "org.apache.kafka.common.security.scram.ScramLoginModule required "
        f'username="{name}" password="{password}";'
    )
    path.write_text("".join(f"{one}={text}\n" for one, text in settings.items()))
    return path
