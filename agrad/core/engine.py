"""The reverse engine: run the rules of a recorded graph, newest node first, and commit gradients at the end.

Descending creation numbers are a topological order, so a heap of them is all the scheduling needed. Nothing is recursive.
No `.grad` changes until every node has run and every sum is made; then all are assigned at once (``core.commit``), so a
backward pass that fails, or is interrupted, changes none of them (except for leaves with a post-accumulate hook, which are
committed as soon as their gradient is complete).

There are two loops. `Pass.watched` is the specification: it handles everything that can happen at a node, one method per
concern. `Pass.plain` runs the common case, raw arrays through rules, and hands over to `watched` when it meets anything
else. Both return the same bits.
"""

from __future__ import annotations

import functools
import operator
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextvars import ContextVar
from heapq import heapify, heappop, heappush, heappushpop
from typing import Any

from agrad.core import errors, mode
from agrad.core.anomaly import described, without_nan
from agrad.core.backend import Backend
from agrad.core.commit import commit, watch
from agrad.core.cotangents import MaskedCotangents, ShapeMismatchError, Transferred, fit
from agrad.core.history import as_gradient, fresh, laid_out, rebuilt
from agrad.core.hooks import Hooks, checked_all
from agrad.core.node import HOOKED, AccumulateGrad, Constants, Freed, Node, Output, ancestors, call_node
from agrad.core.once import once
from agrad.core.saved import unpacked
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor, wrap
from agrad.core.transfers import RelocatedNode, computed, is_foreign, joined_with, on_backend

#: The innermost pass that is running in this context.
_RUNNING: ContextVar[Pass | None] = ContextVar("agrad_pass", default=None)

#: Run every 20th nested pass in a new thread: a fresh stack avoids Python's recursion limit.
_NESTED = 20

#: The running sum for a node, and whether this pass made it, so that it may be added to in place.
Total = list[Any]


def running() -> Pass | None:
    """Return the backward pass that is running, None outside a pass."""
    return _RUNNING.get()


def run(
    roots: Sequence[tuple[Node, Tensor | None]],
    *,
    retain_graph: bool,
    create_graph: bool,
    targets: Collection[Node] | None = None,
    accumulate: bool = True,
    masked: bool = False,
    values: Sequence[Any] = (),
    closed: bool = False,
    cut: bool = True,
    kind: type[Pass] | None = None,
) -> dict[Node, Any]:
    """Propagate cotangents from the roots to the leaves.

    Parameters
    ----------
    roots : sequence of (Node, Tensor or None)
        Where to start, with the cotangent there; None means 1, for a 0-d result.
    retain_graph : bool
        Whether to keep saved values.
    create_graph : bool
        Whether to record the pass: rules run on tensors.
    targets : collection of Node, optional
        Run only nodes that lead to these.
    accumulate : bool, optional
        Whether to add to `.grad`; otherwise the cotangents at the targets are returned.
    masked : bool, optional
        Whether the cotangents come from an op that drops elements.
    values : sequence of Tensor, optional
        The differentiated values. Lazy ones of one element get their values where the pass computes anyway.
    closed : bool, optional
        Whether every path from the roots leads to the targets, so that nothing has to be skipped.
    cut : bool, optional
        Whether an unrecorded pass returns results without history in a program too.
    kind : type, optional
        A subclass of `Pass`.

    Returns
    -------
    dict
        The cotangent of each target reached: raw, or a Tensor where rules run on tensors.
    """
    if not roots:
        return {}
    task = (kind or Pass)(roots, retain_graph, create_graph, targets, accumulate, values, closed, cut)
    if masked:
        task.masked.update(node for node, _ in roots)
    if HOOKED:
        task.await_leaves()
    outer = _RUNNING.get()
    if outer is not None:
        task.depth = outer.depth + 1
    if task.depth and task.depth % _NESTED == 0:
        mode.in_a_thread(functools.partial(task.execute, errors.caller()))
    else:
        task.execute()
    return task.captured


