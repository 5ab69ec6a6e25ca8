"""Build the cached program of a traced call, with the conditions under which it holds."""

from __future__ import annotations

import types
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from agrad import tree
from agrad.compiled.backward import CapturedBackward
from agrad.compiled.cached import CachedProgram
from agrad.compiled.capturing import CaptureResult
from agrad.compiled.guards import (
    Link,
    OutsideArray,
    changed_between,
    has_grad,
    hooks_at,
    is_array,
    links_along,
    settings_of,
)
from agrad.compiled.purity import hooks_tracked
from agrad.compiled.tracing import BlankTracer, Tracer, as_plain, backward_of, history_of
from agrad.core import errors
from agrad.core.backend import PYTHONS_OWN, Backend, backend_of
from agrad.core.cpython import referents
from agrad.core.node import AccumulateGrad, Node, ancestors
from agrad.core.spec import Spec
from agrad.core.tensor import Storage, Tensor
from agrad.plugin.manager import default_backend
from agrad.program.capture import graph_of, hooks_left, program_of, results_of
from agrad.program.closures import AccessPath, Argument, Found, is_library
from agrad.program.program import Leaf, Program, Structure
from agrad.program.recording import CaptureError, RecordedHook, grad_of


class TracedCall(NamedTuple):
    """A call that was traced.

    Attributes
    ----------
    tracer : Tracer
        The recorder of its steps.
    arguments : Structure
        Its arguments in the form for a program.
    values : list
        The leaves of its arguments in the form that the function received.
    captured : CaptureResult
        Its result, the values it found outside of its arguments, and the conditions on these.
    first : int
        The creation number of its first node.
    function : callable
        The function that was called.
    pure : bool
        Whether everything it found is taken to be constant, except for tensors' values.
    """

    tracer: Tracer
    arguments: Structure
    values: list[Any]
    captured: CaptureResult
    first: int
    function: Callable[..., Any]
    pure: bool

    @property
    def returned(self) -> Any:
        """The function's result."""
        return self.captured.returned

    def looked_at(self) -> Iterable[Found]:
        """Return the values that it found outside of its arguments, in the order in which it read them."""
        return self.captured.seen.looked_at()


def build_program(call: TracedCall, options: Mapping[str, Any]) -> CachedProgram:
    """Return the cached program of a traced call.

    Parameters
    ----------
    call : TracedCall
        The call.
    options : mapping
        The options for running the program.

    Raises
    ------
    CaptureError
        If no program can hold the call.
    """
    tracer = call.tracer
    hooks, nodes = hooks_of(call)
    refuse_changed_settings(tracer)
    refuse_shared_arrays(call)
    refuse_changed_histories(tracer)
    guard_numbers(call)
    results = Results.of(call)
    if isinstance(tracer, BlankTracer):  # the code that runs the program differentiates it
        results = results._replace(followed=[])
    with hooks_tracked(tracer, hooks, nodes, alone=len(results.followed) == 1) as pass_tracker:
        backward, targets, saved = backward_of(tracer, [t for _, t in results.followed], call.first, hooks)
        backward_links = pass_tracker.conditions
    conditions = list(tracer.conditions)
    tracer.extra_outputs = [
        *(condition.number for condition in conditions),
        *(number for number, _ in tracer.epilogue),
        *saved,
    ]
    settings = [item[1] for item in tracer.prologue if item[0] == "setting"]
    program = program_of(tracer, results.structure, call.arguments, call.values, call.captured.seen, settings)
    if not {hook.number for hook in hooks} <= {number for step in program.steps for number in step.made}:
        raise CaptureError("capture: a hook is registered on a value that no result depends on")
    refuse_escaped(call, program)
    if backward is not None:
        refuse_changes(tracer, program)
        program, backward = with_kept_last(program, backward)
    paths = OutsidePaths(call)
    outside_results = paths.to_results(results)
    outside = paths.to_inputs(program)
    refuse_overwritten(targets, call.arguments, outside)
    written = paths.to_written(program)
    outer_grads = paths.to_outer_grads(program)
    unread = paths.to_unread(outside)
    other_paths = paths.others_to([*(array.link for array in (*outside, *unread)), *written])
    had_grad = paths.guard_gradients(program)
    return CachedProgram(
        program=program,
        backend=tracer.backend or default_backend(),
        backward=backward,
        links=paths.conditions([*outside, *unread]),
        outside=outside,
        unread=unread,
        other_paths=other_paths,
        outside_arguments=paths.to_arguments(),
        distinct=paths.to_distinct(),
        argument_hooks=[
            (at, hooks_at(value))
            for at, value in enumerate(call.values)
            if isinstance(value, Tensor) and value._node is not None
        ],
        had_grad=had_grad,
        written=written,
        outer_grads=outer_grads,
        conditions=conditions,
        prologue=list(tracer.prologue),
        epilogue=list(tracer.epilogue),
        held_by_python=[*{id(held): held for held in tracer.held_by_python}.values()],
        followed=tuple(number for number, _ in results.followed),
        targets=targets,
        outside_results=outside_results,
        first_positions=results.first_positions(),
        hooks=[(each.number, hook) for each in hooks if each.number is not None and (hook := each.hook) is not None],
        backward_links=backward_links,
        may_continue=any(map(may_catch, call.captured.codes)),
        function=call.function,
        options=options,
    )


