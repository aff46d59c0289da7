"""Objects as a text and plain arrays, and back: what checkpoints and model files hold.

The text names no modules, and nothing in it is executed: a registry lists the classes that may occur. What is decoded
has the fields of its class, and these the types that the class declares.
"""

import math
import os
import types
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from importlib import import_module
from typing import Any, Union, final, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from vbsvm.base.cached import cached_property

# Booleans, numbers, fixed-width text and bytes, dates: all that an array can hold without objects.
PLAIN = "biufUSmM"
_NUMBERS = "biuf"
_COLLECTIONS: dict[str, Callable[[Any], Any]] = {"tuple": tuple, "list": list, "set": frozenset}
_SCALARS: dict[Any, tuple[type, ...]] = {
    float: (float, int, np.floating, np.integer),
    int: (int, np.integer),
    bool: (bool, np.bool_),
}


class CodecError(ValueError):
    """A text that does not describe an object of a known class."""


@final
@dataclass(frozen=True)
class Form:
    """Conversion of objects of a class to named fields and back."""

    kind: type
    take: Callable[[Any], dict[str, Any]]
    make: Callable[[dict[str, Any]], Any]


@final
class Registry:
    """The classes that may occur in a text, by the names that they have there: dataclasses, enumerations, and forms.

    ``homes`` says where each is, as "module:name"; classes are imported when they are first asked for.
    """

    def __init__(self, homes: Mapping[str, str]) -> None:
        self._homes = homes

    @cached_property
    def _forms(self) -> dict[str, Form]:
        return {name: self._form(home) for name, home in self._homes.items()}

    @cached_property
    def _names(self) -> dict[type, str]:
        return {form.kind: name for name, form in self._forms.items()}

    def _form(self, home: str) -> Form:
        module, _, name = home.partition(":")
        kind = getattr(import_module(module), name)
        return kind if isinstance(kind, Form) else Form(kind, public_fields, lambda values: self.make(kind, values))

    def encode(self, value: Any, where: str = "") -> tuple[Any, list[NDArray[Any]]]:
        """Give the tree of a text, and the arrays that it refers to by number."""
        arrays: list[NDArray[Any]] = []
        return self._encode(value, where, arrays, {}), arrays

    def decode(self, tree: Any, arrays: Sequence[NDArray[Any]]) -> Any:
        """Decode a tree; every array must be used."""
        used: set[int] = set()
        value = self._decode(tree, arrays, used)
        if len(used) < len(arrays):
            raise CodecError(f"{len(arrays) - len(used)} arrays have no place in it")
        return value

    def make(self, kind: Any, values: Mapping[str, Any]) -> Any:
        """An object of a dataclass by its fields, which must be those of the class and of their types.

        A field that is not there has its default, so that a class may get new ones.
        """
        public = [field for field in fields(kind) if field.name[0] != "_"]
        needed = {field.name for field in public if field.default is MISSING and field.default_factory is MISSING}
        if not needed <= set(values) <= {field.name for field in public}:
            raise CodecError(f"{kind.__name__} has the fields {[field.name for field in public]}, not {sorted(values)}")
        check_types(kind, values, {form.kind.__name__: form.kind for form in self._forms.values()})
        return kind(**values)

    def _encode(self, value: Any, where: str, arrays: list[NDArray[Any]], numbers: dict[int, int]) -> Any:
        def inner(item: Any, suffix: str) -> Any:
            return self._encode(item, where + suffix, arrays, numbers)

        name = self._names.get(type(value))
        if name is not None:
            if isinstance(value, Enum):
                return {"enum": [name, value.name]}
            named = self._forms[name].take(value)
            return {"object": name, "fields": {key: inner(item, f".{key}") for key, item in named.items()}}
        match value:
            case np.generic() if value.dtype.kind in _NUMBERS and value.dtype.itemsize <= 8:
                return {"number": [value.dtype.str, inner(value.item(), "")]}
            case float() if not math.isfinite(value):
                return {"float": str(float(value))}
            case None | bool() | int() | float() | str():
                return str(value) if isinstance(value, str) else value
            case np.ndarray():
                return self._encode_array(value, where, arrays, numbers)
            case tuple() | list():
                tag = "tuple" if isinstance(value, tuple) else "list"
                return {tag: [inner(item, f"[{k}]") for k, item in enumerate(value)]}
            case frozenset():
                return {"set": [inner(item, "") for item in sorted(value)]}
            case slice():
                return {"slice": [value.start, value.stop, value.step]}
            case Mapping():
                return {"dict": [[inner(key, ""), inner(item, f"[{key!r}]")] for key, item in value.items()]}
            case os.PathLike():
                return os.fspath(value)
        raise TypeError(
            f"{where or 'The object'} contains {type(value).__name__}, which can't be stored: files take numbers, "
            "text, arrays, and the classes that are registered."
        )

    def _encode_array(
        self, value: NDArray[Any], where: str, arrays: list[NDArray[Any]], numbers: dict[int, int]
    ) -> dict[str, Any]:
        if value.dtype.kind == "O":
            items = [self._encode(item, f"{where}[{k}]", arrays, numbers) for k, item in enumerate(value.ravel())]
            return {"objects": items, "shape": list(value.shape)}
        if value.dtype.kind not in PLAIN:
            raise TypeError(f"{where or 'The object'} is an array of {value.dtype}, which can't be stored.")
        if id(value) not in numbers:
            numbers[id(value)] = len(arrays)
            arrays.append(value)
        return {"array": numbers[id(value)]}

    def _decode(self, tree: Any, arrays: Sequence[NDArray[Any]], used: set[int]) -> Any:
        if tree is None or isinstance(tree, bool | int | float | str):
            return tree

        def inner(item: Any) -> Any:
            return self._decode(item, arrays, used)

        match tree:
            case {"object": str(name), "fields": dict(named), **rest} if not rest:
                if name not in self._forms:
                    raise CodecError(f"the class {name!r} is not known")
                return self._forms[name].make({key: inner(item) for key, item in named.items()})
            case {"objects": list(items), "shape": list(shape), **rest} if not rest:
                values = np.empty(len(items), dtype=object)
                for k, item in enumerate(items):  # at once, tuples would become rows
                    values[k] = inner(item)
                return values.reshape(shape)
            case dict() if len(tree) == 1:
                ((tag, content),) = tree.items()
                return self._decode_tagged(tag, content, arrays, used)
        raise CodecError("a part of the text describes nothing")

    def _decode_tagged(self, tag: str, content: Any, arrays: Sequence[NDArray[Any]], used: set[int]) -> Any:
        def inner(item: Any) -> Any:
            return self._decode(item, arrays, used)

        match tag, content:
            case "array", int(number) if 0 <= number < len(arrays):
                used.add(number)
                return arrays[number]
            case "number", [str(kind), value] if np.dtype(kind).kind in _NUMBERS:
                return np.dtype(kind).type(inner(value))
            case "float", "nan" | "inf" | "-inf":
                return float(content)
            case "enum", [str(name), str(member)] if name in self._forms and issubclass(self._forms[name].kind, Enum):
                members: Any = self._forms[name].kind
                return members[member]
            case "tuple" | "list" | "set", list():
                return _COLLECTIONS[tag](map(inner, content))
            case "slice", [start, stop, step] if all(item is None or type(item) is int for item in content):
                return slice(start, stop, step)
            case "dict", list():
                return {inner(key): inner(item) for key, item in content}
        raise CodecError(f"{tag!r} describes nothing that is known")


