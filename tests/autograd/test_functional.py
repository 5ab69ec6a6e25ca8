"""autograd.functional: values, structure, create_graph and strict, with PyTorch's messages."""

from __future__ import annotations

import numpy as np
import pytest

import agrad as ag
from agrad.autograd.functional import hessian, hvp, jacobian, jvp, vhp, vjp


def t(*values, **options):
    return ag.tensor(list(values), **options)


X = t(1.0, 2.0)
HOW = [{}, {"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}]


def test_products(close):
    y, product = vjp(lambda a, b: (a * b, a.sum()), (X, t(3.0, 4.0)), (t(1.0, 10.0), ag.tensor(100.0)))
    close(y[0], [3.0, 8.0])
    close(y[1], 3.0)
    close(product[0], [103.0, 140.0])
    close(product[1], [1.0, 20.0])
    y, product = jvp(lambda a, b: (a * b, a.sum()), (X, t(3.0, 4.0)), (t(1.0, 0.0), t(0.0, 1.0)))
    close(product[0], [3.0, 2.0])
    close(product[1], 1.0)
    close(vjp(lambda x: (x**2).sum(), X)[1], [2.0, 4.0])  # one output: v may be left out
    close(jvp(lambda x: ag.concat([x, x * x]), t(3.0))[1], [1.0, 6.0])
    for product in (hvp, vhp):
        y, h = product(lambda x: (x**3).sum() + x[0] * x[1], X, t(1.0, 10.0))
        close(y, 11.0)
        close(h, [6.0 + 10.0, 120.0 + 1.0])
        _, (a, b) = product(lambda a, b: (a * a * b).sum(), (t(2.0), t(3.0)), (t(1.0), t(1.0)))
        close(a, [10.0])
        close(b, [4.0])
    close(hvp(lambda x: x**3, t(2.0))[1], [12.0])


@pytest.mark.parametrize("how", HOW)
def test_jacobian(how, close):
    close(jacobian(lambda x: x * x.sum(), X, **how), [[4.0, 1.0], [2.0, 5.0]])
    rows = jacobian(lambda a, b: (a * b, ag.ones(3), a.sum()), (X, t(3.0, 4.0)), **how)
    close(rows[0][0], np.diag([3.0, 4.0]))
    close(rows[0][1], np.diag([1.0, 2.0]))
    close(rows[1][0], np.zeros((3, 2)))
    close(rows[2][0], [1.0, 1.0])
    close(rows[2][1], [0.0, 0.0])
    assert isinstance(jacobian(lambda x: x, (X,), **how), tuple)
    assert jacobian(lambda x: x, ag.zeros((0,)), **how).shape == (0, 0)


@pytest.mark.parametrize(
    "how", [{}, {"vectorize": True}, {"vectorize": True, "outer_jacobian_strategy": "forward-mode"}]
)
def test_hessian(how, close):
    close(hessian(lambda x: (x**3).sum() + x[0] * x[1], X, **how), [[6.0, 1.0], [1.0, 12.0]])
    h = hessian(lambda a, b: (a * a).sum() * b, (X, ag.tensor(3.0)), **how)
    close(h[0][0], np.diag([6.0, 6.0]))
    close(h[0][1], [2.0, 4.0])
    close(h[1][0], [2.0, 4.0])
    close(h[1][1], 0.0)
    close(hessian(lambda x: x.sum(), X, **how), np.zeros((2, 2)))


class Host(ag.Function):
    """Computes outside of agrad: cannot be mapped over."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return ag.asarray(x.numpy() ** 2)

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return ag.asarray(2 * x.detach().numpy() * g.detach().numpy())


def test_without_vectorize_rows_come_one_after_another(close):
    close(jacobian(Host.apply, X), np.diag([2.0, 4.0]))
    with pytest.raises(RuntimeError, match="being mapped over"):
        jacobian(Host.apply, X, vectorize=True)


def test_create_graph(close):
    x = t(1.0, 2.0, requires_grad=True)
    w = ag.tensor(2.0, requires_grad=True)
    f = lambda x: w * x**3
    for found in (
        vjp(f, x, ag.ones(2)),
        jvp(f, x, ag.ones(2)),
        (f(x).detach(), jacobian(f, x)),
        hvp(lambda x: f(x).sum(), x, ag.ones(2)),
        (f(x).detach(), hessian(lambda x: f(x).sum(), x)),
    ):
        assert not found[0].requires_grad
        assert not found[1].requires_grad
    for product in (vjp, jvp):
        y, p = product(f, x, ag.ones(2), create_graph=True)  # 3 w x^2
        close(ag.autograd.grad(p.sum(), (x, w), retain_graph=True)[0], [12.0, 24.0])
        close(ag.autograd.grad(y.sum(), x)[0], [6.0, 24.0])
    for how in ({}, {"vectorize": True}):
        close(ag.autograd.grad(jacobian(f, x, create_graph=True, **how).sum(), w)[0], 15.0)
        close(ag.autograd.grad(hessian(lambda x: f(x).sum(), x, create_graph=True, **how).sum(), x)[0], [12.0, 12.0])
    _, h = hvp(lambda x: f(x).sum(), x, ag.ones(2), create_graph=True)
    close(ag.autograd.grad(h.sum(), x)[0], [12.0, 12.0])
    v = ag.ones(2, requires_grad=True)
    close(ag.autograd.grad(jvp(f, x.detach(), v, create_graph=True)[1].sum(), v)[0], [6.0, 24.0])
    assert x.grad is None


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: vjp(lambda x: x * 2, X),
            RuntimeError,
            "The vector v can only be None if the user-provided function returns a single Tensor with a single element.",
        ),
        (lambda: vjp(lambda x: x * 2, X, t(1.0)), RuntimeError, "v has invalid size: should be (2,) but got (1,)."),
        (lambda: vjp(lambda x: (x, x), X, (X, t(1.0))), RuntimeError, "Entry 1 in v has invalid size"),
        (lambda: vjp(lambda x: (x, x), X, X), RuntimeError, "v is a tuple of invalid length: should be 2 but got 1."),
        (lambda: vjp(lambda x: x, X, (X, X)), RuntimeError, "The given v should contain a single Tensor."),
        (
            lambda: jvp(lambda x: x * 2, X),
            RuntimeError,
            "The vector v can only be None if the input to the user-provided function is a single Tensor with a single element.",
        ),
        (
            lambda: hessian(lambda x: x * 2, X),
            RuntimeError,
            "The Tensor returned by the function given to hessian should contain a single element",
        ),
        (
            lambda: hessian(lambda x: (x.sum(), x), X),
            RuntimeError,
            "The function given to hessian should return a single Tensor",
        ),
        (
            lambda: hvp(lambda x: x * 2, X, X),
            RuntimeError,
            "The Tensor returned by the function given to hvp should contain a single element",
        ),
        (lambda: vhp(lambda x: x.sum(), X), RuntimeError, "The vector v can only be None if the input"),
        (
            lambda: jacobian(lambda x: x * 2, 3.0),
            TypeError,
            "The inputs given to jacobian must be either a Tensor or a tuple of Tensors but the given inputs has type <class 'float'>.",
        ),
        (lambda: jacobian(lambda x: x * 2, (X, 3.0)), TypeError, "but the value at index 1 has type <class 'float'>."),
        (
            lambda: jacobian(lambda x: 3.0, X),
            TypeError,
            "The outputs of the user-provided function given to jacobian must be either a Tensor or a tuple of Tensors",
        ),
        (
            lambda: jacobian(lambda x: ag.ones(2), X, strict=True),
            RuntimeError,
            "Output 0 of the user-provided function does not require gradients. The outputs must be computed in a differentiable manner from the input when running in strict mode.",
        ),
        (
            lambda: vjp(lambda x, y: (x * 2).sum(), (X, X), strict=True),
            RuntimeError,
            "The output of the user-provided function is independent of input 1. This is not allowed in strict mode.",
        ),
        (
            lambda: jacobian(lambda x, y: (x * y, x * 2), (X, X), strict=True),
            RuntimeError,
            "Output 1 of the user-provided function is independent of input 1. This is not allowed in strict mode.",
        ),
        (
            lambda: jacobian(lambda x: x * 2, X, strict=True, vectorize=True),
            RuntimeError,
            "`strict=True` and `vectorized=True` are not supported together.",
        ),
        (
            lambda: jacobian(lambda x: x * 2, X, strict=True, create_graph=True),
            RuntimeError,
            "The jacobian of the user-provided function is independent of input 0. This is not allowed in strict mode when create_graph=True.",
        ),
        (
            lambda: jvp(lambda x: x * 2, X, X, strict=True, create_graph=True),
            RuntimeError,
            "The jacobian of the user-provided function is independent of input 0.",
        ),
        (
            lambda: hessian(lambda x: x.sum(), X, strict=True),
            RuntimeError,
            "While computing the hessian, found that the jacobian of the user-provided function with respect to input 0 is independent of the input.",
        ),
        (
            lambda: hvp(lambda x: x.sum(), X, X, strict=True),
            RuntimeError,
            "found that the jacobian of the user-provided function with respect to input 0 is independent",
        ),
        (
            lambda: jacobian(lambda x: x, X, strategy="forward-mode"),
            NotImplementedError,
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian isonly implemented for `vectorize=True`.",
        ),
        (
            lambda: jacobian(lambda x: x, X, strategy="foo"),
            AssertionError,
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint:',
        ),
        (
            lambda: jacobian(lambda x: x, X, create_graph=True, vectorize=True, strategy="forward-mode"),
            NotImplementedError,
            '`create_graph=True` and `strategy="forward-mode"` are not supported together',
        ),
        (
            lambda: jacobian(lambda x: x, X, strict=True, vectorize=True, strategy="forward-mode"),
            RuntimeError,
            "are not supported together",
        ),
        (
            lambda: hessian(lambda x: x.sum(), X, outer_jacobian_strategy="foo"),
            AssertionError,
            'Expected strategy to be either "forward-mode" or "reverse-mode".',
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)


def test_strict_lets_pass_what_depends(close):
    close(jacobian(lambda x: x**3, X, strict=True), np.diag([3.0, 12.0]))
    close(jvp(lambda x: x**3, X, X, strict=True, create_graph=True)[1], [3.0, 24.0])
    close(hessian(lambda x: (x**3).sum(), X, strict=True), np.diag([6.0, 12.0]))
    close(vhp(lambda x: (x**3).sum(), X, X, strict=True)[1], [6.0, 24.0])
