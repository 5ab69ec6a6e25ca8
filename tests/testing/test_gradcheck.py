from __future__ import annotations

import re

import numpy as np
import pytest

import agrad as ag
from agrad.autograd import Function, gradcheck, gradgradcheck
from agrad.testing import GradcheckError


def make_square(factor, *, by_g=True):
    """x * x with a derivative of factor * x, multiplied by the cotangent or not."""

    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x * factor if by_g else x * factor

    return Square.apply


right, wrong = make_square(2.0), make_square(2.1)


def test_it_is_where_pytorch_has_it():
    import agrad.autograd.gradcheck  # noqa: F401
    from agrad.autograd.gradcheck import GradcheckError as same

    assert same is GradcheckError
    assert ag.autograd.gradcheck is gradcheck
    assert ag.testing.gradgradcheck is gradgradcheck
    assert issubclass(GradcheckError, RuntimeError)


FUNCTIONS = {
    "one number": (lambda x: x**3, [0.5]),
    "a matrix": (lambda x: x @ x, [[0.5, 1.5], [2.0, -1.0]]),
    "0-d": (lambda x: ag.exp(x), 0.5),
    "zero-size": (lambda x: x * 2, []),
    "complex": (lambda z: z * z, [0.5 + 1j, -1.0 + 0.2j]),
    "not holomorphic": (lambda z: ag.conj(z) * z * z, [0.5 + 1j, -1.0 + 0.2j]),
    "complex to real": (lambda z: ag.abs(z), [0.5 + 1j, -1.0 + 0.2j]),
    "real to complex": (lambda x: x * (1 + 2j), [0.5, 1.0]),
    "several results": (lambda x: (ag.sin(x), x.sum(), x > 0), [0.5, 1.0]),
    "a list": (lambda x: [ag.sin(x), x * x], [0.5, 1.0]),
    "one unused": (lambda x: (x * x, ag.ones((2,), device=x.device)), [0.5, 1.0]),
}


@pytest.mark.parametrize("fast", [False, True])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_right(name, fast, backend):
    function, data = FUNCTIONS[name]
    x = ag.asarray(data, device=backend, requires_grad=True)
    assert gradcheck(function, x, fast_mode=fast, check_forward_ad=True, check_grad_dtypes=True)
    assert gradcheck(function, (x,), fast_mode=fast, check_undefined_grad=False)
    assert gradgradcheck(function, x, fast_mode=fast, check_fwd_over_rev=True)
    assert x.grad is None


def test_several_inputs(backend):
    x = ag.asarray([0.5, 1.0], device=backend, requires_grad=True)
    z = ag.asarray([[1j, 2.0]], device=backend, requires_grad=True)
    constant = ag.asarray([3.0, 4.0], device=backend)

    def function(x, z, constant, number):
        return x * z + constant * number, ag.sum(x)

    assert gradcheck(function, (x, z, constant, 2.0), check_forward_ad=True)
    assert gradcheck(function, [x, z, constant, 2.0], check_forward_ad=True, fast_mode=True)
    assert gradgradcheck(function, (x, z, constant, 2.0), check_fwd_over_rev=True)
    cotangents = (ag.asarray([[1.0 + 0j, 2.0]], device=backend), ag.asarray(2.0, device=backend))
    assert gradgradcheck(function, (x, z, constant, 2.0), cotangents)


def test_an_input_with_history():
    x = ag.asarray([0.5, 1.0], requires_grad=True)
    assert gradcheck(lambda y: y**3, x * 2)


@pytest.mark.parametrize("fast", [False, True])
def test_a_wrong_derivative(fast, backend):
    x = ag.asarray([0.5, -1.0], device=backend, requires_grad=True)
    assert gradcheck(right, x, fast_mode=fast)
    with pytest.raises(GradcheckError, match="Jacobian mismatch for output 0 with respect to input 0"):
        gradcheck(wrong, x, fast_mode=fast)
    assert gradcheck(wrong, x, raise_exception=False, fast_mode=fast) is False
    assert gradcheck(wrong, x, rtol=0.1, fast_mode=fast)
    assert gradcheck(wrong, x, atol=0.2, fast_mode=fast)


