"""The schema of a table whose values carry schema ids: the union of all registered versions."""

from dataclasses import replace

from ottla.schema_registry.opening import open_registry
from ottla.schema_registry.registry import RegistryLogin
from ottla.tables.layout import LayoutOptions, TableLayout
from ottla.tables.values.decoder import Decoding


def with_registered_schema(asked: LayoutOptions, pinned: TableLayout, topic: str) -> LayoutOptions:
    """The requested layout with the registry's schema, unless a schema was given.

    A table with a registry's schema grows with it at each load. Raises `UserError`.
    """
    values = None if asked.is_raw else pinned.decoding
    return replace(
        asked,
        decoding=_of_subject(asked.decoding, values, f"{topic}-value", asked.login),
        key=_of_subject(asked.key, pinned.record_decoding.key, f"{topic}-key", asked.login),
    )


def _of_subject(
    asked: Decoding | None, has: Decoding | None, subject: str, login: RegistryLogin | None
) -> Decoding | None:
    decoding = asked
    if decoding is None and has is not None and has.subject:
        decoding = replace(has, schema="")
    if decoding is None or not decoding.registry or decoding.schema:
        return decoding
    from ottla.tables.values.registered import with_schema_of_subject

    named = replace(decoding, subject=decoding.subject or subject)
    return with_schema_of_subject(named, open_registry(decoding.registry, login))
