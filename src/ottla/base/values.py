"""`dataclass`: like Python's, but each method is generated when it is first used.

Python writes and compiles up to six functions for a dataclass when its module is imported. A short
command imports 160 dataclasses, creates a few values of 60, and prints or compares hardly any:
their methods were a third of its processor time. Here the class is created at once, with its slots,
and a descriptor stands for each generated attribute until its first use. `__init__` is compiled
only for a class with more than a few values.

A class that mypyc compiled (`setup.py`) has its own slots, and is left to Python's `dataclass`.
"""

import dataclasses
import functools
from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError
from typing import TYPE_CHECKING, Any, ClassVar, get_origin

PARTS = {"repr": ("__repr__",), "eq": ("__eq__", "__hash__")}
"""The methods that Python generates for each option of `dataclass`, besides `init`."""

FEW = 64
"""Values of a class that are created before its `__init__` is compiled, which takes as long as
creating more than a hundred of them without it.
"""

FACTS = ("__match_args__", "__dataclass_params__", "__dataclass_fields__")


class _Factory:
    def __repr__(self) -> str:
        return "<factory>"


MADE = _Factory()
"""The default of an argument whose field has a default factory."""

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(**options: Any) -> Callable[[type], type]:
        """Like `dataclasses.dataclass`, which is used directly without slots or with an order."""
        pythons = dataclasses.dataclass(**options)
        if not options.get("slots") or options.get("order"):
            return pythons

        def decorated(written: type) -> type:
            is_compiled = hasattr(written, "__mypyc_attrs__")
            return pythons(written) if is_compiled else _with_slots(written, options)

        return decorated


class _Generated:
    """A descriptor that generates an attribute of the class at its first use."""

    __slots__ = ("generate", "name")

    def __init__(self, name: str, generate: Callable[[str], Any]) -> None:
        self.name = name
        self.generate = generate

    def __get__(self, instance: Any, owner: type) -> Any:
        found = self.generate(self.name)
        return found.__get__(instance, owner) if hasattr(found, "__get__") else found


class _Initializer:
    """A descriptor for `__init__`, which initializes the first values without compiled code."""

    __slots__ = ("created", "initialize", "is_frozen", "made")

    def __init__(self, is_frozen: bool) -> None:
        self.is_frozen = is_frozen
        self.created = 0
        self.initialize: Callable[..., None] | None = None

    def __set_name__(self, made: type, name: str) -> None:
        self.made = made

    def __get__(self, instance: Any, owner: type) -> Any:
        self.created += 1
        if instance is None or self.created > FEW:
            return self.compiled().__get__(instance, owner)
        if self.initialize is None:
            self.initialize = _uncompiled_initializer(self)
        return functools.partial(self.initialize, instance)

    def compiled(self) -> Any:
        """Replaces this descriptor by the function that Python would write."""
        compiled = _initializer(self.made, self.is_frozen)
        setattr(self.made, "__init__", compiled)  # noqa: B010
        return compiled


def _uncompiled_initializer(standing: _Initializer) -> Callable[..., None]:
    """Returns a function that does the same as `__init__`, in a loop over the fields."""
    made = standing.made
    fields = dataclasses.fields(made)
    arguments = {one.name for one in fields if one.init}
    positional = [one.name for one in fields if one.init and not one.kw_only]
    assigned = [one for one in fields if one.init or _has_default(one)]
    required = {one.name for one in assigned if not _has_default(one)}
    is_followed = hasattr(made, "__post_init__")
    assign = object.__setattr__ if standing.is_frozen else setattr

    def initialize(self: Any, /, *values: Any, **named: Any) -> None:
        given = dict(zip(positional, values, strict=False)) | named
        is_each_named_once = len(given) == len(values) + len(named)
        if not (is_each_named_once and required <= given.keys() <= arguments):
            standing.compiled()(self, *values, **named)  # raises the error in Python's words
            return
        for field in assigned:
            if field.name in given:
                value = given[field.name]
            elif field.default is not MISSING:
                value = field.default
            else:
                value = field.default_factory()  # type: ignore[operator]
            assign(self, field.name, value)
        if is_followed:
            self.__post_init__()

    return initialize


