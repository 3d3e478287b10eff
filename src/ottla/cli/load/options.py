"""The options of `ottla load`, and the values that they become."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.base.patterns import lazy_pattern
from ottla.cli.engines import engine_option
from ottla.cli.load.routes import check_routes
from ottla.cli.output import output_options
from ottla.cli.settings_files import (
    client_config_option,
    read_client_settings,
    read_registry_login,
    registry_options,
)
from ottla.cli.terminal import parse_seconds, parse_size, with_options
from ottla.cli.tiers import tier_of, tier_options

if TYPE_CHECKING:
    from ottla.loading.dead_letters import DeadLetters
    from ottla.loading.follow import FollowRule
    from ottla.loading.job import LoadOptions
    from ottla.tables import Decoding, LayoutOptions, Projection, Upsert, ValueFormat

_FILE_NAME = lazy_pattern(r"[^\s{}:\"]*[./][^\s{}:\"]*")
"""What no schema is: it is a file that does not exist."""

with_load_options = with_options(
    click.option(
        "--topic",
        "-t",
        "topics",
        multiple=True,
        help="Topic to load; repeatable. Each of several has its own table, PATH/TOPIC.",
    ),
    click.option(
        "--pattern",
        metavar="REGEX",
        help="Topics to load, by a regular expression for their whole names; with --follow also "
        "topics created later. Each has its own table, PATH/TOPIC.",
    ),
    click.option(
        "--table",
        "tables",
        multiple=True,
        metavar="TOPIC=PATH",
        help="Topic to load, and its table; repeatable.",
    ),
    click.option(
        "--into",
        type=click.Path(file_okay=False),
        metavar="PATH",
        help="Table directory, created if missing, an object store: s3://BUCKET/TABLE, or "
        "a table of Iceberg: iceberg://CATALOG/NAMESPACE.TABLE.",
    ),
    click.option(
        "--from",
        "start",
        metavar="PLACE",
        help="Start of a table's first load, or of a rerun: earliest (default), latest, offset, "
        "PARTITION:OFFSET,..., @MILLISECONDS, or a time like 2026-01-31T13:00 (UTC).",
    ),
    click.option("--to", "end", metavar="PLACE", help="End of the load, exclusive."),
    click.option(
        "--rerun",
        is_flag=True,
        help="Read the range from --from to --to again, and replace its rows.",
    ),
    click.option(
        "--redrive",
        is_flag=True,
        help="Read the records in quarantine again, after their schema or the options were mended; "
        "those that can be decoded now become rows.",
    ),
    click.option(
        "--follow", is_flag=True, help="Continue to load new records until SIGTERM or Ctrl-C."
    ),
    click.option(
        "--interval",
        default="1s",
        show_default=True,
        metavar="TIME",
        help="Polling interval of --follow.",
    ),
    click.option(
        "--max-age",
        default="60s",
        show_default=True,
        metavar="TIME",
        help="Longest time that a record waits for its commit with --follow.",
    ),
    click.option(
        "--target-size",
        default="128Mi",
        show_default=True,
        metavar="SIZE",
        help="Target size of a Parquet file; with --follow also the size that triggers a commit.",
    ),
    click.option(
        "--decode",
        type=click.Choice(["raw", "json", "avro", "protobuf"]),
        help="Format of values; raw (bytes) by default. Pinned by the first load.",
    ),
    click.option(
        "--schema",
        metavar="SCHEMA-OR-FILE",
        help="JSON: 'id bigint, at timestamp', or a JSON Schema (inferred and pinned by the first "
        "load, if omitted). Avro: a file with the schema. Protobuf: a .proto file, or a "
        "descriptor set. With --registry that of all versions of the subject, if omitted. It can "
        "grow later.",
    ),
    click.option(
        "--message",
        metavar="NAME",
        help="Message type of Protobuf values; by default the schema's only one, or with "
        "--registry its first.",
    ),
    click.option(
        "--no-rescued",
        is_flag=True,
        help="Drop JSON fields that the schema does not name; by default value._rescued keeps "
        "them.",
    ),
    click.option(
        "--grow",
        is_flag=True,
        help="Add columns for JSON fields that are in the first new records but not in the table.",
    ),
    *registry_options("which values name by id, with --decode avro, json or protobuf"),
    click.option(
        "--subject",
        metavar="NAME",
        help="Subject of the values' schemas in the registry; TOPIC-value by default.",
    ),
    click.option(
        "--decode-key",
        type=click.Choice(["raw", "text", "json", "avro", "protobuf"]),
        help="Format of keys; raw (bytes) by default. Pinned by the first load.",
    ),
    click.option(
        "--key-schema",
        metavar="SCHEMA-OR-FILE",
        help="Schema of keys, in the forms of --schema; by default keys name theirs in --registry.",
    ),
    click.option("--key-message", metavar="NAME", help="Message type of Protobuf keys."),
    click.option(
        "--key-subject", metavar="NAME", help="Subject of the keys' schemas; TOPIC-key by default."
    ),
    click.option(
        "--columns",
        type=click.Choice(["struct", "flat"]),
        help="Columns of decoded values: one struct, value, beside the record's own (default), or "
        "each field of its own, beside _topic, _partition, _offset, _timestamp. Pinned by the "
        "first load.",
    ),
    click.option(
        "--select",
        metavar="FIELD,...",
        help="Fields of values to load, in this order, inner ones with dots: id,customer.name. By "
        "default all.",
    ),
    click.option(
        "--rename",
        metavar="FIELD=NAME,...",
        help="Other names of columns: id=order_id,customer.name=customer.",
    ),
    click.option(
        "--cast",
        metavar="SCHEMA",
        help="Other types of columns, by their names: 'total decimal(9,2), at timestamp'.",
    ),
    click.option(
        "--header-columns",
        metavar="SCHEMA",
        help="Headers to load as columns of a struct, header: 'trace string, attempt int'.",
    ),
    click.option("--confluent", is_flag=True, help="Expect a schema registry's five-byte prefix."),
    click.option(
        "--schema-id", type=int, metavar="ID", help="Only schema id to accept, with --confluent."
    ),
    click.option(
        "--upsert-by",
        metavar="key|FIELD,...",
        help="Keep the latest row of each key instead of one for each record: of the record's key, "
        "or of fields such as value.order_id,value.country. A null value deletes. Pinned by the "
        "first load.",
    ),
    click.option(
        "--version-by",
        metavar="FIELD",
        help="Order of the records of a key, with --upsert-by: a field such as value.updated_at, "
        "or timestamp. A late record with a lower version changes nothing. By default their "
        "offsets.",
    ),
    click.option(
        "--delete-when",
        metavar="CONDITION",
        help="Records that delete their row too, with --upsert-by, in the language of --where: "
        "'value.op = delete'.",
    ),
    click.option(
        "--change-feed",
        is_flag=True,
        help="Write Delta's change data feed, with --upsert-by: which rows each load inserted, "
        "updated and deleted. Pinned by the first load.",
    ),
    click.option(
        "--history",
        is_flag=True,
        help="Keep all rows of each key, with --upsert-by, in columns valid_from, valid_to and "
        "is_current: from its version, or timestamp, to that of the next record. Pinned by the "
        "first load.",
    ),
    click.option(
        "--envelope",
        type=click.Choice(["debezium"]),
        help="Change format of values, with --upsert-by and --decode: the table has the rows "
        "after each change. Pinned by the first load.",
    ),
    click.option(
        "--on-error",
        type=click.Choice(["fail", "quarantine", "skip"]),
        default="fail",
        show_default=True,
        help="What to do with a value that cannot be decoded: stop, keep it beside the table with "
        "the reason, or keep only its position and the reason.",
    ),
    click.option(
        "--dead-letter-topic",
        metavar="NAME",
        help="Also send records that are set aside to this topic, at least once, with headers that "
        "say where they are from and what is wrong; with --on-error quarantine. With --redrive, "
        "read again what this topic names, and take from it what the log no longer has.",
    ),
    click.option(
        "--dead-letter-target",
        metavar="DIR-OR-BOOTSTRAP",
        help="Where the dead-letter topic is; by default beside the topic that is loaded.",
    ),
    click.option(
        "--partition-by",
        metavar="COLUMN-OR-TRANSFORM,...",
        help="Partitions of the table: day or hour (in UTC), columns such as value.country, and "
        "year, month, day or hour(COLUMN), bucket(N, COLUMN), truncate(N, COLUMN). Pinned by the "
        "first load; in Iceberg a later load may change it.",
    ),
    click.option(
        "--partition-field",
        metavar="FIELD",
        help="Field with the time of day or hour: timestamp, the record's (default), or a field of "
        "the value: value.at.",
    ),
    click.option(
        "--statistics",
        metavar="COLUMN,...",
        help="Columns whose bounds and nulls the table's log has for each file, so that queries "
        "skip files: value.id,value.at. By default the first 32.",
    ),
    click.option(
        "--allow-gaps",
        is_flag=True,
        help="Continue although retention removed records unread; the ledger names them.",
    ),
    click.option(
        "--skip-damaged",
        is_flag=True,
        help="Continue after damage in a directory's files; skipped offsets are logged.",
    ),
    tier_options,
    click.option("--min-partitions", type=click.IntRange(min=1), help="Minimum number of tasks."),
    engine_option,
    click.option(
        "--metrics",
        metavar="HOST:PORT",
        help="Address of /metrics for Prometheus, with the lag of each table, with --follow.",
    ),
    output_options("Print nothing but errors and warnings."),
    client_config_option("source"),
    click.option(
        "--until-eof", is_flag=True, hidden=True, help="Exit when standard input is closed."
    ),
    click.option(
        "--with-leader",
        type=int,
        hidden=True,
        help="Follow only while this broker leads the topic's first partition.",
    ),
    click.option("--check", is_flag=True, hidden=True, help="Exit once the options are checked."),
)


_OF_DECODED = {
    "schema": "json",
    "confluent": "json",
    "schema_id": "json",
    "registry": "avro",
    "subject": "avro",
    "message": "protobuf",
    "envelope": "json",
}
_PACKAGES = {"avro": "fastavro", "protobuf": "google.protobuf"}


def check_load_options(topics: Sequence[str], given: Mapping[str, Any]) -> None:
    """Raises `UserError` for options that contradict each other."""
    decode = given["decode"]
    check_routes(topics, given)
    several = given["pattern"] or len({*topics, *given["tables"]}) > 1
    if given["metrics"] is not None and not given["follow"]:
        raise UserError("--metrics reports on followed tables: add --follow")
    if given["rerun"] and (given["follow"] or several):
        raise UserError("--rerun reads one topic's range once: omit --follow and other topics")
    if given["redrive"] and (given["follow"] or given["rerun"] or several):
        raise UserError("--redrive reads one topic's quarantine once: omit --follow and --rerun")
    if given["redrive"] and (given["start"] or given["end"]):
        raise UserError("--redrive reads what is in quarantine: omit --from and --to")
    if given["follow"] and given["end"] is not None:
        raise UserError("--follow has no end: omit --to, or --follow")
    if given["until_eof"] and given["start"] is not None:
        raise UserError("--from is for a table's first load, and this process may be started again")
    check_key_options(given)
    if decode == "raw" or decode is None:
        for name, wanted in _OF_DECODED.items():
            if given[name] and (name != "registry" or given["decode_key"] is None):
                option = "--" + name.replace("_", "-")
                raise UserError(f"{option} applies to decoded values: add --decode {wanted}")
    if "json" not in (decode, given["decode_key"]) and given["no_rescued"]:
        raise UserError("--no-rescued applies to JSON: add --decode json")
    if decode in _PACKAGES and given["schema"] is None and given["registry"] is None:
        raise UserError(
            f"--decode {decode} needs the schema that values are written in: --schema FILE, or "
            f"--registry URL-OR-DIRECTORY if each value names its own"
        )
    if decode != "protobuf" and given["message"] is not None:
        raise UserError("--message names a type of a Protobuf schema: add --decode protobuf")
    if given["subject"] is not None and given["registry"] is None:
        raise UserError("--subject is looked up in a registry: add --registry URL-OR-DIRECTORY")
    for option, name in (("--decode", decode), ("--decode-key", given["decode_key"])):
        if name in _PACKAGES:
            # Checked before Spark starts, which takes a while.
            with needed_for(f"{option} {name}"):
                import_module(_PACKAGES[name])
    if given["envelope"] is not None and given["upsert_by"] is None:
        raise UserError("--envelope is for merging changes: add --upsert-by key")
    _check_upsert_options(given)
    if given["schema_id"] is not None and not given["confluent"]:
        raise UserError("--schema-id is the id in the prefix: add --confluent")
    if given["partition_field"] is not None and given["partition_by"] is None:
        raise UserError("--partition-field needs --partition-by hour or day")
    if given["partition_by"] is not None:
        from ottla.tables import parse_partitioning

        parse_partitioning(given["partition_by"])  # Checked before Spark starts.


def _check_upsert_options(given: Mapping[str, Any]) -> None:
    """Raises `UserError` for options of merges without a merge, or a condition with a mistake."""
    for name in ("version_by", "delete_when", "history", "change_feed"):
        if given[name] and given["upsert_by"] is None:
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} is for merging changes: add --upsert-by key, or fields")
    if given["upsert_by"] is not None and not _names(given["upsert_by"]):
        raise UserError("--upsert-by names key, or fields such as value.id")
    if given["delete_when"] is not None:
        from ottla.loading.deletes import DeleteWhen

        DeleteWhen(given["delete_when"]).parsed()


def check_key_options(given: Mapping[str, Any]) -> None:
    """Raises `UserError` for options of keys that contradict each other."""
    decode = given["decode_key"]
    has_schema = decode in ("json", "avro", "protobuf")
    for name in ("key_schema", "key_message", "key_subject"):
        if given[name] and not has_schema:
            option = "--" + name.replace("_", "-")
            raise UserError(f"{option} applies to keys decoded by a schema: add --decode-key avro")
    if has_schema and given["key_schema"] is None and given["registry"] is None:
        raise UserError(
            f"--decode-key {decode} needs the schema that keys are written in: --key-schema "
            f"SCHEMA-OR-FILE, or --registry URL-OR-DIRECTORY if each key names its own"
        )
    if given["key_message"] and decode != "protobuf":
        raise UserError(
            "--key-message names a type of a Protobuf schema: add --decode-key protobuf"
        )
    if given["key_subject"] and (given["registry"] is None or given["key_schema"]):
        raise UserError(
            "--key-subject is looked up in a registry: add --registry, and omit --key-schema"
        )


def load_options(given: Mapping[str, Any], topic: str) -> "LoadOptions":
    """Returns the options for one topic's load; raises `UserError`."""
    from ottla.loading.bounds import parse_place
    from ottla.loading.job import LoadOptions
    from ottla.tables import OnError

    # A rerun interprets the two differently.
    start, end = (None, None) if given["rerun"] else (given["start"], given["end"])
    return LoadOptions(
        allow_gaps=given["allow_gaps"],
        skip_damaged=given["skip_damaged"],
        tier=tier_of(given),
        starting=None if start is None else parse_place("--from", start, topic),
        ending=None if end is None else parse_place("--to", end, topic),
        layout=_layout(given),
        on_error=OnError(given["on_error"]),
        dead_letters=_dead_letters(given),
        target_size=parse_size("--target-size", given["target_size"]),
        min_partitions=given["min_partitions"],
        is_long=given["follow"],
        client=read_client_settings(given["source_config"]),
    )


