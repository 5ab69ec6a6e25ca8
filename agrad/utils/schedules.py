"""Checkpointing by schedule: the gradient of many steps in the memory of a few states, kept as a schedule says.

A schedule is an iterator of actions, those of the package ``checkpoint_schedules``: run forward from one step to another,
keep the state or the values that the derivative of these steps needs, go backward over them. `Follower` executes the actions,
and `_Traversal` runs the steps.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

from agrad import random, tree
from agrad.core import engine, mode
from agrad.core.engine import running
from agrad.core.errors import called
from agrad.core.function import Function, FunctionNode, run
from agrad.core.node import AccumulateGrad, Node, next_seq
from agrad.core.operands import from_raw
from agrad.core.saved import Packed, Pair, active, around
from agrad.core.tensor import Tensor, wrap
from agrad.func.scan import first_value
from agrad.ops.elementwise import add
from agrad.program.arguments import argument_of, bare_all, is_raw, name_of
from agrad.program.batching import repeatable
from agrad.program.recording import CaptureError
from agrad.utils.checkpoint import CheckpointError, checkpoint
from agrad.utils.following import Actions, Follower
from agrad.utils.unwinding import as_step

__all__ = ["checkpoint_sequence"]


def checkpoint_sequence(
    step: Callable[[Any, int], Any], state: Any, n: int, *, schedule: Any, directory: str | None = None
) -> Any:
    """Run n steps, and keep for backward what a schedule says; the rest is recomputed there.

    Equivalent to the loop ``for i in range(n): state = step(state, i)``, with the same gradients, also by tensors that `step`
    uses in addition to its arguments. With ``schedule=20``, 10,000 steps hold 20 states, and each is run 4.8 times.

    Parameters
    ----------
    step : callable
        Takes the state and the number of the step, returns the next state, with the same containers. It must do the same when
        run again. Its random numbers are drawn again, from any generators.
    state : array, number or container of them
        The argument of the first step.
    n : int
        The number of steps.
    schedule : int or checkpoint_schedules.CheckpointSchedule
        A number of states to keep in memory: the binomial schedule, which needs the fewest steps for it. Or a schedule of that
        package: ``Revolve``, ``MultistageCheckpointSchedule``, ``MixedCheckpointSchedule``, ``HRevolve`` and others, for memory
        and files. It is not consumed: each call follows it from the beginning.
    directory : str, optional
        The directory of the files; default: the system's temporary directory. They are removed with what they hold: at the end of
        backward, after an error or an interrupt in it, or with the graph if there is no backward.

    Returns
    -------
    Tensor or container of them
        The result of the last step; raw arrays if `state` holds raw arrays and nothing is differentiated.

    Raises
    ------
    CheckpointError
        If a step uses a tensor that an earlier one made and that is not part of the state. In backward, if a step behaves
        differently when run again, or if a parameter that it uses has been given another value since.
    ImportError
        If the package ``checkpoint_schedules`` is not installed.
    TypeError
        If `schedule` is neither, or a step returns other containers than it was given.
    ValueError
        If `n` or a number of states is less than 1, or a schedule is for another number of steps, used already, or without backward.

    Notes
    -----
    The initial state is kept in addition to those of the schedule. Backward through a retained graph runs all steps forward
    again from it. Higher orders are correct, and differentiate the loop with a `checkpoint` per step, which keeps all states.
    Where nothing is recorded, and in forward mode, the loop runs unchanged.

    In a compiled function the sequence is one step of the program, which runs a program of `step` as the schedule says; arrays
    must not be lazy, and only the calls that capture or compare run more steps. `step` must be such that `func.scan` is one
    step with it, without random numbers, and may take the number of the step only in sums and products; for anything
    else, such as an index, carry a counter in the state: ``ag.asarray(0)``, ``count + 1``. Otherwise the function runs
    uncompiled, and a warning says why; then compile what a step computes: ``f = ag.compile(...)``,
    ``step = lambda state, i: f(state, ag.asarray(i))``. Where nothing needs a gradient, the step of the program is that of
    `func.scan`. Make a schedule of the package outside of the compiled function. Such a program cannot be saved.

    Griewank and Walther: Algorithm 799: revolve (2000). Stumm and Walther: MultiStage approaches for optimal offline
    checkpointing (2009). Maddison: Step-based checkpointing with high-level algorithmic differentiation (2024), for ``MixedCheckpointSchedule``.

    Examples
    --------
    >>> import agrad as ag
    >>> rate = ag.tensor(0.01, requires_grad=True)
    >>> def step(x, i):
    ...     return x + rate * x * (1 - x)
    >>> x = ag.utils.checkpoint_sequence(step, ag.tensor(0.1), 300, schedule=5)
    >>> ag.grad(x, rate)[0]
    tensor(64.2397)
    """
    n = operator.index(n)
    if n < 1:
        raise ValueError(f"checkpoint_sequence: n is {n}: there must be at least one step{called()}")
    made, form = tree.flatten(state)
    first = [argument_of(leaf, "checkpoint_sequence") for leaf in made]
    actions = Actions(schedule, n)
    steps = _SequenceSteps(step, form, n)
    now = mode.current()
    found = None if mode.recorder() is None else _as_step(steps, made, actions, directory)
    if found is None:
        if (now is not None and now.levels) or not mode.is_grad_enabled():
            found = first
            for i in range(n):
                found = steps.called(found, i)
        else:
            found = _recorded(steps, first, actions, directory)
    result = tree.unflatten(form, found)
    return bare_all(result) if mode.recorder() is None and is_raw(state) else result


def _as_step(
    steps: _SequenceSteps, state: Sequence[Any], actions: Actions, directory: str | None
) -> list[Tensor] | None:
    """Make the sequence one step of the program that is being captured; return None where it stays a loop."""
    try:
        first = [first_value(leaf) for leaf in state]
        return as_step(
            lambda leaves, i: steps.leaves(steps.step(tree.unflatten(steps.form, leaves), i), 0),
            first,
            actions,
            directory,
        )
    except CaptureError as error:
        if mode.is_grad_enabled():
            mode.not_recorded(
                f"no program holds the step of checkpoint_sequence ({error}): compile what a step computes, and call that"
                " function in `step`"
            )
        return None


# -- steps ----------------------------------------------------------------------------------------------------------------


class _SequenceSteps:
    """The steps of a sequence: how each is called, the first time and again.

    Attributes
    ----------
    keys : dict
        By step number, the keys of the random numbers that the step drew.
    moving : list of tuple of bool
        Which leaves of the state are differentiated, before each step and after the last.
    """

    def __init__(self, step: Callable[[Any, int], Any], form: tree.TreeDef, n: int) -> None:
        self.step: Callable[[Any, int], Any] = step
        self.form: tree.TreeDef = form
        self.n: int = n
        self._again = repeatable(step)[1]
        self.keys: dict[int, list[random.Key]] = {}
        self.moving: list[tuple[bool, ...]] = []

    def called(self, state: Sequence[Tensor], i: int) -> list[Tensor]:
        """Call a step for the first time."""
        keys: list[random.Key] = []
        found = random.noting(keys, self.step, tree.unflatten(self.form, state), i)
        if keys:
            self.keys[i] = keys
        return self.leaves(found, i)

    def again(self, state: Any, i: int) -> Any:
        """Call a step with the random numbers of its first call."""
        return random.again(self.keys.get(i, ()), self._again, state, i)

    def leaves(self, state: Any, i: int) -> list[Tensor]:
        """Return the leaves of a step's result."""
        found, form = tree.flatten(state)
        if form != self.form:
            raise TypeError(
                f"checkpoint_sequence: {name_of(self.step)} was given {self.form} as its state, and gave {form} in step"
                f" {i}{called()}"
            )
        return [argument_of(leaf, "checkpoint_sequence") for leaf in found]


