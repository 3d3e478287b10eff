"""The log of requests has those that the filter asks for."""

import re

import pytest

from ottla.base.errors import UserError
from ottla.server.dispatching.request_log import RequestAnswered, RequestFilter, parse_filter


def request(
    api: str = "Produce", client_id: str = "app-1", duration_ms: float = 3.0, errors: int = 0
) -> RequestAnswered:
    return RequestAnswered(
        api=api,
        version=9,
        client_id=client_id,
        host="10.0.0.7",
        correlation_id=5,
        duration_ms=duration_ms,
        request_size=200,
        response_size=50,
        errors={"NOT_LEADER_OR_FOLLOWER": errors} if errors else {},
    )


@pytest.mark.parametrize(
    ("text", "wanted", "unwanted"),
    [
        ("produce,offset_commit", request("OffsetCommit"), request("Fetch")),
        ("client=app-*", request(), request(client_id="other")),
        ("slower=2.5", request(), request(duration_ms=2.0)),
        ("errors", request(errors=1), request()),
        ("fetch,host=10.*,errors", request("Fetch", errors=1), request("Fetch")),
        ("ALL, errors", request("Fetch", errors=1), request("Fetch")),
    ],
)
def test_a_filter_lets_pass_what_it_names(
    text: str, wanted: RequestAnswered, unwanted: RequestAnswered
) -> None:
    assert parse_filter(text).wants(wanted)
    assert not parse_filter(text).wants(unwanted)


@pytest.mark.parametrize("text", ["", "all", " All ", ","])
def test_without_a_filter_all_are_logged(text: str) -> None:
    assert parse_filter(text) == RequestFilter()
    assert parse_filter(text).wants(request())


@pytest.mark.parametrize(
    "text", ["prodcue", "slower=fast", "slower=²", "slower=.", "all=1", "client="]
)
def test_a_filter_that_makes_no_sense_is_refused_with_the_grammar(text: str) -> None:
    with pytest.raises(
        UserError, match=f"{re.escape(text)} is not valid.*names of APIs, client=PATTERN"
    ):
        parse_filter(text)


def test_a_line_says_who_asked_what_how_long_it_took_and_what_went_wrong() -> None:
    assert request(errors=2).message == (
        "Produce v9 of app-1 on 10.0.0.7, correlation id 5: 3.00 ms, 200 bytes in, 50 out; "
        "NOT_LEADER_OR_FOLLOWER (2)"
    )
