"""Tables of results, and whether a target was met."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.table import Table

from benchmarks.measuring import Samples, figure


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """What a median should be: at most `limit`, or at least that."""

    limit: float
    unit: str
    is_minimum: bool = False

    def verdict(self, samples: Samples) -> str:
        is_met = samples.median >= self.limit if self.is_minimum else samples.median <= self.limit
        sign = ">=" if self.is_minimum else "<="
        return f"{sign} {figure(self.limit)} {self.unit}: {'met' if is_met else 'MISSED'}"


@dataclass(slots=True)
class Report:
    """One table. `notes` are printed below it; the command fails if there are `failures`."""

    title: str
    columns: Sequence[str]
    rows: list[tuple[str, ...]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    def add(self, *cells: object) -> None:
        assert len(cells) == len(self.columns)
        self.rows.append(tuple(map(str, cells)))

    def table(self, *, is_markdown: bool = False) -> Table:
        style = box.MARKDOWN if is_markdown else box.SIMPLE_HEAD
        table = Table(title=self.title, title_justify="left", box=style)
        for number, column in enumerate(self.columns):
            table.add_column(column, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*row)
        return table


FIGURES = ("measured", "median", "from ... to", "target")


def figures_report(title: str) -> Report:
    """A table of single figures, each with its spread and its target."""
    return Report(title, FIGURES)


def add_figure(
    report: Report, name: str, samples: Samples, unit: str, target: Target | None = None
) -> None:
    verdict = "" if target is None else target.verdict(samples)
    report.add(name, f"{figure(samples.median)} {unit}", samples.spread, verdict)
