"""The transforms under their names at the top: `agrad.grad` is of a function or of tensors, the others are `func`'s."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

import numpy as np
import pytest

import agrad as ag
from agrad.autograd.graph import get_gradient_edge


def leaf(value):
    return ag.tensor(value, requires_grad=True)


def cube(x):
    return x**3


def test_names_at_the_top_are_those_of_func():
    for name in (
        "deriv",
        "elementwise_grad",
        "value_and_grad",
        "vjp",
        "jvp",
        "jacrev",
        "jacfwd",
        "jacobian",
        "hessian",
        "vmap",
    ):
        assert getattr(ag, name) is getattr(ag.func, name), name
    assert ag.gradcheck is ag.autograd.gradcheck
    assert {"grad", "gradcheck", "jacobian", "hessian", "value_and_grad"} <= set(ag.__all__)


def test_of_a_function_it_gives_the_gradient_function():
    x = ag.tensor(2.0)
    assert ag.grad(cube)(x).item() == 12.0
    assert ag.grad(ag.grad(cube))(x).item() == 12.0
    assert ag.grad(func=cube)(x).item() == 12.0
    assert ag.grad(lambda a, b: a * b, 1)(x, ag.tensor(5.0)).item() == 2.0
    assert [g.item() for g in ag.grad(lambda a, b: a * b, argnums=(0, 1))(x, ag.tensor(5.0))] == [5.0, 2.0]
    g, aux = ag.grad(lambda x: (x * x, "kept"), has_aux=True)(x)
    assert (g.item(), aux) == (4.0, "kept")
    assert ag.grad(cube, holomorphic=True)(ag.tensor(1 + 1j)).item() == 6j  # 3 z**2


def test_of_tensors_it_is_that_of_autograd():
    x, y = leaf(2.0), leaf(5.0)
    assert ag.grad(x * y, x)[0].item() == 5.0
    assert [g.item() for g in ag.grad(outputs=x * y, inputs=(x, y))] == [5.0, 2.0]
    assert ag.grad([x * y], inputs={"x": x})["x"].item() == 5.0
    assert ag.grad({"z": x * y}, [y])[0].item() == 2.0
    assert ag.grad((a for a in (x * y, x * x)), x)[0].item() == 9.0
    assert ag.grad(get_gradient_edge(x * y), x)[0].item() == 5.0
    (g,) = ag.grad(x**3, x, create_graph=True)
    assert ag.grad(g, x, None, True)[0].item() == 12.0


def test_what_can_be_called_is_a_function():
    model = ag.nn.Linear(2, 1, bias=False)
    x = ag.tensor([1.0, 2.0])
    weight = model.weight.detach()
    assert ag.grad(lambda x: model(x)[0])(x).tolist() == weight[0].tolist()
    assert ag.grad(ag.nn.Sequential(model, ag.nn.Flatten(0), Only()))(x).tolist() == weight[0].tolist()
    assert ag.grad(Scaled(ag.tensor(3.0)))(ag.tensor(2.0)).item() == 12.0
    assert ag.grad(ag.sum)(x).tolist() == [1.0, 1.0]


class Only(ag.nn.Module):
    def forward(self, x):
        return x[0]


@dataclass
class Scaled:
    """Holds a tensor, and can be called: a function."""

    by: ag.Tensor

    def __call__(self, x):
        return self.by * x * x


@dataclass
class Pair:
    """Holds tensors."""

    first: ag.Tensor
    second: ag.Tensor


def test_containers_are_tensors():
    x = leaf(2.0)
    assert ag.grad(Pair(x * x, x), x)[0].item() == 5.0


class Named(ag.nn.Parameter):
    def __call__(self, x):
        return x


def test_a_tensor_that_can_be_called_is_a_tensor():
    x = Named(ag.tensor(2.0))
    assert ag.grad(x, x)[0].item() == 1.0


@pytest.mark.parametrize("what", [3.0, None, 1 + 2j], ids=repr)
def test_neither_is_refused(what):
    with pytest.raises(TypeError, match=rf"grad\(\) takes a function.*or tensors.*got {type(what).__name__}"):
        ag.grad(what, leaf(1.0))


def test_an_array_is_refused():
    with pytest.raises(TypeError, match=r"grad\(\) takes a function.*or tensors.*got ndarray"):
        ag.grad(np.ones(2), leaf(1.0))


def test_messages_of_tensors_are_pytorchs():
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        ag.grad(ag.tensor(1.0), leaf(1.0))
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        ag.grad(leaf(1.0) * 2, leaf(1.0))
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'inputs'"):
        ag.grad(leaf(1.0) * 2)
    with pytest.raises(TypeError, match="element 0 of tensors must be a Tensor or GradientEdge, not float"):
        ag.grad([1.0], leaf(1.0))


@pytest.mark.parametrize(
    "call",
    [lambda x: ag.grad(cube, x), lambda x: ag.grad(cube, inputs=x), lambda x: ag.grad(func=cube, argnums=x)],
)
def test_a_function_beside_tensors_is_refused_with_both_ways(call):
    with pytest.raises(TypeError, match=r"agrad\.grad\(cube\)\(x\).*agrad\.grad\(cube\(x\), x\)") as caught:
        call(ag.tensor(1.0))
    assert "test_top.py:" in str(caught.value)


def test_nothing_at_all_is_refused():
    with pytest.raises(TypeError, match="lacks its first argument"):
        ag.grad()
    with pytest.raises(TypeError, match="unexpected keyword argument 'create_graph'"):
        ag.grad(cube, create_graph=True)


@pytest.mark.parametrize("transform", [ag.func.grad, ag.value_and_grad, ag.jacobian, ag.jacfwd, ag.hessian])
def test_a_point_beside_the_function_is_refused_at_once(transform):
    with pytest.raises(TypeError, match=r"argnums must be int or Tuple\[int, ...\], got: .*Tensor"):
        transform(cube, ag.tensor(1.0))


def test_functions_of_a_point_stay_those_of_autograd_functional():
    x = ag.tensor([1.0, 2.0])
    assert ag.autograd.functional.jacobian(cube, x).tolist() == [[3.0, 0.0], [0.0, 12.0]]
    assert ag.jacobian(cube)(x).tolist() == [[3.0, 0.0], [0.0, 12.0]]
    assert ag.autograd.functional.hessian(lambda x: ag.sum(x**3), x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert ag.hessian(lambda x: ag.sum(x**3))(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert list(inspect.signature(ag.jacobian).parameters)[:2] == ["func", "argnums"]
