"""Layers, containers and what modules do beyond `test_module.py`: hooks, assignment, conversion, hand-written values."""

from __future__ import annotations

import math
import subprocess
import sys

import numpy as np
import pytest

import agrad as ag
from agrad import nn

F = nn.functional


def loaded(module, **values):
    """Give a module with these parameter values."""
    module.load_state_dict({name: np.asarray(value, dtype=float) for name, value in values.items()})
    return module


# -- layers compute their functions -----------------------------------------------------------------------------------------


def test_linear_by_hand():
    layer = loaded(nn.Linear(2, 2), weight=[[1, 2], [3, 4]], bias=[10, 20])
    assert layer(ag.tensor([[1.0, 1.0]])).tolist() == [[13.0, 27.0]]
    assert nn.Linear(2, 2, bias=False).bias is None


def test_conv2d_by_hand():
    layer = loaded(nn.Conv2d(1, 1, 2), weight=[[[[1, 2], [3, 4]]]], bias=[0.5])
    x = ag.asarray(np.arange(9.0).reshape(1, 1, 3, 3))
    # 0*1 + 1*2 + 3*3 + 4*4 and so on
    assert layer(x).tolist() == [[[[27.5, 37.5], [57.5, 67.5]]]]


def test_layer_norm_and_embedding_by_hand():
    norm = loaded(nn.LayerNorm(2, eps=0.0), weight=[2, 3], bias=[1, 1])
    assert norm(ag.tensor([[0.0, 4.0]])).tolist() == [[-1.0, 4.0]]
    table = nn.Embedding(4, 3, padding_idx=-1)
    assert table.padding_idx == 3
    assert table.weight.tolist()[3] == [0.0, 0.0, 0.0]
    table(ag.tensor([3, 0, 0])).sum().backward()
    assert table.weight.grad.tolist() == [[2.0] * 3, [0.0] * 3, [0.0] * 3, [0.0] * 3]
    with pytest.raises(ValueError, match="padding_idx must be within num_embeddings"):
        nn.Embedding(4, 3, padding_idx=4)


@pytest.mark.parametrize(
    ("module", "function"),
    [
        (nn.ReLU(), F.relu),
        (nn.LeakyReLU(0.3), lambda x: F.leaky_relu(x, 0.3)),
        (nn.ELU(0.7), lambda x: F.elu(x, 0.7)),
        (nn.Softplus(2.0, 1.0), lambda x: F.softplus(x, 2.0, 1.0)),
        (nn.SiLU(), F.silu),
        (nn.GELU("tanh"), lambda x: F.gelu(x, "tanh")),
        (nn.Sigmoid(), F.sigmoid),
        (nn.Tanh(), ag.tanh),
        (nn.Softmax(1), lambda x: F.softmax(x, 1)),
        (nn.LogSoftmax(dim=0), lambda x: F.log_softmax(x, 0)),
        (nn.Identity(3, anything=4), lambda x: x),
        (nn.Flatten(0), lambda x: ag.reshape(x, (-1,))),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, nn.Module) else "",
)
def test_activations_are_their_functions(module, function):
    x = ag.asarray(np.linspace(-2, 2, 6).reshape(2, 3))
    assert module(x).tolist() == function(x).tolist()


def test_pooling_layers():
    x = ag.asarray(np.arange(16.0).reshape(1, 1, 4, 4))
    assert nn.MaxPool2d(2)(x).tolist() == [[[[5.0, 7.0], [13.0, 15.0]]]]
    assert nn.MaxPool2d(2, stride=1, dilation=2)(x).tolist() == [[[[10.0, 11.0], [14.0, 15.0]]]]
    assert nn.AvgPool2d(2)(x).tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
    corner = nn.AvgPool2d(2, padding=1, count_include_pad=False)(x)
    assert corner.tolist()[0][0][0] == [0.0, 1.5, 3.0]


