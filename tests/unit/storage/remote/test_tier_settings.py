import pytest

from ottla.base.values import dataclass
from ottla.config.setting import SettingError, setting
from ottla.storage.remote.tier_settings import TierSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class Small:
    size: int = setting("size", "int", 3, "A size.")


def test_settings_are_read_and_errors_have_their_whole_name() -> None:
    assert TierSettings.of({"size": "7"}, "rsm.config.").read(Small()) == Small(size=7)
    for values, error in (({"size": "x"}, "size=x"), ({"sise": "1"}, r"sise: there is no such")):
        with pytest.raises(SettingError, match=rf"^rsm\.config\.{error}") as caught:
            TierSettings.of(values, "rsm.config.").read(Small())
        assert caught.value.name.startswith("rsm.config.si")


def test_those_of_a_part_are_taken_with_their_prefix() -> None:
    settings = TierSettings.of({"a.b": "1", "a.c": "2", "d": "3"}, "p.")
    taken = settings.take("a.", keeping=("a.c",))
    assert (taken.values, taken.prefix) == ({"b": "1"}, "p.a.")
    assert settings.values == {"a.c": "2", "d": "3"}
    assert settings.without(("a.", "x")).values == {"d": "3"}
    assert taken.texts(["b"]) == {"b": "1"}
    with pytest.raises(SettingError, match=r"p\.a\.c: is not set; add it"):
        taken.texts(["b", "c"])
