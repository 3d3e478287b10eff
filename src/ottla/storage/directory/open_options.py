"""Arguments for opening a log directory: identity, settings, random numbers, parallel execution."""

from collections.abc import Callable, Sequence
from dataclasses import field

from ottla.base.events import pass_over
from ottla.base.ids import Uuid
from ottla.base.values import dataclass
from ottla.config.topic import TopicConfig


def run_in_turn(tasks: Sequence[Callable[[], object]]) -> None:
    for task in tasks:
        task()


class StartStep(str):
    """A line for people about a start, with what is left to recover of a directory, as numbers."""

    directory: str
    logs_left: int
    segments_left: int

    @classmethod
    def of(cls, text: str, directory: str, logs_left: int, segments_left: int) -> "StartStep":
        step = cls(text)
        step.directory = directory
        step.logs_left = logs_left
        step.segments_left = segments_left
        return step


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenOptions:
    """Options of `LogDirectory.open`.

    `node_id` and `cluster_id` are for a new directory. `new_id` returns 16 random bytes, and
    `random_below(n)` a number from 0 to n - 1. `on_progress` is called with a line for each step of
    a long start (a `StartStep`) or stop. `run_all` runs the tasks that load or close the logs,
    which are independent, and returns or raises once all are done. `knows_topic` says whether what
    `topic_config` returns is the topic's own, or stands for what is not known yet. `is_replicated`
    says that other brokers may hold replicas, so that log ends are not committed offsets;
    `is_in_zookeeper` that a new directory is one of a cluster with ZooKeeper.
    """

    now_ms: int
    node_id: int
    cluster_id: str
    new_id: Callable[[], Uuid]
    random_below: Callable[[int], int]
    topic_config: Callable[[str], TopicConfig]
    knows_topic: Callable[[str], bool] = field(default=lambda topic: True)
    is_replicated: bool = False
    is_in_zookeeper: bool = False
    on_progress: Callable[[str], None] = field(default=pass_over)
    run_all: Callable[[Sequence[Callable[[], object]]], None] = field(default=run_in_turn)
