"""backward and grad: arguments, accumulation, what is freed, and graphs of every shape."""

from __future__ import annotations

import gc
import inspect
import math
import sys
import threading
import weakref
from collections import OrderedDict

import numpy as np
import pytest

import agrad as ag
from agrad.autograd import backward, grad
from agrad.autograd.graph import get_gradient_edge
from agrad.core import forward as forward_mode


def leaf(*values, **kwargs):
    return ag.tensor(list(values), requires_grad=True, **kwargs)


def scalar(value, **kwargs):
    return ag.tensor(value, requires_grad=True, **kwargs)


AGAIN = "Trying to backward through the graph a second time"

# -- the gradient to start from ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1)])
def test_implicit_gradient_of_one_element(shape):
    x = ag.full(shape, 3.0, requires_grad=True)
    (x * x).backward()
    assert x.grad.shape == shape
    assert x.grad.item() == 6.0


def test_implicit_gradient_of_several_elements_is_refused():
    x = leaf(1.0, 2.0)
    y = x * 2
    line = inspect.currentframe().f_lineno - 1
    for differentiate in (lambda: y.backward(), lambda: grad(y, x), lambda: backward([y])):
        with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs") as info:
            differentiate()
        assert f"{__file__}:{line}" in str(info.value)
        assert "shape (2,)" in str(info.value)
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        leaf().backward()
    assert x.grad is None


def test_implicit_gradient_of_a_complex_output_is_refused():
    x = ag.tensor(1 + 2j, requires_grad=True)
    message = "grad can be implicitly created only for real scalar outputs but got complex128"
    with pytest.raises(RuntimeError, match=message):
        (x * x).backward()


def test_explicit_gradient():
    x = leaf(1.0, 2.0)
    (x * x).backward(ag.tensor([10.0, 100.0]))
    assert x.grad.tolist() == [20.0, 400.0]
    assert grad(x * x, x, ag.tensor([1.0, 0.0]))[0].tolist() == [2.0, 0.0]


@pytest.mark.parametrize("shape", [(3,), (1,), (), (2, 1), (1, 2)])
def test_gradient_of_another_shape_is_refused(shape):
    x = leaf(1.0, 2.0)
    message = (
        rf"Mismatch in shape: grad_output\[0\] has a shape of {tuple(shape)} and output\[0\] has a shape of \(2,\)"
    )
    with pytest.raises(RuntimeError, match=message.replace("(", r"\(").replace(")", r"\)").replace(r"\\", "\\")):
        (x * 2).backward(ag.ones(shape))
    assert x.grad is None


def test_index_of_the_mismatch_is_named():
    x = leaf(1.0, 2.0)
    with pytest.raises(RuntimeError, match=r"grad_output\[1\] has a shape of \(3,\) and output\[1\]"):
        backward([x * 2, x * 3], [ag.ones(2), ag.ones(3)])


@pytest.mark.parametrize("dtype", [ag.float32, ag.int64, ag.bool])
def test_gradient_of_another_real_dtype_is_cast(dtype):
    x = leaf(1.0, 2.0)
    (x * 2).backward(ag.ones(2, dtype=dtype))
    assert x.grad.dtype == ag.float64
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(("output", "gradient"), [(ag.float64, ag.complex128), (ag.complex128, ag.float64)])
def test_gradient_of_the_other_kind_is_refused(output, gradient):
    x = ag.ones(2, dtype=output, requires_grad=True)
    message = r"For complex Tensors, both grad_output and output are required to have the same dtype.*grad_output\[0\]"
    with pytest.raises(RuntimeError, match=message):
        (x * 2).backward(ag.ones(2, dtype=gradient))
    assert x.grad is None


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        (1.0, "gradients can be either Tensors or None, but got float"),
        ([1.0, 1.0], "gradients can be either Tensors or None, but got float|got 1 tensors and 2 gradients"),
        ([1.0], "gradients can be either Tensors or None, but got float"),
        (np.ones(2), "gradients can be either Tensors or None, but got ndarray"),
    ],
)
def test_gradient_must_be_a_tensor(gradient, message):
    with pytest.raises((TypeError, RuntimeError), match=message):
        (leaf(1.0, 2.0) * 2).backward(gradient)


