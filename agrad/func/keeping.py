"""Keep a call: the kept program of what a function did in a call that was watched, with all that must hold for it."""

from __future__ import annotations

import gc
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agrad import tree
from agrad.core import errors
from agrad.core.backend import PYTHONS_OWN, Backend, backend_of
from agrad.core.node import AccumulateGrad, Node, ancestors
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor
from agrad.func.capture import graph_of, hooks_left, program_of, results_of
from agrad.func.guards import (
    Link,
    Outside,
    Reading,
    State,
    changed,
    changed_between,
    guards_of,
    has_grad,
    hooks_at,
    links_along,
    settings_of,
)
from agrad.func.kept import Kept
from agrad.func.origins import Argument, Found, Origin, Reach, is_library
from agrad.func.program import Leaf, Program, Structure
from agrad.func.recording import CaptureError, Hooked, grad_of
from agrad.func.watching import Watcher, backward_of
from agrad.plugin.manager import default_backend

if TYPE_CHECKING:
    from agrad.func.hooks import Reads


class Watched(NamedTuple):
    """A call that was watched.

    Attributes
    ----------
    watcher : Watcher
        What it did.
    arguments : Structure
        Its arguments as a program has them.
    values : list
        The leaves of its arguments as the function got them.
    returned : object
        What the function returned.
    reach : Reach
        What the function can find outside of its arguments.
    state : list of State
        What that was before the call.
    settings : dict
        The settings of optimisers before the call.
    met : set of code
        Of the functions that ran in it.
    first : int
        The creation number of its first node.
    """

    watcher: Watcher
    arguments: Structure
    values: list[Any]
    returned: Any
    reach: Reach
    state: list[State]
    settings: dict[Any, Found]
    met: set[types.CodeType]
    first: int


def kept_of(call: Watched, options: Mapping[str, Any]) -> Kept:
    """Return the kept program of a call that was watched.

    Parameters
    ----------
    call : Watched
        The call.
    options : mapping
        How the program is to run.

    Raises
    ------
    CaptureError
        If no program can hold the call.
    """
    watcher = call.watcher
    behind = behind_of(call)
    reading = reading_of(call)
    refuse_shared_arrays(call)
    demand_what_python_saw(call)
    conditions = list(watcher.conditions)
    results = Results.of(call)
    backward, targets, saved = backward_of(watcher, [t for _, t in results.followed], call.first, behind.hooks)
    watcher.also = [
        *(condition.number for condition in conditions),
        *(number for number, _ in watcher.epilogue),
        *saved,
    ]
    asked = [item[1] for item in watcher.prologue if item[0] == "setting"]
    program = program_of(watcher, results.structure, call.arguments, call.values, call.reach, asked)
    if not {one.number for one in behind.hooks} <= {number for step in program.steps for number in step.made}:
        raise CaptureError("capture: a hook is registered on a value that no result is computed from")
    refuse_escaped(call, program)
    ways = Ways(call, reading)
    the_same = ways.to_returned(results)
    outside = ways.to_outside(program)
    written = ways.to_written(program)
    given = ways.to_given(program)
    alone = ways.to_alone(outside)
    again = ways.to_again([*(one.link for one in (*outside, *alone)), *written])
    had_grad = ways.guard_gradients(program)
    return Kept(
        program=program,
        backend=watcher.backend or default_backend(),
        backward=backward,
        links=[*{link.place: link for link in ways.links}.values(), *watcher.guards],
        outside=outside,
        alone=alone,
        again=again,
        hooked=[
            (at, hooks_at(value))
            for at, value in enumerate(call.values)
            if isinstance(value, Tensor) and value._node is not None
        ],
        had_grad=had_grad,
        written=written,
        given=given,
        conditions=conditions,
        prologue=list(watcher.prologue),
        epilogue=list(watcher.epilogue),
        held=[*{id(one): one for one in watcher.held_by_python}.values()],
        followed=tuple(number for number, _ in results.followed),
        targets=targets,
        saved=saved,
        same=the_same,
        hooks=[(one.number, hook) for one in behind.hooks if one.number is not None and (hook := one.hook) is not None],
        reads=behind.reads,
        late=behind.late,
        goes_on=bool(conditions) or any(map(may_catch, call.met)),
        options=options,
    )


