"""Classes of `ottla.base.values.dataclass` compared with those of Python's own."""

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import re
from collections.abc import Callable
from dataclasses import KW_ONLY, FrozenInstanceError, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

import ottla
from ottla.base import values

SOURCES = Path(ottla.__file__).parent
IMPORTS_OURS = re.compile(r"^from ottla\.base\.values import dataclass$", re.MULTILINE)


def with_both(written: Callable[[Any], type], **options: Any) -> list[type]:
    """The classes that `written` makes with Python's `dataclass`, and with ours."""
    return [written(one.dataclass(**{"slots": True, **options})) for one in (dataclasses, values)]


def of_all_fields(dataclass: Any) -> type:
    @dataclass
    class Tea:
        plain: int
        counted: int = 1
        made: list[int] = field(default_factory=list)
        hidden: int = field(default=3, init=False)
        kept: dict[str, int] = field(default_factory=dict, init=False, repr=False)
        untouched: int = field(init=False, compare=False, repr=False)
        shared: ClassVar[int] = 7
        _: KW_ONLY
        word: str
        last: str = "x"

        def __post_init__(self) -> None:
            object.__setattr__(self, "untouched", self.plain + self.shared)

    return Tea


@pytest.mark.parametrize("frozen", [True, False])
def test_values_are_made_compared_printed_and_copied_as_those_of_python(frozen: bool) -> None:
    for call in (
        lambda one: one(1, word="a"),
        lambda one: one(1, 2, [3], word="a", last="y"),
        lambda one: one(1, 2, [3], word="a") == one(1, 2, [3], word="a"),
        lambda one: one(1, word="a") == one(2, word="a"),
        lambda one: (one(1, word="a").untouched, one(1, word="a").shared, one(1, word="a").hidden),
        lambda one: replace(one(1, word="a"), plain=5),
        lambda one: dataclasses.asdict(one(1, word="a")),
        lambda one: copy.deepcopy(one(1, word="a")),
        lambda one: copy.copy(one(1, word="a")),
        lambda one: inspect.signature(one),
        lambda one: [(it.name, it.default, it.init, it.kw_only, it.type) for it in fields(one)],
        lambda one: (one.__match_args__, one.__slots__, one.__name__, one.__qualname__),
        lambda one: dataclasses.is_dataclass(one),
    ):
        pythons, ours = with_both(of_all_fields, frozen=frozen)
        assert repr(call(ours)) == repr(call(pythons))


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("wrong", [{}, {"plain": 1}, {"plain": 1, "word": "a", "more": 2}])
def test_wrong_arguments_are_refused_in_the_words_of_python(
    wrong: dict[str, Any], frozen: bool
) -> None:
    said = []
    for one in with_both(of_all_fields, frozen=frozen):
        with pytest.raises(TypeError) as caught:
            one(**wrong)
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.mark.parametrize("frozen", [True, False])
def test_a_class_with_many_values_has_a_compiled_init_that_does_the_same(frozen: bool) -> None:
    _, ours = with_both(of_all_fields, frozen=frozen)
    first = [ours(1, 2, [3], word="a", last="y"), ours(1, word="b")]
    assert not inspect.isfunction(vars(ours)["__init__"])
    for _ in range(values.FEW):
        ours(1, word="a")
    assert inspect.isfunction(vars(ours)["__init__"])
    assert first == [ours(1, 2, [3], word="a", last="y"), ours(1, word="b")]
    assert first[1].kept is not ours(1, word="b").kept


@pytest.mark.parametrize("frozen", [True, False])
def test_a_field_that_is_named_twice_is_refused_in_the_words_of_python(frozen: bool) -> None:
    said = []
    for one in with_both(of_all_fields, frozen=frozen):
        with pytest.raises(TypeError) as caught:
            one(1, plain=2, word="a")
        said.append(str(caught.value))
        with pytest.raises(TypeError) as caught:
            one(1, 2, [3], 4, word="a")
        said.append(str(caught.value))
    assert said[:2] == said[2:]