@pytest.mark.parametrize("create_graph", [False, True])
def test_the_gradient_given_is_never_changed_nor_aliased(create_graph):
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    source = np.array([1.0, 1.0])
    g = ag.asarray(source)
    for _ in range(3):
        (a + b).backward(g, create_graph=create_graph)
    a.backward(g, create_graph=create_graph)
    a.backward(g, create_graph=create_graph)
    assert a.grad is not b.grad
    assert a.grad is not g
    assert a.grad.tolist() == [5.0, 5.0]
    assert b.grad.tolist() == [3.0, 3.0]
    with ag.no_grad():
        a.grad.mul_(10.0)
        b.grad[0] = 7.0
    assert (a.grad.tolist(), b.grad.tolist(), g.tolist()) == ([50.0, 50.0], [7.0, 3.0], [1.0, 1.0])
    assert source.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("create_graph", [False, True])
def test_results_of_grad_are_tensors_of_their_own(create_graph):
    a, b = leaf(1.0), leaf(2.0)
    g = ag.tensor([1.0])
    ga, gb = grad(a + b, (a, b), g, create_graph=create_graph)
    ga *= 10.0
    assert (ga.tolist(), gb.tolist(), g.tolist()) == ([10.0], [1.0], [1.0])


def test_a_gradient_with_history_of_its_own():
    x, v = leaf(2.0), leaf(5.0)
    (g,) = grad(x * x, x, v, create_graph=True)
    assert g.tolist() == [20.0]
    assert [h.tolist() for h in grad(g.sum(), (x, v))] == [[10.0], [4.0]]
    (g,) = grad(x + 1.0, x, v, create_graph=True)  # passed through unchanged
    assert grad(g.sum(), v)[0].tolist() == [1.0]
    (x + 1.0).backward(v, create_graph=True)
    assert x.grad.requires_grad
    assert x.grad is not v
    assert not x.grad.is_leaf
    x.grad *= 3.0
    assert (x.grad.tolist(), v.tolist(), v.grad) == ([15.0], [5.0], None)
    (x + 1.0).backward(v)
    assert not grad(x + 1.0, x, v)[0].requires_grad


# -- roots ------------------------------------------------------------------------------------------------------------


def test_several_roots_add_up():
    x = leaf(1.0, 2.0)
    backward([(x * 2).sum(), (x * x).sum()])
    assert x.grad.tolist() == [4.0, 6.0]
    assert grad([x * 2, x * 3], x, [ag.ones(2), ag.tensor([1.0, 0.0])])[0].tolist() == [5.0, 2.0]
    assert grad([(x * 2).sum(), x * 3], x, [None, ag.ones(2)])[0].tolist() == [5.0, 5.0]


@pytest.mark.parametrize("shape", [(), (3,)])
@pytest.mark.parametrize("first", [True, False])
def test_a_leaf_of_every_step_adds_up(make, close, shape, first):
    values = np.linspace(0.5, 1.5, 3)[: shape[0] if shape else 1].reshape(shape)
    for n in range(1, 7):
        x, w = make(np.full(shape, 2.0), requires_grad=True), make(values, requires_grad=True)
        y = x
        for _ in range(n):
            y = w * y if first else y * w
        y.backward(ag.ones_like(y.detach()))
        close(w.grad, n * 2.0 * values ** (n - 1))
        close(x.grad, values**n)


def test_duplicate_roots_add_up():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    backward([y, y, y])
    assert x.grad.tolist() == [6.0, 12.0]
    x.grad = None
    backward([x, x, x], [ag.ones(2)] * 3)
    assert x.grad.tolist() == [3.0, 3.0]


