"""A stage tree as lines of text: who shares what with whom, from which step to which.

    lr 0.1               [0, 30)      ━━━━━
    ├╴lr 0.1             [30, 120)         ━━━━━━━━━━━━━━━━
    ╰╴lr 0.01            [30, 60)          ━━━━━
      ├╴lr 0.01          [60, 120)              ━━━━━━━━━━━
      ╰╴lr 0.001         [60, 120)              ━━━━━━━━━━━

A line is a stretch: stages that follow one another with neither a branch nor an ask between them. Stretches
that go on without a branch stand below one another; branches are indented. A stretch is labelled with what
tells it from those that start where it does. A tree that is too large is cut where it is least missed: deep
branches first, and the smallest of many siblings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import count

from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from hippotune import short
from hippotune.plan.node import Node
from hippotune.sequences.values import same
from hippotune.stages.tree import Stage, StageTree

LINES = 32
"""How many lines a drawing has at most, unless it is told how deep to go."""
SIBLINGS = 8
"""How many of the stretches that start at one place are drawn at most."""
_SHORTEST_LABEL = 24
_SHORTEST_AXIS = 12
_LONGEST_AXIS = 48
_ASCII = str.maketrans({"├": "|", "╰": "`", "╴": "-", "│": "|", "━": "=", "·": ",", "…": "~"})


class TreeDrawing:
    """A stage tree, for `rich.console.Console.print`.

    With `depth`, that many levels of branches are drawn in full; without, as much as fits into `LINES` lines.
    """

    def __init__(self, tree: StageTree, depth: int | None = None) -> None:
        self._roots = stretches(tree)
        self._depth = depth

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if not self._roots:
            return
        rows = list(draw(self._roots, self._depth))
        for line in _Columns(rows, max(root.last for root in self._roots), options.max_width).lines(rows):
            if options.ascii_only:
                line.plain = line.plain.translate(_ASCII)
            line.no_wrap = True
            line.truncate(options.max_width)
            yield line


@dataclass(slots=True, eq=False)
class Stretch:
    """The steps [start, end) of a node; `asks` end with it.

    Of it and all below it together, `stages`, `steps` and `trials` are the numbers of stages, steps and asks,
    and `last` is the furthest end.
    """

    node: Node
    start: int
    end: int
    asks: int
    below: list[Stretch]
    stages: int = field(init=False)
    steps: int = field(init=False)
    trials: int = field(init=False)
    last: int = field(init=False)

    def __post_init__(self) -> None:
        self.stages = 1 + sum(each.stages for each in self.below)
        self.steps = self.end - self.start + sum(each.steps for each in self.below)
        self.trials = self.asks + sum(each.trials for each in self.below)
        self.last = max((each.last for each in self.below), default=self.end)

    def reach_back(self, start: int) -> None:
        """Take the stage before it in."""
        self.stages, self.steps, self.start = self.stages + 1, self.steps + self.start - start, start


def stretches(tree: StageTree) -> list[Stretch]:
    """Return the tree's roots as stretches."""
    made: dict[Stage, Stretch] = {}
    for stage in reversed(list(tree.stages())):
        if len(stage.below) == 1 and stage.below[0].node is stage.node and not stage.asks:
            made[stage] = made.pop(stage.below[0])
            made[stage].reach_back(stage.start)
        else:
            below = [made.pop(each) for each in stage.below]
            made[stage] = Stretch(stage.node, stage.start, stage.end, stage.asks, below)
    return [made[root] for root in tree.roots]


# Rows.


@dataclass(frozen=True, slots=True)
class Row:
    """A line: a stretch behind its guides, or (without one) what was left out there."""

    guides: str
    label: str
    stretch: Stretch | None = None


@dataclass(frozen=True, slots=True)
class _Group:
    """Stretches that start at one place, still to be drawn."""

    siblings: Sequence[Stretch]
    guides: str
    at_root: bool = False


def draw(roots: Sequence[Stretch], depth: int | None = None) -> Iterator[Row]:
    """Yield the rows of a drawing."""
    selection = _Selection(roots, depth)
    stack: list[Row | _Group] = [_Group(roots, "", at_root=True)]
    while stack:
        item = stack.pop()
        if isinstance(item, Row):
            yield item
        else:
            stack.extend(reversed(list(_expanded(item, selection))))


def _expanded(group: _Group, selection: _Selection) -> Iterator[Row | _Group]:
    shown, rest = selection.of(group.siblings)
    branches = len(group.siblings) > 1 and not group.at_root
    for stretch, label in zip(shown, _labels(group, shown), strict=True):
        last = stretch is shown[-1] and not rest
        own = group.guides + ("╰╴" if last else "├╴") * branches
        following = group.guides + ("  " if last else "│ ") * branches
        yield Row(own, label, stretch)
        if stretch in selection.open:
            yield _Group(stretch.below, following)
        elif stretch.below:
            yield _left_out(following + "╰╴", stretch.below)
    if rest:
        yield _left_out(group.guides + "╰╴" * branches, rest)


def _left_out(guides: str, stretches: Sequence[Stretch]) -> Row:
    stages = short.plural(sum(each.stages for each in stretches), "more stage")
    return Row(guides, f"… {stages}, {short.plural(sum(each.steps for each in stretches), 'step')}")


