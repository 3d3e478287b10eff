"""Source, sink and mirror where clients log in over TLS and may do what ACLs say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ottla
from ottla.base.errors import UserError
from ottla.client.connecting.security import parse_security
from ottla.mirror.endpoints import Access
from ottla.mirror.mirror import MirrorOptions
from ottla.mirror.source import Selection
from ottla.spark.mirror import mirror_with_spark
from ottla.spark.session import LocalSession
from ottla.testing import LocalBroker

PASSWORD = "pot;kettle"
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:admin",
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
}
MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalBroker]:
    users = {"ana": PASSWORD, "admin": "x"}
    directory = tmp_path_factory.mktemp("secured") / "broker"
    with LocalBroker(directory, SETTINGS, security="SASL_SSL", users=users) as made:
        for topic in ("orders", "copies", "secrets"):
            made.create_topic(topic)
            made.produce(topic, "tea")
        with ottla.Admin(made.log) as admin:
            for resource, operations in (
                ({"name": "orders"}, ("READ",)),
                ({"name": "orders"}, ("DESCRIBE_CONFIGS",)),
                ({"name": "copies"}, ("WRITE", "READ")),
                ({"resource_type": "TRANSACTIONAL_ID", "name": "*"}, ("ALL",)),
                ({"resource_type": "GROUP", "name": "*"}, ("ALL",)),
            ):
                admin.create_acls(
                    ottla.AclBinding(**resource, principal="User:ana", operation=one)
                    for one in operations
                )
        yield made


@pytest.fixture
def options(broker: LocalBroker) -> dict[str, str]:
    """With the login as Java's clients write it."""
    own = broker.client_settings("ana")
    del own["sasl.username"], own["sasl.password"]
    own["sasl.jaas.config"] = f'{MODULE} required username="ana" password="{PASSWORD}";'
    given = {f"kafka.{name}": value for name, value in own.items()}
    return {"kafka.bootstrap.servers": broker.address, **given}


def test_rows_come_and_go_and_the_password_is_in_no_plan_or_argument(
    local_session: LocalSession, broker: LocalBroker, options: dict[str, str]
) -> None:
    frame = reading(local_session, options, "orders")
    assert [bytes(row.value) for row in frame.collect()] == [b"tea"]
    assert PASSWORD not in frame._jdf.queryExecution().toString()
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        assert PASSWORD.encode() not in place.read_bytes()
    frame.write.format("ottla").mode("append").options(**options, topic="copies").save()
    assert [record.value for record in broker.records("copies")] == [b"tea", b"tea"]


def test_a_topic_that_a_login_may_not_use_is_one_line(
    local_session: LocalSession, options: dict[str, str]
) -> None:
    with pytest.raises(Exception, match="Topic authorization failed") as refused:
        reading(local_session, options, "secrets").collect()
    assert PASSWORD not in str(refused.value)
    frame = reading(local_session, options, "orders")
    for topic in ("secrets", "orders"):
        with pytest.raises(Exception, match="Topic authorization failed") as refused:
            frame.write.format("ottla").mode("append").options(**options, topic=topic).save()
        assert PASSWORD not in str(refused.value)


def test_a_mirror_copies_what_it_may_read_in_tasks(
    local_session: LocalSession, broker: LocalBroker, options: dict[str, str], tmp_path: Path
) -> None:
    security = parse_security(
        {name.removeprefix("kafka."): value for name, value in options.items()
         if name != "kafka.bootstrap.servers"}
    )  # fmt: skip
    wanted = MirrorOptions(selection=Selection(topics=("orders",)), with_groups=False)
    report = mirror_with_spark(
        broker.address, str(tmp_path / "copy"), wanted, access=Access(security=security),
        spark=local_session.spark,
    )  # fmt: skip
    assert report.task_count == 1
    with ottla.open(tmp_path / "copy") as copy:
        assert [record.value for record in copy.read("orders")] == [b"tea"]
    everything = MirrorOptions(with_groups=False)
    with pytest.raises(UserError, match="settings of topic copies: TOPIC_AUTHORIZATION_FAILED"):
        mirror_with_spark(
            broker.address, str(tmp_path / "all"), everything, access=Access(security=security)
        )
    wrong = parse_security({**broker.client_settings("ana"), "sasl.password": "guessed"})
    with pytest.raises(UserError, match=r"is refused \(Authentication failed"):
        mirror_with_spark(
            broker.address, str(tmp_path / "copy"), wanted, access=Access(security=wrong)
        )


def reading(session: LocalSession, options: dict[str, str], topic: str) -> Any:
    return session.spark.read.format("ottla").options(**options, subscribe=topic).load()