@pytest.mark.parametrize("order", [slice(None), slice(None, None, -1)])
def test_a_root_may_be_an_ancestor_of_another(order):
    x = leaf(1.0, 2.0)
    y = x * 3
    z = y * y
    roots = [x.sum(), y.sum(), z.sum()][order]
    backward(roots)
    assert x.grad.tolist() == [1 + 3 + 18.0, 1 + 3 + 36.0]
    x.grad = None
    y = x * 3
    z = y * y
    backward([z, y, x][order], [ag.ones(2)] * 3)
    assert x.grad.tolist() == [22.0, 40.0]


def test_a_leaf_as_root():
    x = scalar(3.0)
    x.backward()
    x.backward()
    assert x.grad.item() == 2.0
    assert grad(x, x)[0].item() == 1.0
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs") as info:
        leaf(1.0, 2.0).backward()
    assert "It is a leaf" in str(info.value)


@pytest.mark.parametrize("index", [0, 1, 2])
def test_a_root_without_history_is_named_by_its_index(index):
    roots = [leaf(1.0).sum() for _ in range(3)]
    roots[index] = ag.tensor(1.0)
    message = f"element {index} of tensors does not require grad and does not have a grad_fn"
    with pytest.raises(RuntimeError, match=message):
        backward(roots)
    with pytest.raises(RuntimeError, match=message):
        grad(roots, roots[index - 1])


def test_a_share_of_right_answers_has_no_derivative():
    x = leaf(1.0, -2.0)
    with pytest.raises(RuntimeError, match="or from a comparison, an index or an integer, which have no derivative"):
        ag.mean(ag.astype(x > 0, "float64")).backward()


def test_roots_made_without_recording():
    x = leaf(1.0, 2.0)
    with ag.no_grad():
        y = (x * x).sum()
    message = "element 0 of tensors does not require grad"
    for root in (y, (x * x).sum().detach(), (x > 1).sum(), grad((x**3).sum(), x)[0].sum()):
        with pytest.raises(RuntimeError, match=message):
            root.backward()


@pytest.mark.parametrize("wrong", [3.0, None, "text", np.ones(1)])
def test_roots_must_be_tensors(wrong):
    with pytest.raises(TypeError, match=r"must be a Tensor or a sequence of them|must be a Tensor or GradientEdge"):
        backward(wrong)
    with pytest.raises(TypeError, match=r"must be a Tensor or a sequence of them|must be a Tensor or GradientEdge"):
        backward([wrong])
    with pytest.raises((TypeError, RuntimeError), match=r"must be a Tensor|all inputs have to be Tensors"):
        grad(leaf(1.0).sum(), [wrong])


def test_no_roots_at_all():
    backward([])
    x = leaf(1.0)
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad([], [x])
    assert x.grad is None


def test_number_of_gradients_must_match():
    x = leaf(1.0)
    for gradients, count in (([ag.ones(())], 1), ([None] * 3, 3), (ag.ones(()), 1)):
        with pytest.raises(RuntimeError, match=f"got 2 tensors and {count} gradients"):
            backward([x.sum(), x.sum()], gradients)
    with pytest.raises(RuntimeError, match="got 1 tensors and 2 gradients"):
        grad(x.sum(), x, [None, None])


# -- accumulation -----------------------------------------------------------------------------------------------------


def test_gradients_accumulate_on_one_object():
    x = leaf(1.0, 2.0)
    (x * 2).sum().backward()
    held = x.grad
    (x * 3).sum().backward()
    (x * x).sum().backward()
    assert x.grad is held
    assert held.tolist() == [7.0, 9.0]
    assert not held.requires_grad


def test_create_graph_accumulates_out_of_place():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward(create_graph=True)
    first = x.grad
    assert first.requires_grad
    (x * x).sum().backward(create_graph=True)
    assert x.grad is not first
    assert first.tolist() == [2.0, 4.0]
    assert x.grad.tolist() == [4.0, 8.0]
    assert grad(x.grad.sum(), x)[0].tolist() == [4.0, 4.0]
    x.grad = None  # it refers to the leaf, which refers to it
    for _ in range(2):
        held = x.grad
        (x * 3).sum().backward(create_graph=True)
        assert x.grad is not held
    assert held.tolist() == [3.0, 3.0]
    assert x.grad.tolist() == [6.0, 6.0]


