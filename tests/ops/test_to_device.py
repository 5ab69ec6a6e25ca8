"""``to_device`` is an operation: gradients and tangents cross with it, to any order."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.core.forward import level, tangent_of, with_tangent

ROUTES = [("numpy", "strict"), ("strict", "numpy"), ("strict", "strict:device1"), ("strict:device1", "numpy")]


@pytest.fixture(autouse=True)
def _ready(strict_backend):
    """Both backends are there."""


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor._raw))


@pytest.mark.parametrize(("here", "there"), ROUTES)
@pytest.mark.parametrize("data", [[[1.0, 2.0], [3.0, 4.0]], 2.5, [1 + 2j, 3j], []])
def test_the_gradient_comes_back(data, here, there):
    x = ag.asarray(data, device=here, requires_grad=True)
    y = x.to_device(there)
    assert y.device == there
    assert y.dtype == ag.asarray(data, device=there).dtype
    np.testing.assert_array_equal(host(y), host(x))
    g = ag.asarray(np.asarray(data) * 3, device=there, dtype=y.dtype)
    for create_graph in (True, False):
        (got,) = ag.autograd.grad(y, x, g, retain_graph=True, create_graph=create_graph)
        assert got.device == here
        assert got.dtype == x.dtype
        np.testing.assert_array_equal(host(got), np.asarray(data) * 3)


@pytest.mark.parametrize(("here", "there"), ROUTES)
def test_one_graph_over_two_backends(here, there):
    x = ag.asarray([1.0, 2.0], device=here, requires_grad=True)
    w = ag.asarray([3.0, 5.0], device=there, requires_grad=True)
    y = (x * x).to_device(there) * w
    z = y.to_device(here) * x  # x**3 w
    z.sum().backward()
    assert x.grad.tolist() == [9.0, 60.0]
    assert x.grad.device == here
    assert w.grad.tolist() == [1.0, 8.0]
    assert w.grad.device == there


@pytest.mark.parametrize(("here", "there"), ROUTES)
def test_second_order(here, there):
    x = ag.asarray([1.0, 2.0], device=here, requires_grad=True)
    y = ((x * x).to_device(there) ** 2).to_device(here)  # x**4
    (first,) = ag.autograd.grad(y.sum(), x, create_graph=True)
    assert first.tolist() == [4.0, 32.0]
    (second,) = ag.autograd.grad(first.sum(), x)
    assert second.tolist() == [12.0, 48.0]
    assert second.device == here


@pytest.mark.parametrize(("here", "there"), ROUTES)
def test_tangents_cross(here, there):
    x = ag.asarray([1.0, 2.0], device=here, requires_grad=True)
    with level() as at:
        dual = with_tangent(x, ag.asarray([1.0, 10.0], device=here), at)
        result = dual.to_device(there) ** 2
        tangent = tangent_of(result, at)
        assert tangent.device == there
        assert tangent.tolist() == [2.0, 40.0]
        (back,) = ag.autograd.grad(tangent, x, ag.ones_like(tangent))
    assert back.tolist() == [2.0, 20.0]
    assert back.device == here


@pytest.mark.parametrize(("here", "there"), ROUTES)
def test_nested_tangents_cross(here, there):
    x = ag.asarray(3.0, device=here)
    one = ag.asarray(1.0, device=here)
    with level() as outer, level() as inner:
        dual = with_tangent(with_tangent(x, one, outer), one, inner)
        result = dual.to_device(there) ** 3
        assert tangent_of(tangent_of(result, inner), outer).item() == 18.0


def test_to_the_same_device_is_nothing():
    x = ag.asarray([1.0], requires_grad=True)
    assert x.to_device("numpy") is x


def test_backends_do_not_mix_by_themselves():
    x = ag.asarray([1.0], requires_grad=True)
    y = ag.asarray([1.0], device="strict")
    with pytest.raises(ag.BackendError, match=r"(?s)numpy and strict.*to_device"):
        x * y