# -- hooks --------------------------------------------------------------------------------------------------------------


class Behind(NamedTuple):
    """What a backward pass from the results will run of the user's own.

    Attributes
    ----------
    hooks : list of Hooked
        The hooks that the call registered.
    reads : list of Reads
        What each of these depends on.
    late : list of Link
        What they and `Function`s read when it runs.
    """

    hooks: list[Hooked]
    reads: list[Reads]
    late: list[Link]


def behind_of(call: Watched) -> Behind:
    """Return the hooks and the `Function`s behind the results; their code counts among what ran."""
    from agrad.func.hooks import functions_on, reads_of  # noqa: PLC0415 (only where a call is captured)

    watcher, returned = call.watcher, call.returned
    nodes = graph_of(returned, call.first)
    hooks = hooks_left(watcher, nodes)
    refuse_hooks(watcher, hooks)
    reads = [reads_of(hooked.hook) for hooked in hooks if hooked.hook is not None]
    single = sum(isinstance(leaf, Tensor) and leaf._node is not None for leaf in tree.flatten(returned)[0]) == 1
    late = [*reads, *functions_on(nodes, alone=single)]
    call.met.update(code for each in late for code in each.codes)
    return Behind(hooks, reads, [link for each in late for link in each.links])


def refuse_hooks(watcher: Watcher, left: Sequence[Hooked]) -> None:
    """Refuse hooks that no backward program can hold; `left` are those on what is differentiated outside."""
    outside = {id(tensor._node) for tensor, *_ in watcher.met.values()}
    if any(id(one.node) in outside and one.hook is not None for one in watcher.hooked):
        raise CaptureError(
            "capture: a hook is registered on a tensor that the function did not make: it is there once more after"
            " every call"
        )
    if any(one.handle() is not None for one in left):
        raise CaptureError("capture: the handle of a hook is kept, by which it may be taken away before it runs")
    if any(one.number is None for one in left):
        raise CaptureError("capture: a hook is registered on a tensor within vmap")


# -- what no program can hold -------------------------------------------------------------------------------------------


def reading_of(call: Watched) -> Reading:
    """Return what the functions that ran may have read; refuse what they changed of Python's state."""
    reading = Reading(call.met, call.state)
    call.reach.look_into(filter(reading.has, call.reach.data), reading.was_taken)
    other = changed(call.state, reading)
    if other is not None:
        raise CaptureError(f"capture: {other}: a program would not change it")
    for key, found in changed_between(call.settings, settings_of(call.watcher.tellers)).items():
        if key not in call.watcher.told:
            raise CaptureError(
                f"capture: the setting {found.origin} is changed by the function itself: a program would not change it;"
                " let a schedule do it, or change it between calls"
            )
    return reading


def refuse_shared_arrays(call: Watched) -> None:
    """Refuse several tensors on one array: a later call may mean either."""
    watcher = call.watcher
    owner = {id(value._raw): -1 for value in call.values if isinstance(value, Tensor)}
    known = {id(array) for _, array in watcher.inputs.values()}
    for found in call.reach.looked_at():
        if not isinstance(found.value, Tensor) or id(found.value._raw) not in known:
            continue
        if found.step == ("attribute", "grad") and id(found.value) not in watcher.met:  # it was there before the call
            continue
        if owner.setdefault(id(found.value._raw), id(found.value)) != id(found.value):
            raise CaptureError(
                f"capture: {found.origin} is found outside of the arguments and shares its array with an argument, or"
                " with another tensor from outside: which of them a later call means no program can tell"
            )


def demand_what_python_saw(call: Watched) -> None:
    """Make conditions of the numbers that Python was given and did not give back; refuse them beside effects."""
    watcher, leaves = call.watcher, tree.flatten(call.returned)[0]
    for live in watcher.lives:
        ways_out = [live, *(value for value, array in watcher.returned if array is live.array)]
        if not live.used and not any(leaf is out for leaf in leaves for out in ways_out):
            watcher.demand(watcher.number_of(live.array), float.__pos__(live))
    for value, array in watcher.returned:
        if not any(leaf is value for leaf in leaves):
            watcher.demand(watcher.number_of(array), value)
    if watcher.conditions and any(kind == "effect" for kind, *_ in watcher.prologue):
        raise CaptureError(
            f"capture: a value decides ({watcher.conditions[0].line}) in a call that changes an optimiser's state"
        )


