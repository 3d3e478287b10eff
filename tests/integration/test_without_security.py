"""What a broker pays for security that nobody asked for: no function of it is called."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import pytest

from ottla.metadata.deciding.topics import NewTopic
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest
from tests.integration.test_tls_listeners import fetch, produce
from tests.support.brokers import batch
from tests.support.logins import log_in, login_broker
from tests.support.serving import WireClient, open_broker, serving

ROOMS = (
    "/ottla/base/scram.py",
    "/ottla/base/tls.py",
    "/ottla/broker/security/",
    "/ottla/server/authentication/authentication.py",
    "/ottla/server/authorization/",
    "/ottla/server/authentication/oauth.py",
    "/ottla/server/tls/",
)


@pytest.fixture
def called() -> Iterator[set[str]]:
    """The files of the functions that threads call which are begun from now on."""
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            files.add(frame.f_code.co_filename)

    threading.setprofile(note)
    yield files
    threading.setprofile(None)


def of_security(files: set[str]) -> set[str]:
    return {room for room in ROOMS for file in files if room in file}


def test_requests_to_a_plain_broker_call_no_function_of_security(
    tmp_path: Path, called: set[str]
) -> None:
    broker = open_broker(tmp_path)
    broker.admin.create_topic(NewTopic(name="t"))
    with serving(broker) as server, WireClient(server.address) as client:
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
        assert client.ask(MetadataRequest(topics=None), 9).topics
        for _ in range(3):
            assert produce(client, "t", bytes(batch(b"v"))) == 0
        assert fetch(client, "t")
    assert any("/ottla/server/" in file for file in called)
    assert of_security(called) == set()


@pytest.mark.slow
def test_a_broker_with_logins_and_rules_would_be_noticed(tmp_path: Path, called: set[str]) -> None:
    authorizer = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    broker = login_broker(tmp_path, authorizer_class_name=authorizer, super_users="User:ana")
    with serving(broker) as server, WireClient(server.address) as client:
        log_in(client)
        assert client.ask(MetadataRequest(topics=None), 9).topics == []
    assert of_security(called) >= {
        "/ottla/broker/security/",
        "/ottla/server/authentication/authentication.py",
        "/ottla/server/authorization/",
    }


@pytest.mark.slow
def test_a_plain_broker_imports_no_libraries_of_security(tmp_path: Path) -> None:
    """In a process of its own."""
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.support.serving import WireClient, open_broker, serving\n"
        "from ottla.protocol.messages.metadata import MetadataRequest\n"
        "with serving(open_broker(Path(sys.argv[1]))) as server:\n"
        "    with WireClient(server.address) as client:\n"
        "        client.ask(MetadataRequest(topics=None), 9)\n"
        "print(*sorted({one.partition('.')[0] for one in sys.modules}))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
    )
    assert not {"cryptography", "jwt", "scramp", "asn1crypto"} & set(done.stdout.split())
