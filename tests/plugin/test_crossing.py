"""Tensors that go from backend to backend within one graph, and operands that live on several."""

from __future__ import annotations

import types
from pathlib import Path

import numpy as np
import pytest

import agrad as ag
from agrad.plugin.hookspecs import hookimpl
from agrad.plugin.programs import CaptureError, CompileWarning

MANY = pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)
PAIRS = [(a, b) for a in ("numpy", "strict", "dask") for b in ("numpy", "strict", "dask") if a != b]


@pytest.fixture
def everywhere(numpy_backend, strict_backend, dask_backend):
    """Have all three backends ready."""


# -- to_device --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("there", "back"), PAIRS)
def test_there_and_back(there, back, everywhere, value):
    a = np.array([[1.0, -2.0], [3.0, 0.5]])
    x = ag.asarray(a, device=there, requires_grad=True)
    y = x.to_device(back)
    assert y.device == back
    assert not y.is_leaf
    assert y.grad_fn.name() == "ToDeviceBackward0"
    np.testing.assert_array_equal(value(y), a)
    (y * y * y).sum().backward()
    assert x.grad.device == there
    assert type(x.grad._raw) is type(x._raw)
    np.testing.assert_allclose(value(x.grad), 3 * a**2)


def test_one_graph_over_three_backends(everywhere, value):
    a, b = np.linspace(0.5, 2, 6).reshape(2, 3), np.linspace(-1, 1, 3)
    x = ag.asarray(a, requires_grad=True)
    w = ag.asarray(b, device="dask", requires_grad=True)
    on_dask = ag.log(x).to_device("dask") * w
    on_numpy = ag.exp(on_dask.to_device("numpy"))
    on_strict = (on_numpy * on_numpy).to_device("strict")
    loss = ag.sum(on_strict * 0.5)
    assert [t.device for t in (on_dask, on_numpy, on_strict, loss)] == ["dask", "numpy", "strict", "strict"]
    loss.backward()
    # 0.5 * exp(2 w log x) = 0.5 * x ** (2 w)
    np.testing.assert_allclose(loss.item(), 0.5 * np.sum(a ** (2 * b)))
    assert (x.grad.device, w.grad.device) == ("numpy", "dask")
    np.testing.assert_allclose(value(x.grad), b * a ** (2 * b - 1))
    np.testing.assert_allclose(value(w.grad), np.sum(np.log(a) * a ** (2 * b), axis=0))


