"""Operations expanded into those they consist of, for which there are kernels; the last bits may differ."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from agrad.plugin.programs import DType, Program, Ref, Shaped, Step, written_out
from agrad_numpy.kernels import DOT_BELOW
from agrad_numpy.nn_kernels import LARGE

#: A step without a result: if its operand has a NaN element, the call runs again, step by step.
REQUIRED = "native.required"

#: The largest of elements, if the sign of a zero does not matter to the result; of zeros with two signs NumPy takes
#: either.
LARGEST = "native.largest"

#: A matrix by its diagonals.
DIAGONALS = "native.diagonals"


def diagonals(shape: tuple[int, int], below: Sequence[int | None], rows: Sequence[Any]) -> Any:
    """Return a matrix of rows, None, and of diagonals so many rows below the main one."""
    found = np.zeros(shape, rows[0].dtype)
    for k, values in zip(below, rows, strict=True):
        if k is None:
            found[...] = values
        else:
            start = max(0, -k)
            at = np.arange(start, min(shape[1], shape[0] - k))
            found[at + k, at] = values
    return found


#: What runs the steps that only native programs have.
KERNELS: dict[str, Callable[..., Any]] = {REQUIRED: lambda _: (), LARGEST: np.max, DIAGONALS: diagonals}

#: Operations of agrad's own that are replaced by their kernels' steps.
WRITTEN_OUT = frozenset({
    "nn.batch_norm", "nn.batch_norm_adjoint", "nn.binary_cross_entropy", "nn.binary_cross_entropy_with_logits",
    "nn.cross_entropy", "nn.cross_entropy_adjoint", "nn.elu",
    "nn.gelu", "nn.gelu_slope", "nn.l1_loss", "nn.layer_norm", "nn.layer_norm_input", "nn.layer_norm_weight", "nn.leaky_relu",
    "nn.log_sigmoid", "nn.log_softmax", "nn.lstm", "nn.lstm_adjoint", "nn.mse_loss", "nn.nll_loss", "nn.normal_cdf", "nn.silu", "nn.silu_slope", "nn.softmax",
    "special.logsumexp_over", "special.logsumexp_shares",
})  # fmt: skip

#: Losses of classes, which are NaN if a target is not a class, where NumPy's kernels raise; with the position of a
#: result that shows it.
OF_CLASSES = {"nn.cross_entropy": (2, 0), "nn.nll_loss": (0,)}


def expanded(program: Program) -> Program:
    """Return a program of operations that have kernels, as far as possible."""
    shown = [
        next((step.outs[at] for at in OF_CLASSES[step.op] if step.outs[at] is not None), None)
        for step in program.steps
        if step.op in OF_CLASSES and _is_written_out(step, program.shapes)
    ]
    count = len(program.outputs)
    program = program.replaced(outputs=(*program.outputs, *(n for n in shown if n is not None)))
    program = written_out(program, lambda step, shapes: not _is_written_out(step, shapes))
    required = (Step(REQUIRED, (Ref(n),), {}, (), several=True) for n in program.outputs[count:])
    writing = StepRewriter(program)
    for step in program.steps:
        writing.write(step)
    return program.replaced(steps=(*writing.steps, *required), shapes=writing.shapes, outputs=program.outputs[:count])


def exactly(program: Program) -> Program:
    """Return a program with the same bits, with layers of small matrices and losses of classes in the steps of their kernels."""
    writing = ExactRewriter(program)
    for step in program.steps:
        writing.write(step)
    constants = {**program.constants, **writing.constants}
    return program.replaced(steps=tuple(writing.steps), shapes=writing.shapes, constants=constants)


def _is_written_out(step: Step, shapes: Mapping[int, Shaped]) -> bool:
    """Return whether a step is replaced by its kernel's steps."""
    if step.op in OF_CLASSES and shapes[step.refs[0]].dtype not in ("float32", "float64"):
        return False
    return step.op in WRITTEN_OUT or (step.op == "nn.softplus" and step.args[1:2] not in ((), (1,)))


