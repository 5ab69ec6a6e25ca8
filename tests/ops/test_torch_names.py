"""Names of PyTorch's that its programs use: sizes, classes of tensors, scattering, questions about devices."""

from __future__ import annotations

import re

import numpy as np
import pytest

import agrad as ag

#: How scattered elements are combined, whether with those that are there; PyTorch's values and the gradients by both operands
#: of the values weighted by cos(0), cos(1), ...
REDUCED = [
    (
        "sum",
        True,
        [[5.0, 5.0, 6.0], [11.0, 22.0, 3.0]],
        [[1.0, 0.540302, -0.416147], [-0.989992, -0.653644, 0.283662]],
        [[1.0, -0.416147, -0.416147, 1.0], [-0.653644, -0.653644, -0.653644, -0.989992]],
    ),
    (
        "sum",
        False,
        [[4.0, 5.0, 4.0], [7.0, 19.0, 3.0]],
        [[0.0, 0.540302, 0.0], [0.0, 0.0, 0.283662]],
        [[1.0, -0.416147, -0.416147, 1.0], [-0.653644, -0.653644, -0.653644, -0.989992]],
    ),
    (
        "mean",
        True,
        [[1.666667, 5.0, 2.0], [5.5, 5.5, 3.0]],
        [[0.333333, 0.540302, -0.138716], [-0.494996, -0.163411, 0.283662]],
        [[0.333333, -0.138716, -0.138716, 0.333333], [-0.163411, -0.163411, -0.163411, -0.494996]],
    ),
    (
        "mean",
        False,
        [[2.0, 5.0, 2.0], [7.0, 6.333333, 3.0]],
        [[0.0, 0.540302, 0.0], [0.0, 0.0, 0.283662]],
        [[0.5, -0.208073, -0.208073, 0.5], [-0.217881, -0.217881, -0.217881, -0.989992]],
    ),
    (
        "amax",
        True,
        [[5.0, 5.0, 2.0], [7.0, 9.0, 3.0]],
        [[0.0, 0.540302, -0.138716], [-0.0, -0.0, 0.283662]],
        [[1.0, -0.138716, -0.138716, 0.0], [-0.326822, -0.0, -0.326822, -0.989992]],
    ),
    (
        "amax",
        False,
        [[5.0, 5.0, 2.0], [7.0, 9.0, 3.0]],
        [[0.0, 0.540302, 0.0], [0.0, 0.0, 0.283662]],
        [[1.0, -0.208073, -0.208073, 0.0], [-0.326822, -0.0, -0.326822, -0.989992]],
    ),
    (
        "amin",
        True,
        [[-1.0, 5.0, 2.0], [4.0, 1.0, 3.0]],
        [[0.0, 0.540302, -0.138716], [-0.989992, -0.0, 0.283662]],
        [[0.0, -0.138716, -0.138716, 1.0], [-0.0, -0.653644, -0.0, -0.0]],
    ),
    (
        "amin",
        False,
        [[-1.0, 5.0, 2.0], [7.0, 1.0, 3.0]],
        [[0.0, 0.540302, 0.0], [0.0, 0.0, 0.283662]],
        [[0.0, -0.208073, -0.208073, 1.0], [-0.0, -0.653644, -0.0, -0.989992]],
    ),
]


@pytest.mark.parametrize(("reduce", "include_self", "values", "by_x", "by_src"), REDUCED)
def test_scatter_reduce_is_pytorchs(reduce, include_self, values, by_x, by_src):
    # where the element that is replaced ties, PyTorch counts it among the extrema that share
    there = 2.0 if include_self else 1.5
    x = ag.tensor([[1.0, 5.0, there], [4.0, 3.0, 3.0]], requires_grad=True)
    src = ag.tensor([[5.0, 2.0, 2.0, -1.0], [9.0, 1.0, 9.0, 7.0]], requires_grad=True)
    index = ag.tensor([[0, 2, 2, 0], [1, 1, 1, 0]])
    found = x.scatter_reduce(1, index, src, reduce, include_self=include_self)
    np.testing.assert_allclose(found.detach().numpy(), values, atol=1e-6)
    (found * np.cos(np.arange(6.0)).reshape(2, 3)).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), by_x, atol=1e-6)
    np.testing.assert_allclose(src.grad.numpy(), by_src, atol=1e-6)
    changed = x.detach().clone()
    changed.scatter_reduce_(1, index, src.detach(), reduce, include_self=include_self)
    np.testing.assert_allclose(changed.numpy(), values, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("reduce", "sign"), [("amax", 1.0), ("amin", -1.0)])
