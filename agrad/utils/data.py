"""Batches of data larger than one step needs: PyTorch's ``torch.utils.data``, for arrays of any backend, zarr and Dask."""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import math
import queue
import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from agrad import random, tree
from agrad.core import mode
from agrad.core import names as _names
from agrad.core.cpython import getframe
from agrad.core.errors import called, user_frame, warn_at
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray
from agrad.ops.manipulation import stack
from agrad.ops.searching import take

__all__ = [
    "BatchSampler", "ConcatDataset", "DataLoader", "Dataset", "IterableDataset", "RandomSampler", "Sampler",
    "SequentialSampler", "Subset", "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "default_collate",
    "random_split",
]  # fmt: skip

T_co = TypeVar("T_co", covariant=True)


# -- datasets -----------------------------------------------------------------------------------------------------------


class Dataset(Generic[T_co]):
    """Samples by index: a subclass has ``__getitem__(index)`` and ``__len__``. Adding two concatenates them.

    Examples
    --------
    >>> import agrad as ag
    >>> class Squares(ag.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...
    ...     def __getitem__(self, i):
    ...         return ag.tensor(float(i * i))
    >>> [batch.tolist() for batch in ag.utils.data.DataLoader(Squares(), batch_size=3)]
    [[0.0, 1.0, 4.0], [9.0]]
    """

    if TYPE_CHECKING:

        def __getitem__(self, index: Any) -> T_co: ...

    def __add__(self, other: Any) -> ConcatDataset:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co]):
    """Samples in sequence: a subclass has ``__iter__``.

    Examples
    --------
    >>> import agrad as ag
    >>> class Lines(ag.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         yield from ("1 2", "3 4", "5 6")
    >>> [batch for batch in ag.utils.data.DataLoader(Lines(), batch_size=2)]
    [['1 2', '3 4'], ['5 6']]
    """

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[T_co]: ...


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Arrays whose rows belong together: sample `i` is a tuple of the rows at index `i`.

    Parameters
    ----------
    *arrays : Tensor or array
        Of equal length: tensors, arrays of any backend, zarr arrays. Rows are read on access.

    Raises
    ------
    ValueError
        If there are none, or their lengths differ.

    Examples
    --------
    >>> import agrad as ag
    >>> dataset = ag.utils.data.TensorDataset(ag.arange(6.0).reshape(3, 2), ag.tensor([0, 1, 0]))
    >>> len(dataset), dataset[1]
    (3, (tensor([2., 3.]), tensor(1)))
    """

    def __init__(self, *arrays: Any) -> None:
        lengths = {int(array.shape[0]) if array.shape else None for array in arrays}
        if len(lengths) != 1 or None in lengths:
            raise ValueError(
                f"TensorDataset takes arrays of one length, got shapes {[tuple(a.shape) for a in arrays]}{called()}"
            )
        self.arrays = arrays

    @property
    def tensors(self) -> tuple[Any, ...]:
        """The arrays as given."""
        return self.arrays

    def __len__(self) -> int:
        return int(self.arrays[0].shape[0])

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(asarray(array[index, ...]) for array in self.arrays)

    def rows(self, indices: Sequence[int]) -> tuple[Tensor, ...]:
        """Return many samples at once: for each array, a tensor of these rows. Adjacent rows are read as one slice."""
        indices = list(indices)
        first = indices[0]
        if indices == list(range(first, first + len(indices))):
            return tuple(asarray(array[first : first + len(indices), ...]) for array in self.arrays)
        return tuple(_rows(array, indices) for array in self.arrays)


def _rows(array: Any, indices: list[int]) -> Tensor:
    if isinstance(array, Tensor):
        return take(array, asarray(indices, device=array.device), axis=0)
    orthogonal = getattr(array, "oindex", None)  # zarr's way to read given rows
    return asarray(array[indices, ...] if orthogonal is None else orthogonal[indices])


class Subset(Dataset[T_co]):
    """The samples of a dataset at some indices.

    Parameters
    ----------
    dataset : Dataset or sequence
        The whole dataset.
    indices : sequence of int
        The samples to select, in order.
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset: Any = dataset
        self.indices: Sequence[int] = indices

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> T_co:
        sample: T_co = self.dataset[self.indices[index]]
        return sample


