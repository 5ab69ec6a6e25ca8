"""``Program.memory``, the memory that a program holds at each step; and programs in notebooks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from agrad.core.op import OPS, facts_of
from agrad.program.program import BODIED, Program, Step, attached, refs_in

#: The number of lines that notebooks show at either end of a longer program.
SHOWN = 200


@dataclass(frozen=True, slots=True)
class StepMemory:
    """The result of one step, and the memory held while it runs.

    Attributes
    ----------
    step : int
        Its position in the program, from 0.
    op : str
        The operation.
    made : int
        Bytes of its results; 0 for a view.
    live : int
        Bytes held while it runs: inputs, constants, its results, and earlier results that a later step or the caller needs.
    line : str
        The user's line.
    """

    step: int
    op: str
    made: int
    live: int
    line: str


@dataclass(frozen=True, slots=True, repr=False)
class ProgramMemory:
    """The memory that a program holds at each step; prints as a table.

    Attributes
    ----------
    rows : tuple of StepMemory
        One for each step.
    inputs, constants : int
        Bytes of the inputs and of the constants, which are held throughout.
    outputs : int
        Bytes of the results that are neither inputs nor constants.
    """

    rows: tuple[StepMemory, ...]
    inputs: int
    constants: int
    outputs: int

    @property
    def peak(self) -> int:
        """The most bytes that are held at once."""
        return max((row.live for row in self.rows), default=self.inputs + self.constants)

    def table(self, rows: int | None = None) -> str:
        """Return the steps as a table.

        Parameters
        ----------
        rows : int, optional
            Show only this many steps, those that hold most, in their order. Default: all.

        Returns
        -------
        str
            A heading, a line per step, and a line with the peak and the totals.
        """
        shown = sorted(sorted(self.rows, key=lambda row: -row.live)[:rows], key=lambda row: row.step)
        unit, size = self._unit
        lines = [["step", "operation", f"made {unit}", f"held {unit}", "line"]]
        lines += [[str(r.step), r.op, f"{r.made / size:.3f}", f"{r.live / size:.3f}", r.line] for r in shown]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        sides = (str.rjust, str.ljust, str.rjust, str.rjust, str.ljust)
        texts = [
            "  ".join(put(cell, width) for put, cell, width in zip(sides, line, widths, strict=True)).rstrip()
            for line in lines
        ]
        return "\n".join([*texts, repr(self)[1:-1]])

    def __str__(self) -> str:
        return self.table()

    @property
    def _unit(self) -> tuple[str, float]:
        """The unit that suits the peak, and its bytes."""
        return next((one for one in (("GB", 1e9), ("MB", 1e6)) if self.peak >= one[1]), ("kB", 1e3))

    def _repr_html_(self) -> str:
        from agrad.view import notebook  # noqa: PLC0415 (for notebooks alone)

        return notebook.text(self.table())

    def __repr__(self) -> str:
        unit, one = self._unit
        parts = (("inputs", self.inputs), ("constants", self.constants), ("outputs", self.outputs))
        said = ", ".join(f"{name} {size / one:.3f}" for name, size in parts)
        return f"<{len(self.rows)} steps, peak {self.peak / one:.3f} {unit}: {said}>"


@attached
class MemoryMethods:
    """The members of `Program` that this file defines."""

    def memory(self: Any) -> ProgramMemory:
        """Return the memory that the program holds at each step when its text runs, derived from shapes and dtypes alone.

        A view keeps the array that it views in memory, and takes none itself. A backend that runs programs in its own way may
        hold less, and kernels may hold more while they run.

        Returns
        -------
        ProgramMemory
            Prints as a table; ``.peak`` is in bytes.

        Examples
        --------
        >>> import agrad as ag
        >>> program = ag.func.capture(lambda x: ag.sum(ag.exp(ag.sin(x))))(ag.ones(1000))
        >>> program.memory()
        <3 steps, peak 24.000 kB: inputs 8.000, constants 0.000, outputs 0.008>
        >>> [row.live for row in program.memory().rows]
        [16000, 24000, 16008]
        """
        return memory_of(self)

    def _repr_html_(self: Any) -> str:
        from agrad.view import notebook  # noqa: PLC0415 (for notebooks alone)

        lines = str(self).splitlines()
        if len(lines) > 2 * SHOWN:
            lines[SHOWN:-SHOWN] = [f"    ... {len(lines) - 2 * SHOWN} more lines: print() shows them"]
        return notebook.text("\n".join([*lines, "", repr(self.memory())]))


def is_view(step: Step) -> bool:
    """Return whether the results of a step lie in the memory of its first operand, or take none of their own."""
    if step.op in OPS and OPS[step.op].has_key and any(refs_in(step.args[1])):  # indexing by arrays copies elements
        return False
    return facts_of(step.op).is_view


def memory_of(program: Program) -> ProgramMemory:
    """Return the memory that a program holds at each step."""
    not_computed = dict.fromkeys((*program.inputs, *program.constants))
    base = {number: number for number in not_computed}  # by number: the value in whose memory it lies
    last_uses = program.last_uses()
    last: dict[int, int] = {}
    for step in program.steps:
        lies_in = base.get(step.refs[0]) if is_view(step) and step.refs else None
        base |= {number: number if lies_in is None else lies_in for number in step.made}
    for number, owner in base.items():
        last[owner] = max(last.get(owner, -1), last_uses.get(number, -1))

    def size(numbers: Any) -> int:
        return sum(program.shapes[n].nbytes for n in numbers if n in program.shapes)  # keys of draws have no shape

    live = size(not_computed)
    rows = []
    ends: dict[int, list[int]] = {}
    for at, step in enumerate(program.steps):
        own = [n for n in step.made if base[n] == n]
        live += size(own)
        inside = memory_of(step.args[1].program).peak if step.op in BODIED else 0  # of one call of the body
        rows.append(StepMemory(at, step.op, size(own), live + inside, step.line))
        for number in own:
            ends.setdefault(max(last[number], at), []).append(number)
        live -= size(ends.pop(at, ()))
    outputs = dict.fromkeys(base[n] for n in program.outputs if base[n] not in not_computed)
    return ProgramMemory(tuple(rows), size(program.inputs), size(program.constants), size(outputs))
