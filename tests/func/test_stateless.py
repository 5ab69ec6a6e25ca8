"""functional_call and stack_module_state: modules of `agrad.nn` under the transforms."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import agrad as ag
import agrad.nn.functional as F
from agrad import nn
from agrad.func import functional_call, grad, hessian, jvp, stack_module_state, vmap


class Net(nn.Module):
    """A layer of every sort that holds parameters."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(-3), nn.LayerNorm(8), nn.Linear(8, 3)
        )
        self.table = nn.Embedding(5, 3)

    def forward(self, x, i):
        return self.body(x) + self.table(i)


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(ag.tensor([2.0, 3.0]))
        self.register_buffer("steps", ag.tensor(0.0))

    def forward(self, x):
        self.steps = self.steps + 1
        return x * self.scale * self.steps


def values_of(module):
    return {name: p.detach() for name, p in module.named_parameters()}


def data(count):
    generator = np.random.default_rng(0)
    x = ag.asarray(generator.standard_normal((count, 1, 6, 6)))
    return x, ag.asarray(generator.integers(0, 5, count)), ag.asarray(generator.integers(0, 3, count))


def loss_of(model):
    def loss(params, x, i, label):
        return F.cross_entropy(functional_call(model, params, (x, i)), label)

    return loss


def test_other_values_in_the_place_of_the_parameters(close):
    model = nn.Linear(2, 1)
    before = dict(vars(model))
    x = ag.tensor([[1.0, 2.0]])
    close(functional_call(model, {"weight": ag.tensor([[3.0, 4.0]]), "bias": ag.tensor([5.0])}, x), [[16.0]])
    kept = functional_call(model, {"weight": ag.tensor([[3.0, 4.0]])}, kwargs={"input": x})
    close(kept - model.bias, [[11.0]])
    assert vars(model) == before
    assert all(vars(model)[name] is before[name] for name in before)


def test_gradients_are_those_of_backward(close):
    ag.manual_seed(0)
    model = Net()
    x, i, label = data(4)
    found = grad(loss_of(model))(values_of(model), x, i, label)
    assert all(p.grad is None for p in model.parameters())
    F.cross_entropy(model(x, i), label).backward()
    assert found.keys() == dict(model.named_parameters()).keys()
    for name, p in model.named_parameters():
        close(found[name], p.grad.tolist())


def test_gradients_of_every_example(close):
    ag.manual_seed(0)
    model = Net()
    x, i, label = data(3)
    found = vmap(grad(loss_of(model)), in_dims=(None, 0, 0, 0))(values_of(model), x, i, label)
    for k in range(3):
        model.zero_grad()
        F.cross_entropy(model(x[k], i[k]), label[k]).backward()
        for name, p in model.named_parameters():
            close(found[name][k], p.grad.tolist())


def test_the_tape_outside_sees_the_values(close):
    model = nn.Linear(2, 1, bias=False)
    w = ag.tensor([[1.0, 2.0]], requires_grad=True)
    functional_call(model, {"weight": w * 3}, ag.tensor([[1.0, 10.0]])).sum().backward()
    close(w.grad, [[3.0, 30.0]])
    assert model.weight.grad is None


def test_higher_orders_and_forward_mode(close):
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Tanh())
    x = ag.tensor([0.5, -1.0])
    w = ag.tensor([[0.1, 0.2], [0.3, -0.4]])
    call = lambda params: functional_call(model, params, x).sum()
    s = np.tanh(w.numpy() @ x.numpy())
    second = hessian(call)({"0.weight": w})["0.weight"]["0.weight"]
    expected = np.einsum("i,ij,k,l->ikjl", -2 * s * (1 - s**2), np.eye(2), x.numpy(), x.numpy())
    close(second, expected)
    _, tangent = jvp(call, ({"0.weight": w},), ({"0.weight": ag.ones((2, 2))},))
    close(tangent, ((1 - s**2) * x.numpy().sum()).sum())


def test_ensembles(close):
    ag.manual_seed(0)
    models = [Net() for _ in range(3)]
    x, i, _ = data(4)
    params, buffers = stack_module_state(models)
    assert buffers == {}
    assert all(p.is_leaf and p.requires_grad for p in params.values())
    outputs = vmap(lambda params, x, i: functional_call(models[0], params, (x, i)), (0, None, None))(params, x, i)
    for k, model in enumerate(models):
        close(outputs[k], model(x, i).tolist())
    outputs.sum().backward()
    assert all(p.grad is None for model in models for p in model.parameters())
    models[1](x, i).sum().backward()
    for name, p in models[1].named_parameters():
        close(params[name].grad[1], p.grad.tolist())


