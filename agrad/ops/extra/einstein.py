"""Einstein summation: any equation as diagonals, sums, and products of two operands, which are matrix products."""

from __future__ import annotations

import functools
import importlib
import math
import string
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from agrad.core.cotangents import promote
from agrad.core.declare import multilinear
from agrad.core.errors import called
from agrad.core.facts import Facts
from agrad.core.operands import as_operands
from agrad.core.tensor import Tensor
from agrad.ops.batch_rules import BatchedCall
from agrad.ops.data_type import astype
from agrad.ops.manipulation import permute_dims, reshape, squeeze
from agrad.ops.matrices import conj
from agrad.ops.searching import getitem
from agrad.ops.statistical import sum as sum_of

__all__ = ["einsum"]

# -- two operands -----------------------------------------------------------------------------------------------------


#: Up to this many products, a sum is faster than a matrix product of one row and one column.
FEW = 32


class _Layout(NamedTuple):
    """A contraction as a matrix product: permutations, and how many axes there are of each kind."""

    first: tuple[int, ...] | None
    second: tuple[int, ...] | None
    result: tuple[int, ...] | None
    batch: int
    rows: int
    summed: int


@functools.lru_cache(maxsize=1024)
def _layout(first: str, second: str, result: str) -> _Layout:
    batch = "".join(c for c in first if c in second and c in result)
    summed = "".join(c for c in first if c in second and c not in result)
    rows = "".join(c for c in first if c not in second)
    columns = "".join(c for c in second if c not in first)
    pairs = ((first, batch + rows + summed), (second, batch + summed + columns), (batch + rows + columns, result))
    order1, order2, order = (None if have == want else tuple(have.index(c) for c in want) for have, want in pairs)
    return _Layout(order1, order2, order, len(batch), len(rows), len(summed))


def _contraction_kernel(xp: Any, x1: Any, x2: Any, /, first: str, second: str, result: str) -> Any:
    """Compute one matrix product for each position of the axes that both operands and the result have."""
    order1, order2, order, batch, rows, summed = _layout(first, second, result)
    x1, x2 = promote(xp, x1, x2)
    x1 = x1 if order1 is None else xp.permute_dims(x1, order1)
    x2 = x2 if order2 is None else xp.permute_dims(x2, order2)
    shape1, shape2 = x1.shape, x2.shape
    lead, mine, theirs = shape1[:batch], shape1[batch : batch + rows], shape2[batch + summed :]
    if not summed:
        one = xp.reshape(x1, (*shape1, *(1 for _ in theirs)))
        product = one * xp.reshape(x2, (*lead, *(1 for _ in mine), *theirs))
    else:
        k = math.prod(shape1[batch + rows :])
        if batch and not rows and not theirs and k <= FEW:
            product = x1 * x2
            product = xp.sum(product, axis=tuple(range(batch, len(shape1))), dtype=product.dtype)
            return product if order is None else xp.permute_dims(product, order)
        if rows != 1 or summed != 1:
            x1 = xp.reshape(x1, (*lead, math.prod(mine), k))
        if summed != 1 or len(theirs) != 1:
            x2 = xp.reshape(x2, (*lead, k, math.prod(theirs)))
        product = xp.matmul(x1, x2)
        if rows != 1 or len(theirs) != 1:
            product = xp.reshape(product, (*lead, *mine, *theirs))
    return product if order is None else xp.permute_dims(product, order)


def _contraction_batch(b: BatchedCall, x1: Any, x2: Any, /, first: str, second: str, result: str) -> Any:
    used = set(first + second + result)
    batch = next(c for c in "zyxwvutsrqponmlkjihgfedcbaZYXWVUTSRQPONMLKJIHGFEDCBA" if c not in used)
    return b.kernel(
        x1.data if b.has(x1) else x1,
        x2.data if b.has(x2) else x2,
        batch + first if b.has(x1) else first,
        batch + second if b.has(x2) else second,
        batch + result,
    )


def _contracts(_: Any, first: str, second: str, result: str) -> tuple[tuple[int, ...], ...]:
    names = [name for name in first if name in second and name not in result]
    return tuple(map(first.index, names)), tuple(map(second.index, names))


