"""Tensor: attributes, the rules around requires_grad and .grad, text, conversion to Python and copies."""

from __future__ import annotations

import concurrent.futures
import copy
import inspect
import io
import math
import multiprocessing
import operator
import pickle

import numpy as np
import pytest

import agrad as ag


def leaf(*values, **kwargs):
    return ag.tensor(list(values), requires_grad=True, **kwargs)


def this_line():
    return f"{__file__}:{inspect.currentframe().f_back.f_lineno}"


# -- requires_grad, is_leaf, grad_fn ----------------------------------------------------------------------------------


def test_defaults_of_a_new_tensor():
    x = ag.tensor([1.0, 2.0])
    assert (x.requires_grad, x.is_leaf, x.grad_fn, x.grad, x.output_nr) == (False, True, None, None, 0)


def test_result_requires_grad_when_an_operand_does():
    x, c = leaf(1.0, 2.0), ag.tensor([3.0, 4.0])
    assert (x * c).requires_grad
    assert (c * x).requires_grad
    assert not (c * c).requires_grad
    assert not (x * c).is_leaf
    assert (c * c).is_leaf


@pytest.mark.parametrize("dtype", [ag.float32, ag.float64, ag.complex64, ag.complex128])
def test_inexact_dtypes_may_require_grad(dtype):
    x = ag.ones(2, dtype=dtype, requires_grad=True)
    assert x.requires_grad
    assert ag.ones(2, dtype=dtype).requires_grad_().requires_grad


@pytest.mark.parametrize("dtype", [ag.int8, ag.int64, ag.uint8, ag.bool])
def test_other_dtypes_may_not(dtype):
    message = "nly Tensors of floating point and complex dtype can require gradients"
    with pytest.raises(RuntimeError, match=message):
        ag.ones(2, dtype=dtype, requires_grad=True)
    x = ag.ones(2, dtype=dtype)
    with pytest.raises(RuntimeError, match=message):
        x.requires_grad_()
    with pytest.raises(RuntimeError, match=message):
        x.requires_grad = True
    assert not x.requires_grad
    assert not x.requires_grad_(False).requires_grad


@pytest.mark.parametrize("make", [lambda x: x > 1.5, ag.argmax, lambda x: ag.astype(x, ag.int64), ag.isnan])
def test_results_of_other_dtypes_do_not_require_grad(make):
    result = make(leaf(1.0, 2.0))
    assert not result.requires_grad
    assert result.grad_fn is None


@pytest.mark.parametrize("value", [1, 0, None, "yes"])
def test_requires_grad_must_be_a_bool(value):
    x = ag.tensor([1.0])
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        x.requires_grad = value
    with pytest.raises(RuntimeError, match="requires_grad must be a bool"):
        x.requires_grad_(value)


def test_requires_grad_of_a_result_cannot_be_cleared():
    y = leaf(1.0, 2.0) * 2
    line = this_line()
    line = line.rpartition(":")[0] + f":{int(line.rpartition(':')[2]) - 1}"
    for clear in (lambda: y.requires_grad_(False), lambda: setattr(y, "requires_grad", False)):
        with pytest.raises(RuntimeError, match="you can only change requires_grad flags of leaf variables") as info:
            clear()
        assert "var_no_grad = var.detach()" in str(info.value)
        assert "MultiplyBackward0" in str(info.value)
        assert line in str(info.value)
    assert y.requires_grad


def test_setting_requires_grad_of_a_result_to_true_changes_nothing():
    y = leaf(1.0, 2.0) * 2
    node = y.grad_fn
    y.requires_grad = True
    assert y.requires_grad_() is y
    assert y.grad_fn is node


def test_requires_grad_returns_self():
    x = ag.tensor([1.0])
    assert x.requires_grad_() is x
    assert x.requires_grad_(False) is x


def test_freezing_a_leaf_after_a_graph_was_built():
    x, w = leaf(2.0, 3.0), leaf(5.0, 7.0)
    y = (x * w).sum()
    w.requires_grad_(False)
    y.backward()
    assert x.grad.tolist() == [5.0, 7.0]
    assert w.grad is None
    with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad"):
        ag.grad((x * x).sum(), w)


def test_a_leaf_thawed_again_takes_part_in_old_graphs():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    x.requires_grad_(False)
    x.requires_grad_(True)
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_a_frozen_leaf_keeps_the_grad_it_has():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    x.requires_grad_(False)
    y.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_hooks_and_grad_survive_freezing():
    x = leaf(1.0, 2.0)
    x.register_hook(lambda g: g * 10)
    x.sum().backward()
    x.requires_grad_(False)
    assert x.grad.tolist() == [10.0, 10.0]
    x.requires_grad_(True)
    x.sum().backward()
    assert x.grad.tolist() == [20.0, 20.0]


