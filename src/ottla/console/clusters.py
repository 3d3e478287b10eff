"""A console of several clusters: an overview, and below a path for each of them its own pages.

Clusters share the address, the token and the visitors' cookie; each has its own connections,
signed-in users and state, so that one that is not reached does not affect the others.
"""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, replace
from functools import partial

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp

from ottla.console.access import AccessPolicy
from ottla.console.app import STATIC, Console, Guard, Responses, Static
from ottla.console.pages import Fields, Page
from ottla.console.rendering import Renderer
from ottla.console.state import ConsoleState

ANSWER_S = 1.5
"""How long the overview waits for all clusters; those that answer later appear by themselves."""


def make_clusters_app(states: Sequence[ConsoleState], policy: AccessPolicy) -> ASGIApp:
    """Makes the application; each state has the name of its context."""
    clusters = _Clusters(states, policy)
    return Guard(clusters.app(), policy, clusters.denied)


class _Clusters(Responses):
    def __init__(self, states: Sequence[ConsoleState], policy: AccessPolicy) -> None:
        super().__init__(Renderer(replace(states[0], name="")), policy)
        self._states = states
        self._consoles = [Console(one, policy, self._rename) for one in states]

    def app(self) -> ASGIApp:
        mounts = [
            Mount(state.root, console.app())
            for state, console in zip(self._states, self._consoles, strict=True)
        ]
        return Starlette(
            routes=[
                Route("/", self._overview),
                Route("/look", self.choose_look, methods=["POST"]),
                Mount("/static", Static(directory=STATIC)),
                *mounts,
            ],
            exception_handlers={404: self._not_found},
            lifespan=self._open_until_the_end,
        )

    @asynccontextmanager
    async def _open_until_the_end(self, app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for one in self._consoles:
                await stack.enter_async_context(one.open_until_the_end(app))
            yield

    def _rename(self, visitor: str, new: str) -> None:
        for state in self._states:
            state.signed.rename(visitor, new)

    # Pages

    async def _overview(self, request: Request) -> Response:
        rows = await run_in_threadpool(self._rows, request.state.visitor)
        is_looking = any(row["is_looking"] for row in rows)
        page = Page(
            template="clusters.html",
            title="Clusters",
            data={"rows": rows},
            refresh_s=2 if is_looking else 10,
        )
        return self.shown(request, None, page)

    def _rows(self, visitor: str) -> list[Fields]:
        """A row for each cluster; all are asked at the same time."""
        now_ms = round(time.time() * 1000)
        end_s = time.monotonic() + ANSWER_S
        places = [one.place(visitor) for one in self._consoles]
        asked = [
            None if place is None else partial(state.summaries.findings, place, now_ms)
            for state, place in zip(self._states, places, strict=True)
        ]
        for ask in asked:
            if ask is not None:
                ask(0)
        found = [None if ask is None else ask(max(0.0, end_s - time.monotonic())) for ask in asked]
        return [
            {
                "name": state.name,
                "path": f"{state.root}/",
                "target": state.target.text,
                "user": "" if place is None else place.user,
                "needs_sign_in": place is None,
                "is_looking": one is not None and one.is_looking,
                "failure": "" if one is None else one.failure,
                "summary": None if one is None or one.found is None else asdict(one.found),
            }
            for state, place, one in zip(self._states, places, found, strict=True)
        ]

    async def _not_found(self, request: Request, error: Exception) -> Response:
        return self.error(request, 404, f"there is no page {request.url.path}")