class _Recorded(NamedTuple):
    """The graph of one step, from its state to the next one.

    Attributes
    ----------
    inputs, outputs : list of Node or None
        The nodes of the leaves of either; None for one that no cotangent goes to.
    outside : set of Node
        Other nodes where the graph leaves the step.
    """

    inputs: list[Node | None]
    outputs: list[Node | None]
    outside: set[Node]


class _Within(engine.Pass):
    """A backward pass over one step; nodes before its targets, and hooks on these, are left to the enclosing pass."""

    def visit(self, node: Node, g: Any) -> tuple[Sequence[Node], Any]:
        assert self.targets is not None
        if node not in self.targets or type(node) is AccumulateGrad:
            return super().visit(node, g)
        self.captured[node] = g
        return (), ()

    def run_tensor_hooks(self, node: Node, hooks: Any, g: Any) -> Any:
        assert self.targets is not None
        return g if node in self.targets else super().run_tensor_hooks(node, hooks, g)


def _back(
    outputs: Sequence[Node | None],
    cotangents: Sequence[Tensor | None],
    targets: set[Node],
    *,
    keep: bool,
    dropped: bool,
    record: bool = False,
) -> dict[Node, Tensor]:
    """Return the cotangents at those targets that any reach; `dropped`: they come from an operation that drops elements."""
    roots = [(node, g) for node, g in zip(outputs, cotangents, strict=True) if node is not None and g is not None]
    found = engine.run(
        roots,
        retain_graph=keep,
        create_graph=record,
        targets=targets,
        accumulate=False,
        masked=dropped,
        kind=_Within,
    )
    return {node: g if isinstance(g, Tensor) else from_raw(g) for node, g in found.items()}


