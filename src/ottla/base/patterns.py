"""`lazy_pattern`: a regular expression that is compiled when it is first used.

Modules name their patterns as constants, and a short command imports 40 of them and uses few:
compiling all of them took 5 ms.
"""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from re import compile as lazy_pattern
else:

    class lazy_pattern:  # noqa: N801 - called like the function that it stands for
        """Has the methods and attributes of `re.compile(text, flags)`."""

        def __init__(self, text: str | bytes, flags: int = 0) -> None:
            self.arguments = text, flags

        def __getattr__(self, name: str) -> Any:
            found = getattr(re.compile(*self.arguments), name)
            setattr(self, name, found)
            return found


__all__ = ["lazy_pattern"]
