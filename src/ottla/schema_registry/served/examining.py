"""Parses and compares schemas: small ones here, others in a child process with a limit of time.

Avro's library is Python, and compares each member of a union with each of the other's: with a
schema of 50 kB it could take minutes of the broker's processor, of which its event loop has a share
only every 5 ms. The limit holds for protoc too, a child of the child.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ottla.base.errors import UserError
from ottla.schema_registry.served import compatibility
from ottla.schema_registry.served.compatibility import Schema
from ottla.schema_registry.served.faults import RegistryError, too_large

SMALL: Final = 20_000
"""Characters, with references, that are parsed here: some 20 ms."""
SMALL_PRODUCT: Final = 10_000_000
"""Characters of one schema times those of the others that are compared here: some 100 ms."""
PATIENCE_S: Final = 20


def parsed(text: str, kind: str, references: Mapping[str, str]) -> Schema:
    """Raises `RegistryError` for a schema that is invalid, or takes too long."""
    if len(text) + sum(map(len, references.values())) <= SMALL:
        return compatibility.parsed(text, kind, references)
    found = _in_a_child({"text": text, "kind": kind, "references": list(references.items())})
    return _schema(found)


def faults(schema: Schema, others: Sequence[Schema], level: str) -> list[str]:
    """Why the schema may not follow any of `others`. Raises `RegistryError`, as `parsed`."""
    if _size(schema) * sum(map(_size, others)) <= SMALL_PRODUCT:
        return compatibility.faults(schema, others, level)
    fields = {"new": _fields(schema), "others": list(map(_fields, others)), "level": level}
    found: list[str] = _in_a_child(fields)
    return found


def _size(schema: Schema) -> int:
    return len(schema.text) + sum(len(text) for _, text in schema.references)


def _fields(schema: Schema) -> dict[str, Any]:
    references = [list(one) for one in schema.references]
    return {
        "text": schema.text,
        "kind": schema.kind,
        "meaning": schema.meaning,
        "references": references,
    }


def _schema(fields: Mapping[str, Any]) -> Schema:
    references = tuple((name, text) for name, text in fields["references"])
    return Schema(
        text=fields["text"], kind=fields["kind"], meaning=fields["meaning"], references=references
    )


def _in_a_child(asked: Mapping[str, Any]) -> Any:
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__],
            input=json.dumps(asked).encode(),
            capture_output=True,
            timeout=PATIENCE_S + 10,
        )
    except subprocess.TimeoutExpired as error:
        raise too_large(f"it takes more than {PATIENCE_S} s to examine") from error
    except OSError as error:
        raise UserError(f"a schema cannot be examined: {error}") from error
    if done.returncode < 0:  # by a signal: of the limit of processor time
        raise too_large(f"it takes more than {PATIENCE_S} s to examine")
    if done.returncode > 0:
        words = done.stderr.decode(errors="replace").strip().splitlines()
        raise UserError(f"a schema cannot be examined: {words[-1] if words else 'no reason'}")
    answer = json.loads(done.stdout)
    if "code" in answer:
        raise RegistryError(answer["code"], answer["message"])
    return answer["found"]


def main() -> None:
    """Answers what `_in_a_child` asked; ends by its limit, also if the broker is killed."""
    import resource
    import warnings

    resource.setrlimit(resource.RLIMIT_CPU, (PATIENCE_S, PATIENCE_S))
    warnings.simplefilter("ignore")
    asked = json.loads(sys.stdin.buffer.read())
    try:
        answer = {"found": _examined(asked)}
    except RegistryError as error:
        answer = {"code": error.code, "message": error.message}
    sys.stdout.write(json.dumps(answer))


def _examined(asked: Mapping[str, Any]) -> Any:
    if "level" in asked:
        others = list(map(_schema, asked["others"]))
        return compatibility.faults(_schema(asked["new"]), others, asked["level"])
    references = dict(asked["references"])
    return _fields(compatibility.parsed(asked["text"], asked["kind"], references))


if __name__ == "__main__":
    main()