def refuse_escaped(call: Watched, program: Program) -> None:
    """Refuse tensors that the function made, and that live on elsewhere than in what a program gives."""
    watcher = call.watcher
    tensors = [leaf for leaf in tree.flatten(call.returned)[0] if isinstance(leaf, Tensor)]
    tensors += watcher.written
    tensors += [grad for t in tensors if t.is_leaf and (grad := grad_of(t)) is not None]
    held = {watcher.number_of(array) for array in (*arrays_held(tensors), *watcher.held)}
    held |= {watcher.number_of(live.array) for live in watcher.lives}
    escaped = watcher.escaped({*program.outputs, *(number for number in held if number is not None)})
    if escaped is not None:
        raise CaptureError(
            f"capture: a tensor of shape {tuple(escaped.shape)} that the function made lives on, and is none of what it"
            " returned (a list or an attribute has it)"
        )


def arrays_held(tensors: Iterable[Tensor]) -> Iterator[Any]:
    """Return the arrays of tensors, and those that the graphs behind them keep, parcels of saved-tensor hooks included.

    Among these is the gradient of a leaf that is gone: the function made it, and nothing but the graph has it.
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
        if id(value) in seen or isinstance(value, NOT_KEPT):
            continue
        seen.add(id(value))
        if type(value) not in PYTHONS_OWN and backend_of(value) is not None:
            yield value
        else:
            pending.extend(gc.get_referents(value))


#: What a graph refers to and does not keep values for.
NOT_KEPT = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType, str, int, float, Spec, Backend)


def may_catch(code: types.CodeType) -> bool:
    """Return whether code is the user's and has a `try` or a `with`."""
    file = code.co_filename
    return bool(code.co_exceptiontable) and file not in errors.INTERNAL_FILES and not is_library(file)


# -- results, and the ways to what is outside ---------------------------------------------------------------------------


class Results(NamedTuple):
    """What a call returned.

    Attributes
    ----------
    structure : Structure
        As the program has it.
    leaves : list
        As the function gave it, containers taken apart.
    ways : dict of int to Origin
        Where tensors from outside among the leaves are found, by their id.
    followed : list of (int, Tensor)
        What may be differentiated, with the number of its value.
    """

    structure: Structure
    leaves: list[Any]
    ways: dict[int, Origin]
    followed: list[tuple[int, Tensor]]

    @classmethod
    def of(cls, call: Watched) -> Results:
        """Return the results of a call; refuse new leaves that require a gradient."""
        watcher, leaves = call.watcher, tree.flatten(call.returned)[0]
        structure = results_of(watcher, call.returned, call.values)
        given_back = list(zip(structure.leaves, leaves, strict=True))
        taken_in = {number for number, _ in watcher.inputs.values()}
        sought = {
            id(t)
            for leaf, t in given_back
            if isinstance(leaf, Leaf) and not leaf.raw and (leaf.number in taken_in or id(t) in watcher.met)
        }
        ways = {id(found.value): found.origin for found in call.reach.looked_at() if id(found.value) in sought}
        new = [
            (leaf.number, tensor)
            for leaf, tensor in given_back
            if isinstance(leaf, Leaf) and leaf.followed and tensor._node is not None and id(tensor) not in ways
        ]
        followed = [*{number: (number, tensor) for number, tensor in new if not tensor.is_leaf}.values()]
        if any(tensor.is_leaf for _, tensor in new):
            raise CaptureError("capture: it returns a leaf that it makes itself, and that requires a gradient")
        return cls(structure, leaves, ways, followed)


