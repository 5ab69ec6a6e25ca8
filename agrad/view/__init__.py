"""Views for people: tensors as text; the recorded graph as text, picture and bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from agrad.core import names as _names
from agrad.core.blank import Blank
from agrad.core.mode import recorder
from agrad.core.tensor import Tensor, attached
from agrad.ops.manipulation import concat
from agrad.plugin import manager
from agrad.view import notebook
from agrad.view.drawing import Graph, Memory, dot, graph, html, memory, svg, text
from agrad.view.format import OPTIONS, edges, format_tensor
from agrad.view.profile import profile

__all__ = ["Graph", "Memory", "dot", "graph", "html", "memory", "profile", "svg", "text", "text_of"]


def text_of(tensor: Tensor) -> str:
    """Return the text of a tensor, as PyTorch prints it."""
    spec = tensor._spec
    backend = spec.backend
    text = backend.text_of(tensor._raw)
    if text is not None:  # a tensor that is being mapped over
        return text
    if isinstance(tensor._raw, Blank) and recorder() is None:  # left behind by a failed capture from specs
        return f"tensor(..., shape={tuple(spec.shape)}, dtype={backend.dtype_name(spec.dtype)})"
    shown = tensor
    kind = backend.kind(spec.dtype)
    shows = backend.shows(tensor._raw)
    options = OPTIONS.get()
    if shows and spec.size > options.threshold:
        shown = edges(tensor.detach(), spec.shape, concat, options=options)
    suffixes = [] if shows else [f"shape={tuple(spec.shape)}", f"chunks={_chunks(tensor)}"]
    if backend is not manager.default_backend():
        suffixes.append(f"device='{spec.device}'")
    name = backend.dtype_name(spec.dtype)
    kinds = ("bool", "int", "float", "complex") if spec.size else ("float",)  # an empty tensor has no kind to report
    if not shows or name not in [backend.default_name(each, spec.device) for each in kinds]:
        suffixes.append(f"dtype={name}")
    if tensor.grad_fn is not None:
        suffixes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        suffixes.append("requires_grad=True")
    suffixes += [f"tangent={tangent!r}" for tangent in (tensor._tangents or {}).values()]
    if not shows:
        return f"tensor(..., {', '.join(suffixes)})"
    above = "Parameter containing:\n" if type(tensor).__name__ == "Parameter" else ""
    numbers = backend.tolist(shown._computed())  # not its own tolist(), which warns where a derivative is taken
    return above + format_tensor(numbers, spec.shape, suffixes=suffixes, options=options, kind=kind)  # type: ignore[arg-type]


def _chunks(tensor: Any) -> tuple[Any, ...]:
    """Return the lengths of chunks, as a single number for an axis where all but the last are equal."""
    return tuple([c[0] if all(n == c[0] for n in c[:-1]) and c[-1] <= c[0] else c for c in tensor.chunks])


@attached
class Repr:
    """The members of `Tensor` defined in this file."""

    def __repr__(self: Any) -> str:
        return text_of(self)

    def _repr_html_(self: Any) -> str:
        """Return a table of properties, and the text; for a lazy tensor its library's view, without computing it."""
        spec = self._spec
        picture = getattr(self._raw, "_repr_html_", None) if spec.backend.is_lazy else None
        node = "" if self.grad_fn is None else self.grad_fn.name()
        known = [
            ("shape", tuple(self.shape)),
            ("dtype", spec.backend.dtype_name(spec.dtype)),
            ("device", spec.device),
            ("requires_grad", f"{self.requires_grad} {node}"),
        ]
        return notebook.table((), known) + (notebook.text(text_of(self)) if picture is None else picture())


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