def test_grad_fn_is_one_object_and_named_after_the_op():
    x = leaf(1.0, 2.0)
    y = x * x
    assert y.grad_fn is y.grad_fn
    assert y.grad_fn.name() == "MultiplyBackward0"
    assert repr(y.grad_fn).startswith("<MultiplyBackward0 object at 0x")
    assert ag.matmul(ag.ones((2, 2), requires_grad=True), ag.ones((2, 2))).grad_fn.name() == "MatmulBackward0"
    assert y.detach().grad_fn is None


@pytest.mark.parametrize("name", ["grad_fn", "is_leaf", "output_nr", "shape", "dtype", "device", "ndim", "size"])
def test_read_only_attributes(name):
    x = leaf(1.0)
    before = getattr(x, name)
    with pytest.raises(AttributeError):
        setattr(x, name, None)
    assert getattr(x, name) == before


def test_output_nr_of_several_results():
    x = ag.ones((3, 2), requires_grad=True)
    rows = ag.unstack(x)
    assert [row.output_nr for row in rows] == [0, 1, 2]
    assert len({id(row.grad_fn) for row in rows}) == 1
    assert rows[1].grad_fn.name() == "UnstackBackward0"


def test_shapes_and_sizes():
    x = ag.zeros((2, 3), dtype=ag.float32)
    assert (x.shape, x.ndim, x.dim(), x.size, x.numel(), x.nbytes, x.element_size()) == ((2, 3), 2, 2, 6, 6, 24, 4)
    assert x.device == "numpy"
    assert x.is_floating_point()
    assert not x.is_complex()
    assert ag.zeros(1, dtype=ag.complex64).is_complex()


def test_creation_under_no_grad_keeps_requires_grad():
    with ag.no_grad():
        x = ag.ones(2, requires_grad=True)
    assert x.requires_grad


def test_unknown_attribute():
    with pytest.raises(AttributeError, match="no_such_thing"):
        leaf(1.0).no_such_thing


def test_attributes_of_the_users():
    x = leaf(1.0)
    x.label = "weights"
    assert x.label == "weights"
    assert not hasattr(x * 1, "label")


def test_constructor_takes_a_shape_or_data():
    assert ag.Tensor(3, 5).shape == (3, 5)
    assert ag.Tensor([1, 2]).tolist() == [1.0, 2.0]
    assert ag.Tensor([1, 2]).dtype == ag.get_default_dtype()
    assert str(ag.Tensor(3, 5, dtype="int16").dtype) == str(ag.Tensor([1, 2], dtype="int16").dtype) == "int16"
    with pytest.raises(TypeError, match="a shape as integers, or one sequence"):
        ag.Tensor([1], [2])


def test_tensor_of_a_tensor_warns_and_copies_without_history():
    x = leaf(1.0, 2.0)
    with pytest.warns(UserWarning, match="it is recommended to use sourceTensor"):
        y = ag.tensor(x * 2)
    assert not y.requires_grad
    assert y.tolist() == [2.0, 4.0]


# -- grad -------------------------------------------------------------------------------------------------------------


def test_grad_can_be_assigned_and_deleted():
    x = leaf(1.0, 2.0)
    g = ag.tensor([5.0, 6.0])
    x.grad = g
    assert x.grad is g
    del x.grad
    assert x.grad is None
    x.grad = g
    x.grad = None
    assert x.grad is None


def test_grad_of_a_tensor_that_requires_none():
    x = ag.tensor([1.0, 2.0])
    x.grad = None
    assert x.grad is None
    x.grad = ag.tensor([5.0, 6.0])
    assert x.grad.tolist() == [5.0, 6.0]
    assert not x.requires_grad


def test_backward_adds_to_an_assigned_grad_in_place():
    x = leaf(1.0, 2.0)
    g = ag.tensor([10.0, 20.0])
    x.grad = g
    (x * 3).sum().backward()
    assert x.grad is g
    assert g.tolist() == [13.0, 23.0]


