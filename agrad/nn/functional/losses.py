"""Losses as functions."""

from __future__ import annotations

import math
import warnings
from typing import Any

from agrad import dtypes
from agrad.core import errors
from agrad.core.mode import may_look
from agrad.core.operands import as_operand
from agrad.core.tensor import Tensor, check_number
from agrad.nn.functional.checks import along, checked_ignored, checked_reduction, differs, shape_of
from agrad.nn.functional.normalization import pairwise_distance
from agrad.ops import creation, elementwise, manipulation, searching, statistical
from agrad.ops import nn as ops
from agrad.ops.data_type import astype
from agrad.ops.special.entropies import xlogy
from agrad.ops.special.logistic import logsumexp


def _warn_of_sizes(name: str, input: Any, target: Any) -> None:
    given, wanted = shape_of(name, "input", input), shape_of(name, "target", target)
    if given != wanted:
        warnings.warn(
            f"Using a target size ({wanted}) that is different to the input size ({given})."
            " This will likely lead to incorrect results due to broadcasting. Please ensure they have the same size."
            f" ({name})",
            UserWarning,
            stacklevel=3,
        )
        manipulation.broadcast_shapes(tuple(input.shape), tuple(target.shape))


def _reduced(name: str, values: Tensor, reduction: str) -> Tensor:
    made: Tensor = ops.reduced(values._spec.backend.functions, values, checked_reduction(name, reduction))
    return made


