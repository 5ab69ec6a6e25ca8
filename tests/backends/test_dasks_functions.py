"""What Dask's own functions do with tensors: those whose gradient is followed are refused, others are taken as arrays."""

from __future__ import annotations

import warnings

import dask
import dask.array as da
import numpy as np
import pytest

import agrad as ag
from agrad.view.tracebacks import explain

W = np.array([0.5, -1.0, 2.0, 1.5])
REFUSED = r"^Can't make a Dask array or task of a Tensor that requires grad"

#: Ways for a tensor of shape (4,) into Dask, beside an array of shape (8, 4).
WAYS = {
    "where": lambda d, w: da.where(d > 0, w, 0.0),
    "from_array": lambda d, w: da.from_array(w, chunks=2),
    "asarray": lambda d, w: da.asarray(w),
    "stack": lambda d, w: da.stack([d[0], w]),
    "concatenate": lambda d, w: da.concatenate([d[0], w]),
    "einsum": lambda d, w: da.einsum("ij,j->i", d, w),
    "tensordot": lambda d, w: da.tensordot(d, w, 1),
    "dot": lambda d, w: d.dot(w),
    "clip": lambda d, w: d.clip(w, 3.0),
    "sum": lambda d, w: da.sum(w),
    "add": lambda d, w: da.add(d, w),
    "average": lambda d, w: da.average(d, axis=1, weights=w),
    "map_blocks": lambda d, w: da.map_blocks(np.multiply, d, w),
    "map_blocks(w=w)": lambda d, w: d.map_blocks(lambda b, w: b * w, w=w, dtype=float),
    "blockwise": lambda d, w: da.blockwise(np.multiply, "ij", d, "ij", w, "j", dtype=float),
    "apply_gufunc": lambda d, w: da.apply_gufunc(np.multiply, "(i),(i)->(i)", d, w, output_dtypes=float),
    "full": lambda d, w: da.full((3,), w[0]),
    "delayed(pure)": lambda d, w: dask.delayed(np.sum, pure=True)(w),
}


@pytest.mark.parametrize("chunks", [None, 2])
@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_tensor_that_is_followed_is_refused(way, chunks):
    d = da.ones((8, 4), chunks=(2, 4))
    w = (
        ag.asarray(W, requires_grad=True)
        if chunks is None
        else ag.asarray(da.from_array(W, chunks=2), requires_grad=True)
    )
    with pytest.raises(RuntimeError, match="Can't make a Dask array or task of a Tensor that requires grad"):
        way(d, w)
    with warnings.catch_warnings(), pytest.raises(RuntimeError, match="Can't make a Dask array"):
        warnings.simplefilter("error", ag.LeavesGraphWarning)
        ag.grad(lambda w: ag.mean(ag.asarray(way(d, w))))(ag.asarray(W))


def test_the_message_says_what_to_write():
    w = ag.asarray(W, requires_grad=True)
    with pytest.raises(RuntimeError, match=REFUSED) as caught:
        da.where(da.ones(4) > 0, w, 0.0)
    for words in (
        "Use tensor.detach()",
        "np.where for dask.array.where",
        'x.to_device("dask").rechunk(...)',
        'xr.apply_ufunc(dask="parallelized")',
        "Called at",
    ):
        assert words in str(caught.value)


def test_what_map_overlap_of_dask_says_of_tensors_is_answered():
    with pytest.raises(TypeError) as caught:
        da.map_overlap(lambda block, w: block, da.ones(4), ag.asarray(da.from_array(W)), depth=1)
    explain(caught.value)
    assert caught.value.__notes__ == ["agrad_dask.map_overlap takes tensors."]


@pytest.mark.parametrize(("name", "note"), [
    ("map_overlap", "here it is agrad_dask.map_overlap."),
    ("to_zarr", "not there: use da.to_zarr(x.detach().to_dask_array(), path), or da.store."),
    ("chunksize", "not there: use x.detach().to_dask_array(), which has it."),
])  # fmt: skip
def test_methods_of_dasks_arrays_are_answered(name, note):
    with pytest.raises(AttributeError) as caught:
        getattr(ag.asarray(da.from_array(W)), name)
    explain(caught.value)
    assert caught.value.__notes__ == [note]


def test_what_dasks_store_says_of_tensors_is_answered():
    for sources, targets in (
        (ag.asarray(da.from_array(W)), np.zeros(4)),
        ([ag.asarray(da.from_array(W))], [np.zeros(4)]),
    ):
        with pytest.raises(ValueError, match="All sources must be dask array objects") as caught:
            da.store(sources, targets)
        explain(caught.value)
        assert caught.value.__notes__ == ["dask.array.store takes Dask's arrays: x.detach().to_dask_array()."]
    with pytest.raises(ValueError, match="All sources") as caught:
        da.store([W], [np.zeros(4)])
    explain(caught.value)
    assert not hasattr(caught.value, "__notes__")


def test_numpys_functions_are_recorded():
    d = da.ones((8, 4), chunks=(2, 4))
    w = ag.asarray(W, requires_grad=True)
    (np.where(d > 0, w, 0.0).mean() + (w**2).mean()).backward()
    np.testing.assert_allclose(w.grad.numpy(), 1 / 4 + W / 2)


@pytest.mark.parametrize("way", [
    lambda d, w: da.from_array(w, name=False),
    lambda d, w: d.map_blocks(lambda b: b * w, dtype=float),
    lambda d, w: da.from_delayed(dask.delayed(lambda w: w * 2)(w), (4,), float),
])  # fmt: skip
def test_a_tensor_that_dask_does_not_show_is_found_in_the_values(way):
    w = ag.asarray(W, requires_grad=True)
    with pytest.raises(RuntimeError, match=REFUSED):
        (ag.sum(ag.asarray(way(da.ones((8, 4), chunks=(2, 4)), w))) + ag.sum(w)).item()


def test_what_is_not_followed_is_taken_as_its_array():
    d = da.ones((8, 4), chunks=(2, 4)) * 2
    lazy = ag.asarray(da.from_array(W, chunks=2))
    followed = ag.asarray(W, requires_grad=True)
    with ag.no_grad():
        below = da.where(d > 0, followed, 0.0)
    for found in (da.where(d > 0, ag.asarray(W), 0.0), da.where(d > 0, lazy * 1, 0.0), below):
        assert isinstance(found, da.Array)
        np.testing.assert_array_equal(found.compute(), np.broadcast_to(W, (8, 4)))
    assert isinstance((lazy * 1).to_dask_array(), da.Array)
    assert lazy.to_dask_array().chunks == ((2, 2),)


def test_tokens_tell_tensors_apart():
    token = dask.base.tokenize
    assert token(ag.asarray(W)) == token(ag.asarray(W.copy())) != token(ag.asarray(W + 1))
    data = da.from_array(W, chunks=2)
    assert token(ag.asarray(data)) == token(ag.asarray(data)) != token(ag.asarray(data + 1))
