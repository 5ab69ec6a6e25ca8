"""Ways to lose a gradient: one list, here and in docs/leaving_the_graph.md, of how a value leaves the graph.

Each row runs while `backward` would be used and inside a transform of each mode. Where it is not recorded it raises or
warns, but for the rows that say by their name that they leave the graph, or that have no derivative to lose.
"""

from __future__ import annotations

import array
import cmath
import copy
import io
import math
import operator
import pickle
import re
import warnings
from pathlib import Path

import dask.array as da
import numpy as np
import pytest

import agrad as ag
from agrad.core.errors import LeavesGraphWarning

PAGE = Path(__file__).parents[2] / "docs" / "leaving_the_graph.md"


class Quantity(np.ndarray):
    """NumPy's arrays with functions of their own, as those of astropy and unyt."""

    def __array_ufunc__(self, ufunc, method, *inputs, **parameters):
        return NotImplemented


def numpy_function(result):
    class F(ag.Function):
        @staticmethod
        def forward(ctx, x):
            return result(x.numpy())

        @staticmethod
        def backward(ctx, g):
            return g

        @staticmethod
        def jvp(ctx, t):
            return t

    return F.apply


def assigned(target, key, value):
    target[key] = value
    return target


RECORDED, RAISES, WARNS = "recorded", "raises", "warns"
NAMED, STEP = "silent: it says so", "no derivative"

