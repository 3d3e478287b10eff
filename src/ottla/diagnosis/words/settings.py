"""Text about settings: the origin of a value, the allowed values, and how long records are kept."""

from collections.abc import Mapping

from ottla.base.texts import limit_text
from ottla.config.setting import Setting

ORIGINS = {
    "OF_THE_RESOURCE": "its own",
    "OF_THE_GROUP": "its own",
    "OF_THE_BROKER": "this broker",
    "OF_ALL_BROKERS": "all brokers",
    "OF_THE_FILE": "given at start",
    "DEFAULT": "default",
}
"""The text for each name of `ConfigOrigin`."""


def origin_text(origin: str) -> str:
    return ORIGINS.get(origin, "unknown")


def bounds_text(row: Setting) -> str:
    """The allowed values of a setting; empty if all are allowed."""
    if row.one_of is not None:
        return ", ".join(one or "empty" for one in row.one_of)
    parts = []
    if row.at_least is not None:
        parts.append(f"at least {row.at_least}")
    if row.at_most is not None:
        parts.append(f"at most {row.at_most}")
    return ", ".join(parts)


def retention_text(settings: Mapping[str, str]) -> str:
    """How long records are kept: `7 d`, `1.0 GiB`, `7 d or 1.0 GiB`, `compact` or `compact, 7 d`.

    `settings` are empty if the user may not see them.
    """
    if not settings:
        return "not shown"
    policy = settings.get("cleanup.policy", "delete")
    parts = ["compact"] if "compact" in policy else []
    if "delete" in policy:
        limits = [
            limit_text(int(settings[name]), is_size=name.endswith("bytes"))
            for name in ("retention.ms", "retention.bytes")
            if int(settings.get(name, -1)) >= 0
        ]
        parts.append(" or ".join(limits) or "no limit")
    return ", ".join(parts)
