"""Samples of the operation that represents `agrad.func.scan` in programs."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

from agrad.ops.elementwise import sin, tanh
from agrad.ops.linalg import matmul
from agrad.ops.statistical import sum as sum_of
from agrad.testing.samples.data import Data, SampleLoop, add

Step = Callable[..., tuple[list[Any], list[Any]]]

_random = random.Random(1828)  # noqa: S311 (sampling, not secrets)


def real(*shape: int) -> Data:
    """Return real numbers of either sign, whose products over a few calls are neither large nor small."""
    values = (_random.choice((-1, 1)) * _random.uniform(0.4, 1.2) for _ in range(math.prod(shape)))
    return Data(shape, tuple(values), "float64")


def cplx(*shape: int) -> Data:
    """Return complex numbers with such real and imaginary parts."""
    return Data(shape, tuple(map(complex, real(*shape).values, real(*shape).values)), "complex128")


def add_loop(step: Step, carried: list[Data], rows: list[Data], rest: list[Data], length: int, **more: Any) -> None:
    """Add a loop."""
    operands = [*carried, *rows, *rest]
    add("func.scan", operands, SampleLoop(step, operands, len(carried), len(rows), length, **more))


def recurrent(carried: list[Any], rows: list[Any], rest: list[Any]) -> tuple[list[Any], list[Any]]:
    """A cell with two states, one of which only accumulates."""
    (h, total), (x,), (w,) = carried, rows, rest
    h = tanh(matmul(w, h) + x)
    return [h, total + sum_of(h * x)], [h * total]


def powers(carried: list[Any], _: list[Any], rest: list[Any]) -> tuple[list[Any], list[Any]]:
    """A running product, without rows and results."""
    return [carried[0] * rest[0] + 0.5], []


def mapped(_: list[Any], rows: list[Any], rest: list[Any]) -> tuple[list[Any], list[Any]]:
    """Results that depend on rows only; nothing is carried."""
    return [], [sin(rows[0]) * rest[0], sum_of(rows[1] ** 2)]


def exchanged(carried: list[Any], rows: list[Any], _: list[Any]) -> tuple[list[Any], list[Any]]:
    """Values that change places, and are returned unchanged."""
    return [carried[1], carried[0] * rows[0]], [carried[1], rows[0]]


add_loop(recurrent, [real(3), real()], [real(4, 3)], [real(3, 3)], 4)
add_loop(recurrent, [real(2), real()], [real(3, 2)], [real(2, 2)], 3, reverse=True, kept=(0, 1))
add_loop(powers, [real(2, 2)], [], [real(2)], 3, kept=(0,))
add_loop(mapped, [], [real(3, 2), real(3)], [real()], 3)
add_loop(exchanged, [real(2), real(2)], [real(3, 2)], [], 3, kept=(1,))
add_loop(exchanged, [cplx(2), cplx(2)], [cplx(2, 2)], [], 2, reverse=True)
add_loop(powers, [cplx(2)], [], [cplx()], 3, kept=(0,))