def _plain(t: Tensor) -> Tensor:
    return wrap(t._raw, t._spec)


def _nodes(tensors: Sequence[Tensor]) -> list[Node | None]:
    return [t._node for t in tensors]


def _outside(outputs: Sequence[Node | None], own: Collection[Node | None], floor: int) -> set[Node]:
    """Return the nodes where a step's graph leaves it: leaves outside its state, and nodes older than the step."""
    seen: set[Node] = set()
    found: set[Node] = set()
    stack = [node for node in outputs if node is not None]
    while stack:
        node = stack.pop()
        if node in seen or node in own:
            continue
        seen.add(node)
        if node.seq < floor:
            found.add(node)
        elif type(node) is not AccumulateGrad:
            stack.extend(node.inputs)
        elif node.active:  # the others are names given by transforms
            found.add(node)
    return found


# -- one traversal forward and back ---------------------------------------------------------------------------------------


class _Traversal(Follower):
    """One traversal of a schedule: forward to the last state, then backward.

    Attributes
    ----------
    outside : dict
        Nodes outside the state that cotangents go to; for each leaf, its tensor's value in forward. None in the first
        traversal, which finds them.
    """

    def __init__(
        self,
        steps: _SequenceSteps,
        state: Sequence[Tensor],
        actions: Actions,
        directory: str | None,
        outside: dict[Node, Any] | None = None,
    ) -> None:
        super().__init__(list(map(_plain, state)), actions, directory)
        self.steps = steps
        self._began = next_seq()
        self.outside: dict[Node, Any] = {} if outside is None else outside
        self._first = outside is None
        if self._first:
            steps.moving.append(tuple(t.requires_grad for t in state))

    # -- forward

    def forward(self) -> list[Tensor]:
        found = super().forward()
        self._first = False
        return found

    def _call(self, i: int, *, keep: bool, to_disk: bool) -> _Recorded:
        """Run the step after the present state, and advance to the next one; return its graph.

        If the graph is to be kept, its saved values go through the hooks active around the sequence, and to files.
        """
        steps = self.steps
        inputs = [_plain(t).requires_grad_(moves) for t, moves in zip(self._state, steps.moving[i], strict=True)]
        self._state = []
        own = _nodes(inputs)
        before = mode.get_mode()
        try:
            pairs = before.saved if before is not None and self._first and keep else ()
            if to_disk and keep:
                pairs = (*(around() if self._first else ()), Pair(functools.partial(self._pack, own), self._unpack))
            mode.push(grad=True, levels=(), saved=pairs)
            floor = next_seq()
            given = list(map(_named, inputs))
            if self._first:
                outputs = steps.called(given, i)
            else:
                outputs = steps.leaves(steps.again(tree.unflatten(steps.form, given), i), i)
        finally:
            mode.set_mode(before)
        moving = tuple(t.requires_grad for t in outputs)
        if len(steps.moving) == i + 1:
            steps.moving.append(steps.moving[-1] if moving == steps.moving[-1] else moving)
        elif moving != steps.moving[i + 1]:
            raise CheckpointError(
                f"checkpoint_sequence: step {i} gave a state whose leaves require gradients as {steps.moving[i + 1]}, and when"
                f" it was run again as {moving}: it must do the same"
            )
        outside: set[Node] = set()
        if self._first or keep:
            outside = _outside(_nodes(outputs), own, floor)
            for node in outside:
                self._meet(node, i)
        self._state, self._at = list(map(_plain, outputs)), i + 1
        return _Recorded(own, _nodes(outputs), outside)

    def _meet(self, node: Node, i: int) -> None:
        """Record a node outside the state that a step's graph leads to."""
        is_leaf = type(node) is AccumulateGrad
        if self._first:
            if not is_leaf and node.seq > self._began:
                raise CheckpointError(
                    f"checkpoint_sequence: step {i} uses a tensor that an earlier step made ({node.name()}), and that is no part"
                    " of the state: its gradient would be lost. Make it part of the state"
                )
            if node not in self.outside:
                self.outside[node] = _value_of(node) if is_leaf else None
        elif node not in self.outside:
            raise CheckpointError(
                f"checkpoint_sequence: step {i} uses a tensor ({node.name()}) when it is run again that no step used in"
                " forward: its gradient would be lost"
            )
        elif is_leaf and self.outside[node] is not _value_of(node):
            raise CheckpointError(
                f"checkpoint_sequence: step {i} uses a tensor of shape {tuple(node.spec.shape)} that was given another value"
                " between forward and backward: call backward before it changes, as before optimizer.step()"
            )

    # -- kept values

    def _put(self, tensor: Tensor, *, to_disk: bool) -> Any:
        """Return a value in its kept form: in a file, packed by the hooks active around the sequence, or itself."""
        pairs = active() if self._first else ()
        if to_disk:
            pairs = (Pair(self._disk.pack_hook, self._disk.unpack_hook), *pairs)
        return Packed(tensor, pairs) if pairs else tensor

    def _kept(self, state: list[Tensor], *, to_disk: bool) -> list[Any]:
        return [self._put(t, to_disk=to_disk) for t in state]

    def _taken(self, kept: Sequence[Any]) -> list[Tensor]:
        return [one.unpack() if isinstance(one, Packed) else one for one in kept]

    def _pack(self, own: Collection[Node | None], tensor: Tensor) -> Any:
        """Write a step's saved value to a file; a parameter stays in memory anyway."""
        if type(tensor._node) is AccumulateGrad and tensor._node not in own:
            return _plain(tensor)
        return self._disk.pack_hook(tensor)

    def _unpack(self, kept: Any) -> Tensor:
        return kept if isinstance(kept, Tensor) else self._disk.unpack_hook(kept)

    # -- backward

    def reverse(
        self, cotangents: Sequence[Tensor | None], *, dropped: bool
    ) -> tuple[list[Tensor | None], dict[Node, Tensor]]:
        """Follow the schedule to its end; return the cotangents of the first state, and of the nodes outside it."""
        self._dropped = dropped
        self._beside: dict[Node, Tensor] = {}
        task = running()
        self._wanted = None if task is None else task.needed
        return self._back(cotangents), self._beside

    def _over(self, i: int, graph: _Recorded, *, keep: bool) -> None:
        outside = graph.outside if self._wanted is None else {node for node in graph.outside if node in self._wanted}
        own = {node for node in graph.inputs if node is not None}
        found = _back(graph.outputs, self._cotangents, own | outside, keep=keep, dropped=self._dropped)
        self._cotangents = [None if node is None else found.get(node) for node in graph.inputs]
        for node in outside:
            g = found.get(node)
            if g is not None:
                self._beside[node] = add(self._beside[node], g) if node in self._beside else g


