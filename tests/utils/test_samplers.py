"""Datasets, their parts, and orders of samples: PyTorch's names, lengths and words."""

from __future__ import annotations

import collections
import inspect
import threading

import numpy as np
import pytest

import agrad as ag
from agrad.utils.data import (
    BatchSampler,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    random_split,
)


class Squares(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, i):
        if i >= 5:
            raise IndexError(i)
        return float(i * i), f"square {i}"


class Count(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))


@pytest.mark.parametrize(
    ("count", "lengths", "expected"),
    [
        (10, [0.75, 0.25], [8, 2]),  # PyTorch's
        (11, [0.5, 0.3, 0.2], [6, 3, 2]),
        (7, [1 / 3] * 3, [3, 2, 2]),
        (10, [3, 7], [3, 7]),
    ],
)
def test_random_split(count, lengths, expected):
    parts = random_split(range(count), lengths, generator=ag.random.Generator(1))
    assert [len(part) for part in parts] == expected
    assert sorted(i for part in parts for i in part) == list(range(count))
    again = random_split(range(count), lengths, generator=ag.random.Generator(1))
    assert [list(part.indices) for part in again] == [list(part.indices) for part in parts]


def test_random_split_refuses():
    for lengths in ([3, 6], [2.5, 7.5]):
        with pytest.raises(ValueError, match="Sum of input lengths does not equal the length of the input dataset!"):
            random_split(range(10), lengths)
    with pytest.raises(ValueError, match="Fraction at index 0 is not between 0 and 1"):
        random_split(range(10), [-0.5, 1.5])


def test_orders():
    assert list(SequentialSampler(range(4))) == [0, 1, 2, 3]
    passes = RandomSampler(range(5), num_samples=12)
    assert len(passes) == 12
    assert sorted(collections.Counter(passes).values()) == [2, 2, 2, 3, 3]
    assert sorted(RandomSampler(range(5))) == sorted(SubsetRandomSampler(range(5))) == list(range(5))
    drawn = list(RandomSampler(range(5), replacement=True, num_samples=50))
    assert len(drawn) == 50
    assert set(drawn) == set(range(5))
    assert list(BatchSampler(SequentialSampler(range(7)), 3, drop_last=True)) == [[0, 1, 2], [3, 4, 5]]
    assert len(BatchSampler(SequentialSampler(range(7)), 3, drop_last=False)) == 3
    ag.manual_seed(0)
    first = list(RandomSampler(range(20)))
    ag.manual_seed(0)
    assert list(RandomSampler(range(20))) == first


@pytest.mark.parametrize("replacement", [True, False])
def test_weights(replacement):
    weights = [1.0, 0.0, 3.0, 6.0]
    found = [
        next(iter(WeightedRandomSampler(ag.tensor(weights), 2, replacement, ag.random.Generator(i))))
        for i in range(2000)
    ]
    shares = np.bincount(found, minlength=4) / 2000
    np.testing.assert_allclose(shares, [0.1, 0.0, 0.3, 0.6], atol=0.04)  # four standard deviations
    sampler = WeightedRandomSampler(weights, 3, replacement)
    assert len(sampler) == len(list(sampler)) == 3
    if not replacement:
        assert sorted(sampler) == [0, 2, 3]
        with pytest.raises(ValueError, match="3 weights are positive: too few to draw 4 samples without replacement"):
            WeightedRandomSampler(weights, 4, replacement=False)


def test_loader_takes_orders():
    assert [b.tolist() for b in DataLoader(range(6), batch_sampler=[[0, 3], [5]])] == [[0, 3], [5]]
    loader = DataLoader(
        range(6), sampler=[4, 2, 1], batch_size=2, num_workers=4, pin_memory=True, persistent_workers=True
    )
    assert [b.tolist() for b in loader] == [[4, 2], [1]]
    assert len(loader) == 2
    assert len(DataLoader(range(6), batch_sampler=BatchSampler(range(6), 4, drop_last=False))) == 2
    assert list(inspect.signature(DataLoader).parameters)[:13] == [
        "dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last",
        "timeout", "worker_init_fn", "multiprocessing_context", "generator",
    ]  # fmt: skip

    class Backwards(Sampler):
        def __iter__(self):
            return iter((2, 1, 0))

    assert [b.tolist() for b in DataLoader(range(3), 3, sampler=Backwards())] == [[2, 1, 0]]