class Pass:
    """One backward pass.

    Attributes
    ----------
    roots : sequence of (Node, Tensor or None)
        Where it starts.
    targets, needed : collection of Node, or None
        The nodes to reach, and the nodes that lead to them.
    values : sequence of Tensor
        The differentiated values.
    as_tensors : bool
        Whether rules run on tensors: the pass is recorded, or levels of forward mode are open.
    cuts : bool
        Whether results have no history, in a program too.
    pending, leaves : dict
        The running sum of each node on the heap, and of each leaf.
    heap : list of (int, Node)
        The pending nodes, by descending creation number.
    retained : list
        Gradients for results on which `retain_grad` was called.
    captured : dict
        Cotangents at the targets.
    masked : set of Node
        Pending nodes whose cotangent comes, directly or indirectly, from an op that drops elements.
    crossed : bool
        Whether a cotangent may belong to another backend than its node.
    deferring : bool
        Whether lazy cotangents have passed to nodes of non-lazy backends: their values are computed at the end.
    waiting, ready : dict, list
        For each leaf with hooks, how many of its consumers have yet to run; the leaves whose consumers have all run.
    at_end : list of callable
        Functions to call after the last node, before gradients are committed.
    depth : int
        How many other passes this one runs inside.
    """

    def __init__(
        self,
        roots: Sequence[tuple[Node, Tensor | None]],
        retain_graph: bool,
        create_graph: bool,
        targets: Collection[Node] | None,
        into_leaves: bool,
        values: Sequence[Any],
        closed: bool,
        cut: bool = True,
    ) -> None:
        now = None if mode.get_mode() is None else mode.current()
        self.roots: Sequence[tuple[Node, Tensor | None]] = roots
        self.values: Sequence[Any] = values
        self.retain_graph: bool = retain_graph
        self.create_graph: bool = create_graph
        self.into_leaves: bool = into_leaves
        self.as_tensors: bool = create_graph or bool(now is not None and now.levels)
        self.anomaly: bool | None = None if now is None else now.anomaly
        self.profiler: Any = None if now is None else now.profiler
        self.recorder: Any = None if now is None else now.recorder
        self.cuts: bool = cut or create_graph or self.recorder is None
        self.log: Callable[..., None] | None = debug_log()
        self.targets = targets
        self.needed: set[Node] | None = (
            None if targets is None or closed else leading_to([node for node, _ in roots], targets)
        )
        self.freed: Freed = Freed()
        self.pending: dict[Node, Total] = {}
        self.leaves: dict[AccumulateGrad, Total] = {}
        self.heap: list[tuple[int, Node]] = []
        self.retained: list[tuple[Any, Any]] = []
        self.captured: dict[Node, Any] = {}
        self.masked: set[Node] = set()
        self.crossed: bool = False
        self.deferring: bool = False
        self.waiting: dict[Node, int] = {}
        self.ready: list[Node] = []
        self.at_end: list[Callable[[], None]] = []
        self.depth = 0

    @once
    def reachable(self) -> set[Node]:
        """The nodes this pass may run."""
        return ancestors([node for node, _ in self.roots]) if self.needed is None else self.needed

    def await_leaves(self) -> None:
        """Count the consumers of each leaf with hooks: the leaf runs as soon as the last of them has."""
        for node in self.reachable:
            for edge in node.inputs:
                if edge.hooks is not None and type(edge) is AccumulateGrad:
                    self.waiting[edge] = self.waiting.get(edge, 0) + 1

    def execute(self, caller: Any = None) -> None:
        """Run the pass, with recording as requested. `caller` is the calling place, if in another thread."""
        before, outer = mode.get_mode(), _RUNNING.get()
        try:
            self.freed.code, self.freed.lasti = errors.caller() if caller is None else caller
            if before is None and not self.create_graph:
                mode.push_unrecorded()
            else:
                mode.push(grad=self.create_graph or not self.cuts)
            _RUNNING.set(self)
            with self.roots[0][0].spec.backend.quiet():
                edges, gs = [node for node, _ in self.roots], [self.start(*root) for root in self.roots]
                if self.is_plain():
                    self.plain(edges, gs)
                else:
                    self.deliver(edges, gs)
                self.watched()
                self.finish()
        finally:
            try:
                _RUNNING.set(outer)
            finally:
                mode.set_mode(before)

    def is_plain(self) -> bool:
        """Return whether no node needs watching, as far as can be known before any node has run."""
        return not (
            self.as_tensors
            or self.crossed
            or (self.targets is not None and any(type(node) is not AccumulateGrad for node in self.targets))
            or self.masked
            or self.waiting
            or self.anomaly is not None
            or self.profiler is not None
            or self.recorder is not None
            or self.log is not None
        )

    def start(self, node: Node, g: Tensor | None) -> Any:
        """Return the cotangent of a root in the form that rules take."""
        if g is None:  # values are immutable: every pass may start from the same 1
            one = node.spec.floats.get(1.0)
            one = node.spec.scalar(1.0) if one is None else one
            if self.recorder is not None:
                self.recorder.constant(one)
            return wrap(one, node.spec) if self.as_tensors else one
        if self.recorder is not None:
            self.recorder.use(g)
        if self.as_tensors:
            return g if self.create_graph else fresh(g, None)
        return self.unwrap(g, node.spec)

    # -- the two loops ------------------------------------------------------------------------------------------------

    def plain(self, edges: Any, gs: Any) -> None:
        """Run nodes until none is pending, or until something requires watching every node from then on.

        The newest node bypasses the heap. No delivered cotangent outlives its use: a local variable that does adds one more
        buffer to the peak.
        """
        retain_graph, freed, needed = self.retain_graph, self.freed, self.needed
        leaves, pending, heap, masked = self.leaves, self.pending, self.heap, self.masked
        accumulate, leaves_get = self.accumulate, leaves.get
        following: Any
        node: Node
        g: Any = None
        while True:
            following = None
            for edge, part in zip(edges, gs):  # noqa: B905 (as many as edges by construction; checking costs time)
                if part is None or (needed is not None and edge not in needed):
                    continue
                if edge.vjp is None and edge.hooks is None and type(edge) is AccumulateGrad:
                    total = leaves_get(edge)
                    if total is None:
                        leaves[edge] = [part, False]
                    else:
                        accumulate(total, edge, part)
                elif following is None and (not heap or edge.seq > -heap[0][0]):
                    following, g = edge, part
                elif edge is following:
                    g = edge.spec.xp.add(g, part)
                elif edge in pending:
                    accumulate(pending[edge], edge, part)
                else:
                    pending[edge] = [part, False]
                    heappush(heap, (-edge.seq, edge))
            gs = part = onward = None
            if following is None:
                if not heap:
                    return
                node = heappop(heap)[1]
                g = pending.pop(node)[0]
            elif heap and following.seq < -heap[0][0]:
                pending[following] = [g, False]
                node = heappushpop(heap, (-following.seq, following))[1]
                g = pending.pop(node)[0]
            else:
                node = following
            while True:  # runs once, except along a chain
                vjp, saved = node.vjp, node.saved
                if vjp is None or node.hooks is not None or (masked and node in masked):
                    edges, gs = self.visit(node, g)
                    if self.crossed:  # by a hook
                        self.deliver(edges, gs)
                        return
                else:
                    try:
                        spec = node.spec
                        run_rule = spec.run_rule
                        gs = vjp(spec.xp, g, saved, node) if run_rule is None else run_rule(vjp, g, saved, node)
                    except Exception as error:
                        explain(error, node, saved)
                        raise
                    if saved and not retain_graph and type(saved) is not Constants:
                        node.saved = freed
                    edges, second = node.edges, node.second
                    if second is not None:
                        # while the other operand is a leaf, as in most steps of most programs, the chain continues
                        if second.vjp is None:
                            leaf, ahead = second, edges
                            onward, part = gs
                        else:
                            leaf, ahead = edges, second
                            part, onward = gs
                        if (
                            heap
                            or needed is not None
                            or ahead.vjp is None
                            or leaf.hooks is not None
                            or part is None
                            or onward is None
                            or type(leaf) is not AccumulateGrad
                        ):
                            edges = (edges, second)
                            break
                        total = leaves_get(leaf)
                        if total is None:
                            leaves[leaf] = [part, False]
                        else:
                            accumulate(total, leaf, part)
                        node, g = ahead, onward
                        gs = part = onward = None
                        continue
                    if type(edges) is not tuple:
                        if heap or needed is not None or gs is None or edges.vjp is None:
                            edges, gs = (edges,), (gs,)
                            break
                        node, g = edges, gs
                        continue
                if type(gs) is MaskedCotangents:
                    masked.update(edges)
                elif type(gs) is Transferred and any(map(is_foreign, gs, edges)):
                    self.deliver(edges, gs)
                    return
                break

    def watched(self) -> None:
        """Run nodes until none is pending, whatever happens at them: the specification of a pass."""
        pending, heap = self.pending, self.heap
        while heap:
            node = self.due() if self.ready else heappop(heap)[1]
            g = pending.pop(node)[0]
            edges, gs = self.visit(node, g)
            self.deliver(edges, gs)
            gs = None

    # -- shared by both loops -----------------------------------------------------------------------------------------

    def accumulate(self, total: Total, node: Node, part: Any) -> None:
        """Add a cotangent to the running sum of a node, whose parts may be shared with others."""
        one, mine = total
        spec = node.spec
        if self.recorder is not None and not self.as_tensors:
            total[0] = self.recorder.kernels_of(joined_with(spec, (one, part))).add(one, part)
        elif mine:
            total[0] = spec.xp.add_into(one, part, one)
        elif self.as_tensors:
            total[0] = spec.backend.functions.add(one, part)
        elif self.crossed:
            here = joined_with(spec, (one, part))
            total[0] = (
                here.xp.add(on_backend(one, here), on_backend(part, here)) if self.deferring else here.xp.add(one, part)
            )
        else:
            total[0], total[1] = spec.xp.add(one, part), spec.accumulates

    # -- concerns of the watched loop ---------------------------------------------------------------------------------

    def deliver(self, edges: Sequence[Node], gs: Sequence[Any]) -> None:
        """Add cotangents to the sums of their nodes."""
        if type(gs) is MaskedCotangents:
            self.masked.update(edges)
        elif type(gs) is Transferred and not self.as_tensors and any(map(is_foreign, gs, edges)):
            self.cross()
        for edge, part in zip(edges, gs, strict=True):
            if part is None or (self.needed is not None and edge not in self.needed):
                continue
            totals: Any = self.leaves if type(edge) is AccumulateGrad and edge.hooks is None else self.pending
            total = totals.get(edge)
            if total is not None:
                self.accumulate(total, edge, part)
                continue
            totals[edge] = [part, False]
            if totals is self.pending:
                heappush(self.heap, (-edge.seq, edge))

    def cross(self) -> None:
        """From now on check the backend of each cotangent; no earlier sum is added to in place."""
        if not self.crossed:
            self.crossed = True
            for total in (*self.leaves.values(), *self.pending.values()):
                total[1] = False

    def due(self) -> Node:
        """Take the next node off the heap: the newest; a leaf with hooks whose consumers have all run goes before calls."""
        while self.ready and type(self.heap[0][1]) is not AccumulateGrad:
            leaf = self.ready.pop(0)
            if leaf in self.pending:
                self.heap.remove((-leaf.seq, leaf))
                heapify(self.heap)
                return leaf
        return heappop(self.heap)[1]

    def visit(self, node: Node, g: Any) -> tuple[Sequence[Node], Any]:
        """Run one node and its hooks; return the nodes to deliver cotangents to, and the cotangents."""
        hooks, masked = node.hooks, node in self.masked
        if self.waiting:
            self.count_off(node)
        if self.log is not None and type(node) is not Output:
            self.log("Executing: %s with grad_outputs: [%s]", node, described(g))
        if masked:
            self.masked.remove(node)
            self.masked.update(node.inputs)
        if type(node) is AccumulateGrad and (before := self.leaves.pop(node, None)) is not None:
            self.accumulate(before, node, g)  # delivered before it had hooks: one was registered during the pass
            g = before[0]
        if hooks is not None and not isinstance(g, list):
            g = self.run_tensor_hooks(node, hooks, g)
        if self.targets is not None and node in self.targets:
            self.captured[node] = g
            if self.needed is None or self.needed.isdisjoint(node.inputs):
                if type(node) is AccumulateGrad:
                    self.arrive(node, g)
                return (), ()
        if hooks is not None and hooks.pre:
            g = self.run_pre_hooks(node, hooks, g)
        if node.vjp is None:
            self.hand_on(node, g) if isinstance(node, Output) else self.arrive(node, g)
            return (), ()
        saved = node.saved
        if hooks is not None and hooks.packed:
            saved = unpack(node, saved)
        gs = self.derivative(node, g, saved, masked=masked)
        if hooks is not None and hooks.post:
            kind = type(gs)
            gs = self.run_post_hooks(node, hooks, gs, g)
            gs = MaskedCotangents(gs) if kind is MaskedCotangents else gs
        if saved and not self.retain_graph and type(saved) is not Constants:
            node.saved = self.freed
        edges = node.edges
        if isinstance(edges, tuple):
            return edges, gs
        return ((edges,), (gs,)) if node.second is None else ((edges, node.second), gs)

    def count_off(self, node: Node) -> None:
        """Note that a node runs that consumes some leaves with hooks."""
        for edge in node.inputs:
            if edge in self.waiting:
                self.waiting[edge] -= 1
                if self.waiting[edge] == 0:
                    self.ready.append(edge)

    def arrive(self, leaf: Any, g: Any) -> None:
        """Receive the complete gradient of a leaf with hooks."""
        if leaf.hooks is not None and leaf.hooks.accumulated and self.targets is None:
            self.commit({leaf: [self.materialized(g, leaf.spec), False]}, ())
        else:
            self.leaves[leaf] = [g, False]

    def hand_on(self, output: Output, g: Any) -> None:
        """Pass the cotangent of one of several results to the call's node, which runs with the cotangents of all."""
        base = output.base
        if base not in self.pending:
            self.pending[base] = [[None] * len(base.spec), False]
            heappush(self.heap, (-base.seq, base))
        self.pending[base][0][output.number] = g

    def derivative(self, node: Node, g: Any, saved: tuple[Any, ...], *, masked: bool) -> Any:
        """Run a node's rule: on tensors, or on the kernels that its cotangent requires."""
        vjp: Any = nan_safe(node) if masked else node.vjp
        if self.as_tensors:
            vjp = recordable(node, vjp, masked=masked)
        if self.anomaly:
            vjp = without_nan(vjp)
        if self.recorder is not None:
            vjp = self.recorder.around_vjp(node, vjp)
        if self.profiler is not None:
            vjp = self.profiler.around_vjp(node, vjp)
        try:
            if self.as_tensors:
                backend = node.spec.backend
                gs = backend._run_on(vjp, backend.functions, g, rebuilt(node, saved), node)
                return laid_out(gs, node) if backend.is_lazy else gs
            if self.crossed:
                here = joined_with(node.spec, g if isinstance(g, list) else (g,))
                if here is not node.spec.backend:
                    return self.elsewhere(here, node, vjp, g, saved)
            run_rule = node.spec.run_rule
            if run_rule is None:
                return vjp(node.spec.xp, g, saved, node)
            if self.recorder is not None:
                with node.spec.backend._on(node.out_specs[0].device):
                    return vjp(node.spec.xp, g, saved, node)
            return run_rule(vjp, g, saved, node)
        except Exception as error:
            explain(error, node, saved)
            raise

    # -- lazy cotangents ----------------------------------------------------------------------------------------------

    def defers(self, source: Backend, spec: Spec) -> bool:
        """Return whether, at a transfer, a lazy cotangent stays lazy although its operand is not."""
        if mode.batch_levels.get() or not source.is_lazy or spec.backend.is_lazy:
            return False
        self.deferring = True
        return True

    def elsewhere(self, here: Backend, node: Node, vjp: Callable[..., Any], g: Any, saved: tuple[Any, ...]) -> Any:
        """Run a rule on the kernels of a cotangent that belongs to another backend than the node.

        The node's saved values, unless lazy, are transferred to the backend of a lazy cotangent. A user's `Function` gets the
        computed value instead, as hooks do.
        """
        if not self.deferring:
            run_rule = here._run_crossed
            return vjp(here.xp, g, saved, node) if run_rule is None else run_rule(vjp, g, saved, node)
        if node.plan is None:
            multi_output = isinstance(g, list)
            parts = [self.materialized(p, s) for p, s in zip(g if multi_output else (g,), node.out_specs, strict=True)]
            return vjp(node.spec.xp, parts if multi_output else parts[0], saved, node)
        if type(saved) is not Freed:
            saved = on_backend(saved, here)
        return here._run_on(vjp, here.xp, on_backend(g, here), saved, RelocatedNode(node, here))

    def materialized(self, g: Any, spec: Spec) -> Any:
        """Compute a lazy cotangent of a non-lazy value, because Python code is about to see it."""
        return computed([(g, spec)], self.values)[0] if self.deferring else g

    def settle(self) -> None:
        """Compute, in one pass, the lazy cotangents of non-lazy values, and the losses with them."""
        retained = [(tensor, g) for reference, g in self.retained if (tensor := reference()) is not None]
        targets = self.targets or ()
        # nobody can read the gradient of a tensor that is gone: it is not worth a pass over the data
        self.leaves = {
            leaf: total
            for leaf, total in self.leaves.items()
            if leaf.variable is not None or leaf.hooks is not None or leaf.spec.backend.is_lazy or leaf in targets
        }
        leaves = [(leaf, total) for leaf, total in self.leaves.items() if leaf.active or leaf in targets]
        bound = [(total[0], leaf.spec) for leaf, total in leaves]
        bound += [(g, node.spec) for node, g in self.captured.items()]
        bound += [(g, tensor._spec) for tensor, g in retained]
        arrived = iter(computed(bound, self.values))
        for _, total in leaves:
            total[0] = next(arrived)
        self.captured = {node: next(arrived) for node in self.captured}
        self.retained = [(weakref.ref(tensor), next(arrived)) for tensor, _ in retained]

    # -- the end ------------------------------------------------------------------------------------------------------

    def finish(self) -> None:
        """Commit gradients, or return them to the caller: a pass that fails changes no `.grad`."""
        for at_end in self.at_end:
            at_end()
        if self.recorder is not None and self.into_leaves:
            for leaf in self.leaves:
                tensor = leaf.variable
                if tensor is not None:
                    mode.note_grad(tensor, "read")  # to add to it
        if self.deferring:
            self.settle()
        if self.recorder is not None and self.cuts and not self.as_tensors:
            self.cut()
        if not self.into_leaves and self.targets is not None:
            for node in self.targets:
                if isinstance(node, AccumulateGrad) and node in self.leaves:
                    self.captured[node] = self.leaves[node][0]
                    if node.spec.backend.is_lazy:
                        watch(node)
        if self.as_tensors:
            self.captured = {node: as_gradient(g) for node, g in self.captured.items()}
        if self.into_leaves or self.retained:
            self.commit(self.leaves if self.into_leaves else {}, self.retained)

    def cut(self) -> None:
        """Tell a recording that this pass's results have no history."""
        detached = self.recorder.detached
        for total in self.leaves.values():
            total[0] = detached(total[0])
        self.captured = {node: detached(g) for node, g in self.captured.items()}
        self.retained = [(reference, detached(g)) for reference, g in self.retained]

    def commit(self, leaves: dict[AccumulateGrad, Total], retained: Sequence[tuple[Any, Any]]) -> None:
        """Add complete gradients to leaves and to results that retain theirs, then call the leaves' own hooks."""
        hooked = commit(
            leaves, retained, as_tensors=self.as_tensors, create_graph=self.create_graph, values=self.values
        )
        for leaf, hooks, g in hooked:
            self.run_after(leaf, hooks, g)

    # -- hooks --------------------------------------------------------------------------------------------------------

    def unwrap(self, g: Tensor | None, spec: Spec) -> Any:
        """Return a user's cotangent in the form that rules take."""
        if self.as_tensors or g is None:
            return g
        if g._spec.backend is not spec.backend:
            self.cross()
        return g._raw

    def run_tensor_hooks(self, node: Node, hooks: Hooks, g: Any) -> Any:
        """Run the hooks on the gradient of a result, then store it where `retain_grad` was called."""
        if hooks.tensor or hooks.grad_dtype is not None:
            g = self.materialized(g, node.spec)
        if hooks.grad_dtype is not None and hooks.grad_dtype[0] is not None:
            g = self.unwrap(node.spec.backend.functions.astype(as_gradient(g), hooks.grad_dtype[0]), node.spec)
        if hooks.tensor:
            g = self.unwrap(hooks.run_tensor(as_gradient(g), node), node.spec)
        self.retained.extend((reference, g) for reference in hooks.retained)
        return g

    def run_pre_hooks(self, node: Node, hooks: Hooks, g: Any) -> Any:
        multi_output = isinstance(g, list)
        parts = [
            self.materialized(part, spec)
            for part, spec in zip(g if multi_output else (g,), node.out_specs, strict=True)
        ]
        now = tuple(map(_tensor_or_none, parts))
        for hook in list(hooks.pre.values()):
            result = hook(now)
            if result is not None:
                now = checked_all(result, now, node, hook)
        parts = list(map(self.unwrap, now, node.out_specs))
        return parts if multi_output else parts[0]

    def run_post_hooks(self, node: Node, hooks: Hooks, gs: Any, g: Any) -> Any:
        """Run the hooks after a node, on one gradient per operand; None for operands that need none."""
        needs = [n is not None for n, _ in node.next_functions]
        found = iter(node.per_input(gs))
        edges = iter(node.inputs)
        now = tuple(
            _tensor_or_none(self.materialized(next(found), next(edges).spec)) if need else None for need in needs
        )
        outs = tuple(map(_tensor_or_none, g if isinstance(g, list) else (g,)))
        for hook in list(hooks.post.values()):
            result = hook(now, outs)
            if result is not None:
                now = checked_all(result, now, node, hook)
        needed = [part for part, need in zip(now, needs, strict=True) if need]
        needed = [self.unwrap(part, edge.spec) for part, edge in zip(needed, node.inputs, strict=True)]
        return tuple(needed) if node.multi_input else needed[0]

    def run_after(self, leaf: AccumulateGrad, hooks: Hooks, g: Any) -> None:
        """Run the hooks that follow the accumulation into a leaf."""
        tensor = leaf.variable
        if tensor is not None:
            for hook in list(hooks.accumulated.values()):
                returned = hook(tensor)
                if returned is not None:
                    raise TypeError(f"expected None, but post-accumulate hook returned '{type(returned).__name__}'")
        for hook in list(hooks.post.values()):
            hook((), (as_gradient(g),))


