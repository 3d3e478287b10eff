"""Arguments for opening a log directory: identity, settings, chance, threads to work in."""

from collections.abc import Callable, Sequence
from dataclasses import field

from ottla.base.events import pass_over
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig


def run_in_turn(tasks: Sequence[Callable[[], object]]) -> None:
    for task in tasks:
        task()


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """What the caller passes in: identity for a new directory, settings, randomness, and a
    listener.

    `new_id` makes 16 random bytes; `random_below(n)` is a number from 0 to n - 1; `on_progress`
    gets a line for each step of a long start or stop; `run_all` carries out the loading or closing
    of all logs, which are independent, and returns or raises when the last is done;
    `is_replicated`: other brokers have a part in what of a log is committed.
    """

    now_ms: int
    node_id: int
    cluster_id: str
    new_id: Callable[[], Uuid]
    random_below: Callable[[int], int]
    topic_config: Callable[[str], TopicConfig]
    is_replicated: bool = False
    on_progress: Callable[[str], None] = field(default=pass_over)
    run_all: Callable[[Sequence[Callable[[], object]]], None] = field(default=run_in_turn)