class StepRewriter:
    """Writes a program's steps anew, one by one.

    Attributes
    ----------
    steps : list of Step
        So far.
    shapes : dict of int to Shaped
        Of all values.
    """

    def __init__(self, program: Program) -> None:
        self.steps: list[Step] = []
        self.shapes = dict(program.shapes)
        self._constants = program.constants
        self._fresh = itertools.count(program.next_number()).__next__

    def write(self, step: Step) -> None:
        """Add a step, or its expansion."""
        ways: dict[str, Callable[[Step], bool]] = {
            "all": self._truth,
            "any": self._truth,
            "clip": self._clip,
            "linalg.vecdot": self._vecdot,
            "matmul": self._matmul,
            "nn.linear": self.linear,
            "pow": self._pow,
            "vecdot": self._vecdot,
        }
        plain = not step.several and all(n in self.shapes for n in (*step.refs, *step.made))
        if not plain or step.op not in ways or not ways[step.op](step):
            self.steps.append(step)

    def _add(self, like: Step, op: str, args: Sequence[Any], about: Shaped | int, **kwargs: Any) -> Ref:
        """Add a step in place of another one, with a shape and dtype, or with a number as its result; return its result."""
        made = about if isinstance(about, int) else self._fresh()
        if not isinstance(about, int):
            self.shapes[made] = about
        self.steps.append(Step(op, tuple(args), kwargs, (made,), False, like.line, like.region))
        return Ref(made)

    def _is_of_one_dtype(self, step: Step) -> bool:
        return len({self.shapes[n].dtype for n in (*step.refs, *step.made)}) == 1

    def _matmul(self, step: Step) -> bool:
        """Write a product without summation as a multiplication, and many rows times one matrix as one product."""
        if step.kwargs or len(step.refs) != 2 or not self._is_of_one_dtype(step):
            return False
        (made,) = step.made
        (left, right), dtype = (self.shapes[n].shape for n in step.refs), self.shapes[made].dtype
        if min(len(left), len(right)) < 2:
            return False
        if left[-1] == 1:  # axes of one element are broadcast
            self.steps.append(replace(step, op="multiply"))
            return True
        if len(left) > 2 and len(right) == 2:
            rows, matrix, count = step.args[0], step.args[1], math.prod(left[:-1])
        elif len(right) > 2 and len(left) == 2 and right[-1] == 1:
            rows, count = step.args[1], math.prod(right[:-2])
            matrix = self._add(step, "matrix_transpose", step.args[:1], Shaped(left[::-1], dtype))
        else:
            return False
        inner, columns = self.shapes[matrix.number].shape
        rows = self._add(step, "reshape", (rows, (count, inner)), Shaped((count, inner), dtype))
        product = self._add(step, "matmul", (rows, matrix), Shaped((count, columns), dtype))
        self._add(step, "reshape", (product, self.shapes[made].shape), made)
        return True

    def _pow(self, step: Step) -> bool:
        """Write a power with a constant array of one element as one with a number."""
        base, exponent = step.args
        value = self._constants.get(exponent.number) if type(exponent) is Ref and type(base) is Ref else None
        if step.kwargs or value is None or self.shapes[exponent.number].shape or not self._is_of_one_dtype(step):
            return False
        if self.shapes[exponent.number].dtype not in ("float32", "float64"):
            return False
        self._add(step, "pow", (base, float(np.asarray(value))), step.made[0])
        return True

    def linear(self, step: Step) -> bool:
        """Write a layer of matrices as a product and a sum."""
        rows, weight, *bias = step.args
        bias = [part for part in bias if part is not None]
        refs = all(type(part) is Ref for part in (rows, weight, *bias))
        if step.kwargs or not refs or not self._is_of_one_dtype(step):
            return False
        if any(len(self.shapes[part.number].shape) != 2 for part in (rows, weight)):
            return False
        (made,) = step.made
        about = self.shapes[weight.number]
        turned = self._add(step, "matrix_transpose", (weight,), Shaped(about.shape[::-1], about.dtype))
        product = self._add(step, "matmul", (rows, turned), self.shapes[made] if bias else made)
        if bias:
            self._add(step, "add", (product, bias[0]), made)
        return True

    def _truth(self, step: Step) -> bool:
        """Write `any` and `all` as the largest or smallest of 0 and 1."""
        (made,), (ref,) = step.made, step.refs
        before, after = self.shapes[ref], self.shapes[made]
        if before.dtype != "bool" or len(step.args) != 1 or 0 in before.shape:
            return False
        number = self._add(step, "astype", (Ref(ref), DType("float32")), Shaped(before.shape, "float32"))
        op = "max" if step.op == "any" else "min"
        found = self._add(step, op, (number,), Shaped(after.shape, "float32"), **step.kwargs)
        self._add(step, "not_equal", (found, 0), made)
        return True

    def _clip(self, step: Step) -> bool:
        """Write `clip` as the larger and the smaller of two."""
        (made,) = step.made
        value, *ends = (*step.args, *(step.kwargs.get(name) for name in ("min", "max")[len(step.args) - 1 :]))
        if len(ends) != 2 or type(value) is not Ref or not self._is_of_one_dtype(step):
            return False
        given = [(op, end) for op, end in zip(("maximum", "minimum"), ends, strict=True) if end is not None]
        if not given or self.shapes[made].dtype not in ("float32", "float64"):
            return False
        for op, end in given[:-1]:
            value = self._add(step, op, (value, end), self.shapes[made])
        op, end = given[-1]
        self._add(step, op, (value, end), made)
        return True

    def _vecdot(self, step: Step) -> bool:
        """Write products along an axis as a multiplication and a sum."""
        (made,) = step.made
        if not step.kwargs.keys() <= {"axis"} or len(step.refs) != 2 or not self._is_of_one_dtype(step):
            return False
        left, right = (self.shapes[n] for n in step.refs)
        if left.shape != right.shape or left.dtype not in ("float32", "float64"):
            return False
        product = self._add(step, "multiply", step.args, left)
        self._add(step, "sum", (product,), made, axis=step.kwargs.get("axis", -1))
        return True


