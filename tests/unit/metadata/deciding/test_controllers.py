"""Registrations of controllers."""

import pytest

from ottla.base.error_codes import ErrorCode
from ottla.base.errors import ApiError
from ottla.metadata.brokers import Endpoint
from ottla.metadata.deciding.controllers import (
    ControllerRegistrationRequest,
    register_controller,
    unregister_controller,
)
from ottla.metadata.levels import SUPPORTED
from tests.support.kraft_images import an_id, an_image, ranges, then

ENDPOINT = Endpoint(listener="C", host="h", port=9093, security_protocol="SASL_SSL")
REQUEST = ControllerRegistrationRequest(101, an_id(1), (ENDPOINT,), ranges())


def test_a_controller_is_registered_once() -> None:
    image = then(an_image(15), register_controller(an_image(15), REQUEST))
    known = image.controllers[101]
    (endpoint,) = known.end_points
    assert (known.incarnation_id, endpoint.host, endpoint.security_protocol) == (an_id(1), "h", 3)
    assert {one.name for one in known.features} == {*SUPPORTED}
    assert register_controller(image, REQUEST) == []
    again = REQUEST._replace(incarnation_id=an_id(2))
    assert then(image, register_controller(image, again)).controllers[101] != known


def test_before_3_7_controllers_do_not_register() -> None:
    with pytest.raises(ApiError) as refused:
        register_controller(an_image(14), REQUEST)
    assert refused.value.code is ErrorCode.UNSUPPORTED_VERSION


def test_a_controller_that_cannot_be_reached_is_refused() -> None:
    with pytest.raises(ApiError, match="No listeners") as refused:
        register_controller(an_image(15), REQUEST._replace(endpoints=()))
    assert refused.value.code is ErrorCode.INVALID_REGISTRATION


def test_a_controller_that_votes_no_more_is_forgotten() -> None:
    image = then(an_image(33), register_controller(an_image(33), REQUEST))
    gone = then(image, unregister_controller(image, {1, 2}, 101))
    assert gone.controllers == {}
    assert register_controller(gone, REQUEST), "one that runs comes again"


@pytest.mark.parametrize(
    ("level", "controller", "code", "text"),
    [
        (32, 1, ErrorCode.INVALID_REQUEST, "controller 1 because it is part of the voter set"),
        (33, 1, ErrorCode.INVALID_REQUEST, "controller 1 because it is part of the voter set"),
        (32, 101, ErrorCode.UNSUPPORTED_VERSION, "it is 32 .4.4-IV1., and 33 .4.4-IV2. is needed"),
        (33, 9, ErrorCode.CONTROLLER_ID_NOT_REGISTERED, "Controller ID 9 is not currently"),
        (33, -1, ErrorCode.CONTROLLER_ID_NOT_REGISTERED, "Controller ID -1 is not currently"),
    ],
)
def test_voters_stay_and_so_do_controllers_before_the_level_that_forgets_them(
    level: int, controller: int, code: ErrorCode, text: str
) -> None:
    image = then(an_image(level), register_controller(an_image(level), REQUEST))
    with pytest.raises(ApiError, match=text) as refused:
        unregister_controller(image, {1, 2}, controller)
    assert refused.value.code is code