@pytest.mark.parametrize(
    ("value", "error", "message"),
    [
        (0, TypeError, "assigned grad expected to be a Tensor or None but got grad of type int"),
        (np.ones(2), TypeError, "assigned grad expected to be a Tensor or None but got grad of type ndarray"),
        (ag.zeros(3), RuntimeError, r"attempting to assign a gradient of size '\[3\]' to a tensor of size '\[2\]'"),
        (ag.zeros((1, 2)), RuntimeError, r"attempting to assign a gradient of size '\[1, 2\]'"),
        (ag.zeros(2, dtype=ag.float32), RuntimeError, "attempting to assign a gradient with dtype 'float32'"),
        (ag.zeros(2, dtype=ag.complex128), RuntimeError, "attempting to assign a gradient with dtype 'complex128'"),
    ],
)
def test_assigned_grad_is_checked(value, error, message):
    x = leaf(1.0, 2.0)
    with pytest.raises(error, match=message):
        x.grad = value
    assert x.grad is None


def test_a_tensor_is_not_its_own_grad():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match="can't assign Variable as its own grad"):
        x.grad = x


def test_grad_of_a_result_warns_and_names_it():
    y = leaf(1.0, 2.0) * 2
    with pytest.warns(UserWarning, match=r"The \.grad attribute of a Tensor that is not a leaf Tensor") as record:
        assert y.grad is None
    assert record[0].filename == __file__
    assert "MultiplyBackward0" in str(record[0].message)


def test_retain_grad():
    x = leaf(1.0, 2.0)
    y = x * 2
    assert not y.retains_grad
    y.retain_grad()
    y.retain_grad()
    assert y.retains_grad
    assert y.grad is None
    z = (y * y).sum()
    z.backward(retain_graph=True)
    assert y.grad.tolist() == [4.0, 8.0]
    kept = y.grad
    z.backward()
    assert y.grad is kept
    assert y.grad.tolist() == [8.0, 16.0]


def test_retain_grad_of_a_leaf_does_nothing():
    x = leaf(1.0)
    x.retain_grad()
    assert not x.retains_grad
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0]


def test_retain_grad_needs_requires_grad():
    with pytest.raises(RuntimeError, match="can't retain_grad on Tensor that has requires_grad=False"):
        ag.tensor([1.0]).retain_grad()


def test_grad_assigned_to_a_result_is_no_retain_grad():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.grad = ag.tensor([1.0, 1.0])
    assert not y.retains_grad
    y.sum().backward(retain_graph=True)
    assert y.grad.tolist() == [1.0, 1.0]
    y.retain_grad()
    y.sum().backward()
    assert y.grad.tolist() == [2.0, 2.0]


def test_retained_grad_of_one_of_several_results():
    x = ag.ones((2, 2), requires_grad=True)
    a, b = ag.unstack(x * 3)
    b.retain_grad()
    (a * 2 + b * 5).sum().backward()
    assert b.grad.tolist() == [5.0, 5.0]
    assert x.grad.tolist() == [[6.0, 6.0], [15.0, 15.0]]


# -- detach -----------------------------------------------------------------------------------------------------------


def test_detach_is_a_new_leaf_of_the_same_value():
    x = leaf(1.0, 2.0)
    y = x * 2
    d = y.detach()
    assert d is not y
    assert (d.requires_grad, d.is_leaf, d.tolist()) == (False, True, [2.0, 4.0])
    assert y.requires_grad


def test_detach_does_not_alias():
    x = leaf(1.0, 2.0)
    d = x.detach()
    with pytest.warns(ag.LostWriteWarning):
        d[0] = 9.0
    assert x.tolist() == [1.0, 2.0]
    d *= 2
    assert x.tolist() == [1.0, 2.0]


def test_detach_in_place_cuts_history():
    x = leaf(1.0, 2.0)
    y = x * 2
    z = (y * y).sum()
    assert y.detach_() is y
    assert (y.requires_grad, y.is_leaf, y.grad_fn) == (False, True, None)
    z.backward()
    assert x.grad.tolist() == [8.0, 16.0]  # what was recorded stays


def test_detach_in_place_of_a_leaf_keeps_its_grad():
    x = leaf(1.0, 2.0)
    x.sum().backward()
    x.detach_()
    assert not x.requires_grad
    assert x.grad.tolist() == [1.0, 1.0]


def test_detach_in_place_ends_retain_grad():
    x = leaf(1.0, 2.0)
    y = x * 2
    y.retain_grad()
    z = y.sum()
    y.detach_()
    z.backward()
    assert y.grad is None
    assert not y.retains_grad
    assert x.grad.tolist() == [2.0, 2.0]


