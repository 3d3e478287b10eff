"""How a broker finds its login to ZooKeeper, by Kafka's ways."""

from pathlib import Path

import pytest

from ottla.base.errors import UserError
from ottla.cli.zookeeper_access import zookeeper_access
from ottla.cluster.access import Access, DigestLogin
from ottla.config.broker import broker_config

DIGEST = "org.apache.zookeeper.server.auth.DigestLoginModule"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "kafka.jaas"
    sections = ("Client", "Other")
    path.write_text(
        "".join(
            f'{one} {{ {DIGEST} required username="{one.lower()}" password="secret"; }};\n'
            for one in sections
        )
    )
    return path


def access(given: dict[str, str], options: str = "") -> Access:
    return zookeeper_access(broker_config(given), {"KAFKA_OPTS": options})


def test_without_a_jaas_file_nobody_logs_in() -> None:
    assert access({}) == Access()


def test_a_login_is_found_by_a_setting_and_by_the_options_of_java(file: Path) -> None:
    named = access({"ottla.zookeeper.jaas.file": str(file)}).login
    assert named == DigestLogin(
        user="client", password="secret", source=f"section Client of {file}"
    )
    option = f"-Xmx1g -Djava.security.auth.login.config={file}"
    assert access({}, option).login == named
    other = access({}, f"{option} -Dzookeeper.sasl.clientconfig=Other").login
    assert other is not None
    assert other.user == "other"


def test_a_file_of_java_without_such_a_section_is_for_something_else(file: Path) -> None:
    option = f"-Djava.security.auth.login.config={file} -Dzookeeper.sasl.clientconfig=Third"
    assert access({}, option).login is None


def test_nodes_get_owners_where_somebody_logs_in_or_shows_a_certificate(file: Path) -> None:
    sets = {"zookeeper.set.acl": "true"}
    assert access({**sets, "ottla.zookeeper.jaas.file": str(file)}).sets_acl
    assert access({**sets, "zookeeper.ssl.keystore.location": "of TLS"}).sets_acl
    with pytest.raises(UserError, match=r"zookeeper\.set\.acl=true needs a login"):
        access(sets)


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        (None, "", "No such file or directory; name a JAAS file"),
        ("Client {", "", "must look like: Client {"),
        (f"Server {{ {DIGEST} required; }};", "", "it has no section Client"),
        (f"Client {{ {DIGEST} required username=a; }};", "", "password is missing; add it"),
        (
            "Client { com.sun.security.auth.module.Krb5LoginModule required; };",
            "",
            "Krb5LoginModule is not supported",
        ),
        (
            f"Client {{ {DIGEST} required username=a password=b; }};",
            "-Dzookeeper.sasl.client=false",
            "KAFKA_OPTS: zookeeper.sasl.client=false, but there is a section Client",
        ),
    ],
)
def test_a_login_that_cannot_be_is_one_line_that_names_the_file(
    content: str | None, options: str, said: str, tmp_path: Path
) -> None:
    path = tmp_path / "wrong.jaas"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UserError) as refused:
        access({"ottla.zookeeper.jaas.file": str(path)}, options)
    assert said in str(refused.value)
    assert str(path) in str(refused.value)
    assert "\n" not in str(refused.value)
