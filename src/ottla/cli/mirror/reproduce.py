"""`ottla mirror --mode reproduce`: records sent anew to another cluster."""

import contextlib
from typing import TYPE_CHECKING

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError

if TYPE_CHECKING:
    from ottla.cli.mirror.command import Wishes
    from ottla.mirror.mirror import PartitionReport


def reproduce(source: str, target: str, wishes: "Wishes") -> None:
    """Sends, and says what came of it; leaves with 1 when something was refused."""
    from rich.console import Console

    from ottla.cli.client_settings import read_client_settings
    from ottla.cli.mirror.command import Stopping, run
    from ottla.cli.mirror.text import ProgressLine, Totals
    from ottla.mirror.places import is_address, open_source
    from ottla.mirror.reproduce import ReproduceOptions, Reproducer
    from ottla.mirror.source import Selection
    from ottla.mirror.throttle import Throttle

    if not all(is_address(one) for one in target.split(",")):
        raise UserError(f"{target}: --mode reproduce sends to a broker; name its HOST:PORT")
    if wishes.engine != "local":
        raise UserError("--mode reproduce has one engine, local; leave --engine out")
    console = Console()
    options = ReproduceOptions(
        selection=Selection(topics=wishes.topics, exclude=wishes.exclude),
        allow_gaps=wishes.allow_gaps,
        name=wishes.name,
        client=read_client_settings(wishes.target_config),
    )
    totals = Totals(console, target, is_following=wishes.follow)
    with (
        Stopping() as stop,
        contextlib.closing(
            open_source(
                source,
                sleep=stop.sleep,
                security=wishes.source_security,
                on_damage=wishes.on_damage,
            )
        ) as opened,
        ProgressLine(console) as line,
    ):

        def on_progress(report: "PartitionReport") -> None:
            line.show(report)
            stop.check()

        throttle = Throttle(wishes.throttle, SystemClock(), stop.sleep)
        with Reproducer(
            opened, target, options, throttle=throttle, on_progress=on_progress
        ) as sender:
            run(sender.run_round, wishes, stop, totals)
    totals.finish()