def test_the_message_shows_both_jacobians_and_the_worst_entry():
    x = ag.tensor([[0.5, -1.0]], requires_grad=True)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(wrong, x)
    text = str(caught.value)
    assert "numerical:[[ 1,  0],\n [ 0, -2]]\n" in text
    assert re.search(r"analytical:\[\[1\.05, +-?0\],\n \[ *-?0, -2\.1\]\]\n", text)
    assert "worst entry is at element (0, 1) of the input and (0, 1) of the output" in text
    assert "analytical -2.1" in text


def test_the_message_for_complex_numbers():
    """A row per input, two columns per output: for the cotangents 1 and i."""
    z = ag.tensor([0.5 + 1j], requires_grad=True)
    with pytest.raises(GradcheckError) as caught:
        gradcheck(right, z)  # the derivative is not conjugated
    text = str(caught.value)
    assert "numerical:[[1-2j, 2+1j]]" in text
    assert "analytical:[[ 1+2j, -2+1j]]" in text


def test_which_output_and_input():
    x, y = ag.tensor([0.5], requires_grad=True), ag.tensor([1.5], requires_grad=True)
    with pytest.raises(GradcheckError, match="for output 1 with respect to input 2"):
        gradcheck(lambda x, n, y: (x * y, x * n + wrong(y)), (x, 2, y))


