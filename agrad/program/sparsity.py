"""``Program.sparsity``: which elements of a program's results depend on which elements of its inputs.

One pass over the steps. A value is an array of numbers, one for each of its elements, and each number represents a set
of inputs; so operations that move elements (views, indexing, joining) run unchanged on these numbers, and only
operations that combine several elements create new sets. How an operation does that is a fact of its declaration
(`core.facts`).

A set may have more inputs than the derivative depends on, never fewer.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from agrad import tree
from agrad.core.backend import backend_of
from agrad.core.errors import called
from agrad.core.op import OPS, Op, facts_of
from agrad.core.rule import requests_of
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor
from agrad.plugin import manager
from agrad.program.program import (
    BODIED,
    DETACH,
    DRAW,
    HERE,
    STOP,
    DType,
    Given,
    Leaf,
    Number,
    Program,
    Ref,
    Shaped,
    Step,
    attached,
    is_number,
    mapped,
)
from agrad.program.recording import CaptureError
from agrad.program.source import recorded_kernel
from agrad.program.unrolling import unrolled

__all__ = ["WAYS", "rule_of", "sparsity_of", "ways"]

#: The numbers of the empty set of inputs, and of the set of all.
NONE, ALL = 0, 1

#: If the sets created by one step have more inputs in total, each is taken to be the set of all inputs.
LARGE = 10**8

#: The largest number of entries of all sets together: they are counted by 32-bit integers.
MOST = 2**31 - 1

#: Up to this many pairs of positions along an axis are examined one by one; beyond it, all positions are assumed to
#: meet.
PAIRS = 10**7

#: The results of `rule_of`, by the facts that determine them.
WAYS = {
    "elements": "element by element",
    "chooses": "element by element",
    "moves": "moves elements",
    "scatters": "adds elements at places",
    "reduces": "reduces axes",
    "along": "along axes",
    "running": "along axes",
    "matrices": "matrix by matrix",
    "matmul": "rows by columns",
    "composed": "as its composition",
    "dense": "all on all",
}


def ways() -> dict[str, list[str]]:
    """Return operations by how their results depend on operands; those without any information are listed as "all on all"."""
    found: dict[str, list[str]] = {way: [] for way in WAYS.values()}
    for name, op in OPS.items():
        if name in BODIED or (op.rule.kind == "none" and not op.rule.adjoint_of and not facts_of(name).sparsity):
            continue  # expanded operations, and those without derivative
        rule = rule_of(name)
        found[WAYS["composed" if callable(rule) else rule]].append(name)
    return found


class _UnknownPlacesError(Exception):
    """The destination of elements depends on unknown values."""


def rule_of(name: str) -> str | Callable[..., Any]:
    """Return how results of an operation depend on its operands: one of `WAYS`, or a composition."""
    op, said = OPS.get(name), facts_of(name).sparsity
    if said:
        return said
    if op is None or name in BODIED:
        return "dense"
    if op.rule.kind == "elementwise" or op.rule.boolean:
        return "elements"
    composed = op.kernel is not None and not op.rule.guarded  # a user's derivative may belong to another function
    return "composed" if composed else "dense"


@attached
class SparsityMethods:
    """The members of a program that this file defines."""

    def sparsity(self: Any, *args: Any, argnums: int | tuple[int, ...] | None = None, local: bool = False) -> Any:
        """Return which elements of the results depend on which elements of the arguments.

        Parameters
        ----------
        *args
            Arguments as the program takes them: their integers and booleans are known then, as numbers of elements that
            are taken, and with `local` all values. Without them, nothing is known of the arguments.
        argnums : int or tuple of int, optional
            Which positional arguments. Default: all.
        local : bool, optional
            Compute the pattern for these arguments only: branches, and factors that are 0, depend on their values.

        Returns
        -------
        scipy.sparse.csr_array
            Booleans: a row per element of the results, a column per element of the arguments, in the order of
            containers. The pattern is never too small: elements that are False are 0 in the Jacobian.

        Raises
        ------
        BackendError
            If SciPy is not installed.
        ValueError
            If the matrix would have more than a thousand million entries that are True.

        Notes
        -----
        Outer tensors count with their current values: multiplying by an outer matrix does not use its zeros. The steps
        of a `Function` are assumed to have the derivatives of its `backward` wherever a value depends on another one.

        Examples
        --------
        >>> import agrad as ag
        >>> program = ag.func.capture(lambda x: x[1:] * x[:-1])(ag.ones(4))
        >>> program.sparsity().toarray().astype(int)
        array([[1, 1, 0, 0],
               [0, 1, 1, 0],
               [0, 0, 1, 1]])
        """
        if self.arguments is None:
            raise TypeError(f"this program has no arguments{called()}")
        if local and not args:
            raise TypeError(f"sparsity(local=True) needs the arguments at which to evaluate the pattern{called()}")
        positional, _ = self.arguments.treedef.children
        starts = [0, *itertools.accumulate(child.num_leaves for child in positional.children)]
        chosen = range(len(starts) - 1) if argnums is None else (argnums,) if isinstance(argnums, int) else argnums
        leaves = [self.arguments.leaves[i] for k in chosen for i in range(starts[k], starts[k + 1])]
        numbers = [leaf.number for leaf in leaves if isinstance(leaf, Leaf | Number)]
        numbers = [number for number in numbers if _is_inexact(self.shapes[number].dtype)]
        given: dict[int, Any] = {}
        if args:
            values = tree.flatten((args, {}))[0]
            for leaf, value in zip(self.arguments.leaves, values, strict=False):
                if isinstance(leaf, Leaf | Number) and (local or not _is_inexact(self.shapes[leaf.number].dtype)):
                    given[leaf.number] = value
        results = [self.arguments.leaves[r.place] if isinstance(r, Given) else r for r in self.results.leaves]
        results = [leaf for leaf in results if isinstance(leaf, Leaf | Number)]
        return sparsity_of(self, numbers, [leaf.number for leaf in results], given, local=local)


def sparsity_of(
    program: Program,
    by: Sequence[int],
    of: Sequence[int],
    given: Mapping[int, Any] | None = None,
    *,
    local: bool = False,
) -> Any:
    """Return which elements of some values of a program depend on which elements of some of its inputs.

    Parameters
    ----------
    program : Program
        Not changed.
    by, of : sequence of int
        The numbers of the inputs, and of the values, in the order of columns and rows.
    given : mapping of int to array, optional
        Known values of inputs.
    local : bool, optional
        Use the known values of these inputs, and return the pattern at these values.
    """
    spread = _Spread(program, by, local=local)
    for number, value in {**program.constants, **(given or {})}.items():
        spread.know(number, value)
    for number, origin in program.outside.items():
        spread.know(number, origin.find())
    plain = unrolled(program)
    spread.shapes |= plain.shapes
    for number in plain.constants.keys() - program.constants.keys():
        spread.know(number, plain.constants[number])
    with spread.backend.quiet():
        spread.run(plain.steps)
    return spread.rows.matrix([spread.numbers_of(number) for number in of])


def _is_inexact(dtype: str) -> bool:
    return dtype.lstrip("b").startswith(("float", "complex"))


class _Rows:
    """Sets of inputs, by number, as the rows of one growing matrix in compressed form.

    Attributes
    ----------
    columns : int
        How many inputs there are.
    count : int
        How many sets.
    """

    def __init__(self, columns: int) -> None:
        self.np = manager.get("numpy").module("numpy")
        self.sparse = manager.scipys("sparse", by="The sparsity of a Jacobian")
        np = self.np
        self.columns, self.count, self.size = columns, 2, 0
        self._starts = np.zeros(16, dtype=np.int32)  # where each set begins: the first two have no entries
        self._inputs = np.empty(16, dtype=np.int32)
        self._true = np.ones(16, dtype=bool)

    def _grown(self, array: Any, size: int) -> Any:
        if size <= len(array):
            return array
        np = self.np
        made = np.ones if array.dtype == bool else np.empty
        longer = made(max(size, 2 * len(array)), dtype=array.dtype)
        longer[: len(array)] = array
        return longer

    def add(self, lengths: Any, inputs: Any) -> Any:
        """Add sets of these sizes, one after the other; return their numbers."""
        np, first = self.np, self.count
        self._starts = self._grown(self._starts, first + len(lengths) + 1)
        self._inputs = self._grown(self._inputs, self.size + len(inputs))
        self._true = self._grown(self._true, self.size + len(inputs))
        self._starts[first + 1 : first + len(lengths) + 1] = self.size + np.cumsum(lengths)
        self._inputs[self.size : self.size + len(inputs)] = inputs
        self.count, self.size = first + len(lengths), self.size + len(inputs)
        return np.arange(first, self.count)

    def single(self, first: int, count: int) -> Any:
        """Return the numbers of consecutive sets of one input each."""
        np = self.np
        if self.columns == 1:
            return np.full(count, ALL)
        return self.add(np.ones(count, dtype=np.int32), np.arange(first, first + count, dtype=np.int32))

    def _table(self) -> Any:
        parts = self._true[: self.size], self._inputs[: self.size], self._starts[: self.count + 1]
        return self.sparse.csr_array(parts, shape=(self.count, self.columns))

    def unions(self, starts: Any, members: Any) -> Any:
        """Return the number of the union of each group of sets.

        Parameters
        ----------
        starts : array
            Where each group begins among `members`, and the end.
        members : array
            Numbers of sets, none of which is the set of all inputs.
        """
        np = self.np
        found = np.empty(len(starts) - 1, dtype=np.int64)
        sizes = np.diff(self._starts[: self.count + 1])[members]
        most = np.minimum(np.add.reduceat(sizes, starts[:-1], dtype=np.int64), self.columns)
        if most.sum() > LARGE or self.size + most.sum() > MOST:
            found[:] = ALL
            return found
        ones = np.ones(len(members), dtype=bool)
        groups = self.sparse.csr_array((ones, members, starts), shape=(len(found), self.count))
        made = groups @ self._table()
        lengths = np.diff(made.indptr)
        full = lengths == self.columns
        inputs = made.indices[np.repeat(~full, lengths)] if full.any() else made.indices
        found[full] = ALL
        found[~full] = self.add(lengths[~full], inputs)
        return found

    def grouped(self, groups: Any, numbers: Any, count: int) -> Any:
        """Return, for each group, the number of the union of its sets."""
        np = self.np
        made = np.zeros(count, dtype=np.int64)
        groups, numbers = groups.reshape(-1), numbers.reshape(-1)
        made[groups[numbers == ALL]] = ALL
        rest = (numbers > ALL) & (made[groups] != ALL)
        pairs = np.unique(groups[rest] * self.count + numbers[rest])
        groups, numbers = np.divmod(pairs, self.count)
        members = np.bincount(groups, minlength=count)
        alone = members[groups] == 1
        made[groups[alone]] = numbers[alone]
        several = np.flatnonzero(members > 1)
        if len(several):
            starts = np.zeros(len(several) + 1, dtype=np.int64)
            np.cumsum(members[several], out=starts[1:])
            made[several] = self.unions(starts, numbers[~alone])
        return made

    def joined(self, first: Any, second: Any) -> Any:
        """Return the numbers of the unions of sets, pair by pair, broadcast."""
        np = self.np
        first, second = np.broadcast_arrays(first, second)
        if first is second or np.array_equal(first, second):
            return first
        made = np.where(first == NONE, second, first)
        both = (first != NONE) & (second != NONE) & (first != second)
        made[both & ((first == ALL) | (second == ALL))] = ALL
        rest = both & (first != ALL) & (second != ALL)
        if rest.any():
            low, high = np.minimum(first[rest], second[rest]), np.maximum(first[rest], second[rest])
            pairs, place = np.unique(low * self.count + high, return_inverse=True)
            members = np.stack(np.divmod(pairs, self.count), axis=1).reshape(-1)
            made[rest] = self.unions(np.arange(0, len(members) + 1, 2), members)[place.reshape(-1)]
        return made

    def matrix(self, numbers: Sequence[Any]) -> Any:
        """Return the sets of arrays of numbers as rows of a matrix."""
        np = self.np
        flat = np.concatenate([np.zeros(0, dtype=np.int64), *(part.reshape(-1) for part in numbers)])
        sizes = np.diff(self._starts[: self.count + 1])
        total = int(sizes[flat].sum(dtype=np.int64)) + int((flat == ALL).sum()) * self.columns
        if total > 10 * LARGE:
            raise ValueError(
                f"the sparsity of a Jacobian of {len(flat):,} rows and {self.columns:,} columns: it is dense, with {total:,}"
                f" entries that may not be 0. No colouring makes that cheap: use products (jvp, vjp, hvp){called()}"
            )
        if (flat == ALL).any():
            everything = self.add(np.array([self.columns]), np.arange(self.columns, dtype=np.int32))
            flat = np.where(flat == ALL, everything, flat)
        made = self._table()[flat]
        made.sort_indices()
        return made


class _Spread:
    """Goes through steps, and stores for every value the numbers of its elements' sets.

    Attributes
    ----------
    rows : _Rows
        The sets.
    shapes : dict
        Shapes and dtypes of values.
    strict : bool
        Only derivatives count. Otherwise values count: as for a `Function`, whose derivative may belong to another
        function than its steps.
    """

    def __init__(self, program: Program, by: Sequence[int], *, local: bool) -> None:
        self.backend = manager.get("numpy")
        self.shapes = dict(program.shapes)
        self.local, self.strict = local, not program.functions
        sizes = [math.prod(self.shapes[number].shape) for number in by]
        self.rows = _Rows(sum(sizes))
        self.np = self.rows.np
        self._numbers: dict[int, Any] = {}
        self._known: dict[int, Any] = {}
        self._same: dict[int, int] = {}
        for number, first, size in zip(by, itertools.accumulate([0, *sizes]), sizes, strict=False):
            if size:
                self._set(number, self.rows.single(first, size).reshape(self.shapes[number].shape))

    # -- values -------------------------------------------------------------------------------------------------------

    def _set(self, number: int, numbers: Any) -> None:
        """Record which sets a value depends on: it may have some already, if an input is passed in two places."""
        if number in self._numbers:
            numbers = self.rows.joined(self._numbers[number], numbers)
        self._numbers[number] = numbers

    def know(self, number: int, value: Any) -> None:
        """Record the value of an input or a constant."""
        value = value._raw if isinstance(value, Tensor) else value
        owner = backend_of(value)
        if value is None or (owner is None and not is_number(value)) or (owner is not None and owner.is_lazy):
            return
        self._known[number] = (
            self.np.asarray(value) if owner is None else self.np.asarray(brought(value, owner, self.backend))
        )

    def numbers_of(self, number: int) -> Any:
        """Return the numbers of a value's sets."""
        number = self._now(number)
        found = self._numbers.get(number)
        return self.np.zeros(self.shapes[number].shape, dtype=self.np.int64) if found is None else found

    def _now(self, number: int) -> int:
        while number in self._same:
            number = self._same[number]
        return number

    # -- steps --------------------------------------------------------------------------------------------------------

    def run(self, steps: Iterable[Step]) -> None:
        """Go through steps."""
        for step in steps:
            if step.op != STOP:
                self._step(step)

    def _step(self, step: Step) -> None:
        refs = [self._now(number) for number in step.refs]
        dependent = any(number in self._numbers for number in refs)
        if (self.local or not dependent) and step.op != DRAW and all(number in self._known for number in refs):
            self._compute(step)
        if not dependent or (step.op == DETACH and self.strict):
            return
        if self.strict and not any(_is_inexact(self.shapes[number].dtype) for number in step.made):
            return
        facts = facts_of(step.op)
        if facts.creates in ("here", "like") and len(refs) == (facts.creates == "like"):  # depends on a shape only
            if facts.fills is not None:
                self._known[step.made[0]] = self.np.full(self.shapes[step.made[0]].shape, facts.fills)
            return
        rule = "elements" if step.op == DETACH else rule_of(step.op)
        if callable(rule) or rule == "composed":
            if self._written_out(step, rule if callable(rule) else None):
                return
            rule = "dense"
        try:
            made = getattr(self, f"_{rule}")(step)
        except _UnknownPlacesError:
            made = self._dense(step)
        for number, numbers in zip(step.outs, made if step.several else [made], strict=False):
            if number is None or (self.strict and not _is_inexact(self.shapes[number].dtype)):
                continue
            shape = self.shapes[number].shape
            if numbers.shape != shape:
                numbers = self.np.broadcast_to(numbers, shape)  # noqa: PLW2901
            if numbers.any():
                self._set(number, numbers)

    def _compute(self, step: Step) -> None:
        """Record the result of a step whose operands are known."""
        try:
            made = self._called(step, lambda number: self._known[number], number=self.np.asarray)
        except Exception:  # noqa: BLE001 (that a value is not known makes the pattern larger, and no other difference)
            return
        for number, value in zip(step.outs, made if step.several else [made], strict=False):
            if number is not None:
                self._known[number] = self.np.asarray(value)

    def _called(self, step: Step, value: Callable[[int], Any], *, number: Callable[[Any], Any]) -> Any:
        """Call the kernel of a step with other arrays for its values, and for numbers among its operands."""
        if step.op == DETACH:
            return value(self._now(step.args[0].number))
        backend = self.backend
        op, operands = OPS.get(step.op), set()
        if op is not None:
            operands = {i for i, argument in op.operand_slots if argument.kind == "operand"}

        def put(part: Any) -> Any:
            kind = type(part)
            if kind is Ref:
                return value(self._now(part.number))
            if kind is DType:
                return backend.dtype(part)
            if kind is Shaped:
                return Spec(backend, part.shape, backend.dtype(part.dtype), backend.default_device())
            return backend.native_device(backend.default_device()) if part is HERE else part

        args = [
            number(part) if i in operands and is_number(part) else mapped(put, part) for i, part in enumerate(step.args)
        ]
        kernel = operator.attrgetter(step.op)(backend.xp)
        return kernel(*args, **{name: mapped(put, part) for name, part in step.kwargs.items()})

    def _written_out(self, step: Step, kernel: Callable[..., Any] | None) -> bool:
        """Go through the steps of an operation's composition instead; return whether there is one."""
        step = step.taking({number: Ref(self._now(number)) for number in step.refs})
        try:
            recorder, results = recorded_kernel(step, self.shapes, kernel)
        except (CaptureError, NotImplementedError, TypeError, ValueError):
            return False
        self.shapes |= recorder.shapes
        for number, value in recorder.constants.items():
            self.know(number, value)
        self.run(recorder.steps)
        for out, made in zip(step.outs, results, strict=False):
            if out is not None and made is not None:
                self._same[out] = made
        return True

    def _operands(self, step: Step) -> Iterator[tuple[str, Any]]:
        """Return the names of operands that depend on inputs, and their numbers: arrays without derivative included, if they count."""
        op = OPS.get(step.op)
        for name, part in self._arguments(step).items():
            if op is not None and self.strict and name in op.rule.index and op.rule.kind != "none":
                continue
            for inside in part if type(part) in (tuple, list) else (part,):
                if type(inside) is Ref and self._now(inside.number) in self._numbers:
                    yield name, self._numbers[self._now(inside.number)]

    def _arguments(self, step: Step) -> Mapping[str, Any]:
        op = OPS.get(step.op)
        if op is None:
            return {str(i): part for i, part in enumerate((*step.args, *step.kwargs.values()))}
        bound = op.signature.bind(*step.args, **step.kwargs)
        bound.apply_defaults()
        return bound.arguments

    # -- the ways of `WAYS` -------------------------------------------------------------------------------------------

    def _dense(self, step: Step) -> Any:
        """Each on all: the union of all operands."""
        np = self.np
        found = [self._numbers[n].reshape(-1) for n in map(self._now, step.refs) if n in self._numbers]
        every = np.unique(np.concatenate(found))
        one = self.rows.grouped(np.zeros(len(every), dtype=np.int64), every, 1)
        made = [np.zeros((), np.int64) if n is None else np.full(self.shapes[n].shape, one[0]) for n in step.outs]
        return made if step.several else made[0]

    def _elements(self, step: Step) -> Any:
        """Element by element: a factor that is known to be 0 removes an operand."""
        np, op = self.np, OPS.get(step.op)
        made: Any = None
        for name, found in self._operands(step):
            numbers = found
            if op is not None and self.strict and op.rule.kind == "elementwise":
                vanishing = self._vanishing(op, step, name)
                if vanishing is not None:
                    numbers = np.where(vanishing, NONE, numbers)
            made = numbers if made is None else self.rows.joined(made, numbers)
        return np.zeros((), dtype=np.int64) if made is None else made

    def _vanishing(self, op: Op, step: Step, name: str) -> Any:
        """Return where the partial derivative with respect to an operand is known to be 0; None for nowhere."""
        derivative = op.rule.vjp.get(name)
        if isinstance(derivative, int | float):
            return None if derivative else self.np.True_
        if derivative is None:
            return None
        wanted, arguments = {}, self._arguments(step)
        for request in requests_of(derivative):
            part = arguments.get(request, self)
            if request == "xp":
                wanted[request] = self.backend.xp
            elif type(part) is Ref and self._now(part.number) in self._known:
                wanted[request] = self._known[self._now(part.number)]
            elif is_number(part):
                wanted[request] = self.np.asarray(part)
            elif part is None or isinstance(part, str):
                wanted[request] = part
            else:
                return None
        if not self.local and all(getattr(part, "size", 1) == 1 for name, part in wanted.items() if name != "xp"):
            return None  # a weight that happens to be 0 now is not structure
        try:
            found = self.np.asarray(derivative(**wanted)) == 0
        except Exception:  # noqa: BLE001 (as in `_compute`)
            return None
        return found if found.any() else None

    def _chooses(self, step: Step) -> Any:
        """Element by element, with only one operand where the condition is known: a single condition may be the state of something."""
        if not self.local and not any(self.shapes[number].shape for number in self._places(step)):
            return self._elements(step)
        try:
            return self._moves(step)
        except _UnknownPlacesError:
            return self._elements(step)

    def _moves(self, step: Step) -> Any:
        """Apply the operation to the numbers themselves."""
        op = OPS.get(step.op)
        places = self._places(step)
        if op is not None:
            self._check_places(op, step, places)

        def value(number: int) -> Any:
            return self._known[number] if number in places else self.numbers_of(number)

        return self._called(step, value, number=lambda _: self.np.zeros((), dtype=self.np.int64))

    def _places(self, step: Step) -> set[int]:
        """Return the numbers of the values that determine the positions of elements: keys, indices, conditions."""
        op = OPS.get(step.op)
        if op is None or not op.rule.index:
            return set()
        arguments = self._arguments(step)
        found: list[int] = []
        for name in op.rule.index:
            mapped(lambda part: found.append(part.number) if type(part) is Ref else None, arguments.get(name))
        return {self._now(number) for number in found}

    def _check_places(self, op: Op, step: Step, places: set[int]) -> None:
        """Refuse positions that are unknown, or that count as values."""
        if not places <= self._known.keys() or (not self.strict and places & self._numbers.keys()):
            raise _UnknownPlacesError
        arguments = self._arguments(step)
        operands = [arguments[argument.name] for _, argument in op.operand_slots]
        if places & {self._now(part.number) for part in operands if type(part) is Ref}:
            raise _UnknownPlacesError  # one value as both

    def _scatters(self, step: Step) -> Any:
        """Unions of the values that are added at one position."""
        np = self.np
        op = OPS[step.op]
        self._check_places(op, step, self._places(step))
        arguments = self._arguments(step)
        spec, values = arguments["spec"], arguments["values"]
        size = math.prod(spec.shape)

        def put(part: Any) -> Any:
            return self._known[self._now(part.number)] if type(part) is Ref else part

        key = mapped(put, arguments["key"])
        places = self.backend.xp.getitem(np.arange(size).reshape(spec.shape), key)
        numbers = np.broadcast_to(self.numbers_of(values.number), places.shape)
        return self.rows.grouped(places, numbers, size).reshape(spec.shape)

    def _axes(self, step: Step, rank: int) -> tuple[int, ...]:
        """Return the axes that a step works along, not negative."""
        arguments = self._arguments(step)
        axes = arguments.get("axis", arguments.get("axes"))
        if axes is None:
            return tuple(range(rank))
        axes = axes if isinstance(axes, tuple | list) else (axes,)
        return tuple(operator.index(axis) % rank for axis in axes) if rank else ()

    def _over(self, numbers: Any, axes: Sequence[int]) -> Any:
        """Return the unions along axes, which get the length 1."""
        np = self.np
        shape = tuple(1 if i in axes else n for i, n in enumerate(numbers.shape))
        groups = np.broadcast_to(np.arange(math.prod(shape)).reshape(shape), numbers.shape)
        return self.rows.grouped(groups, numbers, math.prod(shape)).reshape(shape)

    def _reduces(self, step: Step) -> Any:
        """Unions along axes, which are removed."""
        (_, numbers), *_ = self._operands(step)
        over = self._over(numbers, self._axes(step, numbers.ndim))
        return over.reshape(self.shapes[step.made[0]].shape)

    def _along(self, step: Step) -> Any:
        """Unions along axes."""
        made: Any = None
        for _, numbers in self._operands(step):
            over = self._over(numbers, self._axes(step, numbers.ndim))
            made = over if made is None else self.rows.joined(made, over)
        return [made] * len(step.outs) if step.several else made

    def _running(self, step: Step) -> Any:
        """Unions along an axis up to a position."""
        np = self.np
        (_, numbers), *_ = self._operands(step)
        axes = self._axes(step, numbers.ndim)
        shape = self.shapes[step.made[0]].shape
        if len(axes) != 1 or numbers.size * numbers.shape[axes[0]] > PAIRS:
            return self._along(step)
        (axis,) = axes
        lines = np.moveaxis(numbers, axis, -1)
        n = lines.shape[-1]
        last, first = np.tril_indices(n)
        lead = np.arange(lines[..., 0].size)[:, None]
        made = self.rows.grouped(lead * n + last, lines.reshape(-1, n)[:, first], lines.size).reshape(lines.shape)
        if shape[axis] > n:  # the first result depends on no element
            made = np.concatenate([np.zeros_like(made[..., :1]), made], axis=-1)
        return np.moveaxis(made, -1, axis)

    def _matrices(self, step: Step) -> Any:
        """Unions of matrices, or of a vector and a matrix."""
        np = self.np
        made: Any = None
        for _, numbers in self._operands(step):
            over = self._over(numbers, range(max(numbers.ndim - 2, 0), numbers.ndim))
            lead = over.reshape(over.shape[:-2]) if over.ndim > 1 else over.reshape(())
            made = lead if made is None else self.rows.joined(made, lead)
        shapes = [() if number is None else self.shapes[number].shape for number in step.outs]
        found = [
            np.broadcast_to(made.reshape(*made.shape, *(1,) * (len(s) - made.ndim)), s) if s else made for s in shapes
        ]
        return found if step.several else found[0]

    def _matmul(self, step: Step) -> Any:
        """Unions of rows and columns, without the elements that a known matrix multiplies by 0."""
        first, second = step.args
        made: Any = None
        for part, other, is_first in ((first, second, True), (second, first, False)):
            if type(part) is not Ref or self._now(part.number) not in self._numbers:
                continue
            numbers, shape = self._numbers[self._now(part.number)], self.shapes[step.made[0]].shape
            known = self._known.get(self._now(other.number)) if type(other) is Ref else None
            rank = len(self.shapes[other.number].shape)
            if is_first:
                found = self._product(numbers, known, rank == 1, shape)
            else:  # of the transposed matrices
                known = known if known is None or rank == 1 else known.mT
                is_row, flipped = rank == 1, numbers if numbers.ndim == 1 else numbers.mT
                vectors = (numbers.ndim == 1) or is_row
                turned = shape if vectors else (*shape[:-2], shape[-1], shape[-2])
                found = self._product(flipped, known, is_row, turned)
                found = found if vectors else found.mT
            made = found if made is None else self.rows.joined(made, found)
        return made

    def _product(self, numbers: Any, known: Any, is_vector: bool, shape: tuple[int, ...]) -> Any:
        """Return the numbers of a product, of the given shape, with a matrix or a vector on the right."""
        np = self.np
        over = self._over(numbers, (numbers.ndim - 1,))  # as if the other one had no zeros
        every = over if not is_vector else over[..., 0]
        if numbers.ndim == 1 and not is_vector:
            every = over  # a row, along the columns of the other
        if known is None or (known != 0).all() or not numbers.any():
            return np.broadcast_to(every, shape)
        left = numbers if numbers.ndim > 1 else numbers[None, :]
        right = known[:, None] if is_vector else known
        lead = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        left = np.broadcast_to(left, (*lead, *left.shape[-2:])).reshape(-1, *left.shape[-2:])
        right = np.broadcast_to(right, (*lead, *right.shape[-2:])).reshape(-1, *right.shape[-2:])
        stack, inner, column = np.nonzero(right)
        rows, columns = left.shape[1], right.shape[2]
        if len(stack) * rows > PAIRS:
            return np.broadcast_to(every, shape)
        places = (stack * rows * columns + column)[:, None] + np.arange(rows) * columns
        found = self.rows.grouped(places, left[stack, :, inner], left.shape[0] * rows * columns)
        return found.reshape(shape)


def brought(value: Any, owner: Any, backend: Any) -> Any:
    """Return an array of a backend on another one."""
    return value if owner is backend else backend.receive(owner, value, backend.default_device())
