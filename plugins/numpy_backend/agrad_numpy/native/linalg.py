"""Linear algebra of matrices of a few elements, unrolled; matrices too near a singular one are left to NumPy.

LAPACK raises at an exact zero, which depends on rounding. So each function here also reports whether a pivot was lost
in rounding: NumPy then runs the call again, and raises or returns its own numbers.
"""

from __future__ import annotations

import numpy as np

from agrad_numpy.native.ir import Arithmetic

#: Pivots smaller than this many units in the last place of the largest element are lost.
LOST = 64

Matrix = list[list[str]]


def _largest(e: Arithmetic, values: list[str]) -> str:
    """Return the largest size among values; NaN where one is."""
    found = e.called("fabs", values[0])
    for value in values[1:]:
        found = e.maximum(e.called("fabs", value), found)
    return found


def _is_lost(e: Arithmetic, pivot: str, largest: str, lost: str) -> str:
    """Return whether this pivot or one before is too small, or no number."""
    least = e.multiply(largest, e.number(LOST * float(np.finfo(e.dtype).eps)))
    return e.either(lost, e.compare("ule", pivot, least))


def _eliminated(e: Arithmetic, a: Matrix, b: Matrix) -> tuple[Matrix, list[str], str]:
    """Return the rows of two matrices, eliminated with the largest pivot of each column; which rows were exchanged, and whether precision was lost."""
    count, width = len(a), len(b[0]) if b else 0
    rows = [[*left, *(b[i] if b else ())] for i, left in enumerate(a)]
    swaps: list[str] = []
    largest = _largest(e, [value for row in a for value in row])
    lost = "false"
    for column in range(count):
        for below in range(column + 1, count):
            size, other = (e.called("fabs", rows[i][column]) for i in (column, below))
            swap = e.compare("ogt", other, size)
            swaps.append(swap)
            for at in range(column, count + width):
                upper, lower = rows[column][at], rows[below][at]
                rows[column][at], rows[below][at] = e.choose(swap, lower, upper), e.choose(swap, upper, lower)
        lost = _is_lost(e, e.called("fabs", rows[column][column]), largest, lost)
        for below in range(column + 1, count):
            factor = e.negative(e.divide(rows[below][column], rows[column][column]))
            for at in range(column + 1, count + width):
                rows[below][at] = e.fused(factor, rows[column][at], rows[below][at])
    return rows, swaps, lost


def determinant(e: Arithmetic, a: Matrix) -> tuple[str, str]:
    """Return the determinant; and whether it is lost."""
    rows, swaps, lost = _eliminated(e, a, [])
    found = rows[0][0]
    for at in range(1, len(a)):
        found = e.multiply(found, rows[at][at])
    for swap in swaps:
        found = e.choose(swap, e.negative(found), found)
    return found, lost


def solved(e: Arithmetic, a: Matrix, b: Matrix) -> tuple[Matrix, str]:
    """Return the solution of ``a x = b``; and whether it is lost."""
    count, width = len(a), len(b[0])
    rows, _, lost = _eliminated(e, a, b)
    found: Matrix = [[] for _ in range(count)]
    for row in reversed(range(count)):
        for at in range(width):
            value = rows[row][count + at]
            for other in range(row + 1, count):
                value = e.fused(e.negative(rows[row][other]), found[other][at], value)
            found[row].append(e.divide(value, rows[row][row]))
    return found, lost


def triangular(e: Arithmetic, a: Matrix, b: Matrix, *, lower: bool, unit: bool) -> tuple[Matrix, str]:
    """Return the solution of ``a x = b``, using only a triangle of a; and whether it does not exist."""
    count, lost = len(a), "false"
    found: Matrix = [[] for _ in range(count)]
    for row in range(count) if lower else reversed(range(count)):
        known = range(row) if lower else range(row + 1, count)
        if not unit:  # NaN is a pivot
            lost = e.either(lost, e.compare("oeq", a[row][row], e.number(0.0)))
        for at, value in enumerate(b[row]):
            total = value
            for other in known:
                total = e.fused(e.negative(a[row][other]), found[other][at], total)
            found[row].append(total if unit else e.divide(total, a[row][row]))
    return found, lost


def cholesky(e: Arithmetic, a: Matrix) -> tuple[Matrix, str]:
    """Return the lower factor of a symmetric matrix, reading its lower half; and whether precision was lost."""
    count = len(a)
    zero = e.number(0.0)
    found = [[zero] * count for _ in range(count)]
    largest = _largest(e, [a[i][j] for i in range(count) for j in range(i + 1)])
    lost = "false"
    for column in range(count):
        square = a[column][column]
        for at in range(column):
            square = e.fused(e.negative(found[column][at]), found[column][at], square)
        lost = _is_lost(e, square, largest, lost)
        found[column][column] = pivot = e.called("sqrt", square)
        for row in range(column + 1, count):
            value = a[row][column]
            for at in range(column):
                value = e.fused(e.negative(found[row][at]), found[column][at], value)
            found[row][column] = e.divide(value, pivot)
    return found, lost