@pytest.mark.parametrize(("there", "back"), PAIRS)
def test_a_gradient_that_a_function_returns_elsewhere(there, back, everywhere, value):
    """It comes to the operand's backend, dtype and shape."""

    class Tripled(ag.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 3.0

        @staticmethod
        def backward(ctx, g):
            return ag.full((4, 2), 0.75, dtype="float32", device=back)  # summed over what x lacks

    x = ag.asarray(np.array([1.0, 2.0]), device=there, requires_grad=True)
    Tripled.apply(x).sum().backward()
    assert x.grad.device == there
    assert x.grad.dtype == x.dtype
    np.testing.assert_array_equal(value(x.grad), [3.0, 3.0])


def test_second_derivative_across_backends(everywhere, value):
    a = np.array([0.5, 1.0, 2.0])
    x = ag.asarray(a, requires_grad=True)
    y = ag.sum((x.to_device("strict") ** 3).to_device("dask") ** 2)  # x ** 6
    (g,) = ag.autograd.grad(y, x, create_graph=True)
    np.testing.assert_allclose(value(g), 6 * a**5)
    (h,) = ag.autograd.grad(ag.sum(g), x)
    np.testing.assert_allclose(value(h), 30 * a**4)
    assert h.device == "numpy"


def test_forward_mode_across_backends(everywhere, value):
    from agrad.core.forward import level, tangent_of, with_tangent

    a, v = np.array([0.5, 1.0]), np.array([1.0, -2.0])
    with level() as at:
        x = with_tangent(ag.asarray(a), ag.asarray(v), at)
        y = x.to_device("strict") ** 2
        t = tangent_of(y, at)
    assert t.device == "strict"
    np.testing.assert_allclose(value(t), 2 * a * v)


def test_devices_of_one_backend(strict_backend, value):
    a = np.array([1.0, 2.0])
    x = ag.asarray(a, device="strict", requires_grad=True)
    y = x.to_device("strict:device1")
    assert y.device == "strict:device1"
    z = ag.exp(y * 2.0)
    assert z.device == "strict:device1"
    z.to_device("numpy").sum().backward()
    assert x.grad.device == "strict"
    np.testing.assert_allclose(value(x.grad), 2 * np.exp(2 * a))


@MANY
def test_where_it_is_already(backend):
    x = ag.ones(2, device=backend, requires_grad=True)
    assert x.to_device(backend) is x
    assert x.to_device(x.device) is x
    with pytest.raises(ValueError, match="takes no stream"):
        x.to_device("numpy", stream=1)


@pytest.mark.parametrize("dtype", ["bool", "int32", "uint8", "float32", "complex64", "complex128"])
@pytest.mark.parametrize(("there", "back"), PAIRS)
def test_values_and_dtypes_survive(there, back, dtype, everywhere, value):
    a = np.array([[0, 1], [2, 3]], dtype)
    x = ag.asarray(a, device=there)
    y = x.to_device(back)
    assert getattr(ag, dtype) == y.dtype  # this way round: not every library answers for dtypes it does not know
    np.testing.assert_array_equal(value(y), a, strict=True)
    for shape in ((), (0, 3)):
        z = ag.zeros(shape, dtype=dtype, device=there).to_device(back)
        np.testing.assert_array_equal(value(z), np.zeros(shape, dtype), strict=True)


@pytest.mark.parametrize(("there", "back"), PAIRS)
def test_asarray_and_creation_with_device_cross_too(there, back, everywhere, value):
    x = ag.asarray([1.0, 2.0], device=there, requires_grad=True)
    ag.asarray(x, device=back).sum().backward()
    np.testing.assert_array_equal(value(x.grad), [1.0, 1.0])
    raw = x.detach()._raw
    assert ag.asarray(raw).device == there
    assert ag.asarray(raw, device=back).device == back
    assert ag.zeros_like(x.detach(), device=back).device == back
    assert ag.astype(x.detach(), ag.float32, device=back).device == back


# -- operands on several backends -------------------------------------------------------------------------------------


def test_mixed_backends_are_refused_in_words(everywhere):
    x = ag.ones(2, requires_grad=True)
    y = ag.ones(2, device="strict")
    calls = {
        "multiply": lambda: x * y,
        "add": lambda: ag.add(x, y),
        "matmul": lambda: x @ y,
        "concat": lambda: ag.concat([x, y]),
        "where": lambda: ag.where(ag.asarray([True, False]), x, y),
        "subtract": lambda: y - x,
    }
    for op, call in calls.items():
        with pytest.raises(ag.BackendError) as caught:
            call()
        first, second, third = str(caught.value).splitlines()
        names = ("strict", "numpy") if op == "subtract" else ("numpy", "strict")
        assert first == (
            f"{op}: Expected all tensors to be on the same device, but found at least two backends,"
            f" {names[0]} and {names[1]}!"
        )
        assert second == f'  Move one operand, for instance with x.to_device("{names[0]}").'
        assert third.startswith("  Called at ")
        assert "test_crossing.py:" in third
        line = int(third.rpartition(":")[2].rstrip("."))
        assert "lambda" in Path(__file__).read_text().splitlines()[line - 1]  # the user's own


def test_what_the_message_says_helps(everywhere):
    x, y = ag.ones(2, requires_grad=True), ag.ones(2, device="strict")
    (x * y.to_device("numpy")).sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]


