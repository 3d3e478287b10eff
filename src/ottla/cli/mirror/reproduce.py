"""`ottla mirror --mode reproduce`: records produced again into another cluster."""

import contextlib
from typing import TYPE_CHECKING

from ottla.base.clock import SystemClock
from ottla.base.errors import UserError
from ottla.cli.mirror.rounds import CopyOptions, run
from ottla.cli.terminal import Stopping, new_console

if TYPE_CHECKING:
    from ottla.mirror.mirror import PartitionReport


def reproduce(source: str, target: str, given: CopyOptions) -> None:
    """Sends, and reports the result; exits with 1 if something was refused."""
    from ottla.cli.mirror.text import Totals, draw, new_line
    from ottla.cli.settings_files import read_client_settings
    from ottla.mirror.endpoints import is_address, open_source
    from ottla.mirror.reproduce import ReproduceOptions, Reproducer
    from ottla.mirror.source import Selection
    from ottla.mirror.throttle import Throttle

    if not all(is_address(one) for one in target.split(",")):
        raise UserError(f"{target}: --mode reproduce sends to a broker; name its HOST:PORT")
    if given.engine != "local":
        raise UserError("--mode reproduce has one engine, local; omit --engine")
    console = new_console(is_quiet=not given.output.is_prose)
    options = ReproduceOptions(
        selection=Selection(topics=given.topics, exclude=given.exclude),
        allow_gaps=given.allow_gaps,
        name=given.name,
        client=read_client_settings(given.target_config),
    )
    totals = Totals(console, target, given.output, is_following=given.follow)
    with (
        Stopping() as stop,
        contextlib.closing(
            open_source(
                source,
                sleep=stop.sleep,
                security=given.source_security,
                on_damage=given.on_damage,
                tier=given.source_tier,
            )
        ) as opened,
        new_line(console) as line,
    ):

        def on_progress(report: "PartitionReport") -> None:
            draw(line, report)
            stop.check()

        throttle = Throttle(given.throttle, SystemClock(), stop.sleep)
        with Reproducer(
            opened, target, options, throttle=throttle, on_progress=on_progress
        ) as sender:
            run(sender.run_round, given, stop, totals)
    totals.finish()