class ConcatDataset(Dataset[Any]):
    """Datasets concatenated.

    Parameters
    ----------
    datasets : iterable of Dataset or sequence
        The datasets.

    Raises
    ------
    ValueError
        If there are none.
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets: list[Any] = list(datasets)
        if not self.datasets:
            raise ValueError(f"datasets should not be an empty iterable{called()}")
        self.cumulative_sizes: list[int] = list(itertools.accumulate(map(len, self.datasets)))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> Any:
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(f"index {index} is out of range for {len(self)} samples{called()}")
        which = bisect_right(self.cumulative_sizes, place)
        return self.datasets[which][place - self.cumulative_sizes[which] + len(self.datasets[which])]


def random_split(
    dataset: Any, lengths: Sequence[float], generator: random.Generator | None = None
) -> list[Subset[Any]]:
    """Split a dataset at random into disjoint parts.

    Parameters
    ----------
    dataset : Dataset or sequence
        The whole dataset.
    lengths : sequence of int or of float
        The number of samples of each part; or fractions with a sum of 1, rounded down, with the remainder dealt out one by one.
    generator : agrad.random.Generator, optional
        The source of the order. Default: the one that `agrad.manual_seed` seeds.

    Returns
    -------
    list of Subset
        The parts.

    Raises
    ------
    ValueError
        If the lengths do not add up to that of the dataset, or a fraction is not between 0 and 1.

    Examples
    --------
    >>> import agrad as ag
    >>> [len(part) for part in ag.utils.data.random_split(range(10), [0.75, 0.25])]
    [8, 2]
    """
    count = len(dataset)
    if math.isclose(sum(lengths), 1) and sum(lengths) <= 1:
        for i, part in enumerate(lengths):
            if not 0 <= part <= 1:
                raise ValueError(f"Fraction at index {i} is not between 0 and 1{called()}")
        sizes = [math.floor(count * part) for part in lengths]
        for i in range(count - sum(sizes)):
            sizes[i % len(sizes)] += 1
    else:
        sizes = [int(length) for length in lengths]
        if sizes != list(lengths) or sum(sizes) != count:
            raise ValueError(
                "Sum of input lengths does not equal the length of the input dataset!"
                f"\n  random_split() got {list(lengths)} for {count} samples.{called()}"
            )
    order = _shuffled(count, generator)
    ends = itertools.accumulate(sizes)
    return [Subset(dataset, order[end - size : end]) for size, end in zip(sizes, ends, strict=True)]


# -- orders -------------------------------------------------------------------------------------------------------------


def _shuffled(count: int, generator: random.Generator | None) -> list[int]:
    order: list[int] = random.randperm(count, generator=generator).tolist()
    return order


class Sampler(Generic[T_co]):
    """An order of samples, for a `DataLoader`: a subclass has ``__iter__``, which yields indices, and ``__len__``."""

    if TYPE_CHECKING:

        def __iter__(self) -> Iterator[T_co]: ...
        def __len__(self) -> int: ...


class SequentialSampler(Sampler[int]):
    """The order of the dataset itself.

    Parameters
    ----------
    data_source : Dataset or sequence
        The dataset whose length to use.
    """

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """A random order, different at each pass.

    Parameters
    ----------
    data_source : Dataset or sequence
        The dataset whose length to use.
    replacement : bool, optional
        Whether each sample is drawn from all of them.
    num_samples : int, optional
        The number of samples per pass. Default: as many as the dataset; with more it is traversed several times.
    generator : agrad.random.Generator, optional
        The source of the order. Default: the one that `agrad.manual_seed` seeds.

    Raises
    ------
    ValueError
        If `num_samples` is not positive.
    """

    def __init__(
        self,
        data_source: Any,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: random.Generator | None = None,
    ) -> None:
        if num_samples is not None and num_samples < 1:
            raise ValueError(
                f"num_samples should be a positive integer value, but got num_samples={num_samples}{called()}"
            )
        self.data_source: Any = data_source
        self.replacement: bool = replacement
        self.generator: random.Generator | None = generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        """The number of samples per pass."""
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        count = len(self.data_source)
        if self.replacement:
            return iter(random.randint(0, count, (self.num_samples,), generator=self.generator).tolist())
        passes = -(-self.num_samples // count) if count else 0
        order = [i for _ in range(passes) for i in _shuffled(count, self.generator)]
        return iter(order[: self.num_samples])

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices in a random order, different at each pass.

    Parameters
    ----------
    indices : sequence of int
        The indices of the samples.
    generator : agrad.random.Generator, optional
        The source of the order. Default: the one that `agrad.manual_seed` seeds.
    """

    def __init__(self, indices: Sequence[int], generator: random.Generator | None = None) -> None:
        self.indices: Sequence[int] = indices
        self.generator: random.Generator | None = generator

    def __iter__(self) -> Iterator[int]:
        return (self.indices[i] for i in _shuffled(len(self.indices), self.generator))

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Samples drawn with the given weights.

    Parameters
    ----------
    weights : sequence of float or Tensor
        One per sample, not negative; they need not sum to 1.
    num_samples : int
        The number of samples per pass.
    replacement : bool, optional
        Whether a sample may be drawn again.
    generator : agrad.random.Generator, optional
        The source of the draws. Default: the one that `agrad.manual_seed` seeds.

    Raises
    ------
    ValueError
        If a weight is negative, or too few are positive for the number of draws.
    """

    def __init__(
        self,
        weights: Any,
        num_samples: int,
        replacement: bool = True,
        generator: random.Generator | None = None,
    ) -> None:
        self.weights: list[float] = [float(w) for w in (weights.tolist() if hasattr(weights, "tolist") else weights)]
        self.num_samples: int = num_samples
        self.replacement: bool = replacement
        self.generator: random.Generator | None = generator
        positive = sum(w > 0 for w in self.weights)
        if not all(0 <= w < math.inf for w in self.weights):
            raise ValueError(f"weights should be finite and not negative{called()}")
        if positive < (1 if replacement else num_samples):
            raise ValueError(
                f"{positive} weights are positive: too few to draw {num_samples} samples"
                f"{'' if replacement else ' without replacement'}{called()}"
            )

    def __iter__(self) -> Iterator[int]:
        if self.replacement:
            ends = list(itertools.accumulate(self.weights))
            draws = random.rand(self.num_samples, dtype="float64", generator=self.generator).tolist()
            return (bisect_right(ends, draw * ends[-1]) for draw in draws)
        # The smallest exponential times with these rates come first (Efraimidis & Spirakis 2006).
        draws = random.rand(len(self.weights), dtype="float64", generator=self.generator).tolist()
        times = [-math.log1p(-u) / w if w else math.inf for u, w in zip(draws, self.weights, strict=True)]
        return iter(sorted(range(len(times)), key=times.__getitem__)[: self.num_samples])

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """The indices of another sampler, in lists of a given length.

    Parameters
    ----------
    sampler : Sampler or iterable of int
        Yields the indices.
    batch_size : int
        The length of a list.
    drop_last : bool
        Whether to drop a shorter last list.

    Examples
    --------
    >>> import agrad as ag
    >>> list(ag.utils.data.BatchSampler(range(5), batch_size=2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Any, batch_size: int, drop_last: bool) -> None:
        _check_size(batch_size)
        self.sampler: Any = sampler
        self.batch_size: int = batch_size
        self.drop_last: bool = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        return _cut(self.sampler, self.batch_size, self.drop_last)

    def __len__(self) -> int:
        return _parts(len(self.sampler), self.batch_size, self.drop_last)


def _check_size(batch_size: int) -> None:
    if batch_size < 1:
        raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}{called()}")


