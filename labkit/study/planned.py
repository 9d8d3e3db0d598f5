"""What `labkit plan` and a dry run show: the runs, what they will take, and what they can show."""

import math
import shlex
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from labkit.data import Split, bounds
from labkit.report import formats
from labkit.report.resampling import UNITS, Text, worth
from labkit.study.budget import Proposal
from labkit.study.counting import Counted
from labkit.study.forecast import Forecast, Resolution
from labkit.study.plan import Job
from labkit.study.views import VERSION, show_match
from labkit.tracking.console import Console
from labkit.train.run import Flops

HEADERS = (
    "variant",
    "differs from the baseline",
    "seed",
    "params",
    "FLOPs",
    "tokens",
    "steps",
    "tok/s",
    "a run",
    "to do",
)
NOTABLE = 0.2
"""The share of a run from which on the evaluation at its end is told of."""

SPARE = ("FLOPs", "params", "tokens", "tok/s")


def show_plan(console: Console, plan: Forecast, proposals: Sequence[Proposal] = ()) -> None:
    """The arms in a table, and a line for each thing to know before starting."""
    console.table(plan.runner.edition.title, HEADERS, [_row(plan, arm) for arm in plan.arms], left=2, spare=SPARE)
    show_match(console, plan.runner.arms)
    for name, text in _lines(plan):
        console.show(f"{name:<9} {text}")
    if proposals:
        _show_proposals(console, plan, proposals)


def plan_as_json(plan: Forecast, proposals: Sequence[Proposal] = ()) -> dict[str, Any]:
    return {
        "version": VERSION,
        "title": plan.runner.edition.title,
        "runs": [_job(plan, job) for job in plan.runner.jobs],
        "plan": plan.as_json(),
        "proposals": [proposal.as_json() for proposal in proposals],
    }


def _row(plan: Forecast, arm: Counted) -> list[str]:
    jobs = [job for job in plan.runner.jobs if job.counted is arm]
    changes = plan.runner.arms[0].arm.spec.differences(arm.arm.spec)
    pace, states = plan.paces.get(arm.arm.name), [plan.states[job] for job in jobs]
    return [
        arm.arm.name,
        ", ".join(f"{path}: {here} → {there}" for path, (here, there) in changes.items()) or "-",
        ", ".join(str(job.seed) for job in jobs),
        formats.count(arm.costs.params),
        formats.scientific(arm.flops),
        formats.count(arm.tokens),
        str(arm.steps),
        formats.rate(arm.arm.spec.tokens_per_step / pace.step if pace else math.nan),
        formats.duration(plan.seconds(arm)),
        ", ".join(f"{states.count(state)} {state}" for state in dict.fromkeys(states)),
    ]


def _lines(plan: Forecast) -> Iterator[tuple[str, str]]:
    yield from _data(plan)
    yield from _text(plan)
    yield from _speed(plan)
    yield from _end(plan)
    yield "disk", _disk(plan)
    yield "to train", _whole(plan)
    yield from _shows(plan)


def _data(plan: Forecast) -> Iterator[tuple[str, str]]:
    """Each store once, with how often it is gone through."""
    for store in dict.fromkeys(plan.stores.values()):
        facts = store.facts()
        most = max(plan.epochs(arm) for arm in plan.arms if plan.stores[arm.arm.name] is store)
        text = (
            f"{facts['corpus']}, {facts['corpus_version']}: {formats.count(facts['train_tokens'])} tokens to train on"
        )
        yield "data", f"{text}, gone through {most:.2g} times"


def _text(plan: Forecast) -> Iterator[tuple[str, str]]:
    """Where the text will carry no interval over documents, or a weak one: win and loss need it."""
    if len(plan.compared) > 1 and plan.runner.experiment.metric.rpartition("/")[2] in UNITS:
        said = dict.fromkeys(text_of(store.val, store.end) for store in plan.stores.values())
        yield from (("text", words) for words in said if words)