def test_one_leaf_used_many_times():
    x = scalar(2.0)
    y = x * x * x + x / x + x - x + ag.where(ag.tensor(True), x, x)
    y.backward()
    assert x.grad.item() == 13.0  # 3 x^2 + 1


def test_grad_changes_no_grad():
    x, w = leaf(1.0), leaf(2.0)
    assert [g.tolist() for g in grad((x * w).sum(), (x, w))] == [[2.0], [1.0]]
    assert x.grad is None
    assert w.grad is None


def test_dtype_of_gradients_is_that_of_the_leaf():
    x, y = leaf(1.0, dtype=ag.float32), leaf(2.0, dtype=ag.float64)
    (x * y).sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (ag.float32, ag.float64)
    r, z = leaf(3.0), ag.tensor([1 + 2j], requires_grad=True)
    ag.real(r * z).sum().backward()
    assert (r.grad.dtype, r.grad.tolist()) == (ag.float64, [1.0])
    assert (z.grad.dtype, z.grad.tolist()) == (ag.complex128, [3 + 0j])


def test_threads_accumulating_into_one_leaf_lose_nothing():
    x = leaf(1.0, 2.0)
    y = x * 1
    y.retain_grad()
    shared = (y * 3).sum()
    threads_, times = 16, 200

    def work():
        for _ in range(times):
            (x * 2).sum().backward()
            shared.backward(retain_graph=True)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(threads_)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert x.grad.tolist() == [5.0 * threads_ * times] * 2
    assert y.grad.tolist() == [3.0 * threads_ * times] * 2


def test_threads_giving_a_leaf_its_first_gradient_lose_nothing():
    leaves = [scalar(1.0) for _ in range(600)]
    results = [x * 1.0 for x in leaves]
    for y in results:
        y.retain_grad()
    barrier = threading.Barrier(8)

    def work():
        for y in results:
            barrier.wait()
            y.backward(retain_graph=True)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert {x.grad.item() for x in leaves} == {8.0}
    assert {y.grad.item() for y in results} == {8.0}


# -- inputs= ----------------------------------------------------------------------------------------------------------


def test_inputs_limit_what_accumulates():
    a, b, c = leaf(2.0), leaf(3.0), leaf(5.0)
    y = a * b
    (y * c).sum().backward(inputs=[a, c])
    assert a.grad.tolist() == [15.0]
    assert b.grad is None
    assert c.grad.tolist() == [6.0]
    (a * b).sum().backward(inputs=b)
    assert b.grad.tolist() == [2.0]


def test_inputs_that_are_results():
    x = leaf(2.0)
    y = x * 3
    z = (y * y).sum()
    z.backward(inputs=[y], retain_graph=True)
    assert y.grad.tolist() == [12.0]
    assert x.grad is None
    held = y.grad
    z.backward(inputs=[y, y], retain_graph=True)  # named twice, counted once
    assert y.grad is held
    assert y.grad.tolist() == [24.0]
    assert y.retains_grad
    z.backward(inputs=[y, x])
    assert y.grad.tolist() == [36.0]
    assert x.grad.tolist() == [36.0]


def test_inputs_that_retain_grad_count_once():
    x = leaf(2.0)
    y = x * 3
    y.retain_grad()
    (y * 5).sum().backward(inputs=[y])
    assert y.grad.tolist() == [5.0]


def test_inputs_named_twice_count_once():
    x = leaf(2.0)
    (x * 3).sum().backward(inputs=[x, x])
    assert x.grad.tolist() == [3.0]