def with_kept_last(program: Program, backward: CapturedBackward) -> tuple[Program, CapturedBackward]:
    """Return a program whose last outputs are the values that it keeps only for its backward pass, and that pass.

    The outputs of `program` end with all values that the pass needs; an input, or an output for another reason, needs no
    output of its own.
    """
    outputs = program.outputs[: len(program.outputs) - len(backward.saved)]
    known = {*outputs, *program.inputs}
    kept = [number for number in backward.saved if number not in known]
    others = [number for number in backward.saved if number in known]
    return (
        program.replaced(outputs=(*outputs, *kept)),
        replace(backward, saved=(*kept, *others), kept=len(kept)),
    )


# -- hooks --------------------------------------------------------------------------------------------------------------


def hooks_of(call: TracedCall) -> tuple[list[RecordedHook], list[Node]]:
    """Return the hooks that the call registered on the graph of its results, and the nodes of this graph."""
    nodes = graph_of(call.returned, call.first)
    hooks = hooks_left(call.tracer, nodes)
    refuse_hooks(call.tracer, hooks)
    return hooks, nodes


def refuse_hooks(tracer: Tracer, left: Sequence[RecordedHook]) -> None:
    """Refuse hooks that no backward program can hold; `left` are those on the graph of the results."""
    outside = {id(tensor._node) for tensor, *_ in tracer.met.values()}
    if any(id(hooked.node) in outside and hooked.hook is not None for hooked in tracer.hooked):
        raise CaptureError(
            "capture: a hook is registered on a tensor that the function did not create: every call adds it once more"
        )
    if any(hooked.handle() is not None for hooked in left):
        raise CaptureError("capture: the handle of a hook is kept: it may remove the hook before it runs")
    if any(hooked.number is None for hooked in left):
        raise CaptureError("capture: a hook is registered on a tensor within vmap")


# -- refusals of calls that no program can hold -------------------------------------------------------------------------


def refuse_changed_settings(tracer: Tracer) -> None:
    """Refuse settings of optimisers and schedules that code other than their own has changed."""
    for key, found in changed_between(tracer.settings, settings_of(tracer.setting_owners)).items():
        if key not in tracer.reported_settings:
            raise CaptureError(
                f"capture: the setting {found.origin} is changed by the function itself: a program would not change it;"
                " let a schedule do it, or change it between calls"
            )


def refuse_shared_arrays(call: TracedCall) -> None:
    """Refuse several tensors that share one array: a later call could mean any of them."""
    tracer = call.tracer
    before = {key: array for key, (_, array, _) in tracer.met.items()}
    owner = {id(before.get(id(t), t._raw)): id(t) for t in call.values if isinstance(t, Tensor)}
    arguments: dict[int, Tensor] = {}
    for t in call.values:
        if isinstance(t, Tensor):
            other = arguments.setdefault(id(before.get(id(t), t._raw)), t)
            if other is not t and (other._node is not None or t._node is not None):
                raise CaptureError(
                    "capture: two arguments share an array, and one of them requires a gradient: a program takes them as one"
                )
    known = {id(array) for _, array in tracer.inputs.values()}
    for found in call.looked_at():
        if not isinstance(found.value, Tensor):
            continue
        array = before.get(id(found.value), found.value._raw)
        if id(array) not in known:
            continue
        if found.step == ("attribute", "grad") and id(found.value) not in tracer.met:  # a gradient from before the call
            continue
        if owner.setdefault(id(array), id(found.value)) != id(found.value):
            raise CaptureError(
                f"capture: {found.origin} is found outside of the arguments and shares its array with an argument, or"
                " with another tensor from outside: no program can tell which of them a later call means"
            )