def _named(leaf: Tensor) -> Tensor:
    """Return a leaf as the result of an operation, which may be changed in place."""
    if not leaf.requires_grad:
        return leaf
    value: Tensor = leaf[...]
    value._base = None  # a change of it affects nothing else
    return value


def _value_of(leaf: Node) -> Any:
    """Return a leaf's present array."""
    assert type(leaf) is AccumulateGrad
    tensor = leaf.variable
    return None if tensor is None else tensor._raw


# -- in the graph ---------------------------------------------------------------------------------------------------------


def _recorded(steps: _SequenceSteps, state: Sequence[Tensor], actions: Actions, directory: str | None) -> list[Tensor]:
    """Run the steps, recorded as one operation on the state and on everything else they use."""
    along = _Traversal(steps, state, actions, directory)
    last = along.forward()
    if not along.outside and not any(steps.moving[0]):
        along.let_go()
        return last
    # values used in addition to the state are unknown to its nodes, and nothing requests them
    beside = [wrap(None, node.spec, node) for node in along.outside]
    call = _SequenceCall(steps, actions, directory, along, last, len(state))
    return list(run(CheckpointSequence, (call, *state, *beside), {}))


class _SequenceCall:
    """The record of a sequence in its node.

    Attributes
    ----------
    along : _Traversal or None
        The traversal that forward has begun, until a backward pass has ended it.
    last : list of Tensor
        The result of the last step, until the call ends.
    dropped : bool
        Whether the cotangents of the present backward pass come from an operation that drops elements.
    """

    def __init__(
        self,
        steps: _SequenceSteps,
        actions: Actions,
        directory: str | None,
        along: _Traversal,
        last: list[Tensor],
        count: int,
    ) -> None:
        self.steps: _SequenceSteps = steps
        self.actions: Actions = actions
        self.directory: str | None = directory
        self.along: _Traversal | None = along
        self.last: list[Tensor] = last
        self.count: int = count
        self.outside: dict[Node, Any] = along.outside
        self.dropped = False

    def let_go(self) -> None:
        """Release everything but the first state."""
        along, self.along = self.along, None
        if along is not None:
            along.let_go()

    def way(self, state: Sequence[Tensor]) -> _Traversal:
        """Return the traversal at its last state: that of forward, or a new one for another backward pass."""
        along, self.along = self.along, None
        if along is None:
            along = _Traversal(self.steps, state, self.actions, self.directory, self.outside)
            along.forward()
        return along


