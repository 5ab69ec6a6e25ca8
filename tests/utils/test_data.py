"""Batches: orders, shapes, what is read, and what happens to errors and threads."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import agrad as ag
from agrad.utils.data import DataLoader, TensorDataset

X = np.arange(20.0).reshape(10, 2)
Y = np.arange(10)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches_in_order(prefetch, make, value):
    loader = DataLoader(TensorDataset(make(X), make(Y)), batch_size=4, prefetch=prefetch)
    batches = list(loader)
    assert len(batches) == len(loader) == 3
    assert all(isinstance(part, ag.Tensor) for batch in batches for part in batch)
    np.testing.assert_array_equal(np.concatenate([value(x) for x, _ in batches]), X)
    np.testing.assert_array_equal(np.concatenate([value(y) for _, y in batches]), Y)
    assert len(DataLoader(TensorDataset(X), 4, drop_last=True)) == 2
    assert [x.shape for (x,) in DataLoader(TensorDataset(X), 4, drop_last=True)] == [(4, 2)] * 2


@pytest.mark.parametrize("prefetch", [0, 3])
def test_shuffled_passes_hold_every_row_once_and_follow_the_seed(prefetch, make, value):
    loader = DataLoader(TensorDataset(make(X), make(Y)), 3, shuffle=True, prefetch=prefetch)

    def one_pass():
        rows, numbers = [np.concatenate([value(part) for part in parts]) for parts in zip(*loader, strict=True)]
        np.testing.assert_array_equal(rows, X[numbers])
        return numbers.tolist()

    ag.manual_seed(3)
    first, second = one_pass(), one_pass()
    assert sorted(first) == sorted(second) == list(range(10))
    assert first != second
    ag.manual_seed(3)
    assert one_pass() == first


def test_raw_arrays_and_zarr(tmp_path):
    zarr = pytest.importorskip("zarr")
    store = zarr.create_array(store=str(tmp_path / "x.zarr"), shape=X.shape, chunks=(3, 2), dtype=X.dtype)
    store[:] = X
    ag.manual_seed(1)
    found = [(x.tolist(), y.tolist()) for x, y in DataLoader(TensorDataset(store, Y), 4, shuffle=True)]
    numbers = [n for _, ys in found for n in ys]
    assert sorted(numbers) == list(range(10))
    assert [row for xs, _ in found for row in xs] == X[numbers].tolist()


def test_samples_of_a_sequence_are_stacked():
    samples = [{"x": np.full(2, i), "y": (i, float(i))} for i in range(3)]
    (batch,) = DataLoader(samples, batch_size=3)
    assert batch["x"].tolist() == [[0, 0], [1, 1], [2, 2]]
    assert batch["y"][0].tolist() == [0, 1, 2]
    assert batch["y"][1].tolist() == [0.0, 1.0, 2.0]
    assert list(DataLoader(["a", "b", "c"], 2, collate_fn="".join)) == ["ab", "c"]


class Failing:
    def __len__(self):
        return 6

    def __getitem__(self, i):
        if i == 3:
            raise OSError("the disk is gone")
        return i


@pytest.mark.parametrize("prefetch", [0, 1, 5])
def test_errors_come_where_the_batch_is_due(prefetch):
    found = []
    with pytest.raises(OSError, match="the disk is gone"):
        found.extend(batch.tolist() for batch in DataLoader(Failing(), 2, prefetch=prefetch))
    assert found == [[0, 1]]


def test_a_pass_that_is_left_early_leaves_no_thread():
    before = threading.active_count()
    for _ in DataLoader(TensorDataset(X), 1, prefetch=2):
        break
    deadline = time.monotonic() + 10
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() == before


def test_only_so_many_batches_are_read_ahead():
    class Counting:
        read = 0

        def __len__(self):
            return 50

        def __getitem__(self, i):
            Counting.read += 1
            return i

    batches = iter(DataLoader(Counting(), 1, prefetch=2))
    next(batches)
    time.sleep(0.2)
    # one given out, two waiting, one in the thread's hands
    assert Counting.read <= 4
    batches.close()


def test_bad_input():
    with pytest.raises(ValueError, match="batch_size should be a positive"):
        DataLoader(TensorDataset(X), 0)
    with pytest.raises(ValueError, match="prefetch should not be negative"):
        DataLoader(TensorDataset(X), prefetch=-1)
    with pytest.raises(ValueError, match="arrays of one length"):
        TensorDataset(X, Y[:3])
    with pytest.raises(ValueError, match="arrays of one length"):
        TensorDataset()
    with pytest.raises(ValueError, match="arrays of one length"):
        TensorDataset(ag.tensor(1.0))


class Noisy:
    """Samples that are drawn when they are asked for."""

    def __init__(self, w=1.0):
        self.w = w

    def __len__(self):
        return 12

    def __getitem__(self, i):
        return self.w * ag.randn(3)


@pytest.mark.parametrize("given", [False, True])
def test_what_samples_draw_follows_the_seed_however_far_is_read_ahead(given):
    def run(prefetch):
        ag.manual_seed(0)
        generator = ag.random.Generator(5) if given else None
        loader = DataLoader(
            Noisy(),
            4,
            True,
            prefetch=prefetch,
            generator=generator,
            collate_fn=lambda rows: ag.stack(rows) + ag.rand(1),
        )
        return [[(batch.tolist(), ag.randn(2).tolist()) for batch in loader] for _ in range(2)]

    runs = [run(prefetch) for prefetch in (0, 0, 1, 2, 2, 5)]
    assert all(found == runs[0] for found in runs)
    first, second = runs[0]
    assert first != second  # each pass has a seed of its own


def test_draws_of_the_loop_do_not_depend_on_how_many_batches_were_read():
    def after(count):
        ag.manual_seed(0)
        for _, _ in zip(range(count), DataLoader(Noisy(), 2), strict=False):
            pass
        return ag.randn(3).tolist()

    assert after(1) == after(5)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_batches_are_recorded_as_where_the_pass_began(prefetch):
    w = ag.ones(3, requires_grad=True)
    assert all(batch.requires_grad for batch in DataLoader(Noisy(w), 4, prefetch=prefetch))
    with ag.no_grad():
        assert not any(batch.requires_grad for batch in DataLoader(Noisy(w), 4, prefetch=prefetch))
