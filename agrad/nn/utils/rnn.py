"""Sequences of different lengths as one tensor: padded, or packed for the recurrent layers."""

from __future__ import annotations

import builtins
import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from agrad.core import names as _names
from agrad.core.errors import called
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor
from agrad.nn.functional.images import pad, taken
from agrad.ops.creation import asarray, full
from agrad.ops.docs import complete as _complete
from agrad.ops.manipulation import concat, moveaxis, reshape, stack
from agrad.ops.searching import take

__all__ = [
    "PackedSequence",
    "pack_padded_sequence",
    "pack_sequence",
    "pad_packed_sequence",
    "pad_sequence",
]


class PackedSequence(NamedTuple):
    """Sequences without padding: the first elements of all sequences, then the second ones of those that have one, and so on.

    Parameters
    ----------
    data : Tensor
        Elements, shape (all lengths together, ...), of the longest sequence first.
    batch_sizes : tuple of int
        How many sequences have an element at each position.
    sorted_indices, unsorted_indices : Tensor, optional
        The order of the sequences by length, and its inverse; None if they were in order.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.nn.utils.rnn import pack_sequence
    >>> pack_sequence([ag.tensor([1.0, 2.0, 3.0]), ag.tensor([4.0])]).data
    tensor([1., 4., 2., 3.])
    """

    data: Tensor
    batch_sizes: tuple[int, ...]  # not a tensor: the loops over them run in Python
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


def pad_sequence(
    sequences: Iterable[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Return sequences of different lengths as one tensor.

    sequences: Tensors of shape (length, ...) that differ only in length.
    padding_side : {"right", "left"}, optional
        Whether the padding goes after the shorter ones, or before them.
    RuntimeError: If there are none, or `padding_side` is another string.

    >>> ag.nn.utils.rnn.pad_sequence([ag.tensor([1.0, 2.0]), ag.tensor([3.0])], batch_first=True)
    tensor([[1., 2.],
            [3., 0.]])
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.{called()}")
    members = list(sequences)
    if not members:
        raise RuntimeError(f"received an empty list of sequences{called()}")
    longest = builtins.max(int(member.shape[0]) for member in members)
    padded = []
    for member in members:
        missing = longest - int(member.shape[0])
        widths = (missing, 0) if padding_side == "left" else (0, missing)
        padded.append(pad(member, (*(0, 0) * (member.ndim - 1), *widths), value=padding_value))
    return stack(padded, axis=0 if batch_first else 1)


def _listed(lengths: Any) -> list[int]:
    return [int(n) for n in (lengths.tolist() if hasattr(lengths, "tolist") else lengths)]


def pack_padded_sequence(
    input: Tensor, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Return padded sequences without the padding, in the form that recurrent layers take.

    input: Shape (longest, sequences, ...), or (sequences, longest, ...).
    enforce_sorted: Whether to refuse sequences not ordered by length, the longest first; otherwise they are sorted, and
        their results returned in the original order.
    RuntimeError: If lengths are not positive, not ordered, too large, or not one per sequence, or there are none.

    >>> ag.nn.utils.rnn.pack_padded_sequence(ag.tensor([[1.0, 3.0], [2.0, 0.0]]), [2, 1]).data
    tensor([1., 3., 2.])
    """
    padded = as_operand(input)
    padded = moveaxis(padded, 0, 1) if batch_first else padded
    counts, (places, batch) = _listed(lengths), padded.shape[:2]
    if len(counts) != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {len(counts)} (batch_size={batch}){called()}"
        )
    if not counts:
        raise RuntimeError(f"Cannot pack empty tensors.{called()}")
    if builtins.min(counts) <= 0:
        raise RuntimeError(
            "Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0" + called()
        )
    if builtins.max(counts) > places:
        raise RuntimeError(f"the longest of lengths is {builtins.max(counts)}, the input has {places} places{called()}")
    order = sorted(range(len(counts)), key=lambda i: -counts[i])
    if enforce_sorted and order != list(range(len(counts))):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass"
            f" `enforce_sorted=False` to pack_padded_sequence and/or pack_sequence to sidestep this requirement.{called()}"
        )
    sizes = tuple(sum(n > place for n in counts) for place in range(builtins.max(counts)))
    rows = [place * batch + i for place, n in enumerate(sizes) for i in order[:n]]
    data = taken(reshape(padded, (-1, *padded.shape[2:])), rows, 0)
    if enforce_sorted:
        return PackedSequence(data, sizes)
    back = sorted(range(len(order)), key=order.__getitem__)
    return PackedSequence(data, sizes, *(asarray(places, device=data.device) for places in (order, back)))


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Return sequences of different lengths in the form that recurrent layers take; see `pack_padded_sequence`.

    sequences: Tensors of shape (length, ...) that differ only in length.
    enforce_sorted: As for `pack_padded_sequence`.
    """
    lengths = [int(member.shape[0]) for member in sequences]
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def pad_packed_sequence(
    sequence: PackedSequence, batch_first: bool = False, padding_value: float = 0.0, total_length: int | None = None
) -> tuple[Tensor, Tensor]:
    """Return packed sequences as one padded tensor, and their lengths.

    sequence : PackedSequence
        The result of `pack_padded_sequence` or a recurrent layer.
    total_length : int, optional
        The length of the result. Default: that of the longest sequence.
    ValueError: If a sequence is longer.

    >>> from agrad.nn.utils.rnn import pack_sequence, pad_packed_sequence
    >>> pad_packed_sequence(pack_sequence([ag.tensor([1.0, 2.0]), ag.tensor([3.0])]), batch_first=True)
    (tensor([[1., 2.],
            [3., 0.]]), tensor([2, 1]))
    """
    data, sizes, back = sequence.data, sequence.batch_sizes, sequence.unsorted_indices
    if total_length is not None and total_length < len(sizes):
        raise ValueError(
            f"Expected total_length to be at least the length of the longest sequence in input, but got"
            f" total_length={total_length} and max sequence length being {len(sizes)}{called()}"
        )
    starts = itertools.accumulate(sizes[:-1], initial=0)
    nothing = int(data.shape[0])  # the row of padding, after all others
    rows = [start + i if i < n else nothing for start, n in zip(starts, sizes, strict=True) for i in range(sizes[0])]
    rows += [nothing] * (((total_length or len(sizes)) - len(sizes)) * sizes[0])
    filling = full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    padded = reshape(taken(concat([data, filling]), rows, 0), (-1, sizes[0], *data.shape[1:]))
    lengths = asarray([sum(n > i for n in sizes) for i in range(sizes[0])], device=data.device)
    if back is not None:
        padded, lengths = take(padded, back, axis=1), take(lengths, back, axis=0)
    return (moveaxis(padded, 1, 0) if batch_first else padded), lengths


_complete(
    globals(),
    {
        "batch_first": "bool, optional\n    Whether padded ones are (sequences, longest, ...), not (longest, sequences, ...).",
        "enforce_sorted": "bool, optional",
        "lengths": "sequence of int or Tensor\n    That of each sequence.",
        "padding_value": "float, optional\n    What stands behind the end of the shorter ones.",
        "sequences": "iterable of Tensor",
    },
)

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
