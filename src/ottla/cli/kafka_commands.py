"""Commands of Kafka's own tools, as a person may paste them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a topic's settings are changed."""

    topic: str
    bootstrap: str = "HOST:PORT"

    def command(self, change: str) -> str:
        return (
            f"kafka-configs --bootstrap-server {self.bootstrap} --alter --entity-type topics "
            f"--entity-name {self.topic} --add-config {change}"
        )
