"""`ottla console`: a cluster or a data directory in a browser."""

import gc
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ottla.base.addresses import parse_address
from ottla.base.errors import UserError
from ottla.base.extras import needed_for
from ottla.cli.console.decoding_options import decoding_options, decodings
from ottla.cli.output import Output, output_options
from ottla.cli.settings_files import is_secret
from ottla.cli.target import Target, TargetCommand, contexts_of, target_argument
from ottla.cli.terminal import Stopping, with_options

if TYPE_CHECKING:
    from ottla.console.access import AccessPolicy
    from ottla.console.serving import ConsoleServer
    from ottla.console.targets import ConsoleTarget

DEFAULT_ADDRESS = "127.0.0.1:8095"
TOKEN_VARIABLE = "OTTLA_CONSOLE_TOKEN"
SETUP_S = 1.2
"""A page waits no longer for brokers that stand still, and for a controller that does: it is to be
there within three seconds.
"""
COLLECT_AFTER = 100_000
"""Objects allocated and not freed before Python looks for cycles."""
USER, MECHANISM = "sasl.username", "sasl.mechanism"

console_options = with_options(
    click.option(
        "--read-only",
        "is_read_only",
        is_flag=True,
        help="Show everything, and change nothing.",
    ),
    click.option(
        "--token",
        envvar=TOKEN_VARIABLE,
        metavar="TEXT",
        default="",
        help="Token that browsers must present; by default one is generated if other machines can "
        "reach the console.",
    ),
    click.option(
        "--name",
        "names",
        multiple=True,
        metavar="HOST",
        help="Another host name under which browsers reach the console; repeatable.",
    ),
    click.option(
        "--state",
        "state",
        type=click.Path(path_type=Path, file_okay=False),
        metavar="DIR",
        help="Directory of the audit log and of lags; by default ~/.local/state/ottla/console.",
    ),
    click.option(
        "--table",
        "tables",
        multiple=True,
        metavar="DIR",
        help="Table whose loads are shown; repeatable.",
    ),
)


@click.command(
    "console",
    cls=TargetCommand,
    examples=(
        "ottla console data/",
        "ottla console localhost:9092 --read-only",
        "ottla console --context prod --context test",
        "ottla console localhost:9092 --registry http://localhost:8081 --schema bills=bills.avsc",
        "ottla console localhost:9092 --listen 0.0.0.0:8095 --name broker.example",
    ),
)
@target_argument(directories=True, contexts=True)
@click.option(
    "--listen",
    default=DEFAULT_ADDRESS,
    show_default=True,
    metavar="HOST:PORT",
    help="Address to listen on; port 0 is any free one.",
)
@console_options
@decoding_options
@click.option(
    "--tls-certificate", "certificate", type=click.Path(path_type=Path), metavar="FILE",
    help="PEM file of a certificate, to serve HTTPS.",
)  # fmt: skip
@click.option(
    "--tls-key", "key", type=click.Path(path_type=Path), metavar="FILE",
    help="PEM file of the certificate's key, if separate.",
)  # fmt: skip
@click.option("--until-eof", is_flag=True, hidden=True, help="Exit when standard input is closed.")
@output_options("Print the link only.")
def console_command(target: Target, until_eof: bool, output: Output, **given: Any) -> None:
    """Show TARGET in a browser: topics, logs, messages, groups, transactions, settings and jobs.

    TARGET is a broker, or a data directory, even while a broker runs on it. Several contexts are
    shown side by side; without TARGET these are all contexts, if there are several. Prints the
    link, and runs until SIGTERM or Ctrl-C. A change is shown with the command that does the same,
    done once it is confirmed, and noted in the audit log; with --read-only there are none. With -X
    security.protocol=SASL_SSL and no user, people sign in as users of the broker, with those users'
    rights.
    """
    several = contexts_of(click.get_current_context())
    if not several:
        target.check_directories()
    targets = several or {"": target}
    shown = {name: _decoding_target(one, given) for name, one in targets.items()}
    server = open_console(shown, **given)
    with Stopping(server.stop):
        if until_eof:
            threading.Thread(target=_stop_at_eof, args=(server,), daemon=True).start()
        if output.is_brief:
            output.names([server.link])
        else:
            output.say(f"console {server.link}", {"link": server.link, "pid": os.getpid()})
        # Pages create hardly any cycles, and a full collection costs a list of a thousand topics
        # more time than everything else.
        gc.freeze()
        gc.set_threshold(COLLECT_AFTER)
        server.run()