def test_absorbed_operands_are_recorded(everywhere, value):
    """Dask takes NumPy operands; the gradient goes back to where each came from."""
    a, b = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0])
    x = ag.asarray(a, device="dask", requires_grad=True)
    w = ag.asarray(b, requires_grad=True)
    for y in (x * w, w * x, ag.multiply(w, x)):
        assert y.device == "dask"
        x.grad = w.grad = None
        y.sum().backward()
        assert (x.grad.device, w.grad.device) == ("dask", "numpy")
        np.testing.assert_array_equal(value(x.grad), np.broadcast_to(b, (2, 3)))
        np.testing.assert_array_equal(value(w.grad), a.sum(axis=0))
    with pytest.raises(ag.BackendError, match="at least two backends, dask and strict"):
        x * ag.ones(3, device="strict")


@pytest.mark.parametrize(
    "key", [lambda i: i, lambda i: (i, ...), lambda i: (None, i)], ids=["alone", "first", "second"]
)
def test_an_index_is_an_operand_like_others(key, everywhere, value):
    """Dask absorbs NumPy, whichever of the two is the index; other mixtures are refused, also within a key."""
    index = np.array([2, 0, 2])
    for there, back in PAIRS:
        x = ag.asarray([1.0, 2.0, 3.0], device=there, requires_grad=True)
        i = ag.asarray(index, device=back)
        if "strict" in (there, back):
            with pytest.raises(ag.BackendError, match=f"at least two backends, {there} and {back}!"):
                x[key(i)]
            continue
        y = x[key(i)]
        assert y.device == "dask"
        y.sum().backward()
        assert x.grad.device == there
        np.testing.assert_array_equal(value(x.grad), [1.0, 0.0, 2.0])


# -- raw arrays beside tensors ----------------------------------------------------------------------------------------

OPERATORS = {
    "+": (lambda a, b: a + b, lambda a, b: (1 + 0 * a, 1 + 0 * b)),
    "-": (lambda a, b: a - b, lambda a, b: (1 + 0 * a, -1 + 0 * b)),
    "*": (lambda a, b: a * b, lambda a, b: (b, a)),
    "/": (lambda a, b: a / b, lambda a, b: (1 / b, -a / b**2)),
    "**": (lambda a, b: a**b, lambda a, b: (b * a ** (b - 1), a**b * np.log(a))),
}
A, B = np.array([1.0, 2.0, 3.0]), np.array([0.5, 1.5, 2.5])


@MANY
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_raw_array_on_the_right(backend, operator, make, value):
    f, partials = OPERATORS[operator]
    x = make(A, requires_grad=True)
    y = f(x, make(B)._raw)
    assert isinstance(y, ag.Tensor)
    assert y.device == backend
    y.sum().backward()
    np.testing.assert_allclose(value(y), f(A, B))
    np.testing.assert_allclose(value(x.grad), partials(A, B)[0])


@pytest.mark.parametrize("backend", ["numpy", "dask"], indirect=True)
@pytest.mark.parametrize("operator", OPERATORS)
def test_a_raw_array_on_the_left(backend, operator, make, value):
    f, partials = OPERATORS[operator]
    x = make(B, requires_grad=True)
    y = f(make(A)._raw, x)
    assert isinstance(y, ag.Tensor)
    assert y.device == backend
    y.sum().backward()
    np.testing.assert_allclose(value(y), f(A, B))
    np.testing.assert_allclose(value(x.grad), partials(A, B)[1])


def test_array_api_strict_refuses_everything_unknown_on_its_right(strict_backend):
    """Its operators raise where the standard wants NotImplemented, so that nobody can come in; agrad's own do."""
    x = ag.ones(2, device="strict", requires_grad=True)
    with pytest.raises(TypeError, match="Expected Array or Python scalar"):
        x._raw * x
    assert isinstance(x * x._raw, ag.Tensor)
    assert isinstance(ag.multiply(x._raw, x), ag.Tensor)