def test_frozen_values_hash_and_cannot_be_changed() -> None:
    def written(dataclass: Any) -> type:
        @dataclass
        class Cup:
            size: int

        return Cup

    for cup in with_both(written, frozen=True):
        assert hash(cup(1)) == hash(cup(1))
        with pytest.raises(FrozenInstanceError, match="cannot assign to field 'size'"):
            cup(1).size = 2
        with pytest.raises(FrozenInstanceError, match="cannot delete field 'size'"):
            del cup(1).size
        with pytest.raises((FrozenInstanceError, TypeError)):
            cup(1).other = 2
    for cup in with_both(written, frozen=False):
        with pytest.raises(TypeError, match="unhashable"):
            hash(cup(1))
    for cup in with_both(written, frozen=True, eq=False):
        assert cup(1) != cup(1)
        assert hash(cup(1))


def test_what_a_class_defines_itself_stays() -> None:
    def written(dataclass: Any) -> type:
        @dataclass
        class Cup:
            size: int

            def __eq__(self, other: object) -> bool:
                return True

            def __repr__(self) -> str:
                return "cup"

        return Cup

    for frozen in (True, False):
        pythons, ours = with_both(written, frozen=frozen)
        for cup in (pythons, ours):
            assert repr(cup(1)) == "cup"
            assert cup(1) == cup(2)
        assert (ours.__hash__ is None) == (pythons.__hash__ is None) == (not frozen)


def test_a_class_has_the_fields_of_those_that_it_inherits_from() -> None:
    def written(dataclass: Any) -> type:
        @dataclass
        class Vessel:
            size: int
            color: str = "blue"

        @dataclass
        class Cup(Vessel):
            color: str = "red"
            handles: int = 1

        return Cup

    for frozen in (True, False):
        pythons, ours = with_both(written, frozen=frozen)
        assert repr(ours(3)) == repr(pythons(3))
        assert ours(3) == ours(3, "red", 1) != ours(3, "blue")
        assert inspect.signature(ours) == inspect.signature(pythons)
        assert ours.__slots__ == pythons.__slots__
        assert repr(fields(ours)) == repr(fields(pythons))
        assert repr(ours.__dataclass_params__) == repr(pythons.__dataclass_params__)


def test_a_match_statement_takes_a_value_apart() -> None:
    cup = with_both(of_all_fields, frozen=True)[1]
    match cup(1, 2, word="a"):
        case cup(plain, counted, word=word):  # type: ignore[misc]
            assert (plain, counted, word) == (1, 2, "a")
        case _:
            pytest.fail("it does not match")


@values.dataclass(frozen=True, slots=True, kw_only=True)
class Pickled:
    size: int
    colors: list[str] = field(default_factory=list)


def test_values_go_through_pickle() -> None:
    assert pickle.loads(pickle.dumps(Pickled(size=1, colors=["red"]))) == Pickled(
        size=1, colors=["red"]
    )


def test_nothing_is_compiled_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = []
    monkeypatch.setattr(
        dataclasses, "_process_class", lambda cls, *_: compiled.append(cls.__name__) or cls
    )
    with_both(of_all_fields, frozen=True)
    assert compiled == ["Tea"]  # Python's alone


@pytest.mark.slow
def test_every_class_of_the_package_has_the_signature_that_python_gives_it() -> None:
    found = 0
    for module in pkgutil.walk_packages(ottla.__path__, "ottla."):
        if not IMPORTS_OURS.search(source_of(module.name)):
            continue
        try:
            loaded = importlib.import_module(module.name)
        except ImportError:
            continue  # An extra is missing.
        for one in vars(loaded).values():
            if not isinstance(one, type) or one.__module__ != module.name:
                continue
            if not dataclasses.is_dataclass(one) or not hasattr(one, "__slots__"):
                continue
            found += 1
            expected = [it.name for it in fields(one) if it.init]
            if "__init__" in vars(one) and one.__dataclass_params__.init:  # type: ignore[attr-defined]
                assert sorted(inspect.signature(one).parameters) == sorted(expected), one
            for name in vars(one):
                getattr(one, name)  # Python can generate it.
    assert found > 400


def source_of(module: str) -> str:
    path = SOURCES.parent.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return path.read_text() if path.exists() else ""
