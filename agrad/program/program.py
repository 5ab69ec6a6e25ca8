"""Programs: the recorded work of a function, as data.

A program has numbered values: its inputs, constants and keys of draws, and the results of its steps. A step names one
of agrad's operations, or a kernel of the contract, and its arguments. From these, agrad writes straight-line Python,
which is both
the text that `print` shows and the code that runs: on the kernels of any backend, or on tensors.

Programs are recorded by ``program.recording`` and created by ``func.capture``.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import re
import weakref
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field, fields, replace
from types import EllipsisType, NoneType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from agrad import dtypes, tree
from agrad.core import errors, mode
from agrad.core.backend import Backend, backend_of, joined, spec_of
from agrad.core.buffers import assign_data, rebind
from agrad.core.declare import primitive
from agrad.core.errors import BackendError
from agrad.core.history import fresh
from agrad.core.kernels import SUBNAMESPACES
from agrad.core.once import once, shared
from agrad.core.op import OPS, Op, facts_of
from agrad.core.operands import from_raw
from agrad.core.plan import compile_source, forget_source
from agrad.core.port import attaching_to
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor, wrap
from agrad.plugin.manager import chosen_executor, default_backend
from agrad.program.arguments import bare, is_raw
from agrad.program.closures import AccessPath, Argument, target_of
from agrad.random import default_generator
from agrad.tree import TreeDef

#: The exact types of values that appear literally among a step's arguments.
LITERALS = frozenset({bool, int, float, complex, str, NoneType, EllipsisType})

#: The name of the step that returns its operand without history; on raw arrays it does nothing.
DETACH = "detach"
primitive(DETACH, memory="lent")

#: The name of the step that draws random numbers: ``random(kind, shape, key, dtype=..., **parameters)``.
DRAW = "random"
primitive(DRAW, memory="fresh")

#: The name of the step that ends a run if a value differs from the number next to it, or from its truth; it has no
#: result.
STOP = "stop_unless"
primitive(STOP, memory="fresh")

#: The name of the step that is a loop: ``func.scan(operands, body)``.
LOOP = "func.scan"

#: The names of the steps that follow a schedule of checkpoints: a loop that keeps some states, and its derivative.
#: ``func.unwind(operands, body)`` also returns a token of what it keeps; ``func.rewind(operands, body, dropped)`` takes it.
UNWIND, REWIND = "func.unwind", "func.rewind"

#: The steps with a `Body` as their second argument.
BODIED = frozenset({LOOP, UNWIND, REWIND})

#: The suffix of the line of a step that is part of a derivative.
BACKWARD = " (backward)"


class Stopped(Exception):
    """A run reached a value that differs from the capture's: the rest of the program does not apply."""


class Ref(NamedTuple):
    """A value of the program, among the arguments of a step.

    Attributes
    ----------
    number : int
        Its number.
    """

    number: int


class DType(str):
    """A dtype among the arguments of a step, by the standard's name."""

    __slots__ = ()


#: Names of dtypes: those of the standard, and further ones of libraries, such as float16 and float128.
DTYPES = re.compile(r"bool|(u?int|b?float|complex)[0-9]{1,3}")


def is_dtype(name: Any) -> bool:
    """Return whether something is the name of a dtype."""
    return type(name) is str and DTYPES.fullmatch(name) is not None


