"""The console as an ASGI application: routes, checks before them, and pages as HTML or JSON."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from anyio import CancelScope
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ottla.base.errors import (
    ApiError,
    CorruptionError,
    OttlaError,
    UnknownNameError,
    UnreachableError,
    UserError,
)
from ottla.base.patterns import lazy_pattern
from ottla.client.connecting.cluster import PASSING
from ottla.client.connecting.connection import ADDRESS_HINT
from ottla.client.connecting.security import AuthenticationError
from ottla.client.connecting.signing_in import sign_in
from ottla.client.refusals import DENIALS, RefusedError
from ottla.console import access
from ottla.console.access import AccessPolicy, Asked, Denied
from ottla.console.events import EventStream, OpenStreams, SerialStream, give_precedence
from ottla.console.pages import Ask, Page, QueryError, Redirect, to_json
from ottla.console.rendering import Renderer
from ottla.console.state import ConsoleState
from ottla.console.targets import ConsoleTarget, NoBrokerError, Place
from ottla.console.views import VIEWS, View
from ottla.console.views.streams import STREAMS, Stream

logger = logging.getLogger(__name__)

FORM_SIZE = 4 << 20
MOST_STREAMS = 100
"""The maximum number of streams. Each needs a thread for its steps, separate from the pages'
threads.
"""
MOST_STREAMS_OF_VISITOR = 8
"""More than a browser opens to one console over HTTP/1.1."""

FAILED = "this page failed; the console's log says more"
READ_ONLY = "this console is read-only: it was started with --read-only"
TOO_MANY = (
    f"Ended, because you have opened more than {MOST_STREAMS_OF_VISITOR} live pages. "
    "Close some, then load this page again."
)
NO_ROOM = (
    f"{MOST_STREAMS} live pages of this console are open, which is the maximum; "
    "close one, then load this page again"
)

_LINE_END = lazy_pattern(r"\r\n|\r|\n")
FORMATS = ("", "html", "json")
TITLES = {
    400: "Not understood",
    401: "Token needed",
    403: "Not allowed",
    404: "Not found",
    429: "No room",
    502: "Broker not reached",
    503: "Not at present",
}

STATIC = Path(__file__).parent / "static"


def make_app(state: ConsoleState, policy: AccessPolicy) -> ASGIApp:
    """Makes the application; `state.target` is what it shows."""
    console = Console(state, policy)
    return Guard(console.app(console.open_until_the_end), policy, console.denied)


class Responses:
    """Pages as responses: HTML, or JSON if the request wants it."""

    def __init__(self, renderer: Renderer, policy: AccessPolicy) -> None:
        self._renderer = renderer
        self._policy = policy

    def shown(self, request: Request, place: Place | None, page: Page) -> Response:
        if _wants_json(request):
            return Response(
                to_json(page.data), page.status, media_type="application/json; charset=utf-8"
            )
        html = self._renderer.page(
            page,
            place=place,
            path=request.url.path,
            query=list(request.query_params.multi_items()),
            form_token=access.form_token(self._policy, request.state.visitor),
            look=access.look_of(request.cookies),
        )
        return Response(html, page.status, media_type="text/html; charset=utf-8")

    def error(
        self, request: Request, status: int, reason: str, place: Place | None = None
    ) -> Response:
        """An error page. Without a place, for visitors without access, it contains no names or
        links.
        """
        title = TITLES.get(status, "Failed")
        data = {"error": reason, "status": status}
        page = Page(template="error.html", title=title, data=data, status=status)
        if not hasattr(request.state, "visitor"):
            request.state.visitor = ""
        return self.shown(request, place, page)

    def denied(self, request: Request, denied: Denied) -> Response:
        return self.error(request, denied.status, denied.reason)

    def check_form(self, request: Request, form: Mapping[str, str]) -> Denied | None:
        """Checks the form's token; programs with the console's token in a header need none."""
        if request.state.has_bearer:
            return None
        given = form.get(access.FORM_TOKEN_FIELD, "")
        if access.is_form_token(self._policy, request.state.visitor, given):
            return None
        return Denied(status=403, reason="the form is too old: load its page again, then send it")

    async def choose_look(self, request: Request) -> Response:
        """Light, dark, or as the system has it: in a cookie, so that the first paint is right."""
        form = await _form(request)
        denied = self.check_form(request, form)
        if denied is not None:
            return self.denied(request, denied)
        response = _redirected(form.get("next", "/"))
        response.headers["set-cookie"] = access.look_cookie(form.get("look", ""))
        return response


class Console(Responses):
    """Converts requests to `Ask` for a view, and the view's results to responses.

    `renamed` is called with a visitor's former and new id after signing in.
    """

    def __init__(
        self,
        state: ConsoleState,
        policy: AccessPolicy,
        renamed: Callable[[str, str], None] = lambda visitor, new: None,
    ) -> None:
        self._renamed = renamed
        super().__init__(Renderer(state), policy)
        self._state = state
        self._shared = Place(state.target, state.target.settings)
        self._stream_threads = ThreadPoolExecutor(
            MOST_STREAMS, "stream", initializer=give_precedence
        )
        self._streams = OpenStreams(most_of_visitor=MOST_STREAMS_OF_VISITOR, most=MOST_STREAMS)

    def app(self, lifespan: Any = None) -> ASGIApp:
        """The pages, without the checks of `Guard`."""
        routes: list[Any] = [
            Route("/sign-in", self._sign_in, methods=["GET", "POST"]),
            Route("/sign-out", self._sign_out, methods=["POST"]),
            Route("/look", self.choose_look, methods=["POST"]),
            Mount("/static", Static(directory=STATIC)),
        ]
        for path, view in VIEWS.items():
            methods = ["GET", "POST"] if view.takes_forms else ["GET"]
            routes.append(Route(path, self._endpoint(view), methods=methods))
        for path, stream in STREAMS.items():
            routes.append(Route(path, self._events(stream)))
        handlers: Any = {404: self._not_found}
        return Starlette(routes=routes, exception_handlers=handlers, lifespan=lifespan)

    @asynccontextmanager
    async def open_until_the_end(self, app: Starlette) -> AsyncIterator[None]:
        try:
            yield
        finally:
            self._state.stopping.set()
            self._stream_threads.shutdown(wait=False)
            await run_in_threadpool(self._state.runs.close)
            self._shared.close()
            self._state.signed.close()

    # Pages

    def _endpoint(self, view: View) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            place = self.place(request.state.visitor)
            if place is None:
                return self._to_sign_in(request)
            form = None
            if request.method == "POST":
                form = _as_written(await _form(request), request.query_params)
                denied = self.check_form(request, form)
                if denied is None and self._state.is_read_only and view.changes:
                    denied = Denied(status=403, reason=READ_ONLY)
                if denied is not None:
                    return self.error(request, denied.status, denied.reason, place)
            ask = self._ask(request, place, form)
            return await run_in_threadpool(self._answer, request, view, ask)

        return endpoint

    def _ask(self, request: Request, place: Place, form: Mapping[str, str] | None) -> Ask:
        client = request.client
        visitor = "token" if request.state.has_bearer else request.state.visitor
        return Ask(
            place=place,
            state=self._state,
            now_ms=self._state.now_ms(),
            visitor=visitor,
            address="" if client is None else client.host,
            path=request.path_params,
            query=dict(request.query_params),
            form=form,
        )

    def _answer(self, request: Request, view: View, ask: Ask) -> Response:
        try:
            ask.choice("format", FORMATS)
            found = view.show(ask)
        except QueryError as error:
            return self._wrong_query(request, error, ask.place)
        except AuthenticationError as error:
            if ask.place.user and self._state.target.has_sign_in:
                self._state.signed.sign_out(request.state.visitor)
                return self._to_sign_in(request)
            return self.error(request, 502, str(error), ask.place)
        except (OttlaError, OSError) as error:
            return self.error(request, _status_of(error), _text_of(error), ask.place)
        except Exception:
            logger.exception("%s", request.url.path)
            return self.error(request, 500, FAILED, ask.place)
        if isinstance(found, Response):
            return found
        if isinstance(found, Redirect):
            return self._redirect(request, found)
        return self.shown(request, ask.place, found)

    def _redirect(self, request: Request, found: Redirect) -> Response:
        if _wants_json(request):
            data = {"done": found.done, "page": self._state.root + found.path}
            return Response(to_json(data), media_type="application/json; charset=utf-8")
        mark = "&" if "?" in found.path else "?"
        done = f"{mark}{urlencode({'done': found.done})}" if found.done else ""
        return _redirected(self._state.root + found.path + done)

    def _wrong_query(self, request: Request, error: QueryError, place: Place) -> Response:
        """The address's parameters in a form, as they were written, to correct the wrong one."""
        data = {
            "error": str(error),
            "status": 400,
            "parameter": error.name,
            "allowed": error.allowed,
            "parameters": [
                {"name": name, "value": value}
                for name, value in request.query_params.multi_items()
                if name not in ("done", "form_token")
            ],
        }
        page = Page(template="query.html", title=TITLES[400], data=data, status=400)
        return self.shown(request, place, page)

    async def _not_found(self, request: Request, error: Exception) -> Response:
        reason = f"there is no page {request.url.path}"
        return self.error(request, 404, reason, self.place(request.state.visitor))

    # Streams

    def _events(self, stream: Stream) -> Callable[[Request], Any]:
        async def endpoint(request: Request) -> Response:
            place = self.place(request.state.visitor)
            if place is None:
                return self._no_stream(request, 401, "sign in first")
            visitor = request.state.visitor
            name = self._streams.begin(visitor)
            if name is None:
                return self._no_stream(request, 429, NO_ROOM)
            is_streamed = False
            try:
                ask = self._ask(request, place, None)
                events = SerialStream(await run_in_threadpool(stream, ask))
                is_streamed = True
            except UnreachableError as error:
                # A browser does not retry a rejected stream, but retries one that ends.
                lost = self._renderer.event("lost", _text_of(error))
                return Response(lost, media_type="text/event-stream")
            except (OttlaError, OSError) as error:
                return self._no_stream(request, _status_of(error), _text_of(error))
            except Exception:
                logger.exception("%s", request.url.path)
                return self._no_stream(request, 500, FAILED)
            finally:
                if not is_streamed:
                    self._streams.end(visitor, name)

            async def close() -> None:
                self._streams.end(visitor, name)
                await run_in_threadpool(events.close)

            return _StreamResponse(
                self._written(request, events, lambda: self._streams.has(visitor, name)), close
            )

        return endpoint

    def _no_stream(self, request: Request, status: int, reason: str) -> Response:
        """Why a stream does not begin: as an event for a browser, which hides from a page what a
        status other than 200 has to say.
        """
        if "text/event-stream" not in request.headers.get("accept", ""):
            return self.error(request, status, reason)
        failed = self._renderer.event("failed", reason)
        return Response(failed, media_type="text/event-stream")

    async def _written(
        self, request: Request, events: EventStream, may_continue: Callable[[], bool]
    ) -> AsyncIterator[bytes]:
        """Yields events until the stream ends, the browser disconnects, or the console stops."""
        loop = asyncio.get_running_loop()
        while not self._state.stopping.is_set():
            try:
                # Complete the step even if the browser disconnects, so that the stream can then be
                # closed.
                with CancelScope(shield=True):
                    found = await loop.run_in_executor(self._stream_threads, events.step)
            except (OttlaError, OSError) as error:
                event = "lost" if isinstance(error, UnreachableError) else "failed"
                yield self._renderer.event(event, _text_of(error))
                return
            except Exception:
                logger.exception("%s", request.url.path)
                yield self._renderer.event("failed", FAILED)
                return
            if found is None:
                yield self._renderer.event("end", "")
                return
            for one in found:
                yield self._renderer.fragment(one)
            if not may_continue():
                yield self._renderer.event("failed", TOO_MANY)
                return
            if await request.is_disconnected():
                return

    # Signing in

    def place(self, visitor: str) -> Place | None:
        """The place of a visitor; `None` if the visitor must sign in."""
        if not self._state.target.has_sign_in:
            return self._shared
        return self._state.signed.find(visitor)

    def _to_sign_in(self, request: Request) -> Response:
        if _wants_json(request):
            return self.error(request, 401, f"sign in first, at {self._state.root}/sign-in")
        back = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return _redirected(f"{self._state.root}/sign-in?next={quote(back, safe='')}")

    async def _sign_in(self, request: Request) -> Response:
        target: ConsoleTarget = self._state.target
        if not target.has_sign_in:
            return _redirected(f"{self._state.root}/")
        back = own_path(request.query_params.get("next", f"{self._state.root}/"))
        failure = ""
        if request.method == "POST":
            form = await _form(request)
            denied = self.check_form(request, form)
            if denied is not None:
                return self.error(request, denied.status, denied.reason)
            try:
                place = await run_in_threadpool(_place_of, target, form)
            except UserError as error:
                failure = str(error)
            else:
                # A new visitor id, so that one set by an attacker is worthless (session fixation).
                visitor = access.new_visitor()
                self._state.signed.sign_in(visitor, place)
                self._renamed(request.state.visitor, visitor)
                response: Response = _redirected(back)
                response.headers["set-cookie"] = access.cookie_header(self._policy, visitor)
                return response
        data = {"next": back, "failure": failure, "target": target.text}
        page = Page(
            template="sign_in.html", title="Sign in", data=data, status=403 if failure else 200
        )
        return self.shown(request, None, page)

    async def _sign_out(self, request: Request) -> Response:
        denied = self.check_form(request, await _form(request))
        if denied is not None:
            return self.error(request, denied.status, denied.reason)
        await run_in_threadpool(self._state.signed.sign_out, request.state.visitor)
        return _redirected(f"{self._state.root}/sign-in")


