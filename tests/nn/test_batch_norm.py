"""BatchNorm: running values as PyTorch's, errors, and what else there is to a layer that changes itself."""

from __future__ import annotations

import numpy as np
import pytest
from support import Interrupt, in_agrad, interrupted

import agrad as ag
from agrad import nn

from .cases import wave

#: PyTorch 2.13's running mean and variance after three batches, and first results by them.
EXPECTED = [
    ("BatchNorm1d", (4, 2), 0.3, [-0.0710990323912364, -0.18160775692077, 1.18023879837338, 1.26576353223535, 1.44469973406712, 0.788473398577375, -0.230719523771903]),
    ("BatchNorm1d", (4, 2), None, [-0.0106764473952453, -0.210709923719719, 1.31692418528762, 1.39758818958325, 1.31502092180456, 0.774984221668507, -0.271070626254623]),
    ("BatchNorm1d", (3, 2, 2), 0.3, [0.197880239759306, -0.172899051664867, 1.03201815625512, 1.11287814633889, 1.28019225009607, 0.499658124414136, -0.141100575564193]),
    ("BatchNorm1d", (3, 2, 2), None, [0.219338331344408, -0.154490137322057, 1.16733240376416, 1.15038327884206, 1.18384932829885, 0.449946539807177, -0.155944902231863]),
    ("BatchNorm2d", (2, 2, 2, 3), 0.3, [-0.0291936949946911, -0.0710948668424634, 1.11212018682888, 1.09459502969049, 1.44854989128884, 0.69665029079463, -0.277417045629435]),
    ("BatchNorm2d", (2, 2, 2, 3), None, [0.02859703022568, -0.152059957631907, 1.15427259173628, 1.17326181064692, 1.36806457426994, 0.630021692981749, -0.326094606415953]),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "shape", "momentum", "expected"), EXPECTED)
def test_running_values_are_pytorchs(kind, shape, momentum, expected, backend):
    norm = getattr(nn, kind)(2, momentum=momentum, device=backend).double()
    for i in range(3):
        norm(ag.asarray(wave(*shape, phase=i), device=backend))
    result = norm.eval()(ag.asarray(wave(*shape, phase=7), device=backend))
    found = [*norm.running_mean.tolist(), *norm.running_var.tolist(), *result.flatten()[:3].tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert norm.num_batches_tracked.item() == 3
    assert norm.running_mean.device == backend


def test_without_running_values_a_batch_is_normalised_by_its_own():
    norm = nn.BatchNorm1d(2, affine=False, track_running_stats=False).double().eval()
    assert list(norm.state_dict()) == []
    x = wave(5, 2)
    expected = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)
    np.testing.assert_allclose(norm(ag.asarray(x)).numpy(), expected, rtol=1e-12)


def test_state_and_text():
    norm = nn.BatchNorm2d(3, bias=False)
    assert list(norm.state_dict()) == ["weight", "running_mean", "running_var", "num_batches_tracked"]
    assert norm.num_batches_tracked.dtype == ag.int64
    assert repr(norm) == ("BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, bias=False, track_running_stats=True)")
    norm(ag.randn(2, 3, 2, 2))
    other = nn.BatchNorm2d(3, bias=False)
    other.load_state_dict(norm.state_dict())
    assert other.num_batches_tracked.item() == 1
    assert other.running_var.tolist() == norm.running_var.tolist()
    norm.reset_parameters()
    assert (norm.running_mean.tolist(), norm.num_batches_tracked.item()) == ([0.0] * 3, 0)
    assert other.running_mean.tolist() != [0.0] * 3


def test_gradients_are_finite_differences():
    norm = nn.BatchNorm1d(2).double()
    norm.weight.data, norm.bias.data = ag.asarray([0.5, -2.0]), ag.asarray([0.1, 0.2])
    x = ag.tensor(wave(3, 2), requires_grad=True)
    for layer in (norm, norm.eval()):
        assert ag.autograd.gradcheck(layer, (x,))
        assert ag.autograd.gradgradcheck(layer, (x,))