#: Per way: what it is, and what happens while `backward` would be used and inside a transform.
WAYS = {
    # -- numbers of Python
    "`float(x[0])`, `int`, `complex`": (lambda x: [float(x[0]), int(x[0]), complex(x[0])], WARNS, WARNS),
    "`math.sin(x[0])`, `cmath`, `math.floor`": (
        lambda x: [math.sin(x[0]), cmath.sin(x[0]), math.floor(x[0])],
        WARNS,
        WARNS,
    ),
    "`x[0].item()`": (lambda x: x[0].item(), NAMED, WARNS),
    "`x.tolist()`": (lambda x: x.tolist(), NAMED, WARNS),
    '`f"{x[0]}"`, `format`': (lambda x: [f"{x[0]}", f"{x[0]:.3f}", format(x)], NAMED, WARNS),
    '`"%f" % x[0]`': (lambda x: "%f" % x[0], WARNS, WARNS),  # noqa: UP031
    "`str`, `repr`, `print`": (lambda x: [str(x), repr(x)], NAMED, NAMED),
    "`round(x[0])`": (lambda x: round(x[0]), WARNS, WARNS),
    "`math.trunc`, `divmod`": (lambda x: math.trunc(x[0]), RAISES, RAISES),
    "`range(x[0])`, `operator.index`": (lambda x: operator.index(x[0]), RAISES, RAISES),
    "`if x[0] > 0`, `bool`, comparisons, `in`": (lambda x: [bool(x[0] > 0), bool(x[0]), 1.0 in x], STEP, STEP),
    "`len`, `hash`, `shape`": (lambda x: [len(x), hash(x), x.shape], STEP, STEP),
    "`sum(x)`, `max(x)`, `abs`, iteration": (lambda x: [sum(x), max(x), abs(x), list(x)], RECORDED, RECORDED),
    # -- arrays of NumPy
    "`x.numpy()`, `np.asarray(x)`, `np.array([x[0], 1.0])`": (lambda x: x.numpy(), RAISES, RAISES),
    "`np.array([x[0], x[1]], dtype=object)`": (lambda x: np.array([x[0], x[1]], dtype=object), RAISES, RAISES),
    "`np.float64(x[0])`, `np.fromiter(x, float)`, `array.array`": (
        lambda x: [np.float64(x[0]), np.fromiter(x, float), array.array("d", x)],
        WARNS,
        WARNS,
    ),
    "`a[0] = x[0]` with an array `a`": (lambda x: assigned(np.zeros(2), 0, x[0]), WARNS, WARNS),
    "`a[:] = x` with an array `a`": (lambda x: assigned(np.zeros(2), slice(None), x), RAISES, RAISES),
    "`a += x`, `np.add(a, x, out=a)`": (lambda x: np.add(np.ones(2), x, out=np.ones(2)), RAISES, RAISES),
    "`a + x`, `np.sin(x)`": (lambda x: [np.ones(2) + x, np.sin(x)], RECORDED, RECORDED),
    "`np.sum(x)`, `np.where`, `np.linalg.norm`": (
        lambda x: [np.sum(x), np.where(x > 0, x, 1.0), np.linalg.norm(x)],
        RECORDED,
        RECORDED,
    ),
    "`np.random.normal(x)`": (lambda x: np.random.default_rng(0).normal(x), RAISES, RAISES),
    "`np.ma.log(x)`, `masked * x`": (lambda x: np.ma.log(x), RAISES, RAISES),
    "`x * masked`, `x * objects`, `x * np.matrix`": (lambda x: x * np.array([1, 2], dtype=object), RAISES, RAISES),
    "`x * quantity` of astropy or unyt": (lambda x: x * np.ones(2).view(Quantity), RAISES, RAISES),
    "`np.from_dlpack(x)`, `torch.from_dlpack`": (np.from_dlpack, RAISES, RAISES),
    # -- functions of Dask
    "`da.where(d > 0, x, 1.0)`, `da.stack`, `da.from_array(x)`, `x_labelled.chunk()`": (
        lambda x: da.where(da.ones(2) > 0, x, 1.0),
        RAISES,
        RAISES,
    ),
    '`da.map_blocks(f, d, x)`; `xr.apply_ufunc(dask="parallelized")` and `xr.map_blocks` without `import agrad.xarray`': (
        lambda x: da.map_blocks(np.multiply, da.ones(2), x),
        RAISES,
        RAISES,
    ),
    "`d.map_blocks(lambda b: b * x)`, `dask.delayed(f)(x)`, once computed": (
        lambda x: ag.asarray(da.ones(2).map_blocks(lambda b: b * x, dtype=float)).compute(),
        RAISES,
        "warns or raises",
    ),
    # -- copies
    "`copy.copy(x)`, `x.clone()`": (lambda x: [copy.copy(x), x.clone()], RECORDED, RECORDED),
    "`copy.deepcopy(x)` of a result": (lambda x: copy.deepcopy(x * 2), RAISES, RAISES),
    "`copy.deepcopy(x)` of a leaf": (copy.deepcopy, NAMED, "warns or raises"),
    "`pickle.dumps(x)`": (lambda x: [pickle.dumps(x), pickle.dumps(x * 2)], NAMED, WARNS),
    "`ag.save({'x': x}, file)`": (lambda x: ag.save({"x": x}, io.BytesIO()), NAMED, WARNS),
    # -- tensors made of tensors
    "`ag.tensor(x)`, `ag.tensor([x[0], x[1]])`": (lambda x: ag.tensor([[x[0], 1.0], [x[1], 2.0]]), WARNS, WARNS),
    "`ag.Tensor([x[0], x[1]])`, `x.new_tensor([x[0]])`": (
        lambda x: [ag.Tensor([x[0], x[1]]), x.new_tensor([x[0]])],
        WARNS,
        WARNS,
    ),
    "`ag.asarray([x[0], 1.0])`, `ag.stack`": (lambda x: ag.asarray([x[0], 1.0]), RECORDED, RECORDED),
    "`ag.full((2,), x[0])`, `full_like`, `x.new_full`": (lambda x: ag.full((2,), x[0]), RECORDED, RECORDED),
    "`y[0] = x[0]`, `y.fill_(x[0])`, `y.copy_(x)`": (lambda x: assigned(ag.zeros(2), 0, x[0]), RECORDED, RECORDED),
    "`ag.arange(x[0])`": (lambda x: ag.arange(x[1]), WARNS, WARNS),
    "`ag.linspace(x[0], x[1], 3)`": (lambda x: ag.linspace(x[0], x[1], 3), RAISES, RAISES),
    "`ag.zeros_like(x)`, `ones_like`, `rand_like`": (ag.zeros_like, STEP, STEP),
    "`ag.zeros(x[0])`, `ag.eye(x[0])`": (lambda x: ag.eye(x[0]), RAISES, RAISES),
    "`x.int()`, `ag.astype(x, 'int64')`, `argmax`, `sign`": (lambda x: [x.int(), ag.argmax(x)], STEP, STEP),
    "`x.to_device(...)`": (lambda x: x.to_device("dask"), RECORDED, RECORDED),
    # -- parameters that have no derivative
    "`softplus(y, beta=x[0])`, `leaky_relu`, `elu`, `dropout(p=)`": (
        lambda x: ag.nn.functional.softplus(ag.ones(2), beta=x[0]),
        RAISES,
        RAISES,
    ),
    "`ag.linalg.vector_norm(y, ord=x[0])`, `norm`, `cdist(p=)`": (
        lambda x: ag.linalg.vector_norm(ag.ones(2), ord=x[1]),
        RAISES,
        RAISES,
    ),
    "`pad(y, (1, 1), value=x[0])`, `quantile(y, q=x[0])`": (
        lambda x: ag.nn.functional.pad(ag.ones(2), (1, 1), value=x[0]),
        RAISES,
        RAISES,
    ),
    "`ag.clip(y, min=x[0])`": (lambda x: ag.clip(ag.zeros(2), x[0], 9.0), RECORDED, RECORDED),
    "`ag.var(y, correction=x[0])`": (lambda x: ag.var(ag.arange(5.0), correction=x[0]), RAISES, RAISES),
    # -- a `Function`
    "arrays and floats that `Function.forward` returns": (
        lambda x: [numpy_function(np.copy)(x), numpy_function(lambda a: a.tolist())(x)],
        RECORDED,
        RECORDED,
    ),
    "a `Function` that returns nothing with a derivative": (numpy_function(lambda a: 3), RAISES, RAISES),
    # -- asked for by name
    "`x.detach()`, `x.data`": (lambda x: [x.detach(), x.data], NAMED, NAMED),
    "`with ag.no_grad():`": (lambda x: ag.no_grad()(lambda: x.detach() * 2)(), NAMED, NAMED),
}


