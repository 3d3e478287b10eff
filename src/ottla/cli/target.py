"""TARGET, the same in every command: a data directory, or `HOST:PORT` of brokers.

    @click.command("list", cls=TargetCommand, examples=("ottla topics list localhost:9092",))
    @target_argument()
    @click.argument("topics", nargs=-1)
    def list_command(target: Target, topics: tuple[str, ...]) -> None:
        with target.open() as cluster: ...

The first argument is the target, unless `-b`, `-d` or `--context` names one. Where `OTTLA_TARGET`
or the current context names one, the first argument is a target only if it looks like one: a topic
has no slash, colon or `@` in its name. Where nothing names one, and the arguments leave no room for
one, the target is the default of `cli/default_place.py`, and the command says so.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

import click

from ottla.base.addresses import (
    address_text,
    check_no_host,
    looks_like_host,
    names_brokers,
    parse_address,
)
from ottla.base.errors import UnknownNameError, UserError
from ottla.base.patterns import lazy_pattern
from ottla.base.values import dataclass
from ottla.cli.contexts import NAME, Context, read_contexts
from ottla.cli.default_place import default_place
from ottla.cli.settings_files import FilePath, parse_setting, read_client_settings, with_secrets
from ottla.cli.terminal import (
    ExampleCommand,
    deadline,
    only_logged_from,
    parse_seconds,
    with_options,
)

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ottla.client.administration.admin import Admin
    from ottla.client.connecting.cluster import ClientSettings, Cluster
    from ottla.diagnosis.losses import OnLost
    from ottla.embedded.log import Log
    from ottla.storage.reading.opening import TierPlace

TARGET_VARIABLE = "OTTLA_TARGET"
CLUSTER_FILE = "cluster.json"
CLIENT_SETTINGS = "security/client.properties"
"""Files in the folder of a cluster on this machine (`ottla cluster up`); the second in that of a
secured one.
"""

CONTEXT_VARIABLE = "OTTLA_CONTEXT"

_PARTITION = lazy_pattern(r".+-\d+")
_LOG_DIRECTORY_FILES = ("meta.properties", "__cluster_metadata-0", ".lock")

_POSITIONAL = "ottla.target.positional"
_NAMED = "ottla.target.named"
_CLIENT = "ottla.target.client"
_TEXT = "ottla.target.text"
_NAME = "ottla.target.name"
_DEFAULT = "ottla.target.default"
_CONTEXTS = "ottla.target.contexts"
_NAMING = ("bootstrap", "data_dirs", "context", "has_all_contexts")
"""The parameters that name a target instead of the first argument."""

AT_REST = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "log.cleaner.enable": "false",
    "log.retention.check.interval.ms": str(2**62),
    "offsets.retention.check.interval.ms": str(2**62),
}
"""A command on a directory deletes and compacts only what it was asked to: the settings of the
broker that wrote it may be in a file that the command does not know. The authorizer is set so
that ACLs can be listed and changed; they do not restrict a command on a directory.
"""

REGISTRY_SETTINGS = ("schema.registry.", "basic.auth.", "bearer.auth.")

HOW_TO_NAME = (
    "name a data directory or a broker's HOST:PORT first, or set OTTLA_TARGET, "
    "or see ottla context --help"
)


HASTE_S: Final = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a command works on: either `directories` or `addresses`."""

    text: str
    """The target as a user would write it, to paste into another command."""
    directories: tuple[str, ...] = ()
    addresses: tuple[tuple[str, int], ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    """Client settings by librdkafka's names."""
    registry: Mapping[str, str] = field(default_factory=dict)
    """Settings of a schema registry by the names of Confluent's clients, in a context or a file of
    client settings."""
    tier: "TierPlace | None" = None
    """Where the segments are that the directories no longer have."""
    origin: str = ""
    """What names the target if no argument does, such as "of OTTLA_TARGET"."""
    setup_timeout_s: float | None = HASTE_S
    """Within which a broker must answer a new connection: one that stands still accepts it, and
    would hold a command up for the whole of request.timeout.ms. No request has been sent by then,
    so that no change is in doubt.
    """

    @property
    def is_directory(self) -> bool:
        return bool(self.directories)

    @property
    def pasted(self) -> str:
        """The target in a command to paste; for several directories a placeholder, since only a
        broker serves them.
        """
        return self.text if len(self.directories) < 2 else "HOST:PORT"

    def open(self, *, may_create: bool = False) -> "AbstractContextManager[Cluster]":
        """Opens the target's cluster, in a `with` statement; raises `UserError`.

        A missing directory is an error, unless the command `may_create` it.
        """
        return _opened(self, may_create=may_create)

    def for_clients(self, *, may_create: bool = False) -> "AbstractContextManager[Log | str]":
        """Like `open`, but for clients such as `ottla.Producer`."""
        return _place(self, may_create=may_create)

    def client_settings(self) -> "ClientSettings":
        """Raises `UserError` for a setting that no client has."""
        from ottla.client.connecting.settings import admin_settings

        return replace(admin_settings(self.settings), setup_timeout_s=self.setup_timeout_s)

    def patient(self) -> "Target":
        """For commands that copy records, which rather wait until others lead than end halfway."""
        return replace(self, setup_timeout_s=None)

    @contextmanager
    def admin(self, *, may_create: bool = False) -> "Iterator[Admin]":
        """Like `open`, but for an admin client."""
        from ottla.client.administration.admin import Admin

        with self.open(may_create=may_create) as cluster:
            yield Admin(cluster)

    @contextmanager
    def reading(self, on_lost: "OnLost | None" = None) -> "Iterator[Cluster]":
        """Like `open`, for what changes nothing: a directory that no broker serves is read from its
        files.

        That takes half the time of opening a log, and works beside another Kafka. `on_lost` takes
        lines about damaged files of groups and transactional ids; without it they are an error.
        """
        if self.is_directory:
            self.check_directories()
            _check_holds_log(self.directories)
            if not self.broker_addresses():
                from ottla.client.connecting.read_only import open_to_read
                from ottla.diagnosis.losses import refuse_loss

                losses = refuse_loss if on_lost is None else on_lost
                with open_to_read(self.directories, losses) as cluster:
                    yield cluster
                return
        with self.open() as cluster:
            yield cluster

    def broker_addresses(self) -> tuple[tuple[str, int], ...]:
        """The addresses of the brokers; for a directory, those of the broker that runs on it, or
        none.
        """
        return _addresses_of_owner(self.directories) if self.is_directory else self.addresses

    def with_tier(self, given: Mapping[str, Any]) -> "Target":
        """The same with the tier that `--tier` names; raises `UserError`."""
        from ottla.cli.tiers import tier_of

        return replace(self, tier=tier_of(given, is_directory=self.is_directory))

    @contextmanager
    def named_in_errors(self, name: str | None = None) -> Iterator[None]:
        """Makes errors about a target that the command line does not name say what names it.

        `name` is the first argument, which may be meant as a new directory.
        """
        try:
            yield
        except Exception as error:
            if self.origin and self._is_meant_by(error):
                hint = f"; for a directory {name}, write ./{name}" if name else ""
                error.add_note(f"the target is {self.text}, {self.origin}{hint}")
            raise

    def _is_meant_by(self, error: Exception) -> bool:
        """Whether an error concerns the target itself, and not an unknown name in it."""
        places = (*self.directories, *(address_text(*one) for one in self.addresses))
        return isinstance(error, UnknownNameError) or any(one in str(error) for one in places)

    def check_directories(self) -> None:
        """Raises `UserError` for a directory that does not exist."""
        for path in self.directories:
            if not os.path.isdir(path):
                reason = "not a directory" if os.path.exists(path) else "there is no such directory"
                hint = "a target is a data directory or HOST:PORT"
                if looks_like_host(path):
                    hint += f", such as {path}:9092"
                if path in read_contexts().known:
                    hint = f"of a context, write @{path}"
                raise UserError(f"{path}: {reason}; {hint}")


def check_directory(path: str) -> None:
    """For commands that only work on a directory; raises `UserError`."""
    if os.path.isdir(path):
        return
    if names_brokers(path):
        raise UserError(f"{path} is a broker's address; this command takes a data directory")
    raise UserError(f"{path}: there is no such directory")


@contextmanager
def _opened(target: Target, *, may_create: bool) -> "Iterator[Cluster]":
    from ottla.client.connecting.target import open_target

    with (
        target.for_clients(may_create=may_create) as place,
        open_target(place, target.client_settings()) as cluster,
    ):
        yield cluster


@contextmanager
def _place(target: Target, *, may_create: bool) -> "Iterator[Log | str]":
    """Yields the addresses of brokers, or a directory's log, which is open within the block."""
    if may_create:
        for path in target.directories:
            check_no_host(path)
    else:
        target.check_directories()
        _check_holds_log(target.directories)
    addresses = target.broker_addresses()
    if addresses:
        yield ",".join(address_text(*one) for one in addresses)
        return
    import logging

    from ottla.cli.opening import open_directories

    with (
        # The error that takes a directory offline ends the command, which reports it.
        only_logged_from(logging.CRITICAL, "ottla.storage.files.directory_health"),
        open_directories(target.directories, AT_REST) as log,
    ):
        yield log


def _check_holds_log(directories: Sequence[str]) -> None:
    """Raises `UserError` for a directory of something else, in which opening would create a log."""
    for path in directories:
        names = os.listdir(path)
        if not any(one in _LOG_DIRECTORY_FILES or _PARTITION.fullmatch(one) for one in names):
            raise UserError(
                f"{path}: the directory holds no log; ottla topics create {path} NAME creates one"
            )


def _addresses_of_owner(directories: Sequence[str]) -> tuple[tuple[str, int], ...]:
    """The addresses of the broker that runs on a directory; none if there is no broker, or
    another Kafka's.
    """
    from ottla.base.files import OsFileSystem
    from ottla.storage.directory.owner_note import owner_of

    owner = owner_of(OsFileSystem(), directories[0])
    return () if owner is None else tuple(map(parse_address, owner.addresses))


def parse_target(text: str, settings: Mapping[str, str] | None = None) -> Target:
    """Parses a target as a user writes it; raises `UserError`. `@NAME` is a context."""
    if text.startswith("@"):
        return target_of_context(read_contexts().named(text[1:]), settings)
    if names_brokers(text):
        addresses = tuple(parse_address(one.strip()) for one in text.split(","))
        return Target(text=text, addresses=addresses, settings=settings or {})
    if not text:
        raise UserError(f"the target is empty; {HOW_TO_NAME}")
    if os.path.isfile(os.path.join(text, CLUSTER_FILE)):
        own = client_settings_of(text)
        return Target(text=text, addresses=_of_cluster(text), settings={**own, **(settings or {})})
    return Target(text=text, directories=(text,), settings=settings or {})


def client_settings_of(cluster: FilePath) -> dict[str, str]:
    """Returns the client settings for a secured cluster of `ottla cluster up`; none for another
    one.
    """
    file = os.path.join(cluster, CLIENT_SETTINGS)
    return _settings_in(file) if os.path.isfile(file) else {}


def _settings_in(file: str | None) -> dict[str, str]:
    """The settings of a client's file, but for the brokers, which the target names."""
    settings = read_client_settings(file)
    settings.pop("bootstrap.servers", None)
    return settings


def _of_cluster(folder: str) -> tuple[tuple[str, int], ...]:
    """Returns the brokers that `ottla cluster up` has started; raises `UserError`."""
    try:
        with open(os.path.join(folder, CLUSTER_FILE)) as file:
            found = json.load(file)["addresses"]
        addresses = tuple(parse_address(str(one)) for one in found)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{folder}: its {CLUSTER_FILE} cannot be read: {error}") from error
    if not addresses:
        raise UserError(f"{folder}: no broker has run yet; ottla cluster up --data {folder}")
    return addresses


def target_of_context(context: Context, settings: Mapping[str, str] | None = None) -> Target:
    """Returns the target of a context; `settings` override the context's."""
    if context.target.startswith("@"):
        raise UserError(
            f"context {context.name}: its target is another context; set it to a broker"
        )
    origin = f"of context {context.name}"
    with _noted(f"the target is {origin}"):
        found = parse_target(context.target, {**with_secrets(context.settings), **(settings or {})})
    is_plain = not context.settings
    return replace(found, text=found.text if is_plain else f"@{context.name}", origin=origin)


def default_target(settings: Mapping[str, str] | None = None) -> Target | None:
    """Returns the target of a command that names none: from OTTLA_TARGET, or a context."""
    text = os.environ.get(TARGET_VARIABLE)
    if text:
        with _noted(f"the target is of {TARGET_VARIABLE}"):
            found = parse_target(text, settings)
        return replace(found, origin=f"of {TARGET_VARIABLE}")
    name = os.environ.get(CONTEXT_VARIABLE)
    contexts = read_contexts()
    if name:
        with _noted(f"the context is of {CONTEXT_VARIABLE}"):
            found = target_of_context(contexts.named(name), settings)
        return replace(found, origin=f"{found.origin}, of {CONTEXT_VARIABLE}")
    if contexts.current is None:
        return None
    return target_of_context(contexts.named(contexts.current), settings)


@contextmanager
def _noted(note: str) -> Iterator[None]:
    """Makes errors in the block mention it too."""
    try:
        yield
    except UserError as error:
        error.add_note(note)
        raise


# Click's part


class TargetCommand(ExampleCommand):
    """A command with a target; it decides whether the first argument is the target."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        values, positional = self._separated(ctx, args)
        is_named = any(values.get(one) for one in _NAMING)
        first = positional[0] if positional else None
        may_be_first = not _has_default() and not self._leave_no_target(positional)
        ctx.meta[_POSITIONAL] = not is_named and (
            may_be_first or (first is not None and looks_like_target(first))
        )
        ctx.meta[_NAME] = None if is_named or ctx.meta[_POSITIONAL] else first
        return super().parse_args(ctx, args)

    def _leave_no_target(self, positional: Sequence[str]) -> bool:
        """Whether arguments cannot begin with a target: the others need all of them, or the only
        one is a name.
        """
        if positional and looks_like_host(positional[0]):
            return False
        arguments = [one for one in self.params if isinstance(one, click.Argument)]
        if len(positional) <= sum(one.required for one in arguments):
            return True
        takes_names = any("DIR" not in (one.metavar or "") for one in arguments[1:])
        return len(positional) == 1 and takes_names and not os.path.exists(positional[0])

    def _separated(self, ctx: click.Context, args: list[str]) -> tuple[dict[str, Any], list[str]]:
        """Splits the command line into options by name and arguments, neither of them
        interpreted.
        """
        options = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        probe = click.Command(None, params=list(options), add_help_option=False)
        context = click.Context(probe, parent=ctx, resilient_parsing=True)
        values, positional, _ = probe.make_parser(context).parse_args(list(args))
        return values, positional

    def invoke(self, ctx: click.Context) -> Any:
        target: Target = ctx.params["target"]
        if _DEFAULT in ctx.meta and not ctx.params.get("is_quiet"):
            click.echo(f"no target is named: {target.text}, {ctx.meta[_DEFAULT]}", err=True)
        with deadline(ctx.params.pop("timeout_s", None)), target.named_in_errors(ctx.meta[_NAME]):
            return super().invoke(ctx)


class _TargetArgument(click.Argument):
    """The first argument, if it is the target."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        if ctx.meta.get(_POSITIONAL, True):
            super().add_to_parser(parser, ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        """Completes directories; if the target is named otherwise, the parameter after it."""
        from click.shell_completion import CompletionItem

        if ctx.meta.get(_POSITIONAL, True):
            return [CompletionItem(incomplete, type="dir")]
        others = [one for one in ctx.command.params if isinstance(one, click.Argument)]
        after = others[others.index(self) + 1 :]
        return after[0].shell_complete(ctx, incomplete) if after else []


def target_argument(*, directories: bool = False, contexts: bool = False) -> Callable[[Any], Any]:
    """Adds TARGET and its alternatives to a `TargetCommand`; the parameter is `target: Target`.

    With `directories` a command reads several directories of one broker: `-d` may be repeated. With
    `contexts` a command shows several clusters: `--context` may be repeated, and `contexts_of`
    returns them.
    """
    repeated = "; repeatable" if directories else ""
    several = "; repeatable" if contexts else ""
    return with_options(
        _argument("target", cls=_TargetArgument, metavar="[TARGET]", callback=_resolved),
        click.option(
            "--bootstrap",
            "-b",
            metavar="HOST:PORT",
            is_eager=True,
            expose_value=False,
            callback=_remember,
            help="Broker to use as TARGET.",
        ),
        click.option(
            "--data-dir",
            "-d",
            "data_dirs",
            multiple=True,
            metavar="DIR",
            is_eager=True,
            expose_value=False,
            callback=_remember,
            help=f"Data directory to use as TARGET{repeated}.",
        ),
        click.option(
            "--context",
            multiple=contexts,
            metavar="NAME",
            is_eager=True,
            expose_value=False,
            callback=_remember,
            help=f"Context to use as TARGET, as @NAME is{several}.",
        ),
        *([_all_contexts()] if contexts else ()),
        *_client_settings(),
        click.option(
            "--timeout",
            "timeout_s",
            metavar="TIME",
            callback=_seconds,
            help="Time after which the command exits with 124, such as 30s.",
        ),
    )


def _client_settings() -> tuple[Callable[[Any], Any], ...]:
    return (
        click.option(
            "--client",
            "-X",
            "client_settings",
            multiple=True,
            metavar="KEY=VALUE",
            is_eager=True,
            expose_value=False,
            callback=_remember,
            help="Client setting, such as 'sasl.password=${env:PASSWORD}'; repeatable.",
        ),
        click.option(
            "--client-config",
            "--command-config",
            "client_config",
            type=click.Path(dir_okay=False),
            metavar="FILE",
            is_eager=True,
            expose_value=False,
            callback=_remember,
            help="File of client settings.",
        ),
    )


def _all_contexts() -> Callable[[Any], Any]:
    return click.option(
        "--all-contexts",
        "has_all_contexts",
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_remember,
        help="All contexts; the default if there are several and no target is named.",
    )


def _argument(name: str, **more: Any) -> Callable[[Any], Any]:
    return click.argument(name, required=False, **more)


def _seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
    return None if text is None else parse_seconds("--timeout", text)


def _remember(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    ctx.meta.setdefault(_NAMED, {})[param.name] = value


def _resolved(ctx: click.Context, param: click.Parameter, text: str | None) -> Target | None:
    """Returns the target, wherever it is named; raises `UserError`."""
    found = _found(ctx, text)
    return None if found is None else _with_registry(found)


def _with_registry(found: Target) -> Target:
    """The target with the settings of its registry apart, which a broker's clients do not know."""
    ours = {one: text for one, text in found.settings.items() if one.startswith(REGISTRY_SETTINGS)}
    if not ours:
        return found
    left = {one: text for one, text in found.settings.items() if one not in ours}
    return replace(found, settings=left, registry=ours)


def _found(ctx: click.Context, text: str | None) -> Target | None:
    if ctx.resilient_parsing:
        ctx.meta[_TEXT] = text
        return None
    named: Mapping[str, Any] = ctx.meta.get(_NAMED, {})
    settings = _settings_in(named.get("client_config"))
    given_here = (
        parse_setting(one, "security.protocol=SSL", option="-X")
        for one in named.get("client_settings") or ()
    )
    settings.update(with_secrets(dict(given_here)))
    given = [one for one in _NAMING if named.get(one)]
    if len(given) > 1:
        raise UserError("--bootstrap, --data-dir and --context exclude each other")
    several = {} if text is not None else _several(named, given, settings)
    if several:
        ctx.meta[_CONTEXTS] = several
        return next(iter(several.values()))
    if text is not None:
        return parse_target(text, settings)
    if named.get("bootstrap"):
        addresses = tuple(parse_address(one) for one in named["bootstrap"].split(","))
        return Target(text=named["bootstrap"], addresses=addresses, settings=settings)
    if named.get("data_dirs"):
        paths: Sequence[str] = named["data_dirs"]
        return Target(text=" ".join(paths), directories=tuple(paths), settings=settings)
    if named.get("context"):
        (name,) = _names(named["context"])
        return target_of_context(read_contexts().named(name), settings)
    found = default_target(settings)
    if found is not None:
        return found
    place, ctx.meta[_DEFAULT] = default_place()
    return replace(parse_target(place, settings), origin="the default")


def _several(
    named: Mapping[str, Any], given: Sequence[str], settings: Mapping[str, str]
) -> dict[str, Target]:
    """The contexts of a command that shows several, by name; none if it shows one target."""
    contexts = read_contexts()
    if named.get("has_all_contexts"):
        names = sorted(contexts.known)
        if not names:
            raise UserError("there are no contexts yet: ottla context add prod HOST:PORT")
    elif "has_all_contexts" in named and not given:
        by_variable = os.environ.get(TARGET_VARIABLE) or os.environ.get(CONTEXT_VARIABLE)
        names = [] if by_variable else sorted(contexts.known)
    else:
        names = list(dict.fromkeys(_names(named.get("context") or ())))
    if len(names) < 2 and not named.get("has_all_contexts"):
        return {}
    for one in names:
        if one in contexts.known and not NAME.fullmatch(one):
            raise UserError(
                f"{contexts.path}: context {one}: a name is letters, digits, dots, dashes and "
                "underscores; rename it in the file"
            )
    return {one: _with_registry(target_of_context(contexts.named(one), settings)) for one in names}


def _names(context: str | Sequence[str]) -> list[str]:
    """The names that `--context` was given."""
    return [one.removeprefix("@") for one in ([context] if isinstance(context, str) else context)]


def contexts_of(ctx: click.Context) -> Mapping[str, Target]:
    """The contexts that the command line names if it names several, or else none."""
    found: Mapping[str, Target] = ctx.meta.get(_CONTEXTS, {})
    return found


def completed_target(ctx: click.Context) -> Target | None:
    """Returns the target of a command line that a shell completes, as far as it is complete."""
    named: Mapping[str, Any] = ctx.meta.get(_NAMED, {})
    settings = _settings_in(named.get("client_config"))
    if ctx.meta.get(_TEXT):
        return parse_target(ctx.meta[_TEXT], settings)
    for text in (named.get("bootstrap"), *(named.get("data_dirs") or ())):
        if text:
            return parse_target(text, settings)
    if named.get("context"):
        return parse_target("@" + _names(named["context"])[0], settings)
    return default_target(settings)


def _has_default() -> bool:
    """Whether a default target is set."""
    if os.environ.get(TARGET_VARIABLE) or os.environ.get(CONTEXT_VARIABLE):
        return True
    return read_contexts().current is not None


def looks_like_target(text: str) -> bool:
    """Whether a word that could be a topic's name is a target."""
    if "/" in text or text.startswith("@") or names_brokers(text):
        return True
    return any(os.path.exists(os.path.join(text, name)) for name in _LOG_DIRECTORY_FILES)