class _Selection:
    """What is drawn: whose branches (`open`), and which of many siblings (`of`)."""

    def __init__(self, roots: Sequence[Stretch], depth: int | None) -> None:
        self.open: set[Stretch] = set()
        self._depth = depth
        self._choose(roots)

    def of(self, siblings: Sequence[Stretch]) -> tuple[Sequence[Stretch], Sequence[Stretch]]:
        """Part siblings into those that are drawn, in their order, and the rest, which has least below it."""
        if self._depth is not None or len(siblings) <= SIBLINGS + 1:
            return siblings, ()
        largest = set(sorted(siblings, key=lambda each: -each.steps)[:SIBLINGS])
        return [each for each in siblings if each in largest], [
            each for each in siblings if each not in largest
        ]

    def _choose(self, roots: Sequence[Stretch]) -> None:
        """Open stretches, those near the root and with much below them first, while there is room."""
        room = LINES - self._lines(roots)
        ages = count()
        queue = [(0, -root.steps, next(ages), root) for root in self.of(roots)[0] if root.below]
        heapify(queue)
        while queue:
            level, _, _, stretch = heappop(queue)
            level += len(stretch.below) > 1
            lines = self._lines(stretch.below) - 1  # the line that says what was left out goes
            if lines > room if self._depth is None else level >= self._depth:
                continue
            room -= lines
            self.open.add(stretch)
            for each in self.of(stretch.below)[0]:
                if each.below:
                    heappush(queue, (level, -each.steps, next(ages), each))

    def _lines(self, siblings: Sequence[Stretch]) -> int:
        """Return how many lines siblings take, before any of them is opened."""
        shown, rest = self.of(siblings)
        return len(shown) + sum(bool(each.below) for each in shown) + bool(rest)


# Labels.


def _labels(group: _Group, shown: Sequence[Stretch]) -> list[str]:
    """Say of each stretch that is shown what tells it from its siblings.

    Of one without siblings it is said what it changes, and of a root everything.
    """
    if len(group.siblings) > 1:
        return told_apart(shown, group.siblings)
    (stretch,) = shown
    if group.at_root:
        return _described(shown, stretch.node.config.names)
    changes = list(stretch.node.config.changes(stretch.start))
    return [f"then {label}" for label in _described(shown, changes)] if changes else ["goes on"]


def told_apart(shown: Sequence[Stretch], siblings: Sequence[Stretch]) -> list[str]:
    """Say of stretches that start at one place what tells them from their siblings."""
    return _described(shown, _differing(siblings))


def _differing(siblings: Sequence[Stretch]) -> list[str]:
    """Return the hyper-parameters that do not have the same value at the start of all siblings."""
    first = siblings[0].node.config.values(siblings[0].start)
    differing: set[str] = set()
    for stretch in siblings[1:]:
        values = stretch.node.config.values(stretch.start)
        differing |= first.keys() ^ values.keys()
        differing.update(name for name in first.keys() & values.keys() if not same(first[name], values[name]))
    return sorted(differing)


def _described(stretches: Sequence[Stretch], names: Sequence[str]) -> list[str]:
    """Describe stretches by some hyper-parameters; where that does not tell them apart, by bare values."""
    described = [
        {
            name: f"{name} {short.in_force(each.node.config[name], each.start, each.end)}"
            for name in names
            if name in each.node.config
        }
        for each in stretches
    ]
    # The longest come last, where labels are cut.
    longest = {name: max(len(each.get(name, "")) for each in described) for name in names}
    names = sorted(names, key=lambda name: longest[name])
    labels = [" · ".join(each[name] for name in names if name in each) for each in described]
    if len(set(labels)) == len(labels):
        return labels
    starts = [each.node.config.values(each.start) for each in stretches]
    return [" · ".join(f"{name} {values[name]}" for name in names if name in values) for values in starts]


# Columns.


class _Columns:
    """Lays rows out: label, figures, and (where there is room) the place on an axis of all steps."""

    HEADS = ("stage", "steps", "trials", "asked")

    def __init__(self, rows: Sequence[Row], last: int, width: int) -> None:
        cells = [_cells(row.stretch) for row in rows if row.stretch]
        self._widths = [
            max(len(head), *(len(line[column]) for line in cells)) for column, head in enumerate(self.HEADS)
        ]
        wanted = max(len(row.guides) + len(row.label) for row in rows if row.stretch)
        room = width - sum(self._widths) - 2 * len(self._widths)
        self._label = max(min(wanted, room - _SHORTEST_AXIS - 2), _SHORTEST_LABEL)
        axis = min(room - self._label - 2, _LONGEST_AXIS)
        self._axis = axis if axis >= _SHORTEST_AXIS else 0
        self._last = last

    def lines(self, rows: Sequence[Row]) -> Iterator[Text]:
        """Yield the header and a line for each row."""
        scale = f"0{self._last:>{self._axis - 1},}" if self._axis else ""
        yield Text(f"{' ' * self._label}{self._aligned(self.HEADS)}  {scale}".rstrip(), style="dim")
        for row in rows:
            if row.stretch is None:
                yield Text.assemble((row.guides, "dim"), (row.label, "dim italic"))
                continue
            room = self._label - len(row.guides)
            label = f"{short.cut(row.label, room):<{room}}"
            bar = (self._bar(row.stretch), "green" if row.stretch.trials > 1 else "cyan")
            yield Text.assemble((row.guides, "dim"), label, self._aligned(_cells(row.stretch)), "  ", bar)

    def _aligned(self, cells: Sequence[str]) -> str:
        first, *rest = zip(cells, self._widths, strict=True)
        return f"  {first[0]:<{first[1]}}" + "".join(f"  {cell:>{width}}" for cell, width in rest)

    def _bar(self, stretch: Stretch) -> str:
        if not self._axis:
            return ""
        start = stretch.start * self._axis // self._last
        end = max(stretch.end * self._axis // self._last, start + 1)
        return " " * start + "━" * (end - start)


def _cells(stretch: Stretch) -> tuple[str, str, str, str]:
    steps = stretch.end - stretch.start
    asked = f"{stretch.asks:,}" if stretch.asks else ""
    return f"[{stretch.start}, {stretch.end})", f"{steps:,}", f"{stretch.trials:,}", asked
