"""Opens a registry by its address."""

from functools import lru_cache

from ottla.schema_registry.registry import PATIENCE_S, RegistryLogin, SchemaRegistry


@lru_cache(maxsize=16)
def open_registry(
    address: str, login: RegistryLogin | None = None, *, patience_s: float = PATIENCE_S
) -> SchemaRegistry:
    """A registry at an http address, or a directory of schemas; cached by its arguments.

    Raises `UserError` if the address is neither.
    """
    if address.startswith(("http://", "https://")):
        from ottla.schema_registry.http import HttpRegistry

        return HttpRegistry(address, login, patience_s=patience_s)
    from ottla.schema_registry.directory import DirectoryRegistry

    return DirectoryRegistry(address)
