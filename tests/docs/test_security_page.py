"""The commands and settings of docs/security.md make a broker that lets its clients in."""

import re
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest

from ottla.base.principal import Principal
from ottla.cli.settings_files import read_server_properties
from ottla.config.broker import broker_config
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from tests.support.patience import PATIENCE_S
from tests.support.serving import WireClient, open_broker, serving

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
BROKERS = re.compile(r"<!-- file: server.properties -->\n```properties\n(.*?)```", re.DOTALL)


def block(kind: str) -> str:
    """The first block of that kind on the page."""
    return PAGE.read_text().partition(f"```{kind}\n")[2].partition("```")[0]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_certificates_and_settings_of_the_page_let_ana_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    subprocess.run(["sh", "-ec", block("sh")], check=True, capture_output=True, timeout=PATIENCE_S)
    Path("server.properties").write_text(block("properties"))
    settings = read_server_properties(Path("server.properties"))
    context = ssl.create_default_context(cafile="ca.pem")
    context.load_cert_chain("client.crt", "client.key")
    with (
        serving(open_broker(tmp_path / "data", **settings)) as server,
        WireClient(server.addresses[1], context) as client,
    ):
        assert client.ask(ApiVersionsRequest(), 0).error_code == 0
        (connection,) = server._connections
        assert connection.peer.principal == Principal("User", "ana")
    assert Path("broker.pem").stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("number", [0, 1])
def test_no_setting_of_the_page_is_answered_with_no_effect(tmp_path: Path, number: int) -> None:
    file = tmp_path / "server.properties"
    file.write_text(BROKERS.findall(PAGE.read_text())[number])
    assert broker_config(read_server_properties(file)).without_effect == []
