"""What is told of a sweep: on its page, above its trials in MLflow, and there as a row."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from optuna.trial import FrozenTrial

from labkit.report.formats import difference, figure, plural
from labkit.report.table import escaped
from labkit.search.space import Space
from labkit.spec import shown
from labkit.sweep.analysis import Importance, importances, untold
from labkit.sweep.branch import Branch, base_of, short
from labkit.sweep.front import front
from labkit.sweep.winners import Winner
from labkit.tracking.record import Edition

GROUPS = 7
"""Most values of a choice that are told apart by strokes."""


@dataclass(frozen=True)
class Story:
    """What the page is made from."""

    title: str
    edition: Edition
    branches: Sequence[Branch]
    winners: Sequence[Winner]
    compared: Space
    """The scientific part of a search's space; empty for a comparison."""
    question: str
    hypothesis: str
    command: str
    storage: str

    @property
    def first(self) -> Branch:
        return self.branches[0]

    @property
    def keys(self) -> list[str]:
        return [one.key for one in self.first.objectives]

    @cached_property
    def base(self) -> list[float]:
        """What the base came to, by objective; empty where it was not run."""
        return base_of(self.edition, self.first)

    @cached_property
    def groups(self) -> list[tuple[str, Sequence[FrozenTrial]]]:
        """The finished trials by arm, or by the value of the most important choice."""
        if not self.first.alone:
            return [(branch.arm.name, branch.ranked) for branch in self.branches]
        ranked = [one.name for one in self.importance[0]]
        names = [name for name, below in self.compared.ranges.items() if 1 < (below.count or 0) <= GROUPS]
        names.sort(key=lambda name: ranked.index(name) if name in ranked else len(ranked))
        if not names:
            return [("trials", self.first.ranked)]
        name = names[0]
        tail = name.rpartition(".")[2]
        having = self.first.ranked
        return [
            (f"{tail}={shown(key)}", [trial for trial in having if trial.params.get(name) == key])
            for key in self.compared.ranges[name].values
        ]

    @cached_property
    def importance(self) -> list[list[Importance]]:
        """Of every branch."""
        return [importances(branch) for branch in self.branches]


def answer(story: Story) -> str:
    """What came of it, in a sentence or two."""
    if not story.first.alone:
        found = story.winners
        told = [f"{one.name} {one.branch.told(one.trial.values)[0]} at {short(one.trial.params)}" for one in found]
        return f"At its best setting each: {'; '.join(told)}. The verdict is told by other seeds."
    best = story.first.best
    if best is None:
        return "No trial has come to its end yet."
    if len(story.keys) > 1:
        return f"{plural(len(front(story.first)), 'trial')} of {len(story.first.ranked)} lie on the Pareto front."
    key, ours = story.keys[0], best.values[0]
    told = f"Trial {best.number} of {len(story.first.shown)} is the best: {key} {figure(key, ours)}"
    if story.base:
        theirs = story.base[0]
        told += f", {difference(key, ours - theirs)} to the base's {figure(key, theirs)}"
        told += ", which none was better than" if story.first.objectives[0].better(theirs, ours) else ""
    return f"{told}. It was chosen among many: confirm it on other seeds with --best."


def note(story: Story) -> str:
    """The answer, what matters, and the best choices, in Markdown."""
    told = {"Answer": answer(story), "Question": story.question, "Hypothesis": story.hypothesis}
    said = [f"**{word}** {escaped(words)}" for word, words in told.items() if words]
    shares = ", ".join(f"{one.name} {one.share:.2f} [{one.low:.2f}, {one.high:.2f}]" for one in story.importance[0])
    said_of_it = shares or untold(story.first)
    matters = [f"**What matters** {escaped(said_of_it)}"] if said_of_it and story.first.alone else []
    best = story.first.best if story.first.alone else None
    chosen = [f"**Best** {escaped(short(best.params))}"] if best is not None else []
    return "\n\n".join([*said, *matters, *chosen, f"    {story.command}"]) + "\n"
