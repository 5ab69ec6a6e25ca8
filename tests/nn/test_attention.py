"""Attention as one operation: blocks of queries, what is kept for backward, masks, dropout, every way of differentiating."""

from __future__ import annotations

import math
import tracemalloc

import numpy as np
import pytest

import agrad as ag
import agrad.nn.functional as F
from agrad.nn.functional import attention

L, S = 5, 7
ATTEND = F.scaled_dot_product_attention


def wave(*shape, phase=0.0):
    return np.sin(1.3 * np.arange(math.prod(shape)) + phase).reshape(shape)


QKV = wave(2, 3, L, 4), wave(2, 3, S, 4, phase=1.0), wave(2, 3, S, 6, phase=2.0)
SEEN = wave(L, S, phase=3.0) > -0.5
MASKS = {
    "none": {},
    "causal": {"is_causal": True},
    "seen": {"attn_mask": SEEN},
    "seen by a batch": {"attn_mask": wave(2, 1, 1, S) > -0.5},
    "added": {"attn_mask": wave(3, L, S, phase=4.0)},
    "added by key": {"attn_mask": wave(S, phase=4.0)},
    "added, hidden": {"attn_mask": np.where(SEEN, wave(L, S), -np.inf)},
    "scale": {"scale": 0.3},
}


@pytest.fixture(params=[attention.SCORES, 60, 1], ids=["whole", "blocks", "rows"])
def scores(request, monkeypatch):
    monkeypatch.setattr(attention, "SCORES", request.param)
    return request.param