def _decoding_target(target: Target, given: Mapping[str, Any]) -> "ConsoleTarget":
    """The console's target with the decodings of the options and of its settings."""
    from dataclasses import replace

    return replace(console_target(target), decodings=decodings(given, target.registry))


def open_console(
    targets: "Mapping[str, ConsoleTarget]", *, listen: str, **given: Any
) -> "ConsoleServer":
    """Opens the console of the targets by their contexts' names, which is empty for one target;
    `given` are the other options.

    Raises `UserError`, also without the extra.
    """
    import ottla

    with needed_for("ottla console"):
        from ottla.console.access import policy_for
        from ottla.console.lags import LagHistory
        from ottla.console.serving import Certificate, ConsoleServer
        from ottla.console.state import ConsoleState
        from ottla.console.state_directory import StateDirectory

    certificate, key = given["certificate"], given["key"]
    pem = None
    if certificate is not None:
        pem = Certificate(certificate=str(certificate), key=None if key is None else str(key))
    directory = StateDirectory(given["state"] or default_state_path())
    states = [
        ConsoleState(
            target=target,
            directory=directory,
            version=ottla.__version__,
            is_read_only=given["is_read_only"],
            tables=given["tables"],
            name=name,
            lags=LagHistory(directory, target.text),
            clusters=tuple(one for one in targets if one),
        )
        for name, target in targets.items()
    ]

    def policy(address: tuple[str, int]) -> "AccessPolicy":
        return policy_for(
            address, token=given["token"], names=given["names"], is_encrypted=pem is not None
        )

    shown = states if "" not in targets else states[0]
    return ConsoleServer(shown, parse_address(listen), policy, pem)


def default_state_path() -> Path:
    """Where a user's programs keep what outlives them."""
    home = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local/state")
    return Path(home, "ottla", "console")


def console_target(target: Target) -> "ConsoleTarget":
    """Converts a command's target to the console's; raises `UserError`."""
    from dataclasses import replace

    from ottla.client.connecting.cluster import ClientSettings
    from ottla.client.connecting.security import parse_security
    from ottla.console.targets import ConsoleTarget

    settings = dict(target.settings)
    has_sign_in = _is_without_user(settings)
    if has_sign_in and target.is_directory:
        raise UserError(
            f"{target.text}: signing in needs a broker; name its HOST:PORT, since files are read "
            f"here regardless of users' rights"
        )
    if has_sign_in:
        # The user is the one who signs in; the other settings apply to everyone.
        settings |= {USER: "-", MECHANISM: settings.get(MECHANISM, "PLAIN")}
    security = parse_security(settings)
    if has_sign_in:
        mechanism = target.settings.get(MECHANISM, "").upper()
        security = replace(security, username="", mechanism=mechanism)
    return ConsoleTarget(
        text=target.pasted,
        options=_command_options(target, has_sign_in=has_sign_in),
        directories=target.directories,
        addresses=target.broker_addresses,
        settings=ClientSettings(
            client_id="ottla-console",
            request_timeout_s=10.0,
            setup_timeout_s=SETUP_S,
            patience_s=2.0,
            waits_once=True,
            security=security,
        ),
        open_at_rest=target.open,
        has_sign_in=has_sign_in,
    )


def _command_options(target: Target, *, has_sign_in: bool) -> tuple[str, ...]:
    """The settings of connections as options of a command; a context has them already."""
    if target.text.startswith("@"):
        return ()
    texts = []
    for name, value in target.settings.items():
        if is_secret(name):
            # The one who signs in gives a password of their own.
            if has_sign_in:
                continue
            value = "${env:PASSWORD}"
        texts += ["-X", f"{name}={value}"]
    return tuple(texts)


def _is_without_user(settings: Mapping[str, str]) -> bool:
    """Whether the settings require a login but name no user."""
    named = (USER, "sasl.jaas.config", "sasl.oauthbearer.token.endpoint.url")
    protocol = settings.get("security.protocol", "").upper()
    return protocol.startswith("SASL") and not any(settings.get(one) for one in named)


def _stop_at_eof(server: "ConsoleServer") -> None:
    """Stops when the process that started this one has ended, for whatever reason."""
    import sys

    sys.stdin.buffer.read()
    server.stop()
