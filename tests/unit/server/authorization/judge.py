"""A broker that is asked every request of the matrix, under rules that are replaced each time."""

from ottla.base.principal import Principal
from ottla.broker.broker import Broker
from ottla.metadata.acls import Acl
from ottla.metadata.tokens import DelegationToken
from ottla.protocol.api_keys import ApiKey
from ottla.server.dispatching.request_context import Client
from tests.support.asking import ADDRESS, Asker
from tests.support.brokers import NOW_MS, disk, open_broker
from tests.unit.server.authorization.row import ANA, HOST, NEW_TOPIC, OWNER, TOKEN, Need, Row
from tests.unit.server.authorization.rows import ROWS


class Judge:
    """One broker for all rows; what it knows of rules is replaced for each question."""

    def __init__(self) -> None:
        self.broker: Broker = open_broker(
            disk("/d"),
            authorizer_class_name="org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            super_users="User:admin",
            delegation_token_secret_key="sealed",
        )
        client = Client(ADDRESS, HOST, ANA, protocol="SASL_PLAINTEXT")
        self.asker = Asker(self.broker, client=client)
        self._admin = Asker(self.broker, client=Client(ADDRESS, HOST, Principal("User", "admin")))
        self.prepare()
        begin = ROWS[ApiKey.INIT_PRODUCER_ID][0]
        self._admin.ask(begin.request(), begin.version)
        self.broker.security.put_token(
            DelegationToken(
                token_id=TOKEN,
                owner=OWNER,
                requester=OWNER,
                renewers=(),
                issued_ms=NOW_MS,
                expires_ms=NOW_MS + 1000,
                max_ms=NOW_MS + 1000,
            )
        )

    def prepare(self) -> None:
        """Brings back the topic and the group, which rows before may have deleted."""
        if self.broker.topics.find(NEW_TOPIC.name) is None:
            self.broker.admin.create_topic(NEW_TOPIC)
        commit = ROWS[ApiKey.OFFSET_COMMIT][0]
        self._admin.ask(commit.request(), commit.version)

    def is_denied(self, row: Row, need: Need, rules: list[Acl]) -> bool:
        assert self.broker.security.authorizer is not None
        self.broker.security.authorizer.change(rules)
        request = row.request()
        later, output = self.asker.send(request, row.version)
        if later is not None:
            return False
        return row.is_denied(self.asker.decode(request, row.version, output), need)