def test_data_is_the_value_without_history():
    x = leaf(1.0, 2.0)
    assert not x.data.requires_grad
    x.data = ag.tensor([5.0, 6.0])
    assert x.requires_grad
    assert x.tolist() == [5.0, 6.0]
    x.data = np.array([7.0, 8.0])
    assert x.tolist() == [7.0, 8.0]
    x.data -= 1
    assert x.tolist() == [6.0, 7.0]
    with pytest.raises(RuntimeError, match="data set to a tensor that requires gradients must be floating point"):
        x.data = ag.tensor([1, 2])
    with pytest.raises(TypeError, match="data must be a Tensor or an array, not list"):
        x.data = [1.0, 2.0]
    assert x.tolist() == [6.0, 7.0]


# -- text -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: ag.tensor([1.0, 2.5]), "tensor([1.0000, 2.5000])"),
        (lambda: ag.tensor(3.0), "tensor(3.)"),
        (lambda: ag.tensor([1, 2]), "tensor([1, 2])"),
        (lambda: ag.tensor([True, False]), "tensor([ True, False])"),
        (lambda: ag.tensor([1.0], dtype=ag.float32), "tensor([1.], dtype=float32)"),
        (lambda: leaf(1.0, 2.0), "tensor([1., 2.], requires_grad=True)"),
        (lambda: leaf(1.0, 2.0) * 3, "tensor([3., 6.], grad_fn=<MultiplyBackward0>)"),
        (lambda: (leaf(1.0, 2.0) * 3).sum(), "tensor(9., grad_fn=<SumBackward0>)"),
        (lambda: (leaf(1.0, 2.0) * 3).detach(), "tensor([3., 6.])"),
        (lambda: ag.tensor([[1.0, 2.0], [3.0, 4.0]]), "tensor([[1., 2.],\n        [3., 4.]])"),
    ],
)
def test_repr(make, text):
    assert repr(make()) == text
    assert str(make()) == text


def test_repr_is_silent_and_changes_nothing():
    x = leaf(1.0)
    assert repr(x) == repr(x)  # warnings are errors here
    assert x.requires_grad
    assert x.grad is None


def test_format():
    assert f"{ag.tensor(2.0):.3f}" == "2.000"
    assert f"{leaf(1.0)}" == "tensor([1.], requires_grad=True)"
    assert f"{ag.tensor(0.1) / 3}" == str(0.1 / 3)  # as in PyTorch: all digits of the number
    seen = []
    ag.func.vmap(lambda x: (seen.append(f"{x}"), x)[1])(ag.ones(2))
    assert seen == ["BatchedTensor(lvl=1, value=tensor([1., 1.]))"]
    assert f"{ag.tensor(7):>4d}" == "   7"
    with pytest.raises(TypeError, match=r"unsupported format string passed to Tensor\.__format__"):
        f"{ag.tensor([1.0, 2.0]):.3f}"


def test_round():
    assert round(ag.tensor(1.2345), 2) == 1.23
    assert (round(ag.tensor(2.5)), round(ag.tensor(17), -1)) == (2, 20)
    with pytest.warns(ag.LeavesGraphWarning, match="not differentiated"):
        round(ag.tensor(1.5, requires_grad=True))
    with pytest.raises(ValueError, match="only one element"):
        round(ag.ones(2))


# -- leaving for Python -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "kind"),
    [(2.5, float), (3, int), (True, bool), (1 + 2j, complex)],
    ids=["float", "int", "bool", "complex"],
)
@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_item(value, kind, shape):
    item = ag.full(shape, value).item()
    assert item == value
    assert type(item) is kind


def test_item_and_tolist_are_silent_with_requires_grad():
    x = leaf(2.5)
    assert x.item() == 2.5
    assert (x * 2).tolist() == [5.0]


@pytest.mark.parametrize("shape", [(2,), (0,), (2, 2)])
def test_item_of_another_number_of_elements(shape):
    size = math.prod(shape)
    with pytest.raises(RuntimeError, match=f"a Tensor with {size} elements cannot be converted to Scalar"):
        ag.zeros(shape).item()


def test_tolist():
    assert ag.tensor([[1, 2], [3, 4]]).tolist() == [[1, 2], [3, 4]]
    assert ag.tensor(1.5).tolist() == 1.5
    assert ag.zeros((0,)).tolist() == []
    assert type(ag.tensor([1.0]).tolist()[0]) is float


def test_numbers_of_one_element():
    assert float(ag.tensor([[2.5]])) == 2.5
    assert int(ag.tensor(3.7)) == 3
    assert complex(ag.tensor(1 + 2j)) == 1 + 2j
    assert bool(ag.tensor([1.0]))
    assert not bool(ag.tensor(0))
    assert not ag.tensor(False)


