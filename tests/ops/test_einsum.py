"""einsum against NumPy's, for equations drawn at random, and its derivatives against finite differences."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agrad as ag
from agrad.autograd import gradcheck, gradgradcheck

LETTERS = "abcdE"


@st.composite
def problems(draw, most=3):
    """An equation and operands: repeated letters, an ellipsis, axes of length 0 and 1 that broadcast, implicit results."""
    sizes = {c: draw(st.integers(0 if i == 0 else 1, 3)) for i, c in enumerate(LETTERS)}
    count = draw(st.integers(1, most))
    dots = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    ellipsis = draw(st.booleans())
    terms, shapes = [], []
    for _ in range(count):
        term = draw(st.text(LETTERS, max_size=3))
        single = {c for c in term if draw(st.booleans()) and draw(st.booleans())}  # of length 1 in this operand
        shape = [1 if c in single else sizes[c] for c in term]
        if ellipsis:
            lead = dots[draw(st.integers(0, len(dots))) :]
            at = draw(st.integers(0, len(term)))
            shape[at:at] = [1 if draw(st.booleans()) else n for n in lead]
            term = f"{term[:at]}...{term[at:]}"
        terms.append(term)
        shapes.append(tuple(shape))
    equation = ",".join(terms)
    if draw(st.booleans()):
        used = sorted({c for term in terms for c in term if c != "."})
        chosen = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
        at = draw(st.integers(0, len(chosen)))
        equation += "->" + "".join(chosen[:at]) + ("..." if ellipsis else "") + "".join(chosen[at:])
    return equation, shapes


def operands(shapes, seed=0, dtype=np.float64):
    rng = np.random.default_rng(seed)
    made = [rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape) for shape in shapes]
    return [np.asarray(a + 1j * a[::-1] if np.dtype(dtype).kind == "c" and a.ndim else a, dtype) for a in made]


def host(tensor):
    return np.asarray(tensor._spec.backend.to_host(tensor._raw))


@settings(max_examples=250, deadline=None, database=None, derandomize=True)
@given(problem=problems())
def test_values_are_numpys(problem):
    equation, shapes = problem
    arrays = operands(shapes)
    expected = np.einsum(equation, *arrays)
    found = ag.extra.einsum(equation, *map(ag.tensor, arrays))
    assert found.shape == expected.shape
    np.testing.assert_allclose(host(found), expected, rtol=1e-12, atol=1e-12)


@settings(max_examples=40, deadline=None, database=None, derandomize=True)
@given(problem=problems(most=2))
def test_derivatives(problem):
    equation, shapes = problem
    tensors = [ag.tensor(a, requires_grad=True) for a in operands(shapes)]
    assert gradcheck(lambda *t: ag.extra.einsum(equation, *t), tensors, check_forward_ad=True, fast_mode=True)
    assert gradgradcheck(lambda *t: ag.extra.einsum(equation, *t), tensors, check_fwd_over_rev=True, fast_mode=True)


CASES = [
    ("ij,jk->ik", [(2, 3), (3, 4)]),
    ("...ij,...jk", [(5, 1, 2, 3), (4, 3, 2)]),
    ("iij->j", [(3, 3, 2)]),
    ("iii", [(2, 2, 2)]),
    ("ij,ij->i", [(1, 3), (2, 3)]),
    ("i,j,k,k->ji", [(2,), (3,), (4,), (4,)]),
    ("ab,bc,cd,da->", [(2, 3), (3, 4), (4, 2), (2, 2)]),
    ("ij->ji", [(2, 3)]),
    ("i j , j", [(2, 3), (3,)]),
    ("...->...", [(2, 3)]),
]


@pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)
@pytest.mark.parametrize(("equation", "shapes"), CASES, ids=[c[0] for c in CASES])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_on_every_backend(equation, shapes, dtype, make, close):
    arrays = operands(shapes, dtype=dtype)
    tensors = [make(a, requires_grad=True) for a in arrays]
    close(ag.extra.einsum(equation, *tensors), np.asarray(np.einsum(equation, *arrays)), rtol=1e-12, atol=1e-13)
    assert gradcheck(lambda *t: ag.extra.einsum(equation, *t), tensors, fast_mode=True)


@pytest.fixture(params=["numpy", "strict", "dask"])
def backend(request):
    return request.getfixturevalue(f"{request.param}_backend")


def test_nothing_is_computed(never_computes):
    import dask.array as da

    x, y = (ag.asarray(da.ones((4, 4), chunks=2)).requires_grad_() for _ in range(2))
    result = ag.extra.einsum("ii,ij->j", x, y)
    (g,) = ag.autograd.grad(result, x, ag.ones_like(result))
    assert g.shape == (4, 4)


def test_an_ellipsis_may_take_every_letter():
    x = np.arange(2.0).reshape((2,) + (1,) * 51)
    np.testing.assert_array_equal(ag.extra.einsum("...->...", ag.asarray(x)).numpy(), x, strict=True)


def test_integers_keep_their_dtype(make, close):
    a = np.arange(6).reshape(2, 3)
    for equation, arrays in (("ij->", [a]), ("ij,kj->ik", [a, a]), ("ij->ji", [a])):
        close(ag.extra.einsum(equation, *map(make, arrays)), np.asarray(np.einsum(equation, *arrays)))


def test_lists_go_to_the_device_of_the_others(make, backend):
    found = ag.extra.einsum("ij,j->i", make([[1.0, 2.0]]), [3.0, 4.0])
    assert found.tolist() == [11.0]
    assert found.device == backend


def test_the_result_is_a_tensor_of_its_own():
    x = ag.tensor([1.0, 2.0])
    y = ag.extra.einsum("i->i", x)
    assert y is not x
    assert y.tolist() == [1.0, 2.0]


# -- the order of contraction -----------------------------------------------------------------------------------------

CHAIN = "ab,bc,cd,de->ae"
SHAPES = [(2, 3), (3, 4), (4, 2), (2, 5)]


@pytest.mark.parametrize("optimize", [None, True, False, "greedy", "optimal", [(2, 3), (0, 1), (0, 1)], [(0, 1, 2, 3)]])
def test_the_order_changes_nothing(optimize):
    if isinstance(optimize, str) or optimize is True:
        pytest.importorskip("opt_einsum")
    arrays = operands(SHAPES)
    found = ag.extra.einsum(CHAIN, *map(ag.tensor, arrays), optimize=optimize)
    np.testing.assert_allclose(host(found), np.linalg.multi_dot(arrays), rtol=1e-12)


@pytest.fixture
def seen_products(monkeypatch):
    """The labels of the operands of every product."""
    einstein = importlib.import_module("agrad.ops.extra.einstein")
    seen, original = [], einstein.contraction

    def contraction(x1, x2, first, second, result):
        seen.append((first, second))
        return original(x1, x2, first, second, result)

    monkeypatch.setattr(einstein, "contraction", contraction)
    einstein._plan.cache_clear()
    yield seen
    einstein._plan.cache_clear()


def test_opt_einsum_plans(seen_products):
    """A matrix chain that ends with a vector begins there."""
    pytest.importorskip("opt_einsum")
    ag.extra.einsum("ab,bc,c->a", *map(ag.tensor, operands([(9, 9), (9, 9), (9,)])))
    assert {*seen_products[0]} == {"bc", "c"}
    seen_products.clear()
    ag.extra.einsum("ab,bc,c->a", *map(ag.tensor, operands([(9, 9), (9, 9), (9,)])), optimize=False)
    assert {*seen_products[0]} == {"ab", "bc"}


def test_without_opt_einsum(monkeypatch):
    einstein = importlib.import_module("agrad.ops.extra.einstein")
    imported = importlib.import_module

    def missing(name, *args):
        if name == "opt_einsum":
            raise ModuleNotFoundError(name)
        return imported(name, *args)

    einstein._plan.cache_clear()
    monkeypatch.setattr(importlib, "import_module", missing)
    arrays = operands(SHAPES)
    tensors = [ag.tensor(a) for a in arrays]
    np.testing.assert_allclose(host(ag.extra.einsum(CHAIN, *tensors)), np.linalg.multi_dot(arrays), rtol=1e-12)
    with pytest.raises(ImportError, match="needs opt_einsum: pip install opt_einsum"):
        ag.extra.einsum(CHAIN, *tensors, optimize="greedy")
    einstein._plan.cache_clear()


def test_two_operands_are_one_product():
    """The graph of a contraction is one node, and so is each of its derivatives."""
    a, b = (ag.tensor(x, requires_grad=True) for x in operands([(2, 3, 4), (2, 4, 5)]))
    y = ag.extra.einsum("bij,bjk->kbi", a, b)
    assert [edge[0].name() for edge in y.grad_fn.next_functions] == ["AccumulateGrad", "AccumulateGrad"]


# -- errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("equation", "shapes", "message"),
    [
        ("ij", [(2,)], r"number of subscripts in the equation \(2\) does not match the number of dimensions \(1\)"),
        ("i", [(2, 3)], "does not match the number of dimensions"),
        ("ij,jk", [(2, 3)], "fewer operands were provided"),
        ("ij", [(2, 3), (2, 3)], "more operands were provided"),
        ("ij->ik", [(2, 3)], "output subscript k does not appear"),
        ("ij->ii", [(2, 3)], "output subscript i appears more than once"),
        ("...i->i", [(2, 3)], "so the result needs one too"),
        ("i.j", [(2, 3)], "not part of one ellipsis"),
        ("i......", [(2, 3)], "not part of one ellipsis"),
        ("i1", [(2, 3)], "must be letters"),
        ("ij->j->i", [(2, 3)], "must be letters"),
        ("ii", [(2, 3)], r"subscript i is repeated within an operand but the sizes don't match, 3 != 2"),
        ("ij,jk", [(2, 3), (4, 2)], "operands have sizes 3 and 4 for subscript j"),
        ("...->...", [(1,) * 53], "more than there are letters left"),
    ],
)
def test_what_is_refused(equation, shapes, message):
    with pytest.raises(ValueError, match=message) as caught:
        ag.extra.einsum(equation, *map(ag.tensor, operands(shapes)))
    assert f"Called at {__file__}" in str(caught.value)


@pytest.mark.parametrize("equation", ["i,i->", "bi,bi->b", "ij,jk->ik", "i,j->ij", "ii,i->i", "ijk,j->i", "ij,k->k"])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool"])
def test_integers_beside_numbers(equation, dtype):
    terms = equation.partition("->")[0].split(",")
    whole = np.ones((2,) * len(terms[0]), dtype=dtype)
    numbers = operands([(2,) * len(terms[1])])[0]
    x = ag.asarray(numbers, requires_grad=True)
    result = ag.extra.einsum(equation, ag.asarray(whole), x)
    np.testing.assert_allclose(np.asarray(result.detach()), np.einsum(equation, whole, numbers), rtol=1e-12)
    (gradient,) = ag.autograd.grad(result.sum(), x)
    for i in range(x.size):  # linear: what each unit gives
        unit = np.eye(x.size)[i].reshape(x.shape)
        assert np.asarray(gradient).ravel()[i] == np.einsum(equation, whole, unit).sum()


def test_no_equation():
    with pytest.raises(TypeError, match="the equation must be a str"):
        ag.extra.einsum(ag.tensor([1.0]), [0])
    with pytest.raises(ValueError, match="at least one operand"):
        ag.extra.einsum("i")


def test_operands_may_be_one_list():
    x, y = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(ag.einsum("ij,jk->ik", [ag.asarray(x), ag.asarray(y)]).numpy(), x @ y)