def test_losses_as_modules():
    x, y = ag.tensor([[2.0, 0.0], [0.0, 1.0]]), ag.tensor([0, 0])
    rows = [math.log(1 + math.exp(-2)), math.log(1 + math.e)]
    assert nn.CrossEntropyLoss(reduction="none")(x, y).tolist() == pytest.approx(rows)
    weighted = nn.CrossEntropyLoss(weight=ag.tensor([3.0, 1.0]), reduction="sum")
    assert weighted(x, y).item() == pytest.approx(3 * sum(rows))
    assert list(weighted.state_dict()) == ["weight"]
    assert nn.NLLLoss()(x, y).item() == -1.0
    assert nn.MSELoss()(x, ag.zeros((2, 2))).item() == 1.25
    assert nn.L1Loss("sum")(x, ag.zeros((2, 2))).item() == 3.0
    assert nn.BCELoss()(ag.tensor([0.5]), ag.tensor([1.0])).item() == pytest.approx(math.log(2))
    positive = nn.BCEWithLogitsLoss(pos_weight=ag.tensor([2.0]))
    assert positive(ag.tensor([0.0]), ag.tensor([1.0])).item() == pytest.approx(2 * math.log(2))
    with pytest.raises(ValueError, match="average is not a valid value for reduction"):
        nn.MSELoss("average")


def test_dropout_acts_while_training_only():
    layer = nn.Dropout(0.5)
    x = ag.ones((200,))
    assert 0.0 in layer(x).tolist()
    assert layer.eval()(x) is x
    with pytest.raises(ValueError, match="between 0 and 1"):
        nn.Dropout(-0.1)


def test_layers_take_a_dtype_and_a_device(backend):
    for layer in (
        nn.Linear(2, 3, dtype=ag.float32, device=backend),
        nn.Conv2d(2, 3, 1, dtype="float32", device=backend),
        nn.LayerNorm(2, dtype=ag.float32, device=backend),
        nn.Embedding(2, 3, dtype=ag.float32, device=backend),
    ):
        for parameter in layer.parameters():
            assert parameter.device == backend
            assert ag.isdtype(parameter.dtype, ag.float32)


def test_text():
    assert repr(nn.Conv2d(4, 8, 3, stride=2, padding=1, dilation=2, groups=2, bias=False)) == (
        "Conv2d(4, 8, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), dilation=(2, 2), groups=2, bias=False)"
    )
    assert repr(nn.Conv2d(4, 8, (1, 3), padding="same")) == (
        "Conv2d(4, 8, kernel_size=(1, 3), stride=(1, 1), padding='same')"
    )
    assert repr(nn.LayerNorm((2, 3))) == "LayerNorm((2, 3), eps=1e-05, elementwise_affine=True)"
    assert repr(nn.Embedding(5, 2, padding_idx=0)) == "Embedding(5, 2, padding_idx=0)"
    assert repr(nn.MaxPool2d(2)) == "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)"
    assert repr(nn.Parameter(ag.ones((2,)))) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    text = "Parameter containing:\ntensor([[1.],\n        [1.]], requires_grad=True)"  # PyTorch's
    assert repr(nn.Parameter(ag.ones(2, 1))) == text


def test_bad_layers_are_refused():
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.Conv2d(3, 4, 2, groups=2)
    with pytest.raises(ValueError, match="groups must be a positive integer"):
        nn.Conv2d(3, 4, 2, groups=0)


# -- containers -----------------------------------------------------------------------------------------------------------


