"""Commands that change a setting, as a person may paste them."""

from ottla.base.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a topic's settings are changed."""

    topic: str
    target: str = "HOST:PORT"

    def command(self, change: str) -> str:
        return f"ottla configs set {self.target} {self.topic} {change}"
