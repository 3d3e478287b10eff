"""Settings below a prefix, as `rsm.config.*`: errors name them as the file does."""

from collections.abc import Iterable, Mapping
from typing import TypeVar

from ottla.base.values import dataclass
from ottla.config.setting import SettingError, with_values

Config = TypeVar("Config")


@dataclass(slots=True)
class TierSettings:
    """Texts by their names without `prefix`."""

    values: dict[str, str]
    prefix: str

    @classmethod
    def of(cls, values: Mapping[str, str], prefix: str) -> "TierSettings":
        return cls(dict(values), prefix)

    def shown(self, name: str) -> str:
        return self.prefix + name

    def error(self, name: str, text: str) -> SettingError:
        message = f"{self.shown(name)}: {text}"
        return SettingError(self.shown(name), message, message)

    def required(self, name: str, text: str) -> str:
        if not text:
            raise self.error(name, "is not set; add it to the settings of the broker")
        return text

    def read(self, config: Config) -> Config:
        """All of them parsed; raises `SettingError`, also for unknown ones."""
        try:
            return with_values(config, self.values, "broker")
        except SettingError as error:
            message = f"{self.prefix}{error}"
            raise SettingError(self.shown(error.name), message, message) from error

    def texts(self, names: Iterable[str]) -> dict[str, str]:
        """Those of these names, all of which must be set."""
        return {name: self.required(name, self.values.get(name, "")) for name in names}

    def take(self, prefix: str, keeping: Iterable[str] = ()) -> "TierSettings":
        """Removes those with a prefix, and returns them without it."""
        names = [one for one in self.values if one.startswith(prefix) and one not in keeping]
        taken = {one.removeprefix(prefix): self.values.pop(one) for one in names}
        return TierSettings(taken, self.prefix + prefix)

    def without(self, beginnings: tuple[str, ...]) -> "TierSettings":
        """Without those whose names begin so."""
        kept = {name: text for name, text in self.values.items() if not name.startswith(beginnings)}
        return TierSettings(kept, self.prefix)