def test_sequential_is_a_list_of_modules():
    a, b, c = nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 1)
    net = nn.Sequential(a, b)
    net.append(c)
    assert list(net) == [a, b, c]
    assert len(net) == 3
    assert net[-1] is c
    assert isinstance(net[:2], nn.Sequential)
    assert list(net[:2]) == [a, b]
    assert list(net[1:].state_dict()) == list(net.state_dict())[len(a.state_dict()) :]  # PyTorch keeps the names
    named = nn.Sequential({"first": a, "second": b})[1:]
    assert [name for name, _ in named.named_children()] == ["second"]
    net[1] = nn.Tanh()
    assert [type(m).__name__ for m in net] == ["Linear", "Tanh", "Linear"]
    del net[1]
    assert list(net) == [a, c]
    net.insert(1, b)
    assert list(net) == [a, b, c]
    assert [name for name, _ in net.named_children()] == ["0", "1", "2"]
    with pytest.raises(IndexError):
        net[3]
    with pytest.raises(TypeError, match="function is not a Module subclass"):
        nn.Sequential(lambda x: x)


def test_sequential_of_named_modules():
    net = nn.Sequential({"one": nn.Linear(2, 2), "two": nn.ReLU()})
    assert list(net.state_dict()) == ["one.weight", "one.bias"]
    assert net.one is net[0]


def test_lists_and_dicts_of_modules_are_walked():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(1, 1)])
            self.heads = nn.ModuleDict({"a": nn.Linear(1, 1)})

    net = Net()
    net.layers.extend([nn.Linear(1, 1), nn.Linear(1, 1)])
    net.heads["b"] = nn.Linear(1, 1, bias=False)
    assert [name for name, _ in net.named_parameters()] == [
        "layers.0.weight",
        "layers.0.bias",
        "layers.1.weight",
        "layers.1.bias",
        "layers.2.weight",
        "layers.2.bias",
        "heads.a.weight",
        "heads.a.bias",
        "heads.b.weight",
    ]
    assert list(net.heads) == ["a", "b"]
    assert "a" in net.heads
    assert len(net.heads) == 2
    del net.heads["a"]
    assert [key for key, _ in net.heads.items()] == ["b"]
    with pytest.raises(KeyError):
        net.heads["a"]
    with pytest.raises(KeyError, match="attribute 'keys' already exists"):
        net.heads["keys"] = nn.ReLU()


# -- modules --------------------------------------------------------------------------------------------------------------


def test_a_parameter_is_replaced_by_a_parameter_or_none_only():
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError, match="cannot assign 'Tensor' as parameter 'weight'") as raised:
        layer.weight = ag.zeros((2, 2))
    assert "test_layers.py:" in str(raised.value)
    layer.weight = nn.Parameter(ag.zeros((2, 2)))
    layer.bias = None
    assert [name for name, _ in layer.named_parameters()] == ["weight"]
    net = nn.Sequential(layer)
    with pytest.raises(TypeError, match="as child module '0'"):
        setattr(net, "0", 3)
    loss = nn.CrossEntropyLoss(weight=ag.ones((2,)))
    with pytest.raises(TypeError, match="to buffer 'weight'"):
        loss.weight = 3.0
    del loss.weight
    assert not list(loss.buffers())


def test_hooks_before_and_after():
    layer = loaded(nn.Linear(1, 1), weight=[[2]], bias=[0])
    before = layer.register_forward_pre_hook(lambda module, args: args[0] + 1)
    after = layer.register_forward_hook(lambda module, args, result: result * 10 + args[0])
    x = ag.tensor([1.0])
    assert layer(x).tolist() == [42.0]
    before.remove()
    assert layer(x).tolist() == [21.0]
    after.remove()
    assert layer(x).tolist() == [2.0]


def test_a_state_may_hold_arrays_and_lack_names():
    layer = nn.Linear(2, 1)
    weight = np.array([[1.0, 2.0]])
    found = layer.load_state_dict({"weight": weight, "more": weight}, strict=False)
    assert found.missing_keys == ["bias"]
    assert found.unexpected_keys == ["more"]
    weight[:] = 0
    assert layer.weight.tolist() == [[1.0, 2.0]]
    assert repr(layer.load_state_dict(layer.state_dict())) == "<All keys matched successfully>"
    with pytest.raises(RuntimeError, match="dtype mismatch for weight"):
        layer.load_state_dict({"weight": np.ones((1, 2)) * 1j, "bias": np.ones(1)})
    with pytest.raises(TypeError, match="Expected state_dict to be dict-like, got list"):
        layer.load_state_dict([])


