"""Modules: what they hold, by which names, and how it is saved, loaded, moved and frozen."""

from __future__ import annotations

import copy
import io
import pickle

import numpy as np
import pytest

import agrad as ag
from agrad import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.blocks = nn.ModuleList([nn.Linear(4, 4), nn.Dropout(0.5)])
        self.scale = nn.Parameter(ag.ones((1,)))
        self.register_buffer("mean", ag.zeros((3,)))
        self.register_buffer("scratch", ag.zeros((2,)), persistent=False)
        self.nothing = None

    def forward(self, x):
        x = self.first(x - self.mean)
        for block in self.blocks:
            x = block(x)
        return self.scale * x


NAMES = ["scale", "first.weight", "first.bias", "blocks.0.weight", "blocks.0.bias"]


def test_names_of_parameters_and_state():
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert list(net.state_dict()) == [NAMES[0], "mean", *NAMES[1:]]  # PyTorch's order
    assert [name for name, _ in net.named_buffers()] == ["mean", "scratch"]
    assert [name for name, _ in net.named_modules()] == ["", "first", "blocks", "blocks.0", "blocks.1"]
    assert all(not value.requires_grad for value in net.state_dict().values())


def test_a_shared_parameter_is_given_once_and_saved_under_both_names():
    net = Net()
    net.tied = net.first
    net.alias = net.scale
    assert len(list(net.parameters())) == len(NAMES)
    assert "alias" in net.state_dict()


def test_gradients_reach_every_parameter():
    net = Net().eval()
    net(ag.ones((2, 3))).sum().backward()
    assert all(p.grad is not None for p in net.parameters())
    net.zero_grad()
    assert all(p.grad is None for p in net.parameters())


def test_training_and_evaluation_reach_every_module():
    net = Net()
    net.eval()
    assert not any(m.training for m in net.modules())
    x = ag.ones((2, 3))
    assert net(x).tolist() == net(x).tolist()
    net.train()
    assert all(m.training for m in net.modules())


def test_the_state_goes_through_a_file():
    net, other = Net(), Net()
    file = io.BytesIO()
    ag.save(net.state_dict(), file)
    file.seek(0)
    before = dict(other.named_parameters())
    other.load_state_dict(ag.load(file))
    for (name, mine), theirs in zip(net.named_parameters(), other.parameters(), strict=True):
        assert theirs is before[name]
        assert theirs.requires_grad
        np.testing.assert_array_equal(mine.detach().numpy(), theirs.detach().numpy())


def test_a_wrong_state_is_refused_whole():
    net = Net()
    state = {**net.state_dict(), "scale": ag.ones((2,)), "extra": ag.ones((1,)), "first.bias": ag.ones((4,))}
    del state["mean"]
    bias = net.first.bias.tolist()
    with pytest.raises(RuntimeError) as raised:
        net.load_state_dict(state)
    words = str(raised.value)
    assert 'Unexpected key(s) in state_dict: "extra".' in words
    assert 'Missing key(s) in state_dict: "mean".' in words
    assert "size mismatch for scale" in words
    assert net.first.bias.tolist() == bias
    del state["scale"]
    net.load_state_dict(state, strict=False)
    assert net.first.bias.tolist() == [1.0] * 4


def test_freezing_converting_and_moving():
    net = Net()
    net.first.requires_grad_(False)
    net.eval()(ag.ones((2, 3))).sum().backward()
    assert net.first.weight.grad is None
    assert net.scale.grad is not None
    kept = net.scale
    net.to(dtype=ag.float32)
    assert net.scale is kept
    assert all(ag.isdtype(p.dtype, ag.float32) for p in net.parameters())
    assert ag.isdtype(net.scale.grad.dtype, ag.float32)
    assert ag.isdtype(net.mean.dtype, ag.float32)


def test_copies_are_independent():
    net = Net()
    other = copy.deepcopy(net)
    with ag.no_grad():
        other.scale.fill_(7.0)
    assert net.scale.item() == 1.0
    assert isinstance(other.scale, nn.Parameter)
    again = pickle.loads(pickle.dumps(net))
    assert again.first.weight.tolist() == net.first.weight.tolist()
    assert again.first.weight.requires_grad


def test_text_is_pytorchs():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.Dropout(0.1)))
    assert repr(net) == (
        "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n  (1): ReLU()\n"
        "  (2): Sequential(\n    (0): Dropout(p=0.1, inplace=False)\n  )\n)"
    )


def test_bad_registrations_are_refused():
    net = Net()
    with pytest.raises(KeyError, match="attribute 'mean' already exists"):
        net.register_buffer("mean", None)
    with pytest.raises(KeyError, match=r"a string without '\.'"):
        net.register_buffer("a.b", None)
    with pytest.raises(TypeError, match=r"agrad\.Tensor or None required"):
        net.register_buffer("new", 3.0)
    with pytest.raises(TypeError, match="float is not a Module subclass"):
        net.add_module("new", 3.0)
    with pytest.raises(NotImplementedError, match=r'Module \[Module\] is missing the required "forward" function'):
        nn.Module()()