def test_extrema_are_collected_over_infinity(reduce, sign, dtype):
    """The usual base of a softmax over the edges of a graph."""
    x = ag.full((4,), -sign * float("inf"), dtype=dtype, requires_grad=True)
    src = ag.tensor([1.0 * sign, 3.0 * sign, 2.0 * sign], dtype=dtype, requires_grad=True)
    found = x.scatter_reduce(0, ag.tensor([0, 0, 2]), src, reduce)
    assert found.tolist() == [3.0 * sign, -sign * float("inf"), 2.0 * sign, -sign * float("inf")]
    (found * ag.tensor([2.0, 3.0, 4.0, 5.0], dtype=dtype)).sum().backward()
    assert src.grad.tolist() == [0.0, 2.0, 4.0]
    assert x.grad.tolist() == [0.0, 3.0, 0.0, 5.0]
    found = ag.zeros(2).scatter_reduce(0, ag.tensor([0, 0]), ag.tensor([sign * float("inf"), 1.0]), reduce)
    assert found.tolist() == [sign * float("inf"), 0.0]


def test_scatter_reduce_refuses():
    x = ag.zeros(2)
    with pytest.raises(NotImplementedError, match="no 'prod'"):
        x.scatter_reduce(0, ag.tensor([0]), ag.ones(1), "prod")
    with pytest.raises(ValueError, match="reduce argument must be either sum, prod, mean, amax or amin, got max"):
        x.scatter_reduce(0, ag.tensor([0]), ag.ones(1), "max")
    assert ag.tensor([1, 5]).scatter_reduce(0, ag.tensor([0, 0]), ag.tensor([3, 2]), "amax").tolist() == [3, 5]


def test_index_put():
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    values = ag.tensor([10.0, 20.0], requires_grad=True)
    places = (ag.tensor([2, 2]),)
    found = x.index_put(places, values, accumulate=True)
    assert found.tolist() == [1.0, 2.0, 33.0]
    (found * found).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 66.0]
    assert values.grad.tolist() == [66.0, 66.0]
    assert ag.index_put(x.detach(), (ag.tensor([0, 1]),), ag.tensor(7.0)).tolist() == [7.0, 7.0, 3.0]
    y = ag.zeros((2, 2))
    y.index_put_((ag.tensor([True, False]),), ag.tensor(1.0), accumulate=True)
    assert y.tolist() == [[1.0, 1.0], [0.0, 0.0]]


def test_shapes_by_the_name_of_size():
    for function in (ag.zeros, ag.ones, ag.empty, ag.rand, ag.randn):
        assert function(size=(2, 3)).shape == (2, 3)
    assert ag.full(size=(2,), fill_value=7.0).tolist() == [7.0, 7.0]
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'shape'"):
        ag.zeros()
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'fill_value'"):
        ag.full((2,))
    with pytest.raises(TypeError, match="which are one argument"):
        ag.ones((2,), size=(2,))


def test_equal_is_one_boolean():
    """The method, which NumPy's arrays do not have, is PyTorch's; the function is the standard's."""
    x = ag.tensor([1.0, 2.0])
    assert x.equal(ag.tensor([1.0, 2.0])) is True
    assert x.equal(ag.tensor([1.0, 3.0])) is False
    assert ag.ones(1).equal(ag.ones(())) is False  # of another shape
    assert ag.tensor([float("nan")]).equal(ag.tensor([float("nan")])) is False
    assert ag.equal(x, x).tolist() == x.eq(x).tolist() == [True, True]


def test_norms_by_pytorchs_names():
    x = ag.tensor([[3.0, -4.0], [6.0, 8.0]])
    assert ag.norm(x, dim=1).tolist() == [5.0, 10.0]
    assert ag.norm(x, p=1, dim=1, keepdim=True).tolist() == [[7.0], [14.0]]
    assert ag.norm(x, 1, dim=0).tolist() == [9.0, 12.0]
    assert ag.norm(x, p=1).item() == 21.0  # of all elements, as PyTorch's
    assert ag.norm(x, 1).item() == 12.0  # of a matrix, as NumPy's
    with pytest.raises(TypeError, match="p, dim and keepdim, or ord, axis and keepdims"):
        ag.norm(x, axis=1, p=2)


def test_classes_of_tensors():
    for name, dtype in {
        "Long": "int64",
        "Int": "int32",
        "Short": "int16",
        "Byte": "uint8",
        "Half": "float16",
        "Bool": "bool",
    }.items():
        make = getattr(ag, f"{name}Tensor")
        assert make([[1, 0]]).dtype == getattr(ag, dtype)
        assert make(2, 3).shape == (2, 3)


