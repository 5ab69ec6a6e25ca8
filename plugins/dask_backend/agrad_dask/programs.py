"""Functions of blocks as programs: captured per shape, from specs, in the client, and run in tasks.

May import Dask; is imported with `agrad_dask.lowering` and `agrad_dask.blocks`.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from agrad import Tensor, default_backend, random
from agrad.plugin.backend import Spec, backend_of, internal
from agrad.plugin.programs import Kept, Program, Programs, blank_tensor

#: How programs run in tasks: with the same bits at the first run and later ones, on the thread of the task.
HOW = {"exact": True, "threads": 1}

internal(__file__)


class PerShape:
    """A function of blocks, captured once for each shape and dtype of the blocks.

    It runs on tensors that have a spec and no elements, so that nothing is computed, and it cannot branch on values.
    Its programs hold as long as everything that it reads beside its arguments is unchanged, like those of
    `agrad.compile`.

    Parameters
    ----------
    function : callable
        The function.
    pure : bool, optional
        Whether it only depends on its arguments.
    """

    def __init__(self, function: Callable[..., Any], *, pure: bool = False) -> None:
        self.compiled = Programs(function, pure=pure, **HOW)

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept:
        """Return the program for such arguments, tensors that are `like` blocks among them.

        Raises
        ------
        CaptureError
            If no program can hold the call; caused by an error of the function's own, if there is one.
        """
        found = Context().run(self.compiled.find, args, kwargs)
        return Context().run(_drawing_apart, self.compiled.record, args, kwargs) if found is None else found

    def confirm(self, kept: Kept, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Record that a program is used; the second, fourth, eighth time and so on capture it again.

        Raises
        ------
        CompileError
            If it has changed: the function depends on something that no guard sees.
        """
        kept.calls += 1
        if kept.calls > 1 and not kept.calls & (kept.calls - 1):
            Context().run(_drawing_apart, self.compiled.compare, kept, args, kwargs)


def _drawing_apart(do: Callable[..., Any], *args: Any) -> Any:
    """Call a function with random numbers that are not the caller's next ones."""
    with random.using(random.Generator(0)):
        return do(*args)


def like(meta: Any, shape: tuple[int, ...]) -> Tensor:
    """Return a tensor without elements, of a shape, and of the library and dtype of an array."""
    backend = backend_of(meta) or default_backend()
    spec = backend.spec(meta)
    return blank_tensor(Spec(backend, shape, spec.dtype, spec.device))


@dataclass(frozen=True, eq=False)
class BlockProgram:
    """The program for blocks of some shapes.

    Attributes
    ----------
    program : Program
        The program.
    blocks : tuple of (shape, dtype)
        The required specs of the blocks.
    given : list
        The inputs of the program; None in place of blocks and keys.
    places : tuple of (int, int)
        Which input is which block.
    keys : tuple of int
        Which inputs are keys of draws.
    outs : tuple of int
        The outputs to return.
    keep : bool
        Whether memory may be kept for the next run.
    """

    program: Program
    blocks: tuple[tuple[tuple[int, ...], Any], ...]
    given: list[Any]
    places: tuple[tuple[int, int], ...]
    keys: tuple[int, ...]
    outs: tuple[int, ...]
    keep: bool = True

    def fits(self, blocks: Sequence[Any]) -> bool:
        """Return whether blocks match the captured specs."""
        for block, (shape, dtype) in zip(blocks, self.blocks, strict=True):
            if block.shape != shape or block.dtype != dtype:
                return False
        return True

    def run(self, blocks: Sequence[Any], source: random.Generator) -> list[Any]:
        """Return the results of the program for some blocks."""
        values = self.given.copy()
        for at, which in self.places:
            values[at] = blocks[which]
        for at in self.keys:
            values[at] = source.key()
        backend = backend_of(blocks[0])
        assert backend is not None
        with backend.quiet():
            outs = self.program.run(backend, values, **HOW, **({} if self.keep else {"keep": False}))
        return [backend.as_array(outs[at]) for at in self.outs]

    def __reduce__(self) -> Any:
        none: dict[str, Any] = {"arguments": None, "results": None, "outside": {}, "sources": {}, "names": {}}
        text = pickle.dumps(self.program.replaced(**none))  # without its runner in this process, or the caller's own
        return kind_of, (text, self.blocks, self.given, self.places, self.keys, self.outs, self.keep)


def kind_of(text: bytes, *rest: Any) -> BlockProgram:
    """Return the form to send to another process."""
    return BlockProgram(program_of(text), *rest)


@functools.lru_cache(maxsize=64)
def program_of(text: bytes) -> Program:
    """Return a program that was sent to this process, the same object at every call: it keeps its runner."""
    return pickle.loads(text)  # type: ignore[no-any-return]  # noqa: S301 (as all that Dask sends)
