"""Passwords encrypted in Kafka's form."""

from secrets import token_bytes

import pytest

pytest.importorskip("cryptography")

from ottla.base.errors import UserError
from ottla.broker.configs.encoded_passwords import KeptPasswords
from ottla.broker.configs.password_encoder import GCM, Encryption, PasswordEncoder
from ottla.config.broker import broker_config

SECRET, PASSWORD = "secret \u00e4", "pot of t\u00e9a \U0001f375"
NAME = "listener.name.brokers.ssl.keystore.password"

BY_JAVA = {
    "AES/CBC, SHA512": (
        "initializationVector:7AeDIt4XjHzP+j1F7gEe+g==,keyLength:128,salt:mRcPuxg0d6NalMm/OQt3A"
        "gnTKlldSph9QfSz5ZJHGr4FGUu1XcqzkQAWF1qhR+Hz6Y7oHt9/rkC/55PZ/O1SsgLjTRXlxMqvFm/C7c6k+xt"
        "l4kCk6USzHQcF5si3HPi9/JfGlmkwWLIu3RR58ZUyl+HIIUGmpG2ZNkz0YbMXyZ/uYUzFp0sCn4+BTjjZOZW2l"
        "KohUIR4kdddqN3dxGQ0r+tQeBrgQ2T5s6PzcH6reUcLo8iFtmxJmADaZBoipCDumYnsmFkB5BbJw4+/euIqAKQ"
        "XTGS1FE3GmDHC1en4x9yxw6J22gPFxTR92HKLI0JzFJ626bsP9fQRGgIcmgFoqQ==,keyFactoryAlgorithm:"
        "PBKDF2WithHmacSHA512,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:4096,passwordLeng"
        "th:13,encryptedPassword:2mPBaxW+KpLLlsbzjnXnMBCWWUDYPXXWXDgJR2bd/eE="
    ),
    "AES/CBC, SHA1, 256 bits": (
        "initializationVector:RG3/ZysuO8Vpe33kJfsgiw==,keyLength:256,salt:mRcPuxg0d6NalMm/OQt3A"
        "gnTKlldSph9QfSz5ZJHGr4FGUu1XcqzkQAWF1qhR+Hz6Y7oHt9/rkC/55PZ/O1SsgLjTRXlxMqvFm/C7c6k+xt"
        "l4kCk6USzHQcF5si3HPi9/JfGlmkwWLIu3RR58ZUyl+HIIUGmpG2ZNkz0YbMXyZ/uYUzFp0sCn4+BTjjZOZW2l"
        "KohUIR4kdddqN3dxGQ0r+tQeBrgQ2T5s6PzcH6reUcLo8iFtmxJmADaZBoipCDumYnsmFkB5BbJw4+/euIqAKQ"
        "XTGS1FE3GmDHC1en4x9yxw6J22gPFxTR92HKLI0JzFJ626bsP9fQRGgIcmgFoqQ==,keyFactoryAlgorithm:"
        "PBKDF2WithHmacSHA1,cipherAlgorithm:AES/CBC/PKCS5Padding,iterations:1024,passwordLength"
        ":13,encryptedPassword:mbkKuTuQPQemg+aRk59Pm8o7/BwNU3SfLBonNhmbaWQ="
    ),
    "AES/GCM, SHA256": (
        "initializationVector:UIzJM6AhhQ6vTtj9,keyLength:128,salt:mRcPuxg0d6NalMm/OQt3AgnTKlldS"
        "ph9QfSz5ZJHGr4FGUu1XcqzkQAWF1qhR+Hz6Y7oHt9/rkC/55PZ/O1SsgLjTRXlxMqvFm/C7c6k+xtl4kCk6US"
        "zHQcF5si3HPi9/JfGlmkwWLIu3RR58ZUyl+HIIUGmpG2ZNkz0YbMXyZ/uYUzFp0sCn4+BTjjZOZW2lKohUIR4k"
        "dddqN3dxGQ0r+tQeBrgQ2T5s6PzcH6reUcLo8iFtmxJmADaZBoipCDumYnsmFkB5BbJw4+/euIqAKQXTGS1FE3"
        "GmDHC1en4x9yxw6J22gPFxTR92HKLI0JzFJ626bsP9fQRGgIcmgFoqQ==,keyFactoryAlgorithm:PBKDF2Wi"
        "thHmacSHA256,cipherAlgorithm:AES/GCM/NoPadding,authenticationTagLength:128,iterations:"
        "4096,passwordLength:13,encryptedPassword:6FtRUwy4keSDbapQ68ndpaEuAMcEJ9GNRIlLgHuo5OQ="
    ),
}
"""Encrypted by Java's own classes, in the order of the fields that its HashMap has."""

