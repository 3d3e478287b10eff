"""Opens a log: the options of a read, or the words of a person, to the source that they name."""

import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from ottla.base.errors import UserError
from ottla.sources.client_options import BOOTSTRAP_OPTION, CLIENT_PREFIX
from ottla.sources.log_files import LogFiles
from ottla.sources.log_source import LogSource
from ottla.sources.options import ReadOptions, check_path, parse_options

if TYPE_CHECKING:
    from ottla.sources.wire.wire_client import WireClient

_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:]+\]|[\w.-]+):\d{1,5}")


def open_log(options: ReadOptions) -> LogSource:
    """The source that the options name."""
    if options.paths:
        return LogFiles(
            options.paths, options.choice, options.isolation, skip_damaged=options.skip_damaged
        )
    # Where files are read, nothing of the wire is imported.
    from ottla.sources.wire.wire_source import BrokerLog

    return BrokerLog(open_client(options), options.choice, options.isolation)


def open_client(options: ReadOptions) -> "WireClient":
    """The client that the options ask for."""
    from ottla.sources.wire.own_client import OwnClient
    from ottla.sources.wire.wire_settings import foreign_setting, parse_wire_settings

    foreign = foreign_setting(options.client)
    if foreign is not None:
        from ottla.sources.wire.librdkafka_client import LibrdkafkaClient

        return LibrdkafkaClient(options.client, options.isolation, options.silence_ms, foreign)
    settings = parse_wire_settings(options.client)
    address = options.client["bootstrap.servers"]
    return OwnClient(address, settings, options.isolation, options.silence_ms)


def source_options(source: str) -> dict[str, str]:
    """The data source's option for a data directory or a broker's address, as a person writes it.

    A directory that is there is one, whatever it is called; of several the comma-separated paths
    are one log, as in Kafka's log.dirs. Raises `UserError` for anything else.
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
    source: str, topic: str, *, skip_damaged: bool = False, client: Mapping[str, str] | None = None
) -> ReadOptions:
    """How one topic is read from a data directory or a broker; raises `UserError`."""
    more = {"skipDamaged": "true"} if skip_damaged else {}
    return choice_options(source, {**more, "subscribe": topic}, client or {})


def choice_options(source: str, given: Mapping[str, str], client: Mapping[str, str]) -> ReadOptions:
    """How topics are read, chosen by options of the data source; raises `UserError`."""
    settings = {f"{CLIENT_PREFIX}{name}": value for name, value in client.items()}
    place = source_options(source)
    if settings and BOOTSTRAP_OPTION not in place:
        raise UserError(f"{source} is no broker's HOST:PORT; leave the settings of a client out")
    # A file of settings may name the brokers of its cluster; the source has been named here.
    settings.pop(BOOTSTRAP_OPTION, None)
    return parse_options({**settings, **place, **given})
