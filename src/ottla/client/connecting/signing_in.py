"""Signs in as a user of the brokers, for a program that serves several people.

    settings = sign_in(addresses, settings, "ana", "her password")
    with Cluster(addresses, settings, sleep=time.sleep, topics=()) as cluster:
        Admin(cluster).list_topics()

The brokers check passwords and rights; the program keeps one set of settings for each person, and
its requests with them are executed, or denied and logged, in that person's name.
"""

from collections.abc import Sequence
from dataclasses import replace

from ottla.base.addresses import Address
from ottla.base.errors import UnreachableError, UserError
from ottla.base.scram import HASHES
from ottla.client.connecting.cluster import ClientSettings, SocketTransport
from ottla.client.connecting.security import AuthenticationError, Security

PLAIN = "PLAIN"
PASSWORD_MECHANISMS = (*reversed(HASHES), PLAIN)
"""The strongest first; PLAIN sends the password itself."""


def sign_in(
    addresses: Sequence[Address], settings: ClientSettings, name: str, password: str
) -> ClientSettings:
    """The settings for requests in a user's name, after the brokers accepted the password.

    `settings` are the program's own: protocol and certificates stay. Its mechanism is tried if it
    uses passwords, otherwise each that does: PLAIN only over TLS. Raises `UserError`:
    `AuthenticationError` for a wrong name or password, and `UnreachableError`.
    """
    security = settings.security
    if not security.has_login:
        raise UserError(
            f"security.protocol={security.protocol}: brokers have users where it is SASL_SSL or "
            "SASL_PLAINTEXT"
        )
    if not name or "\0" in name + password:
        raise AuthenticationError("type the name of a user of the brokers, and the password")
    refusal: UserError = UserError("no address of a broker is known")
    for mechanism in _mechanisms(security):
        own = replace(settings, security=_of_user(security, mechanism, name, password))
        for address in addresses:
            try:
                SocketTransport(own).connect(address).close()
            except UnreachableError as error:
                refusal = error
                continue
            except AuthenticationError as error:
                refusal = error
                break
            return own
    if isinstance(refusal, AuthenticationError):
        # The last mechanism's reason may be that the brokers do not have it.
        raise AuthenticationError(
            f"{name} is refused: check the name and the password, and that the brokers have "
            f"{' or '.join(_mechanisms(security))} in sasl.enabled.mechanisms"
        ) from refusal
    raise refusal


def _mechanisms(security: Security) -> tuple[str, ...]:
    if security.mechanism in PASSWORD_MECHANISMS:
        return (security.mechanism,)
    return PASSWORD_MECHANISMS if security.has_tls else PASSWORD_MECHANISMS[:-1]


def _of_user(security: Security, mechanism: str, name: str, password: str) -> Security:
    """Nothing of the program's own login is kept."""
    return replace(
        security,
        mechanism=mechanism,
        username=name,
        password=password,
        is_token=False,
        token_file="",
    )