def refuse_changed_histories(tracer: Tracer) -> None:
    """Refuse outer tensors whose history has changed: a replay only writes values."""
    if any(history_of(tensor) != before for tensor, before in tracer.histories.values()):
        raise CaptureError(
            "capture: a tensor that the function did not create gets another history (by a write while operations are"
            " recorded, or by detach_, requires_grad_ or retain_grad): a program only writes values"
        )


def guard_numbers(call: TracedCall) -> None:
    """Make numbers that agrad's own code has read unobserved conditions; refuse conditions in a call that changes an optimiser."""
    tracer = call.tracer
    for traced in tracer.traced_numbers:
        if not traced.used:
            tracer.require_value(tracer.number_of(traced.array), as_plain(traced))
    if tracer.conditions and any(kind == "effect" for kind, *_ in tracer.prologue):
        raise CaptureError(
            f"capture: a value decides ({tracer.conditions[0].line}) in a call that changes an optimiser's state"
        )


def refuse_overwritten(targets: Iterable[int], arguments: Structure, outside: Iterable[Any]) -> None:
    """Refuse a result that may be differentiated by a tensor whose value the program overwrites before anything reads it."""
    inputs = {leaf.number for leaf in arguments.leaves if type(leaf) is Leaf} | {one.number for one in outside}
    if not inputs.issuperset(targets):
        raise CaptureError(
            "capture: it returns a value that may be differentiated by a tensor, and overwrites that tensor before it"
            " reads it: overwrite it outside of the compiled function"
        )


def refuse_changes(tracer: Tracer, program: Program) -> None:
    """Refuse any change if results are differentiated through a `Function`: the compiled function may have to run again."""
    changes = tracer.prologue or tracer.epilogue or tracer.held_by_python
    if program.functions and (program.writes or changes):
        what = f"writes to {program.writes[0].target}" if program.writes else "changes the settings of an optimiser"
        raise CaptureError(
            f"capture: it {what}, and a second derivative through the Function {program.functions[0]} would run it again"
        )


def refuse_escaped(call: TracedCall, program: Program) -> None:
    """Refuse tensors that the function created and that live on outside the program's results."""
    tracer = call.tracer
    tensors = [leaf for leaf in tree.flatten(call.returned)[0] if isinstance(leaf, Tensor)]
    tensors += tracer.written
    tensors += [grad for t in tensors if t.is_leaf and (grad := grad_of(t)) is not None]
    refuse_storage(tensors, {id(t) for t in (*tensors, *call.values)} | tracer.met.keys())
    held = {tracer.number_of(array) for array in (*arrays_held(tensors), *tracer.kept_alive)}
    numbers = (*tracer.traced_numbers, *(number for _, number in tracer.numbers.values()))
    held |= {tracer.number_of(number.array) for number in numbers}
    held |= {tracer.number_of(t._base.value) for t in tensors if type(t._base) is Storage}
    escaped = tracer.escaped({*program.outputs, *(number for number in held if number is not None)})
    if escaped is not None:
        raise CaptureError(
            f"capture: a tensor of shape {tuple(escaped.shape)} that the function created lives on (in a list or an attribute),"
            " but the function does not return it"
        )


def refuse_storage(tensors: Iterable[Tensor], living: Container[int]) -> None:
    """Refuse the ``.data`` of tensors that live on, by ``id``: a write to it changes its tensor; one to a program's result does not."""
    for tensor in tensors:
        base = tensor._base
        owner = base.owner(tensor) if type(base) is Storage else None
        if owner is not None and id(owner) in living:
            raise CaptureError(
                "capture: the .data of a tensor is returned, or becomes a gradient, and a write to it is a write to that"
                " tensor: take x.detach(), or the tensor itself"
            )


def arrays_held(tensors: Iterable[Tensor]) -> Iterator[Any]:
    """Return the arrays of tensors, and those that their graphs keep, including values packed by saved-tensor hooks.

    The gradient of a leaf that no longer exists is one of them: the function created the leaf, and only the graph holds it.
    """
    left, looked_at = list(tensors), set[Node]()
    pending: list[Any] = []
    while left:
        t = left.pop()
        yield t._raw
        if t._node is None:
            continue
        for node in ancestors([t._node]) - looked_at:
            looked_at.add(node)
            pending += (node.saved, node.hooks)
            if type(node) is AccumulateGrad and node.grad is not None and node.variable is None:
                left.append(node.grad)
    seen: set[int] = set()
    while pending:
        value = pending.pop()
        if id(value) in seen or isinstance(value, SKIPPED):
            continue
        seen.add(id(value))
        if type(value) not in PYTHONS_OWN and backend_of(value) is not None:
            yield value
        else:
            pending.extend(referents(value))


