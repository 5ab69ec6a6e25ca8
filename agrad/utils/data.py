"""Batches of data larger than one step takes: PyTorch's ``torch.utils.data``, over arrays of any backend, zarr and Dask."""

from __future__ import annotations

import contextlib
import contextvars
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from agrad import random, tree
from agrad.core import mode
from agrad.core import names as _names
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.ops.creation import asarray
from agrad.ops.manipulation import stack
from agrad.ops.searching import take

__all__ = ["DataLoader", "TensorDataset"]


class TensorDataset:
    """Arrays whose rows belong together: sample `i` is a tuple of the rows number `i`.

    Parameters
    ----------
    *arrays : Tensor or array
        Of one length each: tensors, arrays of any backend, zarr arrays. Rows are read when they are asked for.

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

    def __len__(self) -> int:
        return int(self.arrays[0].shape[0])

    def __getitem__(self, index: int) -> tuple[Tensor, ...]:
        return tuple(asarray(array[index, ...]) for array in self.arrays)

    def rows(self, indices: Sequence[int]) -> tuple[Tensor, ...]:
        """Return many samples at once: per array, a tensor of these rows. Neighbours are read as one slice."""
        indices = list(indices)
        first = indices[0]
        if indices == list(range(first, first + len(indices))):
            return tuple(asarray(array[first : first + len(indices), ...]) for array in self.arrays)
        return tuple(_rows(array, indices) for array in self.arrays)


def _rows(array: Any, indices: list[int]) -> Tensor:
    if isinstance(array, Tensor):
        return take(array, asarray(indices, device=array.device), axis=0)
    orthogonal = getattr(array, "oindex", None)  # how zarr reads given rows
    return asarray(array[indices, ...] if orthogonal is None else orthogonal[indices])


class DataLoader:
    """Batches of a dataset, in order or shuffled anew at every pass; the next ones are read while one is worked on.

    Parameters
    ----------
    dataset : TensorDataset or sequence
        What is cut into batches. Of a sequence (anything with ``len`` and ``[i]``) the samples are put together by
        `collate_fn`.
    batch_size : int, optional
        Samples per batch.
    shuffle : bool, optional
        Whether each pass has an order of its own.
    drop_last : bool, optional
        Whether a last batch that is smaller is left out.
    collate_fn : callable, optional
        Makes a batch of a list of samples. Default: tensors, arrays and numbers at the same place of all samples, in
        tuples, lists and dicts, are stacked.
    prefetch : int, optional
        How many batches a thread reads ahead; 0 reads each when it is asked for.
    generator : agrad.random.Generator, optional
        Where the orders come from, and the seeds of the passes. Default: the one that `agrad.manual_seed` seeds.

    Raises
    ------
    ValueError
        If `batch_size` is not positive, or `prefetch` negative.

    Notes
    -----
    What a dataset and `collate_fn` draw from agrad's default generator comes from one that each pass seeds anew, from
    `generator`, as PyTorch seeds its workers. So a pass gives the same batches however many are read ahead, and leaves the
    draws of the training loop alone. Batches are recorded if recording is on where the pass begins. NumPy's and
    Python's own generators the thread shares with the rest of the program.

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
        shuffle: bool = False,
        *,
        drop_last: bool = False,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        prefetch: int = 2,
        generator: random.Generator | None = None,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size should be a positive integer value, but got batch_size={batch_size}")
        if prefetch < 0:
            raise ValueError(f"prefetch should not be negative, but got prefetch={prefetch}")
        self.dataset, self.batch_size, self.shuffle, self.drop_last = dataset, batch_size, shuffle, drop_last
        self.collate_fn, self.prefetch, self.generator = collate_fn, prefetch, generator

    def __len__(self) -> int:
        whole, rest = divmod(len(self.dataset), self.batch_size)
        return whole + (rest > 0 and not self.drop_last)

    def __iter__(self) -> Iterator[Any]:
        # the order is drawn here, not by the thread: draws stay in the order of the user's program
        count = len(self.dataset)
        order = random.randperm(count, generator=self.generator).tolist() if self.shuffle else range(count)
        own = random.Generator(int(random.randint(0, 2**31 - 1, (), generator=self.generator)))
        recording = mode.is_grad_enabled()

        def read(indices: Sequence[int]) -> Any:
            with random.using(own), mode.set_grad_enabled(recording):
                return self._batch(indices)

        found = map(read, (order[i * self.batch_size : (i + 1) * self.batch_size] for i in range(len(self))))
        return _ahead(found, self.prefetch) if self.prefetch else found

    def _batch(self, indices: Sequence[int]) -> Any:
        if self.collate_fn is None and isinstance(self.dataset, TensorDataset):
            return self.dataset.rows(indices)
        return (self.collate_fn or _stacked)([self.dataset[i] for i in indices])


def _stacked(samples: list[Any]) -> Any:
    return tree.map(lambda *leaves: stack([asarray(leaf) for leaf in leaves]), *samples)


def _ahead(items: Iterator[Any], count: int) -> Iterator[Any]:
    """Return the items, which a thread makes up to `count` ahead; what it raises is raised where the item is due."""
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
        except BaseException as error:  # noqa: BLE001 (raised again by the one who waits)
            put(end, error)

    thread = threading.Thread(target=contextvars.copy_context().run, args=(work,), name="agrad.utils.data", daemon=True)
    thread.start()
    try:
        while True:
            item, error = ready.get()
            if error is not None:
                raise error
            if item is end:
                return
            yield item
    finally:
        left.set()
        thread.join()


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
