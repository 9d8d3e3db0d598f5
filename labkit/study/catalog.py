"""What an experiment may be made of: every family with its variants, and the fields that no family stands at."""

import difflib
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeGuard, get_args, get_origin

from pydantic.fields import FieldInfo

from labkit.family import is_due, members, unset
from labkit.faults import spec_of
from labkit.search.pruners import Pruner
from labkit.search.samplers import Sampler
from labkit.spec import Choice, Mistake, Spec, shown
from labkit.tracking.console import Console
from labkit.train.run import RunSpec

VERSION = 1
NEAREST, SHORTEST = 3, 3
"""So many names are told that may be meant by one, and letters of a part that tells anything."""

OF_SWEEPS = (Pruner, Sampler)
"""Families that stand in no run spec."""

APART = ("default", "choices")
"""The columns of a field's default and of the words that it may have, where it is a matter of words."""

REQUIRED = "required"
"""What stands for a default where there is none."""


@dataclass(frozen=True)
class Entry:
    """A family, the paths that it stands at, and those of its variants that were asked for."""

    family: type[Choice]
    paths: tuple[str, ...]
    variants: dict[str, type[Choice]]

    @property
    def name(self) -> str:
        return self.family.__name__

    @property
    def is_whole(self) -> bool:
        return len(self.variants) == len(self.family.variants)

    @property
    def common(self) -> dict[str, str]:
        """The fields that all variants of the family share, alike to the default."""
        first, *others = (_listed(variant) for variant in self.family.variants.values())
        shared = {name: text for name, text in first.items() if all(other.get(name) == text for other in others)}
        return shared if others else {}


def show_catalog(console: Console, names: Sequence[str] = ()) -> None:
    """All families, or in detail those that are named: by the family, a kind or a path. Raises Mistake."""
    found, plain = _asked(names)
    for entry in found:
        _show_family(console, entry, has_fields=not names)
        if names:
            _show_fields(console, entry)
            _show_own(console, entry)
    if plain:
        rows = [[path, *_apart(field), field.description or ""] for path, field in plain.items()]
        _show(console, "Fields  What belongs to no family.", ["path", *APART, "what it is"], rows)
    if not names:
        console.say("labkit components NAME tells each field of a family, a kind or a path: labkit components mla")
        console.say("Of words such as llama|gemma the first is the default.", "")


def catalog_as_json(names: Sequence[str] = ()) -> dict[str, Any]:
    """The same for programs. Raises Mistake."""
    found, plain = _asked(names)
    return {
        "version": VERSION,
        "families": {entry.name: _family_as_json(entry) for entry in found},
        "fields": {
            path: {"default": _default(field), "choices": _words(field), "doc": field.description or ""}
            for path, field in plain.items()
        },
    }


def _asked(names: Sequence[str]) -> tuple[list[Entry], dict[str, FieldInfo]]:
    """The families and the plain fields that are named; all of them where nothing is."""
    places, plain = _places()
    found = {entry.name: entry for entry in _entries(places)}
    if not names:
        return list(found.values()), plain
    kinds: dict[str, set[str]] = {}
    fields: dict[str, FieldInfo] = {}
    for name in names:
        by_family = [entry for entry in found.values() if name.lower() == entry.name.lower() or name in entry.paths]
        by_kind = [] if by_family else [entry for entry in found.values() if name in entry.family.variants]
        named = {path: field for path, field in plain.items() if f".{path}.".find(f".{name}.") >= 0}
        if not (by_family or by_kind or named):
            known = {*found, *plain, *(kind for entry in found.values() for kind in entry.family.variants)}
            raise Mistake(f"{name}: no family, kind or field has this name.{_nearest(name, known)}")
        for entry in by_family or by_kind:
            kinds.setdefault(entry.name, set()).update(entry.family.variants if by_family else {name})
        fields |= named
    chosen = [
        Entry(entry.family, entry.paths, {kind: one for kind, one in entry.variants.items() if kind in kinds[name]})
        for name, entry in found.items()
        if name in kinds
    ]
    return chosen, fields