#: The classes of objects that the search for the arrays of a graph skips.
SKIPPED = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType, str, int, float, Spec, Backend)


def may_catch(code: types.CodeType) -> bool:
    """Return whether code is the user's and may catch an error: it has a `try` or a `with`."""
    file = code.co_filename
    return bool(code.co_exceptiontable) and file not in errors.INTERNAL_FILES and not is_library(file)


# -- results, and the paths to outer values -----------------------------------------------------------------------------


class Results(NamedTuple):
    """The result of a call.

    Attributes
    ----------
    structure : Structure
        The result in the form for a program.
    leaves : list
        Its leaves, as the function returned them.
    paths : dict of int to AccessPath
        The paths to the outer tensors among the leaves, by ``id``.
    followed : list of (int, Tensor)
        The tensors that may be differentiated, with their numbers.
    """

    structure: Structure
    leaves: list[Any]
    paths: dict[int, AccessPath]
    followed: list[tuple[int, Tensor]]

    @classmethod
    def of(cls, call: TracedCall) -> Results:
        """Return the result of a call; refuse new leaves that require a gradient."""
        tracer, leaves = call.tracer, tree.flatten(call.returned)[0]
        structure = results_of(tracer, call.returned, call.values)
        pairs = list(zip(structure.leaves, leaves, strict=True))
        inputs = {number for number, _ in tracer.inputs.values()}
        wanted = {
            id(t) for leaf, t in pairs if isinstance(leaf, Leaf) and (leaf.number in inputs or id(t) in tracer.met)
        }
        paths: dict[int, AccessPath] = {}
        for found in call.looked_at():  # the first path counts: the call itself may have put the tensor at a later one
            if id(found.value) in wanted:
                paths.setdefault(id(found.value), found.origin)
        new = [
            (leaf.number, tensor)
            for leaf, tensor in pairs
            if isinstance(leaf, Leaf) and leaf.followed and tensor._node is not None and id(tensor) not in paths
        ]
        followed = [*{number: (number, tensor) for number, tensor in new if not tensor.is_leaf}.values()]
        if any(tensor.is_leaf for _, tensor in new):
            raise CaptureError("capture: it returns a new leaf that requires a gradient")
        return cls(structure, leaves, paths, followed)

    def first_positions(self) -> list[int]:
        """Return, for each leaf, the position of the first one that is the same object."""
        positions: dict[int, int] = {}
        return [positions.setdefault(id(leaf), at) for at, leaf in enumerate(self.leaves)]


