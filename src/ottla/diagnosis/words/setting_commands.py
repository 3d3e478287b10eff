"""Commands that change a setting, ready to be pasted."""

from ottla.base.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The topic whose settings are changed, and the target of the command."""

    topic: str
    target: str = "HOST:PORT"

    def command(self, change: str) -> str:
        return f"ottla configs set {self.target} {self.topic} {change}"