@pytest.mark.parametrize("convert", [float, int, complex])
def test_numbers_of_tensors_that_require_grad_warn(convert):
    x = ag.tensor(3.0, requires_grad=True)
    with pytest.warns(ag.LeavesGraphWarning, match="Converting a tensor with requires_grad=True to a scalar") as record:
        assert convert(x) == 3
    assert record[0].filename == __file__
    with ag.no_grad():
        assert convert(x) == 3
    assert issubclass(ag.LeavesGraphWarning, UserWarning)


def test_math_functions_warn_too():
    with pytest.warns(ag.LeavesGraphWarning):
        assert math.exp(ag.tensor(0.0, requires_grad=True)) == 1.0


@pytest.mark.parametrize("convert", [float, int, complex])
def test_numbers_of_several_elements(convert):
    with pytest.raises(ValueError, match="only one element tensors can be converted to Python scalars"):
        convert(ag.tensor([1.0, 2.0]))


def test_bool_of_another_number_of_elements():
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        bool(ag.tensor([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with no values is ambiguous"):
        bool(ag.zeros(0))


def test_bool_of_a_tensor_that_requires_grad_is_silent():
    assert leaf(1.0) > 0
    assert bool(leaf(1.0))


def test_index():
    assert operator.index(ag.tensor(3)) == 3
    assert operator.index(ag.tensor([3])) == 3
    assert [10, 20, 30][ag.tensor(1)] == 20
    assert list(range(ag.tensor(3))) == [0, 1, 2]


@pytest.mark.parametrize("value", [3.0, [1, 2], True, 1j])
def test_index_of_anything_else(value):
    with pytest.raises(TypeError, match="only integer tensors of a single element can be converted to an index"):
        operator.index(ag.tensor(value))


def test_len_and_iteration():
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    assert len(x) == 2
    rows = list(x)
    assert [row.tolist() for row in rows] == [[1.0, 2.0], [3.0, 4.0]]
    (rows[1] * 5).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [5.0, 5.0]]
    _, second = x
    assert second.tolist() == [3.0, 4.0]
    assert len(ag.zeros((0, 3))) == 0
    assert list(ag.zeros((0, 3))) == []


def test_len_and_iteration_of_a_scalar():
    x = ag.tensor(3.0)
    with pytest.raises(TypeError, match="len\\(\\) of a 0-d tensor"):
        len(x)
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        iter(x)
    with pytest.raises(TypeError, match="iteration over a 0-d tensor"):
        list(leaf(1.0)[0])


# -- equality, hash ---------------------------------------------------------------------------------------------------


def test_equality_is_elementwise():
    x = ag.tensor([1.0, 2.0])
    assert (x == ag.tensor([1.0, 3.0])).tolist() == [True, False]
    assert (x != 2.0).tolist() == [True, False]
    assert (x == "text") is False
    assert (x != "text") is True


def test_hash_is_identity():
    x, y = ag.tensor([1.0]), ag.tensor([1.0])
    assert hash(x) == hash(x)
    assert len({x, y, x}) == 2
    names = {x: "x", y: "y"}
    assert names[x] == "x"
    x += 1  # rebinding changes the value, not the identity
    assert names[x] == "x"


def test_in_a_tensor_and_in_a_list():
    x = ag.tensor([1.0, 2.0])
    assert 2.0 in x
    assert 3.0 not in x
    y = ag.tensor([[1.0], [2.0]])
    assert x in [x, y]  # identity is asked first
    with pytest.raises(RuntimeError, match="Boolean value of Tensor with more than one value is ambiguous"):
        assert x in [ag.tensor([1.0, 5.0]), x]


# -- copies -----------------------------------------------------------------------------------------------------------


def test_deepcopy_of_a_leaf():
    x = leaf(1.0, 2.0)
    x.label = ["a"]
    x.sum().backward()
    calls = []
    x.register_hook(lambda g: calls.append(g) or None)
    c = copy.deepcopy(x)
    assert (c.requires_grad, c.is_leaf, c.tolist()) == (True, True, [1.0, 2.0])
    assert c.grad is not x.grad
    assert c.grad.tolist() == [1.0, 1.0]
    assert c.label == ["a"]
    assert c.label is not x.label
    (c * 4).sum().backward()
    assert calls == []
    assert c.grad.tolist() == [5.0, 5.0]
    assert x.grad.tolist() == [1.0, 1.0]
    with ag.no_grad():
        c[0] = 9.0
    assert x.tolist() == [1.0, 2.0]


def test_deepcopy_keeps_what_is_shared():
    x = leaf(1.0)
    a, b = copy.deepcopy([x, x])
    assert a is b
    assert a is not x


def test_deepcopy_of_a_tensor_that_holds_itself():
    x = leaf(1.0)
    x.me = x
    c = copy.deepcopy(x)
    assert c.me is c


def test_deepcopy_of_a_frozen_leaf():
    x = leaf(1.0)
    x.sum().backward()
    x.requires_grad_(False)
    c = copy.deepcopy(x)
    assert not c.requires_grad
    assert c.grad.tolist() == [1.0]


def test_deepcopy_of_a_result_is_refused():
    y = leaf(1.0, 2.0) * 2
    message = "Only Tensors created explicitly by the user \\(graph leaves\\) support the deepcopy protocol"
    with pytest.raises(RuntimeError, match=message) as info:
        copy.deepcopy(y)
    assert "MultiplyBackward0" in str(info.value)
    assert copy.deepcopy(y.detach()).tolist() == [2.0, 4.0]


def test_copy_of_a_leaf():
    x = leaf(1.0, 2.0)
    x.sum().backward()
    c = copy.copy(x)
    assert (c.requires_grad, c.is_leaf, c.grad, c.tolist()) == (True, True, None, [1.0, 2.0])
    (c * 3).sum().backward()
    assert c.grad.tolist() == [3.0, 3.0]
    assert x.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("owned", [False, True])
@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_of_a_tensor_changed_in_place(duplicate, owned):
    x = ag.tensor([1.0, 2.0])
    if owned:
        x[0] = 5.0
    c = duplicate(x)
    first = c[0].item()
    x[0] = 7.0
    c[1] = 8.0
    assert x.tolist() == [7.0, 2.0]
    assert c.tolist() == [first, 8.0]
    assert type(c) is ag.Tensor


def test_clone_is_differentiable():
    x = leaf(1.0, 2.0)
    y = x.clone()
    assert not y.is_leaf
    (y * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    assert ag.tensor([1, 2]).clone().tolist() == [1, 2]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_pickle_of_a_leaf(protocol):
    x = leaf(1.0, 2.0, dtype=ag.float32)
    x.label = "w"
    x.sum().backward()
    c = pickle.loads(pickle.dumps(x, protocol))
    assert (c.requires_grad, c.is_leaf, c.grad, c.tolist(), c.label) == (True, True, None, [1.0, 2.0], "w")
    assert c.dtype == ag.float32
    (c * 3).sum().backward()
    assert c.grad.tolist() == [3.0, 3.0]


def test_pickle_of_a_result_gives_a_leaf():
    y = leaf(1.0, 2.0) * 2
    c = pickle.loads(pickle.dumps(y))
    assert (c.requires_grad, c.is_leaf, c.tolist()) == (True, True, [2.0, 4.0])


def test_pickle_of_constants():
    stream = io.BytesIO()
    pickle.dump({"a": ag.tensor([1, 2]), "b": ag.tensor(1 + 2j)}, stream)
    stream.seek(0)
    loaded = pickle.load(stream)
    assert loaded["a"].tolist() == [1, 2]
    assert loaded["b"].item() == 1 + 2j
    assert not loaded["a"].requires_grad


# -- the borders of the graph: NumPy and DLPack -----------------------------------------------------------------------


def test_numpy_is_refused_while_a_gradient_is_required():
    x = leaf(1.0, 2.0)
    for take in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.array(x), lambda: np.asarray(x * 2)):
        with pytest.raises(RuntimeError, match="Can't call numpy\\(\\) on Tensor that requires grad") as info:
            take()
        assert "tensor.detach().numpy()" in str(info.value)
    assert x.detach().numpy().tolist() == [1.0, 2.0]
    with ag.no_grad():
        assert np.asarray(x).tolist() == [1.0, 2.0]


def test_numpy_gives_a_read_only_array_without_a_copy():
    source = np.array([1.0, 2.0])
    array = ag.asarray(source).numpy()
    assert np.shares_memory(array, source)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 5.0
    assert np.array(ag.asarray(source)).flags.writeable
    assert np.asarray(ag.tensor([1.0, 2.0]), dtype=np.float32).dtype == np.float32


def test_array_keeps_its_promise_of_no_copy():
    x = ag.tensor([1.0, 2.0])
    with pytest.raises(ValueError, match="a view as"):
        x.__array__(np.float32, copy=False)
    assert not np.shares_memory(x.__array__(copy=True), x.numpy())


def test_dlpack_is_refused_while_a_gradient_is_required():
    message = "Can't export tensors that require gradient, use tensor.detach\\(\\)"
    x = leaf(1.0, 2.0)
    with pytest.raises(BufferError, match=message):
        x.__dlpack__()
    with pytest.raises(BufferError, match=message):
        np.from_dlpack(x)
    with pytest.raises(BufferError, match=message):
        ag.from_dlpack(x)
    assert np.from_dlpack(x.detach()).tolist() == [1.0, 2.0]
    assert ag.from_dlpack(np.array([3.0])).tolist() == [3.0]


def test_assignment_into_an_array_warns():
    array = np.zeros(2)
    with pytest.warns(ag.LeavesGraphWarning):
        array[0] = ag.tensor(5.0, requires_grad=True)
    assert array.tolist() == [5.0, 0.0]


UFUNCS = {
    "sin": lambda v: math.cos(v),
    "exp": lambda v: math.exp(v),
    "sqrt": lambda v: 0.5 / math.sqrt(v),
    "arctan": lambda v: 1 / (1 + v * v),
    "absolute": lambda v: 1.0,
    "negative": lambda v: -1.0,
    "square": lambda v: 2 * v,
    "conjugate": lambda v: 1.0,
}


@pytest.mark.parametrize("name", UFUNCS)
def test_ufuncs_stay_in_the_graph(name):
    x = leaf(0.5, 2.0)
    y = getattr(np, name)(x)
    assert isinstance(y, ag.Tensor)
    assert np.allclose(y.tolist(), getattr(np, name)(np.array([0.5, 2.0])))
    y.sum().backward()
    assert np.allclose(x.grad.tolist(), [UFUNCS[name](0.5), UFUNCS[name](2.0)])


A = np.array([3.0, 4.0])
OPERATORS = {
    "ndarray * tensor": (lambda x: A * x, [3.0, 4.0]),
    "tensor * ndarray": (lambda x: x * A, [3.0, 4.0]),
    "ndarray + tensor": (lambda x: A + x, [1.0, 1.0]),
    "ndarray - tensor": (lambda x: A - x, [-1.0, -1.0]),
    "ndarray / tensor": (lambda x: A / x, [-3.0, -1.0]),
    "ndarray ** tensor": (lambda x: A**x, [3 * math.log(3), 16 * math.log(4)]),
    "ndarray @ tensor": (lambda x: A @ x, [3.0, 4.0]),
    "tensor @ ndarray": (lambda x: x @ A, [3.0, 4.0]),
    "np.float64 * tensor": (lambda x: np.float64(3.0) * x, [3.0, 3.0]),
    "np.multiply": (lambda x: np.multiply(A, x), [3.0, 4.0]),
    "np.power": (lambda x: np.power(x, 2), [2.0, 4.0]),
    "np.maximum": (lambda x: np.maximum(x, np.array([0.0, 9.0])), [1.0, 0.0]),
}


@pytest.mark.parametrize("case", OPERATORS)
def test_arrays_mix_with_tensors_on_either_side(case):
    function, gradient = OPERATORS[case]
    x = leaf(1.0, 2.0)
    y = function(x)
    assert isinstance(y, ag.Tensor)
    y.sum().backward()
    assert np.allclose(x.grad.tolist(), gradient)


def test_comparisons_of_arrays_with_tensors():
    larger, same = np.array([3.0, 4.0]) > ag.tensor([3.5, 3.5]), np.array([3.0, 4.0]) == ag.tensor([3.0, 3.0])
    assert isinstance(same, ag.Tensor)
    assert larger.tolist() == [False, True]
    assert same.tolist() == [True, False]


REFUSED = {
    "unknown ufunc": (lambda x, a: np.isnat(x), "numpy.isnat is not defined for tensors"),
    "unknown function": (lambda x, a: np.packbits(x), "numpy.packbits is not defined for tensors"),
    "where=": (lambda x, a: np.sin(x, where=a > 0), "numpy.sin with where= and without out="),
    "at": (lambda x, a: np.multiply.at(x, [0], 2.0), "numpy.multiply.at is not defined for tensors"),
}


@pytest.mark.parametrize("requires_grad", [True, False])
@pytest.mark.parametrize("case", REFUSED)
def test_the_rest_of_numpy_raises(case, requires_grad):
    function, message = REFUSED[case]
    x, a = ag.tensor([1.0, 2.0], requires_grad=requires_grad), np.array([3.0, 4.0])
    with pytest.raises(TypeError, match=message) as info:
        function(x, a)
    assert __file__ in str(info.value)
    with ag.no_grad(), pytest.raises(TypeError, match=message):
        function(x, a)
    assert x.tolist() == [1.0, 2.0]
    assert a.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("change", [lambda x, a: np.add(x, a, out=a), lambda x, a: operator.iadd(a, x)])
def test_an_array_is_not_written_to_if_a_gradient_is_lost_by_it(change):
    x, a = ag.tensor([1.0, 2.0], requires_grad=True), np.array([3.0, 4.0])
    with pytest.raises(TypeError, match="out= takes a tensor, not ndarray") as info:
        change(x, a)
    assert __file__ in str(info.value)
    assert a.tolist() == [3.0, 4.0]
    with ag.no_grad():
        assert change(x, a) is a
    assert change(x.detach(), a) is a
    assert a.tolist() == [5.0, 8.0]


def test_numpy_may_ask_for_the_shape():
    x = ag.zeros((2, 3), requires_grad=True)
    assert (np.ndim(x), np.shape(x), np.size(x), np.size(x, 1)) == (2, (2, 3), 6, 3)


def test_copies_of_dual_tensors():
    with ag.autograd.forward_ad.dual_level():
        x = ag.autograd.forward_ad.make_dual(ag.tensor([1.0]), ag.tensor([2.0]))
        assert ag.autograd.forward_ad.unpack_dual(copy.copy(x) * 3.0).tangent.tolist() == [6.0]
        with pytest.raises(RuntimeError, match="the copy would lose its tangent"):
            copy.deepcopy(x)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, pickle.dumps])