def _nearest(name: str, known: Collection[str]) -> str:
    """The few names that may be meant, whatever their case, and where all of them are."""
    asked, lower = name.lower(), {each.lower(): each for each in sorted(known)}
    close = difflib.get_close_matches(asked, lower, n=NEAREST)
    within = [each for each in lower if min(len(each), len(asked)) >= SHORTEST and (each in asked or asked in each)]
    found = [repr(lower[each]) for each in dict.fromkeys([*close[:1], *within, *close])][:NEAREST]
    meant = f" Did you mean {' or '.join(filter(None, [', '.join(found[:-1]), found[-1]]))}?" if found else ""
    return f"{meant} `labkit components` shows all there is."


def _entries(places: dict[type[Choice], list[str]]) -> list[Entry]:
    """Every family that has variants, in the order of their names."""
    families = sorted({*places, *OF_SWEEPS}, key=lambda one: one.__name__)
    return [
        Entry(one, tuple(places.get(one, ())), dict(sorted(one.variants.items()))) for one in families if one.variants
    ]


def _places() -> tuple[dict[type[Choice], list[str]], dict[str, FieldInfo]]:
    """Where in a run spec each family stands, and the fields of it that no family stands at."""
    places: dict[type[Choice], list[str]] = {}
    plain: dict[str, FieldInfo] = {}
    for path, field in _fields_below(RunSpec, "", ()):
        at = spec_of(field.annotation)
        if _is_family(at):
            places.setdefault(at, []).append(path)
        elif not path.startswith(tuple(f"{place}." for held in places.values() for place in held)):
            plain[path] = field
    return {family: list(dict.fromkeys(paths)) for family, paths in places.items()}, plain


def _fields_below(cls: type[Spec], path: str, above: tuple[type, ...]) -> Iterator[tuple[str, FieldInfo]]:
    """Every field that a spec can have, with its path; what a family may hold of its own kind is not followed."""
    for name, field in cls.model_fields.items():
        here, at = f"{path}.{name}" if path else name, spec_of(field.annotation)
        if not (isinstance(at, type) and issubclass(at, Spec)):
            if name != "kind":
                yield here, field
        elif _is_family(at):
            yield here, field
            for variant in () if at in above else at.variants.values():
                yield from _fields_below(variant, here, (*above, at))
        else:
            yield from _fields_below(at, here, above)


def _is_family(cls: Any) -> TypeGuard[type[Choice]]:
    return isinstance(cls, type) and issubclass(cls, Choice) and "kind" not in cls.model_fields


def _show_family(console: Console, entry: Entry, *, has_fields: bool) -> None:
    """The formula and the paper of each variant, and its fields if asked; those that all share are told once."""
    shared = entry.common
    rows = [["(all)", "", _joined(shared)]] if shared else []
    for kind, variant in entry.variants.items():
        own = {name: text for name, text in _listed(variant).items() if name not in shared}
        rows.append([kind, " ".join(_doc(variant).split()), _joined(own)])
    title, at = f"{entry.name}  {_doc(entry.family).splitlines()[0]}", f" at {', '.join(entry.paths)}"
    columns = ["kind", "what it is", "fields"]
    if not has_fields:
        columns, rows = columns[:2], [row[:2] for row in rows if row[1]]
    console.table(title, columns, rows, left=3, note=at if entry.paths else "")


def _show_fields(console: Console, entry: Entry) -> None:
    """What each field means, and which of the kinds shown have it."""
    told: dict[tuple[str, str, str, str], list[str]] = {}
    for kind, variant in entry.variants.items():
        for name, field in _fields(variant):
            told.setdefault((name, *_apart(field), _about(variant, name)), []).append(kind)
    order = list(dict.fromkeys(name for name, *_ in told))
    rows = [[*said, _of(told[said], entry)] for said in sorted(told, key=lambda said: order.index(said[0]))]
    if rows:
        _show(console, f"{entry.name}: fields", ["field", *APART, "what it is", "of"], rows)