class Here:
    """Represents, among the arguments of a step, the device that the program runs on."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "device"

    def __reduce__(self) -> str:
        return "HERE"


#: The single object of its class.
HERE = Here()


class Shaped(NamedTuple):
    """The metadata of a value; among the arguments of a step, a placeholder that becomes a `Spec`.

    Attributes
    ----------
    shape : tuple of int
        The shape.
    dtype : str
        The dtype by the standard's name, as ``"float32"``.
    """

    shape: tuple[int, ...]
    dtype: str

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    @property
    def nbytes(self) -> int:
        """Bytes of such an array."""
        digits = self.dtype.lstrip("abcdefghijklmnopqrstuvwxyz")
        return math.prod(self.shape) * (int(digits) // 8 if digits else 1)


@dataclass(frozen=True, slots=True)
class Step:
    """One call of a program.

    Attributes
    ----------
    op : str
        The operation, as ``"linalg.solve"``.
    args : tuple
        Positional arguments: `Ref`, `DType`, `Shaped`, `HERE`, literals, slices, and tuples and lists of them.
    kwargs : mapping
        Keyword arguments.
    outs : tuple of (int or None)
        The numbers of its results; None for one that is not an array, or that is not needed.
    several : bool
        Whether it returns a tuple or list of results, possibly of one.
    line : str
        The user's line, as ``"model.py:12"``.
    region : int
        0, or the number of the recomputation (of a checkpoint) it belongs to: steps of different ones are not merged.
    """

    op: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outs: tuple[int | None, ...]
    several: bool = False
    line: str = ""
    region: int = 0
    _refs: tuple[int, ...] | None = field(default=None, init=False, repr=False, compare=False)
    _made: tuple[int, ...] | None = field(default=None, init=False, repr=False, compare=False)

    @property
    def refs(self) -> tuple[int, ...]:
        """The numbers of the values it takes, with repetitions."""
        if self._refs is None:  # passes ask repeatedly
            found: list[int] = []
            for part in (*self.args, *self.kwargs.values()):
                kind = type(part)
                if kind is Ref:
                    found.append(part.number)
                elif kind in _NESTED:
                    found.extend([ref.number for ref in refs_in(part)])
            object.__setattr__(self, "_refs", tuple(found))
        return self._refs  # type: ignore[return-value]

    @property
    def is_backward(self) -> bool:
        """Whether it is part of a derivative."""
        return self.line.endswith(BACKWARD)

    @property
    def made(self) -> tuple[int, ...]:
        """The numbers of the values it makes."""
        if self._made is None:
            object.__setattr__(self, "_made", tuple(number for number in self.outs if number is not None))
        return self._made  # type: ignore[return-value]

    def taking(self, other: Mapping[int, Any]) -> Step:
        """Return the step with some of the values it takes replaced by a `Ref` or a literal."""

        def put(part: Any) -> Any:
            return other.get(part.number, part) if type(part) is Ref else part

        args = tuple(mapped(put, part) for part in self.args)
        return replace(self, args=args, kwargs={name: mapped(put, part) for name, part in self.kwargs.items()})


def as_loop(step: Step, used: Container[int]) -> Step:
    """Return a step that follows a schedule as a plain loop, if nothing is differentiated through it."""
    if step.op != UNWIND or step.outs[-1] in used:
        return step
    return replace(step, op=LOOP, outs=step.outs[:-1])


def keeping_less(step: Step, wanted: AbstractSet[int]) -> Step:
    """Return the step of a loop that only stacks the wanted carried values."""
    operands, body = step.args
    first = len(step.outs) - len(body.kept)
    still = [(k, n) for k, n in zip(body.kept, step.outs[first:], strict=True) if n in wanted]
    if len(still) == len(body.kept):
        return step
    args = operands, body.keeping(tuple(k for k, _ in still))
    return replace(step, args=args, outs=(*step.outs[:first], *(n for _, n in still)))


#: The types of arguments that contain others.
_NESTED = (tuple, list, slice)


def mapped(function: Callable[[Any], Any], part: Any) -> Any:
    """Return an argument with a function applied to the members of its tuples, lists and slices, or to itself."""
    kind = type(part)
    if kind is tuple or kind is list:
        return kind(mapped(function, inner) for inner in part)
    if kind is slice:
        return slice(*(mapped(function, bound) for bound in (part.start, part.stop, part.step)))
    return function(part)


def refs_in(part: Any) -> Iterator[Ref]:
    """Return the values of a program within an argument."""
    kind = type(part)
    if kind is Ref:
        yield part
    elif kind is tuple or kind is list:
        for inner in part:
            yield from refs_in(inner)
    elif kind is slice:
        for bound in (part.start, part.stop, part.step):
            yield from refs_in(bound)


class Leaf(NamedTuple):
    """An array among the leaves of a program's arguments or results.

    Attributes
    ----------
    number : int
        Of the value.
    raw : bool
        Whether it was an array of a library; otherwise it was a Tensor.
    followed : bool
        For a result: whether it may be differentiated.
    spent : bool
        For a result: whether a backward pass of the program has freed its history.
    """

    number: int
    raw: bool
    followed: bool = False
    spent: bool = False


class Number(NamedTuple):
    """A Python float among the leaves of a program's arguments or results: a 0-d value of it.

    Attributes
    ----------
    number : int
        Of the value.
    """

    number: int


class Given(NamedTuple):
    """A leaf of a program's results that is one of its arguments, the same object.

    Attributes
    ----------
    place : int
        Its position among the leaves of the arguments.
    """

    place: int


class Structure(NamedTuple):
    """Containers of leaves: the arguments or the results of a program.

    Attributes
    ----------
    treedef : TreeDef
        Their structure.
    leaves : tuple
        For each leaf a `Leaf`, a `Number`, a `Given`, or the value itself if it is not an array.
    """

    treedef: TreeDef
    leaves: tuple[Any, ...]


class Write(NamedTuple):
    """A program's write to a tensor that it did not create.

    Attributes
    ----------
    target : AccessPath or Argument
        Where to find the tensor.
    what : str
        ``"data"`` or ``"grad"``.
    number : int or None
        The value it gets; None removes a gradient.
    had_grad : bool or None
        Whether the tensor had a gradient before; None if the function set it before reading it.
    """

    target: AccessPath | Argument
    what: str
    number: int | None
    had_grad: bool | None


@dataclass(frozen=True, repr=False)
class Program:
    """A straight-line program: numbered values, and the steps that compute them.

    Created by `agrad.func.capture`. Printed, it is the Python text that runs. Called, it takes the function's
    arguments: arrays or tensors of any backend, with the shapes and dtypes of the capture; it is differentiable and can
    be mapped.

    Parameters
    ----------
    inputs : tuple of int
        The numbers of its input values, in this order.
    steps : tuple of Step
        Each after the steps it depends on.
    outputs : tuple of int
        The numbers of its output values.
    shapes : mapping of int to Shaped
        Shape and dtype of every value; keys of draws have none.
    constants : mapping of int to array
        Constant values.
    keys : tuple of int
        Those of the inputs that are keys of draws, pairs of integers.
    names : mapping of int to str
        The user's names of some values.
    arguments, results : Structure or None
        Its arguments and results; None for a program without a function.
    outside : mapping of int to AccessPath
        The inputs that are not arguments, and where each is found.
    writes : tuple of Write
        Its writes to tensors that it did not create.
    parameters : tuple of str
        The names of the function's positional parameters.
    sources : mapping of int to Generator
        The sources of the keys that do not come from the default generator.
    seeds : tuple of (int, Generator, key)
        The generators whose state it sets, before which of its draws (counted from 0), and to which state.
    functions : tuple of str
        The subclasses of `Function` in it. Their results are part of it, their derivatives are not: it is not
        differentiable.
    device : str or None
        The device of the capture, where it creates arrays unless its inputs are elsewhere.
    """

    inputs: tuple[int, ...]
    steps: tuple[Step, ...]
    outputs: tuple[int, ...]
    shapes: Mapping[int, Shaped]
    constants: Mapping[int, Any] = field(default_factory=dict)
    keys: tuple[int, ...] = ()
    names: Mapping[int, str] = field(default_factory=dict)
    arguments: Structure | None = None
    results: Structure | None = None
    outside: Mapping[int, AccessPath] = field(default_factory=dict)
    writes: tuple[Write, ...] = ()
    sources: Mapping[int, Any] = field(default_factory=dict)
    seeds: tuple[tuple[int, Any, Any], ...] = ()
    functions: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    device: str | None = None

    if TYPE_CHECKING:  # defined by higher layers on modules that they need: see `attached`

        def text(self, *, notes: bool = True, where: str = "") -> str:
            """Return the Python text that runs."""

        def source(self, *, notes: bool = True, backend: str = "numpy") -> str:
            """Return the text of a module that only needs NumPy."""

        def arrays(self, *, backend: str = "numpy") -> dict[str, Any]:
            """Return the further arguments of that module's function."""

        def tensors(self) -> dict[str, Tensor]:
            """Return the tensors from outside."""

        def memory(self) -> Any:
            """Return the memory held at each step."""

        def cfunc(self, *, name: str = "program", executor: Any = "native", **options: Any) -> Any:
            """Return the program as a C function."""

        def sparsity(self, *args: Any, argnums: int | tuple[int, ...] | None = None, local: bool = False) -> Any:
            """Return which elements of the results depend on which elements of the arguments."""

        def runner(
            self,
            backend: Backend,
            *,
            executor: Any = None,
            kept: int = 0,
            taken: tuple[int, ...] = (),
            **options: Any,
        ) -> Callable[..., tuple[Any, ...]]:
            """Return the function that runs the program on raw arrays of a backend."""

        def chosen(
            self,
            backend: Backend,
            *,
            executor: Any = None,
            quiet: bool = False,
            kept: int = 0,
            taken: tuple[int, ...] = (),
            **options: Any,
        ) -> Callable[..., tuple[Any, ...]]:
            """Return the same, or an executor that agrad chooses."""

    def __getstate__(self) -> dict[str, Any]:
        """Return the parts of a copy: its text is compiled anew."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)

    def _reached(self, end: str | None = None) -> set[int]:
        """Return the numbers of the values that the outputs are computed from; `end`: not beyond steps of that operation."""
        reached = {*self.outputs}
        for step in reversed(self.steps):
            if step.op == STOP or (step.op != end and not reached.isdisjoint(step.made)):
                reached.update(step.refs)
        return reached

    def replaced(self, **changes: Any) -> Program:
        """Return the program with some attributes changed."""
        return replace(self, **changes)

    def last_uses(self) -> dict[int, int]:
        """Return, for each value, the position of the last step that takes it; for outputs, the position after the last step."""
        last = {number: at for at, step in enumerate(self.steps) for number in step.refs}
        return last | dict.fromkeys(self.outputs, len(self.steps))

    def next_number(self) -> int:
        """Return an unused number for a value."""
        numbers = (*self.inputs, *self.constants, *(n for step in self.steps for n in step.made))
        return max(numbers, default=-1) + 1

    def needed(self) -> Program:
        """Return the program without the steps and constants that no output needs, and without unused results of loops."""
        wanted = self._reached()
        steps = tuple(
            keeping_less(step, wanted) if step.op == LOOP else step
            for step in self.steps
            if step.op == STOP or not wanted.isdisjoint(step.made)
        )
        constants = {number: value for number, value in self.constants.items() if number in wanted}
        return self.replaced(steps=steps, constants=constants)

    def stopping(self, values: Iterable[tuple[int, Any]]) -> Program:
        """Return the program extended to end with `Stopped` if the value is not the given number.

        It ends as soon as the value is known, before any later step.
        """
        stops: dict[int, dict[Any, Step]] = {}
        for number, value in values:
            if number not in self.constants:
                step = Step(STOP, (Ref(number), value), {}, (), several=True)
                stops.setdefault(number, {}).setdefault((type(value), repr(value)), step)
        steps = [stop for number in self.inputs for stop in stops.get(number, {}).values()]
        for step in self.steps:
            steps += [step, *(stop for number in step.made for stop in stops.get(number, {}).values())]
        return self.replaced(steps=tuple(steps))

    def without_detach(self) -> Program:
        """Return the program for raw arrays, which have no history to detach."""
        same: dict[int, Ref] = {}
        steps = []
        used = self.last_uses()
        for step in self.steps:
            step = as_loop(step.taking(same) if same else step, used)  # noqa: PLW2901
            if step.op == DETACH:
                same[step.made[0]] = step.args[0]
            else:
                steps.append(step)
        outputs = tuple(same[n].number if n in same else n for n in self.outputs)
        return self.replaced(steps=tuple(steps), outputs=outputs)

    # -- text ---------------------------------------------------------------------------------------------------------

    @once
    def bodies(self) -> dict[Body, str]:
        """The names of loop bodies in the text."""
        found = dict.fromkeys(step.args[1] for step in self.steps if step.op in BODIED)
        return {body: f"body_{i}" for i, body in enumerate(found)}

    def name_of(self, number: int) -> str:
        """Return the name of a value in the text."""
        return f"{'c' if number in self.constants else 'k' if number in self.keys else 'v'}{number}"

    def __repr__(self) -> str:
        counts = f"{len(self.inputs)} inputs, {len(self.outputs)} outputs"
        return f"<Program of {len(self.steps)} steps: {counts}; print() shows its text>"

    # -- running ------------------------------------------------------------------------------------------------------

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run the program, with arguments like those of the captured function.

        Parameters
        ----------
        *args, **kwargs
            Arrays or tensors, of any backend, with the shapes and dtypes of the capture; other values as in the
            capture.

        Returns
        -------
        object
            The function's result, with new values: arrays if all arguments were arrays, otherwise tensors.

        Raises
        ------
        TypeError
            If the arguments are not like those of the capture.
        ValueError
            If shapes, dtypes or other values differ.
        RuntimeError
            If an outer tensor no longer exists, or has another shape or dtype.
        """
        values = self._bound(args, kwargs)
        backend = joined(spec_of_value(value).backend for value in values.values()) if values else default_backend()
        if backend is None:
            names = sorted({spec_of_value(value).backend.name for value in values.values()})
            raise BackendError(f"a program takes arrays of one backend, not of {' and '.join(names)}{errors.called()}")
        drawn = self._drawn()
        inputs: list[Any] = [values[n] if n in values else drawn[n] for n in self.inputs]
        leaves_given = tree.flatten((args, kwargs))[0]
        targets = [self._target(write, leaves_given) for write in self.writes]
        tensors = [value for value in values.values() if isinstance(value, Tensor)]
        followed = self.is_followed and any(t._is_followed() for t in tensors)
        if followed and self.functions:
            raise RuntimeError(
                f"the program holds the result of the Function {self.functions[0]}, not its derivative: capture the"
                f" gradient too, or call it under ag.no_grad(){errors.called()}"
            )
        if followed or mode.recorder() is not None or any(t._spec.backend.is_batched for t in tensors):
            outs: list[Any] = self.on_tensors(backend, inputs)
        else:
            outs = self._on_arrays(backend, inputs)
        assert self.results is not None
        leaves, made = [], iter(outs)
        whole = is_raw(args, kwargs)
        for leaf in self.results.leaves:
            if isinstance(leaf, Leaf):
                result = next(made)
                if any(result is value for value in inputs):  # a step returned its operand
                    result = fresh(result, result._node)
                leaves.append(result._raw if leaf.raw else bare(result) if whole else result)
            elif isinstance(leaf, Number):
                leaves.append(next(made)._item())
            else:
                leaves.append(leaves_given[leaf.place] if isinstance(leaf, Given) else leaf)
        put_back(self.writes, targets, made)
        return tree.unflatten(self.results.treedef, leaves)

    def _drawn(self) -> dict[int, Any]:
        """Return the keys for all draws, and advance the generators as the function would."""
        keys: dict[int, Any] = {}
        done = 0
        for at, generator, state in self.seeds:
            keys |= {number: self.draw(number) for number in self.keys[done:at]}
            generator.set_state(state)
            done = max(done, at)
        return keys | {number: self.draw(number) for number in self.keys[done:]}

    def draw(self, number: int) -> Any:
        """Return the next key for a draw, from the generator that supplied it in the capture."""
        return self.source_of(number).key()

    def source_of(self, number: int) -> Any:
        """Return the generator that supplies the key for a draw."""
        return self.sources.get(number, default_generator)

    @once
    def is_followed(self) -> bool:
        """Whether a result may be differentiated: then the inputs' histories are continued."""
        return self.results is not None and any(getattr(leaf, "followed", False) for leaf in self.results.leaves)

    def _bound(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[int, Any]:
        """Return the values of the inputs, without keys, by number."""
        if self.arguments is None:
            raise TypeError("this program has no arguments: use its function()")
        leaves, treedef = tree.flatten((args, kwargs))
        if treedef != self.arguments.treedef:
            raise TypeError(
                f"the program was captured as {_call(self.arguments.treedef)}, but is called as {_call(treedef)}: pass"
                f" as many arguments, in the same containers{errors.called()}"
            )
        values: dict[int, Any] = {}
        for path, leaf, value in zip(treedef.paths(), self.arguments.leaves, leaves, strict=True):
            if isinstance(leaf, Number):
                values[leaf.number] = default_backend().asarray(float(value), dtype="float64")
                continue
            if not isinstance(leaf, Leaf):
                if value is not leaf and (type(value) is not type(leaf) or value != leaf):
                    numeric = isinstance(leaf, int | float | complex) and not isinstance(leaf, bool)
                    instead = f", or with an array, np.asarray({leaf!r}), which is an input" if numeric else ""
                    raise ValueError(
                        f"{leaf!r} is part of the program; it is called with {value!r} at {path}: capture it anew{instead}"
                        f"{errors.called()}"
                    )
                continue
            self._check(leaf.number, value, f"the argument at {path}")
            if values.setdefault(leaf.number, value) is not value:
                raise ValueError(
                    f"the program was captured with one array in several places, but gets a different one at {path}"
                    f"{errors.called()}"
                )
        for number, origin in self.outside.items():
            try:
                found = origin.find()
            except LookupError as error:
                raise RuntimeError(f"{error}; the program takes it from there{errors.called()}") from None
            if found is None and origin.way[-1:] == (("attribute", "grad"),):
                raise other_grad(AccessPath(origin.root, origin.way[:-1]), had=True)
            values[number] = found
            self._check(number, found, str(origin))
        return values

    def _check(self, number: int, value: Any, what: str) -> None:
        spec = spec_of_value(value)
        found = Shaped(tuple(spec.shape), spec.backend.dtype_name(spec.dtype))
        if found != self.shapes[number]:
            raise ValueError(
                f"the program was captured for {self.shapes[number]}, and {what} is {found}: capture it anew"
                f"{errors.called()}"
            )

    def _target(self, write: Write, leaves: list[Any]) -> Tensor:
        """Return the tensor of a write, looked up again."""
        found = target_of(write.target, leaves)
        if write.what == "grad" and write.had_grad not in (None, found.grad is not None):
            raise other_grad(write.target, had=write.had_grad is True)
        return found  # type: ignore[no-any-return]

    def device_for(self, given: Sequence[Any], backend: Backend) -> str:
        """Return the device to run on for a backend: that of the first input, if it belongs to the backend.

        Otherwise the device of the capture, if it belongs to the backend, or its default device.
        """
        specs = (spec_of_value(value) for value in given if type(value) is not tuple)
        device = next((s.device for s in specs if getattr(s.backend, "base", s.backend) is backend), self.device)
        own = device is not None and device.partition(":")[0] == backend.name
        return device if device is not None and own else backend.default_device()

    def on(self, device: str) -> Program:
        """Return the program as if it had been captured there."""
        if device == self.device:
            return self
        others: dict[str, Program] = self.__dict__.setdefault("_elsewhere", {})
        return others.get(device) or others.setdefault(device, self.replaced(device=device))

    def _on_arrays(self, backend: Backend, given: list[Any]) -> list[Tensor]:
        """Run on raw arrays of a backend."""
        device = self.device_for(given, backend)
        arrays = []
        for value in given:
            if type(value) is tuple:  # a key
                arrays.append(value)
                continue
            raw = value._raw if isinstance(value, Tensor) else value
            owner = spec_of_value(value).backend
            arrays.append(raw if owner is backend else backend.receive(owner, raw, device))
        with backend.quiet():
            outs = self.on(device).run(backend, arrays, executor=chosen_executor())
        made = [backend.as_array(out) for out in outs]
        return [wrap(out, backend.spec(out)) for out in made]

    def run(self, backend: Backend, values: Sequence[Any], **options: Any) -> Sequence[Any]:
        """Run on raw values of a backend; an error names the step and the user's line."""
        try:
            return self.chosen(backend, **options)(*values)
        except Exception as error:
            self.explain(error, backend, values)
            raise

    def explain(self, error: Exception, backend: Backend, values: Sequence[Any]) -> None:
        """Note on an error of a run its step, and the user's line, if no note says so: the search runs steps again."""
        if any(note.startswith("Raised by ") for note in getattr(error, "__notes__", ())):
            return
        step = self.failing(backend, values)
        if step is not None:
            error.add_note(f"Raised by {step.op} in a program, recorded at {step.line}.")

    def failing(self, backend: Backend, values: Sequence[Any]) -> Step | None:
        """Return the first step that fails for these values, found by bisection; None if none does."""
        plain = self.without_detach()

        def fails(count: int) -> bool:
            try:
                plain.replaced(steps=plain.steps[:count], outputs=()).function(backend)(*values)
            except Exception:  # noqa: BLE001 (the question is whether there is one)
                return True
            return False

        good, bad = 0, len(plain.steps)
        if not fails(bad):
            return None
        while bad - good > 1:
            middle = (good + bad) // 2
            good, bad = (good, middle) if fails(middle) else (middle, bad)
        return plain.steps[bad - 1]

    def on_tensors(self, backend: Backend, given: list[Any]) -> list[Tensor]:
        """Run on tensors, so that the steps are recorded, mapped, or become part of another program."""
        tensors: list[Any] = []
        recorder = mode.recorder()
        base = getattr(backend, "base", backend)
        device = self.device_for(given, base)
        for value in given:
            if type(value) is tuple:
                tensors.append(value)
                continue
            tensor = value if isinstance(value, Tensor) else wrap(value, spec_of_value(value))
            if recorder is not None:
                recorder.meet(tensor)
            owner = tensor._spec.backend
            tensors.append(tensor if getattr(owner, "base", owner) is base else tensor.to_device(device))
        runs: dict[Any, Any] = self.__dict__.setdefault("_runs_on_tensors", {})
        run = runs.get((base, device))
        if run is None:
            fused = (step for step in self.steps if step.op in OPS and OPS[step.op].rule.residuals)
            left = {number for step in fused for number in step.outs[1:]}
            differentiated = self._reached(DETACH)
            adjoints = any(
                not left.isdisjoint(step.refs) and not differentiated.isdisjoint(step.made) for step in self.steps
            )
            run = self._taking_constants.function(base, device=device, xp=Functions(base.functions, adjoints))
            run = runs.setdefault((base, device), run)
        for (
            constant
        ) in self.constants.values():  # a separate tensor of each for this call: its results may be written to
            array = brought(constant, base, device)
            tensors.append(wrap(array, base.spec(array)))
            if recorder is not None:
                recorder.constant(array)
        return list(run(*tensors))

    @once
    def _taking_constants(self) -> Program:
        """The program with its constants as further inputs."""
        return self.replaced(inputs=(*self.inputs, *self.constants), constants={})

    def function(
        self, backend: Backend, *, device: str | None = None, xp: Any = None, kernels: Any = None
    ) -> Callable[..., tuple[Any, ...]]:
        """Return a function from the inputs to the outputs.

        Parameters
        ----------
        backend : Backend
            Whose kernels run.
        device : str, optional
            Where to create arrays. Default: the program's device, if it belongs to the backend, otherwise its default
            device.
        xp : namespace, optional
            Functions of tensors that the text receives as ``xp``, for a program without constants. Default: kernels.
        kernels : namespace, optional
            The kernels, for arrays. Default: the backend's.
        """
        device = self.device_for((), backend) if device is None else device
        names = environment(backend, device, self)
        for number, value in self.constants.items():
            names[self.name_of(number)] = brought(value, backend, device)
        if xp is not None:
            draw = names[DRAW]
            names[DRAW] = lambda *args, **kwargs: from_raw(draw(*args, **kwargs))
            names["device"] = device  # by agrad's own name, which its functions accept
            names["here"] = {"device": device}
        where = "**here" if names["here"] else ""
        file = f"<agrad program {_count()}>"
        run = compile_source(self.text(notes=False, where=where), file, names)["program"]
        weakref.finalize(run, forget_source, file).atexit = False
        return functools.partial(run, xp or kernels or backend.xp)


#: The options with which a program gives the bits of its steps, run one by one.
EXACT: Mapping[str, Any] = {"exact": True}


class Body:
    """The work of a loop in each of its calls: an argument of its step.

    Its program takes the carried values, a row of each array, and constants; it returns the next carried values and
    results. Bodies are compared by identity.

    Attributes
    ----------
    program : Program
        The program of one call, without draws and writes.
    carried, rows : int
        How many of its inputs are carried values, and how many of the following are rows.
    length : int
        How many calls there are.
    reverse : bool
        Whether to begin with the last row.
    kept : tuple of int
        Carried values that the loop also returns, stacked after its results, as they were before each call.
    schedule : object or None
        What a loop that follows a schedule of checkpoints keeps.
    options : mapping
        How to run it on raw arrays: the options of `Program.runner`.
    derived : dict
        The bodies of its derivatives, by kind.
    """

    __slots__ = (
        *("__weakref__", "carried", "derived", "kept", "length", "options", "program", "reverse", "rows", "schedule"),
    )

    def __init__(
        self,
        program: Program,
        carried: int,
        rows: int,
        length: int,
        *,
        reverse: bool = False,
        kept: tuple[int, ...] = (),
        schedule: Any = None,
        options: Mapping[str, Any] = EXACT,
    ) -> None:
        self.program: Program = program
        self.carried: int = carried
        self.rows: int = rows
        self.length: int = length
        self.reverse: bool = reverse
        self.kept: tuple[int, ...] = kept
        self.schedule: Any = schedule
        self.options: Mapping[str, Any] = options
        self.derived: dict[Any, Any] = {}

    def split(self, values: Sequence[Any]) -> tuple[list[Any], list[Any], list[Any]]:
        """Return the placeholders of carried values, rows and constants."""
        rows = self.carried + self.rows
        return [*values[: self.carried]], [*values[self.carried : rows]], [*values[rows:]]

    def keeping(self, kept: tuple[int, ...]) -> Body:
        """Return the body of a loop that also returns other carried values."""
        if kept == self.kept:
            return self
        return self.derived.setdefault(("keeping", kept), self.doing(self.program, kept=kept))  # type: ignore[no-any-return]

    def taking(self, places: Sequence[int], rows: int) -> Body:
        """Return the body with these of its inputs, of which this many are rows."""
        return self.doing(self.program.replaced(inputs=tuple(self.program.inputs[i] for i in places)), rows=rows)

    def doing(self, program: Program, **changes: Any) -> Body:
        """Return the body of a loop whose calls run another program, with some attributes changed."""
        names = ("carried", "rows", "length", "reverse", "kept", "schedule", "options")
        return Body(program, **{name: changes.get(name, getattr(self, name)) for name in names})

    def text(self, name: str) -> str:
        """Return the work of one call, as the text of a function."""
        about = f"# {name}: {self.length} calls{' from the last row on' if self.reverse else ''}, each with {self.carried} carried"
        return f"{about}, {self.rows} from rows\n{self.program.text().replace('def program(', f'def {name}(', 1)}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _body, (self.program, self.carried, self.rows, self.length, self.reverse, self.kept, self.schedule)

    def __repr__(self) -> str:
        return f"<Body of {self.length} calls of {len(self.program.steps)} steps>"


def _body(
    program: Program, carried: int, rows: int, length: int, reverse: bool, kept: tuple[int, ...], schedule: Any
) -> Body:
    return Body(program, carried, rows, length, reverse=reverse, kept=kept, schedule=schedule)


#: Adds the members of a class to `Program`.
attached: Final = attaching_to(Program)


def brought(constant: Any, backend: Backend, device: str) -> Any:
    """Return a constant of a program on the device where that runs."""
    owner = backend_of(constant)
    assert owner is not None
    there = owner is backend and backend.device_of(constant) == device
    return constant if there else backend.receive(owner, constant, device)


def _call(arguments: TreeDef) -> str:
    """Write how a program is called: ``program(*, [*, *], b=*)``."""
    positional, named = arguments.children
    texts = [str(child) for child in positional.children]
    texts += [f"{name}={child}" for name, child in zip(named.keys, named.children, strict=True)]
    return f"program({', '.join(texts)})"


def other_grad(target: AccessPath | Argument, *, had: bool) -> RuntimeError:
    """Return the error for a tensor that had a gradient in the capture and has none now, or the other way round."""
    then, now = ("a", "no") if had else ("no", "a")
    return RuntimeError(
        f"the program was captured while {target} had {then} gradient, and it has {now} gradient now: capture it anew, or"
        f" set it to None before both{errors.called()}"
    )


def spec_of_value(value: Any) -> Spec:
    """Return the spec of a tensor or array."""
    return value._spec if isinstance(value, Tensor) else spec_of(value)


def put_back(writes: Sequence[Write], targets: Sequence[Tensor], made: Iterator[Tensor]) -> None:
    """Assign outer tensors the values and gradients that a program has computed for them: for plain leaves all or nothing."""
    followed: list[tuple[Tensor, Tensor]] = []
    gradients: list[tuple[Tensor, Tensor | None]] = []
    changed: list[Tensor] = []
    written: list[Tensor] = []
    grads: list[Tensor | None] = []
    dropped: list[Tensor] = []
    later: list[tuple[Tensor, Tensor | None]] = []
    at: dict[int, int] = {}
    for write, target in zip(writes, targets, strict=True):
        value = None if write.number is None else next(made)
        if write.what == "grad":
            gradients.append((target, value))
        elif value is not None and value._node is not None:
            followed.append((target, value))
        elif value is not None:
            at[id(target)] = len(changed)
            changed.append(target)
            written.append(value)
            grads.append(None)
    for target, value in followed:
        rebind(target, value, "a program")
    for target, value in gradients:
        if not target.is_leaf or mode.recorder() is not None:
            later.append((target, value))
        elif value is None:
            dropped.append(target)
        else:
            i = at.setdefault(id(target), len(changed))
            if i == len(changed):
                changed.append(target)
                written.append(target)
                grads.append(None)
            if value._spec is not written[i]._spec:
                target._check_grad(value)
            grads[i] = value
    assign_data(changed, [v._raw for v in written], [v._spec for v in written], grads, dropped)
    for target, value in later:
        target.grad = value


def printable(text: str) -> str:
    """Return a text on one line, so that it stays within its comment or docstring."""
    return text if text.isprintable() else repr(text)


def number_text(array: Any) -> str:
    """Return the one number of a 0-d array as text."""
    owner = backend_of(array)
    assert owner is not None
    return repr(owner.item(array))


def symbol_of(step: Step) -> str:
    """Return the Python operator by which a step is written, and run, if an operand is a Python number; otherwise nothing."""
    by_symbol = not step.kwargs and len(step.args) == 2 and any(map(is_number, step.args))
    return facts_of(step.op).symbol if by_symbol else ""


def is_number(part: Any) -> bool:
    """Return whether an argument is a Python number."""
    return type(part) in (bool, int, float, complex)


class Functions:
    """The functions a program runs on when it is differentiated: agrad's, and the others that rules call."""

    def __init__(self, functions: Any, adjoints: bool, prefix: str = "") -> None:
        self._functions, self._prefix = functions, prefix
        self._adjoints = adjoints  # whether steps take the extra results that kernels of fused operations leave

    def __getattr__(self, name: str) -> Any:
        whole = f"{self._prefix}{name}"
        op = OPS.get(whole)
        if op is not None and (op.rule.residuals or op.rule.adjoint_of):
            found: Any = functools.partial(self._whole, op)
        elif op is not None and op.rule.kind == "none":
            found = functools.partial(_without_history, whole)
        elif whole == "add_into":
            found = lambda array, other, _: self._functions.add(array, other)
        elif not self._prefix and name in SUBNAMESPACES and not callable(getattr(self._functions, name)):
            found = Functions(self._functions, self._adjoints, f"{name}.")
        else:
            found = operator.attrgetter(whole)(self._functions)
        setattr(self, name, found)
        return found

    def _whole(self, op: Op, *args: Any) -> Any:
        """Call a fused operation, whose function only returns the result, and return also the extra results of its kernel; or its adjoint.

        If steps of a derivative take extra results of kernels, differentiation goes through the functions that the
        kernels consist of.
        """
        if any(isinstance(arg, Tensor) and (arg._tangents or (self._adjoints and arg._is_followed())) for arg in args):
            assert op.kernel is not None
            return op.kernel(self._functions, *args)
        return _without_history(op.name, *args) if op.rule.adjoint_of else op.whole(*args)


def _without_history(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call an operation without derivative as rules do, by its kernel, which accepts None for values that the function would require."""

    def raw(part: Any) -> Any:
        return part._raw if isinstance(part, Tensor) else part

    positional, named = [mapped(raw, arg) for arg in args], {key: mapped(raw, value) for key, value in kwargs.items()}
    backend = joined(found for part in (*args, *kwargs.values()) for found in backends_in(part))
    assert backend is not None, name
    made = operator.attrgetter(name)(mode.kernels_of(backend))(*positional, **named)
    if not isinstance(made, tuple | list):
        return from_raw(made)
    return [from_raw(part) for part in made]


def backends_in(part: Any) -> Iterator[Backend]:
    """Return the backends of the tensors within an argument."""
    if isinstance(part, Tensor):
        yield part._spec.backend
    elif isinstance(part, tuple | list):
        for inside in part:
            yield from backends_in(inside)


#: Numbers programs in the names of their texts, which tracebacks show.
_count = itertools.count(1).__next__


@shared
def dtypes_of(backend: Backend, names: tuple[str, ...]) -> dict[str, Any]:
    """Return the backend's dtypes of these names."""
    found = {}
    for name in names:
        try:
            found[name] = backend.dtype(name)
        except TypeError:  # it has none of that name
            continue
    return found


def environment(backend: Backend, device: str, program: Program) -> dict[str, Any]:
    """Return the names that the text of a program uses besides ``xp``: dtypes, the device, specs, draws."""
    others = {shaped.dtype for shaped in program.shapes.values()}.difference(dtypes.NAMES)  # as float16

    @functools.cache
    def spec(shape: tuple[int, ...], dtype: Any) -> Spec:
        return Spec(backend, shape, dtype, device)

    def draw(kind: str, shape: tuple[int, ...], key: tuple[int, int], *, dtype: Any, **parameters: Any) -> Any:
        return backend.random(kind, shape, key, dtype=dtype, device=device, **parameters)

    return {
        **dtypes_of(backend, (*dtypes.NAMES, *sorted(others))),
        **{name: body for body, name in program.bodies.items()},
        "device": backend.native_device(device),
        "here": backend.creation(device),
        "spec": spec,
        DRAW: draw,
        DETACH: lambda value: value.detach() if isinstance(value, Tensor) else value,
        STOP: functools.partial(stop_unless, backend.item),
        "inf": math.inf,
        "nan": math.nan,
    }


def stop_unless(item: Callable[[Any], Any], array: Any, value: Any) -> tuple[()]:
    """Raise `Stopped` if the single number in an array differs from a value, or from its truth; as a step, return nothing."""
    found = item(array)
    if bool(found) is not value if type(value) is bool else not same(found, value):
        raise Stopped
    return ()


def same(first: Any, second: Any) -> bool:
    """Return whether two plain values are the same: of one type, distinguishing -0.0 and NaN."""
    if first is second:
        return True
    if type(first) is not type(second):
        return False
    if type(first) is tuple or type(first) is frozenset:  # equal sets may be iterated in another order
        return len(first) == len(second) and all(map(same, first, second))
    if type(first) is complex or (isinstance(first, float) and (not first or math.isnan(first))):
        return repr(first) == repr(second)
    return bool(first == second)


def refuse_seeds(program: Program, what: str) -> None:
    """Refuse an operation that a program which sets the state of generators does not support."""
    if program.seeds:
        raise TypeError(
            f"a program that seeds a random generator cannot {what}: seed it before the program is called{errors.called()}"
        )