def _dead_letters(given: Mapping[str, Any]) -> "DeadLetters | None":
    from ottla.loading.dead_letters import DeadLetters

    topic, source = given["dead_letter_topic"], given["source"]
    if topic is None:
        if given["dead_letter_target"] is not None:
            raise UserError("--dead-letter-target is the place of a topic: add --dead-letter-topic")
        return None
    if given["on_error"] != "quarantine" and not given["redrive"]:
        raise UserError("--dead-letter-topic gets what is set aside: add --on-error quarantine")
    client = read_client_settings(given["source_config"])
    return DeadLetters(topic=topic, target=given["dead_letter_target"] or source, settings=client)


def follow_rule(given: Mapping[str, Any]) -> "FollowRule":
    from ottla.loading.follow import FollowRule

    return FollowRule(
        interval_s=parse_seconds("--interval", given["interval"]),
        max_age_s=parse_seconds("--max-age", given["max_age"]),
        target_size=parse_size("--target-size", given["target_size"]),
    )


def _layout(given: Mapping[str, Any]) -> "LayoutOptions":
    from ottla.tables import LayoutOptions, header_columns, parse_partitioning

    by = given["partition_by"]
    return LayoutOptions(
        is_raw=given["decode"] == "raw",
        decoding=_decoding(given),
        key=_key_decoding(given),
        header=header_columns(given["header_columns"]) if given["header_columns"] else "",
        projection=_projection(given),
        is_flat=None if given["columns"] is None else given["columns"] == "flat",
        partitioning=None if by is None else parse_partitioning(by, given["partition_field"]),
        upsert=_upsert(given),
        has_change_feed=given["change_feed"],
        statistics=_names(given["statistics"]),
        is_growing=given["grow"],
        login=read_registry_login(given["registry_config"]),
    )