class OutsidePaths:
    """The paths to the outer values that a program takes, and the links on these paths, which must be unchanged.

    Attributes
    ----------
    links : list of Link
        The links on the paths, without the last one of each.
    """

    def __init__(self, call: TracedCall) -> None:
        self._call = call
        self.links: list[Link] = []

    def conditions(self, taken: Iterable[OutsideArray]) -> list[Link]:
        """Return all places that must be unchanged: the parts of Python's state that the function read, and the links on the paths.

        Parameters
        ----------
        taken : iterable of OutsideArray
            The values that the program looks up at every call.
        """
        call = self._call
        if call.pure:
            return []
        ids = {id(array.link.value) for array in taken}
        read = [*call.captured.conditions, *call.captured.guard_the_rest(ids)]
        places = {link.place for link in read}
        links = {link.place: link for link in self.links if link.place not in places}
        return [*read, *links.values(), *call.tracer.guards]

    def end_of(self, origin: AccessPath) -> Link:
        """Return the last link of a path, whose value is looked up at every call; guard the others."""
        try:
            *others, last = links_along(origin)
        except (AttributeError, LookupError, ValueError, TypeError, StopIteration) as error:
            raise CaptureError(f"capture: {origin} no longer exists after the call") from error
        self.links += others
        if origin.way[-1] == ("attribute", "grad"):  # the gradient from before the call
            met = self._call.tracer.met.get(id(last.key))
            return last if met is None else last._replace(value=met[2])
        return last

    def to_results(self, results: Results) -> dict[int, Link]:
        """Return the links to outer tensors that are returned, by position among the results."""
        paths = results.paths
        return {i: self.end_of(paths[id(leaf)]) for i, leaf in enumerate(results.leaves) if id(leaf) in paths}

    def to_inputs(self, program: Program) -> list[OutsideArray]:
        """Return the outer tensors and arrays whose values are inputs."""
        before = dict(self._call.tracer.inputs.values())
        outside = []
        for number, origin in program.outside.items():
            last = self.end_of(origin)
            value = before[number] if origin.way[-1] == ("attribute", "grad") else last.value
            outside.append(OutsideArray.of(number, last, value))
        return outside

    def to_written(self, program: Program) -> list[int | Link]:
        """Return the targets of writes."""
        targets = [write.target for write in program.writes]
        for target in targets:
            leaf = self._call.arguments.leaves[target.place] if isinstance(target, Argument) else None
            if isinstance(leaf, Leaf) and leaf.raw:
                raise CaptureError("capture: an array among the arguments is written to")
        return [target.place if isinstance(target, Argument) else self.end_of(target) for target in targets]

    def to_outer_grads(self, program: Program) -> list[int | Link | None]:
        """Return, for each write, where the tensor that becomes a gradient is found, if the function did not create it."""
        call = self._call
        grads = [
            grad_of(tensor) if write.what == "grad" else None
            for write, tensor in zip(program.writes, call.tracer.written, strict=True)
        ]
        wanted = {id(grad) for grad in grads if grad is not None}
        places: dict[int, int | Link] = {id(value): at for at, value in enumerate(call.values) if id(value) in wanted}
        for found in call.looked_at():
            if id(found.value) in wanted and id(found.value) not in places:
                places[id(found.value)] = self.end_of(found.origin)
        made = [id(grad) for grad in grads if grad is not None and id(grad) not in places]
        if len(set(made)) < len(made):
            raise CaptureError("capture: one tensor that the function makes becomes the gradient of several tensors")
        return [places.get(id(grad)) for grad in grads]

    def to_unread(self, outside: Sequence[OutsideArray]) -> list[OutsideArray]:
        """Return the tensors that require a gradient and are neither arguments nor inputs, each at its first path."""
        taken = {id(value) for value in (*(array.link.value for array in outside), *self._call.values)}
        met = self._call.tracer.met
        followed = {key for key, (t, *_) in met.items() if t._node is not None and key not in taken}
        first: dict[int, Found] = {}
        for found in self._call.looked_at():
            if id(found.value) in followed:
                first.setdefault(id(found.value), found)
        return [OutsideArray.of(-1, self.end_of(found.origin), found.value) for found in first.values()]

    def others_to(self, taken: Iterable[int | Link]) -> list[tuple[Link, Link]]:
        """Return the other links by which the call reached values that the program takes, each with the link that the program uses."""
        used = {id(link.value): link for link in taken if isinstance(link, Link)}
        others = []
        for found in self._all_to(used):
            link, last = used[id(found.value)], self.end_of(found.origin)
            if last.place[:2] != link.place[:2]:
                others.append((last, link))
        return others

    def to_arguments(self) -> list[tuple[Link, int]]:
        """Return the links by which the call also found an argument outside, each with the argument's position."""
        places = {id(value): at for at, value in enumerate(self._call.values) if is_array(value)}
        return [(self.end_of(found.origin), places[id(found.value)]) for found in self._all_to(places)]

    def to_distinct(self) -> list[tuple[Link, int]]:
        """Return the links to tensors that were compared with an argument and differ from it, each with the argument's position."""
        places = {id(value): at for at, value in enumerate(self._call.values)}
        return [(self.end_of(found.origin), places[id(argument)]) for argument, found in self._call.captured.distinct]

    def _all_to(self, wanted: Container[int]) -> Iterator[Found]:
        """Return all paths on which the call found some values, by ``id``; gradients excluded."""
        for found in self._call.looked_at():
            is_grad = found.step == ("attribute", "grad")
            if found.before is not None and id(found.value) in wanted and not is_grad and not self._call.pure:
                yield found

    def guard_gradients(self, program: Program) -> list[tuple[int, bool]]:
        """Guard whether outer tensors have a gradient, if the call read it and does not write it; return this for arguments.

        Returns
        -------
        list of (int, bool)
            The position of each such argument among the leaves, and whether it has a gradient.
        """
        call, tracer = self._call, self._call.tracer
        targets = zip(program.writes, tracer.written, strict=True)
        written = {id(tensor) for write, tensor in targets if write.what == "grad"}
        read = {key for key, what in tracer.grads.items() if what == "read" and key in tracer.met} - written
        for found in call.looked_at():
            if id(found.value) in read:
                has = has_grad(found.value)
                self.links += links_along(found.origin)
                self.links.append(Link(has_grad, found.value, has, f"whether {found.origin} has a gradient"))
        return [(at, has_grad(value)) for at, value in enumerate(call.values) if id(value) in read]
