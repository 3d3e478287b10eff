"""The options that the commands of `ottla explain` share."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import click

from ottla.base.errors import UserError
from ottla.cli.completion.names import complete_topics
from ottla.cli.losses import Losses
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import broker_config_option, parse_setting, read_server_properties
from ottla.cli.target import Target, target_argument
from ottla.cli.terminal import with_options
from ottla.diagnosis.words.setting_commands import Setting

if TYPE_CHECKING:
    from ottla.client.administration.admin import Admin
    from ottla.diagnosis.directories import Directories
    from ottla.storage.reading.read_only_log import ReadOnlyLog

explain_options = with_options(
    target_argument(directories=True),
    click.argument("topic", metavar="TOPIC", shell_complete=complete_topics),
    click.option("--partition", "-p", type=int, help="Partition to read; all by default."),
    broker_config_option,
    click.option(
        "-o",
        "settings",
        multiple=True,
        metavar="KEY=VALUE",
        help="Value to assume for a setting of the topic.",
    ),
    click.option("--at", "at_text", metavar="TIME", help="Time to assume: UTC, or milliseconds."),
    click.option("--all", "show_all", is_flag=True, help="Show every segment."),
    output_options("Print one line per partition."),
)


class ExplainOptions:
    """The options of every explanation."""

    def __init__(
        self,
        *,
        target: Target,
        partition: int | None,
        config_file: str | None,
        settings: tuple[str, ...],
        output: Output,
        **more: object,
    ) -> None:
        from ottla.base.clock import SystemClock

        self.target = target
        self.partition = partition
        self.config_file = config_file
        self.given = dict(parse_setting(text, "retention.ms=3600000") for text in settings)
        at_text = more["at_text"]
        self.now_ms = SystemClock().now_ms() if at_text is None else _time(str(at_text))
        self.show_all = bool(more["show_all"])
        self.output = output
        self.losses = Losses()

    def explain(
        self,
        topic: str,
        show: "Callable[[Directories, Setting], None]",
        show_remote: "Callable[[Admin], None]",
    ) -> None:
        """Explains a topic from its directories, or from a broker that may be on another
        machine.
        """
        setting = Setting(topic=topic, target=self.target.pasted)
        if self.target.is_directory:
            show(self.read(), setting)
            return
        from ottla.client.administration.doctor import local_directories

        with self.target.admin() as admin:
            found = local_directories(
                admin,
                topic,
                given=self.given,
                on_unreachable=self.losses.directories_are_left_out,
            )
            if found is None:
                show_remote(admin)
            else:
                show(found, setting)
        self.losses.end()

    def read(self) -> "Directories":
        """Returns the directories that the target names; raises `UserError`."""
        from ottla.diagnosis.directories import read_directories

        self.target.check_directories()
        properties = None if self.config_file is None else read_server_properties(self.config_file)
        return read_directories(self.target.directories, properties=properties, given=self.given)

    def chosen(self, logs: "list[ReadOnlyLog]", topic: str) -> "list[ReadOnlyLog]":
        """Returns the requested partitions; raises `UserError`."""
        chosen = [log for log in logs if self.partition in (None, log.partition)]
        if not chosen:
            have = [log.partition for log in logs]
            raise UserError(f"topic {topic} has no partition {self.partition} here; it has {have}")
        return chosen


def _time(text: str) -> int:
    if text.isdigit():
        return int(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UserError(f"--at {text}: a time is 2026-01-31T12:00:00, or milliseconds") from None
    return round((at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp() * 1000)


def unknown_text(directories: "Directories", topic: str) -> str | None:
    """Says why nothing of a topic is deleted, and the fix; `None` if its settings apply."""
    reason = directories.unknown.get(topic)
    if reason is None:
        return None
    paths = " ".join(one.path for one in directories.opened)
    return (
        f"nothing of topic {topic} is deleted or compacted, since {reason}: stop the broker "
        f"and run ottla adopt {paths}; the following would apply with the defaults"
    )
