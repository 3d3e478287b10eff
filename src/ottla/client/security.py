"""The settings of a cluster with security; `login.py` acts on them.

Settings have librdkafka's names, or those of Kafka's own clients. What is not known here is
refused, never passed over.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.base.errors import UserError
from ottla.base.scram import HASHES

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
OAUTHBEARER = "OAUTHBEARER"
JAAS = "sasl.jaas.config"
MECHANISMS = ("PLAIN", *HASHES, OAUTHBEARER)


class AuthenticationError(UserError):
    """The broker does not take who we say we are; asking again does not help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """`PLAINTEXT` as it is. Certificates and keys are paths of PEM files."""

    protocol: str = "PLAINTEXT"
    ca: str | None = None
    """Whom to believe; `None`: whom this machine believes."""
    certificate: str | None = None
    key: str | None = None
    key_password: str | None = None
    checks_certificate: bool = True
    checks_host: bool = True
    mechanism: str = ""
    username: str = ""
    password: str = field(default="", repr=False)
    is_token: bool = False
    """Name and password are those of a delegation token."""
    token_file: str = ""
    """Of OAUTHBEARER: read at each login, since tokens are renewed."""

    @property
    def has_tls(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def has_login(self) -> bool:
        return self.protocol.startswith("SASL")


PLAINTEXT = Security()


def parse_security(settings: Mapping[str, str]) -> Security:
    """Of settings by librdkafka's names; raises `UserError` for one that is unknown or wrong."""
    fields: dict[str, object] = {}
    for name, text in settings.items():
        if name not in _KNOWN:
            raise UserError(f"{name}: that is not known here; known are {', '.join(_KNOWN)}")
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
    is_named = found.username or found.token_file
    if found.has_login and not (found.mechanism and is_named):
        raise UserError(
            f"security.protocol={found.protocol} needs sasl.mechanism ({', '.join(MECHANISMS)}), "
            f"sasl.username and sasl.password"
        )
    return found


def _jaas(text: str) -> dict[str, object]:
    """Name and password of a login module of Kafka's own clients."""
    from ottla.config.security import parse_jaas

    options = parse_jaas(JAAS, text).options
    return {
        "username": options.get("username", ""),
        "password": options.get("password", ""),
        "is_token": options.get("tokenauth", "").lower() == "true",
    }


def _file_url(name: str, text: str) -> str:
    if not text.startswith("file://"):
        raise UserError(f"{name}={text}: a token is read from a file here, as file:///PATH")
    return text.removeprefix("file://")


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
    "sasl.oauthbearer.token.endpoint.url": ("token_file", _file_url),
    "ssl.truststore.location": ("ca", _text),
    "ssl.truststore.type": ("", _one_of("PEM")),
    "ssl.keystore.location": ("certificate", _text),
    "ssl.keystore.type": ("", _one_of("PEM")),
}
"""Settings -> fields of `Security`, and what reads them."""
