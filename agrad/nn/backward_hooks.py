"""Support for `Module.register_full_backward_hook` and similar: nodes around a call, through which the gradients pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agrad.autograd.function import Function
from agrad.core import errors
from agrad.core.mode import is_grad_enabled
from agrad.core.tensor import Tensor


class _Pass(Function):
    """Pass tensors through unchanged, in a new node, with a function that sees and may change their gradients."""

    @staticmethod
    def forward(ctx: Any, see: Callable[[tuple[Any, ...]], tuple[Any, ...]], watch: Any, *tensors: Tensor) -> Any:
        ctx.see, ctx.module_hooks = see, watch
        ctx.set_materialize_grads(False)
        return tensors

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        return None, None, *ctx.see(grads)


class HookedCall:
    """One call of a module with backward hooks: the gradients of its results and its arguments."""

    def __init__(
        self, module: Any, before: list[Callable[..., Any]], hooks: list[Callable[..., Any]], count: int
    ) -> None:
        self.module: Any = module
        self.before: list[Callable[..., Any]] = before
        self.hooks: list[Callable[..., Any]] = hooks
        self.count: int = count
        self.all: list[Any] = [*before, *hooks]  # compiled functions check these
        self.entered: list[int] = []
        self.grad_output: tuple[Any, ...] = ()

    def enter(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        found = list(args)
        if is_grad_enabled():
            self.entered = [i for i, arg in enumerate(args) if isinstance(arg, Tensor) and arg.requires_grad]
        if self.entered:
            passed = _Pass.apply(self._by_arguments, self, *(args[i] for i in self.entered))
            for i, tensor in zip(self.entered, passed, strict=True):
                found[i] = tensor
        return tuple(found)

    def leave(self, result: Any) -> Any:
        several = isinstance(result, tuple)
        found = list(result) if several else [result]
        left = [i for i, part in enumerate(found) if isinstance(part, Tensor) and part.requires_grad]
        if not left:
            return result
        count = len(found)

        def of_results(grads: tuple[Any, ...]) -> tuple[Any, ...]:
            every: list[Any] = [None] * count  # not of `found`, which would live as long as the graph
            for i, grad in zip(left, grads, strict=True):
                every[i] = grad
            self.grad_output = self._changed(tuple(every))
            if not self.entered:
                self._call((None,) * self.count)
            return tuple(self.grad_output[i] for i in left)

        for i, tensor in zip(left, _Pass.apply(of_results, self, *(found[i] for i in left)), strict=True):
            found[i] = tensor
        if not several:
            return found[0]
        return type(result)(*found) if hasattr(result, "_fields") else tuple(found)

    def _changed(self, grad_output: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the gradients of the results after the hooks that run before the module's backward pass."""
        for hook in self.before:
            changed = hook(self.module, grad_output)
            if changed is None:
                continue
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(grad_output):
                raise RuntimeError(
                    f"Backward pre hook returned an invalid number of grad_output, got {len(changed)}, but expected"
                    f" {len(grad_output)}{errors.called()}"
                )
            grad_output = changed
        return grad_output

    def _by_arguments(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        if (
            not self.grad_output
        ):  # they come from within the module, past its result: nothing to tell hooks, as in PyTorch
            return grads
        every: list[Any] = [None] * self.count
        for i, grad in zip(self.entered, grads, strict=True):
            every[i] = grad
        seen = self._call(tuple(every))
        self.grad_output = ()
        return tuple(seen[i] for i in self.entered)

    def _call(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in self.hooks:
            changed = hook(self.module, grad_input, self.grad_output)
            if changed is None:
                continue
            if not self.entered:
                raise RuntimeError(
                    "Backward hooks for Modules where no input requires gradient should always return None or None for"
                    f" all gradients.{errors.called()}"
                )
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(grad_input):
                raise RuntimeError(
                    f"Backward hook returned an invalid number of grad_input, got {len(changed)}, but expected"
                    f" {len(grad_input)}{errors.called()}"
                )
            grad_input = changed
        return grad_input
