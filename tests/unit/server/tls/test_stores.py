"""Keystores and truststores as Kafka takes them, and what is said of those that fail."""

from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("cryptography")

from cryptography.hazmat.primitives import serialization

from ottla.config.broker import broker_config
from ottla.config.listeners import Listener
from ottla.config.setting import SettingError
from ottla.server.tls.contexts import Tls, make_tls
from tests.support.certificates import Authority, authority, pkcs12_store

LISTENER = Listener(name="OUTSIDE", address=("127.0.0.1", 0), protocol="SSL")
PEM = {"ssl_keystore_type": "PEM"}


def tls(**values: str) -> Tls:
    return make_tls(
        LISTENER, broker_config({name.replace("_", "."): text for name, text in values.items()})
    )


def in_one_line(pem: str) -> str:
    return " ".join(pem.split("\n")).strip()


def test_keys_are_taken_from_a_file_of_pem(tmp_path: Path) -> None:
    path = authority().server().write(tmp_path / "server.pem")
    assert tls(ssl_keystore_location=str(path), **PEM)
    assert tls(ssl_keystore_location=str(path))  # what it is shows the file


def test_an_encrypted_key_is_opened_by_its_password(tmp_path: Path) -> None:
    path = authority().server().write(tmp_path / "server.pem", "sesame")
    assert tls(ssl_keystore_location=str(path), ssl_key_password="sesame", **PEM)
    for wrong in ({}, {"ssl_key_password": "wrong"}):
        with pytest.raises(SettingError, match=r"does not open; check ssl.key.password") as error:
            tls(ssl_keystore_location=str(path), **PEM, **wrong)
        assert "sesame" not in str(error.value)


def test_a_key_with_the_headers_of_an_old_encryption_is_opened(tmp_path: Path) -> None:
    """As `openssl ec -aes256` writes it (RFC 1421)."""
    identity = authority().server()
    old = serialization.PrivateFormat.TraditionalOpenSSL
    locked = serialization.BestAvailableEncryption(b"sesame")
    key = identity.key.private_bytes(serialization.Encoding.PEM, old, locked).decode()
    assert "Proc-Type: 4,ENCRYPTED" in key
    for name, text in (("lf", key), ("crlf", key.replace("\n", "\r\n"))):
        path = tmp_path / f"{name}.pem"
        path.write_bytes((text + identity.certificate_pem).encode())
        assert tls(ssl_keystore_location=str(path), ssl_key_password="sesame", **PEM)
        with pytest.raises(SettingError, match=r"does not open; check ssl.key.password"):
            tls(ssl_keystore_location=str(path), ssl_key_password="wrong", **PEM)


def test_a_password_that_openssl_cannot_take_is_refused_and_not_shown(tmp_path: Path) -> None:
    path = authority().server().write(tmp_path / "server.pem", "sesame")
    with pytest.raises(SettingError, match=r"ssl.key.password: .*longer than 1024") as refused:
        tls(ssl_keystore_location=str(path), ssl_key_password="secr" * 300, **PEM)
    assert "secr" not in str(refused.value)


@pytest.mark.parametrize("size", [0.1, 0.5, 0.75, 0.99])
def test_a_file_that_is_half_written_is_refused(tmp_path: Path, size: float) -> None:
    """A chain without its last certificates would be shown to clients, who refuse it."""
    identity = authority().server()
    whole = identity.key_pem() + identity.certificate_pem + authority().pem
    path = tmp_path / "server.pem"
    path.write_text(whole[: int(len(whole) * size)])
    with pytest.raises(SettingError, match=r"cut off|has neither PEM"):
        tls(ssl_keystore_location=str(path))


def test_files_with_other_ends_of_lines_and_words_around_them_are_taken(tmp_path: Path) -> None:
    identity = authority().server()
    text = f"# für uns\n{identity.key_pem()}Bag Attributes\n{identity.certificate_pem}"
    for name, ends in (("crlf", "\r\n"), ("cr", "\r")):
        path = tmp_path / f"{name}.pem"
        path.write_bytes(text.replace("\n", ends).encode())
        assert tls(ssl_keystore_location=str(path))


def test_a_truststore_with_bytes_that_are_no_pem_is_refused(tmp_path: Path) -> None:
    store, trusted = authority().server().write(tmp_path / "server.pem"), tmp_path / "ca.pem"
    trusted.write_bytes(authority().pem.encode().replace(b"MII", b"MI\xe4"))
    with pytest.raises(SettingError, match=r"ca\.pem has bytes that are not valid in PEM"):
        tls(
            ssl_keystore_location=str(store),
            ssl_truststore_location=str(trusted),
            ssl_client_auth="required",
        )