class ExactRewriter(StepRewriter):
    """The same, with the bits of the kernels.

    Attributes
    ----------
    constants : dict of int to array
        Constants of the new steps besides the program's.
    """

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.constants: dict[int, Any] = {}

    def write(self, step: Step) -> None:
        """Add a step, or its kernel's steps."""
        ways: dict[str, Callable[[Step], bool]] = {
            "nn.cross_entropy": self._cross_entropy,
            "nn.cross_entropy_adjoint": self._cross_entropy_adjoint,
            "nn.linear": self._layer,
        }
        known = all(n in self.shapes for n in (*step.refs, *step.made)) and not step.kwargs
        if not known or step.op not in ways or not ways[step.op](step):
            self.steps.append(step)

    def _layer(self, step: Step) -> bool:
        (made,), weight = step.made, self.shapes[step.refs[1]]
        small = math.prod(weight.shape) < LARGE and math.prod(self.shapes[made].shape) < DOT_BELOW
        return small and self.linear(step)

    def _cross_entropy(self, step: Step) -> bool:
        """For targets that are all classes; otherwise the call runs again step by step."""
        logits, target, *more = step.args
        weight, ignored, reduction = (*more, *(None, -100, "mean")[len(more) :])
        loss, lse, rows = step.outs
        if weight is not None or type(ignored) is not int or ignored >= 0 or not self._is_of_rows(logits, target):
            return False
        about, indices = self.shapes[logits.number], self.shapes[target.number]
        (count, classes), dtype = about
        column, row = Shaped((count, 1), dtype), Shaped((count,), dtype)

        def add(op: str, about: Shaped | int, *args: Any, **kwargs: Any) -> Ref:
            return self._add(step, op, args, about, **kwargs)

        most = add(LARGEST, column, logits, axis=1, keepdims=True)
        shares = add("exp", about, add("subtract", about, logits, most))
        total = add("log", column, add("sum", column, shares, axis=1, keepdims=True))
        whole = add("add", column if lse is None else lse, total, most)
        truth = Shaped(indices.shape, "bool")
        is_class = add(
            "logical_and", truth, add("greater_equal", truth, target, 0), add("less", truth, target, classes)
        )
        ones = add("ones_like", row, add("reshape", row, whole, row.shape))
        ones = add("where", row if rows is None else rows, is_class, ones, math.nan)
        self.steps.append(Step(REQUIRED, (ones,), {}, (), several=True))
        if loss is None:
            return True
        place = add("where", indices, is_class, target, 0)
        picked = add("getitem", row, logits, (self._constant(np.arange(count)), place))
        losses = add("subtract", loss if reduction == "none" else row, add("reshape", row, whole, row.shape), picked)
        if reduction == "sum":
            add("sum", loss, losses)
        elif reduction == "mean":
            add("divide", loss, add("sum", Shaped((), dtype), losses), count)
        return True

    def _cross_entropy_adjoint(self, step: Step) -> bool:
        """For targets that all count once; otherwise the call runs again step by step."""
        grad, logits, target, lse, rows, reduction = step.args
        (made,) = step.made
        refs = all(type(part) is Ref for part in (grad, lse)) and (rows is None or type(rows) is Ref)
        if not refs or not self._is_of_rows(logits, target):
            return False
        about, indices = self.shapes[logits.number], self.shapes[target.number]
        if {self.shapes[n].dtype for n in step.refs if n != target.number} != {about.dtype}:
            return False
        (count, classes), dtype = about

        def add(op: str, about: Shaped | int, *args: Any) -> Ref:
            return self._add(step, op, args, about)

        row = Shaped((count,), dtype)
        if rows is not None:
            once = add("where", row, add("equal", Shaped(row.shape, "bool"), rows, 1.0), rows, math.nan)
            self.steps.append(Step(REQUIRED, (once,), {}, (), several=True))
        ordered = add("reshape", about, add("reshape", Shaped((count * classes,), dtype), logits, (-1,)), about.shape)
        shares = add("exp", about, add("subtract", about, ordered, lse))
        column = add("reshape", Shaped((count, 1), indices.dtype), target, (count, 1))
        names = self._constant(np.arange(classes, dtype=indices.dtype))
        is_target = add("equal", Shaped(about.shape, "bool"), column, names)
        shares = add("where", about, is_target, add("subtract", about, shares, 1.0), shares)
        scale = grad
        if reduction == "mean":
            scale = add("divide", Shaped((), dtype), grad, count)
        elif reduction == "none":
            scale = add("reshape", Shaped((count, 1), dtype), grad, (count, 1))
        add("multiply", made, shares, scale)
        return True

    def _is_of_rows(self, logits: Any, target: Any) -> bool:
        """Return whether these are a matrix of floats, and a class for each row of it."""
        if type(logits) is not Ref or type(target) is not Ref:
            return False
        about, indices = self.shapes[logits.number], self.shapes[target.number]
        floats = len(about.shape) == 2 and 0 not in about.shape and about.dtype in ("float32", "float64")
        return floats and indices.shape == about.shape[:1] and indices.dtype in ("int32", "int64")

    def _constant(self, array: Any) -> Ref:
        """Return an array that is the same in every call."""
        number = self._fresh()
        self.shapes[number], self.constants[number] = Shaped(array.shape, array.dtype.name), array
        return Ref(number)
