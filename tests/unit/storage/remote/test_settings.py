from pathlib import Path

import pytest

from ottla.config.setting import SettingError
from ottla.storage.remote.settings import LOCAL_CLASS, remote_storage_of
from tests.support.copying import files_of
from tests.support.tier_readers import files_below
from tests.support.tiers import local_objects, uploaded

ONE = uploaded(100, with_aborts=True)


def test_kafkas_local_tier_is_written_and_read_where_its_settings_say(tmp_path: Path) -> None:
    tier = remote_storage_of(LOCAL_CLASS, {"dir": str(tmp_path / "tier")})
    assert list(tier.segments()) == []
    assert tier.copy_segment(ONE.metadata, files_of(ONE, str(tmp_path / "data"))) is None
    assert files_below(tmp_path / "tier") == dict(local_objects(ONE))
    assert tier.read_log(ONE.metadata, 0, len(ONE.log)) == ONE.log
    tier.delete_segment(ONE.metadata)
    assert files_below(tmp_path / "tier") == {}
    tier.delete_segment(ONE.metadata)


def test_objects_stay_where_deleting_is_disabled(tmp_path: Path) -> None:
    settings = {"dir": str(tmp_path / "tier"), "delete.enable": "false"}
    tier = remote_storage_of(LOCAL_CLASS, settings)
    tier.copy_segment(ONE.metadata, files_of(ONE, str(tmp_path / "data")))
    tier.delete_segment(ONE.metadata)
    assert files_below(tmp_path / "tier") == dict(local_objects(ONE))


@pytest.mark.parametrize(
    ("class_name", "settings", "error"),
    [
        (None, {}, r"remote\.log\.storage\.manager\.class\.name is not set; set it to org\."),
        ("com.acme.Tier", {}, r"name=com\.acme\.Tier: Ottla has no such tier; set it to"),
        (LOCAL_CLASS, {}, r"rsm\.config\.dir: is not set; add it"),
        (LOCAL_CLASS, {"dri": "x"}, r"rsm\.config\.dri: there is no such setting"),
        (LOCAL_CLASS, {"dir": "x", "delete.enable": "x"}, r"rsm\.config\.delete\.enable=x: must"),
        (
            LOCAL_CLASS,
            {"dir": "x", "delete.on.close": "true"},
            r"on\.close: true would .*; remove it",
        ),
    ],
)
def test_settings_of_no_tier_are_refused_by_name(
    class_name: str | None, settings: dict[str, str], error: str
) -> None:
    with pytest.raises(SettingError, match=error):
        remote_storage_of(class_name, settings)
