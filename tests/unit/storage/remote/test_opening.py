from pathlib import Path

import pytest

from ottla.base.errors import UserError
from ottla.storage.remote import opening
from ottla.storage.remote.aiven_layout import AivenTier
from ottla.storage.remote.local_layout import LocalTier
from ottla.storage.remote.opening import open_tier
from ottla.testing import FakeFileSystem
from tests.support.tiers import Style, aiven_key, aiven_objects, local_objects, put, uploaded

ONE = uploaded(100)
DASHES = uploaded(100, topic="orders-0")
"""Whose folder in Aiven's layout looks as a partition's in the other."""


@pytest.mark.parametrize("one", [ONE, DASHES], ids=["orders", "orders-0"])
@pytest.mark.parametrize("address", ["tier", "tier/kafka-tiered-storage", "."])
def test_a_tier_of_kafkas_tests_is_found_in_its_folder(
    address: str, one: type[ONE], tmp_path: Path
) -> None:
    put(tmp_path / "tier", local_objects(one))
    tier = open_tier(str(tmp_path / address))
    assert isinstance(tier, LocalTier)
    assert tier.read_log(one.metadata, 0, len(one.log)) == one.log


@pytest.mark.parametrize("one", [ONE, DASHES], ids=["orders", "orders-0"])
@pytest.mark.parametrize("prefix", ["", "tiers/", "a/b/", "pre/fix-", "pre-"])
def test_a_tier_of_the_plug_in_is_found_below_its_prefix(
    prefix: str, one: type[ONE], tmp_path: Path
) -> None:
    put(tmp_path / "tier", aiven_objects(one, Style(prefix=prefix)))
    for folder in (tmp_path, tmp_path / "tier", tmp_path / "tier" / prefix.rpartition("/")[0]):
        tier = open_tier(str(folder))
        assert isinstance(tier, AivenTier)
        assert tier.read_log(one.metadata, 0, len(one.log)) == one.log


def test_a_tier_is_found_when_a_manifest_is_missing(tmp_path: Path) -> None:
    put(tmp_path, aiven_objects(ONE, Style()))
    put(tmp_path, aiven_objects(uploaded(200), Style()))
    (tmp_path / f"{aiven_key(ONE)}.rsm-manifest").unlink()
    assert isinstance(open_tier(str(tmp_path)), AivenTier)
    for path in tmp_path.rglob("*.rsm-manifest"):
        path.write_bytes(b"damaged")
    assert isinstance(open_tier(str(tmp_path)), AivenTier)


def test_a_tier_whose_topics_were_all_deleted_is_empty(tmp_path: Path) -> None:
    (tmp_path / "kafka-tiered-storage" / "gone-0-AAAAAAAAAAAAAAAAAAAAAQ").mkdir(parents=True)
    assert list(open_tier(str(tmp_path)).segments()) == []


def test_an_address_without_a_tier_is_said_to_have_none(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "00000000000000000000.log").touch()
    for place in (tmp_path, tmp_path / "none"):
        with pytest.raises(UserError, match=rf"{place}: no tier lies here, .*rsm\.config"):
            open_tier(str(place))


def test_a_search_that_was_not_finished_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(opening, "LISTINGS", 3)
    for number in range(5):
        (tmp_path / f"{number}").mkdir()
    with pytest.raises(UserError, match=r"no tier lies here, .*the first 3 folders were searched"):
        open_tier(str(tmp_path))


def test_an_address_with_several_tiers_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        put(tmp_path / name, local_objects(ONE))
    with pytest.raises(UserError, match=r"several tiers lie here; name one of them: .*/a.* and "):
        open_tier(str(tmp_path))


def test_a_tier_may_lie_on_another_disk() -> None:
    disk = FakeFileSystem()
    for path, content in local_objects(ONE):
        place = f"/tier/{path}"
        disk.make_directory(place.rpartition("/")[0])
        disk.open(place, create=True).pwrite(content, 0)
    tier = open_tier("/tier", file_system=disk)
    assert [one.start_offset for one in tier.segments()] == [100]
