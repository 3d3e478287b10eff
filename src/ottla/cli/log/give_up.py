"""`ottla log give-up`: replaces a lost partition by an empty log."""

import click

from ottla.base.errors import CorruptionError, RefusalError
from ottla.cli.endings import named_files
from ottla.cli.output import Output, output_options
from ottla.cli.terminal import ExampleCommand


@click.command("give-up", cls=ExampleCommand, examples=("ottla log give-up data/ orders-3",))
@click.argument("directory", metavar="DIR")
@click.argument("partition", metavar="TOPIC-PARTITION")
@output_options()
def give_up_command(directory: str, partition: str, output: Output) -> None:
    """Replace a lost partition of the log directory DIR by an empty one.

    Use it for a partition that a broker refuses because its directory is missing, if the directory
    cannot be restored. Its records stay lost; the empty log begins at the offset at which the lost
    one ended. No broker may be running on DIR.
    """
    from ottla.base.files import OsFileSystem
    from ottla.storage.diagnosis.giving_up import give_up
    from ottla.storage.files.filenames import parse_directory_name
    from ottla.storage.files.known_topics import read_known_topics

    files = OsFileSystem()
    parsed = parse_directory_name(partition)
    try:
        with named_files(directory):
            entries = read_known_topics(files, directory).entries
            entry = entries.get(parsed.topic) if parsed else None
            offset = give_up(files, directory, partition, entry.topic_id if entry else None)
    except CorruptionError as error:
        raise RefusalError(f"{error}; put the directory of {partition} back instead") from error
    output.say(
        f"{directory}/{partition}: empty, from offset {offset} on",
        {"type": "empty", "partition": partition, "first_offset": offset},
    )
