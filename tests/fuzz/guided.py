"""One target under atheris, in a process that the fuzzer ends: see `__main__`."""

import sys

import atheris

with atheris.instrument_imports(include=["ottla"]):
    from ottla.codec import schema
    from tests.fuzz.targets import target


def main(name: str, options: list[str]) -> None:
    """Never returns."""
    compile_reader = schema.compile_reader
    # Readers are written and compiled while we run, where no import hook sees them.
    schema.compile_reader = lambda *shape: atheris.instrument_func(compile_reader(*shape))
    atheris.Setup([sys.argv[0], *options], target(name))
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