def mse_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Squared difference.

    input, target: Real, of the same shape; differing shapes broadcast, with PyTorch's warning.
    reduction: How to reduce the values.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If `reduction` is unknown.

    >>> ag.nn.functional.mse_loss(ag.tensor([1.0, 3.0]), ag.tensor([1.0, 1.0]))
    tensor(2.)
    """
    _warn_of_sizes("mse_loss", input, target)
    return ops.mse_loss(input, target, checked_reduction("mse_loss", reduction))


def l1_loss(input: Any, target: Any, reduction: str = "mean") -> Tensor:
    """Absolute difference; the derivative at 0 is 0.

    input, target: Of the same shape; differing shapes broadcast, with PyTorch's warning.
    reduction: How to reduce the values.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If `reduction` is unknown.

    >>> ag.nn.functional.l1_loss(ag.tensor([1.0, 4.0]), ag.tensor([1.0, 1.0]))
    tensor(1.5000)
    """
    _warn_of_sizes("l1_loss", input, target)
    return ops.l1_loss(input, target, checked_reduction("l1_loss", reduction))


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: float = 1.0) -> Tensor:
    """Half the squared difference up to `delta`, and `delta` times (difference - delta / 2) beyond (Huber 1964).

    input, target: Real, of the same shape; differing shapes broadcast, with PyTorch's warning.
    reduction: How to reduce the values.
    delta : float, optional
        Where the parabola ends; positive.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If `reduction` is unknown or `delta` is not positive.

    >>> ag.nn.functional.huber_loss(ag.tensor([1.0, 4.0]), ag.tensor([0.0, 0.0]), "none")
    tensor([0.5000, 3.5000])
    """
    _warn_of_sizes("huber_loss", input, target)
    check_number("huber_loss", "delta", delta)
    if delta <= 0:
        raise ValueError(f"huber_loss does not support non-positive values for delta, got {delta}.{errors.called()}")
    return _huber("huber_loss", input, target, reduction, delta, 1.0)


def smooth_l1_loss(input: Any, target: Any, reduction: str = "mean", beta: float = 1.0) -> Tensor:
    """The absolute difference minus ``beta / 2``, and a parabola below `beta` (Girshick 2015): `huber_loss` over `beta`.

    input, target: Real, of the same shape; differing shapes broadcast, with PyTorch's warning.
    reduction: How to reduce the values.
    beta : float, optional
        Where the parabola ends; 0 is equivalent to `l1_loss`.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If `reduction` is unknown or `beta` is negative.

    >>> ag.nn.functional.smooth_l1_loss(ag.tensor([1.0, 4.0]), ag.tensor([0.0, 0.0]), "none", beta=2.0)
    tensor([0.2500, 3.0000])
    """
    _warn_of_sizes("smooth_l1_loss", input, target)
    check_number("smooth_l1_loss", "beta", beta)
    if beta < 0:
        raise ValueError(f"smooth_l1_loss does not support negative values for beta, got {beta}.{errors.called()}")
    if beta == 0:
        return ops.l1_loss(input, target, checked_reduction("smooth_l1_loss", reduction))
    return _huber("smooth_l1_loss", input, target, reduction, beta, 1 / beta)


def _huber(name: str, input: Any, target: Any, reduction: str, delta: float, scale: float) -> Tensor:
    difference = as_operand(input) - as_operand(target)
    if difference.is_complex():
        raise TypeError(f"{name}() takes real operands, not {difference.dtype}{errors.called()}")
    # d**2 / 2 inside, delta * (abs(d) - delta / 2) beyond: both are w * (d - w / 2)
    within = elementwise.clip(difference, -delta, delta)
    values = within * (difference - 0.5 * within)
    return _reduced(name, values if scale == 1 else values * scale, reduction)


def kl_div(input: Any, target: Any, reduction: str = "mean", log_target: bool = False) -> Tensor:
    """``target * (log(target) - input)``: the Kullback-Leibler divergence of log-probabilities from a target.

    input: Log-probabilities, any shape, real.
    target: Probabilities, or their logarithms; same shape as `input`, or broadcast.
    reduction : {"mean", "batchmean", "sum", "none"}, optional
        How to reduce the values. "mean" is over all elements, as in PyTorch; "batchmean", the sum divided by the length of
        the first axis, is the divergence.
    log_target : bool, optional
        Whether `target` contains logarithms.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If `reduction` is unknown.

    >>> p, q = ag.tensor([0.5, 0.5]), ag.tensor([0.25, 0.75])
    >>> ag.nn.functional.kl_div(ag.log(q), p, "sum")
    tensor(0.1438)
    """
    input, target = as_operand(input), as_operand(target)
    if reduction != "batchmean":
        checked_reduction("kl_div", reduction)
    values = elementwise.exp(target) * (target - input) if log_target else xlogy(target, target) - target * input
    reduced = _reduced("kl_div", values, "sum" if reduction == "batchmean" else reduction)
    return reduced / input.shape[0] if reduction == "batchmean" and input.ndim else reduced


def _check_classes(name: str, input: Any, target: Any, weight: Any) -> None:
    """Refuse class indices that do not match the input, and weights that require a gradient."""
    shape = shape_of(name, "input", input)
    if not shape:
        raise RuntimeError(f"{name}(): expected input (N, C, ...) or (C,), got a 0-d tensor{errors.called()}")
    axis = ops.class_axis(len(shape))
    wanted = shape[:axis] + shape[axis + 1 :]
    got = tuple(target.shape)
    if len(got) != len(wanted) or any(map(differs, got, wanted)):
        if len(shape) > 1 and got and len(got) == len(wanted) and differs(got[0], wanted[0]):
            message = f"Expected input batch_size ({shape[0]}) to match target batch_size ({got[0]})."
            raise ValueError(f"{message}\n  {name}(): input {shape}, target {got}.{errors.called()}")
        raise ValueError(
            f"Expected target size {list(wanted)}, got {list(got)}\n  {name}(): input {shape} has {shape[axis]} classes"
            f" along axis {axis}.{errors.called()}"
        )
    if weight is not None:
        if tuple(weight.shape) != (shape[axis],):
            raise RuntimeError(
                f"weight tensor should be defined either for all {shape[axis]} classes or no classes but got weight"
                f" tensor of shape: {list(weight.shape)}\n  in {name}().{errors.called()}"
            )
        if isinstance(weight, Tensor) and weight.requires_grad:
            raise RuntimeError(f"the derivative for 'weight' is not implemented\n  in {name}().{errors.called()}")


def nll_loss(input: Any, target: Any, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Minus the log-probability of the target class.

    input : Tensor, shape (N, C), (C,) or (N, C, d1, ...)
        Log-probabilities of C classes, real.
    target : Tensor, shape (N,), () or (N, d1, ...)
        Class indices, integers.
    weight : Tensor, shape (C,), optional
        A weight per class; "mean" then divides by the sum of the weights of the targets. It gets no gradient.
    ignore_index: Targets with this value do not count.
    reduction: How to reduce the values.
    Returns: A number; for "none", of the shape of `target`.
    ValueError: If the shapes do not match or `reduction` is unknown.
    IndexError: If a target is not a class (on NumPy; elsewhere, where checking would wait for the device, the loss is NaN).

    >>> ag.nn.functional.nll_loss(ag.tensor([[-0.5, -1.5]]), ag.tensor([1]))
    tensor(1.5000)
    """
    target = as_operand(target)
    _check_classes("nll_loss", input, target, weight)
    ignored = checked_ignored("nll_loss", ignore_index)
    return ops.nll_loss(input, target, weight, ignored, checked_reduction("nll_loss", reduction))