def text_of(val: Split, end: int) -> str:
    """What an interval over the documents of a validation split lacks; empty where they are enough."""
    tokens_D = np.diff(bounds(val, end), axis=1)[:, 0]
    if len(tokens_D) < 2:
        why = "the validation split is a single document"
        return f"no interval over documents (text±) will be possible: {why}; bring several files"
    text = Text(len(tokens_D), worth(tokens_D.astype(float)))
    short = f"the {text.documents} documents of the validation split are worth {text.worth:.3g} equal ones"
    return f"the interval over documents (text±) will be weak: {short}; bring more files" if text.weak else ""


def _speed(plan: Forecast) -> Iterator[tuple[str, str]]:
    by_source = {
        "measured": "timed on a few steps here",
        "remembered": f"remembered from a few steps here{_oldest(plan)}; {_anew(plan)} times them anew",
        "records": "from this machine's records",
    }
    names = {source: [name for name, pace in plan.paces.items() if pace.source == source] for source in by_source}
    unknown = [arm.arm.name for arm in plan.reckoned if arm.arm.name not in plan.paces]
    said = [_of(words, names[source], plan) for source, words in by_source.items() if names[source]]
    said += [_of("not known from records, `labkit plan` times it", unknown, plan)] if unknown else []
    said += [f"unknown of {formats.listed(plan.diverged)}, which diverged within a few steps"] if plan.diverged else []
    yield "speed", "; ".join(said)


def _end(plan: Forecast) -> Iterator[tuple[str, str]]:
    """What makes the evaluation at the end long, of the arm whose share is the largest, where that is notable."""
    arm = max(plan.reckoned, key=lambda arm: sum(plan.ends(arm).values()), default=None)
    if arm is None or (share := sum((ends := plan.ends(arm)).values())) < NOTABLE:
        return
    tokens = {part.name: part.tokens for part in plan.endings[arm.arm.name]}
    told = [
        f"{name} ({formats.count(tokens[name])} tokens)"
        for name, own in sorted(ends.items(), key=lambda each: -each[1])
        if own > share / 5
    ]
    yield "end", f"{100 * share:.0f} % of a run is the evaluation at its end: {formats.listed(told)}"


def _oldest(plan: Forecast) -> str:
    """The day of the oldest pace that is remembered."""
    days = [pace.at for pace in plan.paces.values() if pace.at]
    return f" on {datetime.fromtimestamp(min(days), UTC):%Y-%m-%d}" if days else ""


def _anew(plan: Forecast) -> str:
    """What times everything again: the command as it was typed, as one that plans."""
    words = shlex.split(plan.runner.options.command)
    return f"`{shlex.join([words[0], 'plan', *words[2:], '--measure'])}`"


def _of(words: str, names: Sequence[str], plan: Forecast) -> str:
    return words if len(names) == len(plan.arms) else f"{words} ({', '.join(names)})"


def _disk(plan: Forecast) -> str:
    if not plan.ahead:
        return f"{formats.size(plan.free)} free"
    stays = f"{formats.size(plan.disk)} for {formats.plural(len(plan.ahead), 'run')}"
    more = f"and {formats.size(plan.scratch)} of checkpoints while they train"
    short = "; NOT ENOUGH" if plan.disk + plan.scratch > plan.free else ""
    return f"{stays}, {more}; {formats.size(plan.free)} free{short}"


def _whole(plan: Forecast) -> str:
    if not plan.ahead:
        running = "running" in plan.states.values()
        return f"nothing: {'another command is at what is missing' if running else 'every run is finished'}"
    flops = formats.scientific(sum(job.counted.flops for job in plan.ahead))
    tokens = formats.count(sum(job.counted.tokens for job in plan.ahead))
    crew = formats.plural(min(len(plan.runner.slots), len(plan.ahead)), "worker")
    apart = f", those of {formats.listed(plan.diverged)} left out" if plan.diverged else ""
    took = "" if math.isnan(plan.whole) else f": about {formats.duration(plan.whole)} here with {crew}{apart}"
    return f"{formats.plural(len(plan.ahead), 'run')}, {flops} FLOPs, {tokens} tokens{took}"


