"""Tokens of OAuth checked against the keys of their issuer (JWT, RFC 7519; JWKS, RFC 7517).

By PyJWT over `cryptography`: signatures are asymmetric only, so that neither `alg: none` nor a
public key taken for a shared secret gives access. Keys in a file are read again when it has
changed; those of an address are fetched in a thread, from time to time and when a token names one
that is not known. Kafka's counterparts: `BrokerJwtValidator`, `RefreshingHttpsJwks`.
"""

import json
import logging
import os
import threading
import urllib.request
from http.client import HTTPException
from time import monotonic, time
from typing import Any, Final

from ottla.base.extras import needed_for
from ottla.base.principal import USER, Principal
from ottla.broker.security.sasl import Login, LoginError
from ottla.config.security import SecurityConfig
from ottla.config.setting import SettingError

logger = logging.getLogger(__name__)

ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip
KEYS_URL: Final = "sasl.oauthbearer.jwks.endpoint.url"
FILE: Final = "file://"
HTTPS: Final = "https://"
HTTP: Final = "http://"
FETCH_TIMEOUT_S: Final = 10.0
MAX_KEYS_SIZE: Final = 1 << 20
MIN_REFRESH_S: Final = 10.0
"""Keys are not fetched more often for tokens that name unknown ones."""

MAX_LIFETIME_MS: Final = 2**53
"""Maximum duration of a login: a response has 64 bits for it, but a token may contain anything."""


class TokenCheck:
    """Returns the user that a token names; raises `LoginError`."""

    def __init__(self, config: SecurityConfig) -> None:
        """Raises `SettingError` if keys cannot be loaded."""
        with needed_for("sasl.enabled.mechanisms=OAUTHBEARER"):
            import cryptography  # noqa: F401
            import jwt
        self._jwt = jwt
        self._config = config
        self._keys = _keys_of(config)

    def __call__(self, token: str) -> Login:
        config, jwt = self._config, self._jwt
        try:
            header = jwt.get_unverified_header(token)
            claims: dict[str, Any] = jwt.decode(
                token,
                self._keys.find(header.get("kid")),
                algorithms=list(ALGORITHMS),
                audience=list(config.sasl_oauthbearer_expected_audience) or None,
                issuer=config.sasl_oauthbearer_expected_issuer or None,
                leeway=config.sasl_oauthbearer_clock_skew_seconds,
                options={
                    "require": ["exp"],
                    "verify_aud": bool(config.sasl_oauthbearer_expected_audience),
                    "verify_sub": False,
                },
            )
            lifetime_ms = int(float(claims["exp"]) * 1000 - time() * 1000)
        except (
            jwt.PyJWTError, ValueError, TypeError, OverflowError, RecursionError
        ) as error:  # fmt: skip
            raise LoginError(f"Authentication failed: the token is refused: {error}") from error
        name = claims.get(config.sasl_oauthbearer_sub_claim_name)
        if not isinstance(name, str) or not name.strip() or not _is_text(name):
            raise LoginError("Authentication failed: the token does not name a user")
        scope = claims.get(config.sasl_oauthbearer_scope_claim_name, "")
        if not isinstance(scope, str | list):
            raise LoginError("Authentication failed: the token's scope must be a text or a list")
        lifetime_ms = min(max(1, lifetime_ms), MAX_LIFETIME_MS)
        return Login(principal=Principal(USER, name), lifetime_ms=lifetime_ms)


def _is_text(name: str) -> bool:
    """JSON can contain lone surrogates, which cannot be encoded."""
    return not any("\ud800" <= one <= "\udfff" for one in name)