def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    """Cross entropy of the softmax of `input` and a target, given as class indices or as probabilities.

    input : Tensor, shape (N, C), (C,) or (N, C, d1, ...)
        Logits of C classes, real.
    target: Class indices: integers, of the shape of `input` without the class axis. Or probabilities: floating
        point, of the shape of `input`.
    weight : Tensor, shape (C,), optional
        A weight per class. For class indices "mean" divides by the sum of the weights of the targets. No gradient.
    ignore_index: Class indices with this value do not count.
    reduction: How to reduce the values.
    label_smoothing : float, optional
        The fraction of the target spread evenly over all classes (Szegedy et al. 2015), from 0 to 1.
    Returns: A number; for "none", of the shape of the class indices.
    ValueError: If the shapes do not match or an option is unknown.
    IndexError: If a target is not a class (on NumPy; elsewhere, where checking would wait for the device, the loss is NaN).

    >>> logits = ag.tensor([[2.0, 0.0], [0.0, 2.0]], requires_grad=True)
    >>> loss = ag.nn.functional.cross_entropy(logits, ag.tensor([0, 1]))
    >>> loss
    tensor(0.1269, grad_fn=<CrossEntropyBackward0>)
    >>> loss.backward()
    >>> logits.grad
    tensor([[-0.0596,  0.0596],
            [ 0.0596, -0.0596]])
    """
    target = as_operand(target)
    checked_ignored("cross_entropy", ignore_index)
    checked_reduction("cross_entropy", reduction)
    if target._spec.inexact:
        return _soft_cross_entropy(as_operand(input), target, weight, reduction, label_smoothing)
    _check_classes("cross_entropy", input, target, weight)
    if not isinstance(label_smoothing, Tensor) and not label_smoothing:
        return ops.cross_entropy(input, target, weight, ignore_index, reduction)
    _check_smoothing(label_smoothing)
    input = as_operand(input)
    axis = ops.class_axis(input.ndim)
    logs = ops.log_softmax(input, axis=axis)
    sharp = ops.nll_loss(logs, target, weight, ignore_index, reduction)
    counted = elementwise.not_equal(target, ignore_index)
    weighted = logs if weight is None else logs * along(weight, axis, input.ndim)
    spread = -statistical.sum(weighted, axis=axis)
    # ignored targets contribute 0, even where their logits are infinite
    spread = searching.where(counted, spread, astype(counted, input.dtype))
    if reduction != "none":
        spread = statistical.sum(spread)
    if reduction == "mean":
        # minus the summed losses of log-probabilities -1 equals the sum of the weights that count
        ones = elementwise.multiply(logs.detach(), 0.0) - 1.0
        total = ops.nll_loss(ones, target, weight, ignore_index, "sum")
        spread = spread / searching.where(elementwise.equal(total, 0), math.nan, total)
    smoothed: Tensor = (1 - label_smoothing) * sharp + (label_smoothing / input.shape[axis]) * spread
    return smoothed


def _check_smoothing(label_smoothing: float) -> None:
    if not 0 <= label_smoothing <= 1:
        raise ValueError(
            f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}\n  in cross_entropy().{errors.called()}"
        )


def _soft_cross_entropy(input: Tensor, target: Tensor, weight: Any, reduction: str, label_smoothing: float) -> Tensor:
    """Return the cross entropy against probabilities."""
    if input.shape != target.shape:
        raise ValueError(
            f"Expected floating point type for target with class probabilities to have the shape of the input,"
            f" {list(input.shape)}, got {list(target.shape)}\n  in cross_entropy(); class indices are integers.{errors.called()}"
        )
    _check_smoothing(label_smoothing)
    axis = ops.class_axis(input.ndim)
    if isinstance(label_smoothing, Tensor) or label_smoothing:
        target = target * (1 - label_smoothing) + label_smoothing / input.shape[axis]
    logs = ops.log_softmax(input, axis=axis)
    if weight is not None:
        logs = logs * along(weight, axis, input.ndim)
    values = -statistical.sum(logs * target, axis=axis)
    reduced: Tensor = ops.reduced(values._spec.backend.functions, values, reduction)
    return reduced


