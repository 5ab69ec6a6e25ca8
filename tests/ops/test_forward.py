"""Forward mode around the ops: operands of every sort, results without derivative, levels that close."""

from __future__ import annotations

import gc

import numpy as np
import pytest

import agrad as ag
from agrad.core.forward import level, tangent_of, with_tangent


def dual_of(values, tangent, at, backend, **kwargs):
    primal = ag.asarray(values, device=backend, **kwargs)
    return with_tangent(primal, ag.asarray(tangent, device=backend), at)


def test_raw_arrays_beside_duals(backend):
    raw = ag.asarray([10.0, 20.0], device=backend)._raw
    condition = ag.asarray([True, False], device=backend)._raw
    with level() as at:
        x = dual_of([1.0, 2.0], [3.0, 5.0], at, backend)
        cases = {
            "product": (x * raw, [30.0, 100.0]),
            "function": (ag.multiply(raw, x), [30.0, 100.0]),
            "quotient": (ag.divide(raw, x), [-30.0, -25.0]),
            "matmul": (ag.matmul(x, raw), 130.0),
            "concat": (ag.concat([x, raw]), [3.0, 5.0, 0.0, 0.0]),
            "stack": (ag.stack([raw, x]), [[0.0, 0.0], [3.0, 5.0]]),
            "where": (ag.where(condition, x, raw), [3.0, 0.0]),
            "maximum": (ag.maximum(x, raw), [0.0, 0.0]),
            "clip": (ag.clip(x, None, raw), [3.0, 5.0]),
            "setitem": (ag.setitem(raw, slice(0, 1), x[1:]), [5.0, 0.0]),
        }
        for name, (result, expected) in cases.items():
            assert tangent_of(result, at).tolist() == expected, name


def test_results_without_derivative_have_no_tangent(backend):
    with level() as at:
        x = dual_of([1.0, -2.0], [3.0, 5.0], at, backend)
        results = [x > 0, ag.isfinite(x), ag.argmax(x), ag.argsort(x), ag.nonzero(x)[0], ag.astype(x, "int64")]
        results += [ag.any(x > 0), ag.count_nonzero(x), ag.searchsorted(ag.asarray([0.0], device=backend), x)]
        assert [tangent_of(r, at) for r in results] == [None] * len(results)


def test_constant_functions_have_a_zero_tangent_or_none(backend):
    with level() as at:
        x = dual_of([1.2, -2.7], [3.0, 5.0], at, backend)
        for function in (ag.floor, ag.sign, ag.round, lambda x: x // 2.0):
            tangent = tangent_of(function(x), at)
            assert tangent is None or tangent.tolist() == [0.0, 0.0]


def test_a_tangent_is_cast_and_broadcast_to_its_result(backend):
    with level() as at:
        x = dual_of(np.float32(2.0), np.float32(3.0), at, backend)
        other = ag.asarray(np.array([[1.0], [4.0]]), device=backend)
        for result in (x + other, ag.maximum(x, other), ag.clip(other, x), x * other):
            tangent = tangent_of(result, at)
            assert tangent.shape == result.shape == (2, 1)
            assert tangent.dtype == result.dtype


def test_no_warnings_at_singular_points(backend):
    with level() as at:
        x = dual_of([0.0], [1.0], at, backend)
        assert tangent_of(ag.sqrt(x), at).tolist() == [float("inf")]


def test_tangents_vanish_with_their_level(backend):
    with level() as at:
        x = dual_of([1.0, 2.0], [3.0, 5.0], at, backend)
        y = x * x
        assert tangent_of(y, at).tolist() == [6.0, 20.0]
    with level() as later:
        z = y * 2
        assert tangent_of(z, at) is None
        assert tangent_of(z, later) is None
    assert tangent_of(y * 2, at) is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x * x * x,  # saves operands
        lambda x: ag.exp(x),  # saves its result
        lambda x: ag.prod(x),
        lambda x: ag.concat([x[1:], x]) * ag.concat([x, x[:1]]),  # saves a key
        lambda x: ag.sort(ag.where(x > 1.5, x * x, x)),
        lambda x: ag.stack(ag.unstack(x * x)),
    ],
)
def test_backward_after_the_level_has_closed(function, backend):
    """What was saved with tangents serves a later pass, recorded or not."""
    x = ag.asarray([1.0, 2.0], device=backend, requires_grad=True)
    plain = ag.autograd.grad(function(x).sum(), x, create_graph=True)[0]
    (second,) = ag.autograd.grad(plain.sum(), x)
    with level() as at:
        y = function(with_tangent(x, ag.asarray([3.0, 5.0], device=backend), at)).sum()
    (got,) = ag.autograd.grad(y, x, retain_graph=True)
    assert got.tolist() == plain.tolist()
    (got,) = ag.autograd.grad(y, x, create_graph=True)
    assert got.tolist() == plain.tolist()
    (got,) = ag.autograd.grad(got.sum(), x)
    assert got.tolist() == second.tolist()


def test_levels_do_not_mix_up_their_tangents(backend):
    """Perturbation confusion: d/dx (x * d/dy (x + y)) at 1 is 1."""
    one = ag.asarray(1.0, device=backend)
    with level() as outer:
        x = with_tangent(one, one, outer)
        with level() as inner:
            y = with_tangent(one, one, inner)
            inside = tangent_of(x + y, inner)
        result = x * inside
        assert tangent_of(result, outer).item() == 1.0


def test_a_graph_recorded_within_a_level_dies(backend):
    import weakref

    x = ag.asarray([1.0, 2.0], device=backend, requires_grad=True)
    with level() as at:
        y = ag.exp(with_tangent(x, ag.asarray([3.0, 5.0], device=backend), at))
    node = weakref.ref(y.grad_fn)
    del y
    gc.collect()
    assert node() is None


def test_no_rule_for_forward_mode(backend):
    name = f"mine.backward_only_{backend}"

    @ag.custom(name=name, vjp={"x": lambda g: g}, jvp=None, kernel=lambda xp, x: xp.positive(x))
    def backward_only(x, /):
        """No tangent."""

    with level() as at:
        x = dual_of([1.0], [1.0], at, backend)
        with pytest.raises(NotImplementedError, match=f"Trying to use forward AD with {name} that does not support it"):
            backward_only(x)