def test_unused_inputs_of_backward_are_ignored():
    x, other = leaf(2.0), leaf(1.0)
    (x * 3).sum().backward(inputs=[x, other])
    assert x.grad.tolist() == [3.0]
    assert other.grad is None


def test_inputs_as_a_dict():
    a, b = leaf(2.0), leaf(3.0)
    result = grad((a * b).sum(), {"a": a, "b": b})
    assert {key: g.tolist() for key, g in result.items()} == {"a": [3.0], "b": [2.0]}
    (a * b).sum().backward(inputs={"b": b})
    assert a.grad is None
    assert b.grad.tolist() == [2.0]
    assert grad((a * 2).sum(), {"b": b}, allow_unused=True) == {"b": None}


@pytest.mark.parametrize("function", ["grad", "backward"])
def test_other_mappings_are_refused(function):
    x = leaf(2.0)
    inputs = OrderedDict(x=x)
    with pytest.raises(TypeError, match=rf"`inputs` argument to `{function}\(\)` must be a dict, not OrderedDict"):
        grad(x.sum(), inputs) if function == "grad" else x.sum().backward(inputs=inputs)


@pytest.mark.parametrize("empty", [[], (), {}])
def test_empty_inputs_are_refused(empty):
    x = leaf(2.0)
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `backward\(\)` cannot be empty."):
        x.sum().backward(inputs=empty)
    with pytest.raises(RuntimeError, match=r"`inputs` argument to `grad\(\)` cannot be empty."):
        grad(x.sum(), empty)
    assert x.grad is None


@pytest.mark.parametrize("index", [0, 1, 2])
def test_an_input_without_requires_grad_is_named_by_its_index(index):
    x = leaf(2.0)
    inputs = [x, x, x]
    inputs[index] = ag.tensor([1.0])
    for kwargs in ({}, {"allow_unused": True}):
        with pytest.raises(RuntimeError, match="One of the differentiated Tensors does not require grad") as info:
            grad((x * 2).sum(), inputs, **kwargs)
        assert f"index {index}" in str(info.value)
    with pytest.raises(RuntimeError, match=f"index {index}"):
        (x * 2).sum().backward(inputs=inputs)


def test_inputs_must_be_tensors():
    x = leaf(2.0)
    with pytest.raises(RuntimeError, match="all inputs have to be Tensors or GradientEdges, but got float"):
        grad(x.sum(), [3.0])


@pytest.mark.parametrize("index", [0, 1])
def test_an_unused_input_is_named_by_its_index(index):
    x = leaf(2.0)
    inputs = [x, x]
    inputs[index] = leaf(1.0)
    message = (
        f"The differentiated Tensor at index {index} appears to not have been used in the graph. "
        "Set allow_unused=True if this is the desired behavior."
    )
    with pytest.raises(RuntimeError, match=message):
        grad((x * 2).sum(), inputs)


def test_allow_unused_and_materialize_grads():
    x, other = leaf(2.0), leaf(1.0, 2.0, dtype=ag.float32)
    y = (x * 2).sum()
    gx, nothing = grad(y, (x, other), allow_unused=True, retain_graph=True)
    assert gx.tolist() == [2.0]
    assert nothing is None
    gx, zeros = grad(y, (x, other), materialize_grads=True)
    assert (zeros.tolist(), zeros.dtype, zeros.requires_grad) == ([0.0, 0.0], ag.float32, False)
    y = (x * x).sum()
    _, zeros = grad(y, (x, other), materialize_grads=True, create_graph=True)
    assert zeros.requires_grad
    with pytest.raises(ValueError, match="Expected allow_unused to be True or not passed when materialize_grads=True"):
        grad(y, x, materialize_grads=True, allow_unused=False)


def test_a_used_result_is_no_input_once_it_is_not_on_the_way():
    x = leaf(2.0)
    y = x * 3
    with pytest.raises(RuntimeError, match="appears to not have been used"):
        grad((x * 5).sum(), y)