def test_nodes_are_not_copied(duplicate):
    node = (ag.tensor([1.0], requires_grad=True) * 2.0).grad_fn
    with pytest.raises(TypeError, match="cannot pickle or copy 'MultiplyBackward0' object"):
        duplicate(node)


@pytest.mark.parametrize("backend", ["numpy", "strict", "dask"], indirect=True)
def test_models_and_optimizers_go_on_alike_after_copying(backend):
    with ag.use_backend(backend):
        layer = ag.nn.Linear(2, 2)
        optimizer = ag.optim.Adam(layer.parameters(), lr=0.1)
        data = ag.asarray(np.array([1.0, 2.0]), device=backend)

        def step(layer, optimizer):
            optimizer.zero_grad()
            layer(data).sum().backward()
            optimizer.step()
            return layer.weight.tolist()

        step(layer, optimizer)
        deep = copy.deepcopy((layer, optimizer))
        sent = pickle.loads(pickle.dumps((layer, optimizer)))
        before = layer.weight.tolist()
        found = step(layer, optimizer)
        assert found != before
        assert step(*deep) == step(*sent) == found


def test_tensors_go_to_other_processes():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        made = pool.submit(ag.multiply, x, 3.0).result()
    assert made.tolist() == [3.0, 6.0]
    assert made.requires_grad
    assert made.is_leaf