class Guard:
    """Checks every request first, and adds `access.HEADERS` to every response."""

    def __init__(
        self,
        app: ASGIApp,
        policy: AccessPolicy,
        deny: Callable[[Request, Denied], Response],
    ) -> None:
        self._app = app
        self._policy = policy
        self._deny = deny

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        headers = dict(request.headers)
        asked = Asked(
            method=request.method,
            path=request.url.path,
            query=request.url.query,
            headers=headers,
        )
        visitor = access.visitor_of(self._policy, headers)
        is_new = visitor is None
        request.state.visitor = visitor or access.new_visitor()
        request.state.has_bearer = self._has_bearer(headers)
        response = await self._refused(request, asked, is_new=is_new)
        if response is None and is_new and not self._policy.token:
            cookie: str | None = access.cookie_header(self._policy, request.state.visitor)
        else:
            cookie = None
        await (response or self._app)(scope, receive, _with_headers(send, cookie))

    def _has_bearer(self, headers: Mapping[str, str]) -> bool:
        given = access.bearer_of(headers)
        return bool(self._policy.token and given) and access.is_token(self._policy, given)

    async def _refused(self, request: Request, asked: Asked, *, is_new: bool) -> Response | None:
        """Returns `None` to admit a request; a request with the token in a link gets a cookie."""
        denied = access.check_origin(self._policy, asked)
        if denied is not None:
            return self._deny(request, denied)
        if not self._policy.token:
            return None
        token, link = access.without_token(asked)
        if asked.path == "/token" and asked.method == "POST":
            form = await _form(request)
            token, link = form.get(access.TOKEN_FIELD, ""), form.get("next", "/")
        if token:
            if not access.is_token(self._policy, token):
                return self._deny(request, Denied(status=403, reason="the token is wrong"))
            response = _redirected(link)
            cookie = access.cookie_header(self._policy, request.state.visitor)
            response.headers["set-cookie"] = cookie
            return response
        if is_new and not request.state.has_bearer and not asked.path.startswith("/static/"):
            reason = "the console's token is needed; ottla console printed it in the link"
            return self._deny(request, Denied(status=401, reason=reason))
        return None


