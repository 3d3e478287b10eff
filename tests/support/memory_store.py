"""An object store in memory that fails, or lies, when it is told to."""

from collections.abc import Callable, Iterable, Sequence

from ottla.base.files import Buffer
from ottla.objects.store import StoredObject


class MemoryStore:
    """Implements `StreamingStore`. `on_call` is called before each call, with its name, its path
    and the number of the call from 0; it may raise. `sizes` are what it says of sizes, wrongly.
    """

    address = "memory://tier"
    read_ahead = 1 << 20

    def __init__(self, on_call: Callable[[str, str, int], None] | None = None) -> None:
        self.objects: dict[str, bytes] = {}
        self.sizes: dict[str, int | None] = {}
        self.calls: list[tuple[str, str]] = []
        self.on_call = on_call or (lambda name, path, number: None)

    def names(self, directory: str) -> list[str]:
        return sorted({one.split("/")[0] for one in self._below("names", directory)})

    def folders(self, directory: str) -> list[str]:
        found = self._below("folders", directory)
        return sorted({one.split("/")[0] for one in found if "/" in one})

    def find(self, directory: str) -> list[StoredObject]:
        prefix = f"{directory}/" if directory else ""
        found = sorted(prefix + one for one in self._below("find", directory))
        return [StoredObject(path=path, size=len(self.objects[path])) for path in found]

    def has(self, path: str) -> bool:
        self._called("has", path)
        return path in self.objects

    def size(self, path: str) -> int:
        self._called("size", path)
        suffix = path.rpartition(".")[2]
        if suffix in self.sizes:
            size = self.sizes[suffix]
            if size is None:
                raise FileNotFoundError(2, "No such object", path)
            return size
        return len(self._object(path))

    def read(self, path: str) -> bytes:
        self._called("read", path)
        return self._object(path)

    def get(self, path: str, position: int, size: int) -> bytes:
        self._called("get", path)
        return self._object(path)[position : position + size]

    def put(self, path: str, content: bytes, *, durably: bool = True) -> None:
        self.put_parts(path, [content])

    def put_parts(self, path: str, parts: Iterable[Buffer]) -> None:
        self._called("put", path)
        content = b"".join(parts)
        self._called("put", path)
        self.objects[path] = content
        self._called("put", path)

    def delete(self, path: str) -> None:
        self.delete_all([path])

    def delete_all(self, paths: Sequence[str]) -> None:
        for path in paths:
            self._called("delete", path)
            self.objects.pop(path, None)
        self._called("delete", paths[-1])

    def _object(self, path: str) -> bytes:
        if path not in self.objects:
            raise FileNotFoundError(2, "No such object", path)
        return self.objects[path]

    def _below(self, name: str, directory: str) -> list[str]:
        self._called(name, directory)
        prefix = f"{directory}/" if directory else ""
        return [one.removeprefix(prefix) for one in self.objects if one.startswith(prefix)]

    def _called(self, name: str, path: str) -> None:
        number = len(self.calls)
        self.calls.append((name, path))
        self.on_call(name, path, number)