def test_cuda_names_a_device_of_cupys():
    layer, seen = nn.Linear(2, 1), []
    object.__setattr__(layer, "to", seen.append)
    for device in (None, 1, "cuda", "cuda:2"):
        layer.cuda(device)
    assert seen == ["cupy", "cupy:1", "cupy", "cupy:2"]


def test_initial_values_are_pytorchs_distributions():
    ag.manual_seed(0)
    layer = nn.Linear(400, 300)
    bound = 1 / 20
    weight = layer.weight.detach().numpy()
    assert np.abs(weight).max() <= bound
    assert weight.std() == pytest.approx(bound / np.sqrt(3), rel=0.01)
    w = nn.init.kaiming_normal_(ag.zeros((300, 400)), nonlinearity="relu").numpy()
    assert w.std() == pytest.approx(np.sqrt(2 / 400), rel=0.02)
    w = nn.init.xavier_uniform_(ag.zeros((300, 400))).numpy()
    assert np.abs(w).max() <= np.sqrt(6 / 700)
    assert w.std() == pytest.approx(np.sqrt(2 / 700), rel=0.02)
    w = nn.init.xavier_normal_(ag.zeros((300, 400)), gain=2.0).numpy()
    assert w.std() == pytest.approx(2 * np.sqrt(2 / 700), rel=0.02)
    w = nn.init.uniform_(ag.zeros((300, 400)), 2.0, 5.0).numpy()
    assert w.min() >= 2
    assert w.max() <= 5
    assert w.mean() == pytest.approx(3.5, rel=0.01)
    w = nn.init.normal_(ag.zeros((300, 400)), 3.0, 0.5).numpy()
    assert (w.mean(), w.std()) == pytest.approx((3.0, 0.5), rel=0.01)


def test_clipping_scales_all_gradients_together():
    a, b = ag.tensor([0.0, 0.0], requires_grad=True), ag.tensor([0.0], requires_grad=True)
    a.grad, b.grad = ag.tensor([3.0, 0.0]), ag.tensor([4.0])
    norm = nn.utils.clip_grad_norm_([a, b], 1.0)
    assert norm.item() == 5.0
    np.testing.assert_allclose([*a.grad.tolist(), *b.grad.tolist()], [0.6, 0.0, 0.8], rtol=1e-6)
    assert nn.utils.clip_grad_norm_([a, b], 10.0).item() == pytest.approx(1.0, rel=1e-6)
    a.grad = ag.tensor([float("nan"), 1.0])
    with pytest.raises(RuntimeError, match="is non-finite, so it cannot be clipped"):
        nn.utils.clip_grad_norm_([a, b], 1.0, error_if_nonfinite=True)
    assert b.grad.item() == pytest.approx(0.8, rel=1e-6)


def test_parameters_and_buffers_by_path():
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    assert net.get_parameter("0.weight") is net[0].weight
    assert net.get_buffer("1.running_mean") is net[1].running_mean
    with pytest.raises(AttributeError, match=r"Sequential has no parameter at '1\.running_mean'"):
        net.get_parameter("1.running_mean")
    with pytest.raises(AttributeError, match=r"Sequential has no buffer at '2\.x'"):
        net.get_buffer("2.x")


def test_a_module_needs_no_call_of_its_base():
    class Net(nn.Module):
        def __init__(self):
            self.hidden = nn.Linear(2, 1)

        def forward(self, x):
            return self.hidden(x)

    net = Net()
    net(ag.ones((3, 2))).sum().backward()
    assert list(net.state_dict()) == ["hidden.weight", "hidden.bias"]
    assert net.eval().hidden.training is False
    assert all(p.grad is not None for p in net.parameters())


def test_apply_comes_to_children_in_their_order():
    """The order of PyTorch's, in which weights are drawn; a module in two places has its turn in both."""
    shared = nn.Tanh()
    net = nn.Sequential(nn.Linear(2, 3), nn.Sequential(shared, nn.ReLU()), nn.Sequential(shared), nn.Linear(3, 1))
    order: list[str] = []
    assert net.apply(lambda module: order.append(type(module).__name__)) is net
    assert order == ["Linear", "Tanh", "ReLU", "Sequential", "Tanh", "Sequential", "Linear", "Sequential"]


def test_slices_of_a_sequential_of_ones_own():
    class Net(nn.Sequential):
        def __init__(self, depth=1):
            super().__init__(*[nn.Linear(2, 2) for _ in range(depth)])
            self.head = nn.Tanh()

    net = Net(3)
    assert list(net[1:].state_dict()) == ["1.weight", "1.bias", "2.weight", "2.bias"]
    assert net[1:][0] is net[1]
    assert len(net[:0]) == 0
    assert [name for name, _ in net[2:].named_children()] == ["2", "head"]
