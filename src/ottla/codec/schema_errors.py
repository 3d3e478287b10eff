"""Finds the error codes in declared messages, for a caller that counts them.

A message names its errors in fields called `error_code`, at the top or in the elements of its
arrays. The function that collects them is compiled once for each class, as readers and writers are,
since every answer of a broker goes through it.

Kafka's counterpart: `AbstractResponse.errorCounts`.
"""

from collections.abc import Callable
from functools import cache
from typing import Any

from ottla.base.turns import PART_SIZE, in_turns

ERROR_FIELD = "error_code"

ErrorFinder = Callable[[Any], list[int] | None]
"""The codes in a message that are not 0 (NONE); `None` when there are none."""


@cache
def error_finder(message: type[Any]) -> ErrorFinder:
    """The function that looks through messages of a class."""
    lines = _lines(message, "message", 1)
    if not lines:
        return lambda _: None
    source = "\n".join(
        ["def find(message):", "    found = None", *lines, "    return found"],
    )
    names: dict[str, Any] = {"in_turns": in_turns}
    exec(source, names)
    return names["find"]  # type: ignore[no-any-return]


def _lines(struct: type[Any], name: str, depth: int) -> list[str]:
    """The statements that look through a struct; none when it can hold no error."""
    indent = "    " * depth
    lines: list[str] = []
    for field in struct.FIELDS:
        value = f"{name}.{field.name}"
        if field.name == ERROR_FIELD:
            lines += [
                f"{indent}if {value}:",
                f"{indent}    found = [] if found is None else found",
                f"{indent}    found.append({value})",
            ]
        elif field.struct is not None:
            inner = f"v{depth}"
            found = _lines(field.struct, inner, depth + 1)
            if found and field.kind == "array":
                lines += [
                    f"{indent}{inner}s = {value}",
                    f"{indent}if {inner}s:",
                    f"{indent}  if len({inner}s) > {PART_SIZE}:",
                    f"{indent}    {inner}s = in_turns({inner}s)",
                    f"{indent}  for {inner} in {inner}s:",
                    *found,
                ]
            elif found:
                lines += [f"{indent}{inner} = {value}", f"{indent}if {inner} is not None:", *found]
    return lines
