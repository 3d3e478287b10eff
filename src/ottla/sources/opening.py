"""Opens the log that options or command-line arguments name."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.base.errors import UserError
from ottla.base.patterns import lazy_pattern
from ottla.sources.client_options import BOOTSTRAP_OPTION, CLIENT_PREFIX
from ottla.sources.log_files import LogFiles
from ottla.sources.log_source import LogSource
from ottla.sources.options import ReadOptions, check_path, parse_options
from ottla.storage.reading.opening import TierPlace

if TYPE_CHECKING:
    from ottla.sources.wire.wire_client import WireClient

_ADDRESS = lazy_pattern(r"(\[[0-9A-Fa-f:]+\]|[\w.-]+):\d{1,5}")


def open_log(options: ReadOptions) -> LogSource:
    """The source that the options name."""
    if options.paths:
        return LogFiles(
            options.paths,
            options.choice,
            options.isolation,
            skip_damaged=options.skip_damaged,
            tier=options.tier,
        )
    # Imported here, because reading files does not need the wire protocol.
    from ottla.sources.wire.wire_source import BrokerLog

    return BrokerLog(open_client(options), options.choice, options.isolation)


def open_client(options: ReadOptions) -> "WireClient":
    """The client of the brokers that the options name."""
    from ottla.sources.wire.wire_client import WireClient
    from ottla.sources.wire.wire_settings import parse_wire_settings

    settings = parse_wire_settings(options.client)
    address = options.client["bootstrap.servers"]
    return WireClient(address, settings, options.isolation, options.silence_ms)


def source_options(source: str) -> dict[str, str]:
    """The data source's options for a data directory or a broker's address, as a user writes it.

    An existing directory takes precedence. Comma-separated directories are one log, as in Kafka's
    log.dirs. Raises `UserError` for anything else.
    """
    if os.path.isdir(source):
        return {"path": os.path.abspath(source)}
    if all(os.path.isdir(one) for one in source.split(",")):
        return {"path": ",".join(os.path.abspath(one) for one in source.split(","))}
    if all(_ADDRESS.fullmatch(address) for address in source.split(",")):
        return {BOOTSTRAP_OPTION: source}
    check_path(source)
    raise UserError(f"{source} is neither a directory that exists nor HOST:PORT of a broker")


def topic_options(
    source: str,
    topic: str,
    *,
    skip_damaged: bool = False,
    client: Mapping[str, str] | None = None,
    tier: TierPlace | None = None,
) -> ReadOptions:
    """The options to read one topic from a data directory or a broker; raises `UserError`."""
    more = {"skipDamaged": "true"} if skip_damaged else {}
    more |= tier_texts(tier)
    return choice_options(source, {**more, "subscribe": topic}, client or {})


def tier_texts(tier: TierPlace | None) -> dict[str, str]:
    """The options that name a tier."""
    if tier is None:
        return {}
    texts = {"tier": tier.address, "tier.key": tier.keys, "tier.config": tier.config}
    return {name: text for name, text in texts.items() if text is not None}


def choice_options(source: str, given: Mapping[str, str], client: Mapping[str, str]) -> ReadOptions:
    """The options to read topics chosen by `given`; raises `UserError`."""
    settings = {f"{CLIENT_PREFIX}{name}": value for name, value in client.items()}
    place = source_options(source)
    if settings and BOOTSTRAP_OPTION not in place:
        raise UserError(f"{source} is not HOST:PORT of a broker; leave out the client settings")
    # A settings file may name the brokers of its cluster, but `source` names the source.
    settings.pop(BOOTSTRAP_OPTION, None)
    return parse_options({**settings, **place, **given})