@pytest.mark.parametrize("written", [str, in_one_line, lambda pem: pem.replace("\n", "\\n")])
def test_keys_stand_in_the_settings_themselves(written: Callable[[str], str]) -> None:
    identity = authority().server()
    assert tls(
        ssl_keystore_key=written(identity.key_pem()),
        ssl_keystore_certificate_chain=written(identity.certificate_pem),
        ssl_truststore_type="PEM",
        ssl_truststore_certificates=written(authority().pem),
        ssl_client_auth="required",
        **PEM,
    )


def test_keystores_and_truststores_of_pkcs12_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "server.p12"
    path.write_bytes(pkcs12_store(authority().server(), "sesame"))
    settings = {
        "ssl_keystore_location": str(path),
        "ssl_truststore_location": str(path),
        "ssl_truststore_password": "sesame",
        "ssl_client_auth": "required",
    }
    assert tls(ssl_keystore_password="sesame", **settings)
    with pytest.raises(SettingError, match=r"ssl.keystore.password: does not open"):
        tls(ssl_keystore_password="wrong", **settings)


def test_a_listener_without_keys_says_what_to_name() -> None:
    with pytest.raises(
        SettingError, match=r"listener OUTSIDE: ssl.keystore.location: .* set their file"
    ):
        tls()


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match=r"none\.pem: No such file"):
        tls(ssl_keystore_location=str(tmp_path / "none.pem"))


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"\xfe\xed\xfe\xed\0\0\0\x02", "keytool -importkeystore"),
        (b"", "is empty"),
        (b"nothing", "has neither PEM"),
        (b"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n", "private key and its"),
    ],
)
def test_a_file_that_is_no_keystore_says_why(tmp_path: Path, data: bytes, reason: str) -> None:
    path = tmp_path / "store"
    path.write_bytes(data)
    with pytest.raises(SettingError, match=reason):
        tls(ssl_keystore_location=str(path))


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mixed.pem"
    one, other = authority().server(), authority().server()
    path.write_text(one.key_pem() + other.certificate_pem)
    with pytest.raises(SettingError, match="not that of the first certificate"):
        tls(ssl_keystore_location=str(path))


def test_client_certificates_need_somebody_who_signs_them(tmp_path: Path) -> None:
    path = authority().server().write(tmp_path / "server.pem")
    with pytest.raises(SettingError, match=r"ssl.truststore.location: ssl.client.auth=required"):
        tls(ssl_keystore_location=str(path), ssl_client_auth="required")


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"ssl_keystore_key": "x"}, "ssl.keystore.type=JKS: keys in settings are PEM"),
        ({"ssl_keystore_key": "x", **PEM}, "go together"),
        ({"ssl_keystore_key": "x", "ssl_keystore_location": "/x", **PEM}, "give one of them"),
        (
            {"ssl_keystore_key": "x", "ssl_keystore_certificate_chain": "x", **PEM},
            "ssl.keystore.key: has neither PEM",
        ),
    ],
)
def test_settings_that_do_not_go_together_are_refused(values: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingError, match=reason):
        tls(**values)


def test_versions_and_suites_are_chosen_by_the_names_of_the_standard(tmp_path: Path) -> None:
    path = str(authority().server().write(tmp_path / "server.pem"))
    only = tls(
        ssl_keystore_location=path,
        ssl_cipher_suites="TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,"
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
    ).context
    assert only.maximum_version.name == "TLSv1_2"
    names = {one["name"] for one in only.get_ciphers() if one["protocol"] == "TLSv1.2"}
    assert names == {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-CHACHA20-POLY1305"}
    newest = tls(ssl_keystore_location=path, ssl_cipher_suites="TLS_AES_128_GCM_SHA256").context
    assert newest.minimum_version.name == "TLSv1_3"
    older = tls(ssl_keystore_location=path, ssl_enabled_protocols="TLSv1.2").context
    assert older.maximum_version.name == "TLSv1_2"
    for values in (
        {"ssl_cipher_suites": "TLS_NULL"},
        {"ssl_cipher_suites": "TLS_AES_128_GCM_SHA256", "ssl_enabled_protocols": "TLSv1.2"},
    ):
        with pytest.raises(SettingError, match=r"ssl.cipher.suites"):
            tls(ssl_keystore_location=path, **values)


def test_another_authority_is_another_one() -> None:
    assert Authority().pem != authority().pem