def _has_default(field: "dataclasses.Field[Any]") -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _with_slots(written: type, options: dict[str, Any]) -> type:
    """Returns the class with a slot for each of its fields."""
    members = dict(written.__dict__)
    fields = [name for name, kind in written.__annotations__.items() if not _is_shared(kind)]
    inherited = {slot for base in written.__mro__[1:-1] for slot in _slots_of(base)}
    for name in (*fields, "__dict__", "__weakref__"):
        members.pop(name, None)
    members["__slots__"] = tuple(name for name in fields if name not in inherited)

    def generate(name: str) -> Any:
        generated = _generated(written, options, name)
        setattr(made, name, generated)
        return generated

    if members.get("__hash__", MISSING) is None:  # Python's mark of a class with `__eq__`
        del members["__hash__"]
    if options.get("eq", True) and not options.get("frozen"):
        members.setdefault("__hash__", None)
    if options.get("init", True):
        members.setdefault("__init__", _Initializer(bool(options.get("frozen"))))
    parts = [name for part, names in PARTS.items() if options.get(part, True) for name in names]
    for name in (*parts, *FACTS):
        members.setdefault(name, _Generated(name, generate))
    if options.get("frozen"):
        members |= {"__setattr__": _refuse, "__delattr__": _refuse}
        members = {"__getstate__": _values, "__setstate__": _restore} | members
    made = type(written)(written.__name__, written.__bases__, members)
    made.__qualname__ = written.__qualname__
    return made


def _generated(written: type, options: dict[str, Any], name: str) -> Any:
    """Makes Python generate only this attribute, in a copy of the class."""
    if name == "__dataclass_params__":
        return _parameters(**options)
    members = {"__doc__": "", **written.__dict__}
    for one in ("__dict__", "__weakref__"):
        members.pop(one, None)
    parts = {part: name in names for part, names in PARTS.items()} | {"init": False}
    if name != "__dataclass_fields__":
        if written.__bases__ == (object,):
            # Python would compile the methods that refuse changes of frozen values, too. With bases
            # it insists on them.
            parts |= {"frozen": False, "unsafe_hash": name == "__hash__", "eq": name == "__eq__"}
        copy = type(written)(written.__name__, written.__bases__, members)
        copy.__qualname__ = written.__qualname__
        return dataclasses.dataclass(**options | parts)(copy).__dict__[name]
    # Python compiles nothing for a class that neither inherits nor is frozen.
    copy = type(written)(written.__name__, (), members)
    own: Any = dataclasses.dataclass(**options | parts | {"slots": False, "frozen": False})(copy)
    inherited: dict[str, Any] = {}
    for base in written.__mro__[-1:0:-1]:
        inherited |= getattr(base, name, {})
    return inherited | own.__dict__[name]


@functools.cache
def _parameters(**options: Any) -> Any:
    """Returns `__dataclass_params__`, the same for all classes with these options."""
    return dataclasses.dataclass(**options)(type("Any", (), {"__doc__": ""})).__dict__[
        "__dataclass_params__"
    ]


def _initializer(made: type, is_frozen: bool) -> Any:
    """Returns `__init__` as Python writes it, without the other methods."""
    names: dict[str, Any] = {"_set": object.__setattr__, "_missing": MADE}
    positional, keywords, lines = ["self"], ["*"], ["pass"]
    for field in dataclasses.fields(made):
        name = value = field.name
        parameter = name
        if field.default is not MISSING:
            names[f"_default_{name}"] = field.default
            parameter = f"{name}=_default_{name}"
            value = name if field.init else f"_default_{name}"
        elif field.default_factory is not MISSING:
            names[f"_make_{name}"] = field.default_factory
            parameter = f"{name}=_missing"
            value = f"_make_{name}()"
            value += f" if {name} is _missing else {name}" if field.init else ""
        elif not field.init:
            continue
        if field.init:
            (keywords if field.kw_only else positional).append(parameter)
        lines.append(f"_set(self, {name!r}, {value})" if is_frozen else f"self.{name} = {value}")
    if hasattr(made, "__post_init__"):
        lines.append("self.__post_init__()")
    parameters = ", ".join(positional + (keywords if len(keywords) > 1 else []))
    exec(f"def __init__({parameters}):\n " + "\n ".join(lines), names)
    initializer = names["__init__"]
    initializer.__qualname__ = f"{made.__qualname__}.__init__"
    initializer.__annotations__ = {
        field.name: field.type for field in dataclasses.fields(made) if field.init
    } | {"return": None}
    return initializer


def _is_shared(kind: Any) -> bool:
    """Whether an annotation declares no field: a class variable, or `KW_ONLY`."""
    if isinstance(kind, str):
        return kind.startswith("ClassVar")
    return kind is dataclasses.KW_ONLY or ClassVar in (kind, get_origin(kind))


def _slots_of(base: type) -> tuple[str, ...]:
    slots = base.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _refuse(self: Any, name: str, *value: Any) -> None:
    """`__setattr__` and `__delattr__` of a frozen class."""
    if name in self.__dataclass_fields__ or not hasattr(self, "__dict__"):
        raise FrozenInstanceError(f"cannot {'assign to' if value else 'delete'} field {name!r}")
    if value:
        object.__setattr__(self, name, *value)
    else:
        object.__delattr__(self, name)


def _values(self: Any) -> list[Any]:
    """The state for pickle and copy."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _restore(self: Any, values: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), values, strict=True):
        object.__setattr__(self, field.name, value)