def _check_same(name: str, input: Any, target: Any) -> None:
    given, wanted = shape_of(name, "target", target), shape_of(name, "input", input)
    if given != wanted:
        raise ValueError(
            f"Target size ({given}) must be the same as input size ({wanted})\n  in {name}().{errors.called()}"
        )


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, reduction: str = "mean") -> Tensor:
    """``-(target * log(input) + (1 - target) * log(1 - input))``.

    The logarithms are limited to -100, as in PyTorch. `binary_cross_entropy_with_logits` is more accurate.

    input: Probabilities, any shape.
    target: Probabilities, of the shape of `input`.
    weight : Tensor, optional
        A weight per element, broadcast.
    reduction: How to reduce the values.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If the shapes differ or `reduction` is unknown.
    RuntimeError: If `input` or `target` is outside [0, 1] (not checked on lazy backends, where checking would compute).

    >>> ag.nn.functional.binary_cross_entropy(ag.tensor([0.5, 0.5]), ag.tensor([1.0, 0.0]))
    tensor(0.6931)
    """
    input, target = as_operand(input), as_operand(target)
    _check_same("binary_cross_entropy", input, target)
    for name, values in ("input", input.detach()), ("target", target.detach()):
        if (
            may_look(values._spec.backend)
            and values.size
            and not (statistical.min(values) >= 0 and statistical.max(values) <= 1)
        ):
            raise RuntimeError(
                f"all elements of {name} should be between 0 and 1\n  in binary_cross_entropy().{errors.called()}"
            )
    return ops.binary_cross_entropy(input, target, weight, checked_reduction("binary_cross_entropy", reduction))


