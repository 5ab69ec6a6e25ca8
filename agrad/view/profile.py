"""The profiler: time and bytes by operation, forward and backward.

The profiler is part of the mode: while it is on, calls take the general path, and the engine watches every node. Programs
outside pay nothing.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from agrad.core import mode
from agrad.core.backend import backend_of
from agrad.core.tensor import Tensor
from agrad.view import notebook

if TYPE_CHECKING:
    from agrad.core.backend import Backend
    from agrad.core.node import Node
    from agrad.core.op import Op

__all__ = ["OperationCost", "profile"]


@dataclass
class OperationCost:
    """The cost of one operation.

    Attributes
    ----------
    op : str
        Its name.
    calls, backward_calls : int
        How often it ran forward, and its derivative backward.
    seconds, backward_seconds : float
        How long that took, excluding agrad's own overhead.
    bytes, backward_bytes : int
        The size of all results, and of all gradients.
    """

    op: str
    calls: int = 0
    seconds: float = 0.0
    bytes: int = 0
    backward_calls: int = 0
    backward_seconds: float = 0.0
    backward_bytes: int = 0


class profile(mode.ModeContext):  # noqa: N801 (as torch.profiler.profile)
    """Measure the time and the bytes of every operation in a block, forward and backward.

    Times are those of the array library's functions on the host's clock: on a GPU or a lazy backend a call may return
    before the work is done. The block itself runs slower, because every call takes the general path.

    Attributes
    ----------
    entries : dict of str to OperationCost
        By operation.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.ones((1000,), requires_grad=True)
    >>> with ag.profile() as p:
    ...     ag.sum(ag.exp(x)).backward()
    >>> p.entries["exp"].calls, p.entries["exp"].bytes, p.entries["exp"].backward_calls
    (1, 8000, 1)
    """

    def __init__(self) -> None:
        self.entries: dict[str, OperationCost] = {}

    def __enter__(self) -> Self:
        mode.push(profiler=self, owner=self)
        return self

    def table(self, sort_by: str = "total") -> str:
        """Return the measurements as a table, the most expensive operation first.

        Parameters
        ----------
        sort_by : {"total", "forward", "backward", "calls", "bytes"}, optional
            What to sort by.

        Returns
        -------
        str
            One line per operation, and one for the total.

        Raises
        ------
        ValueError
            If the order is unknown.
        """
        lines = self._lines(sort_by)
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [
            "  ".join([line[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(line[1:], widths[1:], strict=True))])
            for line in lines
        ]
        rule = "-" * len(texts[0])
        return "\n".join([texts[0], rule, *texts[1:-1], rule, texts[-1]])

    def _lines(self, sort_by: str) -> list[list[str]]:
        """Return the column names, one line per operation, and one for the total."""
        orders: dict[str, Callable[[OperationCost], float]] = {
            "total": lambda e: e.seconds + e.backward_seconds,
            "forward": lambda e: e.seconds,
            "backward": lambda e: e.backward_seconds,
            "calls": lambda e: e.calls + e.backward_calls,
            "bytes": lambda e: e.bytes + e.backward_bytes,
        }
        if sort_by not in orders:
            raise ValueError(f"sort_by must be one of {', '.join(orders)}, not {sort_by!r}")
        entries = sorted(self.entries.values(), key=orders[sort_by], reverse=True)
        total = OperationCost("all")
        for e in entries:
            total.calls += e.calls
            total.seconds += e.seconds
            total.bytes += e.bytes
            total.backward_calls += e.backward_calls
            total.backward_seconds += e.backward_seconds
            total.backward_bytes += e.backward_bytes
        lines = [["operation", "calls", "forward ms", "MB", "backward calls", "backward ms", "MB"]]
        lines += [
            [
                e.op,
                str(e.calls),
                f"{e.seconds * 1e3:.3f}",
                f"{e.bytes / 1e6:.3f}",
                str(e.backward_calls),
                f"{e.backward_seconds * 1e3:.3f}",
                f"{e.backward_bytes / 1e6:.3f}",
            ]
            for e in [*entries, total]
        ]
        return lines

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<profile of {len(self.entries)} operations: print() shows them>"

    def _repr_html_(self) -> str:
        head, *lines = self._lines("total")
        return notebook.table(head, lines)

    # -- called by agrad

    def around(self, op: Op, backend: Backend, kernel: Callable[..., Any]) -> Callable[..., Any]:
        """Return a measured kernel."""
        entry = self._entry(op.name)

        def measured(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            result = kernel(*args, **kwargs)
            entry.seconds += time.perf_counter() - start
            entry.calls += 1
            multi_output = op.rule.outputs is not None or bool(op.rule.residuals)
            entry.bytes += sum(backend.nbytes(backend.as_array(r)) for r in (result if multi_output else (result,)))
            return result

        return measured

    def around_vjp(self, node: Node, vjp: Callable[..., Any]) -> Callable[..., Any]:
        """Return a node's derivative, measured."""
        entry = self._entry(node.name() if node.op is None else node.op.name)

        def measured(*args: Any) -> Any:
            start = time.perf_counter()
            gs = vjp(*args)
            entry.backward_seconds += time.perf_counter() - start
            entry.backward_calls += 1
            entry.backward_bytes += sum(map(_bytes, node.per_input(gs)))
            return gs

        return measured

    def _entry(self, name: str) -> OperationCost:
        entry = self.entries.get(name)
        if entry is None:
            entry = self.entries[name] = OperationCost(name)
        return entry


def _bytes(part: Any) -> int:
    """Return the size of a gradient, raw or a Tensor."""
    raw = part._raw if isinstance(part, Tensor) else part
    backend = backend_of(raw)
    return 0 if backend is None else backend.nbytes(raw)