def _tensor_or_none(g: Any) -> Tensor | None:
    return None if g is None else as_gradient(g)


# -- single nodes -----------------------------------------------------------------------------------------------------


#: Sort key: descending creation numbers are a topological order, ascending ones its reverse.
BY_AGE = operator.attrgetter("seq")


def leading_to(roots: Iterable[Node], targets: Collection[Node]) -> set[Node]:
    """Return the nodes that have a path to a target, the targets included."""
    seen = ancestors(roots, oldest=min(node.seq for node in targets))
    needed = set(targets)
    for node in sorted(seen, key=BY_AGE):  # ascending: what a node leads to comes before it
        if not needed.isdisjoint(node.inputs):
            needed.add(node)
    return needed


def call(node: Node, cotangents: tuple[Any, ...]) -> Any:
    """Run one node's rule for the user's cotangents: this implements calling a node."""
    specs = node.out_specs
    if len(cotangents) != len(specs):
        raise TypeError(f"expected {len(specs)} arguments, got {len(cotangents)} instead")
    for i, (g, spec) in enumerate(zip(cotangents, specs, strict=True)):
        if g is not None and not isinstance(g, Tensor):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
        if g is not None and g.shape != spec.shape:
            raise errors.cotangent_shape(i, g.shape, spec.shape, node)
    record = mode.is_grad_enabled()
    gs = [None if g is None else fit(s.backend.functions, g, s) for g, s in zip(cotangents, specs, strict=True)]
    if type(node) is AccumulateGrad:
        if gs[0] is not None:
            run([(node, gs[0])], retain_graph=True, create_graph=record and gs[0].requires_grad)
        return ()
    places = [target is not None for target, _ in node.next_functions]
    found: Any = [None] * len(node.inputs)
    if any(g is not None for g in gs):
        if type(node.saved) is Freed:
            raise errors.second_time(node)
        saved = unpack(node, node.saved)
        vjp, backend = recordable(node, node.vjp, masked=False), node.spec.backend
        with backend.quiet():
            g = gs if isinstance(node.spec, tuple) else gs[0]
            values = rebuilt(node, saved)
            found = node.per_input(mode.within(_RUNNING, None, vjp, backend.functions, g, values, node))
    parts = iter(found)
    result = tuple(next(parts) if place else None for place in places)
    return result if len(result) != 1 else result[0]


