"""`ottla table publish`: a table copied into an object store."""

import click

from ottla.cli.terminal import ExampleCommand


@click.command(
    "publish",
    cls=ExampleCommand,
    examples=("ottla table publish tables/orders s3://bucket/orders",),
)
@click.argument("path", metavar="TABLE", type=click.Path(file_okay=False))
@click.argument("url")
def publish_command(path: str, url: str) -> None:
    """Copy new commits of TABLE to URL, such as s3://bucket/tables/orders.

    Each commit appears whole, by a conditional put. Run the command again after each load; it
    continues a copy that was killed. Needs fsspec and its
    package for the store: s3fs, gcsfs, adlfs.
    """
    from rich.filesize import decimal

    from ottla.tables.object_table import publish

    try:
        report = publish(path, url)
    except OSError as error:
        raise click.ClickException(str(error)) from error
    if not report.new_commit_count:
        click.echo(f"nothing new: {url} has all {report.commit_count} commits")
        return
    click.echo(
        f"{report.new_commit_count} new commits, {report.uploaded_count} files of "
        f"{decimal(report.uploaded_size)}; {url} has {report.commit_count} commits now"
    )
