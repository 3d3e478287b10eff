"""The commands that the console shows: right when they are pasted, whatever the names are."""

import subprocess

import pytest

from ottla.console.commands import Command, shell_word

HOSTILE = (
    "orders", "-x", "--yes", "two words", "it's", '"quoted"', "$(id) `id` $HOME", "a;b|c&d>e<f",
    "<script>alert(1)</script>", "*?[a]", "~", "#", "!!", "\\", "\\n", "a\nb", "\t", "\x1b[31mred",
    "\u202egnp.exe", "tea é 茶 🫖", "", " ", "a\r\nb'c\\", "x\x7f0", "%s%d\\033",
)  # fmt: skip


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_word_is_the_same_text_after_a_shell_has_read_it(shell: str) -> None:
    """`sh` is dash here, which does not know `$'...'`: words that need it are left to bash."""
    words = [one for one in HOSTILE if shell == "bash" or "$'" not in shell_word(one)]
    script = "printf '%s\\0' " + " ".join(map(shell_word, words))
    found = subprocess.run([shell, "-c", script], capture_output=True, check=True).stdout
    assert found.decode().split("\0")[:-1] == words


def test_a_command_shows_no_character_that_a_terminal_obeys() -> None:
    for text in HOSTILE:
        assert all(one.isprintable() or one == "\n" for one in shell_word(text)), text
    assert shell_word("a\0b") == "ab"


def test_names_that_look_like_options_come_after_two_dashes() -> None:
    command = Command(verb=("topics", "delete"), options=("--yes",), arguments=("-f", "orders"))
    assert command.text(("localhost:9092", "-X", "sasl.username=ana b")) == (
        "ottla topics delete localhost:9092 -X 'sasl.username=ana b' --yes -- -f orders"
    )


def test_input_is_printed_as_it_is() -> None:
    command = Command(verb=("produce",), arguments=("t",), input="-n \\033 %s\n'")
    line = command.text(("data/",)).replace("ottla produce data/ t", "cat")
    found = subprocess.run(["bash", "-c", line], capture_output=True, check=True).stdout
    assert found.decode() == command.input
