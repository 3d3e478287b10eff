"""Subjects of certificates as Java writes them: RFC 2253, and Java's examples."""

from typing import Any

import pytest

from ottla.server.tls.ciphers import cipher_list
from ottla.server.tls.subjects import subject_of


def subject(*attributes: tuple[str, str]) -> dict[str, Any]:
    return {"subject": tuple(((name, value),) for name, value in attributes)}


@pytest.mark.parametrize(
    ("attributes", "text"),
    [
        (
            [("countryName", "US"), ("organizationName", "Acme"), ("commonName", "a")],
            "CN=a,O=Acme,C=US",
        ),
        ([("commonName", "Steve, Kille")], "CN=Steve\\, Kille"),
        ([("commonName", ' #"x"\\ ')], 'CN=\\ #\\"x\\"\\\\\\ '),
        ([("commonName", "#x")], "CN=\\#x"),
        ([("commonName", "grün")], "CN=grün"),
        ([("domainComponent", "com"), ("userId", "u")], "UID=u,DC=com"),
        (
            [("emailAddress", "a@b.c"), ("commonName", "a")],
            "CN=a,1.2.840.113549.1.9.1=#16056140622e63",
        ),
        ([("serialNumber", "7")], "2.5.4.5=#130137"),
        ([("1.2.3.4", "x" * 200)], "1.2.3.4=#0c81c8" + "78" * 200),
        ([], ""),
    ],
)
def test_subjects_are_written_as_java_writes_them(
    attributes: list[tuple[str, str]], text: str
) -> None:
    assert subject_of(subject(*attributes)) == text


def test_a_part_of_several_attributes_is_joined() -> None:
    parts = {"subject": ((("commonName", "a"), ("userId", "u")), (("countryName", "US"),))}
    assert subject_of(parts) == "C=US,CN=a+UID=u"


@pytest.mark.parametrize(
    ("suite", "name"),
    [
        ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", "ECDHE-RSA-AES256-GCM-SHA384"),
        ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"),
        ("TLS_RSA_WITH_AES_128_CBC_SHA256", "AES128-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA", "ECDHE-RSA-AES128-SHA"),
        ("TLS_DHE_RSA_WITH_AES_128_CCM", "DHE-RSA-AES128-CCM"),
        ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES128-GCM-SHA256"),
        ("TLS_AES_128_GCM_SHA256", ""),
    ],
)
def test_suites_of_the_standard_have_openssls_names(suite: str, name: str) -> None:
    assert cipher_list([suite]) == name
