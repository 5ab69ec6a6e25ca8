"""Sliding windows on Dask: made block by block, and added up again where they overlap."""

from __future__ import annotations

import math

import numpy as np
import pytest

import agrad as ag
import agrad.numpy as anp

da = pytest.importorskip("dask.array")

pytestmark = pytest.mark.usefixtures("dask_backend")

sliding_window_view = anp.lib.stride_tricks.sliding_window_view


@pytest.mark.parametrize("size", [1, 2, 4, 9, 13])
@pytest.mark.parametrize("chunks", [13, 4, 1, (1, 1, 1, 10), (9, 2, 2)], ids=str)
def test_windows_longer_and_shorter_than_chunks(chunks, size):
    rng = np.random.default_rng(size)
    values = rng.normal(size=(13, 4))
    x = ag.asarray(da.from_array(values, chunks=(chunks, 2)), requires_grad=True)
    windows, wanted = sliding_window_view(x, size, 0), np.lib.stride_tricks.sliding_window_view(values, size, 0)
    np.testing.assert_array_equal(windows.detach().numpy(), wanted)
    weights = rng.normal(size=wanted.shape)
    (gradient,) = ag.autograd.grad(ag.sum(windows * weights), x)
    assert gradient.chunks == x.chunks
    expected = np.zeros_like(values)
    for i in range(size):
        expected[i : i + len(wanted)] += weights[..., i]
    np.testing.assert_allclose(gradient.numpy(), expected, atol=1e-12)


def test_windows_along_several_axes():
    rng = np.random.default_rng(0)
    values, direction = rng.normal(size=(2, 7, 5, 6))
    x = ag.asarray(da.from_array(values, chunks=(3, 2, 4)), requires_grad=True)
    sizes, axes = (3, 2, 2), (0, -1, 0)
    windows = sliding_window_view(x, sizes, axes)
    wanted = np.lib.stride_tricks.sliding_window_view(values, sizes, axes)
    np.testing.assert_array_equal(windows.detach().numpy(), wanted)
    (gradient,) = ag.autograd.grad(ag.sum(windows**2) / 2, x)
    moved = np.lib.stride_tricks.sliding_window_view(direction, sizes, axes)
    np.testing.assert_allclose(np.vdot(gradient.numpy(), direction), np.vdot(wanted, moved), rtol=1e-10)


def test_blocks_of_windows_are_no_larger_than_those_of_the_operand():
    """Windows of 30 days make the data 30 times as large: the other axes are cut instead."""
    x = ag.asarray(da.zeros((1000, 400, 300), chunks=(500, 400, 300)), requires_grad=True)
    windows = sliding_window_view(x, 30, 0)
    room = 500 * 400 * 300
    assert math.prod(map(max, windows.chunks)) <= 1.1 * room
    (gradient,) = ag.autograd.grad(ag.sum(windows), x)
    assert gradient.chunks == x.chunks


def test_a_long_series_is_cut_along_itself():
    values = np.random.default_rng(0).normal(size=60_000)
    x = ag.asarray(da.from_array(values, chunks=20_000), requires_grad=True)
    windows = sliding_window_view(x, 200, 0)
    assert math.prod(map(max, windows.chunks)) * 8 <= 2**22
    means = ag.mean(windows, axis=-1)
    (gradient,) = ag.autograd.grad(ag.sum(means**2) / 2, x)
    assert gradient.chunks == x.chunks
    box = np.full(200, 1 / 200)
    expected = np.convolve(values, box, "valid")
    np.testing.assert_allclose(means.detach().numpy(), expected, atol=1e-12)
    np.testing.assert_allclose(gradient.numpy(), np.convolve(expected, box), atol=1e-12)


def test_the_gradient_of_float16_is_added_in_float32():
    x = ag.asarray(da.from_array(np.ones(3000, np.float16), chunks=500), requires_grad=True)
    (gradient,) = ag.autograd.grad(sliding_window_view(x, 900, 0), x, ag.asarray(da.full((2101, 900), np.float16(1.1))))
    wanted = np.minimum(np.minimum(np.arange(1, 3001), np.arange(3000, 0, -1)), 900) * np.float32(np.float16(1.1))
    np.testing.assert_allclose(gradient.numpy(), wanted, rtol=2**-10)