def test_a_state_is_a_snapshot():
    layer = loaded(nn.Linear(1, 1), weight=[[1]], bias=[0])
    state = layer.state_dict()
    optimizer = ag.optim.SGD(layer.parameters(), lr=1.0, momentum=0.9)
    for _ in range(2):
        layer(ag.ones((1, 1))).sum().backward()
        optimizer.step()
    assert state["weight"].tolist() == [[1.0]]
    layer.load_state_dict(state)
    assert layer.weight.tolist() == [[1.0]]


@pytest.mark.parametrize(
    "convert",
    [lambda m: m.to(ag.float32), lambda m: m.to("float32"), lambda m: m.to(dtype=ag.float32), nn.Module.float],
)
def test_conversion_of_everything(convert):
    net = nn.Sequential(nn.Linear(2, 2))
    net.register_buffer("count", ag.asarray(3))
    net(ag.ones((1, 2))).sum().backward()
    before = list(net.parameters())
    assert convert(net) is net
    assert all(a is b for a, b in zip(net.parameters(), before, strict=True))
    assert all(ag.isdtype(p.dtype, ag.float32) and ag.isdtype(p.grad.dtype, ag.float32) for p in before)
    assert ag.isdtype(net.count.dtype, ag.int64)
    net(ag.ones((1, 2), dtype=ag.float32)).sum().backward()
    with pytest.raises(TypeError, match="only accepts floating point or complex dtypes"):
        net.to(ag.int64)
    net.to(ag.tensor([1.0]))
    assert ag.isdtype(before[0].dtype, ag.float64)


def test_moving_to_another_backend_and_back(strict_backend):
    layer = nn.Linear(2, 1)
    layer(ag.ones((1, 2))).sum().backward()
    layer.to(strict_backend)
    assert layer.weight.device == layer.weight.grad.device == strict_backend
    layer(ag.ones((1, 2), device=strict_backend)).sum().backward()
    assert layer.to("numpy").weight.grad.tolist() == [[2.0, 2.0]]
    with pytest.raises(ag.BackendError, match="unknown backend"):
        layer.to("nowhere")


def test_finding_and_applying():
    net = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU()))
    assert isinstance(net.get_submodule("1.0"), nn.ReLU)
    assert net.get_submodule("") is net
    with pytest.raises(AttributeError, match="has no submodule `7`"):
        net.get_submodule("1.7")
    seen = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen[-1] == "Sequential"
    assert sorted(seen) == ["Linear", "ReLU", "Sequential", "Sequential"]
    assert len(list(net.named_parameters("net", recurse=False))) == 0
    assert [n for n, _ in net.named_parameters("net")] == ["net.0.weight", "net.0.bias"]
    assert list(nn.Sequential(net[0], net[0]).modules()).count(net[0]) == 1
    with pytest.raises(ValueError, match="training mode is expected to be boolean"):
        net.train(1)


def test_a_module_nested_a_thousand_deep_is_walked():
    net = nn.Identity()
    for _ in range(1000):
        outer = nn.Module()
        outer.inner = net
        net = outer
    assert sum(1 for _ in net.modules()) == 1001


# -- parameters, initial values, tools --------------------------------------------------------------------------------------


def test_parameter_of_an_array_is_a_copy():
    array = np.zeros(2)
    parameter = nn.Parameter(array)
    array[:] = 1
    assert parameter.tolist() == [0.0, 0.0]
    assert parameter.is_leaf
    assert nn.Parameter(requires_grad=False).shape == (0,)
    with pytest.raises(RuntimeError, match="only Tensors of floating point and complex dtype can require gradients"):
        nn.Parameter(ag.asarray([1, 2]))


