"""Tokens for a registry from an OAuth server, by OAuth's client credentials (RFC 6749, 4.4)."""

import base64
import json
import ssl
import time
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlencode
from urllib.request import Request, urlopen

from ottla.base.errors import UnreachableError, UserError
from ottla.schema_registry.registry import ClientCredentials

_LONGEST_ANSWER = 1 << 20
_SHARE_LEFT = 5
"""A token is renewed when a fifth of its time is left, or the buffer if that is less."""

_UNKNOWN_LIFE_S = 60.0
"""Of a token without `expires_in`, which the server only recommends to send."""


class TokenSource:
    """Keeps a token until shortly before it ends."""

    def __init__(self, credentials: ClientCredentials, *, patience_s: float) -> None:
        self._credentials = credentials
        self._patience_s = patience_s
        self._token = ""
        self._until = 0.0
        self._is_new = True

    def token(self, context: ssl.SSLContext | None) -> str:
        """Raises `UserError` if the server refuses or gives none, and `UnreachableError`."""
        self._is_new = not self._token or time.monotonic() >= self._until
        if self._is_new:
            asked = time.monotonic()
            answer = self._asked(context)
            token = answer.get("access_token") if isinstance(answer, dict) else None
            if not isinstance(token, str) or not token:
                raise self._fault("its answer has no access_token")
            life_s = _seconds(answer.get("expires_in"))
            left_s = min(self._credentials.buffer_s, life_s / _SHARE_LEFT)
            self._token, self._until = token, asked + life_s - left_s
        return self._token

    def forget(self) -> bool:
        """After the registry refused the token: whether a new one may be accepted."""
        self._token = ""
        return not self._is_new

    def _asked(self, context: ssl.SSLContext | None) -> Any:
        wanted = self._credentials
        form = {"grant_type": "client_credentials"}
        if wanted.scope:
            form["scope"] = wanted.scope
        request = Request(wanted.url, data=urlencode(form).encode(), method="POST")
        pair = f"{quote(wanted.client_id, safe='')}:{quote(wanted.secret, safe='')}".encode()
        request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(pair).decode()}")
        request.add_header("Accept", "application/json")
        try:
            with urlopen(request, timeout=self._patience_s, context=context) as answer:
                return json.loads(answer.read(_LONGEST_ANSWER))
        except HTTPError as error:
            with error:
                raise self._refused(error) from error
        except URLError as error:
            raise UnreachableError(
                f"{self._place}: it cannot be reached: {error.reason}"
            ) from error
        except (OSError, ValueError, RecursionError, HTTPException) as error:
            raise self._fault(f"its answer is invalid: {error or type(error).__name__}") from error

    def _refused(self, error: HTTPError) -> UserError:
        try:
            told = json.loads(error.read(_LONGEST_ANSWER))
            words = " ".join(
                str(told[one]) for one in ("error", "error_description") if told.get(one)
            )
        except (OSError, ValueError, AttributeError, RecursionError, HTTPException):
            words = ""
        return self._fault(
            f"it refuses a token ({error.code}{words and f', {words[:200]}'}): see "
            f"bearer.auth.client.id, .client.secret and .scope of --registry-config"
        )

    @property
    def _place(self) -> str:
        return f"token server {self._credentials.url}"

    def _fault(self, words: str) -> UserError:
        return UserError(f"{self._place}: {words}")


def _seconds(value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        return _UNKNOWN_LIFE_S
