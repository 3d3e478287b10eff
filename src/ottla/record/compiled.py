"""Whether the optional extensions are here, which setup.py makes where there is a compiler."""

from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from types import ModuleType


def compiled(name: str) -> ModuleType | None:
    """A module if it was compiled, else `None`: as plain Python it would only be slow."""
    spec = find_spec(name)
    if spec is None or not str(spec.origin).endswith(tuple(EXTENSION_SUFFIXES)):
        return None
    return import_module(name)