def test_initial_values_keep_the_leaf_and_follow_the_seed():
    ag.manual_seed(3)
    a = nn.Linear(5, 5)
    ag.manual_seed(3)
    b = nn.Linear(5, 5)
    assert a.weight.tolist() == b.weight.tolist()
    nn.init.constant_(a.bias, 2.5)
    assert a.bias.tolist() == [2.5] * 5
    assert a.bias.requires_grad
    assert a.bias.is_leaf
    g, h = ag.random.Generator(1), ag.random.Generator(1)
    assert nn.init.normal_(a.weight, generator=g).tolist() == nn.init.normal_(b.weight, generator=h).tolist()
    assert nn.init.calculate_gain("leaky_relu") == pytest.approx(math.sqrt(2 / 1.0001))
    with pytest.raises(ValueError, match="Fan in and fan out can not be computed"):
        nn.init.kaiming_uniform_(ag.zeros((3,)))
    with pytest.raises(ValueError, match="Unsupported nonlinearity swish"):
        nn.init.calculate_gain("swish")
    with pytest.raises(ValueError, match="Mode fan_all not supported"):
        nn.init.kaiming_normal_(ag.zeros((3, 3)), mode="fan_all")


def test_clipping_by_other_norms(backend, make, value):
    a, b = make([3.0, -4.0], requires_grad=True), make([[1.0]], requires_grad=True)
    for order, size in ((1.0, 8.0), (3.0, (27 + 64 + 1) ** (1 / 3)), (math.inf, 4.0)):
        a.grad, b.grad = make([3.0, -4.0]), make([[1.0]])
        assert nn.utils.clip_grad_norm_([a, b], 0.5, order).item() == pytest.approx(size)
        factor = 0.5 / (size + 1e-6)
        np.testing.assert_allclose(value(a.grad), np.array([3.0, -4.0]) * factor)
        np.testing.assert_allclose(value(b.grad), [[factor]])
    assert nn.utils.clip_grad_norm_([make([1.0], requires_grad=True)], 1.0).item() == 0.0


def test_clipping_values():
    a = ag.tensor([1.0, 2.0, 3.0], requires_grad=True)
    a.grad = ag.tensor([-5.0, 0.5, 5.0])
    nn.utils.clip_grad_value_(a, 1.0)
    assert a.grad.tolist() == [-1.0, 0.5, 1.0]


def test_parameters_as_one_vector():
    net = loaded(nn.Linear(2, 1), weight=[[1, 2]], bias=[3])
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.tolist() == [1.0, 2.0, 3.0]
    assert vector.requires_grad
    nn.utils.vector_to_parameters(vector * 2, net.parameters())
    assert net.weight.tolist() == [[2.0, 4.0]]
    assert net.weight.is_leaf
    with pytest.raises(ValueError, match=r"a vector of shape \(2,\) for parameters of 3 elements"):
        nn.utils.vector_to_parameters(ag.zeros((2,)), net.parameters())


def test_nn_and_optim_load_when_they_are_used():
    code = (
        "import sys, agrad as ag\n"
        "print('agrad.nn.functional' in sys.modules, 'agrad.optim.sgd' in sys.modules)\n"
        "ag.nn.functional.relu, ag.nn.Linear, ag.optim.SGD, ag.optim.lr_scheduler.StepLR\n"
        "print(set(ag.nn.__all__) <= {n for n in ag.nn.__all__ if hasattr(ag.nn, n)})"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120)
    assert done.stdout.split() == ["False", "False", "True"]
    with pytest.raises(AttributeError, match=r"agrad\.nn' has no attribute 'LazyLinear'"):
        nn.LazyLinear
    with pytest.raises(AttributeError, match=r"agrad\.optim' has no attribute 'Lion'"):
        ag.optim.Lion