def test_a_wrong_second_derivative(backend):
    class Cube(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * 3 * (x * x).detach()  # right, but for its own derivative

    x = ag.asarray([0.5, -1.0], device=backend, requires_grad=True)
    assert gradcheck(Cube.apply, x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(Cube.apply, x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradgradcheck(Cube.apply, x, fast_mode=True)
    assert gradgradcheck(Cube.apply, x, raise_exception=False) is False


def test_a_wrong_forward_derivative(backend):
    @ag.custom(
        name=f"mine.gradcheck_{backend}",
        vjp={"x": lambda g, x: 2 * g * x},
        jvp=lambda t_x, x: 2.1 * t_x * x,
        kernel=lambda xp, x: xp.square(x),
    )
    def square(x, /):
        """Right backward, wrong forward."""

    x = ag.asarray([0.5, -1.0], device=backend, requires_grad=True)
    assert gradcheck(square, x)
    for fast in (False, True):
        with pytest.raises(GradcheckError, match="Jacobian computed with forward mode mismatch for output 0"):
            gradcheck(square, x, check_forward_ad=True, fast_mode=fast)
        with pytest.raises(GradcheckError, match="forward mode"):
            gradcheck(square, x, check_forward_ad=True, check_backward_ad=False, fast_mode=fast)


def test_a_gradient_that_gets_lost(backend):
    x = ag.asarray([0.5, -1.0], device=backend, requires_grad=True)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(lambda x: x.detach() * 2, x)
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(lambda x: x * x.detach(), x)


def test_a_backward_that_ignores_its_cotangent():
    x = ag.tensor(0.5, requires_grad=True)
    with pytest.raises(GradcheckError, match="backward not multiplied by grad_output"):
        gradcheck(make_square(2.0, by_g=False), x)


def test_a_backward_that_is_not_deterministic():
    calls = iter(range(1000))

    class Unsteady(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * (1 + 1e-7 * next(calls))

    x = ag.tensor([0.5], requires_grad=True)
    with pytest.raises(GradcheckError, match="Backward is not reentrant"):
        gradcheck(Unsteady.apply, x)
    assert gradcheck(Unsteady.apply, x, nondet_tol=1e-5)


def test_undefined_cotangents():
    seen = []

    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            seen.append((g is None, h is None))
            return (0 if g is None else g * 2) + (0 if h is None else h * 3)

    x = ag.tensor([0.5], requires_grad=True)
    assert gradcheck(Two.apply, x)
    assert {(True, False), (False, True)} <= set(seen)
    seen.clear()
    assert gradcheck(Two.apply, x, check_undefined_grad=False)
    assert set(seen) == {(False, False)}


def test_single_precision_is_warned_of():
    x = ag.tensor([0.5, 1.0], dtype=ag.float32, requires_grad=True)
    with pytest.warns(UserWarning, match="Input #0 requires gradient and is not a double precision"):
        assert gradcheck(ag.sin, x, eps=1e-2, atol=1e-3)
    z = ag.tensor([0.5j], dtype=ag.complex64, requires_grad=True)
    with pytest.warns(UserWarning, match="not a double precision"):
        assert gradcheck(ag.sin, z, eps=1e-2, atol=1e-2)


def test_nothing_to_check():
    with pytest.raises(ValueError, match="at least one input tensor to require gradient"):
        gradcheck(ag.sin, ag.tensor([1.0]))
    with pytest.raises(ValueError, match="check_forward_ad or check_backward_ad"):
        gradcheck(ag.sin, ag.tensor([1.0], requires_grad=True), check_backward_ad=False)


def test_a_kink_is_found_out():
    """At 0 the central difference of abs is its convention, beside 0 it is not."""
    assert gradcheck(ag.abs, ag.tensor([0.0], requires_grad=True))
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(ag.abs, ag.tensor([1e-7], requires_grad=True))


def test_infinite_slopes_are_no_match():
    x = ag.tensor([1.0], requires_grad=True)

    class Infinite(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(Infinite.apply, x)


def test_containers(backend):
    x = ag.asarray([0.5, -1.0], device=backend, requires_grad=True)
    w = ag.asarray([2.0, 1.5], device=backend, requires_grad=True)

    def f(inputs, scale):
        return {"y": inputs["x"] * inputs["w"][0] * scale}

    assert gradcheck(f, ({"x": x, "w": [w]}, x), check_forward_ad=True, check_batched_grad=True)  # x in two places
    assert ag.autograd.gradgradcheck(f, ({"x": x, "w": [w]}, w))
    with pytest.raises(GradcheckError, match="Jacobian mismatch"):
        gradcheck(lambda inputs: {"y": inputs["x"] * inputs["x"].detach()}, ({"x": x},))


# -- results without a history ----------------------------------------------------------------------------------------

LOST = {
    "detached": lambda x: (x * 2).detach(),
    "an array": lambda x: np.sin(x.detach().numpy()),
    "a scalar of NumPy": lambda x: np.sin(x.detach().numpy()).sum(),
    "a float": lambda x: x.sum().item(),
    "a list of floats": lambda x: x.tolist(),
    "beside a right one": lambda x: (x * 2, {"norm": (x * x).sum().item()}),
    "a complex number": lambda x: complex(x.sum().item(), 1.0),
}


@pytest.mark.parametrize("options", [{}, {"fast_mode": True}], ids=["slow", "fast"])
@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize("f", LOST.values(), ids=LOST)
def test_results_that_lost_their_history_fail(f, check, options):
    x = ag.tensor([0.5, -1.5], requires_grad=True)
    with pytest.raises(GradcheckError, match="Numerical gradient for function expected to be zero"):
        check(f, (x,), **options)
    assert not check(f, (x,), raise_exception=False, **options)


@pytest.mark.parametrize("check", [gradcheck, gradgradcheck])
@pytest.mark.parametrize(
    "f",
    [
        ag.sign,
        ag.floor,
        lambda x: ag.sign(x).detach().numpy(),
        lambda x: (x * 2, 3.5, "text", None, ag.argmax(x), np.arange(2), np.array(["a"]), [1.5]),
    ],
)
def test_results_without_a_history_that_are_constant_pass(f, check):
    assert check(f, (ag.tensor([0.5, -1.5], requires_grad=True),))


def test_gradients_that_lost_their_history_fail_in_second_order():
    class Square(ag.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.twice = 2 * x
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.twice

    x = ag.tensor([0.5, -1.5], requires_grad=True)
    assert gradcheck(Square.apply, (x,))
    with pytest.raises(GradcheckError, match="The worst entry is at element"):
        gradgradcheck(Square.apply, (x,))
