"""The drawing of the house is true, and stays so over small changes."""

from dataclasses import replace

from docs.house import (
    DRAWING,
    PAGE,
    Room,
    drawing,
    floors,
    is_true,
    page_text,
    rooms_of_code,
    rooms_of_page,
    shown_arrows,
)


def room(name: str, *imports: str, lines: int = 4000, files: int = 40) -> Room:
    return Room(name=name, lines=lines, files=files, imports=frozenset(imports))


def test_the_page_shows_the_rooms_that_there_are() -> None:
    assert is_true(rooms_of_page(PAGE.read_text()), rooms_of_code()), "run `make docs`"


def test_the_drawing_shows_what_the_page_says() -> None:
    rooms = rooms_of_page(PAGE.read_text())
    assert page_text(rooms) == PAGE.read_text(), "run `make docs`"
    assert drawing(rooms) == DRAWING.read_text(), "run `make docs`"


def test_every_room_has_a_floor() -> None:
    code = rooms_of_code()
    assert {name for floor in floors(code) for name in floor} == code.keys()


def test_a_page_is_true_until_sizes_differ_by_a_quarter_or_an_import_does() -> None:
    drawn = {"broker": room("broker", "base"), "base": room("base", lines=100, files=1)}
    grown = {**drawn, "broker": replace(drawn["broker"], lines=4900, files=46)}
    doubled = {**drawn, "broker": replace(drawn["broker"], lines=8000)}
    linked = {**drawn, "base": replace(drawn["base"], imports=frozenset(["broker"]))}
    assert is_true(drawn, grown)
    assert not is_true(drawn, doubled)
    assert not is_true(drawn, linked)
    assert not is_true(drawn, {**drawn, "codec": room("codec")})


def test_an_arrow_that_follows_from_others_is_left_out() -> None:
    rooms = {
        "cli": room("cli", "broker", "base"),
        "broker": room("broker", "base"),
        "base": room("base"),
    }
    assert shown_arrows(rooms) == [("broker", "base"), ("cli", "broker")]