@multilinear(
    name="extra.contraction",
    x1=lambda xp, g, x2, first, second, result: xp.extra.contraction(g, conj(xp, x2), result, second, first),
    x2=lambda xp, g, x1, first, second, result: xp.extra.contraction(conj(xp, x1), g, first, result, second),
    kernel=_contraction_kernel,
    batch=_contraction_batch,
    contracts=_contracts,
    facts=Facts(needs=("zero-size reductions",)),
)
def contraction(x1: Any, x2: Any, /, first: str, second: str, result: str) -> Tensor:
    """Products of two operands, summed over axes.

    Its derivatives are contractions too.

    x1, x2: The operands.
    first, second, result : str
        A label per axis of each operand and of the result. Each label occurs in at least two of the three, and at most
        once in each; axes with the same label have the same length.
    Returns: The result. Axes that both operands have and the result lacks are summed.
    """


# -- equations --------------------------------------------------------------------------------------------------------


def _refused(equation: str, why: str) -> ValueError:
    return ValueError(f"einsum(): {why}\n  The equation is {equation!r}.{called()}")


def _split(equation: str) -> tuple[list[str], str | None]:
    """Return the subscripts of the operands, and those of the result if they are given."""
    text = "".join(equation.split())
    left, arrow, right = text.partition("->")
    terms = left.split(",")
    for term in (*terms, right):
        rest = term.replace("...", "", 1)
        wrong = next((c for c in rest if c not in string.ascii_letters), None)
        if wrong == ".":
            raise _refused(equation, "found '.' that is not part of one ellipsis ('...') of an operand")
        if wrong is not None:
            raise _refused(equation, f"subscripts must be letters or '...', found {wrong!r}")
    return terms, right if arrow else None


def _parse(equation: str, ranks: tuple[int, ...]) -> tuple[tuple[str, ...], str]:
    """Return a label for every axis of every operand, and those of the result; the axes of an ellipsis get their own labels."""
    terms, result = _split(equation)
    if len(terms) != len(ranks):
        raise (
            _refused(
                equation, f"more operands were provided than specified in the equation ({len(ranks)} for {len(terms)})"
            )
            if len(ranks) > len(terms)
            else _refused(
                equation, f"fewer operands were provided than specified in the equation ({len(ranks)} for {len(terms)})"
            )
        )
    widths = []
    for i, (term, rank) in enumerate(zip(terms, ranks, strict=True)):
        named = len(term.replace("...", ""))
        if named > rank or (named < rank and "..." not in term):
            what = (
                f"the number of subscripts in the equation ({named}) does not match the number of dimensions ({rank})"
            )
            raise _refused(equation, f"{what} for operand {i}")
        widths.append(rank - named)
    free = [c for c in string.ascii_letters if c not in equation]
    width = max(widths)
    if width > len(free):
        raise _refused(equation, f"the ellipsis stands for {width} axes, more than there are letters left")
    dots = "".join(free[:width])
    labels = tuple(term.replace("...", dots[width - n :]) for term, n in zip(terms, widths, strict=True))
    if result is None:
        named_once = sorted(c for c in set("".join(terms)) if c != "." and "".join(terms).count(c) == 1)
        return labels, dots + "".join(named_once)
    if "..." not in result and width:
        raise _refused(equation, "the ellipsis covers axes, so the result needs one too ('->...')")
    result = result.replace("...", dots)
    for c in result:
        if result.count(c) > 1:
            raise _refused(equation, f"output subscript {c} appears more than once in the output")
        if not any(c in term for term in labels):
            raise _refused(equation, f"output subscript {c} does not appear in the equation for any input operand")
    return labels, result


def _order(labels: tuple[str, ...], result: str, sizes: tuple[tuple[int, ...], ...], optimize: Any) -> tuple[Any, ...]:
    """Which operands to contract in each step, as opt_einsum counts them: results join at the end."""
    left_to_right = ((0, 1), *((0, n) for n in range(len(labels) - 2, 0, -1)))
    if optimize is False:
        return left_to_right
    try:
        opt_einsum: Any = importlib.import_module("opt_einsum")  # optional, and slow to import
    except ImportError as error:
        if optimize is None:
            return left_to_right
        raise ImportError(f"einsum(optimize={optimize!r}) needs opt_einsum: pip install opt_einsum") from error
    equation = f"{','.join(labels)}->{result}"
    path, _ = opt_einsum.contract_path(
        equation, *sizes, shapes=True, optimize="auto" if optimize in (None, True) else optimize
    )
    return tuple(map(tuple, path))