def test_an_ensemble_of_one(close):
    layer = nn.Linear(2, 1)
    params, _ = stack_module_state([layer])
    close(params["weight"], [layer.weight.tolist()])


def test_an_optimizer_trains_an_ensemble(close):
    ag.manual_seed(0)
    models = [nn.Linear(2, 1) for _ in range(3)]
    x, y = ag.tensor([[1.0, 2.0], [3.0, -1.0]]), ag.tensor([[1.0], [0.0]])
    params, _ = stack_module_state(models)
    optimizers = [ag.optim.SGD(m.parameters(), lr=0.1) for m in models]
    optimizer = ag.optim.SGD(params.values(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        outputs = vmap(lambda params, x: functional_call(models[0], params, x), (0, None))(params, x)
        sum(F.mse_loss(outputs[k], y) for k in range(3)).backward()
        optimizer.step()
    for k, model in enumerate(models):
        for _ in range(3):
            optimizers[k].zero_grad()
            F.mse_loss(model(x), y).backward()
            optimizers[k].step()
        close(params["weight"][k], model.weight.tolist())


def test_buffers(close):
    model = Counting()
    state = {"steps": ag.tensor(9.0)}
    x = ag.ones((2,))
    for dicts in (state, ({"scale": ag.ones((2,))}, state)):
        result = functional_call(model, dicts, x)
    close(result, [11.0, 11.0])
    assert state["steps"].tolist() == 11.0  # where it came from
    assert model.steps.tolist() == 0.0
    params, buffers = stack_module_state([model, Counting()])
    assert (buffers["steps"].shape, buffers["steps"].requires_grad) == ((2,), False)
    outputs = vmap(lambda p, b, x: functional_call(model, (p, b), x), (0, 0, None))(params, buffers, x)
    close(outputs, [[2.0, 3.0], [2.0, 3.0]])
    model.scale.requires_grad_(False)
    assert not stack_module_state([model])[0]["scale"].requires_grad


def test_tied_weights(close):
    model = nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False))
    model[1].weight = model[0].weight
    x = ag.tensor([1.0, 2.0])
    w = ag.tensor([[1.0, 1.0], [0.0, 2.0]])
    other = ag.eye(2)
    close(functional_call(model, {"0.weight": w}, x), [7.0, 8.0])
    close(functional_call(model, {"1.weight": w}, x), [7.0, 8.0])
    both = {"0.weight": w, "1.weight": w.detach()}
    close(functional_call(model, both, x, strict=True), [7.0, 8.0])
    separate = {"0.weight": w, "1.weight": other}
    with pytest.raises(ValueError, match=r"multiple values for keys \['0.weight', '1.weight'\], which are tied"):
        functional_call(model, separate, x)
    close(functional_call(model, separate, x, tie_weights=False), [3.0, 4.0])
    gradient = grad(lambda w: functional_call(model, {"0.weight": w}, x).sum())(w)
    # y = W W x: W^T 1 x^T + 1 (W x)^T
    close(gradient, np.outer([1.0, 3.0], [1.0, 2.0]) + np.outer([1.0, 1.0], [3.0, 4.0]))


def test_one_module_in_two_places(close):
    layer = nn.Linear(2, 2, bias=False)
    model = nn.Sequential(layer, layer)
    own = layer.weight
    close(functional_call(model, {"0.weight": 2 * ag.eye(2)}, ag.ones((2,))), [4.0, 4.0])
    assert layer.weight is own


def test_a_call_that_fails_leaves_everything_as_it_was():
    class Fails(Counting):
        def forward(self, x):
            super().forward(x)
            raise KeyError("too late")

    model = Fails()
    own = model.scale
    state = {"scale": ag.ones((2,)), "steps": ag.tensor(5.0)}
    with pytest.raises(KeyError, match="too late"):
        functional_call(model, state, ag.ones((2,)))
    assert model.scale is own
    assert (model.steps.tolist(), state["steps"].tolist()) == (0.0, 5.0)


