"""What `import ottla` gives: every public name, found by completion and by `help`."""

import pydoc

import pytest

import ottla


def test_a_public_name_is_there_with_a_text_that_explains_it() -> None:
    for name in ottla.__all__:
        assert name in dir(ottla)
        assert (getattr(ottla, name).__doc__ or "").strip(), name


@pytest.mark.slow
def test_help_shows_the_classes_and_functions_that_applications_use() -> None:
    page = pydoc.plain(pydoc.render_doc(ottla))
    for name in ("class Consumer", "class Producer", "class Log", "class Admin", "open("):
        assert name in page


def test_completion_offers_public_names_alone() -> None:
    offered = {one for one in dir(ottla) if not one.startswith("_")}
    assert offered == {*ottla.__all__, "aio", "table", "testing"}