class CheckpointSequence(Function):
    """All steps as one operation."""

    @staticmethod
    def forward(ctx: FunctionNode, call: _SequenceCall, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.save_for_backward(*tensors[: call.count])
        ctx.metadata["call"] = call
        type(ctx).nan_safe_vjp = staticmethod(_dropped_vjp)
        last, call.last = call.last, []
        ctx.mark_non_differentiable(*(t for t, moves in zip(last, call.steps.moving[-1], strict=True) if not moves))
        ctx.set_materialize_grads(False)
        return tuple(last)

    @staticmethod
    def backward(ctx: FunctionNode, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        call: _SequenceCall = ctx.metadata["call"]
        state = [t for t in ctx.saved_tensors if t is not None]
        if mode.is_grad_enabled():
            call.let_go()
            first, beside = _with_history(call, state, cotangents)
        else:
            first, beside = call.way(state).reverse(cotangents, dropped=call.dropped)
        return None, *first, *(beside.get(node) for node in call.outside)


def _dropped_vjp(xp: Any, g: Any, saved: tuple[Any, ...], node: FunctionNode) -> Any:
    """Run backward with cotangents from an operation that drops elements."""
    call: _SequenceCall = node.metadata["call"]
    call.dropped = True
    try:
        assert node.vjp is not None
        return node.vjp(xp, g, saved, node)
    finally:
        call.dropped = False


def _with_history(
    call: _SequenceCall, state: Sequence[Tensor], cotangents: Sequence[Tensor | None]
) -> tuple[list[Tensor | None], dict[Node, Tensor]]:
    """Return the same cotangents as functions of the state and everything used in addition: all states are kept."""
    steps = call.steps
    first = list(map(_named, state))
    values = first
    for i in range(call.actions.n):
        values = steps.leaves(checkpoint(steps.again, tree.unflatten(steps.form, values), i), i)
    own = {node for node in _nodes(first) if node is not None}
    found = _back(_nodes(values), cotangents, own | call.outside.keys(), keep=True, dropped=call.dropped, record=True)
    return [None if node is None else found.get(node) for node in _nodes(first)], found
