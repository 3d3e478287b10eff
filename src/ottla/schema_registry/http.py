"""A registry at a URL with Confluent's API, as also served by Karapace, Apicurio and Redpanda."""

import base64
import json
import ssl
from collections.abc import Callable, Mapping
from functools import cached_property
from http.client import HTTPException
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

MEDIA_TYPE = "application/vnd.schemaregistry.v1+json"
_NOT_FOUND = 404
_REFUSED = (401, 403)
_LONGEST_ANSWER = 16 << 20
_LONGEST_WORDS = 64 << 10
MOST_REFERENCES = 1000
"""Of one schema, with those of the schemas that it references."""


class HttpRegistry:
    """See `SchemaRegistry`. Results are cached: the schema of an id never changes."""

    def __init__(
        self, url: str, login: RegistryLogin | None = None, *, patience_s: float = PATIENCE_S
    ) -> None:
        self._patience_s = patience_s
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
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Accept": f"{MEDIA_TYPE}, application/json"}
        if data is not None:
            headers["Content-Type"] = MEDIA_TYPE
        request = Request(self._url + path, data=data, headers=headers, method=method)
        if self._authorization:
            # A redirect to another host must not receive the login.
            request.add_unredirected_header("Authorization", self._authorization)
        try:
            with urlopen(request, timeout=self._patience_s, context=self._context) as answer:
                return json.loads(answer.read(_LONGEST_ANSWER))
        except HTTPError as error:
            with error:
                words = _words_of(error)
                if error.code == _NOT_FOUND:
                    is_told = words and method != "GET"
                    told = f": {words}" if is_told else f" has no {what}"
                    raise UnknownSchemaError(f"{self._url}{told}") from error
                if error.code in _REFUSED:
                    raise self._fault(
                        f"access to {what} is denied ({error.code}): see basic.auth.user.info or "
                        f"bearer.auth.token of --registry-config"
                    ) from error
                if words and 400 <= error.code < 500:
                    raise RefusalError(f"schema registry {self._url}: {words}") from error
                told = f"{error.code}{f', {words}' if words else ''}"
                raise self._fault(f"the request for {what} failed: {told}") from error
        except URLError as error:
            raise UnreachableError(
                f"schema registry {self._url}: it cannot be reached: {error.reason}"
            ) from error
        except (OSError, ValueError, RecursionError, HTTPException) as error:
            raise self._fault(f"its response is invalid: {error}") from error

    def _fault(self, words: str) -> UserError:
        return UserError(f"schema registry {self._url}: {words}")

    @cached_property
    def _authorization(self) -> str:
        login = self._login
        if login.token:
            if not (login.token.isascii() and login.token.isprintable()):
                # The library's error would contain the token.
                raise self._fault("bearer.auth.token has characters that headers do not allow")
            return f"Bearer {login.token}"
        if login.user:
            pair = f"{login.user}:{login.password}".encode()
            return f"Basic {base64.b64encode(pair).decode()}"
        return ""

    @cached_property
    def _context(self) -> ssl.SSLContext | None:
        if not self._url.startswith("https:"):
            return None
        make: Callable[..., ssl.SSLContext] = ssl.create_default_context
        try:
            return make(cafile=self._login.ca_location or None)
        except OSError as error:
            raise self._fault(f"schema.registry.ssl.ca.location: {error}") from error


def _words_of(error: HTTPError) -> str:
    """What a registry says of an error; empty if it says nothing."""
    try:
        found = json.loads(error.read(_LONGEST_WORDS))
    except (OSError, ValueError, RecursionError, HTTPException):
        return ""
    message = found.get("message") if isinstance(found, dict) else None
    return " ".join(str(message).split()) if message else ""
