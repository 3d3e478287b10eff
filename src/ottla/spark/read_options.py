"""The options of a read as Spark's own Kafka source takes them: what it ignores is ignored, with a
warning, and never an error.

Commands, whose options are their own, are strict (`ottla.sources.options.parse_options`).
"""

from collections.abc import Iterable, Mapping

from ottla.base.errors import nearest
from ottla.sources.client_options import CLIENT_PREFIX, is_ignored_or_refused, logger
from ottla.sources.options import OPTIONS, ReadOptions, given_options, parse_options

OF_STREAMS = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
"""Spark's own source ignores these in a batch, and warns."""

OF_BATCHES = ("endingTimestamp",)
"""Spark's own source ignores this in a stream; it refuses the other ends, as this one does."""


def batch_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a batch read; raises `UserError`."""
    return _parse(given, OF_STREAMS, "a batch")


def stream_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a stream; raises `UserError`."""
    return _parse(given, OF_BATCHES, "a stream")


def schema_options(given: Mapping[str, str]) -> ReadOptions:
    """The options where it is unknown which of the two they are for; raises `UserError`."""
    return _parse(given, (), "")


def _parse(given: Mapping[str, str], ignored: Iterable[str], here: str) -> ReadOptions:
    options = given_options(given)
    for name in ignored:
        if options.pop(name.lower(), None) is not None:
            logger.warning("option %s has no effect in %s", name, here)
    if "groupidprefix" in options and f"{CLIENT_PREFIX}group.id" in options:
        logger.warning("option groupIdPrefix has no effect beside kafka.group.id")
    for name in sorted(options):
        if not _is_known(name):
            del options[name]
            logger.warning("option %s is unknown, and has no effect%s", name, _hint(name))
    return parse_options(options)


def _is_known(name: str) -> bool:
    if name.startswith(CLIENT_PREFIX):
        return _is_known_setting(name.removeprefix(CLIENT_PREFIX))
    return name in {one.lower() for one in OPTIONS}


def _is_known_setting(name: str) -> bool:
    # Imported here, because reading files does not need the wire protocol.
    from ottla.sources.wire.wire_settings import SETTINGS

    return is_ignored_or_refused(name) or name in {*SETTINGS, "isolation.level"}


def _hint(name: str) -> str:
    known = {one.lower(): one for one in OPTIONS}
    found = nearest(name, known)
    return f"; did you mean {known[found[0]]}?" if found else ""