def test_running_values_in_forward_mode_have_no_tangent():
    norm = nn.BatchNorm1d(2).double()
    x, t = ag.asarray(wave(4, 2)), ag.asarray(wave(4, 2, phase=3))
    result, tangent = ag.func.jvp(norm, (x,), (t,))
    step = 1e-6
    ahead, behind = (nn.BatchNorm1d(2).double()(x + h * t).detach().numpy() for h in (step, -step))
    np.testing.assert_allclose(tangent.detach().numpy(), (ahead - behind) / (2 * step), rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(result.detach().numpy(), (ahead + behind) / 2, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(norm.running_mean.numpy(), 0.1 * x.numpy().mean(0), rtol=1e-12)
    np.testing.assert_allclose(norm.running_var.numpy(), 0.9 + 0.1 * x.numpy().var(0, ddof=1), rtol=1e-12)
    assert norm.running_mean._tangents is None


@pytest.mark.parametrize(
    ("layer", "shape", "text"),
    [
        (nn.BatchNorm1d, (3,), r"expected 2D or 3D input \(got 1D input\)"),
        (nn.BatchNorm1d, (2, 3, 1, 1), r"expected 2D or 3D input \(got 4D input\)"),
        (nn.BatchNorm2d, (2, 3, 4), r"expected 4D input \(got 3D input\)"),
        (nn.BatchNorm1d, (1, 3), "Expected more than 1 value per channel when training"),
    ],
)
def test_bad_inputs_leave_running_values(layer, shape, text):
    norm = layer(3)
    with pytest.raises(ValueError, match=text):
        norm(ag.ones(shape))
    assert norm.running_mean.tolist() == [0.0] * 3


def test_an_empty_batch_leaves_running_values():
    norm = nn.BatchNorm1d(3)
    assert norm(ag.zeros((0, 3))).shape == (0, 3)
    assert norm.running_var.tolist() == [1.0] * 3


def test_lazy_running_values_are_computed_with_the_step(dask_backend):
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)).to(dask_backend)
    optimizer = ag.optim.SGD(net.parameters(), lr=0.1)
    for i in range(3):
        optimizer.zero_grad()
        (net(ag.asarray(wave(4, 2, phase=i), device=dask_backend)) ** 2).sum().backward()
        optimizer.step()
        for buffer in net.buffers():
            assert len(buffer._raw.__dask_graph__()) == 1  # the value, no recipe


def test_an_interrupt_changes_all_running_values_or_none():
    x = ag.asarray(wave(4, 2))
    mean, variance = 0.1 * wave(4, 2).mean(0), 0.9 + 0.1 * wave(4, 2).var(0, ddof=1)
    nn.BatchNorm1d(2).double()(x)  # what is compiled at first use
    done = []
    for n in range(1, 500):
        norm = nn.BatchNorm1d(2).double()
        ended = interrupted(Interrupt(n, in_agrad), norm, x)
        done.append(norm.num_batches_tracked.item() == 1)
        np.testing.assert_allclose(norm.running_mean.numpy(), mean if done[-1] else 0.0, rtol=1e-12)
        np.testing.assert_allclose(norm.running_var.numpy(), variance if done[-1] else 1.0, rtol=1e-12)
        if ended:
            break
    assert n > 10
    assert done[0] is False
    assert done[-1] is True


def test_running_values_that_are_data_of_a_tensor_change_that_tensor():
    norm, owner = nn.BatchNorm1d(2).double(), ag.asarray([1.0, 2.0])
    norm.running_mean = owner.data
    norm(ag.asarray(wave(4, 2)))
    np.testing.assert_allclose(owner.numpy(), [0.9, 1.8] + 0.1 * wave(4, 2).mean(0), rtol=1e-12)
    assert norm.running_mean.tolist() == owner.tolist()