def public_fields(value: Any) -> dict[str, Any]:
    """Fields of a dataclass by name; what it keeps for itself (``_name``) is made anew when it is asked for."""
    return {field.name: getattr(value, field.name) for field in fields(value) if field.name[0] != "_"}


def check_types(kind: type, values: Mapping[str, Any], names: Mapping[str, Any] | None = None) -> None:
    """Reject values of other types than the fields of a class declare; ``names`` are classes that it only names."""
    hints = get_type_hints(kind, localns=dict(names or {}))
    for name, value in values.items():
        if not _matches(value, hints[name]):
            raise CodecError(f"{kind.__name__}.{name} may not contain {type(value).__name__}")


def _matches(value: Any, hint: Any) -> bool:
    """Whether a value matches a type annotation; protocols are matched by any dataclass."""
    origin, inner = get_origin(hint), get_args(hint)
    if hasattr(origin, "__value__"):  # an alias that stays one, as NumPy's own are from 2.5 on
        return _matches(value, origin.__value__[inner])
    if hasattr(hint, "__value__"):
        return _matches(value, hint.__value__)
    if origin in (Union, types.UnionType):
        return any(_matches(value, item) for item in inner)
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and _has_element_type(value, get_args(inner[1])[0])
    if origin is tuple:
        if len(inner) == 2 and inner[1] is Ellipsis:
            return isinstance(value, tuple) and all(_matches(item, inner[0]) for item in value)
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(_matches, value, inner))
    kind = hint if origin is None else origin
    if isinstance(value, Mapping) and len(inner) == 2 and issubclass(kind, Mapping):
        return all(_matches(key, inner[0]) and _matches(item, inner[1]) for key, item in value.items())
    if isinstance(value, list | frozenset) and len(inner) == 1 and issubclass(kind, Collection):
        return isinstance(value, kind) and all(_matches(item, inner[0]) for item in value)
    if kind is Any:
        return True
    if kind in _SCALARS:
        return isinstance(value, _SCALARS[kind]) and (kind is bool or not isinstance(value, bool))
    if getattr(kind, "_is_protocol", False) and not issubclass(kind, Sequence | Mapping):
        return is_dataclass(value)
    return isinstance(value, kind)


def _has_element_type(value: NDArray[Any], kind: Any) -> bool:
    """Whether an array has the element type of its annotation; integers for integer types."""
    if kind is Any:
        return True
    whole = isinstance(kind, type) and issubclass(kind, np.integer | np.bool_)
    return value.dtype.kind in ("biu" if whole else _NUMBERS)