def test_grad_of_results():
    x = leaf(2.0)
    a = x * 3
    b = a * a
    c = (b * 5).sum()
    gc_, gb, ga, gx = grad(c, (c, b, a, x))
    assert (gc_.item(), gb.tolist(), ga.tolist(), gx.tolist()) == (1.0, [5.0], [60.0], [180.0])


def test_grad_of_one_of_several_results():
    x = ag.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    a, b = ag.unstack(x * 1)
    g = grad((a * b * b).sum(), b)[0]
    assert g.tolist() == [6.0, 16.0]
    g = grad((a * 2).sum(), b, allow_unused=True)[0]
    assert g is None


# -- what is freed ----------------------------------------------------------------------------------------------------


def test_a_second_backward_needs_retain_graph():
    x = leaf(1.0, 2.0)
    y = x * x
    line = inspect.currentframe().f_lineno - 1
    z = y.sum()
    z.backward()
    for differentiate in (lambda: z.backward(), lambda: grad(z, x), lambda: y.backward(ag.ones(2))):
        with pytest.raises(RuntimeError, match=AGAIN) as info:
            differentiate()
        assert "Specify retain_graph=True if you need to backward through the graph a second time" in str(info.value)
        assert "MultiplyBackward0" in str(info.value)
        assert f"{__file__}:{line}" in str(info.value)
    assert x.grad.tolist() == [2.0, 4.0]


def test_retain_graph():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    for _ in range(3):
        y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [8.0, 16.0]
    with pytest.raises(RuntimeError, match=AGAIN):
        y.backward()


def test_graphs_that_save_nothing_may_be_walked_again():
    x = leaf(1.0, 2.0)
    y = (x + x - 3.0 * 1.0).reshape(2, 1).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_create_graph_retains():
    x = scalar(2.0)
    y = x**3
    grad(y, x, create_graph=True)
    assert grad(y, x)[0].item() == 12.0


def test_create_graph_without_retain_graph():
    x = scalar(2.0)
    y = x**3
    (g,) = grad(y, x, create_graph=True, retain_graph=False)
    assert grad(g, x)[0].item() == 12.0
    with pytest.raises(RuntimeError, match=AGAIN):
        grad(y, x)


def test_what_is_shared_with_another_root_is_freed_too():
    x = leaf(1.0, 2.0)
    shared = x * x
    a, b = (shared * 2).sum(), (shared * 3).sum()
    a.backward()
    with pytest.raises(RuntimeError, match=AGAIN):
        b.backward()
    assert x.grad.tolist() == [4.0, 8.0]


def test_grad_frees_only_what_it_walks():
    x, w = leaf(2.0), leaf(3.0)
    y = x * x
    z = (y * w).sum()
    grad(z, y)
    assert grad(y.sum(), x)[0].tolist() == [4.0]  # was not walked
    with pytest.raises(RuntimeError, match=AGAIN):
        grad(z, y)
    y = x * x
    z = (y * w).sum()
    z.backward(inputs=[w])
    assert grad(y.sum(), x)[0].tolist() == [4.0]


# -- shapes of graphs -------------------------------------------------------------------------------------------------


def test_diamonds():
    x = scalar(2.0)
    a = x * 3
    b, c = a * a, a + 1
    d = b * c + b
    d.backward()
    # d = 9 x^2 (3 x + 2) = 27 x^3 + 18 x^2
    assert x.grad.item() == 81 * 4 + 36 * 2


def test_a_ladder_of_diamonds_is_walked_once_per_node():
    x = scalar(1.0)
    runs = []
    y = x
    for _ in range(60):  # 2^60 paths
        y = (y + y) * 0.5
        y.grad_fn.register_prehook(lambda g: runs.append(1))
    y.backward()
    assert x.grad.item() == 1.0
    assert len(runs) == 60


