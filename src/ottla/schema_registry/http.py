"""A registry at a URL with Confluent's API, as also served by Karapace, Apicurio and Redpanda."""

import base64
import json
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from http.client import HTTPException, IncompleteRead
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from ottla.base.errors import RefusalError, UnreachableError, UserError
from ottla.schema_registry.registry import (
    AVRO,
    PATIENCE_S,
    RegisteredSchema,
    RegistryLogin,
    UnknownSchemaError,
)
from ottla.schema_registry.tokens import TokenSource

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND = 404
_UNKNOWN_LOGIN = 401
_REFUSED = (_UNKNOWN_LOGIN, 403)
_BUSY = (408, 429, 500, 502, 503, 504)
PAUSES_S = (0.5, 2.0, 6.0)
"""The pauses before a question is put again to a registry that is busy, or hung up: a load of hours
does not end because of one answer."""

_LONGEST_PAUSE_S = 20.0
_LONGEST_ANSWER = 16 << 20
_LONGEST_WORDS = 64 << 10
MOST_REFERENCES = 1000
"""Of one schema, with those of the schemas that it references."""


class _BusyError(UserError):
    """The registry may answer the same question in a moment."""

    def __init__(self, words: str, wait_s: float = 0.0) -> None:
        super().__init__(words)
        self.wait_s = wait_s
        """How long it asks to be left alone."""


