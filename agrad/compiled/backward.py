"""The captured backward pass of a call: a program for each choice of results and of targets to differentiate with respect to.

The pass was recorded once, from all results. It is known which of its steps each node ran (`NodeSteps`), so the pass from
some of the
results is derived from it: steps that would not have run are left out, and if one of two summed cotangents is missing,
the other replaces the sum. So targets that none of these results depends on get no gradient, as in eager code. The
nodes of the capture (`SavingNodes`) tell which values a pass has freed: a later pass that reaches such a node is an error.

Sets of results, of targets and of uses are integers, a bit for each.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agrad.core.backend import Backend
from agrad.core.engine import Pass, Total, running
from agrad.core.executor import KeptValues
from agrad.core.hooks import Hooks
from agrad.core.node import AccumulateGrad, Constants, Freed, Node, ancestors
from agrad.program.batching import Batched
from agrad.program.program import DETACH, DType, Program, Ref, Shaped, Step

#: The number of a cotangent that no step made.
UNKNOWN = -1


class NodeSteps(NamedTuple):
    """The steps that one node, or one sum, added to a pass.

    Attributes
    ----------
    begin, end : int
        Its steps.
    taken : tuple of (int or None)
        The numbers of the cotangents that it consumed; None for one that is missing.
    given : tuple of (int or None)
        The numbers of the cotangents that it produced.
    is_sum : bool
        Whether it added two cotangents.
    """

    begin: int
    end: int
    taken: tuple[int | None, ...]
    given: tuple[int | None, ...]
    is_sum: bool = False


class SavingNodes(NamedTuple):
    """Nodes that saved values.

    Attributes
    ----------
    results : int
        The results from which a pass reaches them.
    targets : int
        The targets they lead to; a bit past the last one if they lead to none.
    """

    results: int
    targets: int


class UnclearPass(Exception):
    """The pass from some of the results cannot be derived from the pass from all of them."""


class PartialBackward(NamedTuple):
    """The pass from some of the results to some of the targets.

    Attributes
    ----------
    program : Program
        Takes saved values, then a cotangent of each of these results; returns the gradients.
    saved : tuple of int
        The positions of the saved values that it takes among all of them.
    gradients : tuple of (int or None)
        For each of all targets, the position of its gradient among the program's outputs; None if it gets none.
    taken : tuple of int
        The first of these saved values: those that are kept for nothing else.
    """

    program: Program
    saved: tuple[int, ...]
    gradients: tuple[int | None, ...]
    taken: tuple[int, ...]


@dataclass
class CapturedBackward:
    """The backward pass of a call.

    Attributes
    ----------
    whole : Program
        From the values kept by the forward pass, and a cotangent per result, to a gradient per target, with all its
        steps.
    saved : tuple of int
        The numbers of the values kept by the forward pass; first those that it keeps for nothing else.
    kept : int
        How many these are.
    cotangents : tuple of int
        The numbers of the cotangents, one per result.
    parts : sequence of NodeSteps
        The actions of its nodes, in order.
    uses : sequence of SavingNodes
        The nodes that saved values.
    reach : sequence of int
        For each result, the targets that it depends on.
    dropped : sequence of int
        The positions of the targets whose gradients come from ops that drop elements.
    """

    whole: Program
    saved: tuple[int, ...]
    cotangents: tuple[int, ...]
    parts: Sequence[NodeSteps]
    uses: Sequence[SavingNodes]
    reach: Sequence[int]
    dropped: Sequence[int] = ()
    kept: int = 0
    _some: dict[tuple[int, int], PartialBackward | None] = field(default_factory=dict, init=False)
    _visited: dict[tuple[int, int], int] = field(default_factory=dict, init=False)
    _left: dict[int, frozenset[int]] = field(default_factory=dict, init=False)

    def of(self, results: int, targets: int) -> PartialBackward | None:
        """Return the pass from results to targets, created at first use; None if it cannot be derived."""
        key = results, targets & (1 << len(self.whole.outputs)) - 1
        if key not in self._some:
            try:
                self._some[key] = self._made(*key)
            except UnclearPass:
                self._some[key] = None
        return self._some[key]

    def _made(self, results: int, targets: int) -> PartialBackward:
        chosen = [number for i, number in enumerate(self.cotangents) if results >> i & 1]
        program, found = self.whole, list[int | None](self.whole.outputs)
        if len(chosen) < len(self.cotangents):
            program, found = restricted(self.whole, self.parts, set(self.cotangents) - {*chosen})
        found = [number if targets >> i & 1 else None for i, number in enumerate(found)]
        outputs = tuple(dict.fromkeys(number for number in found if number is not None))
        program = program.replaced(outputs=outputs).needed()
        used = {number for step in program.steps for number in step.refs} | {*program.outputs}
        saved = [number for number in self.saved if number in used]
        keys = tuple(number for number in self.whole.keys if number in saved)
        places = {number: at for at, number in enumerate(outputs)}
        positions = tuple(at for at, number in enumerate(self.saved) if number in used)
        return PartialBackward(
            program.replaced(inputs=(*saved, *chosen), keys=keys),
            positions,
            tuple(None if number is None else places[number] for number in found),
            tuple(at for at in positions if at < self.kept),
        )

    def values(self, some: PartialBackward, saved: Sequence[Any], layout: Any) -> list[Any]:
        """Return the saved values that one of its programs takes; `layout`: that of the node's `KeptValues`, if it has one."""
        if layout is None:
            return [*map(saved.__getitem__, some.saved)]
        end = self.end_of_kept(saved)
        return [*layout.values(tuple(saved[:end]), some.taken), *self.others(some, saved)]

    def others(self, some: PartialBackward, saved: Sequence[Any]) -> list[Any]:
        """Return those of these values that are not in the node's `KeptValues`."""
        first = self.end_of_kept(saved) - self.kept
        return [saved[first + at] for at in some.saved[len(some.taken) :]]

    def run(
        self,
        some: PartialBackward,
        saved: Sequence[Any],
        layout: Any,
        cotangents: Sequence[Any],
        backend: Backend,
        options: Mapping[str, Any],
    ) -> Sequence[Any]:
        """Run one of its programs on the saved values of a node, and cotangents."""
        if layout is None or not some.taken:
            return some.program.run(backend, [*self.values(some, saved, layout), *cotangents], **options)
        kept = KeptValues(tuple(saved[: self.end_of_kept(saved)]), layout)
        run = some.program.chosen(backend, taken=some.taken, **options)
        try:
            return run(kept, *self.others(some, saved), *cotangents)
        except Exception as error:
            some.program.explain(error, backend, [*self.values(some, saved, layout), *cotangents])
            raise

    def end_of_kept(self, saved: Sequence[Any]) -> int:
        """Return how many of a node's saved arrays are those of its `KeptValues`."""
        return len(saved) - (len(self.saved) - self.kept)

    def visited(self, results: int, targets: int) -> int:
        """Return the uses that a pass reaches; -1 means all targets, and everything that leads to none."""
        key = results, targets
        if key not in self._visited:
            met = (1 << i for i, use in enumerate(self.uses) if use.results & results and use.targets & targets)
            self._visited[key] = sum(met)
        return self._visited[key]

    def left(self, spent: int) -> frozenset[int]:
        """Return the positions of the saved values that passes may still need when some uses are spent."""
        if spent not in self._left:
            self._left[spent] = frozenset(self._still_needed(spent))
        return self._left[spent]

    def _still_needed(self, spent: int) -> set[int]:
        needed: set[int] = set()
        for i, targets in enumerate(self.reach):
            gone = (u.targets for at, u in enumerate(self.uses) if spent >> at & 1 and u.results >> i & 1)
            left = targets & ~functools.reduce(operator.or_, gone, 0)
            if left:
                some = self.of(1 << i, left)
                needed.update(range(len(self.saved)) if some is None else some.saved)
        return needed


