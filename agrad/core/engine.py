"""The reverse engine: runs the rules of a recorded graph, newest node first, and commits gradients at the end.

Falling creation numbers are a topological order, so a heap of them is all the scheduling there is; while one node is
pending not even that is touched. Nothing is recursive. No `.grad` changes until every node has run and every sum is made;
then all are assigned at once, so a backward pass that fails, or is interrupted, leaves all of them as they were (a leaf
with a post-accumulate hook is the exception: it is committed when its gradient is complete).
"""

from __future__ import annotations

import _thread
import functools
import sys
import weakref
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar, copy_context
from heapq import heapify, heappop, heappush
from itertools import chain, repeat
from typing import Any

from agrad.core import errors, mode
from agrad.core import rule as rule_module
from agrad.core.backend import backend_of, joined
from agrad.core.hooks import HOOKED, Hooks, checked_all
from agrad.core.lazy import is_lazy, is_loss, put_back, realised, remember_losses
from agrad.core.node import AccumulateGrad, Freed, Kept, Node, Output, behind, output_of
from agrad.core.once import lock, once
from agrad.core.operands import tensor_of
from agrad.core.rule import Crossed, Masked, ShapeMismatchError
from agrad.core.saved import unpacked
from agrad.core.spec import Spec, Specs
from agrad.core.tensor import Tensor, array_slot, wrap

#: Accumulation into a leaf from several threads loses nothing. Reentrant: a finalizer may run in the midst of it.
_ACCUMULATING = lock(waited_for=True)

#: The name of a slot, for each of any number of places.
_GRAD = repeat("grad")

#: The pass that is running in this context, the innermost one.
_RUNNING: ContextVar[_Pass | None] = ContextVar("agrad_pass", default=None)

#: Every so many passes within passes, one gets a thread, and so a stack, of its own: none is too deep for Python.
_NESTED = 20


def running() -> _Pass | None:
    """Return the backward pass that is running, None outside."""
    return _RUNNING.get()


def run(
    roots: Sequence[tuple[Node, Any]],
    *,
    retain_graph: bool,
    create_graph: bool,
    targets: Collection[Node] | None = None,
    accumulate: bool = True,
    masked: bool = False,
    values: Sequence[Any] = (),
) -> dict[Node, Any]:
    """Send cotangents from the roots to the leaves.

    Parameters
    ----------
    roots : sequence of (Node, Tensor)
        Where to start, with the cotangent there.
    retain_graph : bool
        Keep saved values.
    create_graph : bool
        Record the pass: rules run on tensors.
    targets : collection of Node, optional
        Run only what leads to these.
    accumulate : bool, optional
        Add to `.grad`; otherwise the cotangents at the targets are returned.
    masked : bool, optional
        The cotangents come from an op that drops elements.
    values : sequence of Tensor, optional
        What is differentiated. Lazy ones of one element get their values where the pass computes anyway.

    Returns
    -------
    dict
        Cotangent per target reached, raw or (where rules run on tensors) as Tensor.
    """
    if not roots:
        return {}
    now = mode.current()
    as_tensors = create_graph or bool(now is not None and now.levels)
    task = _Pass(
        retain_graph=retain_graph,
        create_graph=create_graph,
        as_tensors=as_tensors,
        batched=bool(mode.batch_levels.get()),
        targets=targets,
        anomaly=None if now is None else now.anomaly,
        profiler=None if now is None else now.profiler,
    )
    if targets is not None:
        task.needed = leading_to([node for node, _ in roots], targets)
    if masked:
        task.masked.update(node for node, _ in roots)
    task.roots = [node for node, _ in roots]
    task.values = values
    if HOOKED:
        task.await_leaves()
    outer = _RUNNING.get()
    if outer is not None:
        task.depth = outer.depth + 1
        if task.depth % _NESTED == 0:
            in_a_thread(functools.partial(task.execute, roots, accumulate=accumulate))
            return task.captured
    task.execute(roots, accumulate=accumulate)
    return task.captured


def in_a_thread(work: Callable[[], None]) -> None:
    """Do something in a thread of its own, in the present context and mode, and wait for it."""
    now = mode.current()
    failures: list[BaseException] = []
    begun = done = given_up = False
    ended = _thread.allocate_lock()
    ended.acquire()

    def do() -> None:
        nonlocal begun, done
        try:
            begun = True
            mode.adopt(now)
            if not given_up:
                work()
        except BaseException as error:  # noqa: BLE001 (handed on)
            failures.append(error)
        finally:
            done = True
            ended.release()

    try:
        # not a threading.Thread, which a handler of a signal that raises can leave with a lock it does not hold
        _thread.start_new_thread(copy_context().run, (do,))
        ended.acquire()
    except BaseException:  # of such a handler: what has begun ends first
        given_up = True
        if begun and not done:
            ended.acquire()
        raise
    if failures:
        raise failures.pop()


@functools.cache
def _logger(logging: Any) -> Any:
    return logging.getLogger("agrad.autograd.graph")


