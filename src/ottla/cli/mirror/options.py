"""The arguments and options that `ottla mirror` and `ottla mirror verify` share."""

import click

from ottla.cli.output import output_options
from ottla.cli.settings_files import client_config_option
from ottla.cli.terminal import with_options

with_pair = with_options(
    click.argument("source", metavar="SOURCE"),
    click.argument("target", metavar="TARGET"),
    click.option(
        "--topics",
        multiple=True,
        metavar="PATTERN",
        help="Topics to include; * and ? are wildcards; repeatable.",
    ),
    click.option(
        "--exclude", multiple=True, metavar="PATTERN", help="Topics to exclude; repeatable."
    ),
    client_config_option("source"),
    client_config_option("target"),
    output_options(),
)