@pytest.mark.parametrize("backend", ["numpy", "dask"], indirect=True)
def test_other_operators_with_a_raw_array_on_the_left(backend, make, value):
    a = np.arange(1.0, 7.0).reshape(2, 3)
    raw = make(a)._raw
    x = make(a.T, requires_grad=True)
    y = raw @ x
    assert isinstance(y, ag.Tensor)
    y.sum().backward()
    np.testing.assert_allclose(value(y), a @ a.T)
    np.testing.assert_allclose(value(x.grad), np.broadcast_to(a.sum(axis=0)[:, None], (3, 2)))
    z = make(a)
    for found, expected in (
        (raw > z, a > a),
        (raw <= z, a <= a),
        (raw == z, a == a),
        (raw // z, a // a),
        (raw % z, a % a),
    ):
        assert isinstance(found, ag.Tensor)
        np.testing.assert_array_equal(value(found), expected)


def test_numpy_arrays_beside_dask_tensors(dask_backend, value):
    x = ag.asarray(B, device="dask", requires_grad=True)
    for operator, (f, partials) in OPERATORS.items():
        x.grad = None
        y = f(A, x)
        assert isinstance(y, ag.Tensor), operator
        assert y.device == "dask"
        y.sum().backward()
        np.testing.assert_allclose(value(x.grad), partials(A, B)[1])
        x.grad = None
        f(x, A).sum().backward()
        np.testing.assert_allclose(value(x.grad), partials(B, A)[0])


def test_dask_arrays_beside_numpy_tensors(dask_backend, value):
    import dask.array as da

    raw = da.from_array(A, chunks=2)
    for f, partials in OPERATORS.values():
        x = ag.asarray(B, requires_grad=True)
        y = f(raw, x)
        assert isinstance(y, ag.Tensor)
        assert y.device == "dask"
        y.sum().backward()
        np.testing.assert_allclose(value(x.grad), partials(A, B)[1])
        assert x.grad.device == "numpy"


def test_numpy_scalars(backend, make, value):
    x = make(A, requires_grad=True)
    for y in (np.float64(2.0) * x, x * np.float64(2.0)) if backend == "numpy" else (x * 2.0, 2.0 * x):
        assert isinstance(y, ag.Tensor)
        np.testing.assert_array_equal(value(y), 2 * A)


def test_what_no_plugin_claims():
    x = ag.ones(2)
    for call in (lambda: x * object(), lambda: object() * x, lambda: x + "text"):
        with pytest.raises(TypeError, match="unsupported operand"):
            call()
    with pytest.raises(TypeError, match=r"multiply\(\): argument 'x2' must be Tensor, not object"):
        ag.multiply(x, object())


# -- kernels of operands of several backends --------------------------------------------------------------------------


class Thin(np.ndarray):
    """Stands for a sparse matrix: its products with others are others."""


class ThinBackend(ag.Backend):
    name = "thin"
    products = 0

    def namespace(self):
        import array_api_compat.numpy

        return array_api_compat.numpy

    def as_array(self, value):
        return np.asarray(value).view(Thin)

    def from_host(self, buffer, device):
        return np.array(buffer).view(Thin)

    def mixed(self, op, others):
        if op != "matmul" or not all(other.is_duck_array and not other.is_batched for other in others):
            return None

        def product(x1, x2, /):
            self.products += 1
            return np.asarray(x1) @ np.asarray(x2)

        return product


class ThinPlugin:
    def __init__(self):
        self.backend = ThinBackend()

    @hookimpl
    def agrad_backends(self):
        return [self.backend]

    @hookimpl
    def agrad_backend_of(self, array_type):
        return "thin" if array_type is Thin else None


MATRIX, VECTOR = np.asarray([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]), np.asarray([0.5, -1.0, 2.0])


def thin():
    return np.array(MATRIX).view(Thin)


def test_a_product_with_a_dense_vector_is_dense(registered):
    backend = registered(ThinPlugin()).backend
    w = ag.asarray(VECTOR, requires_grad=True)
    y = ag.asarray(thin()) @ w
    assert (y.device, y.tolist()) == ("numpy", (MATRIX @ VECTOR).tolist())
    (y**2).sum().backward()
    assert w.grad.device == "numpy"
    np.testing.assert_allclose(w.grad.numpy(), 2 * MATRIX.T @ (MATRIX @ VECTOR))
    assert backend.products == 2  # the transposed matrix and the cotangent, too


def test_the_gradient_by_the_other_operand_is_of_its_backend(registered):
    registered(ThinPlugin())
    a = ag.asarray(thin(), requires_grad=True)
    ((a @ VECTOR) ** 2).sum().backward()
    assert type(a.grad._raw) is Thin
    np.testing.assert_allclose(a.grad.to_device("numpy").numpy(), 2 * np.outer(MATRIX @ VECTOR, VECTOR))


def test_transforms_of_a_mixed_product(registered):
    registered(ThinPlugin())
    a = ag.asarray(thin())
    w, v = ag.asarray(VECTOR), ag.asarray([1.0, 2.0, -1.0])
    hessian = 2 * MATRIX.T @ MATRIX
    (g,) = ag.func.jvp(lambda w: a @ w, (w,), (v,))[1:]
    np.testing.assert_allclose(g.numpy(), MATRIX @ v.numpy())
    x = ag.asarray(VECTOR, requires_grad=True)
    (g,) = ag.autograd.grad(((a @ x) ** 2).sum(), x, create_graph=True)
    (h,) = ag.autograd.grad(g @ v, x)
    np.testing.assert_allclose(h.numpy(), hessian @ v.numpy())


def test_gradients_of_tangents_of_a_mixed_product_are_refused(registered):
    registered(ThinPlugin())
    a = ag.asarray(thin())
    x = ag.asarray(VECTOR)
    with pytest.raises(NotImplementedError, match="matmul: operands of several backends have no tangents"):
        ag.func.jvp(ag.func.grad(lambda w: ((a @ w) ** 2).sum()), (x,), (x,))


def test_what_is_left_out_of_a_mixed_product(registered):
    registered(ThinPlugin())
    x = ag.asarray([0.0, 1.0, 4.0], requires_grad=True)
    y = ag.asarray(thin()) @ ag.where(x > 0, ag.sqrt(x), 0.0)
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 1.5, 0.5]