LINEAR, X = nn.Linear(2, 1), ag.ones((2,))
W = {"weight": ag.ones((1, 2))}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: functional_call(LINEAR, W | {"foo": X}, X), RuntimeError, "for Linear:\n\tUnexpected key(s): 'foo'."),
        (lambda: functional_call(LINEAR, {"a.b": X}, X), RuntimeError, "Unexpected key(s): 'a.b'."),
        (
            lambda: functional_call(LINEAR, W | {"foo": X}, X, strict=True),
            RuntimeError,
            "Error(s) in reparametrizing for Linear:\n\tUnexpected key(s): 'foo'.\n\tMissing key(s): 'bias'.",
        ),
        (lambda: functional_call(LINEAR, {"weight": 3.0}, X), TypeError, "'weight' is not an instance of agrad.Tensor"),
        (
            lambda: functional_call(LINEAR, (W, W), X),
            ValueError,
            "['weight'] appeared in multiple dictionaries; behavior of functional call is ambiguous",
        ),
        (lambda: functional_call(LINEAR, 3, X), ValueError, "to be a dict, or a list/tuple of dicts, but got"),
        (lambda: functional_call(LINEAR, [3], X), ValueError, "elements of parameter_and_buffer_dicts to be dict"),
        (lambda: functional_call(ag.sin, W, X), TypeError, "functional_call() takes a Module, not function"),
        (lambda: stack_module_state([]), RuntimeError, "stack_module_state: Expected at least one model, got 0."),
        (lambda: stack_module_state([LINEAR, Net()]), RuntimeError, "Expected all models to be of the same class."),
        (
            lambda: stack_module_state([LINEAR, nn.Linear(2, 1).eval()]),
            RuntimeError,
            "stack_module_state: Expected all models to have the same training/eval mode.",
        ),
        (lambda: stack_module_state([LINEAR, nn.Linear(2, 1, bias=False)]), RuntimeError, "models to have 'bias'"),
        (
            lambda: stack_module_state([LINEAR, nn.Linear(3, 1)]),
            RuntimeError,
            "weight from each model to have the same",
        ),
        (
            lambda: stack_module_state([LINEAR, nn.Linear(2, 1).requires_grad_(False)]),
            RuntimeError,
            "Expected weight from each model to have the same .requires_grad",
        ),
    ],
)
def test_errors(call, error, message):
    own = dict(vars(LINEAR))
    with pytest.raises(error) as raised:
        call()
    assert message in str(raised.value)
    assert all(vars(LINEAR)[name] is value for name, value in own.items())


def test_threads_take_turns():
    """Each call sees its own values, as the loss that Dask runs on several chunks at a time must."""
    inside = [threading.Event(), threading.Event()]

    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(ag.ones(()))

        def forward(self, number):
            inside[number].set()
            inside[1 - number].wait(0.2)  # nobody comes while this call lasts
            return self.weight**2

    module, found = Scale(), {}

    def run(number):
        found[number] = grad(lambda w: functional_call(module, {"weight": w}, (number,)))(number + 3.0).item()

    threads = [threading.Thread(target=run, args=(number,)) for number in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {0: 6.0, 1: 8.0}
    assert module.weight.item() == 1.0


def test_against_torch():
    torch = pytest.importorskip("torch")
    generator = np.random.default_rng(1)
    torch.manual_seed(1)
    theirs = [torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2)) for _ in range(2)]
    ours = [nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)) for _ in range(2)]
    for one, other in zip(theirs, ours, strict=True):
        one.double()
        other.load_state_dict({name: p.detach().numpy() for name, p in one.named_parameters()})
    x, label = generator.standard_normal((5, 3)), generator.integers(0, 2, 5)

    def derivatives(lib, functional, models, x, label):
        f = lib.func
        params, buffers = f.stack_module_state(models)
        values = {name: p.detach() for name, p in params.items()}

        def loss(params, buffers, x, label):
            y = f.functional_call(models[0], (params, buffers), (x,))
            return functional.cross_entropy(y[None], label[None])

        each = f.vmap(f.vmap(f.grad(loss), in_dims=(None, None, 0, 0)), in_dims=(0, 0, None, None))
        return each(values, buffers, x, label)

    expected = derivatives(torch, torch.nn.functional, theirs, torch.tensor(x), torch.tensor(label))
    found = derivatives(ag, F, ours, ag.asarray(x), ag.asarray(label))
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert found[name].shape == (2, 5, *value.shape[2:])
        np.testing.assert_allclose(found[name].numpy(), value.numpy(), rtol=1e-9, atol=1e-12)
