"""The security settings of a client; `login.py` acts on them.

Settings have librdkafka's names, or those of Kafka's own clients. Unknown settings are refused,
never ignored.
"""

from collections.abc import Callable, Mapping
from dataclasses import field

from ottla.base.errors import UserError
from ottla.base.scram import HASHES
from ottla.base.values import dataclass

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER = "OAUTHBEARER"
JAAS = "sasl.jaas.config"
TOKEN_URL = "sasl.oauthbearer.token.endpoint.url"
FILE = "file://"
STORE_TYPES = ("JKS", "PEM", "PKCS12")
MECHANISMS = ("PLAIN", *HASHES, OAUTHBEARER)


NO_LOGIN_HINT = "; set security.protocol to PLAINTEXT or SSL"


class AuthenticationError(UserError):
    """The broker refuses the login; retries do not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """`PLAINTEXT` by default.

    Certificates and keys are paths of files (PEM or PKCS12), or PEM texts.
    """

    protocol: str = "PLAINTEXT"
    ca: str | None = None
    """Trusted certificates; without it or `ca_pem`, those that this machine trusts."""
    ca_password: str | None = field(default=None, repr=False)
    ca_pem: str | None = None
    certificate: str | None = None
    """The certificate, and the private key if it has no separate file."""
    certificate_password: str | None = field(default=None, repr=False)
    certificate_pem: str | None = None
    key: str | None = None
    key_pem: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    checks_certificate: bool = True
    checks_host: bool = True
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    is_token: bool = False
    """Name and password are those of a delegation token."""
    token_file: str = ""
    """For OAUTHBEARER: read at each login, since tokens are renewed."""

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_login(self) -> bool:
        return self.protocol.startswith("SASL")


PLAINTEXT = Security()


def parse_security(settings: Mapping[str, str]) -> Security:
    """Parses settings by librdkafka's names; raises `UserError` for an unknown or invalid one."""
    fields: dict[str, object] = {}
    for name, text in settings.items():
        if name not in _KNOWN:
            raise UserError(f"{name}: unknown setting; known are {', '.join(_KNOWN)}")
        if "\0" in text:
            raise UserError(f"{name}: contains the character NUL, which is not allowed; remove it")
        attribute, read = _KNOWN[name]
        if name == JAAS:
            fields.update(_jaas(text))
        elif attribute:
            fields[attribute] = read(name, text)
        else:
            read(name, text)
    found = Security(**fields)  # type: ignore[arg-type]
    if found.mechanism == OAUTHBEARER and not found.token_file:
        raise UserError(
            "sasl.mechanism=OAUTHBEARER needs sasl.oauthbearer.token.endpoint.url=file:///PATH, a "
            "file with the token"
        )
    if found.key is not None and found.certificate is None:
        raise UserError("ssl.key.location needs ssl.certificate.location, the certificate of it")
    is_named = found.username or found.token_file
    if found.has_login and not (found.mechanism and is_named):
        raise UserError(
            f"security.protocol={found.protocol} needs sasl.mechanism ({', '.join(MECHANISMS)}), "
            f"sasl.username and sasl.password"
        )
    return found


