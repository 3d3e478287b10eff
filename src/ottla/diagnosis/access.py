"""Which clients may use each listener of a broker, by its settings and users; facts, no advice."""

from collections.abc import Iterator

from ottla.base.addresses import address_text
from ottla.base.values import dataclass
from ottla.config.broker import BrokerConfig
from ottla.config.listeners import Listener, client_listeners
from ottla.config.security import jaas_of
from ottla.metadata.image import MetadataImage

PLAIN = "PLAIN"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenListener:
    """A listener, `who` may connect, and `what` they may do.

    `is_open_to_all` says that everyone may do everything.
    """

    where: str
    who: str
    what: str
    is_open_to_all: bool


def open_listeners(
    config: BrokerConfig, image: MetadataImage, *, has_secrets: bool = True
) -> Iterator[OpenListener]:
    """One for each listener; raises `SettingError`. Settings that a running broker has told lack
    the secret ones, as `super.users` and the users of PLAIN.
    """
    for listener in client_listeners(config):
        who, is_anybody = _who(listener, config, image, has_secrets)
        yield OpenListener(
            where=f"listener {listener.name} ({_address(listener)})",
            who=who,
            what=_what(config, image, has_secrets),
            is_open_to_all=is_anybody and not config.has_authorizer,
        )


def _address(listener: Listener) -> str:
    host, port = listener.address
    return address_text(host, port) if port else f"a free port of {host}"


def _who(
    listener: Listener, config: BrokerConfig, image: MetadataImage, has_secrets: bool
) -> tuple[str, bool]:
    own = config.of_listener(listener.name)
    if listener.has_login:
        return (
            f"clients that log in: {', '.join(_logins(listener, own, image, has_secrets))}",
            False,
        )
    if listener.has_tls and own.ssl_client_auth == "required":
        return "clients with a certificate signed by an authority in ssl.truststore.location", False
    return "everyone who can reach it, as User:ANONYMOUS", True


def _logins(
    listener: Listener, config: BrokerConfig, image: MetadataImage, has_secrets: bool
) -> Iterator[str]:
    for mechanism in config.sasl_enabled_mechanisms:
        if mechanism == PLAIN and has_secrets:
            jaas = jaas_of(config.given, listener.name, PLAIN)
            yield f"PLAIN ({len(jaas.plain_users) if jaas else 0} users)"
        elif mechanism.startswith("SCRAM"):
            users = [user for user, known in image.credentials if known == mechanism]
            count = "users in ZooKeeper" if config.zookeeper_connect else f"{len(users)} users"
            yield f"{mechanism} ({count})"
        else:
            yield mechanism


def _what(config: BrokerConfig, image: MetadataImage, has_secrets: bool) -> str:
    if not config.has_authorizer:
        return "may do everything, since authorizer.class.name is empty"
    others = "everything else is allowed" if config.allow_everyone_if_no_acl_found else "no more"
    acls = "the ACLs in ZooKeeper" if config.zookeeper_connect else f"{image.acl_count} ACLs"
    supers = "super users may do everything"
    if has_secrets:
        supers = f"{len(config.super_user_names) - len(config.mistaken_super_users)} super users"
    return f"may do what {acls} allow, and {others}; {supers}"
