"""Code without side effects: hooks that may be part of a captured backward pass, and the work of a loop in each call.

A capture runs the backward pass of a call's results once, only for its steps. Any side effect of a hook would then
happen too often, and not in later calls; so a hook runs instrumented there, as does the `backward` of a `Function`, and
a change to anything outside is refused before it happens. Its reads are conditions. In the same way the function of a
loop runs once on arrays without elements, in place of all its calls.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from agrad.compiled.calling import Tracker
from agrad.compiled.capturing import PROFILED, net
from agrad.compiled.effects import add_imported
from agrad.compiled.guards import PLAIN, Link, is_array, is_plain
from agrad.compiled.instrumentation import CURRENT
from agrad.compiled.tracing import Tracer
from agrad.compiled.tracking import EARLIER, FRESH, contents_of, holder_of
from agrad.core import errors, mode
from agrad.core.cpython import uncollected
from agrad.core.function import FunctionNode
from agrad.core.node import Node
from agrad.core.tensor import Tensor
from agrad.program.closures import Found, is_own
from agrad.program.program import same
from agrad.program.recording import CaptureError, RecordedHook
from agrad.random import again

#: Members of tensors with side effects.
LEAVING = frozenset({"backward", "register_hook", "register_post_accumulate_grad_hook", "retain_grad"})

#: Members of tensors that tell how they are differentiated, which one call of a loop cannot tell for all.
HISTORY = frozenset(
    {"detach_", "grad", "grad_fn", "is_leaf", "output_nr", "requires_grad", "requires_grad_", "retains_grad"}
)


class NotPure(BaseException):
    """A hook is about to do more than compute: it ends, and the recorder of its steps does not try again."""


class PureTracker(Tracker):
    """A tracker that allows computations only."""

    runs_kernels = False  # it runs only for its steps

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(tracer)
        self._what = ""
        self._refused: CaptureError | None = None

    def decline(self, why: str) -> NoReturn:
        """Refuse an action before it happens."""
        error = CaptureError(f"capture: {self._what} may do more than compute: {why}{errors.called()}")
        self._refused = self._refused or error
        raise NotPure

    def run(self, what: str, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function, refusing each outer change."""
        self.go_on()
        self._what = what
        modes, before = mode.get_mode(), CURRENT.tracker
        add_imported()
        put_back = net(self, {})
        with uncollected():  # code that runs when an object is released is not the function's
            CURRENT.tracker = self
            try:
                made = again(self._draws(), function, *args)
            except NotPure:
                made = None
            finally:
                CURRENT.tracker = before
                is_whole = put_back()
        left, why = mode.get_mode() is not modes, ""
        if left:
            mode.set_mode(modes)
        if not is_whole:
            why = PROFILED
        elif self.raised is not None:
            why = f"it goes on after an error, {type(self.raised).__name__}"
        elif left:
            why = "it sets a mode that outlasts it"
        if why:
            self._note(why)
        self.go_on()
        return made

    def _note(self, why: str) -> None:
        """Refuse an action that has happened."""
        with contextlib.suppress(NotPure):
            self.decline(why)

    def go_on(self) -> None:
        """Raise the error if something was refused."""
        if self._refused is not None:
            raise self._refused

    def _outside(self) -> None:
        """Allow nothing that is not instrumented to begin in code that continues after a refusal: the net is gone."""
        if self._refused is not None:
            raise NotPure

    def call(self, f: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._outside()
        return super().call(f, args, kwargs)

    def call_uninstrumented(self, function: Any, *args: Any) -> Any:
        self._outside()
        return super().call_uninstrumented(function, *args)

    def _agrad_result(self, function: Any, *args: Any) -> Any:
        self._outside()
        return super()._agrad_result(function, *args)

    def _draws(self) -> Iterator[Any]:
        self.decline("it draws random numbers")
        yield

    # -- what is refused ----------------------------------------------------------------------------------------------

    def writing_attribute(self, o: Any, name: str) -> Any:
        if isinstance(o, Tensor) and name != "data":
            self.decline(f"the attribute {name} of a tensor is set")
        if type(o) is types.FunctionType and self.at(o).status != FRESH:
            self.decline(f"the attribute {name} of {o.__name__} is set")
        return super().writing_attribute(o, name)

    def changing(self, value: Any, what: str = "") -> None:
        if type(value) not in PLAIN and not isinstance(value, Tensor) and self.at(value).status != FRESH:
            self.decline(f"{what or self.called(value)} is changed")

    def before_store(self, frame: types.FrameType, name: str, cell: types.CellType | None) -> None:
        if cell is None or id(cell) in self._cells:
            self.decline(f"{name} is bound anew")

    def see_settings(self, o: Any) -> None:
        self.decline(f"it uses a {type(o).__name__}")

    def _of_tensor(self, t: Tensor, name: str) -> Any:
        if name in LEAVING:
            self.decline(f"it uses .{name}")
        return super()._of_tensor(t, name)

    def _is_output(self, f: Any) -> bool:
        return False


class PassTracker(PureTracker):
    """A tracker of code that runs in a backward pass.

    Parameters
    ----------
    tracer : Tracer
        Records the pass.
    """

    def __init__(self, tracer: Tracer) -> None:
        super().__init__(tracer)
        self._forward: set[int] = set()  # by id, the holders of objects that the forward put there
        self._numbers = False  # whether it may compute with numbers of the program

    @property
    def conditions(self) -> list[Link]:
        """The conditions that must hold whenever the pass runs."""
        return list(self.links.values())

    def run(self, what: str, function: Callable[..., Any], *args: Any) -> Any:
        asked = len(self.tracer.conditions)
        made = super().run(what, function, *args)
        if len(self.tracer.conditions) > asked:
            self._note(f"it branches on a value ({self.tracer.conditions[-1].line})")
        self.go_on()
        return made

    def hook(self, hook: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function that calls a hook on a tensor, observed."""
        self.known_from_outside(hook)

        def seen(*args: Any) -> Any:
            self._numbers = False
            return self.run("a hook on what the function computes", self.call, hook, args, {})

        seen.__name__ = str(getattr(hook, "__name__", type(hook).__name__))
        return seen

    def vjp(self, node: FunctionNode, what: str) -> Callable[..., Any]:
        """Return the function that runs the backward of a `Function`, observed."""
        vjp = node.vjp
        self.root(node)
        self._forward.add(id(node))

        def seen(*args: Any) -> Any:
            self._numbers = True
            return self.run(what, self.call_uninstrumented, vjp, *args)

        return seen

    def known_from_outside(self, value: Any) -> None:
        """Treat an object as one that existed before the pass."""
        if type(value) is types.BuiltinFunctionType and not isinstance(value.__self__, types.ModuleType | None):
            self.root(value.__self__)
        self.root(value)
        self.ensure(value)

    # -- what is refused ----------------------------------------------------------------------------------------------

    def number_for_agrad(self, v: Any) -> Any:
        live = super().number_for_agrad(v)
        if live is not v and not self._numbers:  # in second derivatives the hook of the capture runs
            self.decline("it reads a number that the program computes")
        return live

    def see(self, value: Any, before: Found, step: tuple[str, Any], *, guard: bool = True) -> Any:
        if (isinstance(value, Tensor) or is_array(value)) and not self._is_given(before):
            kind = "tensor" if isinstance(value, Tensor) else "array"
            self.decline(
                f"it reads the {kind} {self.name(before, step)}, which may have another value when the pass runs"
            )
        return super().see(value, before, step, guard=guard and not self._is_given(before))

    def _is_given(self, found: Found | None) -> bool:
        while found is not None and found.before is not None:
            found = found.before
        return found is not None and id(found.value) in self._forward

    def _graph(self, o: Any, name: str = "") -> None:
        if id(o) not in self._forward:
            super()._graph(o, name)


class LoopBodyTracker(PureTracker):
    """A tracker of the work of a loop in each call: it runs once for all, on arrays without elements.

    It shares the knowledge and the conditions of the call's tracker. Objects that the call has created before may be
    read and not changed.

    Parameters
    ----------
    tracker : Tracker
        Of the call.
    """

    def __init__(self, tracker: Tracker) -> None:
        super().__init__(tracker.tracer)
        vars(self).update({name: value for name, value in vars(tracker).items() if name not in ("_what", "_refused")})

    def run(self, what: str, function: Callable[..., Any], *args: Any) -> Any:
        earlier = [tracked for tracked in self.known.values() if tracked.status == FRESH]
        try:
            for tracked in earlier:
                tracked.status = EARLIER
            return super().run(what, function, *args)
        finally:
            for tracked in earlier:
                if tracked.status == EARLIER:
                    tracked.status = FRESH

    def see(self, value: Any, before: Found, step: tuple[str, Any], *, guard: bool = True) -> Any:
        first = before
        while first.before is not None:
            first = first.before
        tracked = self.known.get(id(first.value))
        if tracked is not None and tracked.status == EARLIER:  # its content was put there by the call
            return value if self.is_known(value) else self.at(value).value
        return super().see(value, before, step, guard=guard)

    def for_agrad(self, v: Any) -> Any:
        tracked = None if type(v) in PLAIN or isinstance(v, Tensor) else self.known.get(id(v))
        if tracked is None or tracked.status not in (FRESH, EARLIER) or not is_array(v):
            return super().for_agrad(v)
        backend = holder_of(v)
        if backend is None:
            self.decline("an array that the call has made is used")
        return self.tracer.constant(backend.asarray(v, copy=True))  # an operand of the loop

    # -- what is refused ----------------------------------------------------------------------------------------------

    def before_store(self, frame: types.FrameType, name: str, cell: types.CellType | None) -> None:
        self.decline(f"{name} is bound anew")

    def writing_attribute(self, o: Any, name: str) -> Any:
        if isinstance(o, Tensor):
            self.decline(f"the attribute {name} of a tensor is set")
        return super().writing_attribute(o, name)

    def _of_tensor(self, t: Tensor, name: str) -> Any:
        if name in HISTORY:  # carried tensors have none here
            self.decline(f"it uses .{name}")
        return super()._of_tensor(t, name)

    def compare(self, op: str, l: Any, r: Any) -> Any:
        tensors = [isinstance(side, Tensor) for side in (l, r)]
        if op in ("is_", "is_not") and any(tensors) and not any(type(side) in PLAIN for side in (l, r)):
            self.decline("which object a tensor is decides")
        return super().compare(op, l, r)

    def identity(self, t: Any) -> None:
        if isinstance(t, Tensor):
            self.decline("which object a tensor is decides")
        super().identity(t)

    def refuse_nan(self, key: Any) -> None:
        if isinstance(key, Tensor):
            self.decline("a tensor is looked for in a container")
        super().refuse_nan(key)

    def hashed(self, key: Any) -> None:
        if isinstance(key, Tensor):
            self.decline("a tensor is a key, or a member of a set")
        super().hashed(key)


class hooks_tracked:  # noqa: N801 (a context manager)
    """Within the block, hooks and `Function`s run as a `PassTracker` allows.

    Parameters
    ----------
    tracer : Tracer
        Records the pass in the block.
    hooks : sequence of RecordedHook
        The hooks on tensors.
    nodes : sequence of Node
        Of the graph.
    alone : bool
        Every backward pass reaches all of these.

    Raises
    ------
    CaptureError
        The place of a refusal if a hook may run where it should not, in the block where one is about to do more than
        compute.
    """

    def __init__(self, tracer: Tracer, hooks: Sequence[RecordedHook], nodes: Sequence[Node], *, alone: bool) -> None:
        self._judge = PassTracker(tracer)
        self._tables = [(table, hooked.key) for hooked in hooks if (table := hooked.hooks()) and hooked.key in table]
        self._nodes = [
            node for node in nodes if isinstance(node, FunctionNode) and (module_hooks_of(node) or _is_users(node))
        ]
        if not alone and any(map(module_hooks_of, self._nodes)):
            raise CaptureError("capture: a module has backward hooks, and several results are differentiated")

    def __enter__(self) -> PassTracker:
        self._before = [table[key] for table, key in self._tables]
        self._vjps = [node.vjp for node in self._nodes]
        try:
            self._put(self._judge)
        except BaseException:
            self.__exit__()
            self._judge.go_on()
            raise
        return self._judge

    def _put(self, pass_tracker: PassTracker) -> None:
        """Make hooks and `Function`s observable."""
        for (table, key), hook in zip(self._tables, self._before, strict=True):
            table[key] = pass_tracker.hook(hook)
        for node in self._nodes:
            watch = module_hooks_of(node)
            if watch is None:
                what = f"the backward of {node.function.__name__}"
                pass_tracker.ensure(node.function.backward)
                pass_tracker.ensure(node.function.vjp)
            else:
                what = "a backward hook of a module"
                for each in (watch.module, *watch.all):
                    pass_tracker.known_from_outside(each)
            node.vjp = pass_tracker.vjp(node, what)

    def __exit__(self, *error: object) -> None:
        for (table, key), hook in zip(self._tables, self._before, strict=True):
            table[key] = hook
        for node, vjp in zip(self._nodes, self._vjps, strict=True):
            node.vjp = vjp
        self._judge.restore()


def module_hooks_of(node: Node) -> Any:
    """Return the object that knows the hooks of a module which a node runs; None if it runs none."""
    return getattr(node, "module_hooks", None)


def _is_users(node: FunctionNode) -> bool:
    return is_own(node.function)


def hooks_on(nodes: Sequence[Node]) -> list[Callable[..., Any]]:
    """Return the hooks on gradients of nodes."""
    return [hook for node in nodes if node.hooks is not None for hook in node.hooks.tensor.values()]


def are_alike(hooks: Sequence[Any], before: Sequence[Any]) -> bool:
    """Return whether hooks have the same code as others, and would read the same."""
    return len(hooks) == len(before) and all(map(is_alike, hooks, before))


def is_alike(one: Any, other: Any, known: frozenset[tuple[int, int]] = frozenset()) -> bool:
    """Return whether a function, or its content, is a new object each time."""
    pair = id(one), id(other)
    if one is other or pair in known:
        return True
    if type(one) is not type(other):
        return False
    if is_plain(one):
        return same(one, other)
    if isinstance(one, Tensor) or is_array(one):  # no hook reads it
        return True
    parts = [_parts_of(each) for each in (one, other)]
    if parts[0] is None or parts[1] is None or len(parts[0]) != len(parts[1]):
        return False
    return all(is_alike(a, b, known | {pair}) for a, b in zip(*parts, strict=True))


def _parts_of(value: Any) -> Sequence[Any] | None:
    """Return the identity of an object; None if it is unknown."""
    if isinstance(value, types.FunctionType):
        cells = [contents_of(cell) for cell in value.__closure__ or ()]
        named = value.__kwdefaults__ or {}
        return [id(value.__code__), value.__defaults__, *named, *named.values(), *cells]
    if isinstance(value, types.MethodType):
        return value.__func__, value.__self__
    if isinstance(value, functools.partial):
        return value.func, value.args, value.keywords
    if isinstance(value, dict):
        return [*value, *value.values()]
    if isinstance(value, list | tuple):
        return value
    held = getattr(value, "__dict__", None)
    return [held] if type(held) is dict else None