def binary_cross_entropy_with_logits(
    input: Any, target: Any, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Tensor:
    """Binary cross entropy of ``sigmoid(input)`` and a target, without overflow or cancellation.

    input: Logits, any shape.
    target: Probabilities, of the shape of `input`.
    weight : Tensor, optional
        A weight per element, broadcast.
    reduction: How to reduce the values.
    pos_weight : Tensor, optional
        A weight of the positive part, ``target * log(sigmoid(input))``, broadcast.
    Returns: A number; for "none", of the operands' shape.
    ValueError: If the shapes differ or `reduction` is unknown.

    >>> z = ag.tensor([0.0, 2.0], requires_grad=True)
    >>> ag.nn.functional.binary_cross_entropy_with_logits(z, ag.tensor([1.0, 0.0]))
    tensor(1.4100, grad_fn=<BinaryCrossEntropyWithLogitsBackward0>)
    """
    _check_same("binary_cross_entropy_with_logits", input, target)
    checked_reduction("binary_cross_entropy_with_logits", reduction)
    return ops.binary_cross_entropy_with_logits(input, target, weight, pos_weight, reduction)


def _above_zero(x: Tensor) -> Tensor:
    made: Tensor = elementwise.clip(x, 0.0)
    return made


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean") -> Tensor:
    """The amount by which pairs violate an order: ``max(0, -target * (input1 - input2) + margin)``.

    input1, input2: Real, of the same shape.
    target : Tensor
        1 where the first should be larger, -1 where the second should.
    margin : float, optional
        The required difference.
    reduction: How to reduce the values.
    Returns: A number; for "none", of the operands' shape.
    RuntimeError: If the numbers of axes differ.
    ValueError: If `reduction` is unknown.

    >>> x, y = ag.tensor([1.0, 2.0]), ag.tensor([3.0, 1.0])
    >>> ag.nn.functional.margin_ranking_loss(x, y, ag.tensor([1.0, 1.0]))
    tensor(1.)
    """
    operands = as_operand(input1), as_operand(input2), as_operand(target)
    if len({operand.ndim for operand in operands}) > 1:
        shapes = ", ".join(str(operand.shape) for operand in operands)
        raise RuntimeError(
            f"margin_ranking_loss : All input tensors should have same dimension but got sizes: {shapes}\n  They would"
            f" broadcast to all pairs: reshape them alike.{errors.called()}"
        )
    violation = _above_zero(margin - operands[2] * (operands[0] - operands[1]))
    return _reduced("margin_ranking_loss", violation, reduction)


def triplet_margin_loss(
    anchor: Any,
    positive: Any,
    negative: Any,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """The amount by which an anchor fails to be closer, by `margin`, to a similar vector than to a dissimilar one.

    anchor, positive, negative : Tensor, shape (N, D) or (D,)
        The vectors, similar ones, and dissimilar ones.
    margin : float, optional
        The required difference of the distances.
    p: The order of the norm of the difference.
    eps: Added to the difference.
    swap : bool, optional
        Use the smaller of the distances of both from `negative` (Balntas et al. 2016).
    reduction: How to reduce the values.
    Returns: A number; for "none", one per vector.
    ValueError: If `reduction` is unknown.

    >>> a, b, c = ag.tensor([[0.0, 0.0]]), ag.tensor([[3.0, 4.0]]), ag.tensor([[0.0, 5.5]])
    >>> ag.nn.functional.triplet_margin_loss(a, b, c)
    tensor(0.5000)
    """
    near, far = pairwise_distance(anchor, positive, p, eps), pairwise_distance(anchor, negative, p, eps)
    if swap:
        far = elementwise.minimum(far, pairwise_distance(positive, negative, p, eps))
    return _reduced("triplet_margin_loss", _above_zero(margin + near - far), reduction)


def cosine_embedding_loss(
    input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: str = "mean"
) -> Tensor:
    """The distance of the cosines of vectors from 1, or from values below `margin`.

    input1, input2 : Tensor, shape (N, D) or (D,)
        Real.
    target : Tensor, shape (N,) or ()
        1 for pairs that should be similar: ``1 - cos``; -1 for others: ``max(0, cos - margin)``.
    margin : float, optional
        From -1 to 1.
    reduction: How to reduce the values.
    Returns: A number; for "none", one per pair.
    ValueError: If `reduction` is unknown.

    >>> x, y = ag.tensor([[1.0, 0.0]]), ag.tensor([[0.0, 1.0]])
    >>> ag.nn.functional.cosine_embedding_loss(x, y, ag.tensor([1]))
    tensor(1.)
    """
    input1, input2, target = as_operand(input1), as_operand(input2), as_operand(target)
    squares = [statistical.sum(x * x, axis=-1) + 1e-12 for x in (input1, input2)]
    cosine = statistical.sum(input1 * input2, axis=-1) / elementwise.sqrt(squares[0] * squares[1])
    values = searching.where(target == 1, 1 - cosine, 0.0)
    values = values + searching.where(target == -1, _above_zero(cosine - margin), 0.0)
    return _reduced("cosine_embedding_loss", values, reduction)


def ctc_loss(
    log_probs: Any,
    targets: Any,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Minus the log-probability of label sequences, over all alignments (Graves et al. 2006).

    Uses the forward recursion, over all sequences at once. The gradient is that by `log_probs`; PyTorch's kernel returns
    the one by the input of `log_softmax`, which is the same after it.

    log_probs : Tensor, shape (T, N, C) or (T, C)
        Logarithms of the probabilities of the classes at each time.
    targets : Tensor, shape (N, S), (S,) or (sum of target_lengths,)
        Classes, without `blank`: padded, for one sequence, or for all sequences concatenated.
    input_lengths, target_lengths : Tensor or sequence of int
        The lengths of each sequence; not above T and S.
    blank : int, optional
        The class without a label.
    reduction : {"mean", "sum", "none"}, optional
        How to reduce the values. "mean" divides each by its target's length first, as in PyTorch.
    zero_infinity : bool, optional
        Use 0 for sequences that are too short for their targets, whose loss is infinite.
    Returns: A number; for "none", one per sequence.
    ValueError: If `reduction` is unknown.
    RuntimeError: If lengths or targets do not match.

    >>> log_probs = ag.log(ag.full((2, 1, 2), 0.5))
    >>> ag.nn.functional.ctc_loss(log_probs, ag.tensor([[1]]), [2], [1], reduction="sum")  # 1 1, 1 _ and _ 1 of four
    tensor(0.2877)
    """
    log_probs, one = as_operand(log_probs), False
    if log_probs.ndim == 2:
        log_probs, one = manipulation.expand_dims(log_probs, axis=1), True
    if log_probs.ndim != 3:
        raise RuntimeError(f"ctc_loss() takes log_probs (T, N, C) or (T, C), got {log_probs.shape}{errors.called()}")
    time, batch, classes = log_probs.shape
    inputs, lengths = (
        _lengths(name, value, batch) for name, value in (("input", input_lengths), ("target", target_lengths))
    )
    labels = _labels(targets, lengths, classes, blank)
    if max(inputs, default=0) > time or min(inputs, default=0) < 0:
        raise RuntimeError(
            f"Expected input_lengths to have value at most {time}, but got {max(inputs)}{errors.called()}"
        )
    values = _ctc(log_probs, labels, inputs, lengths, blank)
    if zero_infinity:
        values = searching.where(elementwise.isinf(values), 0.0, values)
    if checked_reduction("ctc_loss", reduction) == "mean":
        beside = {"dtype": values.dtype, "device": values.device}
        values = values / creation.asarray([float(max(n, 1)) for n in lengths], **beside)
    return values[0] if one and reduction == "none" else _reduced("ctc_loss", values, reduction)


def _lengths(name: str, value: Any, batch: int) -> list[int]:
    """Return lengths as numbers."""
    found = value.tolist() if hasattr(value, "tolist") else value
    found = [int(n) for n in (found if isinstance(found, list | tuple) else [found])]
    if len(found) != batch:
        raise RuntimeError(f"{name}_lengths must be of size batch_size {batch}, not {len(found)}{errors.called()}")
    return found


def _labels(targets: Any, lengths: list[int], classes: int, blank: int) -> list[list[int]]:
    """Return the classes of each target, padded with `blank` to the longest."""
    given = targets.tolist() if hasattr(targets, "tolist") else list(targets)
    longest = max(lengths, default=0)
    if given and isinstance(given[0], list):
        rows = given
    else:
        starts = [sum(lengths[:i]) for i in range(len(lengths))]
        rows = [given[start : start + n] for start, n in zip(starts, lengths, strict=True)]
    if len(rows) != len(lengths) or any(len(row) < n for row, n in zip(rows, lengths, strict=True)):
        raise RuntimeError(
            f"ctc_loss(): targets {shape_of('ctc_loss', 'targets', targets)} do not fit target_lengths {lengths}{errors.called()}"
        )
    cut = [[int(label) for label in row[:n]] for row, n in zip(rows, lengths, strict=True)]
    for label in {label for row in cut for label in row}:
        if not 0 <= label < classes or label == blank:
            raise RuntimeError(
                f"ctc_loss(): targets are classes from 0 to {classes - 1} and not the blank {blank}; got {label}{errors.called()}"
            )
    return [row + [blank] * (longest - len(row)) for row in cut]


def _ctc(log_probs: Tensor, labels: list[list[int]], inputs: list[int], lengths: list[int], blank: int) -> Tensor:
    """Return minus the log-probabilities: the paths end at the last label, or at the blank after it."""
    time, batch, _ = log_probs.shape
    width = 2 * max(lengths, default=0) + 1
    marks = [[blank if k % 2 == 0 else row[k // 2] for k in range(width)] for row in labels]
    beside = {"device": log_probs.device}
    where = creation.asarray(marks, dtype=dtypes.int64, **beside).reshape(batch, width)
    # a label may directly follow another one, unless both are the same
    far = [[k % 2 == 1 and k > 1 and row[k] != row[k - 2] for k in range(width)] for row in marks]
    skips = creation.asarray(far, dtype=dtypes.bool, **beside).reshape(batch, width)
    emitted = searching.take_along_axis(log_probs, manipulation.broadcast_to(where, (time, batch, width)), axis=2)
    nothing = creation.full((batch, 2), -math.inf, dtype=log_probs.dtype, **beside)
    first = creation.asarray([k < 2 for k in range(width)], **beside)
    rows = [searching.where(first, emitted[0, ...], -math.inf)]
    for t in range(1, time):
        before = manipulation.concat([nothing, rows[-1]], axis=1)
        ways = manipulation.stack([before[:, 2:], before[:, 1:-1], searching.where(skips, before[:, :-2], -math.inf)])
        rows.append(emitted[t, ...] + logsumexp(ways, axis=0))
    last = creation.asarray([max(n - 1, 0) for n in inputs], dtype=dtypes.int64, **beside)
    at = manipulation.broadcast_to(manipulation.reshape(last, (1, batch, 1)), (1, batch, width))
    ended = manipulation.squeeze(searching.take_along_axis(manipulation.stack(rows), at, axis=0), axis=0)
    ends = [[2 * n, max(2 * n - 1, 0)] for n in lengths]
    both = searching.take_along_axis(ended, creation.asarray(ends, dtype=dtypes.int64, **beside), axis=1)
    only = creation.asarray([[True, n > 0] for n in lengths], **beside)
    made: Tensor = -logsumexp(searching.where(only, both, -math.inf), axis=1)
    return made