def by_hand(q, k, v, attn_mask=None, is_causal=False, scale=None):
    """The formula, in NumPy."""
    s = q @ np.swapaxes(k, -1, -2) * (1 / math.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        attn_mask = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
    if attn_mask is not None:
        s = np.where(attn_mask, s, -np.inf) if attn_mask.dtype == bool else s + attn_mask
    e = np.exp(s - s.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True) @ v


def function_of(how):
    """Attention as a function of its operands and of a mask that is added, and those."""
    mask = how.get("attn_mask")
    if mask is None or mask.dtype == bool:
        return lambda *x: ATTEND(*x, **how), QKV
    return lambda *x: ATTEND(*x[:3], attn_mask=x[3]), (*QKV, mask)


@pytest.mark.parametrize("how", MASKS)
def test_values_are_those_of_the_formula(how, scores):
    np.testing.assert_allclose(ATTEND(*QKV, **MASKS[how]).numpy(), by_hand(*QKV, **MASKS[how]), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("how", [name for name in MASKS if name != "added, hidden"])
def test_gradients_are_those_of_differences(how, scores):
    f, operands = function_of(MASKS[how])
    leaves = [ag.tensor(x, requires_grad=True) for x in operands]
    weights = wave(*f(*operands).shape, phase=5.0)
    directions = [wave(*x.shape, phase=6.0) for x in operands]

    def loss(step):
        return float(np.sum(f(*(x + step * d for x, d in zip(operands, directions, strict=True))).numpy() * weights))

    slope = (8 * (loss(1e-3) - loss(-1e-3)) - loss(2e-3) + loss(-2e-3)) / 12e-3
    gradients = ag.autograd.grad(ag.sum(f(*leaves) * weights), leaves)
    assert sum(np.sum(g.numpy() * d) for g, d in zip(gradients, directions, strict=True)) == pytest.approx(slope, 1e-8)
    tangent = ag.func.jvp(f, tuple(map(ag.tensor, operands)), tuple(map(ag.tensor, directions)))[1]
    assert np.sum(tangent.numpy() * weights) == pytest.approx(slope, 1e-8)


def test_second_derivatives(scores):
    q, k, v = (ag.tensor(x[0, 0, :4, :2], requires_grad=True) for x in QKV)
    assert ag.autograd.gradgradcheck(lambda *x: ATTEND(*x, is_causal=True), (q, k, v))


def test_batches_of_a_function(scores):
    f = ag.func.grad(lambda q, k, v: ag.sum(ATTEND(q, k, v, attn_mask=SEEN) ** 2))
    mapped = ag.func.vmap(f, in_dims=(0, 0, None))(*map(ag.tensor, QKV[:2]), ag.tensor(QKV[2][0]))
    for i in range(2):
        alone = f(ag.tensor(QKV[0][i]), ag.tensor(QKV[1][i]), ag.tensor(QKV[2][0]))
        np.testing.assert_allclose(mapped[i].numpy(), alone.numpy(), rtol=1e-12, atol=1e-14)


def test_keys_and_masks_that_broadcast(scores):
    k, v = ag.tensor(QKV[1][:, :1], requires_grad=True), ag.tensor(QKV[2][0, 0], requires_grad=True)
    y = ATTEND(QKV[0], k, v)
    np.testing.assert_allclose(y.detach().numpy(), by_hand(QKV[0], QKV[1][:, :1], QKV[2][0, 0]), rtol=1e-12, atol=1e-14)
    assert [g.shape for g in ag.autograd.grad(ag.sum(y**2), (k, v))] == [(2, 1, S, 4), (S, 6)]


@pytest.mark.parametrize("mask", [SEEN & False, np.full((L, S), -np.inf)], ids=["seen", "added"])
def test_queries_that_see_nothing(mask, scores):
    leaves = [ag.tensor(x, requires_grad=True) for x in QKV]
    y = ATTEND(*leaves, attn_mask=mask)
    for array in (y, *ag.autograd.grad(ag.sum(y), leaves)):
        np.testing.assert_array_equal(array.detach().numpy(), 0.0)
    nothing = ATTEND(leaves[0], leaves[1][..., :0, :], leaves[2][..., :0, :])
    assert nothing.shape == (2, 3, L, 6)
    np.testing.assert_array_equal(nothing.detach().numpy(), 0.0)


def test_nan_is_not_hidden(scores):
    q = QKV[0].copy()
    q[0, 0, 1, 2] = np.nan
    for how in (MASKS["none"], MASKS["added, hidden"]):
        found = np.isnan(ATTEND(q, *QKV[1:], **how).numpy())
        assert found[0, 0, 1].all()
        assert found.sum() == found[0, 0, 1].size


def test_dropout_zeroes_weights_and_keeps_their_mean(scores):
    ag.manual_seed(0)
    # weights of 1 / 1000 each, and a value per key: what is left of it is 0 or 1 / (1 - p)
    left = 1000 * ATTEND(np.zeros((1, 2)), np.zeros((1000, 2)), np.eye(1000), dropout_p=0.25).numpy()
    assert sorted(set(np.round(left, 12).ravel())) == [0.0, round(4 / 3, 12)]
    assert left.mean() == pytest.approx(1.0, abs=0.1)
    assert not ATTEND(*QKV, dropout_p=1.0).numpy().any()
    with pytest.raises(ValueError, match="dropout probability has to be between 0 and 1"):
        ATTEND(*QKV, dropout_p=2.0)


def test_the_gradient_is_that_of_the_weights_that_were_left(scores):
    def f(*operands):
        ag.manual_seed(3)
        return ATTEND(*operands, is_causal=True, dropout_p=0.4)

    assert ag.autograd.gradcheck(f, [ag.tensor(x[0, 0, :4, :2], requires_grad=True) for x in QKV])


def test_no_matrix_of_weights_is_kept_where_they_are_many(monkeypatch):
    monkeypatch.setattr(attention, "SCORES", 1 << 12)
    operands = [ag.tensor(wave(512, 8, phase=p), requires_grad=True) for p in range(3)]
    tracemalloc.start()
    ag.sum(ATTEND(*operands)).backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 512 * 512 * 8 / 3


def test_dask(dask_backend):
    leaves = [ag.tensor(x, device="dask", requires_grad=True) for x in QKV]
    near = [ag.tensor(x, requires_grad=True) for x in QKV]
    for how in ({}, {"is_causal": True}, {"attn_mask": SEEN}):
        y, wanted = ATTEND(*leaves, **how), ATTEND(*near, **how)
        np.testing.assert_allclose(y.detach().compute().numpy(), wanted.detach().numpy(), rtol=1e-12, atol=1e-14)
        pairs = zip(ag.autograd.grad(ag.sum(y**2), leaves), ag.autograd.grad(ag.sum(wanted**2), near), strict=True)
        for one, other in pairs:
            np.testing.assert_allclose(one.compute().numpy(), other.numpy(), rtol=1e-12, atol=1e-14)
