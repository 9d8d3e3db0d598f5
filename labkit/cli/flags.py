"""Commands whose help shows no type beside a flag: ``--json``, not ``--json <bool>``."""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup

F = TypeVar("F", bound=Callable[..., Any])


def _bare(params: Iterable[Any]) -> list[Any]:
    """Parameters of which a flag, which takes no value, has no word for one."""
    found = list(params)
    for one in found:
        if getattr(one, "is_flag", False) and one.metavar is None:
            one.metavar = ""
    return found


class Command(TyperCommand):
    """A command."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _bare(super().get_params(ctx))


class Group(TyperGroup):
    """A group of commands, with the options that stand before their names."""

    def get_params(self, ctx: Any) -> list[Any]:
        return _bare(super().get_params(ctx))


class Application(typer.Typer):
    """An application of such commands and groups."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(cls=Group, **settings)

    def command(self, name: str | None = None, **settings: Any) -> Callable[[F], F]:
        settings.setdefault("cls", Command)
        return super().command(name, **settings)