def _upsert(given: Mapping[str, Any]) -> "Upsert | None":
    from ottla.tables import Upsert

    names = _names(given["upsert_by"])
    if names is None:
        return None
    return Upsert(
        key=() if names == ("key",) else names,
        version=given["version_by"] or "",
        delete_when=given["delete_when"] or "",
        is_history=given["history"],
    )


def _projection(given: Mapping[str, Any]) -> "Projection | None":
    from ottla.tables import Projection, header_columns

    if not any(given[name] is not None for name in ("select", "rename", "cast")):
        return None
    pairs = [one.partition("=") for one in _names(given["rename"]) or ()]
    for old, _, new in pairs:
        if not (old.strip() and new.strip()):
            raise UserError(
                f"--rename {given['rename']}: write FIELD=NAME,..., such as id=order_id"
            )
    return Projection(
        select=_names(given["select"]) or (),
        rename=tuple((old.strip(), new.strip()) for old, _, new in pairs),
        cast=header_columns(given["cast"]) if given["cast"] else "",
    )


def _names(given: str | None) -> tuple[str, ...] | None:
    return None if given is None else tuple(one.strip() for one in given.split(",") if one.strip())


def _decoding(given: Mapping[str, Any]) -> "Decoding | None":
    from ottla.tables import Decoding, Envelope, ValueFormat

    if given["decode"] in (None, "raw"):
        return None
    value_format = ValueFormat(given["decode"])
    is_json = value_format is ValueFormat.JSON
    schema = _schema(given["schema"], value_format)
    return Decoding(
        format=value_format,
        schema=schema,
        confluent=given["confluent"],
        schema_id=given["schema_id"],
        registry=given["registry"] or "",
        subject=given["subject"] or "",
        message=given["message"] or "",
        envelope=Envelope(given["envelope"] or Envelope.NONE.value),
        is_rescuing=is_json and not given["no_rescued"],
    )