def debug_log() -> Callable[..., None] | None:
    """Return what writes a line for every node that runs, None where nobody wants that (nor ever imported logging)."""
    logging = sys.modules.get("logging")
    if logging is None:
        return None
    logger = _logger(logging)
    return logger.debug if logger.isEnabledFor(logging.DEBUG) else None


def described(g: Any) -> str:
    """Return dtype and shape of a cotangent, or of several, for the log."""
    if isinstance(g, list | tuple):
        return ", ".join(map(described, g))
    return "None" if g is None else f"{g.dtype}{list(g.shape)}"


def call(node: Node, cotangents: tuple[Any, ...]) -> Any:
    """Run one node's rule for cotangents of the user's: what calling a node does."""
    specs = node.out_specs
    if len(cotangents) != len(specs):
        message = f"expected {len(specs)} arguments, got {len(cotangents)} instead"
        raise TypeError(message)
    for i, (g, spec) in enumerate(zip(cotangents, specs, strict=True)):
        if g is not None and not isinstance(g, Tensor):
            message = f"gradients can be either Tensors or None, but got {type(g).__name__}"
            raise TypeError(message)
        if g is not None and g.shape != spec.shape:
            raise errors.cotangent_shape(i, g.shape, spec.shape, node)
    record = mode.is_grad_enabled()
    gs = [
        None if g is None else rule_module.fit(s.backend.functions, g, s)
        for g, s in zip(cotangents, specs, strict=True)
    ]
    if type(node) is AccumulateGrad:
        if gs[0] is not None:
            run([(node, gs[0])], retain_graph=True, create_graph=record and gs[0].requires_grad)
        return ()
    places = [target is not None for target, _ in node.next_functions]
    found: Any = [None] * len(node.inputs)
    if any(g is not None for g in gs):
        assert node.vjp is not None
        if type(node.saved) is Freed:
            raise errors.second_time(node)
        saved = unpack(node, node.saved)
        with quiet(node):
            g = gs if isinstance(node.spec, tuple) else gs[0]
            found = node.per_input(node.vjp(node.spec.backend.functions, g, rebuilt(node, saved), node))
    parts = iter(found)
    result = tuple(next(parts) if place else None for place in places)
    return result if len(result) != 1 else result[0]


def careful(vjp: Any) -> Any:
    """Return the vjp for a cotangent that comes from an op which drops elements; a Function's stays what it is."""
    plan = getattr(vjp, "plan", None)
    return vjp if plan is None else getattr(vjp, "careful_vjp", plan.careful_vjp)