def test_no_program_holds_a_mixed_product(registered):
    registered(ThinPlugin())
    a = ag.asarray(thin())
    with pytest.raises(CaptureError, match="matmul takes operands of several backends"):
        ag.func.capture(lambda w: (a @ w).sum())(ag.asarray(VECTOR))
    with pytest.warns(CompileWarning, match="matmul takes operands of several backends"):
        assert ag.compile(lambda w: (a @ w).sum())(ag.asarray(VECTOR)).item() == (MATRIX @ VECTOR).sum()


def test_other_operations_of_both_are_refused_as_before(registered):
    registered(ThinPlugin())
    with pytest.raises(ag.BackendError, match="thin"):
        ag.asarray(thin()) * ag.asarray(MATRIX)


def test_a_lazy_expression_takes_no_tensor_whose_gradient_is_asked():
    """At once, as blosc2 makes it, and not when it is computed: it looks for the chunks of its operands."""
    proxy = types.ModuleType("blosc2.proxy")
    exec("def chunks_of(operand):\n    return getattr(operand, 'chunks', None)", vars(proxy))
    x = ag.asarray([1.0, 2.0], requires_grad=True)
    with pytest.raises(
        RuntimeError, match=r"lazy expression of blosc2 of a Tensor that requires grad.*\n.*tensor \* array"
    ):
        proxy.chunks_of(x)
    assert proxy.chunks_of(x.detach()) is None


def test_blosc2():
    blosc2 = pytest.importorskip("blosc2")
    b = blosc2.asarray(np.ones(2))
    x = ag.asarray([1.0, 2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="lazy expression of blosc2"):
        b * x
