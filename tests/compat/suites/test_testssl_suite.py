"""What of testssl.sh's findings makes its run fail."""

from tests.compat.suites.testssl_suite import outcomes_of


def test_a_finding_worse_than_information_is_a_failure_with_what_it_says() -> None:
    findings = [
        {"id": "TLS1_2", "severity": "OK", "finding": "offered"},
        {"id": "ALPN", "severity": "INFO", "finding": "not offered"},
        {"id": "SSLv3", "severity": "CRITICAL", "finding": "offered"},
        {"id": "scanProblem", "severity": "FATAL", "finding": "Can't connect"},
    ]
    assert outcomes_of(findings) == {
        "TLS1_2": "passed",
        "ALPN": "passed",
        "SSLv3: offered": "failed",
        "scanProblem: Can't connect": "failed",
    }
