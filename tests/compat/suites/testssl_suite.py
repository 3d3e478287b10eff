"""What testssl.sh, out of Debian's package of it, finds of a listener with TLS.

Run with `python -m tests.compat.suites.testssl_suite`, a minute or two: it speaks old protocols by
itself, which OpenSSL of today has no more, and tries the attacks that have names. A finding that is
worse than information makes the run fail.
"""

import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.compat.suites.suite import FAILED, PASSED, not_run, report
from tests.support.certificates import authority
from tests.support.serving import open_broker, serving

SUITE = "testssl.sh"
PROGRAM = "testssl"
CHECKS = ("--protocols", "--std", "--pfs", "--vulnerable")
HARMLESS = ("OK", "INFO")

KNOWN_GAPS: dict[str, str] = {}


def main() -> int:
    if shutil.which(PROGRAM) is None:
        return not_run(SUITE, "testssl is not installed (apt-get install testssl.sh)")
    with tempfile.TemporaryDirectory() as scratch:
        found = Path(scratch) / "found.json"
        store = authority().server().write(Path(scratch) / "server.pem")
        broker = open_broker(
            Path(scratch) / "data",
            listeners="SSL://127.0.0.1:0",
            ssl_keystore_location=str(store),
        )
        with serving(broker) as server:
            address = f"127.0.0.1:{server.address[1]}"
            output = ("--quiet", "--color", "0", "--warnings", "off", "--jsonfile", str(found))
            subprocess.run(
                [PROGRAM, *output, "--nodns", "none", *CHECKS, address],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                check=False,
            )
        findings = json.loads(found.read_text()) if found.exists() else []
    return report(SUITE, outcomes_of(findings), KNOWN_GAPS)


def outcomes_of(findings: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Outcome by name of the finding, with what it says where that is bad."""
    return {
        one["id"] if one["severity"] in HARMLESS else f"{one['id']}: {one['finding']}": (
            PASSED if one["severity"] in HARMLESS else FAILED
        )
        for one in findings
    }


if __name__ == "__main__":
    sys.exit(main())
