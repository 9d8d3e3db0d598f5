"""What the command line shows of specs: as tables for people, as JSON for programs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from labkit.model import Costs
from labkit.report.matched import law, summary
from labkit.spec import shown
from labkit.study.counting import Counted, Match
from labkit.study.names import exact
from labkit.study.sizes import by_rule
from labkit.tracking.console import Console
from labkit.train.run import RunSpec

VERSION = 1


def show_arms(console: Console, title: str, arms: Sequence[Counted]) -> None:
    """An experiment as specs: the baseline in full, and what each variant changes of it."""
    base, *variants = arms
    show_spec(console, title, base.arm.spec, base.costs)
    rows = [row for variant in variants for row in _changes(base, variant)]
    if rows:
        console.table("variants", ["variant", "path", "baseline", "variant's"], rows, left=4)
    show_match(console, arms)


def show_match(console: Console, arms: Sequence[Counted]) -> None:
    """What was moved so that the variants match the baseline, how near they are, and how far they were as written."""
    matches = {arm.arm.label: arm.match for arm in arms if arm.match is not None}
    if any(match.is_moved for match in matches.values()):
        on = next(iter(matches.values())).on
        headers = ["variant", "moved to match", on, "off by", "worth", "as written", "off by"]
        console.table(f"matched on {on}", headers, [_matched(*each) for each in matches.items()], left=2)
    told = [match.as_json() for match in matches.values()]
    if told:
        console.show(f"matched   {summary(told)}{f' by {law(told)}' if law(told) else ''}")


def _matched(label: str, match: Match) -> list[str]:
    return [
        label,
        f"{match.path} {match.before} → {match.after}" if match.is_moved else "-",
        f"{match.final:,.0f}",
        f"{100 * match.residual:+.2f} %",
        f"{match.nats:.4f} nats",
        f"{match.written.quantity(match.on):,.0f}",
        f"{100 * match.unmatched:+.2f} %",
    ]


def show_spec(console: Console, title: str, spec: RunSpec, counts: Costs) -> None:
    """A run spec, every field, and what its model costs."""
    console.table(
        title, ["path", "value"], [[path, _told(spec, path, value)] for path, value in spec.flat().items()], left=2
    )
    rows = [[name, f"{params:,}", f"{flops:,}"] for name, params, flops in counts.table]
    rows.append(["all", f"{counts.params:,}", f"{counts.flops_per_token:,}"])
    if counts.active < counts.params:
        rows.append(["active for a token", f"{counts.active:,}", ""])
    console.table("model", ["component", "parameters", "FLOPs/token"], rows, ["", *[""] * (len(rows) - 2), "bold"])


def _told(spec: RunSpec, path: str, value: Any) -> str:
    """A value, with the size that it comes to where it is left open."""
    size = by_rule(spec, path) if value is None else None
    if path == "model.pattern":
        return shown(value)
    return exact(value) if size is None else f"{exact(value)} ({size} by the rule)"


def arms_as_json(title: str, arms: Sequence[Counted]) -> dict[str, Any]:
    return {"version": VERSION, "title": title, "arms": [_arm_as_json(arms[0], arm) for arm in arms]}


def spec_as_json(spec: Any, counts: Costs) -> dict[str, Any]:
    """A run spec in full, with its counts."""
    return {
        "fingerprint": spec.fingerprint,
        "spec": spec.as_json(),
        "params": counts.params,
        "non_embedding": counts.non_embedding,
        "active_params": counts.active,
        "flops_per_token": counts.flops_per_token,
        "components": {name: {"params": params, "flops_per_token": flops} for name, params, flops in counts.table},
    }


def _changes(base: Counted, variant: Counted) -> Iterator[list[str]]:
    changes = base.arm.spec.differences(variant.arm.spec)
    for index, (path, (here, there)) in enumerate(changes.items()):
        yield [variant.arm.name if index == 0 else "", path, here, there]


def _arm_as_json(base: Counted, counted: Counted) -> dict[str, Any]:
    changes: Mapping[str, tuple[str, str]] = base.arm.spec.differences(counted.arm.spec)
    return {
        "name": counted.arm.name,
        "changes": {path: list(change) for path, change in changes.items()},
        "tokens": counted.tokens,
        "steps": counted.steps,
        "matched": counted.match and counted.match.as_json(),
        **spec_as_json(counted.arm.spec, counted.costs),
    }