class FileKeys:
    """Keys in a file."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._changed_ns = -1
        self._keys: Any = None
        self._complaint = ""
        self._load()

    def find(self, key_id: str | None) -> Any:
        """Raises `ValueError`."""
        self._load()
        return _chosen(self._keys, key_id)

    def _load(self) -> None:
        try:
            changed_ns = os.stat(self._path).st_mtime_ns
            if changed_ns != self._changed_ns:
                with open(self._path, "rb") as file:
                    self._keys = _parsed(file.read(MAX_KEYS_SIZE))
                self._changed_ns = changed_ns
        except (OSError, ValueError) as error:
            if self._keys is None:
                raise _no_keys(f"{self._path}: {error}; {KEYS_URL} names a JWKS") from error
            # Logged once, since it is checked at each login, before the client is authenticated.
            if str(error) != self._complaint:
                logger.error(
                    "%s: %s; the keys that were read before stay in effect", self._path, error
                )
            self._complaint = str(error)
        else:
            self._complaint = ""


class FetchedKeys:
    """Keys from a URL, fetched in a thread, so that nothing waits for them."""

    def __init__(self, url: str, refresh_ms: int) -> None:
        self._url = url
        self._refresh_s = refresh_ms / 1000
        self._keys: Any = None
        self._fetched_s = monotonic()
        self._thread = threading.Thread(target=self._fetch, name="jwks", daemon=True)
        self._thread.start()

    def find(self, key_id: str | None) -> Any:
        """Raises `ValueError`."""
        age_s = monotonic() - self._fetched_s
        try:
            if self._keys is None:
                raise ValueError("the issuer's keys have not been fetched yet")
            found = _chosen(self._keys, key_id)
        except ValueError:
            if age_s > MIN_REFRESH_S:
                self._refresh()
            raise
        if age_s > self._refresh_s:
            self._refresh()
        return found

    def _refresh(self) -> None:
        if not self._thread.is_alive():
            self._fetched_s = monotonic()
            self._thread = threading.Thread(target=self._fetch, name="jwks", daemon=True)
            self._thread.start()

    def _fetch(self) -> None:
        try:
            with urllib.request.urlopen(self._url, timeout=FETCH_TIMEOUT_S) as answer:
                self._keys = _parsed(answer.read(MAX_KEYS_SIZE))
        except (OSError, ValueError, HTTPException) as error:
            logger.error("%s: the keys of tokens cannot be fetched: %s", self._url, error)


def _keys_of(config: SecurityConfig) -> FileKeys | FetchedKeys:
    url = config.sasl_oauthbearer_jwks_endpoint_url
    if url.startswith(FILE):
        return FileKeys(url.removeprefix(FILE))
    if url.startswith((HTTPS, HTTP)):
        if url.startswith(HTTP):
            logger.warning(
                "sasl.oauthbearer.jwks.endpoint.url=%s: anyone on the network can replace the "
                "keys, and log in as any user; use https://",
                url,
            )
        return FetchedKeys(url, config.sasl_oauthbearer_jwks_endpoint_refresh_ms)
    raise _no_keys(
        f"{KEYS_URL}={url}: logins by OAUTHBEARER need the issuer's keys, as https://... or "
        "file:///..."
    )


def _no_keys(reason: str) -> SettingError:
    return SettingError(KEYS_URL, reason, reason)


def _parsed(content: bytes) -> Any:
    """The signing keys of a set, without the encryption keys; raises `ValueError`."""
    from jwt import PyJWKSet, PyJWTError

    try:
        return PyJWKSet([one for one in json.loads(content)["keys"] if _signs(one)])
    except (PyJWTError, AttributeError, KeyError, TypeError) as error:
        # PyJWT does not check a set's types.
        raise ValueError(f"it is not a set of keys ({error})") from error


def _signs(key: dict[str, Any]) -> bool:
    """Whether a key may be used for signatures (RFC 7517, 4.2 and 4.3)."""
    return key.get("use", "sig") == "sig" and "verify" in key.get("key_ops", ["verify"])


def _chosen(keys: Any, key_id: str | None) -> Any:
    """The key that a token names, or the only one; raises `ValueError`."""
    if key_id is None and len(keys.keys) == 1:
        return keys.keys[0].key
    for one in keys.keys:
        if key_id is not None and one.key_id == key_id:
            return one.key
    raise ValueError("the token is signed with an unknown key")