def split_security(settings: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Splits settings into those of security, which `parse_security` reads, and the others."""
    ours = {name: text for name, text in settings.items() if name in _KNOWN}
    return ours, {name: text for name, text in settings.items() if name not in _KNOWN}


def librdkafka_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Returns librdkafka's settings, with user and password from JAAS; raises `UserError`."""
    found: dict[str, str] = {}
    for name, text in settings.items():
        if name == JAAS:
            fields = _jaas(text)
            if fields["is_token"] or not fields["username"]:
                raise UserError(
                    f"{JAAS} is read for user and password here; librdkafka logs in otherwise by "
                    "settings of its own, such as sasl.kerberos.principal, and not by tokens"
                )
            found["sasl.username"] = str(fields["username"])
            found["sasl.password"] = str(fields["password"])
        elif name in _OF_PKCS12 and "ssl.keystore.password" in settings:
            found[name] = text
        elif name in _OF_LIBRDKAFKA:
            found |= dict.fromkeys(_OF_LIBRDKAFKA[name], text)
        elif name == "ssl.truststore.password":
            raise UserError(f"{name}: librdkafka reads PEM; give ssl.ca.location, a file of it")
        elif name in _TYPES:
            _KNOWN[name][1](name, text)
        else:
            found[name] = text
    return found


def _jaas(text: str) -> dict[str, object]:
    """Name and password from a login module of Kafka's own clients."""
    from ottla.config.security import parse_jaas

    options = parse_jaas(JAAS, text).options
    return {
        "username": options.get("username", ""),
        "password": options.get("password", ""),
        "is_token": options.get("tokenauth", "").lower() == "true",
    }


def _file_url(name: str, text: str) -> str:
    if not text.startswith(FILE):
        raise UserError(f"{name}={text}: a token can only be read from a file, as file:///PATH")
    return text.removeprefix(FILE)


def _text(_: str, text: str) -> str:
    return text


def _one_of(*known: str) -> Callable[[str, str], str]:
    def read(name: str, text: str) -> str:
        if text.upper() not in known:
            raise UserError(f"{name}={text}: it is one of {', '.join(known)}")
        return text.upper()

    return read


def _is_true(name: str, text: str) -> bool:
    return _one_of("TRUE", "FALSE")(name, text) == "TRUE"


def _is_https(name: str, text: str) -> bool:
    return _one_of("HTTPS", "NONE")(name, text) == "HTTPS"


_KNOWN: dict[str, tuple[str, Callable[[str, str], object]]] = {
    "security.protocol": ("protocol", _one_of(*PROTOCOLS)),
    "ssl.ca.location": ("ca", _text),
    "ssl.certificate.location": ("certificate", _text),
    "ssl.key.location": ("key", _text),
    "ssl.key.password": ("key_password", _text),
    "enable.ssl.certificate.verification": ("checks_certificate", _is_true),
    "ssl.endpoint.identification.algorithm": ("checks_host", _is_https),
    "sasl.mechanism": ("mechanism", _one_of(*MECHANISMS)),
    "sasl.mechanisms": ("mechanism", _one_of(*MECHANISMS)),
    "sasl.username": ("username", _text),
    "sasl.password": ("password", _text),
    JAAS: ("", _text),
    TOKEN_URL: ("token_file", _file_url),
    "ssl.ca.pem": ("ca_pem", _text),
    "ssl.certificate.pem": ("certificate_pem", _text),
    "ssl.key.pem": ("key_pem", _text),
    "ssl.truststore.location": ("ca", _text),
    "ssl.truststore.password": ("ca_password", _text),
    "ssl.truststore.certificates": ("ca_pem", _text),
    "ssl.truststore.type": ("", _one_of(*STORE_TYPES)),
    "ssl.keystore.location": ("certificate", _text),
    "ssl.keystore.password": ("certificate_password", _text),
    "ssl.keystore.certificate.chain": ("certificate_pem", _text),
    "ssl.keystore.key": ("key_pem", _text),
    "ssl.keystore.type": ("", _one_of(*STORE_TYPES)),
}
"""By setting: the field of `Security`, and its parser. The format of a file is detected."""

_TYPES = ("ssl.truststore.type", "ssl.keystore.type")
_OF_LIBRDKAFKA = {
    "ssl.truststore.location": ("ssl.ca.location",),
    "ssl.truststore.certificates": ("ssl.ca.pem",),
    "ssl.keystore.location": ("ssl.certificate.location", "ssl.key.location"),
    "ssl.keystore.certificate.chain": ("ssl.certificate.pem",),
    "ssl.keystore.key": ("ssl.key.pem",),
}
"""Maps Java's names to librdkafka's, for PEM."""

_OF_PKCS12 = ("ssl.keystore.location", "ssl.keystore.password")
"""librdkafka's names for a PKCS12 keystore."""

SECURITY_SETTINGS = tuple(_KNOWN)
