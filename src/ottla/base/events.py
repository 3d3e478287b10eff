"""Events that lower packages report: values, which the caller logs, counts or ignores. An event is
a frozen dataclass whose fields are its facts and whose `message` is a sentence for people. Its kind
is the name of its class, so that a shell need not know each of them.
"""

import re
from collections.abc import Callable
from typing import Protocol


class Event(Protocol):
    @property
    def message(self) -> str: ...


OnEvent = Callable[[Event], None]


def pass_over(_: object) -> None:
    """For a caller that has no use for events, progress or remarks."""


def kind_of(event: Event) -> str:
    """`TopicCreated` is `topic_created`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