def followed(value):
    return isinstance(value, ag.Tensor) and (value.requires_grad or bool(value._tangents))


def happens(way, x):
    """Run one way and say what happened."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            result = way(x)
        except (TypeError, RuntimeError, BufferError, ValueError):
            return RAISES
    if any(w.category is LeavesGraphWarning for w in caught):
        return WARNS
    parts = result if isinstance(result, list) else [result]
    return RECORDED if any(map(followed, parts)) and not any(w.category is UserWarning for w in caught) else "silent"


def expected(verdict):
    return {NAMED: {"silent"}, STEP: {"silent"}, "warns or raises": {WARNS, RAISES}}.get(verdict, {verdict})


@pytest.mark.parametrize(("way", "eager", "inside"), WAYS.values(), ids=WAYS)
def test_ways_to_lose_a_gradient(way, eager, inside):
    x = ag.tensor([0.5, 2.5], requires_grad=True)
    found = []
    if way is not copy.deepcopy:  # of a leaf: a new one
        assert happens(way, x) in expected(eager)

    def tracked(x):
        found.append(happens(way, x))
        return (x * 0).sum()

    ag.func.grad(tracked)(x.detach())
    ag.func.jvp(tracked, (x.detach(),), (ag.ones(2),))
    ag.func.vjp(tracked, x.detach())
    ag.func.hessian(lambda x: (tracked(x), (x * x * x).sum())[1])(x.detach()) if inside in (RAISES, WARNS) else None
    assert set(found) <= expected(inside) | ({RAISES} if inside == WARNS else set())
    with ag.no_grad():  # recording is off: nothing to lose
        if inside == WARNS:
            assert happens(way, x) not in (WARNS, RAISES)


@pytest.mark.parametrize("name", ["sum", "amax"])
def test_values_without_a_derivative_to_take_are_free(name):
    """Neither warning nor error where nothing is recorded, nor for tensors that a transform does not follow."""
    y = ag.tensor([0.5, 2.5])

    def f(x):
        values = [y[0].item(), *y.tolist(), float(y[1]), f"{y[0]:.2f}", y.numpy()[0]]
        pickle.loads(pickle.dumps(copy.deepcopy(y)))
        return (x * sum(v for v in values if not isinstance(v, str))).sum()

    ag.func.grad(f)(y)
    ag.func.jvp(f, (y,), (y,))
    x = y.detach().requires_grad_()
    assert x.tolist() == [0.5, 2.5]
    assert (x * 2)[0].item() == 1.0
    assert f"{(x * 2)[0]:.1f}" == "1.0"


def test_mapped_values_do_not_leave():
    for way in ("`x[0].item()`", "`x.tolist()`", "`float(x[0])`, `int`, `complex`"):
        with pytest.raises(RuntimeError, match="vmap"):
            ag.func.vmap(WAYS[way][0])(ag.ones((3, 2)))


def test_numpy_values_in_forward_mode_keep_their_words():
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        ag.func.jvp(np.asarray, (ag.ones(2),), (ag.ones(2),))


def test_the_page_has_the_same_rows():
    rows = re.findall(r"^\| (.+?) \| ([^|]+?) \| ([^|]+?) \|", PAGE.read_text(), re.MULTILINE)
    table = {name: (eager, inside) for name, eager, inside in rows if name not in ("way", "---")}
    assert table == {name: (eager, inside) for name, (_, eager, inside) in WAYS.items()}


def test_no_row_is_silent_that_does_not_say_so():
    verdicts = {v for _, eager, inside in WAYS.values() for v in (eager, inside)}
    assert verdicts <= {RECORDED, RAISES, WARNS, NAMED, STEP, "warns or raises"}