def test_matrices():
    z = ag.tensor([[[1 + 2j, 3j]]])
    assert z.mH.tolist() == [[[1 - 2j], [-3j]]]
    a = np.array([[4.0, 2.0], [2.0, 5.0]])
    lower = np.linalg.cholesky(a)
    b = np.array([[8.0], [12.0]])
    for factor, upper in ((lower, False), (lower.T, True)):
        np.testing.assert_allclose(
            ag.cholesky_solve(ag.tensor(b), ag.tensor(factor), upper).numpy(), np.linalg.solve(a, b)
        )


def test_devices_and_what_does_nothing():
    x = ag.ones(2)
    assert not x.is_cuda
    assert not x.is_xpu
    assert ag.accelerator.is_available() == ag.cuda.is_available()
    assert (ag.accelerator.current_accelerator() is None) == (ag.accelerator.device_count() == 0)
    import agrad.backends.cudnn as cudnn

    cudnn.benchmark = True
    assert ag.backends.cudnn is cudnn
    assert ag.backends.cudnn.benchmark
    assert not cudnn.is_available()
    ag.nn.LSTM(1, 1).flatten_parameters()
    net = ag.nn.DataParallel(ag.nn.Linear(2, 1), device_ids=[0, 1])
    assert list(net.state_dict()) == ["module.weight", "module.bias"]
    assert net(x).item() == ag.nn.parallel.data_parallel(net.module, x, range(2)).item()


def test_a_quarter_turn_by_default_is_numpys():
    x = np.arange(24.0).reshape(2, 3, 4)
    np.testing.assert_array_equal(ag.rot90(ag.asarray(x)), np.rot90(x))


