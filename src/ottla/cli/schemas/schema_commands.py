"""`ottla schemas list`, `show`, `check`, `register`, `level` and `delete`."""

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import RefusalError, UserError
from ottla.base.texts import whole_number
from ottla.cli.output import NAMES_ONLY, Output, output_options
from ottla.cli.settings_files import read_registry_login, registry_config_option
from ottla.cli.terminal import ExampleCommand, confirm, with_options
from ottla.schema_registry.registry import AVRO, KINDS, LEVELS

if TYPE_CHECKING:
    from ottla.schema_registry.administration import (
        NewSchema,
        Reference,
        RegistryAdmin,
        SubjectVersion,
    )

AT = "http://localhost:8081"
MOST_VERSIONS = (1 << 31) - 1


def takes_registry(command: Callable[..., None]) -> Any:
    """Adds what names a registry, and the login there; a command has it as `admin`."""

    @functools.wraps(command)
    def with_registry(registry: str, registry_config: str | None, **more: Any) -> None:
        from ottla.schema_registry.administration import open_admin
        from ottla.schema_registry.opening import open_registry

        login = read_registry_login(registry_config)
        command(admin=open_admin(open_registry(registry, login)), **more)

    place = click.argument("registry", metavar="URL-OR-DIRECTORY")
    return with_options(place, registry_config_option)(with_registry)


subject_argument = click.argument("subject", metavar="SUBJECT")


def schema_arguments(command: Callable[..., None]) -> Any:
    """Adds what names a new schema."""
    return with_options(
        click.argument("file", type=click.Path(dir_okay=False, allow_dash=True), metavar="FILE"),
        click.option(
            "--type",
            "kind",
            type=click.Choice(KINDS, case_sensitive=False),
            help="Kind of the schema; by default that of the file's name (.avsc, .proto, .json), "
            "else AVRO.",
        ),
        click.option(
            "--reference",
            "references",
            multiple=True,
            metavar="NAME=SUBJECT:VERSION",
            help="Schema that this one uses by NAME; repeatable.",
        ),
    )(command)


@click.command("list", cls=ExampleCommand, examples=(f"ottla schemas list {AT}",))
@takes_registry
@click.option(
    "--deleted", is_flag=True, help="Include subjects that are deleted, but not for good."
)
@output_options(NAMES_ONLY)
def list_command(admin: "RegistryAdmin", deleted: bool, output: Output) -> None:
    """List the subjects of a registry, or of a directory of schemas."""
    names = admin.subjects(with_deleted=deleted)
    output.listing(
        names,
        ("subject",),
        ((one,) for one in names),
        fields=lambda one: {"subject": one},
        name=lambda one: one,
        none=f"{admin.address} has no subjects",
    )


@click.command(
    "show",
    cls=ExampleCommand,
    examples=(
        f"ottla schemas show {AT} orders-value",
        f"ottla schemas show {AT} orders-value --version 1 -q > orders.avsc",
    ),
)
@takes_registry
@subject_argument
@click.option("--version", "number", type=click.IntRange(1, MOST_VERSIONS), metavar="NUMBER",
              help="Version, also one that is deleted; by default the latest.")  # fmt: skip
@output_options("Print the schema alone.")
def show_command(admin: "RegistryAdmin", subject: str, number: int | None, output: Output) -> None:
    """Print a schema, and on standard error its version, id and compatibility level."""
    numbers = admin.versions(subject, with_deleted=number is not None)
    found = admin.version(subject, number or numbers[-1])
    level, is_own = admin.level(subject)
    if output.as_json:
        output.say("", {**_fields(found), "versions": numbers, "level": level})
        return
    known = "" if found.schema_id is None else f", id {found.schema_id}"
    of = "its own" if is_own else "the global one"
    output.remark(
        f"{subject} version {found.version} of {', '.join(map(str, numbers))}: "
        f"{found.kind}{known}, level {level} ({of})"
    )
    for one in found.references:
        output.remark(f"uses {one.name}: {one.subject} version {one.version}")
    click.echo(found.text)


def _fields(one: "SubjectVersion") -> dict[str, Any]:
    references = [
        {"name": each.name, "subject": each.subject, "version": each.version}
        for each in one.references
    ]
    return {
        "subject": one.subject,
        "version": one.version,
        "id": one.schema_id,
        "type": one.kind,
        "references": references,
        "schema": one.text,
    }


@click.command(
    "check", cls=ExampleCommand, examples=(f"ottla schemas check {AT} bills-value bills.avsc",)
)
@takes_registry
@subject_argument
@schema_arguments
@output_options()
def check_command(admin: "RegistryAdmin", subject: str, output: Output, **given: Any) -> None:
    """Check whether a schema may follow a subject's versions; exit with 1 if it may not."""
    schema = _new_schema(**given)
    faults = admin.faults(subject, schema)
    level, _ = admin.level(subject)
    fields = {"subject": subject, "level": level, "is_compatible": not faults, "faults": faults}
    if not faults:
        output.say(f"{subject}: the schema is compatible, by level {level}", fields)
        return
    if output.as_json:
        output.say("", fields)
    raise RefusalError(f"{subject}: the schema is not compatible, by level {level}: {faults[0]}")


