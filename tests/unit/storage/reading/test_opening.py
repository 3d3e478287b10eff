"""Directories are opened with their tier, or without one."""

from pathlib import Path

import pytest

from ottla.base.errors import UserError
from ottla.storage.reading.opening import TierPlace, open_directories
from tests.support.tiered import TieredPlace, uploaded


def test_without_a_tier_a_log_is_what_its_files_hold(tmp_path: Path) -> None:
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    (plain,) = open_directories([str(one.data)])
    (tiered,) = open_directories([str(one.data)], tier=one.place)
    assert plain.partition("orders", 0).segments[0].base_offset == 10
    assert tiered.partition("orders", 0).segments[0].base_offset == 0


@pytest.mark.parametrize("is_there", [True, False])
def test_a_place_without_a_tier_is_refused(tmp_path: Path, is_there: bool) -> None:
    one = TieredPlace(tmp_path, [uploaded(1, 0, 9)], (10, 15))
    elsewhere = tmp_path / "elsewhere"
    if is_there:
        elsewhere.mkdir()
    with pytest.raises(UserError, match="elsewhere"):
        open_directories([str(one.data)], tier=TierPlace(address=str(elsewhere)))
