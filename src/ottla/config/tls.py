"""The settings of TLS, with Kafka's names and defaults; a listener may have its own of each.

They are implemented in `server/tls`. Kafka's counterparts: `SslConfigs`, `BrokerSecurityConfigs`.
"""

from ottla.base.values import dataclass
from ottla.config.network import NetworkConfig
from ottla.config.principal_mapping import PrincipalMapping
from ottla.config.setting import setting, settings_of

STORE_TYPES = ("JKS", "PEM", "PKCS12")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")


# Not printed: some settings are secrets.
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class TlsConfig(NetworkConfig):
    """Attributes are Kafka's names with underscores.

    Inherits the network's settings, since dataclasses with slots have one base.
    """

    ssl_cipher_suites: tuple[str, ...] = setting(
        "ssl.cipher.suites",
        "list",
        (),
        "Enabled cipher suites, by their standard or OpenSSL names; by default those of the "
        "installed OpenSSL. Suites of TLS 1.3 are enabled all together or not at all.",
    )
    ssl_client_auth: str = setting(
        "ssl.client.auth",
        "string",
        "none",
        "Whether clients present a certificate: none, requested (clients without one are "
        "User:ANONYMOUS) or required.",
        one_of=("required", "requested", "none"),
    )
    ssl_enabled_protocols: tuple[str, ...] = setting(
        "ssl.enabled.protocols",
        "list",
        TLS_VERSIONS,
        "Enabled versions of TLS.",
        one_of=TLS_VERSIONS,
    )
    ssl_key_password: str | None = setting(
        "ssl.key.password",
        "password",
        None,
        "The password of the private key.",
    )
    ssl_keystore_certificate_chain: str | None = setting(
        "ssl.keystore.certificate.chain",
        "password",
        None,
        "The broker's certificate chain in PEM, with ssl.keystore.type=PEM.",
    )
    ssl_keystore_key: str | None = setting(
        "ssl.keystore.key",
        "password",
        None,
        "The broker's private key, in PEM, with ssl.keystore.type=PEM.",
    )
    ssl_keystore_location: str | None = setting(
        "ssl.keystore.location",
        "string",
        None,
        "File with the broker's private key and certificates: PEM or PKCS12, detected from its "
        "first bytes. It is read again when it has changed.",
    )
    ssl_keystore_password: str | None = setting(
        "ssl.keystore.password",
        "password",
        None,
        "The password of a PKCS12 keystore.",
    )
    ssl_keystore_type: str = setting(
        "ssl.keystore.type",
        "string",
        "JKS",
        "The format of the keystore. As in Java, the default JKS also accepts PKCS12; stores in "
        "the JKS format itself are not supported.",
        one_of=STORE_TYPES,
    )
    ssl_principal_mapping_rules: str = setting(
        "ssl.principal.mapping.rules",
        "string",
        "DEFAULT",
        "Rules that map the subject of a client's certificate to a user name: a list of "
        "RULE:pattern/replacement/[LU] and DEFAULT; the first that matches applies.",
        reading=PrincipalMapping.parse,
        is_dynamic=False,
    )
    ssl_truststore_certificates: str | None = setting(
        "ssl.truststore.certificates",
        "password",
        None,
        "Certificates in PEM that must have signed those of clients, with ssl.truststore.type=PEM.",
    )
    ssl_truststore_location: str | None = setting(
        "ssl.truststore.location",
        "string",
        None,
        "File with those certificates: PEM or PKCS12. It is read again when it has changed.",
    )
    ssl_truststore_password: str | None = setting(
        "ssl.truststore.password",
        "password",
        None,
        "The password of a PKCS12 truststore.",
    )
    ssl_truststore_type: str = setting(
        "ssl.truststore.type",
        "string",
        "JKS",
        "The format of the truststore, as ssl.keystore.type.",
        one_of=STORE_TYPES,
    )


TLS_SETTINGS = [row for row in settings_of(TlsConfig).values() if row.name.startswith("ssl.")]