@pytest.mark.parametrize("width", [1000])
def test_wide_fan_in_and_fan_out(width):
    x = leaf(1.0, 2.0)
    y = x * 1
    parts = [y * float(i) for i in range(width)]
    ag.concat(parts).sum().backward()
    assert x.grad.tolist() == [width * (width - 1) / 2] * 2
    x.grad = None
    total = parts[0]
    for part in parts[1:]:
        total = total + part
    leaves = [scalar(float(i)) for i in range(width)]
    (ag.stack(leaves) * 2).sum().backward()
    assert {leaf_.grad.item() for leaf_ in leaves} == {2.0}


def test_long_skip_connections():
    x = scalar(1.0)
    y = x
    kept = []
    for _ in range(50):
        y = y * 1.0
        kept.append(y)
    total = kept[0]
    for y in reversed(kept):
        total = total + y
    total.backward()
    assert x.grad.item() == 51.0


def test_branches_of_different_age():
    a = scalar(2.0)
    old = a * a
    b = scalar(3.0)
    new = b * old
    newest = a * new + old
    newest.backward()  # a^3 b + a^2
    assert a.grad.item() == 3 * 4 * 3 + 4
    assert b.grad.item() == 8.0


def test_every_subset_of_several_results():
    for used in ((0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)):
        x = ag.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
        rows = ag.unstack(x * x)
        sum(rows[i] for i in used).sum().backward()
        expected = [[2.0 * v if i in used else 0.0 for v in row] for i, row in enumerate(x.tolist())]
        assert x.grad.tolist() == expected


def test_several_results_used_many_times():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    a, b = ag.unstack(x)
    (a * a * b + b * b + a).backward()
    assert x.grad.tolist() == [5.0, 5.0]  # 2ab + 1, a^2 + 2b


def test_results_whose_tensors_are_gone():
    x = ag.tensor([1.0, 2.0], requires_grad=True)
    a, b = ag.unstack(x)
    edge = get_gradient_edge(b)
    y = b * b
    del a, b
    gc.collect()
    assert grad(y, [x, edge], retain_graph=True)[1].item() == 4.0
    (g,) = grad(y, x, create_graph=True)
    assert grad(g.sum(), x)[0].tolist() == [0.0, 2.0]


# -- long chains ------------------------------------------------------------------------------------------------------


def chain(length, step):
    x = scalar(1.0)
    y = x
    for _ in range(length):
        y = step(y)
    return x, y


@pytest.mark.parametrize(
    ("step", "length"),
    [
        (lambda y: y + 1.0, 100_000),
        (lambda y: y * 1.0, 100_000),
        (lambda y: -y, 100_000),
        (lambda y: ag.unstack(ag.stack([y, y]))[1], 10_000),
    ],
    ids=["add", "multiply", "negative", "several results"],
)
def test_long_chains(step, length):
    x, y = chain(length, step)
    y.backward()
    assert abs(x.grad.item()) == 1.0
    x, y = chain(length, step)
    assert abs(grad(y, x)[0].item()) == 1.0
    dead = weakref.ref(y.grad_fn)
    del y
    assert dead() is None


def test_chain_is_freed_without_ever_being_walked():
    _, y = chain(100_000, lambda y: y * 1.0)
    dead = weakref.ref(y.grad_fn)
    del y
    assert dead() is None


def test_chain_of_sums_with_a_leaf():
    x = scalar(1.0)
    total = ag.tensor(0.0)
    for _ in range(20_000):
        total = total + x
    total.backward()
    assert x.grad.item() == 20_000.0


def test_backward_within_a_level_of_forward_mode():
    with forward_mode.level() as level:
        x, v = leaf(2.0), leaf(5.0)
        dual = forward_mode.with_tangent(x, ag.tensor([1.0]), level)
        (g,) = grad((dual**3).sum(), dual)
        assert g.tolist() == [12.0]
        assert forward_mode.tangent_of(g, level).tolist() == [12.0]  # 6 x: forward over reverse
        assert not g.requires_grad
        for cotangent in (v, v * 1.0):
            (g,) = grad(dual + 1.0, dual, cotangent)
            assert not g.requires_grad
        (dual * 3).sum().backward()
        assert x.grad.tolist() == [3.0]
        assert not x.grad.requires_grad