#: Methods that set a tensor to random numbers; the mean and the variance of the distribution.
DRAWN = {
    "normal_(2.0, 3.0)": (2.0, 9.0),
    "normal_(mean=1.0, std=0.02)": (1.0, 4e-4),
    "uniform_(-1.0, 3.0)": (1.0, 16 / 12),
    "exponential_(2.0)": (0.5, 0.25),
    "bernoulli_(0.3)": (0.3, 0.21),
    "random_(5)": (2.0, 2.0),
    "random_(2, 4)": (2.5, 0.25),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("code", DRAWN)
def test_tensors_are_set_to_random_numbers(code, dtype):
    mean, variance = DRAWN[code]
    ag.manual_seed(1)
    x = ag.full((40, 500), float("nan"), dtype=dtype)
    assert eval(f"x.{code}") is x
    assert (x.shape, x.dtype) == ((40, 500), np.dtype(dtype))
    found = x.numpy().astype("f8")
    assert abs(found.mean() - mean) < 5 * (variance / found.size) ** 0.5
    assert abs(found.var() - variance) < 0.1 * variance
    first = x.clone()
    ag.manual_seed(1)
    assert eval(f"x.{code}").equal(first)


def test_random_numbers_reach_parameters_through_data():
    layer = ag.nn.Linear(30, 40)
    before = layer.weight
    layer.weight.data.uniform_(2.0, 3.0)
    layer.bias.data.normal_(mean=5.0, std=0.0)
    assert layer.weight is before
    assert layer.weight.is_leaf
    assert layer.weight.min().item() >= 2.0
    assert layer.bias.tolist() == [5.0] * 40
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        layer.weight.normal_()


def test_integers_and_probabilities_of_each_element_are_drawn():
    assert set(ag.empty(200, dtype="int64").random_(3).tolist()) == {0, 1, 2}
    assert ag.empty(3).bernoulli_(ag.tensor([0.0, 1.0, 0.0])).tolist() == [0.0, 1.0, 0.0]
    g = ag.Generator(7)
    with ag.random.using(ag.Generator(7)):
        expected = ag.randn(3)
    assert ag.empty(3).normal_(generator=g).equal(expected)


#: Calls by PyTorch's names of arguments, and by position.
BY_NAME = {
    "ag.gather(input=x, dim=1, index=i)": "ag.gather(x, 1, i)",
    "ag.index_select(input=x, dim=0, index=v)": "ag.index_select(x, 0, v)",
    "ag.masked_fill(input=x, mask=x > 3, value=0.0)": "ag.masked_fill(x, x > 3, 0.0)",
    "ag.topk(x, k=2, dim=1)[0]": "ag.topk(x, 2, 1)[0]",
    "ag.chunk(x, chunks=2, dim=1)[1]": "ag.chunk(x, 2, 1)[1]",
    "ag.lerp(x, end=2 * x, weight=0.5)": "1.5 * x",
    "ag.linspace(0, 1, steps=5)": "x.new_tensor([0.0, 0.25, 0.5, 0.75, 1.0])",
    "ag.linspace(start=-1, end=1, steps=3)": "x.new_tensor([-1.0, 0.0, 1.0])",
    "ag.logspace(0, 1, steps=3, base=4)": "x.new_tensor([1.0, 2.0, 4.0])",
    "ag.logspace(start=0, end=2, steps=2)": "x.new_tensor([1.0, 100.0])",
    "ag.logspace(0, stop=2, num=2)": "x.new_tensor([1.0, 100.0])",
    "ag.arange(start=1, end=4)": "x.new_tensor([1, 2, 3])",
    "ag.diff(x, dim=0)": "x[1:] - x[:-1]",
    "ag.arange(end=2)": "x.new_tensor([0, 1])",
    "ag.arange(start=1, end=6, step=2)": "x.new_tensor([1, 3, 5])",
    "x.logical_not()": "x == 0",
    "(x > 2).logical_and(x < 5)": "(x > 2) & (x < 5)",
    "(x > 2).logical_or(x < 1)": "(x > 2) | (x < 1)",
    "(x > 2).logical_xor(x < 5)": "(x > 2) ^ (x < 5)",
}


@pytest.mark.parametrize("code", BY_NAME)
def test_arguments_have_pytorchs_names(code):
    known = {"ag": ag, "x": ag.arange(12.0).reshape(3, 4), "i": ag.tensor([[0], [2], [1]]), "v": ag.tensor([2, 0])}
    assert eval(code, known).tolist() == eval(BY_NAME[code], known).tolist()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("ag.linspace(0, 1, 3, steps=3)", "linspace() got num=3 and steps=3, which are one argument"),
        ("ag.linspace(0, 1, end=2, steps=3)", "linspace() got stop=1 and end=2, which are one argument"),
        ("ag.linspace(0, 1)", "linspace() missing 1 required positional argument: 'num'"),
        ("ag.linspace(end=1, steps=3)", "linspace() missing 1 required positional argument: 'start'"),
        ("ag.logspace(0, 1, 3, num=3)", "logspace() got steps=3 and num=3, which are one argument"),
        ("ag.arange(0, 3, end=3)", "arange() got stop=3 and end=3, which are one argument"),
        ("ag.arange(step=2)", "arange() missing 1 required positional argument: 'start'"),
    ],
)
def test_an_argument_has_one_value(code, said):
    with pytest.raises(TypeError, match=rf"^{re.escape(said)}\n  Called at "):
        eval(code, {"ag": ag})


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ((0, 4, 1), "maximum size for tensor at dimension 0 is 3 but size is 4"),
        ((-1, 2, 0), "step is 0 but must be > 0"),
    ],
)
def test_windows_that_do_not_exist_are_refused(call, said):
    with pytest.raises(RuntimeError, match=said):
        ag.ones(3, 4).unfold(*call)


def test_there_is_no_mps():
    assert ("mps" if ag.backends.mps.is_available() else "cpu") == "cpu"
    assert not ag.backends.mps.is_built()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("normal_(0.0, -1.0)", "normal expects std >= 0.0, but found std -1.0"),
        ("uniform_(2.0, 1.0)", r"uniform_ expects to return a \[from, to\) range, but found from=2.0 > to=1.0"),
        ("exponential_(0.0)", "exponential_ expects lambda > 0.0, but found lambda=0.0"),
        ("bernoulli_(2.0)", r"bernoulli_ expects p to be in \[0, 1\], but got p=2.0"),
        ("random_(3, 3)", "random_ expects 'from' to be less than 'to', but got from=3 >= to=3"),
    ],
)
def test_draws_of_no_distribution(call, message):
    x = ag.zeros(3)
    with pytest.raises(RuntimeError, match=message):
        eval(f"x.{call}", {"x": x})
    assert x.tolist() == [0.0, 0.0, 0.0]


def test_draws_keep_that_a_gradient_is_required_and_give_zeros():
    x = ag.ones(3, requires_grad=True)
    y = x * 2
    y.normal_()
    assert y.requires_grad
    assert ag.autograd.grad(y.sum(), [x])[0].tolist() == [0.0, 0.0, 0.0]