@click.command(
    "register",
    cls=ExampleCommand,
    examples=(
        f"ottla schemas register {AT} bills-value bills.avsc",
        f"ottla schemas register {AT} tea-value - < bills.avsc",
    ),
)
@takes_registry
@subject_argument
@schema_arguments
@output_options()
def register_command(admin: "RegistryAdmin", subject: str, output: Output, **given: Any) -> None:
    """Register a schema as the next version of a subject; one that it has changes nothing."""
    schema = _new_schema(**given)
    schema_id = admin.register(subject, schema)
    found = admin.find(subject, schema)
    fields: dict[str, Any] = {"subject": subject, "id": schema_id}
    if found is None:
        output.say(f"{subject}: the schema has id {schema_id}", fields)
    else:
        text = f"{subject}: the schema is version {found.version}, with id {schema_id}"
        output.say(text, fields | {"version": found.version})


@click.command(
    "level",
    cls=ExampleCommand,
    examples=(
        f"ottla schemas level {AT}",
        f"ottla schemas level {AT} --subject orders-value --set FULL",
    ),
)
@takes_registry
@click.option("--subject", metavar="SUBJECT", help="A subject's level; by default the global one.")
@click.option("--set", "wanted", type=click.Choice(LEVELS, case_sensitive=False),
              help="New level.")  # fmt: skip
@click.option("--unset", is_flag=True, help="Remove a subject's own level: the global one applies.")
@output_options()
def level_command(
    admin: "RegistryAdmin",
    subject: str | None,
    wanted: str | None,
    unset: bool,
    output: Output,
) -> None:
    """Print or set what a new version has to be compatible with."""
    if unset and (wanted is not None or subject is None):
        raise click.UsageError("--unset is of a --subject, and without --set.")
    if wanted is not None or unset:
        admin.set_level(subject, wanted)
    level, is_own = admin.level(subject)
    of = "the global level" if subject is None else f"{subject}: the level"
    note = "" if is_own else ", the global one"
    output.say(f"{of} is {level}{note}", {"subject": subject, "level": level, "is_own": is_own})


@click.command(
    "delete",
    cls=ExampleCommand,
    examples=(
        f"ottla schemas delete {AT} orders-value --version 1",
        f"ottla schemas delete {AT} orders-value --permanent --yes",
    ),
)
@takes_registry
@subject_argument
@click.option("--version", "number", type=click.IntRange(1, MOST_VERSIONS), metavar="NUMBER",
              help="Version; by default all of the subject.")  # fmt: skip
@click.option("--permanent", is_flag=True, help="Delete for good what is deleted already.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@output_options()
def delete_command(
    admin: "RegistryAdmin",
    subject: str,
    number: int | None,
    permanent: bool,
    yes: bool,
    output: Output,
) -> None:
    """Delete a subject or one of its versions; records that name it can still be decoded, until it
    is deleted with --permanent.
    """
    what = f"subject {subject}" if number is None else f"version {number} of {subject}"
    for_good = " for good" if permanent else ""
    confirm(f"Delete {what}{for_good}?", is_confirmed=yes)
    admin.delete(subject, number, is_permanent=permanent)
    fields = {"subject": subject, "version": number, "is_permanent": permanent}
    output.say(f"deleted {what}{for_good}", fields)


def _new_schema(*, file: str, kind: str | None, references: tuple[str, ...]) -> "NewSchema":
    from ottla.schema_registry.administration import NewSchema
    from ottla.schema_registry.directory import KIND_OF

    try:
        with click.open_file(file, encoding="utf-8") as opened:
            text = opened.read().strip()
    except OSError as error:
        raise UserError(f"{file}: {error.strerror}; name a file with a schema") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{file}: is not UTF-8; name a file with a schema") from error
    if not text:
        raise UserError(f"{file}: is empty; name a file with a schema")
    suffix = next((one for one in KIND_OF if file.endswith(one)), None)
    of_file = AVRO if suffix is None else KIND_OF[suffix]
    return NewSchema(text=text, kind=kind or of_file, references=tuple(_references(references)))


def _references(texts: tuple[str, ...]) -> Iterator["Reference"]:
    from ottla.schema_registry.administration import Reference

    for text in texts:
        name, _, place = text.partition("=")
        subject, _, last = place.rpartition(":")
        version = whole_number(last, MOST_VERSIONS)
        if not name or not subject or not version:
            raise UserError(
                f"--reference {text!r}: write NAME=SUBJECT:VERSION, such as "
                "com.shop.Tea=tea-value:1"
            )
        yield Reference(name, subject, version)
