"""The check that a loss adds up over rows: on some rows of some chunks, compare it with the results for two parts of them.

May import Dask; is imported with `agrad_dask.lowering`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import agrad as ag
from agrad import Tensor, random
from agrad.plugin.backend import Spec, ancestors, backend_of, internal, node_of
from agrad.plugin.programs import spec_of_value

#: The number of rows of a chunk that the check uses: at most this many, and no more than a run has, but at least the
#: second number, or two if so many take more than these bytes: a row may be an image.
CHECKED_ROWS, LEAST_ROWS, LEAST_BYTES = 48, 6, 2**21
#: The number of points near the first parameters that it tries: at the start of a model, often zeros, many losses add
#: up by chance.
NEARBY = 3
#: The distances of these points, in multiples of each parameter (of 1 where it is 0). The nearer ones are tried if the
#: loss is not finite farther away.
STEPS = 0.5, 2.0**-5, 2.0**-10
#: A loss fails the check if the sum of its parts is off by more than this many times its rounding error.
NOISE = 16

internal(__file__)


def chosen(sizes: Sequence[float]) -> tuple[int, ...]:
    """Choose three of the runs that have enough rows (or the most): the first, the middle one and the last.

    Runs of unknown sizes may have none: then choose some more.
    """
    if any(map(math.isnan, sizes)):
        return tuple(sorted({0, len(sizes) - 1, *(2**i for i in range((len(sizes) - 1).bit_length()))}))
    rows = [min(size, CHECKED_ROWS) for size in sizes]
    most = max(rows)
    enough = [i for i, n in enumerate(rows) if n == most]
    return tuple(dict.fromkeys(enough[i] for i in (0, len(enough) // 2, -1)))


def due(chosen: Sequence[int], calls: int) -> Sequence[int]:
    """Return those of the chosen chunks to check after a number of calls: all at first, one at the second, fourth, eighth call..."""
    if not calls:
        return chosen
    return (chosen[calls.bit_length() % len(chosen)],) if not calls & (calls + 1) else ()


def sampled(blocks: Sequence[Any], most: int) -> list[Any]:
    """Return some rows, spread over a chunk, which may be sorted; as copies. Runs have at most this many; 0: a whole chunk."""
    row = sum(b.nbytes for b in blocks) / max(1, len(blocks[0]))
    least = LEAST_ROWS if LEAST_ROWS * row <= LEAST_BYTES else 2
    count = min(len(blocks[0]), CHECKED_ROWS, max(least, most or CHECKED_ROWS))
    return [backend_of(b).asarray(b[:: len(b) // count][:count], copy=True) for b in blocks]


Losses = Callable[[Sequence[Tensor], Sequence[Tensor]], list[float]]


def check(
    value_of: Callable[[Sequence[Any], Sequence[Tensor]], Tensor],
    given: Sequence[Tensor],
    blocks: Sequence[Any],
    reduce: str,
    call: int,
    source: random.Generator,
) -> None:
    """Refuse a loss whose value on some rows does not follow from its values on two parts of them.

    Examples are a standard deviation, a maximum, a root mean square, batch normalisation, a softmax over the rows, and
    a mean where a sum was announced. The parameters are also moved: at zeros the rows of many models are all alike.

    Parameters
    ----------
    value_of : callable
        Returns the loss of some rows at some parameters.
    given : sequence of Tensor
        The caller's parameters.
    blocks : sequence of array
        The rows.
    call : int
        The number of calls so far: later ones check fewer points.
    source : Generator
        The state of the random numbers that the loss draws: a loss that draws cannot be compared.
    """
    count = len(blocks[0])
    if count < 2:
        return
    cut = max(1, count // 3)
    some = [ag.asarray(block) for block in blocks]

    def value(parameters: Sequence[Tensor], rows: Sequence[Tensor], *part: int) -> Tensor:
        return value_of([whole[slice(*part)] for whole in rows], parameters)

    def losses(parameters: Sequence[Tensor], rows: Sequence[Tensor]) -> list[float]:
        return [float(value(parameters, rows, *part).detach()) for part in ((count,), (cut,), (cut, count))]

    rng = np.random.default_rng(call)
    try:
        whole = value(given, some, count)
        made = _inexact_in(whole)
        whole = whole.detach()  # one graph at a time
        found = [float(whole), *(float(value(given, some, *part).detach()) for part in ((cut,), (cut, count)))]
    except Exception as error:
        error.add_note(
            f"Raised by the check that the loss adds up over rows, which runs it on {count}, {cut} and"
            f" {count - cut} rows. A loss that takes whole chunks only: value_and_grad(..., check=False)."
        )
        raise
    places = [(given, found)]
    with ag.no_grad():
        for _ in range(1 if call else NEARBY):
            places += _nearby(losses, given, some, rng)
    small = 0.3 * math.sqrt(ag.finfo(whole.dtype).eps) if spec_of_value(whole).inexact else 0.0

    def fits(reduce: str, found: Sequence[float]) -> bool:
        return abs(found[0] - _combined(reduce, cut / count, found)) <= small * sum(map(abs, found))

    other = "mean" if reduce == "sum" else "sum"
    for parameters, found in places:
        if fits(reduce, found) or not all(map(math.isfinite, found)):
            continue
        combined = _combined(reduce, cut / count, found)
        if abs(found[0] - combined) <= NOISE * _noise(losses, found, made, parameters, some) or source.counter:
            continue
        if all(fits(other, each) for _, each in places):
            fix = f'It is the {other}: pass reduce="{other}".'
        else:
            fix = (
                "What needs all rows at once (a standard deviation or maximum over the rows, batch normalisation, a"
                " softmax over the rows) cannot run chunk by chunk: call the loss on Dask tensors, then backward(). A"
                " function of one mean or sum can: of a root mean square, reduce the mean square and pass"
                " after=agrad.sqrt."
            )
        where = "" if parameters is given else ", near the parameters given if not at these themselves"
        raise ValueError(
            f"the loss of all rows is not the {reduce} of the losses of their parts: {count} rows give {found[0]:.9g},"
            f" parts of {cut} and {count - cut} rows together {combined:.9g}{where}.\n  {fix}"
        )


def _combined(reduce: str, share: float, found: Sequence[float]) -> float:
    """Combine the results for two parts; the first has this share of the rows."""
    _, first, second = found
    return first + second if reduce == "sum" else share * first + (1 - share) * second


def _tried(losses: Losses, parameters: Sequence[Tensor], rows: Sequence[Tensor]) -> list[float] | None:
    """Run the loss at parameters that the caller did not pass; return None if it is not defined there."""
    with np.errstate(all="ignore"):
        try:
            found = losses(parameters, rows)
        except Exception:  # noqa: BLE001 (whatever it is, it is no fault of the parameters given)
            return None
    return found if all(map(math.isfinite, found)) else None


def _nearby(
    losses: Losses, given: Sequence[Tensor], rows: Sequence[Tensor], rng: np.random.Generator
) -> list[tuple[Sequence[Tensor], list[float]]]:
    """Return parameters near the given ones, and the losses there; none if it is not defined at any that was tried."""
    for far, low in itertools.product(STEPS, (-1, 0, None)):
        parameters = [_moved(t, far, rng, low=low) for t in given]
        found = _tried(losses, parameters, rows)
        if found is not None:
            return [(parameters, found)]
    return []


def _moved(t: Tensor, far: float, rng: np.random.Generator, *, low: int | None = -1) -> Tensor:
    """Move the elements of a tensor at random, by at most this multiple of their size; zeros by the size of the others, or 1.

    Parameters
    ----------
    low : {-1, 0, None}
        In both directions, upwards, or downwards.
    """
    if not spec_of_value(t).inexact:
        return t
    by = far * rng.uniform(*((-1, 0) if low is None else (low, 1)), t.shape)
    if t.is_complex():
        by = by * np.exp(2j * math.pi * rng.uniform(size=t.shape))
    size = ag.abs(t)
    others = int(ag.count_nonzero(t))
    size = ag.where(size == 0, float(ag.sum(size)) / others if others else 1.0, size)
    return t + ag.asarray(by, dtype=t.dtype, device=t.device) * size


def _noise(
    losses: Losses, found: list[float], made: Sequence[Spec], parameters: Sequence[Tensor], rows: Sequence[Tensor]
) -> float:
    """Return the rounding error of losses: how far they move in double precision, and with other last digits.

    The last digits are those of the coarsest dtype among inputs and intermediate values.
    """
    specs = [*made, *(spec_of_value(t) for t in (*parameters, *rows) if spec_of_value(t).inexact)]
    last = 8 * max(ag.finfo(spec.dtype).eps for spec in specs)
    rng = np.random.default_rng(0)
    changes: list[Callable[[Tensor], Tensor]] = [lambda t: t, _double, *[lambda t: _moved(t, last, rng)] * 4]
    with ag.no_grad():
        again = [_tried(losses, list(map(change, parameters)), list(map(change, rows))) for change in changes]
    return max((abs(x - y) for other in again if other for x, y in zip(found, other, strict=True)), default=0.0)


def _inexact_in(value: Tensor) -> list[Spec]:
    """Return the specs of a loss and of the intermediate values that are rounded."""
    nodes = ancestors([] if node_of(value) is None else [node_of(value)])
    specs = [spec_of_value(value), *itertools.chain.from_iterable(node.out_specs for node in nodes)]
    return [spec for spec in dict.fromkeys(specs) if spec.inexact]


def _double(t: Tensor) -> Tensor:
    return t if not spec_of_value(t).inexact else ag.astype(t, "complex128" if t.is_complex() else "float64")