def test_second_order_through_a_long_chain():
    x, y = chain(5_000, lambda y: y * 1.0)
    (g,) = grad(y * y, x, create_graph=True)
    assert g.item() == 2.0
    assert grad(g, x)[0].item() == 2.0


def test_chain_of_a_million():
    x, y = chain(1_000_000, lambda y: y + 1.0)
    dead = weakref.ref(y.grad_fn)
    y.backward()
    assert x.grad.item() == 1.0
    del y
    assert dead() is None


# -- higher orders ----------------------------------------------------------------------------------------------------


def test_third_order():
    x = scalar(0.5)
    y = ag.sin(x) * ag.exp(x)
    derivatives = []
    for _ in range(3):
        (y,) = grad(y, x, create_graph=True)
        derivatives.append(y.item())
    s, c, e = math.sin(0.5), math.cos(0.5), math.exp(0.5)
    assert derivatives == pytest.approx([e * (s + c), 2 * e * c, 2 * e * (c - s)])


def test_mixed_derivatives():
    x, y = scalar(2.0), scalar(3.0)
    z = x**2 * y**3
    gx, gy = grad(z, (x, y), create_graph=True)
    assert (gx.item(), gy.item()) == (108.0, 108.0)
    assert [h.item() for h in grad(gx, (x, y), retain_graph=True)] == [54.0, 108.0]
    assert [h.item() for h in grad(gy, (x, y))] == [108.0, 72.0]


def test_gradient_penalty():
    w = leaf(1.0, 2.0)
    x = leaf(3.0, 4.0)
    (g,) = grad((w * x * x).sum(), x, create_graph=True)  # 2 w x
    (g * g).sum().backward()  # 4 w^2 x^2
    assert w.grad.tolist() == [8 * 1.0 * 9, 8 * 2.0 * 16]
    assert x.grad.tolist() == [8 * 1.0 * 3, 8 * 4.0 * 4]


def test_gradients_have_history_only_with_create_graph():
    x = scalar(2.0)
    y = x**3
    (plain,) = grad(y, x, retain_graph=True)
    (recorded,) = grad(y, x, create_graph=True)
    assert not plain.requires_grad
    assert recorded.requires_grad
    with pytest.raises(RuntimeError, match="element 0 of tensors does not require grad"):
        plain.backward()
    (constant,) = grad(x * 3.0, x, create_graph=True)
    assert constant.item() == 3.0
    assert not constant.requires_grad


def test_backward_is_silent_about_create_graph():
    x = scalar(2.0)
    (x**3).backward(create_graph=True)  # PyTorch warns of a leak; there is none here, and warnings are errors
    assert x.grad.item() == 12.0
    x.grad = None


def test_backward_within_a_hook():
    x = scalar(2.0)
    other = scalar(5.0)
    x.register_hook(ag.enable_grad(lambda g: (other * 3).backward()))
    (x * x).backward()
    assert x.grad.item() == 4.0
    assert other.grad.item() == 3.0


def test_deeply_nested_backward():
    depths = []

    class F(ag.Function):
        @staticmethod
        def forward(ctx, x, depth):
            ctx.depth = depth
            return x * 2

        @staticmethod
        def backward(ctx, g):
            depths.append(ctx.depth)
            if ctx.depth:
                with ag.enable_grad():
                    x = scalar(1.0)
                    F.apply(x, ctx.depth - 1).backward()
            return g * 2, None

    x = scalar(1.0)
    F.apply(x, 30).backward()
    assert depths == list(range(30, -1, -1))
    assert x.grad.item() == 2.0


def test_a_slice_holds_nothing_to_free_so_its_graph_can_be_walked_again():
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x[1:].sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [0.0, 2.0, 2.0]


def test_an_index_array_is_freed():
    x = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x[ag.asarray([0, 0])].sum()
    y.backward()
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    assert x.grad.tolist() == [2.0, 0.0, 0.0]
