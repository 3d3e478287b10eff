"""Each example that a help opens with is run as it stands there, and does what it is for."""

import re
import shutil
import socket

import pytest

from ottla.cli.terminal import ExampleCommand
from tests.docs.help_surroundings import Surroundings, make_template
from tests.unit.cli.test_help import COMMANDS, GROUPS

ENDLESS = re.compile(
    r".* --follow|ottla console |ottla serve(?!.* --background)|ottla quick(?!.* -- )"
)
NOT_RUN = {
    "ottla load data/ orders --into": "Spark, of which tests/spark has the one session",
    "ottla users set zookeeper://": "ZooKeeper: tests/integration/test_zookeeper_logins.py",
    "ottla cluster ": "brokers and a ZooKeeper: tests/integration/cli/test_cluster.py",
    "ottla metadata ": "controllers of Kafka: tests/golden/test_golden_metadata_follow.py",
    "ottla bench data/ -n 1000000": "a gigabyte is written and read",
}
"""How examples begin that need more than a test of every change may have, and what that is."""


def is_endless(example: str) -> bool:
    return ENDLESS.match(example) is not None


def all_examples() -> dict[str, tuple[str, ...]]:
    """By command; those of a noun are its own."""
    found = {f"{name} (noun)": tuple(one.examples) for name, one in GROUPS.items()}
    for name, command in COMMANDS.items():
        assert isinstance(command, ExampleCommand)
        found[name] = command.examples
    return found


def runnable(examples: tuple[str, ...]) -> list[str]:
    return [one for one in examples if not one.startswith(tuple(NOT_RUN)) and is_equipped(one)]


def is_equipped(example: str) -> bool:
    """Whether this machine has what the example uses besides Ottla."""
    if "kcat" in example and shutil.which("kcat") is None:
        return False
    return "[::1]" not in example or has_ipv6()


def has_ipv6() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


EXAMPLES = {name: found for name, lines in all_examples().items() if (found := runnable(lines))}


def test_what_is_not_run_is_an_example_still() -> None:
    known = [one for lines in all_examples().values() for one in lines]
    for start in NOT_RUN:
        assert any(one.startswith(start) for one in known), start


@pytest.fixture(scope="module")
def surroundings(tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    folder = tmp_path_factory.mktemp("examples")
    make_template(folder / "template")
    return Surroundings(folder / "here", folder / "template")


@pytest.mark.slow
@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_of_a_help_does_what_it_is_for(name: str, surroundings: Surroundings) -> None:
    for example in EXAMPLES[name]:
        with surroundings.of(example) as prepared:
            if is_endless(example):
                done = prepared.run_until_stopped(example)
                assert done.code in (0, 130), (example, done)
            else:
                done = prepared.run(example)
                assert done.code == 0, (example, done)
