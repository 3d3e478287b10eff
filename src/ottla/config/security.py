"""The settings of users and access rules, with Kafka's names and defaults.

Kafka's counterparts: `SaslConfigs`, `BrokerSecurityConfigs`, `ServerConfigs`,
`DelegationTokenManagerConfigs`.
"""

import re
from collections.abc import Mapping

from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.config.setting import Setting, SettingError, setting
from ottla.config.tls import TlsConfig

STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
AUTHORIZERS = (
    "",
    STANDARD_AUTHORIZER,
    "kafka.security.authorizer.AclAuthorizer",
    "kafka.security.auth.SimpleAclAuthorizer",
)
"""No authorizer, and Kafka's, which decide the same way; the last is AclAuthorizer's old name."""

SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
DEFAULT_MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")

LISTENER_PREFIX = "listener.name."
JAAS = "sasl.jaas.config"


# Not printed: some settings are secrets.
@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class SecurityConfig(TlsConfig):
    """Attributes are Kafka's names with underscores."""

    allow_everyone_if_no_acl_found: bool = setting(
        "allow.everyone.if.no.acl.found",
        "boolean",
        False,
        "Whether everyone may use a resource without ACLs.",
        is_dynamic=False,
    )
    authorizer_class_name: str = setting(
        "authorizer.class.name",
        "string",
        "",
        "Kafka's StandardAuthorizer, to enforce ACLs; empty: everyone may do everything.",
        one_of=AUTHORIZERS,
        is_dynamic=False,
    )
    connection_failed_authentication_delay_ms: int = setting(
        "connection.failed.authentication.delay.ms",
        "int",
        100,
        "Delay of the response to a failed login.",
        at_least=0,
        is_dynamic=False,
    )
    connections_max_reauth_ms: int = setting(
        "connections.max.reauth.ms",
        "long",
        0,
        "After this time a client must log in again on its connection; 0: never.",
        at_least=0,
        is_dynamic=False,
    )
    delegation_token_expiry_check_interval_ms: int = setting(
        "delegation.token.expiry.check.interval.ms",
        "long",
        3_600_000,
        "How often expired delegation tokens are removed.",
        at_least=1,
        is_dynamic=False,
    )
    delegation_token_expiry_time_ms: int = setting(
        "delegation.token.expiry.time.ms",
        "long",
        86_400_000,
        "How long a delegation token is valid unless it is renewed.",
        at_least=1,
        is_dynamic=False,
    )
    delegation_token_master_key: str = setting(
        "delegation.token.master.key",
        "password",
        "",
        "Former name of delegation.token.secret.key.",
        is_dynamic=False,
    )
    delegation_token_max_lifetime_ms: int = setting(
        "delegation.token.max.lifetime.ms",
        "long",
        604_800_000,
        "How long a delegation token can be valid, however often it is renewed.",
        at_least=1,
        is_dynamic=False,
    )
    delegation_token_secret_key: str = setting(
        "delegation.token.secret.key",
        "password",
        "",
        "Secret that signs delegation tokens; empty: there are no tokens.",
        is_dynamic=False,
    )
    sasl_enabled_mechanisms: tuple[str, ...] = setting(
        "sasl.enabled.mechanisms",
        "list",
        DEFAULT_MECHANISMS,
        "How clients may log in: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER; others are left "
        "out with a warning.",
        is_dynamic=False,
    )
    sasl_oauthbearer_clock_skew_seconds: int = setting(
        "sasl.oauthbearer.clock.skew.seconds",
        "int",
        30,
        "Allowed clock difference between the broker and the issuer of tokens.",
        at_least=0,
        is_dynamic=False,
    )
    sasl_oauthbearer_expected_audience: tuple[str, ...] = setting(
        "sasl.oauthbearer.expected.audience",
        "list",
        (),
        "Audiences, one of which a token must name; empty: any.",
        is_dynamic=False,
    )
    sasl_oauthbearer_expected_issuer: str = setting(
        "sasl.oauthbearer.expected.issuer",
        "string",
        "",
        "Required issuer of tokens; empty: any issuer whose key is known.",
        is_dynamic=False,
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = setting(
        "sasl.oauthbearer.jwks.endpoint.refresh.ms",
        "long",
        3_600_000,
        "How often the keys are fetched from a URL; a file is read when it has changed.",
        at_least=1,
        is_dynamic=False,
    )
    sasl_oauthbearer_jwks_endpoint_url: str = setting(
        "sasl.oauthbearer.jwks.endpoint.url",
        "string",
        "",
        "JWKS with the keys that sign tokens: https://... or file:///...",
        is_dynamic=False,
    )
    sasl_oauthbearer_scope_claim_name: str = setting(
        "sasl.oauthbearer.scope.claim.name",
        "string",
        "scope",
        "The claim of a token with its scope.",
        is_dynamic=False,
    )
    sasl_oauthbearer_sub_claim_name: str = setting(
        "sasl.oauthbearer.sub.claim.name",
        "string",
        "sub",
        "The claim of a token with the user's name.",
        is_dynamic=False,
    )
    sasl_server_max_receive_size: int = setting(
        "sasl.server.max.receive.size",
        "int",
        524_288,
        "The largest request of a client that has not logged in.",
        at_least=1,
        is_dynamic=False,
    )
    super_users: str = setting(
        "super.users",
        "string",
        "",
        "Principals that may do everything, as User:alice;User:bob.",
        is_dynamic=False,
    )

    @property
    def has_authorizer(self) -> bool:
        return bool(self.authorizer_class_name)

    @property
    def login_mechanisms(self) -> tuple[str, ...]:
        return tuple(one for one in self.sasl_enabled_mechanisms if one in SASL_MECHANISMS)

    @property
    def unknown_mechanisms(self) -> list[str]:
        """Returns what is left out, as Kafka leaves out a mechanism that no provider has."""
        return [one for one in self.sasl_enabled_mechanisms if one not in SASL_MECHANISMS]

    @property
    def super_user_names(self) -> frozenset[str]:
        return parse_super_users(self.super_users)

    @property
    def mistaken_super_users(self) -> list[str]:
        """Returns entries that are not principals, which Kafka's StandardAuthorizer silently
        accepts.
        """
        names = sorted(self.super_user_names)
        return [one for one in names if not all(one.partition(":")[::2]) or ",User:" in one]

    @property
    def token_secret(self) -> str:
        return self.delegation_token_secret_key or self.delegation_token_master_key


def parse_super_users(text: str) -> frozenset[str]:
    """The principals of `super.users`, as texts."""
    parts = (part.strip() for part in text.split(";"))
    return frozenset(part for part in parts if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class JaasEntry:
    """A login module with its options, as `sasl.jaas.config` writes it."""

    module: str
    options: Mapping[str, str]

    @property
    def plain_users(self) -> dict[str, str]:
        """Returns names and passwords from `user_NAME="PASSWORD"`."""
        return {
            name.removeprefix("user_"): password
            for name, password in self.options.items()
            if name.startswith("user_")
        }


_MODULE = lazy_pattern(
    r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b", re.IGNORECASE
)
_OPTION = lazy_pattern(
    r"""\s*([^\s=;]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s;]+))"""
)


def parse_jaas(name: str, text: str) -> JaasEntry:
    """Raises `SettingError`, which never shows the text."""
    module = _MODULE.match(text)
    options: dict[str, str] = {}
    position = -1 if module is None else module.end()
    while position >= 0 and (option := _OPTION.match(text, position)) is not None:
        quoted = option[2] if option[2] is not None else option[3]
        options[option[1]] = option[4] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
        position = option.end()
    if module is None or text[position:].strip() != ";":
        message = f'{name}: must look like: CLASS required user_alice="secret";'
        raise SettingError(name, message, message)
    return JaasEntry(module=module[1], options=options)


def jaas_setting(name: str) -> Setting | None:
    """The row of a listener's logins: `listener.name.NAME.MECHANISM.sasl.jaas.config`."""
    if not (name.startswith(LISTENER_PREFIX) and name.endswith(f".{JAAS}")):
        return None
    return Setting(
        name=name,
        kind="password",
        default=None,
        doc="How one listener checks logins of one mechanism.",
        is_dynamic=False,
    )


def jaas_of(given: Mapping[str, str], listener: str, mechanism: str) -> JaasEntry | None:
    """Returns the login module for a listener and mechanism; raises `SettingError`."""
    name = f"{LISTENER_PREFIX}{listener.lower()}.{mechanism.lower()}.{JAAS}"
    text = given.get(name)
    return None if text is None else parse_jaas(name, text)