#: Draws of complex numbers: the mean and the variance of each part, which are PyTorch's. A number as the mean is that of both.
COMPLEX = {
    "ag.randn(n, dtype=dtype, device=device)": ((0.0, 0.0), 0.5),
    "ag.rand(n, dtype=dtype, device=device)": ((0.5, 0.5), 1 / 12),
    "ag.randn_like(z)": ((0.0, 0.0), 0.5),
    "ag.rand_like(z)": ((0.5, 0.5), 1 / 12),
    "z.normal_(2.0, 3.0)": ((2.0, 2.0), 4.5),
    "z.uniform_(2.0, 4.0)": ((3.0, 3.0), 4 / 12),
    "ag.normal(z + 2, 3.0)": ((2.0, 0.0), 4.5),
    "ag.normal(2.0, 3.0, (n,), dtype=dtype, device=device)": ((2.0, 2.0), 4.5),
}


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("code", COMPLEX)
def test_both_parts_of_complex_numbers_are_drawn(code, dtype, backend):
    n, (means, variance) = 20000, COMPLEX[code]
    ag.manual_seed(3)
    drawn = eval(
        code, {"ag": ag, "n": n, "dtype": dtype, "device": backend, "z": ag.zeros(n, dtype=dtype, device=backend)}
    )
    assert (drawn.shape, str(drawn._spec.backend.dtype_name(drawn.dtype))) == ((n,), dtype)
    parts = np.asarray([drawn.real.tolist(), drawn.imag.tolist()])
    np.testing.assert_allclose(parts.mean(1), means, atol=5 * (variance / n) ** 0.5)
    np.testing.assert_allclose(np.cov(parts, bias=True), variance * np.eye(2), atol=0.05 * variance)


def test_complex_draws_are_leaves_and_differ_from_member_to_member():
    z = ag.randn(2, dtype="complex64", requires_grad=True)
    assert z.is_leaf
    assert z.requires_grad
    rows = ag.vmap(lambda x: ag.randn(2, dtype="complex64") + x, randomness="different")(ag.zeros(2))
    assert len(set(rows.flatten().tolist())) == 4


@pytest.mark.parametrize("code", ["ag.rand(3, dtype='int64')", "ag.randn_like(ag.ones(3, dtype='bool'))"])
def test_fractions_are_not_drawn_as_integers(code):
    with pytest.raises(
        TypeError, match=r"are drawn as floating point ones, not as (int64|bool)\n  Draw integers by randint"
    ):
        eval(code)


#: What PyTorch's `random_()` reaches, inclusive.
LARGEST = {
    "float16": 2**11,
    "float32": 2**24,
    "float64": 2**53,
    "bool": 1,
    "uint8": 255,
    "int8": 127,
    "int16": 2**15 - 1,
    "int32": 2**31 - 1,
    "int64": 2**63 - 1,
}


@pytest.mark.parametrize("dtype", LARGEST)
def test_random_integers_without_bounds_are_all_that_a_dtype_holds(dtype):
    ag.manual_seed(5)
    drawn = [int(x) for x in ag.empty(4000, dtype=dtype).random_().tolist()]
    assert 0 <= min(drawn) <= LARGEST[dtype] * 0.01
    assert LARGEST[dtype] * 0.99 <= max(drawn) <= LARGEST[dtype]


@pytest.mark.parametrize(
    ("dtype", "call", "message"),
    [
        ("int8", "random_(129)", "to - 1 is out of bounds for int8: to=129 > 127 \\+ 1"),
        ("uint8", "random_(-1, 3)", "from is out of bounds for uint8: from=-1 < 0"),
        ("bool", "random_(3)", "to - 1 is out of bounds for bool"),
    ],
)
def test_integers_that_a_dtype_does_not_hold_are_refused(dtype, call, message):
    with pytest.raises(RuntimeError, match=message):
        eval(f"x.{call}", {"x": ag.zeros(3, dtype=dtype)})
    assert set(ag.empty(200).random_(to=3).tolist()) == {0.0, 1.0, 2.0}


@pytest.mark.parametrize("call", ["random_()", "random_(3)", "exponential_()"])
def test_real_distributions_fill_no_complex_tensor(call):
    with pytest.raises(TypeError, match=r"_\(\) draws .*complex128 is complex\n  Called at "):
        eval(f"x.{call}", {"x": ag.zeros(3, dtype="complex128")})


def test_an_index_is_a_vector():
    x = ag.arange(6.0).reshape(2, 3)
    assert ag.index_select(x, 1, ag.tensor(1)).tolist() == [[1.0], [4.0]]  # as in PyTorch
    with pytest.raises(
        IndexError, match=r"^index_select\(\): Index is supposed to be a vector\n.* \(1, 2\); take\(x, index, axis"
    ):
        x.index_select(1, ag.tensor([[0, 1]]))