def uses_of(roots: Sequence[Node], targets: Sequence[Node], first: int) -> tuple[list[SavingNodes], list[int]]:
    """Return the nodes from number `first` on that saved values, and the targets that each root leads to."""
    graph = sorted(ancestors(roots, oldest=first), key=lambda node: node.seq)
    leads = {node: 1 << i for i, node in enumerate(targets)}
    elsewhere = 1 << len(targets)  # to a leaf that the function made
    for node in graph:
        if node not in leads:
            leads[node] = functools.reduce(operator.or_, (leads.get(below, 0) for below in node.inputs), 0) or elsewhere
    comes = dict.fromkeys(graph, 0)
    for i, root in enumerate(roots):
        comes[root] |= 1 << i
    for node in reversed(graph):
        for below in node.inputs:
            if below in comes:
                comes[below] |= comes[node]
    saving = (node for node in graph if node.saved and type(node.saved) not in (Constants, Freed))
    return list(dict.fromkeys(SavingNodes(comes[node], leads[node]) for node in saving)), [
        leads[root] & elsewhere - 1 for root in roots
    ]


def restricted(program: Program, parts: Sequence[NodeSteps], absent: set[int]) -> tuple[Program, list[int | None]]:
    """Return a backward program for a pass in which some cotangents are missing, and its outputs; None for those that no cotangent reaches.

    Raises
    ------
    Unclear
        If that cannot be determined.
    """
    steps: list[Step] = []
    shapes: dict[int, Shaped] = {}
    same: dict[int, int] = {}  # if one side of a sum is missing, the sum is the other side
    next_number = max(program.shapes, default=-1) + 1

    def known(number: int | None) -> int | None:
        return None if number is None else same.get(number, number)

    def between(begin: int, end: int) -> None:
        """Copy steps that no node ran."""
        for step in program.steps[begin:end]:
            if absent.isdisjoint(step.refs):
                steps.append(step.taking({n: Ref(same[n]) for n in step.refs if n in same}))
            elif step.op == DETACH:
                absent.update(step.made)
            else:
                raise UnclearPass

    at = 0
    for part in parts:
        if UNKNOWN in (*part.taken, *part.given):
            raise UnclearPass
        between(at, part.begin)
        at = part.end
        taken = [known(number) for number in part.taken]
        gone = [number for number in taken if number is None or number in absent]
        run = program.steps[part.begin : part.end]
        made = {number for step in run for number in step.made}
        if len(gone) == len(taken):
            if any(n is not None and n not in made and known(n) not in absent for n in part.given):
                raise UnclearPass  # a gradient that is another tensor's too
            absent |= made
            continue
        if part.is_sum and gone:
            (total,) = part.given
            (left,) = (number for number in taken if number not in gone)
            assert total is not None
            assert left is not None
            same[total] = left
            continue
        other = dict(same)
        for number in dict.fromkeys(gone):
            if number is not None:  # for a node with several results: zeros, as if none reaches one of them
                zeros = other[number] = next_number
                next_number += 1
                shapes[zeros] = shape, dtype = program.shapes[number]
                steps.append(
                    Step("zeros", (shape,), {"dtype": DType(dtype)}, (zeros,), line=run[0].line if run else "")
                )
        steps += (step.taking({n: Ref(other[n]) for n in step.refs if n in other}) for step in run)
    between(at, len(program.steps))
    found = [None if known(n) in absent else known(n) for n in program.outputs]
    return program.replaced(steps=tuple(steps), shapes={**program.shapes, **shapes}), found


