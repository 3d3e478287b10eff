"""Values of JSON, each with the schema of its load: a column comes, then types become wider."""

from typing import Any

SCHEMAS = [
    "id int, who struct<name: string, ages: array<int>>",
    "id int, who struct<name: string, ages: array<int>>, note string",
    "note string, id bigint, who struct<name: string, ages: array<bigint>>, tags array<string>",
]
VALUES: list[dict[str, Any]] = [
    {"id": 1, "who": {"name": "a", "ages": [1, None]}},
    {"id": 2, "who": {"name": "b", "ages": []}, "note": "n"},
    {"id": 2**40, "who": {"name": "c", "ages": [2**40]}, "note": None, "tags": ["x", "y"]},
]
