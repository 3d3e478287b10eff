"""Events that lower packages report: values that the caller logs, counts or ignores. An event is a
frozen dataclass; its fields are its data, its `message` is a sentence for people, and its class
name is its kind, so that the code that logs it need not know every class.
"""

import re
from collections.abc import Callable
from typing import Protocol


class Event(Protocol):
    @property
    def message(self) -> str: ...


OnEvent = Callable[[Event], None]


def pass_over(_: object) -> None:
    """A callback that ignores events, progress or remarks."""


def kind_of(event: Event) -> str:
    """`TopicCreated` is `topic_created`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(event).__name__).lower()