def _key_decoding(given: Mapping[str, Any]) -> "Decoding | None":
    from ottla.tables import Decoding, ValueFormat

    if given["decode_key"] in (None, "raw"):
        return None
    key_format = ValueFormat(given["decode_key"])
    if key_format is ValueFormat.TEXT:
        return Decoding(format=key_format, schema="string")
    return Decoding(
        format=key_format,
        schema=_schema(given["key_schema"], key_format),
        # Keys with a schema of their own have no framing.
        registry="" if given["key_schema"] else given["registry"],
        subject=given["key_subject"] or "",
        message=given["key_message"] or "",
        is_rescuing=key_format is ValueFormat.JSON and not given["no_rescued"],
    )


def _schema(given: str | None, value_format: "ValueFormat") -> str:
    from ottla.tables import given_schema

    return given_schema(given, value_format, _text_or_file) if given else ""


def _text_or_file(text: str) -> str:
    """Returns the content of the file if the text names one, otherwise the text."""
    try:
        return Path(text).read_text()
    except UnicodeDecodeError as error:
        raise UserError(f"{text}: {error}; name a file with a schema") from error
    except (OSError, ValueError) as error:
        if not _FILE_NAME.fullmatch(text):
            return text
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{text}: {reason}; name a file with a schema") from error