class Ways:
    """The ways to what a program takes from outside, and the links on them, which must be where they were.

    Attributes
    ----------
    links : list of Link
        What was read of Python's state, and what the ways lead by.
    """

    def __init__(self, call: Watched, reading: Reading) -> None:
        self._call, self._reading = call, reading
        self.links = list(guards_of(call.state, reading))
        for found in call.settings.values():
            if reading.by_hand(found):
                *way, last = links_along(found.origin)
                self.links += (*way, last._replace(value=found.value))

    def end_of(self, origin: Origin) -> Link:
        """Return the last link of a way, to what is looked up at every call; the others are guarded."""
        *way, last = links_along(origin)
        self.links += way
        if origin.way[-1] == ("attribute", "grad"):  # as it was before the call
            met = self._call.watcher.met.get(id(last.key))
            return last if met is None else last._replace(value=met[2])
        return last

    def to_returned(self, results: Results) -> dict[int, Link]:
        """Return the links to tensors from outside that are returned, by place among the results."""
        return {
            i: self.end_of(results.ways[id(leaf)]) for i, leaf in enumerate(results.leaves) if id(leaf) in results.ways
        }

    def to_outside(self, program: Program) -> list[Outside]:
        """Return the tensors and arrays from outside whose values are inputs."""
        before = dict(self._call.watcher.inputs.values())
        outside = []
        for number, origin in program.outside.items():
            last = self.end_of(origin)
            value = before[number] if origin.way[-1] == ("attribute", "grad") else last.value
            outside.append(Outside.of(number, last, value))
        return outside

    def to_written(self, program: Program) -> list[int | Link]:
        """Return the targets of writes."""
        targets = (write.target for write in program.writes)
        return [target.place if isinstance(target, Argument) else self.end_of(target) for target in targets]

    def to_given(self, program: Program) -> list[int | Link | None]:
        """Return, per write, where the tensor is found that becomes a gradient, if the function did not make it."""
        call = self._call
        put = [
            grad_of(tensor) if write.what == "grad" else None
            for write, tensor in zip(program.writes, call.watcher.written, strict=True)
        ]
        wanted = {id(grad) for grad in put if grad is not None}
        places: dict[int, int | Link] = {id(value): at for at, value in enumerate(call.values) if id(value) in wanted}
        for found in call.reach.looked_at():
            if id(found.value) in wanted and id(found.value) not in places:
                places[id(found.value)] = self.end_of(found.origin)
        return [places.get(id(grad)) for grad in put]

    def to_alone(self, outside: Sequence[Outside]) -> list[Outside]:
        """Return the tensors that require a gradient, beside those whose values are inputs."""
        taken = {id(one.link.value) for one in outside}
        met = self._call.watcher.met
        followed = {key for key, (t, *_) in met.items() if t._node is not None and key not in taken}
        return [
            Outside.of(-1, self.end_of(found.origin), found.value)
            for found in self._call.reach.looked_at()
            if id(found.value) in followed
        ]

    def to_again(self, taken: Iterable[int | Link]) -> list[tuple[Link, Link]]:
        """Return the other ways that were gone to what is taken, each with the link that is taken."""
        taken_at = {id(link.value): link for link in taken if isinstance(link, Link)}
        again = []
        for found, _ in self._call.state:
            link = taken_at.get(id(found.value))
            if (
                link is not None
                and found.before is not None
                and found.step != ("attribute", "grad")
                and self._reading.has(found)
            ):
                *way, last = links_along(found.origin)
                if last.place[:2] != link.place[:2]:
                    self.links += way
                    again.append((last, link))
        return again

    def guard_gradients(self, program: Program) -> list[tuple[int, bool]]:
        """Guard whether there is a gradient where one was looked for and none is written; return it of arguments."""
        call, watcher = self._call, self._call.watcher
        targets = zip(program.writes, watcher.written, strict=True)
        written = {id(tensor) for write, tensor in targets if write.what == "grad"}
        read = {key for key, what in watcher.grads.items() if what == "read" and key in watcher.met} - written
        for found in call.reach.looked_at():
            if id(found.value) in read:
                has = has_grad(found.value)
                self.links += links_along(found.origin)
                self.links.append(Link(has_grad, found.value, has, f"whether {found.origin} has a gradient"))
        return [(at, has_grad(value)) for at, value in enumerate(call.values) if id(value) in read]
