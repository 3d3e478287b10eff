"""Whether a follower's broker leads a table's topic, asked of brokers as long as it follows."""

from pathlib import Path

from ottla.cli.load.following import Leadership
from ottla.loading.job import LoadRoute
from ottla.metadata.deciding.topics import NewTopic
from tests.support.serving import open_broker, serving


def test_all_tables_ask_over_one_connection_until_the_settings_change(tmp_path: Path) -> None:
    settings = tmp_path / "client.properties"
    settings.write_text("")
    broker = open_broker(tmp_path / "data")
    broker.admin.create_topic(NewTopic(name="orders", partition_count=1))
    broker.admin.create_topic(NewTopic(name="teas", partition_count=1))
    with serving(broker) as server:
        host, port = server.address
        orders, teas, none = (
            LoadRoute(f"{host}:{port}", topic, topic) for topic in ("orders", "teas", "none")
        )

        def accepted() -> int:
            return server.connection_counts.accepted

        here, elsewhere = (
            Leadership(broker.node_id, settings),
            Leadership(broker.node_id + 1, settings),
        )
        try:
            assert here.is_ours(orders)
            first = accepted()
            assert [here.is_ours(one) for one in (teas, none, orders)] == [True, False, True]
            assert accepted() == first
            settings.write_text("security.protocol=PLAINTEXT\n")
            assert here.is_ours(orders)
            assert accepted() > first, "as one does whose password has changed"
            assert not elsewhere.is_ours(orders)
        finally:
            here.close()
            elsewhere.close()
