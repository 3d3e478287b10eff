"""Names of topics and groups for shell completion: nothing rather than an error or a wait.

A broker has half a second to answer. For a directory that no broker serves, topics are listed from
its files, without opening or locking a log.
"""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from ottla.cli.terminal import deadline

if TYPE_CHECKING:
    from ottla.cli.target import Target

PATIENCE_S = 0.5

Names = Callable[["Target"], Iterable[str]]


def complete_topics(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _completed(ctx, param, incomplete, _topics)


def complete_groups(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return _completed(ctx, param, incomplete, _groups)


def _completed(
    ctx: click.Context, param: click.Parameter, incomplete: str, names: Names
) -> list[str]:
    from ottla.cli.target import completed_target

    given: Any = ctx.params.get(param.name or "") or ()
    taken = {given} if isinstance(given, str) else set(given)
    # A deadline interrupts as Ctrl-C does.
    with suppress(Exception, KeyboardInterrupt), deadline(PATIENCE_S):
        target = completed_target(ctx)
        if target is not None:
            return sorted(
                one for one in names(target) if one.startswith(incomplete) and one not in taken
            )
    return []


def _topics(target: "Target") -> Iterable[str]:
    if _is_at_rest(target):
        from ottla.storage.reading.read_only_directory import open_for_reading

        return {name for one in target.directories for name in open_for_reading(one).topics()}
    with target.admin() as admin:
        return [one.name for one in admin.describe_topics()]


def _groups(target: "Target") -> Iterable[str]:
    if _is_at_rest(target):
        return ()
    with target.admin() as admin:
        return [one.group for one in admin.list_groups()]


def _is_at_rest(target: "Target") -> bool:
    """Whether it is a directory that no broker serves."""
    from ottla.base.files import OsFileSystem
    from ottla.storage.directory.owner_note import owner_of

    if not target.is_directory:
        return False
    owner = owner_of(OsFileSystem(), os.fspath(target.directories[0]))
    return owner is None or not owner.addresses