def test_loader_takes_what_pytorchs_workers_take():
    more = {"prefetch_factor": 3, "worker_init_fn": print, "in_order": False, "pin_memory_device": "cuda"}
    loader = DataLoader(range(4), 2, multiprocessing_context="fork", timeout=30, **more)
    assert [b.tolist() for b in loader] == [[0, 1], [2, 3]]
    assert loader.prefetch == 3
    with pytest.warns(UserWarning, match="worker_init_fn is not called") as seen:
        DataLoader(range(4), num_workers=2, worker_init_fn=print)
    assert seen[0].filename == __file__


def test_a_batch_that_takes_too_long_is_an_error():
    go = threading.Event()

    class Slow:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            return float(i) if i == 0 else float(go.wait(10))

    loader = DataLoader(Slow(), timeout=0.02)
    batches = iter(loader)
    assert next(batches).tolist() == [0.0]
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.02 seconds(.|\n)*test_samplers\.py:"):
        next(batches)
    go.set()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"timeout": -1}, "timeout should not be negative"),
        ({"timeout": 1, "prefetch": 0}, "timeout is of the thread that reads ahead: give a prefetch > 0"),
        ({"sampler": [1], "shuffle": True}, "sampler option is mutually exclusive with shuffle"),
        ({"batch_sampler": [[1]], "batch_size": 2}, "batch_sampler option is mutually exclusive with batch_size"),
        ({"num_workers": -1}, "num_workers should not be negative"),
    ],
)
def test_loader_refuses(more, words):
    with pytest.raises(ValueError, match=words):
        DataLoader(range(4), **more)


@pytest.mark.parametrize("prefetch", [0, 2])
def test_iterable(prefetch):
    assert [b.tolist() for b in DataLoader(Count(5), batch_size=2, prefetch=prefetch)] == [[0, 1], [2, 3], [4]]
    assert [b.tolist() for b in DataLoader(Count(5), 2, drop_last=True, prefetch=prefetch)] == [[0, 1], [2, 3]]
    for name, given in {"shuffle": True, "sampler": [0]}.items():
        with pytest.raises(ValueError, match=f"DataLoader with IterableDataset: expected unspecified {name} option"):
            DataLoader(Count(3), **{name: given})


def test_parts(make, value):
    whole = TensorDataset(make(np.arange(12.0).reshape(6, 2)), make(np.arange(6)))
    assert whole.tensors is whole.arrays
    found = [value(x).tolist() for x, _ in DataLoader(Subset(Subset(whole, [5, 0, 2]), [2, 0]), batch_size=2)]
    assert found == [[[4.0, 5.0], [10.0, 11.0]]]
    both = Squares() + Squares()
    assert isinstance(both, ConcatDataset)
    assert len(both) == 10
    assert [both[i][0] for i in (0, 4, 5, 9, -1, -10)] == [0.0, 16.0, 0.0, 16.0, 16.0, 0.0]
    with pytest.raises(IndexError):
        both[10]


def test_collate():
    (batch,) = DataLoader(Squares(), batch_size=5)
    assert batch[0].tolist() == [0.0, 1.0, 4.0, 9.0, 16.0]
    assert batch[1] == [f"square {i}" for i in range(5)]
    assert default_collate([b"a", b"b"]) == [b"a", b"b"]
    with pytest.raises(
        TypeError, match="batch must contain tensors, arrays, numbers, strings, dicts or lists; found obj"
    ):
        default_collate([object(), object()])
    for prefetch in (0, 2):
        with pytest.raises(ValueError) as info:
            list(DataLoader([np.ones(2), np.ones(3)], batch_size=2, prefetch=prefetch))
        assert "threading" not in str(info.value)