call_node.define(call)


def nan_safe(node: Node) -> Any:
    """Return the vjp for a cotangent from an op that drops elements; a Function's stays the same."""
    plan = node.plan
    return node.nan_safe_vjp or node.vjp if plan is None else plan.nan_safe_vjp


def recordable(node: Node, vjp: Any, *, masked: bool) -> Any:
    """Return the vjp that runs on tensors: for a fused op, through its composition."""
    plan = node.plan
    return vjp if plan is None or plan.rule.define is None else functools.partial(recompute, masked=masked)


def recompute(xp: Any, g: Tensor, saved: tuple[Any, ...], node: Node, *, masked: bool) -> Any:
    """Return the cotangents of a fused op's operands through its composition, recorded.

    The residuals of its kernel are plain values: a rule that reads them has no second derivative.
    """
    plan = node.plan
    rule, op = plan.rule, node.op
    recording = mode.is_grad_enabled()
    known = dict(zip(plan.saves, saved, strict=True))
    if rule.params:
        known.update(zip(rule.params, node.params, strict=True))
    before = mode.get_mode()
    try:
        mode.push(grad=True)
        for name in plan.wanted:
            known[name] = xp.positive(known[name])  # a new node: one operand may have been computed from another
        values = [known[argument.name] for argument in op.arguments]
        result = op.invoke(functools.partial(rule.define, xp), values)
        targets = [known[name]._node for name in plan.wanted]
        roots = [] if result._node is None else [(result._node, g)]
        found = run(
            roots, retain_graph=recording, create_graph=recording, targets=targets, accumulate=False, masked=masked
        )
    finally:
        mode.set_mode(before)
    gs = tuple(found.get(target) for target in targets)
    return gs if len(gs) > 1 else gs[0]


def unpack(node: Node, saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """Unpack values that saved-tensor hooks have packed."""
    if type(saved) is Freed:
        return saved
    try:
        opened: tuple[Any, ...] = unpacked(saved)
    except Exception as error:
        error.add_note(f"Raised while unpacking what was saved for backward.{errors.at(node)}")
        raise
    return opened


def explain(error: Exception, node: Node, saved: tuple[Any, ...]) -> None:
    """Raise a clearer error for one in a node's rule, or else add a note of where it was raised."""
    if isinstance(error, ShapeMismatchError):
        raise errors.wrong_shape(node, 0, *error.args) from None
    if type(saved) is Freed:
        raise errors.second_time(node) from None
    if errors.at(node) not in str(error):
        error.add_note(f"Raised in backward.{errors.at(node)}")


@functools.cache
def _logger(logging: Any) -> Any:
    return logging.getLogger("agrad.autograd.graph")


def debug_log() -> Callable[..., None] | None:
    """Return the function that logs every node that runs; None unless debug output is enabled."""
    logging = sys.modules.get("logging")
    if logging is None:
        return None
    logger = _logger(logging)
    return logger.debug if logger.isEnabledFor(logging.DEBUG) else None
