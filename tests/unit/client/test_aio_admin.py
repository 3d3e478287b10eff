"""`ottla.aio.Admin`: what `ottla.Admin` does, for an event loop."""

import asyncio
import inspect
from pathlib import Path

import pytest

import ottla
import ottla.aio
from ottla.base.errors import UnknownNameError
from ottla.runtime.loops import BlockingCallError


def test_every_method_is_a_coroutine_of_the_same_name() -> None:
    names = [
        name
        for name, one in inspect.getmembers(ottla.Admin, inspect.isfunction)
        if not name.startswith("_") and name not in ("close", "unknown_topic")
    ]
    assert len(names) > 30
    for name in names:
        found = getattr(ottla.aio.Admin, name)
        assert inspect.iscoroutinefunction(found), name
        assert found.__doc__.replace("await ", "") == getattr(ottla.Admin, name).__doc__


def test_a_topic_is_made_and_listed_by_several_tasks_at_once(tmp_path: Path) -> None:
    async def administer(target: str | ottla.Log) -> list[str]:
        async with ottla.aio.Admin(target) as admin:
            await asyncio.gather(*(admin.create_topic(name) for name in ("a", "b")))
            with pytest.raises(UnknownNameError):
                await admin.delete_topics(["c"])
            return await admin.list_topics()

    with ottla.open(tmp_path) as log:
        assert asyncio.run(administer(log)) == ["a", "b"]
        log.delete_topic("a")
        log.delete_topic("b")
        assert asyncio.run(administer(log.listen("127.0.0.1:0").address)) == ["a", "b"]


def test_a_blocking_admin_in_a_loop_says_what_to_use(tmp_path: Path) -> None:
    async def administer() -> None:
        ottla.Admin(str(tmp_path))

    with pytest.raises(BlockingCallError, match=r"call ottla\.aio\.Admin"):
        asyncio.run(administer())