def _show(console: Console, title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table of words, without the columns that nothing stands in."""
    kept = [index for index, _ in enumerate(columns) if any(row[index] for row in rows)]
    body = [[row[index] for index in kept] for row in rows]
    console.table(title, [columns[index] for index in kept], body, left=len(kept))


def _of(kinds: list[str], entry: Entry) -> str:
    """The kinds that have a field; nothing where all of those shown do."""
    others = [kind for kind in entry.variants if kind not in kinds]
    if not others:
        return ""
    return f"all but {', '.join(others)}" if len(others) < min(3, len(kinds)) else ", ".join(kinds)


def _show_own(console: Console, entry: Entry) -> None:
    """What a class of one's own gives."""
    found = sorted(members(entry.family), key=lambda each: not is_due(each[1]))
    rows = [[f"{name}: {kind}", "needed", ""] for name, kind in unset(entry.family, entry.family)]
    rows += [[_call(one, function), "needed" if is_due(one) else "", _doc(one)] for _, one, function in found]
    if rows and entry.is_whole:
        console.table(f"{entry.name}: a class of your own", ["method", "", "what it gives"], rows, left=3)


def _call(member: Any, function: Callable[..., Any]) -> str:
    """``build(self, width, place)``, or the name of a property."""
    given = ", ".join(inspect.signature(function).parameters)
    return function.__name__ if isinstance(member, property) else f"{function.__name__}({given})"


def _family_as_json(entry: Entry) -> dict[str, Any]:
    return {
        "doc": _doc(entry.family),
        "paths": list(entry.paths),
        "variants": {
            kind: {
                "module": variant.__module__,
                "doc": _doc(variant),
                "fields": {name: _default(field) for name, field in _fields(variant)},
                "choices": {name: words for name, field in _fields(variant) if (words := _words(field))},
                "docs": {name: about for name, _ in _fields(variant) if (about := _about(variant, name))},
            }
            for kind, variant in entry.variants.items()
        },
    }


def _fields(variant: type[Choice]) -> list[tuple[str, FieldInfo]]:
    return [(name, field) for name, field in variant.model_fields.items() if name != "kind"]


def _listed(variant: type[Choice]) -> dict[str, str]:
    """Field -> ``eps=1e-06`` or ``layout=half|interleaved``: its default, or all that it allows, the default first."""
    told = {name: _allowed(field) for name, field in _fields(variant)}
    return {name: name if text == REQUIRED else f"{name}={text}" for name, text in told.items()}


def _joined(listed: dict[str, str]) -> str:
    return ", ".join(listed.values())


def _allowed(field: FieldInfo) -> str:
    """Its default as a text, or the words that it allows with the default first."""
    return "|".join(_words(field)) or _default(field)


def _apart(field: FieldInfo) -> tuple[str, str]:
    """Its default, and the words that it may have."""
    return _default(field), ", ".join(_words(field))


def _words(field: FieldInfo) -> list[str]:
    """The words that a field allows, its default first; none where it is no matter of words."""
    return sorted(_literals(field.annotation), key=lambda word: word != field.default)


def _literals(annotation: Any) -> tuple[str, ...]:
    """The words of a Literal, also of one that may be absent."""
    if get_origin(annotation) is Literal:
        return tuple(str(word) for word in get_args(annotation))
    return tuple(word for inner in get_args(annotation) for word in _literals(inner))


def _default(field: FieldInfo) -> str:
    return REQUIRED if field.is_required() else shown(field.get_default(call_default_factory=True))


def _about(variant: type[Choice], name: str) -> str:
    """A field's documentation, of the class that has one: a new default alone leaves what it means."""
    found = (base.model_fields.get(name) for base in variant.__mro__ if issubclass(base, Spec))
    return next((field.description for field in found if field and field.description), "")


def _doc(thing: Any) -> str:
    return inspect.cleandoc(thing.__doc__ or "")
