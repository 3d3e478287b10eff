"""A console over something, asked without a socket."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from html import unescape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from starlette.testclient import TestClient

import ottla
from ottla.cli.console.console_command import console_target
from ottla.cli.target import Target, parse_target
from ottla.console.access import AccessPolicy
from ottla.console.app import make_app
from ottla.console.decoding import Decodings
from ottla.console.state import ConsoleState
from ottla.console.state_directory import StateDirectory
from ottla.console.targets import Place

FEW_LOGS = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
}
"""Internal topics of one partition each: fifty take a while to make."""
AUTHORIZER = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}
HOST = "http://127.0.0.1:8095"
PLACES = (
    "/",
    "/cluster",
    "/topics",
    "/topics?figures=1&internal=1&sort=size",
    "/topics-figures?names=orders",
    "/topics/orders",
    "/topics/orders/log/0",
    "/topics/orders/log/0?scale=offsets",
    "/topics/orders/messages",
    "/topics/orders/messages?text=tea&order=oldest",
    "/topics/orders/messages/0/0",
    "/topics/orders/tail",
    "/topics/orders/produce",
    "/topics/orders/settings",
    "/topics/orders/settings?all=1",
    "/topics/orders/grow?count=5",
    "/topics/orders/empty?before=end",
    "/topics/orders/copy?new=again",
    "/topics/orders/delete",
    "/create-topic",
    "/groups",
    "/group?name=billing",
    "/queues",
    "/transactions",
    "/transactions?topic=orders",
    "/users",
    "/users/set?user=ana",
    "/acls",
    "/acls/add",
    "/acls/remove",
    "/acls/may",
    "/quotas",
    "/quotas?explain=1&user=ana",
    "/quotas/set?user=ana&producer_byte_rate=1M",
    "/settings",
    "/settings?q=retention",
    "/jobs",
    "/tables",
    "/tiers",
    "/audit",
)
"""Every page, of a console over what `fill` makes."""


def fill(log: ottla.Log) -> None:
    """A topic with messages, and a group that has read some."""
    log.create_topic("orders", partitions=2)
    for number in range(6):
        log.append(
            "orders",
            b'{"tea": %d, "table": {"number": %d}}' % (number, number % 3),
            b"table %d" % number,
            partition=number % 2,
            headers=[("waiter", b"Eva")],
        )
    with ottla.Admin(log) as admin:
        admin.alter_group_offsets("billing", {ottla.TopicPartition("orders", 0): 1})


@dataclass
class Console:
    """What a stream is made of, where it is tried without the application."""

    state: ConsoleState
    place: Place


class Browser:
    """Asks as a browser of the console's own pages does."""

    def __init__(self, client: TestClient, console: Console) -> None:
        self.client = client
        self.console = console

    def get(self, path: str, **more: Any) -> Any:
        return self.client.get(path, **more)

    def text(self, path: str) -> str:
        answer = self.get(path)
        assert answer.status_code == 200, answer.text
        return str(answer.text)

    def json(self, path: str) -> Any:
        mark = "&" if "?" in path else "?"
        return self.get(f"{path}{mark}format=json").json()

    def form_token(self, path: str = "/topics/orders/produce") -> str:
        found = re.search(r'name="form_token" value="([0-9a-f]+)"', self.get(path).text)
        assert found is not None
        return found[1]

    def post(self, path: str, fields: dict[str, str], **more: Any) -> Any:
        """The form of a page, with its token."""
        fields = {"form_token": self.form_token(), **fields}
        headers = {"origin": HOST, "sec-fetch-site": "same-origin", **more.pop("headers", {})}
        return self.client.post(path, data=fields, headers=headers, **more)

    def change(self, path: str, fields: dict[str, str]) -> Any:
        """Sends the form of a change, and confirms what is then shown, as a person does."""
        shown = self.post(path, fields)
        return self.confirm(path, shown) if 'name="confirm"' in shown.text else shown

    def confirm(self, path: str, shown: Any, **other: str) -> Any:
        """Sends the form of a preview; types what it asks for."""
        form = shown.text.partition('class="stack confirm">')[2].partition("</form>")[0]
        hidden = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)">', form)
        typed = re.search(r'<label for="typed">Type <code>(.*?)</code>', form, re.DOTALL)
        fields = {name: unescape(value) for name, value in hidden}
        if typed is not None:
            fields["typed"] = unescape(typed[1])
        return self.client.post(path, data={**fields, **other}, headers={"origin": HOST})


@contextmanager
def console_over(
    target: str | Path | Target,
    *,
    policy: AccessPolicy | None = None,
    client: dict[str, str] | None = None,
    decodings: Decodings | None = None,
    **state: Any,
) -> Iterator[Browser]:
    """`state` are fields of `ConsoleState`, `client` the settings of its connections."""
    if not isinstance(target, Target):
        target = parse_target(str(target), client)
    with TemporaryDirectory() as directory:
        state = {"directory": StateDirectory(directory), **state}
        shown = replace(console_target(target), decodings=decodings or Decodings())
        made = ConsoleState(target=shown, **state)
        app = make_app(made, policy or AccessPolicy(secret=b"of this test"))
        place = Place(made.target, made.target.settings)
        try:
            with TestClient(app, base_url=HOST) as found:
                yield Browser(found, Console(made, place))
        finally:
            place.close()


def run_shown(command: str, directory: Path) -> str:
    """Runs a command that the console shows, in bash, as a person who pastes it does."""
    ottla_of_this = directory / "bin" / "ottla"
    ottla_of_this.parent.mkdir(exist_ok=True)
    ottla_of_this.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ottla "$@"\n')
    ottla_of_this.chmod(0o755)
    path = f"{ottla_of_this.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, env={**os.environ, "PATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