class HttpRegistry:
    """See `SchemaRegistry`. Results are cached: the schema of an id never changes."""

    def __init__(
        self,
        url: str,
        login: RegistryLogin | None = None,
        *,
        patience_s: float = PATIENCE_S,
        pauses_s: Sequence[float] = PAUSES_S,
    ) -> None:
        self._patience_s = patience_s
        self._pauses_s = pauses_s
        self._url = url.rstrip("/")
        self._login = login or RegistryLogin()
        try:
            parts = urlsplit(url)
            is_address = bool(parts.hostname) and parts.port != 0
        except ValueError:
            is_address = False
        if not is_address:
            raise UserError(f"{url} is not a registry's address, such as http://localhost:8081")
        if parts.username is not None:
            raise UserError(
                "a registry's URL must not contain a password: put it into a file, and "
                "name that with --registry-config"
            )
        self._known: dict[str, RegisteredSchema] = {}
        credentials = self._login.credentials
        self._tokens = credentials and TokenSource(credentials, patience_s=patience_s)

    def schema(self, schema_id: int) -> RegisteredSchema:
        return self._kept(f"/schemas/ids/{schema_id}", f"schema id {schema_id}")

    def schema_of_guid(self, guid: str) -> RegisteredSchema:
        return self._kept(f"/schemas/guids/{quote(guid, safe='')}", f"schema {guid}")

    def versions(self, subject: str) -> list[RegisteredSchema]:
        path = f"/subjects/{quote(subject, safe='')}/versions"
        what = f"subject {subject}"
        numbers = self.ask(path, what)
        if not isinstance(numbers, list) or not all(isinstance(one, int) for one in numbers):
            raise self._fault(f"its response has no versions of {what}")
        return [self._schema(self.ask(f"{path}/{one}", what)) for one in sorted(numbers)]

    def _kept(self, path: str, what: str) -> RegisteredSchema:
        found = self._known.get(path)
        if found is None:
            found = self._known[path] = self._schema(self.ask(path, what))
        return found

    def _schema(self, answer: Any) -> RegisteredSchema:
        if not isinstance(answer, dict) or not isinstance(answer.get("schema"), str):
            raise self._fault("its response has no schema")
        references = self._references(answer)
        kind = answer.get("schemaType") or AVRO
        return RegisteredSchema(text=answer["schema"], kind=kind, references=references)

    def _references(self, answer: Any) -> dict[str, str]:
        """The texts of referenced schemas by name, each after those that it references itself.

        Each schema is requested once, however many reference it.
        """
        found: dict[str, str] = {}
        seen: set[tuple[str, str, int]] = set()
        open_names: list[str] = []
        open_texts: list[str] = []
        todo = [iter(self._needs(answer))]
        while todo:
            need = next(todo[-1], None)
            if need is None:
                todo.pop()
                if open_names:
                    found[open_names.pop()] = open_texts.pop()
                continue
            name, subject, version = need
            if name in open_names:
                raise self._fault(f"its schema {name} refers to itself")
            if need in seen:
                continue
            seen.add(need)
            if len(seen) > MOST_REFERENCES:
                raise self._fault(f"a schema has more than {MOST_REFERENCES} references")
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
            needed = self.ask(path, f"version {version} of subject {subject}")
            if not isinstance(needed, dict) or not isinstance(needed.get("schema"), str):
                raise self._fault("its response has no schema")
            open_names.append(name)
            open_texts.append(needed["schema"])
            todo.append(iter(self._needs(needed)))
        return found

    def _needs(self, answer: Any) -> list[tuple[str, str, int]]:
        """A schema's references: name, subject and version."""
        try:
            return [
                (str(one["name"]), str(one["subject"]), int(one["version"]))
                for one in answer.get("references") or ()
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise self._fault("its response has a reference without a schema") from error

    @property
    def url(self) -> str:
        return self._url

    def ask(
        self, path: str, what: str, *, method: str = "GET", body: Mapping[str, Any] | None = None
    ) -> Any:
        """The answer of the API. Raises `UnknownSchemaError` if `what` is not there, `RefusalError`
        for a request that the registry refuses, with its words, and `UserError`.

        What changes nothing is asked again if the registry is busy, as long as the patience lasts.
        """
        until = time.monotonic() + self._patience_s
        for pause_s in self._pauses_s if method == "GET" else ():
            try:
                return self._asked_once(path, what, method, body)
            except _BusyError as error:
                wait_s = max(pause_s, min(error.wait_s, _LONGEST_PAUSE_S))
                if time.monotonic() + wait_s > until:
                    raise
                time.sleep(wait_s)
        return self._asked_once(path, what, method, body)

    def _asked_once(self, path: str, what: str, method: str, body: Mapping[str, Any] | None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": f"{MEDIA_TYPE}, application/json"}
        if data is not None:
            headers["Content-Type"] = MEDIA_TYPE
        request = Request(self._url + path, data=data, headers=headers, method=method)
        # A redirect to another host must not receive the login.
        for name, value in self._authorization().items():
            request.add_unredirected_header(name, value)
        try:
            with urlopen(request, timeout=self._patience_s, context=self._context) as answer:
                return json.loads(answer.read(_LONGEST_ANSWER))
        except HTTPError as error:
            with error:
                if error.code != _UNKNOWN_LOGIN or not self._tokens or not self._tokens.forget():
                    raise self._refused(error, what, is_read=method == "GET") from error
            return self._asked_once(path, what, method, body)
        except URLError as error:
            raise UnreachableError(
                f"schema registry {self._url}: it cannot be reached: {error.reason}"
            ) from error
        except TimeoutError as error:
            raise UnreachableError(
                f"schema registry {self._url}: it did not answer the request for {what} within "
                f"{self._patience_s:g} s"
            ) from error
        except (ConnectionError, IncompleteRead) as error:
            raise _BusyError(f"schema registry {self._url}: it hung up: {error}") from error
        except (OSError, ValueError, RecursionError, HTTPException) as error:
            raise self._fault(f"its response is invalid: {error}") from error

    def _refused(self, error: HTTPError, what: str, *, is_read: bool) -> UserError:
        words = _words_of(error)
        if error.code == _NOT_FOUND and (words or not is_read):
            told = f": {words}" if words and not is_read else f" has no {what}"
            return UnknownSchemaError(f"{self._url}{told}")
        if error.code == _NOT_FOUND:
            # A registry says what it has not; records must not be set aside for a wrong address.
            return self._fault(
                f"no registry answers at this address (404 for {what}, without its words): check "
                f"the URL"
            )
        if error.code in _REFUSED:
            return self._fault(
                f"access to {what} is denied ({error.code}): see basic.auth.user.info or "
                f"bearer.auth.* of --registry-config"
            )
        told = f"{error.code}{f', {words}' if words else ''}"
        if error.code in _BUSY:
            failed = f"schema registry {self._url}: the request for {what} failed: {told}"
            return _BusyError(failed, _seconds(error.headers.get("Retry-After")))
        if words and 400 <= error.code < 500:
            return RefusalError(f"schema registry {self._url}: {words}")
        return self._fault(f"the request for {what} failed: {told}")

    def _fault(self, words: str) -> UserError:
        return UserError(f"schema registry {self._url}: {words}")

    def _authorization(self) -> dict[str, str]:
        """Headers as of now: a file with a token gets new ones, and a server gives them."""
        login = self._login
        if login.token or login.token_file or self._tokens:
            token = login.token or self._renewed_token()
            if not (token.isascii() and token.isprintable()):
                # The library's error would contain the token.
                name = login.token_file or "bearer.auth.token"
                raise self._fault(f"{name} has characters that headers do not allow")
            named = {"target-sr-cluster": login.cluster, "Confluent-Identity-Pool-Id": login.pool}
            there = {name: value for name, value in named.items() if value}
            return {"Authorization": f"Bearer {token}", **there}
        if login.user:
            pair = f"{login.user}:{login.password}".encode()
            return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}
        return {}

    def _renewed_token(self) -> str:
        if self._tokens:
            return self._tokens.token(self._tls)
        return self._token_in(self._login.token_file)

    def _token_in(self, path: str) -> str:
        try:
            with open(path, encoding="utf-8") as file:
                return file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            why = getattr(error, "strerror", None) or "it is no text"
            raise self._fault(f"{path}: {why}; it must hold a token") from error

    @property
    def _context(self) -> ssl.SSLContext | None:
        return self._tls if self._url.startswith("https:") else None

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        make: Callable[..., ssl.SSLContext] = ssl.create_default_context
        try:
            return make(cafile=self._login.ca_location or None)
        except OSError as error:
            raise self._fault(f"schema.registry.ssl.ca.location: {error}") from error


def _seconds(text: str | None) -> float:
    """The seconds of the header Retry-After; a date, which registries do not send, is ignored."""
    return float(text) if text and text.isascii() and text.isdigit() else 0.0


def _words_of(error: HTTPError) -> str:
    """What a registry says of an error; empty if it says nothing."""
    try:
        found = json.loads(error.read(_LONGEST_WORDS))
    except (OSError, ValueError, RecursionError, HTTPException):
        return ""
    message = found.get("message") if isinstance(found, dict) else None
    return " ".join(str(message).split()) if message else ""
