"""The schema of a table whose values name theirs in a registry: that of all versions so far."""

from dataclasses import replace

from ottla.schema_registry.opening import open_registry
from ottla.tables.layout import LayoutOptions, TableLayout


def with_registered_schema(asked: LayoutOptions, pinned: TableLayout, topic: str) -> LayoutOptions:
    """What is asked for, with the registry's schema unless one was given; raises `UserError`.

    A table that has its schema from a registry grows with it at each load.
    """
    decoding = asked.decoding
    if decoding is None and not asked.is_raw and pinned.decoding and pinned.decoding.subject:
        decoding = replace(pinned.decoding, schema="")
    if decoding is None or not decoding.registry or decoding.schema:
        return asked
    from ottla.tables.values.registered import with_schema_of_subject

    named = replace(decoding, subject=decoding.subject or f"{topic}-value")
    registry = open_registry(decoding.registry, asked.login)
    return replace(asked, decoding=with_schema_of_subject(named, registry))