def _with_headers(send: Send, cookie: str | None) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", []))
            there = {name.lower() for name, _ in headers}
            for name, value in access.HEADERS.items():
                if name.lower().encode() not in there:
                    headers.append((name.lower().encode(), value.encode()))
            if cookie is not None and b"set-cookie" not in there:
                headers.append((b"set-cookie", cookie.encode()))
            message["headers"] = headers
        await send(message)

    return with_headers


class _StreamResponse(StreamingResponse):
    """A stream of events, which is closed however the response ends."""

    def __init__(self, content: AsyncIterator[bytes], close: Callable[[], Any]) -> None:
        super().__init__(
            content, media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )
        self._close = close

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            # A disconnect cancels this task, perhaps before the first event.
            with CancelScope(shield=True):
                await self._close()


class Static(StaticFiles):
    """Styles and scripts, which do not change while the process runs."""

    def file_response(self, *args: Any, **more: Any) -> Response:
        response = super().file_response(*args, **more)
        response.headers["cache-control"] = "no-cache"
        return response


async def _form(request: Request) -> dict[str, str]:
    """The fields of a form; empty if it is too large."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_SIZE:
            return {}
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def _as_written(form: Mapping[str, str], query: Mapping[str, str]) -> dict[str, str]:
    """The form, with names as its page's address has them: a browser sends each end of a line in a
    form as CR LF.
    """

    def written(name: str, text: str) -> str:
        asked = query.get(name, "")
        return asked if asked != text and _LINE_END.sub("\r\n", asked) == text else text

    return {name: written(name, text) for name, text in form.items()}


def _place_of(target: ConsoleTarget, form: Mapping[str, str]) -> Place:
    """Signs in as a user of the broker; raises `UserError` for a wrong name or password."""
    name, password = form.get("username", ""), form.get("password", "")
    return Place(target, sign_in(target.addresses(), target.settings, name, password))


def _redirected(path: str) -> Response:
    """Every redirect of the console: to a path of its own, also where a request named `//host/`."""
    return RedirectResponse(own_path(path), status_code=303)


def own_path(text: str) -> str:
    """The path if it is one of this console, or else `/`: links must not lead to other sites."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\"))
    # Browsers ignore control characters, so a slash, a tab and a slash are read as //.
    return text if is_own and text.isprintable() else "/"


def _wants_json(request: Request) -> bool:
    if request.query_params.get("format") == "json":
        return True
    return "application/json" in request.headers.get("accept", "")


def _status_of(error: Exception) -> int:
    match error:
        case UnknownNameError():
            return 404
        case RefusedError() if error.code in DENIALS:
            return 403
        case ApiError() if error.code in DENIALS:
            return 403
        case RefusedError() | ApiError() if error.code in PASSING:
            return 503
        case NoBrokerError():
            return 409
        case UnreachableError():
            return 502
        case CorruptionError() | OSError():
            return 500
        case _:
            return 400


def _text_of(error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or 'a file'}: {error.strerror or error}"
    if isinstance(error, UnreachableError):
        # The visitor did not choose the address, so the hint does not help.
        return str(error).removesuffix(ADDRESS_HINT)
    return str(error) or type(error).__name__