@pytest.mark.parametrize("data", ["a", ["a", "b"], np.array([object()]), np.array(["2020-01-01"], "M8[D]")])
def test_what_is_no_number_is_no_tensor(data):
    with pytest.raises(TypeError, match=r"can't convert an array of dtype .* to a tensor. The only supported types"):
        ag.asarray(data, device="numpy")


def test_a_generator_goes_on_after_copying():
    generator = ag.random.Generator(7)
    ag.rand(3, generator=generator)
    copies = copy.deepcopy(generator), pickle.loads(pickle.dumps(generator))
    following = ag.rand(3, generator=generator).tolist()
    assert [ag.rand(3, generator=one).tolist() for one in copies] == [following] * 2


def test_results_of_no_axes_are_arrays():
    """NumPy's functions give scalars for them, which cannot be written to nor be shared."""
    x = ag.tensor(2.0, requires_grad=True)
    for result in (ag.sin(x), x * 3.0, 3.0 - x, x * x, -x, ag.sum(x), x.exp()):
        assert type(result._raw) is np.ndarray


def test_a_spec_keeps_numpys_own_dtype():
    """An array whose dtype says its byte order or has metadata does not lend that dtype to all others of its shape."""
    told = np.dtype("f4").newbyteorder("<"), np.dtype("f8", metadata={"unit": "m"})
    for dtype in told:
        ag.asarray(np.ones((5, 3, 19), dtype))
        plain = np.dtype(dtype.type)
        assert ag.ones((5, 3, 19), dtype=plain.name).dtype is plain