def test_default_dtype_is_that_of_new_parameters():
    ag.set_default_dtype("float32")
    assert ag.isdtype(nn.Linear(1, 1).weight.dtype, ag.float32)
    assert nn.init.constant_(ag.zeros(2, dtype="float64"), 0.1).tolist() == [0.1, 0.1]  # others keep theirs


def test_dropout2d_drops_whole_channels(make, value):
    ag.manual_seed(0)
    found = value(nn.Dropout2d(0.25)(make(np.ones((20, 30, 2, 3)))))
    np.testing.assert_array_equal(found, np.broadcast_to(found[:, :, :1, :1], found.shape))
    assert set(np.unique(found)) == {0.0, 1 / 0.75}
    assert abs((found == 0).mean() - 0.25) < 0.08  # four standard deviations
    assert value(nn.Dropout2d(0.25).eval()(make(np.ones((1, 2, 2, 2))))).sum() == 8


def test_embedding_from_pretrained():
    weights = ag.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    table = nn.Embedding.from_pretrained(weights)
    assert table(ag.tensor([2, 0])).tolist() == [[5.0, 6.0], [1.0, 2.0]]
    assert not table.weight.requires_grad
    assert repr(table) == "Embedding(3, 2)"
    weights[0] = 9.0
    trained = nn.Embedding.from_pretrained(np.eye(3), freeze=False, padding_idx=1)
    trained(ag.tensor([0, 1, 1])).sum().backward()
    assert trained.weight.grad.tolist() == [[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert trained.weight[1].tolist() == [0.0, 1.0, 0.0]  # kept, as in PyTorch
    assert table.weight[0].tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="Embeddings parameter is expected to be 2-dimensional"):
        nn.Embedding.from_pretrained(ag.ones(3))


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (4, 4), (3, 2, 4)])
def test_orthogonal(shape, make, value):
    tensor = nn.init.orthogonal_(make(np.zeros(shape), requires_grad=True), gain=2.0)
    assert tensor.requires_grad
    matrix = value(tensor.detach()).reshape(shape[0], -1)
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=1e-12)


def test_pad_sequence():
    sequences = [ag.ones((3, 2), requires_grad=True), ag.ones((1, 2)) * 2]
    padded = nn.utils.pad_sequence(sequences, batch_first=True, padding_value=-1.0)
    assert padded.tolist() == [[[1.0, 1.0]] * 3, [[2.0, 2.0], [-1.0, -1.0], [-1.0, -1.0]]]
    assert nn.utils.pad_sequence(sequences).shape == (3, 2, 2)
    padded.sum().backward()
    assert sequences[0].grad.tolist() == [[1.0, 1.0]] * 3


def test_lists_and_dicts_of_parameters():
    held = nn.ParameterList([ag.ones(2)]).append(ag.zeros(3))
    held[0] = ag.ones(4)
    assert [p.shape for p in held] == [(4,), (3,)]
    assert held[-1] is held[1]
    assert all(isinstance(p, nn.Parameter) for p in held)
    assert list(held.state_dict()) == ["0", "1"]
    with pytest.raises(IndexError):
        held[2]
    named = nn.ParameterDict({"a": ag.ones(2)})
    named["b"] = ag.zeros(1)
    assert (list(named), len(named), "b" in named, "c" in named) == (["a", "b"], 2, True, False)
    del named["a"]
    assert [name for name, _ in named.items()] == named.keys() == ["b"]
    with pytest.raises(KeyError):
        named["a"]


def test_what_new_layers_refuse():
    with pytest.raises(ValueError, match="keeps no running statistics"):
        nn.InstanceNorm2d(3, track_running_stats=True)
    with pytest.raises(ValueError, match="expected 3D or 4D input"):
        nn.InstanceNorm2d(3)(ag.ones((3, 4)))
    with pytest.raises(ValueError, match="activation should be relu/gelu, not tanh"):
        nn.TransformerEncoderLayer(4, 2, activation="tanh")
