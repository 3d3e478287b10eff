"""Which topics `ottla load` reads, and the table that each goes into."""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.base.errors import UserError
from ottla.cli.settings_files import read_client_settings
from ottla.cli.tiers import tier_of

if TYPE_CHECKING:
    from ottla.loading.job import LoadRoute


def check_routes(topics: Sequence[str], given: Mapping[str, Any]) -> None:
    """Raises `UserError` for options that do not say which table a topic goes into."""
    from ottla.tables import ICEBERG

    if not topics and not given["tables"] and not given["pattern"]:
        raise UserError("name a topic to load: ottla load SOURCE TOPIC --into PATH")
    if not given["into"] and (topics or given["pattern"]):
        raise UserError("name the table's location: --into PATH")
    if given["into"] is not None and not topics and not given["pattern"]:
        raise UserError("--into is for topics that are named without a path: name one, or --table")
    several = given["pattern"] or len({*topics}) > 1
    if several and given["into"].startswith(ICEBERG):
        raise UserError(
            f"{given['into']} is one table: give each topic its own, with "
            f"--table TOPIC=iceberg://CATALOG/NAMESPACE.TABLE"
        )
    if given["pattern"] and topics:
        raise UserError("--pattern selects the topics: omit the names, or --pattern")


def named_routes(source: str, topics: Sequence[str], given: Mapping[str, Any]) -> "list[LoadRoute]":
    """Returns the named topics, each with its own table; raises `UserError`."""
    from ottla.loading.job import LoadRoute
    from ottla.objects.addresses import full_address

    names = dict.fromkeys(topics)
    into = given["into"]
    found = {one: into if len(names) == 1 else os.path.join(into, one) for one in names}
    pairs = [*found.items(), *(table_pair(text) for text in given["tables"])]
    routes = [LoadRoute(source, topic, full_address(path)) for topic, path in pairs]
    paths = [one.into for one in routes]
    if len(set(paths)) < len(paths):
        raise UserError("a table holds one topic: give each topic another path")
    return routes


def matching_routes(source: str, given: Mapping[str, Any]) -> "list[LoadRoute]":
    """Returns the topics that match the pattern now; raises `UserError`."""
    from ottla.loading.job import LoadRoute
    from ottla.objects.addresses import full_address
    from ottla.sources.opening import choice_options, open_log, tier_texts

    client = read_client_settings(given["source_config"])
    # Of whole names, as its option says; Spark's option finds parts of them.
    choice_options(source, {"subscribePattern": given["pattern"]}, client)  # refuses a wrong one
    whole = {"subscribePattern": f"^(?:{given['pattern']})$"}
    options = choice_options(source, {**whole, **tier_texts(tier_of(given))}, client)
    offered = open_log(options).partitions(allow_missing=True)
    return [
        LoadRoute(source, topic, full_address(os.path.join(given["into"], topic)))
        for topic in dict.fromkeys(one.topic for one in offered)
    ]


def table_pair(text: str) -> tuple[str, str]:
    """Parses `--table TOPIC=PATH`; raises `UserError`."""
    topic, sign, path = text.partition("=")
    if not (topic and sign and path):
        raise UserError(f"--table takes TOPIC=PATH, such as orders=tables/orders, not {text!r}")
    return topic, path
