"""Functions that a solver calls often: as they are at first, then as programs."""

from __future__ import annotations

from typing import Any

from agrad import tree
from agrad.core import mode
from agrad.core.tensor import Tensor
from agrad.func.compiling import BRANCHES, Compiled, Kept, equal_in_bits
from agrad.ops.creation import asarray

#: How many calls go before the one that is captured, which costs as much as about a hundred of them.
BEFORE = 100


class Often(Compiled):
    """A function that is called often, with tensors of the same shapes, none of which is differentiated.

    Other than `compile` it says nothing where no program can hold what the function does, but goes on as it is: where that
    draws, writes or changes Python's state, and where the first replay gives something else.
    """

    def __init__(self, function: Any) -> None:
        super().__init__(function, check=False, explain=False, exact=True, threads=1)
        self._before = BEFORE
        self._is_open = True
        self._ways: list[Kept] = []

    def __call__(self, *tensors: Tensor) -> Any:
        """Call the function."""
        for kept in self._ways:
            values = kept.enter(tensors)
            if type(values) is list:
                if not kept.calls:
                    return self._compared(kept, values, tensors)
                outs = self._outputs(kept, values)
                if kept.as_captured(outs):
                    return kept.returned(outs, values, tensors, whole=False)
        self._before -= 1
        if self._before >= 0 or not self._is_open or not _is_usual():
            return self.function(*tensors)
        returned, new, _ = self._recorded(*tree.flatten((tensors, {})))
        if new is None or new.keys or new.puts or new.prologue or new.epilogue or len(self._ways) == BRANCHES:
            self._give_up()
        else:
            self._ways.insert(0, new)
        return returned

    def _compared(self, kept: Kept, values: list[Any], tensors: tuple[Tensor, ...]) -> Any:
        """Call the function, and keep its program only if that gives the same."""
        kept.calls = 1
        found = self.function(*tensors)
        outs = self._outputs(kept, values)
        if kept.as_captured(outs):
            replayed = kept.returned(outs, values, tensors, whole=False)
            pairs = zip(tree.flatten(found)[0], tree.flatten(replayed)[0], strict=True)
            if not all(equal_in_bits(kept.backend, *(asarray(x)._raw for x in pair)) for pair in pairs):
                self._give_up()
        return found

    def _give_up(self) -> None:
        self._ways, self._is_open = [], False


def _is_usual() -> bool:
    """Return whether nothing wants to know of the single operations."""
    now = mode.current()
    return (now is None or (now.simple_in is not None and now.anomaly is None)) and not mode.batch_levels.get()