def unpack(node: Node, saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """Open what saved-tensor hooks have packed."""
    if type(saved) is Freed:
        return saved
    try:
        opened: tuple[Any, ...] = unpacked(saved)
    except Exception as error:
        error.add_note(f"Raised while unpacking what was saved for backward.{errors.at(node)}")
        raise
    return opened


def without_nan(vjp: Any) -> Any:
    """Return a vjp that raises where a cotangent it gives holds NaN: anomaly detection."""

    def checked_vjp(xp: Any, g: Any, saved: tuple[Any, ...], node: Node) -> Any:
        gs = vjp(xp, g, saved, node)
        places = [i for i, (target, _) in enumerate(node.next_functions) if target is not None]
        for place, part in zip(places, node.per_input(gs), strict=True):
            if part is not None and holds_nan(part):
                raise errors.nan_found(node, place)
        return gs

    return checked_vjp


def holds_nan(part: Any) -> bool:
    """Return whether a cotangent, raw or a Tensor, has NaN in it."""
    raw = part._raw if isinstance(part, Tensor) else part
    backend = backend_of(raw)
    assert backend is not None
    return backend.holds_nan(raw)


def quiet(node: Node) -> AbstractContextManager[Any]:
    """Silence a backend's floating-point warnings: at a singular point the derivative is infinite, as in PyTorch."""
    return node.spec.backend.quiet()  # type: ignore[no-any-return]


def leading_to(roots: Iterable[Node], targets: Collection[Node]) -> set[Node]:
    """Return the nodes that have a path to a target, the targets included."""
    seen = behind(roots, oldest=min(node.seq for node in targets))
    needed = set(targets)
    for node in sorted(seen, key=lambda n: n.seq):  # rising: what a node leads to comes before it
        if not needed.isdisjoint(node.inputs):
            needed.add(node)
    return needed


class _Pass:
    """One backward pass.

    Attributes
    ----------
    leaves : dict
        Per leaf its growing gradient, and whether that is a sum made here, which may be added to in place.
    retained : list
        Gradients for results that asked to keep theirs.
    captured : dict
        Cotangents at the targets.
    roots : list of Node
        Where the pass started.
    values : sequence of Tensor
        What is differentiated.
    batched : bool
        Levels of vmap are open.
    deferring : bool
        Lazy cotangents have gone on to nodes of backends that are not lazy: their values are computed in the end.
    at_end : list of callable
        To be called after the last node, before gradients are committed.
    masked : set of Node
        Pending nodes whose cotangent comes from an op that drops elements, directly or not.
    waiting : dict
        Per leaf with hooks how many of its consumers are still to run.
    depth : int
        Of how many other passes this one is a part.
    """

    def __init__(
        self,
        *,
        retain_graph: bool,
        create_graph: bool,
        as_tensors: bool,
        batched: bool,
        targets: Collection[Node] | None,
        anomaly: bool | None,
        profiler: Any,
    ) -> None:
        self.retain_graph = retain_graph
        self.create_graph = create_graph
        self.as_tensors = as_tensors
        self.batched = batched
        self.deferring = False
        self.targets = targets
        self.needed: set[Node] | None = None
        self.leaves: dict[AccumulateGrad, list[Any]] = {}
        self.retained: list[tuple[Any, Any]] = []
        self.captured: dict[Node, Any] = {}
        self.masked: set[Node] = set()
        self.roots: list[Node] = []
        self.values: Sequence[Any] = ()
        self.at_end: list[Callable[[], None]] = []
        self.waiting: dict[Node, int] = {}
        self.depth = 0
        self.anomaly, self.profiler, self.log = anomaly, profiler, debug_log()
        self.freed = Freed()
        self.freed.code, self.freed.lasti = errors.caller()

    @once
    def reachable(self) -> set[Node]:
        """The nodes this pass may run."""
        if self.needed is not None:
            return self.needed
        return behind(self.roots)

    def await_leaves(self) -> None:
        """Count the consumers of each leaf with hooks: it runs as soon as the last of them has."""
        for node in self.reachable:
            for edge in node.inputs:
                if edge.hooks is not None and type(edge) is AccumulateGrad:
                    self.waiting[edge] = self.waiting.get(edge, 0) + 1

    def execute(self, roots: Sequence[tuple[Node, Any]], *, accumulate: bool) -> None:
        """Run the pass, with recording as it asks for."""
        before, outer = mode.get_mode(), _RUNNING.get()
        try:
            mode.push(grad=self.create_graph)
            _RUNNING.set(self)
            with quiet(roots[0][0]):
                self.loop([(node, self.start(g)) for node, g in roots])
                for at_end in self.at_end:
                    at_end()
                if self.deferring:
                    self.compute()
                self.finish(accumulate=accumulate)
        finally:
            try:
                _RUNNING.set(outer)
            finally:
                mode.set_mode(before)

    def loop(self, roots: list[tuple[Node, Any]]) -> None:
        """Run nodes until none is pending. Each turn delivers what the last node gave, then runs the newest node."""
        as_tensors, retain_graph, needed, targets = self.as_tensors, self.retain_graph, self.needed, self.targets
        mixed = self.batched  # whether the kernels of a node depend on its cotangent too
        in_place = not (as_tensors or mixed)
        leaves, masked = self.leaves, self.masked
        leaves_get = leaves.get
        anomaly, profiler, log = self.anomaly, self.profiler, self.log
        waiting = self.waiting
        ready: list[Node] = []  # leaves with hooks whose last consumer has run
        # whether each node is to be looked at more closely
        watching = (
            targets is not None
            or bool(masked or waiting)
            or anomaly is not None
            or profiler is not None
            or log is not None
        )
        freed = self.freed
        pending: dict[Node, Any] = {}  # cotangents of nodes on the heap
        summed: set[Node] = set()  # nodes whose cotangent is a sum made here: it may be added to in place
        heap: list[tuple[int, Node]] = []
        following: Node | None = None  # the newest node so far, when it need not pass through the heap
        node: Node
        g: Any = None
        edges: Any = tuple(node for node, _ in roots)
        gs: Any = tuple(g for _, g in roots)
        while True:
            if type(gs) is not tuple:
                if type(gs) is Masked:
                    watching = True
                    masked.update(edges)
                elif type(gs) is Crossed and self.deferring:
                    mixed, in_place = True, False
                    summed.clear()
                    for sums in leaves.values():
                        sums[1] = False
            for edge, part in zip(edges, gs):  # noqa: B905 (as many as edges by construction; checking costs)
                if part is None or (needed is not None and edge not in needed):
                    continue
                if edge.vjp is None and edge.hooks is None and type(edge) is AccumulateGrad:
                    total = leaves_get(edge)
                    if total is None:
                        leaves[edge] = [part, False]
                    elif total[1]:
                        held = total[0]
                        total[0] = edge.spec.xp.add_into(held, part, held)
                    else:
                        total[0] = self.add(edge, total[0], part, summed)
                        total[1] = in_place and edge.spec.accumulates
                elif edge is following:
                    g = self.add(following, g, part, summed)
                elif edge in pending:
                    if edge in summed:
                        held = pending[edge]
                        pending[edge] = edge.spec.xp.add_into(held, part, held)
                    else:
                        pending[edge] = self.add(edge, pending[edge], part, summed)
                elif following is None and (not heap or edge.seq > -heap[0][0]):
                    following, g = edge, part
                else:
                    pending[edge] = part
                    heappush(heap, (-edge.seq, edge))
            gs = part = onward = None  # what has been delivered must not outlive its use
            if following is None:
                if not heap:
                    return
                node = heappop(heap)[1]
                g = pending.pop(node)
            elif heap and -heap[0][0] > following.seq:
                pending[following] = g
                heappush(heap, (-following.seq, following))
                node = heappop(heap)[1]
                g = pending.pop(node)
            else:
                node = following
            following = None
            while True:  # runs once, but along a chain
                vjp, saved = node.vjp, node.saved
                if node.hooks is not None or watching:
                    while ready and type(node) is not AccumulateGrad:
                        leaf = ready.pop(0)
                        if leaf in pending:  # its turn comes before the node's
                            pending[node] = g
                            heap.remove((-leaf.seq, leaf))
                            heap.append((-node.seq, node))
                            heapify(heap)
                            node, g = leaf, pending.pop(leaf)
                            vjp, saved = node.vjp, node.saved
                    if waiting:
                        for edge in node.inputs:
                            if edge in waiting:
                                waiting[edge] -= 1
                                if waiting[edge] == 0:
                                    ready.append(edge)
                    if log is not None and type(node) is not Output:
                        log("Executing: %s with grad_outputs: [%s]", node, described(g))
                    if node in masked:
                        masked.remove(node)
                        masked.update(node.inputs)
                        vjp = careful(vjp)
                    if node.hooks is not None and not isinstance(g, list):
                        g = self.run_tensor_hooks(node, node.hooks, g)
                    if targets is not None and node in targets:
                        self.captured[node] = g
                        if needed is None or not any(edge in needed for edge in node.inputs):
                            if type(node) is AccumulateGrad:
                                self.arrive(node, g)
                            edges = gs = ()
                            break
                    if node.hooks is not None and node.hooks.pre:
                        g = self.run_pre_hooks(node, node.hooks, g)
                    if node.hooks is not None and node.hooks.packed:
                        saved = unpack(node, saved)
                    if anomaly and vjp is not None:
                        vjp = without_nan(vjp)
                    if profiler is not None and vjp is not None:
                        vjp = profiler.around_vjp(node, vjp)
                if vjp is None:
                    edges = gs = ()
                    if type(node) is AccumulateGrad:
                        self.arrive(node, g)
                    elif type(node) is Output:
                        base = node.base
                        if base not in pending:
                            pending[base] = [None] * len(base.spec)
                            heappush(heap, (-base.seq, base))
                        pending[base][node.number] = g
                    break
                try:
                    if as_tensors:
                        gs = vjp(node.spec.backend.functions, g, rebuilt(node, saved), node)
                        if node.spec.backend.is_lazy:
                            gs = laid_out(gs, node)
                    elif mixed:
                        gs = self.run_mixed(node, vjp, g, saved)
                    else:
                        spec = node.spec
                        run_rule = spec.run_rule
                        gs = vjp(spec.xp, g, saved, node) if run_rule is None else run_rule(vjp, g, saved, node)
                except ShapeMismatchError as mismatch:
                    raise errors.wrong_shape(node, 0, *mismatch.args) from None
                except Exception as error:
                    if type(saved) is Freed:
                        raise errors.second_time(node) from None
                    if errors.at(node) not in str(error):
                        error.add_note(f"Raised in backward.{errors.at(node)}")
                    raise
                if node.hooks is not None and node.hooks.post:
                    kind = type(gs)
                    gs = self.run_post_hooks(node, node.hooks, gs, g)
                    gs = Masked(gs) if kind is Masked else gs
                if saved and not retain_graph and type(saved) is not Kept:
                    node.saved = freed
                edges, second = node.edges, node.second
                if second is not None:
                    # along a chain with a leaf as the other operand, as most steps of most programs are, no queue
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
                        or leaf.vjp is not None
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
                    elif total[1]:
                        held = total[0]
                        total[0] = leaf.spec.xp.add_into(held, part, held)
                    else:
                        total[0] = self.add(leaf, total[0], part, summed)
                        total[1] = in_place and leaf.spec.accumulates
                    node, g = ahead, onward
                    gs = part = onward = None
                    continue
                if type(edges) is tuple:
                    break
                if heap or needed is not None or gs is None or edges.vjp is None:
                    edges, gs = (edges,), (gs,)
                    break
                node, g = edges, gs

    def start(self, g: Tensor) -> Any:
        """Return the cotangent of a root as the rules want it."""
        return g if self.create_graph else fresh(g, None) if self.as_tensors else g._raw

    def add(self, node: Node, one: Any, other: Any, summed: set[Node]) -> Any:
        """Add two cotangents of a node that may be shared with others; the sum is not."""
        if self.as_tensors:
            return node.spec.backend.functions.add(one, other)
        if self.batched:
            return kernels_for(node.spec, (one, other)).add(one, other)
        if self.deferring and not node.spec.backend.is_lazy:
            lazy = lazy_among((one, other))
            return (lazy or node.spec).xp.add(*(taken(part, lazy) for part in (one, other)))
        if node.spec.accumulates:
            summed.add(node)
        return node.spec.xp.add(one, other)

    def arrive(self, leaf: AccumulateGrad, g: Any) -> None:
        """Take the complete gradient of a leaf with hooks."""
        before = self.leaves.pop(leaf, None)
        if before is not None:  # delivered before it had hooks: one was registered in the midst of the pass
            g = self.add(leaf, before[0], g, set())
        if leaf.hooks is not None and leaf.hooks.accumulated and self.targets is None:
            self.commit({leaf: [self.settled(g, leaf.spec), False]}, ())
        else:
            self.leaves[leaf] = [g, False]

    # -- lazy cotangents ----------------------------------------------------------------------------------------------

    def defers(self, source: Any, spec: Spec) -> bool:
        """Return whether, at a crossing, a cotangent goes on as it is although it is lazy and its operand is not."""
        if self.batched or not source.is_lazy or spec.backend.is_lazy:
            return False
        self.deferring = True
        return True

    def run_mixed(self, node: Node, vjp: Callable[..., Any], g: Any, saved: tuple[Any, ...]) -> Any:
        """Run a rule on the kernels that its cotangent asks for: rules run where the cotangent is.

        A lazy cotangent at a node that is not takes the node's saved values along. A `Function` of the user's gets the
        value instead, as hooks do.
        """
        if self.batched:
            return vjp(kernels_for(node.spec, g), g, saved, node)
        parts = g if isinstance(g, list) else [g]
        lazy = None if node.spec.backend.is_lazy else lazy_among(parts)
        if lazy is None:
            run_rule = node.spec.run_rule
            return vjp(node.spec.xp, g, saved, node) if run_rule is None else run_rule(vjp, g, saved, node)
        if not hasattr(node.vjp, "plan"):
            settled = [self.settled(part, spec) for part, spec in zip(parts, node.out_specs, strict=True)]
            return vjp(node.spec.xp, settled if isinstance(g, list) else settled[0], saved, node)
        if type(saved) is not Freed:
            saved = taken(saved, lazy)
        return vjp(lazy.xp, taken(g, lazy), saved, Elsewhere(node, lazy))

    def settled(self, g: Any, spec: Spec) -> Any:
        """Compute a lazy cotangent of a value that is not lazy: Python code is to see it."""
        if not self.deferring or g is None or spec.backend.is_lazy or not is_lazy(g):
            return g
        return brought(backend_of(g), self.computed([g])[id(g)], spec)

    def computed(self, arrays: Iterable[Any]) -> dict[int, Any]:
        """Compute lazy arrays, by their ``id``, and with them the losses that the pass started from."""
        losses = [t for t in self.values if is_loss(t)]
        lazy = {id(t._raw): t._raw for t in losses}
        values = realised([*arrays, *lazy.values()])
        put_back(losses, {key: (array, values[key]) for key, array in lazy.items()})
        return values

    def compute(self) -> None:
        """Compute, in one pass, what is lazy and goes to what is not, and the losses with it."""
        kept = [(tensor, g) for reference, g in self.retained if (tensor := reference()) is not None]
        targets = self.targets or ()
        bound = [(total[0], leaf.spec) for leaf, total in self.leaves.items() if leaf.active or leaf in targets]
        bound += [(g, node.spec) for node, g in self.captured.items()]
        bound += [(g, tensor._spec) for tensor, g in kept]
        wanted = {id(g): g for g, spec in bound if is_lazy(g) and not spec.backend.is_lazy}
        values = self.computed(wanted.values()) if wanted else {}

        def arrived(g: Any, spec: Spec) -> Any:
            return brought(backend_of(g), values[id(g)], spec) if id(g) in wanted and not spec.backend.is_lazy else g

        totals = {leaf: arrived(total[0], leaf.spec) for leaf, total in self.leaves.items()}
        self.captured = {node: arrived(g, node.spec) for node, g in self.captured.items()}
        self.retained = [(weakref.ref(tensor), arrived(g, tensor._spec)) for tensor, g in kept]
        for leaf, total in totals.items():
            self.leaves[leaf][0] = total

    def finish(self, *, accumulate: bool) -> None:
        """Make all sums and checks, then assign them in one step: a pass that fails has changed no `.grad`."""
        if not accumulate and self.targets is not None:
            for node in self.targets:
                if isinstance(node, AccumulateGrad) and node in self.leaves:
                    self.captured[node] = self.leaves[node][0]
                    if node.spec.backend.is_lazy:
                        watch(node)
        if self.as_tensors:
            self.captured = {node: self.as_tensor(g) for node, g in self.captured.items()}
        if accumulate or self.retained:
            self.commit(self.leaves if accumulate else {}, self.retained)

    def commit(self, leaves: dict[AccumulateGrad, list[Any]], retained: Sequence[tuple[Any, Any]]) -> None:
        """Add complete gradients to leaves and to results that retain theirs, then call the leaves' own hooks."""
        as_tensors = self.as_tensors
        places: list[Any] = []
        values: list[Tensor] = []
        rest: list[AccumulateGrad] = []
        hooked: list[tuple[AccumulateGrad, Hooks, Any]] = []
        with _ACCUMULATING:
            for leaf, total in leaves.items():
                spec = leaf.spec
                if leaf.grad is None and leaf.hooks is None and spec.accumulates and not (as_tensors or leaf.moved):
                    if leaf.active:  # the first gradient is kept as it is: values are immutable, it may be shared
                        places.append(leaf)
                        values.append(wrap(total[0], spec))
                elif leaf.active:
                    rest.append(leaf)
            if not rest and not retained:
                any(map(setattr, places, _GRAD, values))  # as in `_Sums.assign`
                return
            sums = _Sums(places, values)
            for leaf in rest:
                g, mine = total = leaves[leaf]
                spec, old = leaf.spec, leaf.grad
                plain = not (as_tensors or leaf.moved) and spec.accumulates
                if leaf.hooks is not None:
                    hooked.append((leaf, leaf.hooks, g))
                    plain = False
                else:
                    total[0] = None  # goes when its sum is made: the peak is that of one sum more, not of all
                if plain and old is not None and old._spec is spec and old._node is None:
                    sums.add(old, g, mine=mine)
                    continue
                made = self.sum(leaf, leaf, self.fitted(self.as_tensor(g), leaf), sums)
                if spec.backend.is_lazy:
                    remember_losses(made, self.values)
                    watch(leaf)
            for reference, g in retained:
                tensor = reference()
                if tensor is not None and tensor._retained is not None:
                    self.sum(tensor._retained, tensor._node, self.as_tensor(g), sums)
            sums.assign()
        for leaf, hooks, g in hooked:
            self.run_after(leaf, hooks, g)

    def sum(self, place: Any, node: Any, new: Tensor, sums: _Sums) -> Tensor:
        """Add a gradient to what a leaf or result has, in `sums`; give the Tensor that will be its `.grad`.

        That remains the same Tensor, but for a first gradient, and for a sum that is to have a history.

        Parameters
        ----------
        place : AccumulateGrad or Retained
            What has a `.grad`.
        node : Node
            Of the leaf or result.
        new : Tensor
            The gradient.
        sums : _Sums
            To be assigned later.
        """
        old: Tensor | None = place.grad
        if old is None:
            return sums.put(place, new)
        spec = old._spec
        if new._spec is not spec:
            check_shape(node, new._spec, spec)
        if self.create_graph or new._node is not None or old._node is not None or new._tangents:
            return sums.put(place, spec.backend.functions.add(old, new))
        if new._spec is not spec:
            if new._spec.backend is not spec.backend:
                new = new.to_device(spec.device)
            if new.dtype != spec.dtype:  # the leaf's `grad_dtype` allows any
                new = spec.backend.functions.astype(new, spec.dtype)
        sums.add(old, new._raw)
        return old

    def fitted(self, g: Tensor, leaf: AccumulateGrad) -> Tensor:
        """Return a gradient as its leaf wants it: that may have been given data of another kind since it was used."""
        spec = leaf.spec
        if g._spec is spec or self.batched:
            return g
        check_shape(leaf, g._spec, spec)
        if g._spec.device != spec.device:
            g = g.to_device(spec.device)
        if g.dtype != spec.dtype and (leaf.hooks is None or leaf.hooks.grad_dtype is None):
            g = rule_module.fit(spec.backend.functions, g, spec)
        return g

    def run_after(self, leaf: AccumulateGrad, hooks: Hooks, g: Any) -> None:
        """Run the hooks that follow the accumulation into a leaf."""
        tensor = leaf.variable
        if tensor is not None:
            for hook in list(hooks.accumulated.values()):
                returned = hook(tensor)
                if returned is not None:
                    message = f"expected None, but post-accumulate hook returned '{type(returned).__name__}'"
                    raise TypeError(message)
        for hook in list(hooks.post.values()):
            hook((), (self.as_tensor(g),))

    def as_tensor(self, g: Any) -> Tensor:
        """Return a cotangent as a Tensor of its own: cotangents are shared, and hooks and users may change theirs."""
        if not isinstance(g, Tensor):
            return tensor_of(g)
        if isinstance(g._node, AccumulateGrad):  # the user's own cotangent, passed through
            clone: Tensor = g._spec.backend.functions.positive(g)
            return clone
        return fresh(g, g._node)

    # -- hooks --------------------------------------------------------------------------------------------------------

    def unwrap(self, g: Tensor | None) -> Any:
        return g if self.as_tensors or g is None else g._raw

    def run_tensor_hooks(self, node: Node, hooks: Hooks, g: Any) -> Any:
        """Run the hooks on the gradient of a result, then keep it where `retain_grad` asked for that."""
        if hooks.tensor or hooks.grad_dtype is not None:
            g = self.settled(g, node.spec)
        if hooks.grad_dtype is not None and hooks.grad_dtype[0] is not None:
            g = self.unwrap(node.spec.backend.functions.astype(self.as_tensor(g), hooks.grad_dtype[0]))
        if hooks.tensor:
            g = self.unwrap(hooks.run_tensor(self.as_tensor(g), node))
        self.retained.extend((reference, g) for reference in hooks.retained)
        return g

    def run_pre_hooks(self, node: Node, hooks: Hooks, g: Any) -> Any:
        several = isinstance(g, list)
        parts = [self.settled(part, spec) for part, spec in zip(g if several else (g,), node.out_specs, strict=True)]
        now = tuple(map(self._tensor_or_none, parts))
        for hook in list(hooks.pre.values()):
            result = hook(now)
            if result is not None:
                now = checked_all(result, now, node, hook)
        parts = [self.unwrap(part) for part in now]
        return parts if several else parts[0]

    def run_post_hooks(self, node: Node, hooks: Hooks, gs: Any, g: Any) -> Any:
        """Run the hooks after a node, on one gradient per operand, None for those that need none."""
        needs = [n is not None for n, _ in node.next_functions]
        found = iter(node.per_input(gs))
        edges = iter(node.inputs)
        now = tuple(
            self._tensor_or_none(self.settled(next(found), next(edges).spec)) if need else None for need in needs
        )
        outs = tuple(map(self._tensor_or_none, g if isinstance(g, list) else (g,)))
        for hook in list(hooks.post.values()):
            result = hook(now, outs)
            if result is not None:
                now = checked_all(result, now, node, hook)
        kept = tuple(self.unwrap(part) for part, need in zip(now, needs, strict=True) if need)
        return kept if node.several else kept[0]

    def _tensor_or_none(self, g: Any) -> Tensor | None:
        return None if g is None else self.as_tensor(g)


class _Sums:
    """What a pass is going to assign: made while anything may fail, assigned when nothing can.

    Attributes
    ----------
    places, values : list
        Leaves and retained gradients with the Tensor that becomes their `.grad`.
    changed : dict
        By ``id`` the Tensors that remain the `.grad` they are, with their new arrays.
    """

    def __init__(self, places: list[Any], values: list[Tensor]) -> None:
        self.places, self.values = places, values
        self.changed: dict[int, tuple[Tensor, Any]] = {}

    def put(self, place: Any, value: Tensor) -> Tensor:
        """Let a Tensor become the `.grad` of a leaf or result."""
        self.places.append(place)
        self.values.append(value)
        return value

    def add(self, tensor: Tensor, g: Any, *, mine: bool = False) -> None:
        """Let a Tensor that remains the `.grad` it is get the sum of its array and another.

        Parameters
        ----------
        tensor : Tensor
            Perhaps the `.grad` of several leaves.
        g : array
            Of its spec.
        mine : bool, optional
            Nothing else holds `g`: the sum may take its place in memory.
        """
        earlier = self.changed.get(id(tensor))
        array = tensor._raw if earlier is None else earlier[1]  # to read it ends the ownership of the array
        xp = tensor._spec.xp
        total = xp.add_into(g, array, g) if mine else xp.add(array, g)
        self.changed[id(tensor)] = tensor, tensor._spec.backend.as_array(total)

    def assign(self) -> None:
        """Assign everything in a call that runs in C alone: between its steps no signal handler can run.

        What is replaced is kept until the end, so that no code of anybody's is called by its going.
        """
        tensors, arrays = zip(*self.changed.values(), strict=True) if self.changed else ((), ())
        before = [place.grad for place in self.places], [tensor._raw for tensor in tensors]
        set_grads = map(setattr, self.places, _GRAD, self.values)
        any(chain(set_grads, map(array_slot.__set__, tensors, arrays)))  # each gives None
        del before


class Elsewhere:
    """A node as its rule sees it where a lazy cotangent is: with specs of the cotangent's backend."""

    def __init__(self, node: Node, backend: Any) -> None:
        self.node = node
        specs = tuple(spec_on(backend, spec) for spec in node.out_specs)
        self.spec = Specs(specs) if isinstance(node.spec, tuple) else specs[0]
        if hasattr(node, "specs"):
            self.specs = tuple(None if spec is None else spec_on(backend, spec) for spec in node.specs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.node, name)


def kernels_for(spec: Spec | Specs, cotangents: Any) -> Any:
    """Return the kernels for a node, whose cotangents may have batch levels that it lacks."""
    parts = cotangents if isinstance(cotangents, tuple | list) else (cotangents,)
    found = joined([spec.backend, *(b for b in map(backend_of, parts) if b is not None)])
    assert found is not None
    return found.xp


def lazy_among(arrays: Iterable[Any]) -> Any:
    """Return the lazy backend that one of some raw arrays belongs to, None if none does."""
    return next((backend for backend in map(backend_of, arrays) if backend is not None and backend.is_lazy), None)


def spec_on(backend: Any, spec: Spec) -> Spec:
    """Return the spec that an array of another backend has once it is taken over by this one."""
    return Spec(backend, spec.shape, backend.dtype(spec.backend.dtype_name(spec.dtype)), backend.default_device())


def taken(value: Any, backend: Any) -> Any:
    """Return a saved value or cotangent, or a tuple or list of them, arrays of other backends taken over by one."""
    if isinstance(value, list | tuple):
        return type(value)(taken(part, backend) for part in value)
    source = None if backend is None else backend_of(value)
    if source is None or source is backend:
        return value
    return backend.receive(source, source.as_array(value), backend.default_device())


def brought(source: Any, array: Any, spec: Spec) -> Any:
    """Return a cotangent of another backend where its operand is."""
    backend = spec.backend
    array = source.send(source.as_array(array), backend, spec.device)
    return rule_module.fit((backend_of(array) or backend).xp, array, spec)


def laid_out(gs: Any, node: Node) -> Any:
    """Return recorded cotangents in the layouts of the operands; it is no operation, so their nodes stay."""
    if not node.several:
        return _in_layout(gs, node.edges.spec)  # type: ignore[union-attr]
    return type(gs)(_in_layout(g, edge.spec) for g, edge in zip(gs, node.inputs, strict=True))


def _in_layout(g: Tensor | None, spec: Spec) -> Tensor | None:
    if g is None or g._spec.backend is not spec.backend:
        return g
    raw = spec.backend.in_layout(g._raw, spec)
    if raw is g._raw:
        return g
    made = wrap(raw, spec.backend.spec(raw), g._node)
    made._tangents = g._tangents
    return made


def check_shape(node: Node, found: Spec, wanted: Spec) -> None:
    """Refuse a gradient of another shape than its leaf, or than what it is to be added to."""
    shape, expected = found.shape, wanted.shape
    if shape != expected and not any(n != n for n in (*shape, *expected)):  # noqa: PLR0124 (nan: unknown when lazy)
        error = errors.wrong_shape(node, 0, shape, expected)
        error.add_note("The tensor's .data or .grad has got another shape since the tensor was used.")
        raise error


def watch(leaf: AccumulateGrad) -> None:
    """Tell a lazy backend that gradients are asked by a leaf."""
    tensor = leaf.variable
    if tensor is not None:
        leaf.spec.backend.watch(tensor._raw)


def fresh(g: Tensor, node: Node | None) -> Tensor:
    """Return the value of a tensor, tangents included, under a name of its own and with another history."""
    made = wrap(g._raw, g._spec, node)
    made._tangents = g._tangents
    return made


def rebuilt(node: Node, saved: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return what a node saved as tensors with their history, for rules that are themselves recorded.

    An operand is made anew from its saved value and its edge, never the user's object, whose name may by now stand for
    another value. Index operands stay raw.
    """
    plan = getattr(node.vjp, "plan", None)
    if plan is None:  # a Function keeps its own record of what it saved
        return saved
    rule = plan.rule
    edge_of = dict(zip(plan.needed_names(), node.inputs, strict=True))
    result: list[Any] = []
    for name, value in zip(plan.saves, saved, strict=True):
        if name == rule.sequence:
            members = [edge_of.get((name, i)) for i in range(len(value))]
            result.append([restore(v, e) for v, e in zip(value, members, strict=True)])
        elif name in rule.operands:
            result.append(restore(value, edge_of.get(name)))
        elif name == "ans":
            result.append(
                tuple(restore(v, output_of(node, i)) for i, v in enumerate(value))
                if isinstance(value, tuple)
                else restore(value, node)
            )
        elif name in rule.residuals:
            result.append(restore(value, None))
        else:
            result.append(value)
    return tuple(result)


def recompute(node: Node, g: Tensor, saved: tuple[Any, ...], *, masked: bool) -> Any:
    """Return the cotangents of a fused op's operands by way of the composition it stands for, recorded.

    What its kernel leaves beside the result is a mere value: a rule that reads it has no second derivative.
    """
    plan = node.vjp.plan  # type: ignore[union-attr]
    rule, op = plan.rule, node.op
    xp = node.spec.backend.functions
    recording = mode.is_grad_enabled()
    known = dict(zip(plan.saves, saved, strict=True))
    if rule.params:
        known.update(zip(rule.params, node.params, strict=True))
    before = mode.get_mode()
    try:
        mode.push(grad=True)
        for name in plan.wanted:
            known[name] = xp.positive(known[name])  # a node of its own: one operand may have been made from another
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


def origin(node: Node | None) -> Node | None:
    """Return the node that a value comes from, seen from outside of the batches it was lifted into as an operand.

    A cotangent that leaves a batch is summed over it: a value lifted twice would have the sum counted once per member.
    """
    while node is not None and node.lifts:
        (node,) = node.inputs
    return node


def restore(value: Any, node: Node | None) -> Any:
    """Make a Tensor of a saved value; Python scalars and missing operands stay what they are."""
    if value is None:
        return None
    node = origin(node)
    if isinstance(value, Tensor):  # saved with its tangents
        made = wrap(value._raw, value._spec, node)
        made._tangents = value._tangents
        return made
    tensor = tensor_of(value)
    tensor._node = node
    return tensor


rule_module.recompute = recompute