# -- the steps --------------------------------------------------------------------------------------------------------


def _diagonal(x: Tensor, order: tuple[int, ...], n: int) -> Tensor:
    """The diagonal of the two axes that an order puts last: every (n + 1)-th element of both merged."""
    x = permute_dims(x, order)
    return getitem(reshape(x, (*x.shape[:-2], n * n)), (..., slice(None, None, n + 1)))


def _total(x: Tensor, axes: tuple[int, ...]) -> Tensor:
    return sum_of(x, axis=axes, dtype=x.dtype)


class _Term(NamedTuple):
    """A value among the steps: its number, and a label and length for every axis."""

    number: int
    labels: str
    shape: tuple[int, ...]


class _Planner:
    """Writes an equation as steps ``(function, numbers of its operands, parameters)``; each adds one value."""

    def __init__(self, operands: int) -> None:
        self.count = operands
        self.steps: list[tuple[Callable[..., Tensor], tuple[int, ...], tuple[Any, ...]]] = []

    def add(self, function: Callable[..., Tensor], operands: tuple[int, ...], *parameters: Any) -> int:
        self.steps.append((function, operands, parameters))
        self.count += 1
        return self.count - 1

    def without(self, term: _Term, axes: tuple[int, ...], function: Callable[..., Tensor]) -> _Term:
        """Sum over axes, or remove those of length 1."""
        if not axes:
            return term
        kept = [i for i in range(len(term.shape)) if i not in axes]
        labels, shape = "".join(term.labels[i] for i in kept), tuple(term.shape[i] for i in kept)
        return _Term(self.add(function, (term.number,), axes), labels, shape)

    def summed(self, term: _Term, kept: set[str]) -> _Term:
        """Sum over the axes whose labels occur nowhere else."""
        return self.without(term, tuple(i for i, c in enumerate(term.labels) if c not in kept), _total)

    def without_repeats(self, term: _Term) -> _Term:
        """Take the diagonal along axes with the same label."""
        for c in dict.fromkeys(term.labels):
            while term.labels.count(c) > 1:
                number, labels, shape = term
                i = labels.index(c)
                j = labels.index(c, i + 1)
                if shape[i] != shape[j]:
                    raise ValueError(
                        f"einsum(): subscript {c} is repeated within an operand but the sizes don't match, "
                        f"{shape[j]} != {shape[i]}{called()}"
                    )
                rest = [k for k in range(len(shape)) if k not in (i, j)]
                number = self.add(_diagonal, (number,), (*rest, i, j), shape[i])
                term = _Term(number, "".join(labels[k] for k in rest) + c, (*(shape[k] for k in rest), shape[i]))
        return term

    def pair(self, one: _Term, two: _Term, needed: set[str], result: str | None) -> _Term:
        """Contract two operands; `needed` are the labels that occur later."""
        sizes1, sizes2 = (dict(zip(t.labels, t.shape, strict=True)) for t in (one, two))
        for c in sizes1:
            n, m = sizes1[c], sizes2.get(c, sizes1[c])
            if n != m and 1 not in (n, m) and n == n and m == m:  # noqa: PLR0124 (nan: unknown to a lazy backend)
                raise ValueError(f"einsum(): operands have sizes {n} and {m} for subscript {c}{called()}")
        # an axis with length 1 in one operand and full length in the other belongs only to the latter
        one, two = (
            self.without(t, tuple(i for i, c in enumerate(t.labels) if t.shape[i] == 1 != sizes.get(c, 1)), squeeze)
            for t, sizes in ((one, sizes2), (two, sizes1))
        )
        one, two = self.summed(one, needed | set(two.labels)), self.summed(two, needed | set(one.labels))
        first, second = one.labels, two.labels
        if result is None:  # in the kernel's order, so that nothing is transposed
            result = "".join(c for c in first if c in second and c in needed)
            result += "".join(c for c in first if c not in second) + "".join(c for c in second if c not in first)
        sizes = dict(zip(first, one.shape, strict=True)) | dict(zip(second, two.shape, strict=True))
        number = self.add(contraction, (one.number, two.number), first, second, result)
        return _Term(number, result, tuple(sizes[c] for c in result))


