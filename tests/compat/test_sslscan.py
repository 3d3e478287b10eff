"""What sslscan finds of a listener with TLS: nothing old and nothing weak."""

import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.support.certificates import authority
from tests.support.patience import PATIENCE_S
from tests.support.serving import open_broker, serving

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("sslscan") is None, reason="sslscan is not installed"),
]


def test_nothing_that_is_spoken_is_old_or_weak(tmp_path: Path) -> None:
    store = authority().server().write(tmp_path / "server.pem")
    broker = open_broker(
        tmp_path / "data", listeners="SSL://127.0.0.1:9093", ssl_keystore_location=str(store)
    )
    with serving(broker) as server:
        done = subprocess.run(
            ["sslscan", "--xml=-", f"127.0.0.1:{server.address[1]}"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=True,
        )
    (found,) = ElementTree.fromstring(done.stdout).iter("ssltest")
    spoken = {
        f"{one.get('type')}v{one.get('version')}"
        for one in found.iter("protocol")
        if one.get("enabled") == "1"
    }
    assert spoken == {"tlsv1.2", "tlsv1.3"}
    ciphers = list(found.iter("cipher"))
    assert ciphers
    assert {one.get("strength") for one in ciphers} <= {"strong", "acceptable"}
    assert all(
        "GCM" in one.get("cipher", "") or "CHACHA" in one.get("cipher", "") for one in ciphers
    )
    assert [one.get("supported") for one in found.iter("compression")] in ([], ["0"])
    assert all(one.get("supported") == "0" for one in found.iter("renegotiation"))
    assert all(one.get("vulnerable") == "0" for one in found.iter("heartbleed"))