def _parts(count: int, size: int, drop_last: bool) -> int:
    whole, rest = divmod(count, size)
    return whole + (rest > 0 and not drop_last)


def _cut(items: Iterable[Any], size: int, drop_last: bool) -> Iterator[list[Any]]:
    """Yield lists of the given length."""
    left = iter(items)
    while part := list(itertools.islice(left, size)):
        if len(part) == size or not drop_last:
            yield part


# -- batches ------------------------------------------------------------------------------------------------------------


def _check_order(
    dataset: Any, batch_size: int, shuffle: bool | None, sampler: Any, batch_sampler: Any, *, drop_last: bool
) -> None:
    """Refuse options of a loader that specify the order of samples, or their batches, twice."""
    if isinstance(dataset, IterableDataset):
        for name, given in (("shuffle", shuffle), ("sampler", sampler), ("batch_sampler", batch_sampler)):
            if given is not None and given is not False:
                raise ValueError(
                    f"DataLoader with IterableDataset: expected unspecified {name} option, but got"
                    f" {name}={given}{called()}"
                )
    if sampler is not None and shuffle:
        raise ValueError(f"sampler option is mutually exclusive with shuffle{called()}")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            f"batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last{called()}"
        )


class DataLoader:
    """Batches of a dataset, in order or reshuffled at every pass; the next batches are read while one is in use.

    Parameters
    ----------
    dataset : Dataset or sequence
        The samples: anything with ``len`` and ``[i]``, or an `IterableDataset`.
    batch_size : int, optional
        Samples per batch.
    shuffle : bool, optional
        Whether each pass has its own random order.
    sampler : Sampler or iterable of int, optional
        The order, instead; read completely when a pass starts.
    batch_sampler : iterable of list of int, optional
        The batches, instead; also read completely.
    num_workers : int, optional
        Accepted for PyTorch compatibility; no process is started. Whatever their number, one thread reads `prefetch` batches
        ahead instead.
    collate_fn : callable, optional
        Makes a batch from a list of samples. Default: `default_collate`.
    drop_last : bool, optional
        Whether to drop a smaller last batch.
    timeout : float, optional
        How many seconds to wait for a batch from the thread; 0 waits indefinitely.
    worker_init_fn : callable, optional
        Accepted for PyTorch compatibility and never called: there are no workers.
    generator : agrad.random.Generator, optional
        The source of the orders, and of the seeds of the passes. Default: the one that `agrad.manual_seed` seeds.
    prefetch : int, optional
        How many batches a thread reads ahead; 0 reads each on demand.
    prefetch_factor : int, optional
        PyTorch's name for `prefetch`.
    multiprocessing_context, persistent_workers, pin_memory, pin_memory_device, in_order : optional
        Accepted for PyTorch compatibility and ignored: there are no processes, no pinning is needed, and batches come in order.

    Raises
    ------
    ValueError
        If `batch_size` is not positive, or `prefetch`, `num_workers` or `timeout` is negative; if more than one of `shuffle`,
        `sampler` and `batch_sampler` is given, or one of them with an `IterableDataset`, or `batch_size` or `drop_last`
        with `batch_sampler`; if there is a `timeout` but nothing is read ahead.
    RuntimeError
        In a pass, if a batch takes longer than the `timeout`.

    Notes
    -----
    When a dataset and `collate_fn` draw from agrad's default generator, they use one that each pass reseeds from
    `generator`, as PyTorch seeds its workers. So a pass returns the same batches however many are read ahead, and does not
    affect the draws of the training loop. Batches are recorded if recording is on when the pass starts. The thread shares
    NumPy's and Python's own generators with the rest of the program.

    Examples
    --------
    >>> import agrad as ag
    >>> x, y = ag.arange(10.0).reshape(5, 2), ag.tensor([0, 1, 0, 1, 1])
    >>> loader = ag.utils.data.DataLoader(ag.utils.data.TensorDataset(x, y), batch_size=2)
    >>> [(rows.shape, labels.tolist()) for rows, labels in loader]
    [((2, 2), [0, 1]), ((2, 2), [0, 1]), ((1, 2), [1])]
    >>> len(loader)
    3
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool | None = None,
        sampler: Iterable[int] | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: random.Generator | None = None,
        *,
        prefetch: int = 2,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_size(batch_size)
        prefetch = prefetch if prefetch_factor is None else prefetch_factor
        for name, number in (("prefetch", prefetch), ("num_workers", num_workers), ("timeout", timeout)):
            if number < 0:
                raise ValueError(f"{name} should not be negative, but got {name}={number}{called()}")
        if timeout and not prefetch:
            raise ValueError(f"timeout is of the thread that reads ahead: give a prefetch > 0{called()}")
        if worker_init_fn is not None and num_workers:
            message = (
                "worker_init_fn is not called: one thread of this process reads ahead, and no worker is started. What the"
                " dataset draws from agrad's generator is seeded anew for each pass."
            )
            warn_at(user_frame(getframe(1)), message, UserWarning)
        _check_order(dataset, batch_size, shuffle, sampler, batch_sampler, drop_last=drop_last)
        self.dataset: Any = dataset
        self.batch_size: int = batch_size
        self.shuffle: bool = bool(shuffle)
        self.drop_last: bool = drop_last
        self.sampler: Iterable[int] | None = sampler
        self.batch_sampler: Iterable[Sequence[int]] | None = batch_sampler
        self.num_workers: int = num_workers
        self.pin_memory: bool = pin_memory
        self.persistent_workers: bool = persistent_workers
        self.collate_fn: Callable[[list[Any]], Any] | None = collate_fn
        self.prefetch = prefetch
        self.generator: random.Generator | None = generator
        self.timeout: float = timeout
        self.worker_init_fn: Callable[[int], Any] | None = worker_init_fn
        self.multiprocessing_context: Any = multiprocessing_context
        self.prefetch_factor: int | None = prefetch_factor
        self.pin_memory_device: str = pin_memory_device
        self.in_order: bool = in_order

    def __len__(self) -> int:
        if self.batch_sampler is not None:
            return len(self.batch_sampler)  # type: ignore[arg-type]  # a sampler without a length says so
        samples: Any = self.dataset if self.sampler is None else self.sampler
        return _parts(len(samples), self.batch_size, self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        # draw the order here, not in the thread, so that draws stay in the order of the user's program
        batches = self._batches()
        own = random.Generator(int(random.randint(0, 2**31 - 1, (), generator=self.generator)))
        recording = mode.is_grad_enabled()

        def read() -> Iterator[Any]:
            while True:
                with random.using(own), mode.set_grad_enabled(recording):
                    part = next(batches, None)
                    if part is None:
                        return
                    batch = self._batch(part)
                yield batch

        return _ahead(read(), self.prefetch, self.timeout) if self.prefetch else read()

    def _batches(self) -> Iterator[Any]:
        """Return the indices of each batch; for an `IterableDataset`, the samples."""
        if self.batch_sampler is not None:
            return iter(list(self.batch_sampler))
        order: Iterable[Any]
        if self.sampler is not None:
            order = list(self.sampler)
        elif isinstance(self.dataset, IterableDataset):
            order = self.dataset
        elif self.shuffle:
            order = _shuffled(len(self.dataset), self.generator)
        else:
            order = range(len(self.dataset))
        return _cut(order, self.batch_size, self.drop_last)

    def _batch(self, part: Sequence[Any]) -> Any:
        collate = self.collate_fn or default_collate
        if isinstance(self.dataset, IterableDataset):
            return collate(list(part))
        dataset, indices = self.dataset, part
        while type(dataset) is Subset:
            dataset, indices = dataset.dataset, [dataset.indices[i] for i in indices]
        if self.collate_fn is None and isinstance(dataset, TensorDataset):
            return dataset.rows(indices)
        return collate([dataset[i] for i in indices])


def default_collate(batch: list[Any]) -> Any:
    """Combine samples, position by position, in tuples, lists and dicts.

    Parameters
    ----------
    batch : list
        Samples with the same structure.

    Returns
    -------
    object
        The same structure. Tensors, arrays and numbers are stacked; strings and bytes become lists.

    Raises
    ------
    TypeError
        If there is anything else in the samples.

    Examples
    --------
    >>> import agrad as ag
    >>> ag.utils.data.default_collate([{"x": 1.0, "name": "a"}, {"x": 2.0, "name": "b"}])
    {'x': tensor([1., 2.]), 'name': ['a', 'b']}
    """
    return tree.map(_together, *batch)


def _together(*leaves: Any) -> Any:
    if isinstance(leaves[0], str | bytes):
        return list(leaves)
    if not isinstance(leaves[0], Tensor | int | float | complex) and not hasattr(leaves[0], "shape"):
        raise TypeError(
            "default_collate: batch must contain tensors, arrays, numbers, strings, dicts or lists; found"
            f" {type(leaves[0]).__name__}\n  Give the DataLoader a collate_fn of your own."
        )
    return stack([asarray(leaf) for leaf in leaves])


def _ahead(items: Iterator[Any], count: int, timeout: float = 0) -> Iterator[Any]:
    """Yield the items, which a thread prepares up to `count` ahead; its errors are raised where the item is due."""
    ready: queue.Queue[tuple[Any, BaseException | None]] = queue.Queue(count)
    left = threading.Event()
    end = object()

    def put(item: Any, error: BaseException | None = None) -> None:
        while not left.is_set():
            with contextlib.suppress(queue.Full):
                ready.put((item, error), timeout=0.1)
                return

    def work() -> None:
        try:
            for item in items:
                put(item)
                if left.is_set():
                    return
            put(end)
        except BaseException as error:  # noqa: BLE001 (re-raised by the waiting thread)
            put(end, error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="agrad.utils.data", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item, error = ready.get(timeout=timeout or None)
            except queue.Empty:
                raise RuntimeError(f"DataLoader timed out after {timeout} seconds{called()}") from None
            if error is not None:
                raise error
            if item is end:
                return
            yield item
    finally:
        left.set()
        thread.join(timeout or None)


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
    for _name in __all__:
        _names.explain_made(globals()[_name])
