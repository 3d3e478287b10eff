"""Objects of S3 and compatible stores, Google Cloud Storage, Azure, for threads of a broker too.

Uses `obstore`, which lets other threads run during every request. Objects are written atomically: a
crash leaves partial uploads, which are not listed.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from itertools import chain
from typing import Any, Final

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.files import Buffer, base_name
from ottla.base.values import dataclass
from ottla.objects.addresses import check_provider, full_address
from ottla.objects.refusal import refusal
from ottla.objects.store import StoredObject

READ_AHEAD: Final = 8 << 20
"""At 100 MB/s and 30 ms for a request this is three quarters of what the line could carry."""

PART_SIZE: Final = 8 << 20
"""S3 takes 10,000 parts of 5 MiB at least, and a segment has 2 GiB at most."""

PARTS_AT_ONCE: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class CloudOptions:
    """`config` is what `obstore` is told beyond the environment: credentials, region, endpoint.

    A request that is not answered within `timeout_ms` fails, and is repeated until `give_up_ms`
    have passed: without these a store that is down would take minutes to say so.
    """

    config: Mapping[str, str] | None = None
    checks_certificates: bool = True
    storage_class: str | None = None
    part_size: int = PART_SIZE
    timeout_ms: int = 30_000
    give_up_ms: int = 30_000
    max_retries: int = 3


class CloudStore:
    """Implements `StreamingStore`.

    `noun` is what lies there, such as "tier". Raises `UserError` for an address of no known store,
    or if the package is missing.
    """

    read_ahead = READ_AHEAD

    def __init__(self, address: str, noun: str, options: CloudOptions | None = None) -> None:
        self.address = full_address(address)
        check_provider(address, noun)
        with needed_for(f"a {noun} in an object store"):
            import obstore
        self._library = obstore
        self._options = options or CloudOptions()
        with self._asked():
            self._store = _opened(self.address, self._options)

    def names(self, directory: str) -> list[str]:
        found = self._listed(directory)
        paths = [*found["common_prefixes"], *(one["path"] for one in found["objects"])]
        return sorted(map(base_name, paths))

    def folders(self, directory: str) -> list[str]:
        return sorted(map(base_name, self._listed(directory)["common_prefixes"]))

    def find(self, directory: str) -> list[StoredObject]:
        with self._asked():
            found = self._library.list(self._store, directory or None).collect()
        return [
            StoredObject(path=one["path"], size=one["size"])
            for one in sorted(found, key=lambda one: str(one["path"]))
        ]

    def has(self, path: str) -> bool:
        try:
            self.size(path)
        except FileNotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        with self._asked():
            return int(self._library.head(self._store, path)["size"])

    def read(self, path: str) -> bytes:
        with self._asked():
            return bytes(self._library.get(self._store, path).bytes())

    def get(self, path: str, position: int, size: int) -> bytes:
        if size <= 0:
            return b""
        try:
            with self._asked():
                found = self._library.get_range(self._store, path, start=position, length=size)
                return bytes(found)
        except UserError:
            # A range after the object's end is refused.
            if self.size(path) <= position:
                return b""
            raise

    def put(self, path: str, content: bytes, *, durably: bool = True) -> None:
        self._put(path, content, use_multipart=False)

    def put_new(self, path: str, content: bytes) -> bool:
        """Creates an object atomically; `False` if there is one of that name. If the answer is lost
        and the request repeated, that may be the one that it has created.
        """
        from obstore.exceptions import AlreadyExistsError

        with self._asked():
            try:
                self._library.put(self._store, path, content, mode="create")
            except AlreadyExistsError:
                return False
        return True

    def put_parts(self, path: str, parts: Iterable[Buffer]) -> None:
        limit, left, first, size = self._options.part_size, iter(parts), list[Buffer](), 0
        while size <= limit and (part := next(left, None)) is not None:
            first.append(part)
            size += len(part)
        if size <= limit:
            self._put(path, b"".join(first), use_multipart=False)
        else:
            self._put(
                path,
                chain(first, left),
                use_multipart=True,
                chunk_size=limit,
                max_concurrency=PARTS_AT_ONCE,
            )

    def delete(self, path: str) -> None:
        self.delete_all([path])

    def delete_all(self, paths: Sequence[str]) -> None:
        try:
            with self._asked():
                self._library.delete(self._store, list(paths))
        except FileNotFoundError:
            # S3 takes several at once, and no notice of missing ones; others stop at one.
            for path in paths if len(paths) > 1 else ():
                self.delete(path)

    def _put(self, path: str, content: Buffer | Iterable[Buffer], **how: Any) -> None:
        kind = self._options.storage_class
        attributes = None if kind is None else {"Storage-Class": kind}
        try:
            with self._asked():
                self._library.put(self._store, path, content, attributes=attributes, **how)
        except FileNotFoundError as error:  # The bucket's.
            raise refusal(self.address, error) from error

    def _listed(self, directory: str) -> Any:
        with self._asked():
            return self._library.list_with_delimiter(self._store, directory or None)

    @contextmanager
    def _asked(self) -> Iterator[None]:
        """Converts errors to one line, except those that the caller handles."""
        from obstore.exceptions import BaseError

        try:
            yield
        except (BaseError, TimeoutError) as error:
            raise refusal(self.address, error) from error


def _opened(address: str, options: CloudOptions) -> Any:
    from obstore.store import from_url

    timeout, give_up = (
        timedelta(milliseconds=one) for one in (options.timeout_ms, options.give_up_ms)
    )
    # Endpoints given as http:// are used; all others use TLS.
    client: dict[str, object] = {"allow_http": True, "connect_timeout": "5s", "timeout": timeout}
    if not options.checks_certificates:
        client["allow_invalid_certificates"] = True
    return from_url(
        address,
        config=dict(options.config or {}),
        client_options=client,
        retry_config={"max_retries": options.max_retries, "retry_timeout": give_up},
    )