FIRST = next(iter(BY_JAVA.values()))


def encoder(
    secret: str = SECRET, old: str | None = None, how: Encryption | None = None
) -> PasswordEncoder:
    return PasswordEncoder(secret, None, how or Encryption(), token_bytes)


@pytest.mark.parametrize("text", BY_JAVA.values(), ids=BY_JAVA)
def test_what_java_has_encrypted_is_read_whatever_is_set_here(text: str) -> None:
    assert encoder().decode(text) == PASSWORD


@pytest.mark.parametrize(
    "how",
    [
        Encryption(),
        Encryption(cipher=GCM),
        Encryption(key_factory="PBKDF2WithHmacSHA1", key_bits=256),
    ],
)
def test_what_is_encrypted_here_is_read_again_and_never_the_same_twice(how: Encryption) -> None:
    first, second = encoder(how=how).encode(PASSWORD), encoder(how=how).encode(PASSWORD)
    assert first != second
    assert encoder().decode(first) == encoder().decode(second) == PASSWORD
    fields = dict(one.partition(":")[::2] for one in first.split(","))
    assert fields["passwordLength"] == "13", "Java counts the cup as two"


@pytest.mark.parametrize("text", BY_JAVA.values(), ids=BY_JAVA)
def test_another_secret_reads_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="another secret"):
        encoder("guessed").decode(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("in plain", "keyFactoryAlgorithm is missing"),
        (FIRST.replace("AES/CBC", "DES/CBC"), "DES/CBC"),
        (
            FIRST.replace("SHA512", "MD5"),
            "PBKDF2WithHmacMD5",
        ),
        (FIRST.replace("keyLength:128", "keyLength:1"), "are invalid"),
    ],
)
def test_what_is_not_of_that_form_is_a_value_error(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        encoder().decode(text)


def test_what_the_old_secret_has_encrypted_is_renewed_once() -> None:
    config = broker_config(
        {"password.encoder.secret": "new", "password.encoder.old.secret": SECRET}
    )
    passwords = KeptPasswords(config, token_bytes)
    kept = {NAME: FIRST, "log.cleaner.threads": "2"}
    assert passwords.meant(kept) == ({NAME: PASSWORD, "log.cleaner.threads": "2"}, {})
    renewed = passwords.renewed(kept)
    assert encoder("new").decode(renewed[NAME]) == PASSWORD
    assert passwords.renewed(renewed) == renewed
    assert passwords.to_keep({NAME: PASSWORD}, renewed) == {NAME: renewed[NAME]}


def test_without_the_secret_a_password_is_left_out_with_the_reason() -> None:
    passwords = KeptPasswords(broker_config({}), token_bytes)
    assert passwords.meant({NAME: "x", "log.cleaner.threads": "2"}) == (
        {"log.cleaner.threads": "2"},
        {NAME: "password.encoder.secret is not set"},
    )


def test_a_key_that_aes_cannot_have_is_one_line() -> None:
    with pytest.raises(UserError, match=r"password\.encoder\.key\.length=130: AES has keys of"):
        KeptPasswords(broker_config({"password.encoder.key.length": "130"}), token_bytes)