class BoundedPass(Pass):
    """A backward pass that ends at its targets, before their hooks, even if one target was computed from another."""

    def visit(self, node: Node, g: Any) -> tuple[Sequence[Node], Any]:
        assert self.targets is not None
        if node in self.targets and type(node) is not AccumulateGrad:
            self.captured[node] = g
            return (), ()
        return super().visit(node, g)

    def run_tensor_hooks(self, node: Node, hooks: Hooks, g: Any) -> Any:
        assert self.targets is not None
        return g if node in self.targets else super().run_tensor_hooks(node, hooks, g)


class RecordingPass(BoundedPass):
    """Such a pass within a recording, which also records what its nodes do.

    Attributes
    ----------
    parts : list of NodeSteps
        The actions of its nodes.
    dropped : set of Node
        The targets that get cotangents from ops that drop elements.
    """

    parts: list[NodeSteps]
    dropped: set[Node]

    def run(self) -> dict[Node, Any]:
        """Run the pass, within a recording; return the targets' cotangents."""
        self.parts, self.dropped = [], set()
        self.begin: int = len(self.recorder.steps)
        self.execute()
        return self.captured

    def visit(self, node: Node, g: Any) -> tuple[Sequence[Node], Any]:
        assert self.targets is not None
        if node in self.masked and node in self.targets:
            self.dropped.add(node)
        return super().visit(node, g)

    def _part(self, run: Callable[[], Any], taken: Any, *, is_sum: bool = False) -> Any:
        recorder = self.recorder
        before, begin = self._numbers(taken), len(recorder.steps)
        result = run()
        given = self._numbers(result)
        self.parts.append(NodeSteps(begin - self.begin, len(recorder.steps) - self.begin, before, given, is_sum))
        return result

    def _numbers(self, values: Any) -> tuple[int | None, ...]:
        values = values if isinstance(values, list | tuple) else (values,)
        return tuple(None if value is None else self._number(value) for value in values)

    def _number(self, value: Any) -> int:
        while isinstance(value, Batched):  # the steps are those of its data
            value = value.data
        number = self.recorder.number_of(value)
        return UNKNOWN if number is None else number

    def run_tensor_hooks(self, node: Node, hooks: Hooks, g: Any) -> Any:
        assert self.targets is not None
        if node in self.targets:
            return g
        return self._part(lambda: super(RecordingPass, self).run_tensor_hooks(node, hooks, g), g)

    def derivative(self, node: Node, g: Any, saved: tuple[Any, ...], *, masked: bool) -> Any:
        return self._part(lambda: super(RecordingPass, self).derivative(node, g, saved, masked=masked), g)

    def accumulate(self, total: Total, node: Node, part: Any) -> None:
        def add() -> Any:
            super(RecordingPass, self).accumulate(total, node, part)
            return total[0]

        self._part(add, (total[0], part), is_sum=True)


def release(node: Any, backward: CapturedBackward, visited: int) -> None:
    """Release the values that a pass, having run a node, was the last to need, unless it retains the graph."""
    task = running()
    if task is None or task.retain_graph or not visited:
        return
    node.spent |= visited
    node.freed = task.freed
    needed = backward.left(node.spent)
    if not needed:
        node.saved = task.freed
        return
    if node.layout is not None:  # its first arrays hold the values that are kept, perhaps several each
        first = backward.end_of_kept(node.saved) - backward.kept
        holders = node.layout.holders(at for at in needed if at < backward.kept)
        needed = frozenset({*holders, *(first + at for at in needed if at >= backward.kept)})
    node.saved = Constants(value if at in needed else None for at, value in enumerate(node.saved))
