"""Access control of the console, checked before every page.

A page of another site must not be able to use a console that only this machine can reach: not by a
name that resolves to this address (DNS rebinding: `Host` is checked), not by its own form or script
(`Origin`, `Sec-Fetch-Site` and a token in each form), and not by a script in a key or a value
(`Content-Security-Policy`: no inline script or style).
"""

import hashlib
import hmac
import ipaddress
import secrets
import socket
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode, urlsplit

from ottla.base.errors import UserError
from ottla.base.values import dataclass

SAFE_METHODS = ("GET", "HEAD")
TOKEN_FIELD = "token"
FORM_TOKEN_FIELD = "form_token"
LEAST_TOKEN_LENGTH = 16
LOOK_COOKIE = "ottla-look"
LOOKS = ("light", "dark")
LOOK_AGE_S = 365 * 86_400
LOCAL_NAMES = ("localhost",)

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""Headers of every response. Static files have their own `Cache-Control`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessPolicy:
    """The rules of a listener. `token` is required if it is not empty; `names` are further host
    names.
    """

    token: str = ""
    names: tuple[str, ...] = ()
    is_encrypted: bool = False
    cookie: str = "ottla-console"
    secret: bytes = b""
    """The key that signs forms and cookies of this process."""


def policy_for(
    address: tuple[str, int], *, token: str, names: tuple[str, ...], is_encrypted: bool
) -> AccessPolicy:
    """For a listener; one that others reach gets a token if it has none. Raises `UserError`."""
    if token and len(token) < LEAST_TOKEN_LENGTH:
        raise UserError(
            f"the console's token has {len(token)} characters; use at least {LEAST_TOKEN_LENGTH}, "
            "or leave it out, and one is made"
        )
    if not token and not is_loopback(address[0]):
        token = secrets.token_urlsafe(24)
    return AccessPolicy(
        token=token,
        names=(*names, socket.gethostname()),
        is_encrypted=is_encrypted,
        # Cookies do not tell ports apart, and there may be several consoles on a machine.
        cookie=f"ottla-console-{address[1]}",
        secret=secrets.token_bytes(32),
    )


def is_loopback(host: str) -> bool:
    """Whether only this machine can connect to the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() in LOCAL_NAMES


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The parts of a request that are checked; header names are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Denied:
    """A rejection; `status` 401 asks for the token, 403 denies access."""

    status: int
    reason: str


def check_origin(policy: AccessPolicy, asked: Asked) -> Denied | None:
    """Returns `None` if the request is not from a page of another site, or else the rejection."""
    host = asked.headers.get("host", "")
    if not _is_own_host(policy, host):
        return Denied(
            status=403,
            reason=f"{host or 'a request without Host'} is not a name of this console; "
            "ottla console --name NAME adds one",
        )
    origin = asked.headers.get("origin")
    site = asked.headers.get("sec-fetch-site")
    if asked.method not in SAFE_METHODS:
        # A browser sends the origin of every form; a request without one is not from a browser.
        is_own = origin is None or _host_of(origin) == host
        if not is_own or site not in (None, "same-origin", "none"):
            return Denied(status=403, reason="the form was sent from another site")
        return None
    is_link = asked.headers.get("sec-fetch-mode") in (None, "navigate")
    if site == "cross-site" and not is_link:
        return Denied(status=403, reason="another site's page asked for this")
    if origin is not None and _host_of(origin) != host:
        return Denied(status=403, reason="another site's page asked for this")
    return None


def _host_of(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None


def _is_own_host(policy: AccessPolicy, host: str) -> bool:
    """Whether the host is an IP address, which cannot be rebound, or a known name."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in {one.lower() for one in (*LOCAL_NAMES, *policy.names)}
    return True


# Tokens and cookies


def is_token(policy: AccessPolicy, given: str) -> bool:
    return hmac.compare_digest(given.encode(), policy.token.encode())


def admission(policy: AccessPolicy, visitor: str) -> str:
    """The value of the cookie of an admitted visitor."""
    return f"{visitor}.{_signed(policy, 'admitted', visitor)}"


def visitor_of(policy: AccessPolicy, headers: Mapping[str, str]) -> str | None:
    """The visitor in a valid cookie; `None` without one."""
    try:
        cookie = SimpleCookie(headers.get("cookie", "")).get(policy.cookie)
    except CookieError:
        return None
    if cookie is None:
        return None
    visitor, _, signature = cookie.value.partition(".")
    is_ours = hmac.compare_digest(signature.encode(), _signed(policy, "admitted", visitor).encode())
    return visitor if is_ours else None


def new_visitor() -> str:
    return secrets.token_urlsafe(18)


def bearer_of(headers: Mapping[str, str]) -> str:
    """The token in the `Authorization` header; empty without one."""
    kind, _, token = headers.get("authorization", "").partition(" ")
    return token.strip() if kind.lower() == "bearer" else ""


def cookie_header(policy: AccessPolicy, visitor: str) -> str:
    """`Set-Cookie`: hidden from scripts, and not sent with forms of other sites."""
    secure = "; Secure" if policy.is_encrypted else ""
    return f"{policy.cookie}={admission(policy, visitor)}; HttpOnly; SameSite=Lax; Path=/{secure}"


def look_of(cookies: Mapping[str, str]) -> str:
    """The chosen look; empty if the system's applies."""
    found = cookies.get(LOOK_COOKIE, "")
    return found if found in LOOKS else ""


def look_cookie(look: str) -> str:
    """`Set-Cookie` of a chosen look; any other text removes the choice. It is no secret."""
    age_s = LOOK_AGE_S if look in LOOKS else 0
    value = look if look in LOOKS else ""
    return f"{LOOK_COOKIE}={value}; Max-Age={age_s}; HttpOnly; SameSite=Lax; Path=/"


def form_token(policy: AccessPolicy, visitor: str) -> str:
    """The token in each form of a visitor."""
    return _signed(policy, "form", visitor)


def is_form_token(policy: AccessPolicy, visitor: str, given: str) -> bool:
    return hmac.compare_digest(given.encode(), form_token(policy, visitor).encode())


def _signed(policy: AccessPolicy, purpose: str, text: str) -> str:
    message = f"{purpose}\0{text}".encode()
    return hmac.new(policy.secret, message, hashlib.sha256).hexdigest()


def without_token(asked: Asked) -> tuple[str, str]:
    """The token in a link, and the link without it, which can be shared."""
    fields = parse_qsl(asked.query, keep_blank_values=True)
    token = next((value for name, value in fields if name == TOKEN_FIELD), "")
    left = urlencode([(name, value) for name, value in fields if name != TOKEN_FIELD])
    return token, asked.path + (f"?{left}" if left else "")