def _shows(plan: Forecast) -> Iterator[tuple[str, str]]:
    """What the seeds can show, and the noise that it is reckoned from."""
    seeds = len(plan.runner.experiment.seed_list)
    if len(plan.compared) < 2:
        return
    if seeds < 2:
        yield "shows", "one seed: no verdict; write seeds=4 or more"
        return
    shown, noise = plan.resolution(seeds), plan.noise
    rests = f" ({formats.freedom(noise.dof)})" if noise.dof else ""
    sigma, pair = formats.value(noise.sigma), formats.value(noise.pair)
    yield "noise", f"σ over seeds {sigma}{rests}, so {pair} (√2 σ) for a paired difference; {noise.source}"
    yield "shows", f"with {seeds} seeds a difference of {formats.value(shown.difference)} in 80 % of experiments"
    yield "tie", _tie(plan, shown)


def _tie(plan: Forecast, shown: Resolution) -> str:
    """Whether arms that are equal are shown to be, which is what a tie is, and otherwise with how many seeds."""
    within, margin = f"equal arms are shown equal within ±{formats.value(shown.tie)}", plan.margin
    if math.isnan(margin):
        return within
    asked = f"a tie asks for ±{formats.value(margin)}, the margin M"
    if shown.tie <= margin:
        return f"can be shown with {shown.seeds} seeds: {within}, and {asked}"
    enough = next((seeds for seeds in range(2, 1001) if plan.tie(seeds) <= margin), 0)
    need = f"{enough} seeds would do" if enough else "1000 seeds would not do"
    return f"cannot be shown with {shown.seeds} seeds: {within}, but {asked}; {need}"


def _show_proposals(console: Console, plan: Forecast, proposals: Sequence[Proposal]) -> None:
    headers = ["seeds", "steps", "epochs", "takes", "shows a difference of", "a tie within", ""]
    rows = [_proposed(proposal) for proposal in proposals]
    styles = ["bold" if proposal.chosen else "" for proposal in proposals]
    console.show("")
    console.table("what the budget buys, the noise being the same", headers, rows, styles)
    best = next(proposal for proposal in proposals if proposal.chosen)
    console.show(_command(plan, best), whole=True)


def _proposed(proposal: Proposal) -> list[str]:
    return [
        str(proposal.seeds),
        str(proposal.steps),
        f"{proposal.epochs:.2g}" if math.isfinite(proposal.epochs) else formats.NOTHING,
        formats.duration(proposal.seconds),
        formats.value(proposal.resolution.difference),
        f"±{formats.value(proposal.resolution.tie)}",
        "proposed" if proposal.chosen else "",
    ]


def _command(plan: Forecast, best: Proposal) -> str:
    """What runs a proposal."""
    words, budget = shlex.split(plan.runner.options.command), plan.runner.arms[0].arm.spec.budget
    if best.share < 1.0 and isinstance(budget, Flops):
        words += ["--set", f"budget.flops={best.share * budget.flops:.4g}"]
    elif best.share < 1.0:
        words = [*_without(words, "--steps"), "--steps", str(best.steps)]
    return shlex.join([*words, "--seeds", str(best.seeds)])


def _without(words: Sequence[str], option: str) -> list[str]:
    at = words.index(option) if option in words else len(words)
    return [*words[:at], *words[at + 2 :]]


def _job(plan: Forecast, job: Job) -> dict[str, Any]:
    changes = plan.runner.arms[0].arm.spec.differences(job.counted.arm.spec)
    return {
        "variant": job.counted.arm.name,
        "label": plan.runner.experiment.label(job.counted.arm),
        "seed": job.seed,
        "fingerprint": job.fingerprint,
        "path": str(job.run.path),
        "need": plan.states[job],
        "changes": {path: list(change) for path, change in changes.items()},
        "params": job.counted.costs.params,
        "flops_per_token": job.counted.costs.flops_per_token,
        "tokens": job.counted.tokens,
        "steps": job.counted.steps,
        "matched": job.counted.match and job.counted.match.as_json(),
    }