@functools.lru_cache(maxsize=512)
def _plan(equation: str, shapes: tuple[tuple[int, ...], ...], optimize: Any) -> tuple[Any, ...]:
    """Return the steps of an equation for operands of some shapes."""
    labels, result = _parse(equation, tuple(map(len, shapes)))
    planner = _Planner(len(shapes))
    terms = [planner.without_repeats(_Term(i, *part)) for i, part in enumerate(zip(labels, shapes, strict=True))]
    path = ((0, 1),) * (len(terms) - 1)
    if len(terms) > 2:
        path = _order(tuple(t.labels for t in terms), result, tuple(t.shape for t in terms), optimize)
    for places in path:
        term, *others = [terms[i] for i in places]
        terms = [t for i, t in enumerate(terms) if i not in places]
        for n, other in enumerate(others, 1):
            needed = set(result).union(*(t.labels for t in (*terms, *others[n:])))
            term = planner.pair(term, other, needed, None if terms or n < len(others) else result)
        terms.append(term)
    term = planner.summed(terms[0], set(result))
    if term.labels != result:
        planner.add(permute_dims, (term.number,), tuple(term.labels.index(c) for c in result))
    elif not planner.steps:  # a tensor of its own, not the operand
        planner.add(reshape, (term.number,), term.shape)
    return tuple(planner.steps)


def _as_numbers(values: list[Tensor]) -> list[Tensor]:
    """Return operands with booleans converted to numbers if there are also numbers: sums of booleans only are booleans."""
    kinds = [x._spec.backend.kind(x.dtype) for x in values]
    other = next((x for x, kind in zip(values, kinds, strict=True) if kind != "bool"), None)
    if other is None:
        return values
    return [astype(x, other.dtype) if kind == "bool" else x for x, kind in zip(values, kinds, strict=True)]


def einsum(equation: str, /, *operands: Any, optimize: str | bool | Sequence[tuple[int, ...]] | None = None) -> Tensor:
    """Products and sums of operands, by Einstein's summation convention.

    equation : str
        A letter per axis of every operand, commas between the operands, and after ``->`` the letters of the result. A
        letter that the result lacks is summed over; one that an operand has twice takes the diagonal; ``...`` stands
        for the axes without a letter, which broadcast. Without ``->`` the result has the axes of the ellipsis and then,
        in alphabetical order, the letters that occur once.
    *operands: As many as the equation has, or one list of them. An axis of length 1 broadcasts.
    optimize : str, bool or sequence of tuple of int, optional
        The order in which three or more operands are contracted: a strategy or a path of opt_einsum, or False for left
        to right. By default opt_einsum plans it, if it is installed (``pip install opt_einsum``); otherwise it is left
        to right. The result is the same up to rounding.
    ValueError: If the equation is malformed or does not fit the operands.
    ImportError: If `optimize` names a strategy and opt_einsum is not installed.
    Semantics are those of ``numpy.einsum``. Every product of two operands is a matrix product; so are its derivatives,
    which hold in reverse and forward mode and to any order.

    >>> a = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    >>> trace = ag.extra.einsum("ij,ji", a, a)
    >>> trace
    tensor(29., grad_fn=<ExtraContractionBackward0>)
    >>> trace.backward()
    >>> a.grad
    tensor([[2., 6.],
            [4., 8.]])
    """
    if not isinstance(equation, str):
        raise TypeError(
            f"einsum(): the equation must be a str such as 'ij,jk->ik', not {type(equation).__name__}{called()}"
        )
    if len(operands) == 1 and isinstance(operands[0], list | tuple) and "," in equation:
        operands = tuple(operands[0])  # PyTorch's one list of operands
    values = list(as_operands(*operands))
    if not values:
        raise ValueError(f"einsum(): must provide at least one operand{called()}")
    if len({x.dtype for x in values}) > 1:
        values = _as_numbers(values)
    if not isinstance(optimize, str | bool | None):
        optimize = tuple(map(tuple, optimize))
    for function, numbers, parameters in _plan(equation, tuple(x.shape for x in values), optimize):
        values.append(function(*(values[i] for i in numbers), *parameters))
    return values[-1]
