"""From what a person names to a registry."""

from functools import lru_cache

from ottla.schema_registry.registry import RegistryLogin, SchemaRegistry


@lru_cache(maxsize=16)
def open_registry(address: str, login: RegistryLogin | None = None) -> SchemaRegistry:
    """A registry at an http address, or a directory of schemas; the same one for the same names.

    Raises `UserError` for an address that is neither.
    """
    if address.startswith(("http://", "https://")):
        from ottla.schema_registry.http import HttpRegistry

        return HttpRegistry(address, login)
    from ottla.schema_registry.directory import DirectoryRegistry

    return DirectoryRegistry(address)
