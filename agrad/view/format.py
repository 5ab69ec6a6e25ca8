"""The text of a tensor, laid out as PyTorch lays it out, from plain Python numbers.

Nothing here knows an array library: the caller passes the result of its backend's ``tolist``. So that printing a large
array does not convert every element, `edges` first cuts the array down to the elements that will be shown.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, cast

__all__ = ["DEFAULT_OPTIONS", "OPTIONS", "Kind", "PrintOptions", "Values", "edges", "format_tensor"]

Kind: TypeAlias = Literal["bool", "int", "float", "complex"]

Values: TypeAlias = "complex | Sequence[Values]"
"""A number, or (nested) lists of numbers: what ``tolist`` of an array gives."""


@dataclass(frozen=True, slots=True)
class PrintOptions:
    """How tensors are printed; the defaults are PyTorch's.

    Parameters
    ----------
    precision
        Digits after the decimal point.
    threshold
        A tensor with more elements than this is summarised.
    edgeitems
        Elements shown at either end of a summarised axis; at least 1.
    linewidth
        Columns after which a line is broken.
    sci_mode
        Whether floats are written in scientific notation; None decides from the values.
    """

    precision: int = 4
    threshold: int = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None

    def __post_init__(self) -> None:
        if self.edgeitems < 1:
            raise ValueError(f"edgeitems must be at least 1, got {self.edgeitems}")


DEFAULT_OPTIONS = PrintOptions()

#: The present print options.
OPTIONS: ContextVar[PrintOptions] = ContextVar("print_options", default=DEFAULT_OPTIONS)


def edges(
    array: Any, shape: Sequence[int], concat: Callable[..., Any], *, options: PrintOptions = DEFAULT_OPTIONS
) -> Any:
    """Cut an array down to the elements that `format_tensor` shows.

    Parameters
    ----------
    array
        Any array with basic slicing.
    shape
        The shape of `array`.
    concat
        ``concat(arrays, axis=...)`` of the array's namespace.
    options
        The options that `format_tensor` will be given.

    Returns
    -------
    array
        `array` itself if all of it is shown; otherwise both ends of every long axis, joined. It is built only with slices
        and `concat`, so a lazy array stays lazy and is computed once, when it is converted.
    """
    if not _is_summarised(shape, options):
        return array
    count = options.edgeitems

    def cut(block: Any, axis: int) -> Any:
        while axis < len(shape) and shape[axis] <= 2 * count:
            axis += 1
        if axis == len(shape):
            return block
        whole = (slice(None),) * axis
        head = cut(block[(*whole, slice(0, count))], axis + 1)
        tail = cut(block[(*whole, slice(shape[axis] - count, shape[axis]))], axis + 1)
        return concat([head, tail], axis=axis)

    return cut(array, 0)


def format_tensor(
    values: Values,
    shape: Sequence[int],
    *,
    kind: Kind,
    prefix: str = "tensor(",
    suffixes: Sequence[str] = (),
    options: PrintOptions = DEFAULT_OPTIONS,
) -> str:
    """Format a tensor as PyTorch does.

    Parameters
    ----------
    values
        The elements: a number for a 0-d tensor, nested lists otherwise. Where the tensor has more than
        ``options.threshold`` elements, this may be all of them or only those that `edges` keeps.
    shape
        The shape of the whole tensor.
    kind
        The kind of the elements. ``"float"`` writes whole numbers as ``4.``.
    prefix
        The start of the text; the following lines are indented by its length.
    suffixes
        Text after the elements, such as ``"dtype=float32"`` or ``"requires_grad=True"``, in this order, on a new
        line where the line would become too long. An empty tensor that is not 1-d gets a ``size=...`` automatically.
    options
        Precision, line width and the like.

    Returns
    -------
    str
        The text, closed with ``)``.

    Examples
    --------
    >>> print(format_tensor([[1.0, 2.5], [-3.0, 4.0]], (2, 2), kind="float", suffixes=["requires_grad=True"]))
    tensor([[ 1.0000,  2.5000],
            [-3.0000,  4.0000]], requires_grad=True)
    >>> print(format_tensor(list(range(2000)), (2000,), kind="int"))
    tensor([   0,    1,    2,  ..., 1997, 1998, 1999])
    >>> print(format_tensor([], (0, 3), kind="float"))
    tensor([], size=(0, 3))
    """
    shape = tuple(shape)
    if math.prod(shape) == 0:
        return _with_suffixes(prefix + "[]", _with_size(shape, suffixes), len(prefix), options)
    summarised = _is_summarised(shape, options)
    shown = list(_shown(values, shape, summarised, options))
    style = _complex_style(shown, options) if kind == "complex" else _real_style(shown, kind, options)
    text = _block(values, shape, style, len(prefix), summarised, options)
    return _with_suffixes(prefix + text, suffixes, len(prefix), options)


@dataclass(frozen=True, slots=True)
class _Style:
    """How every element of one tensor is written: `write` returns its text, `width` is the width that most of them need."""

    write: Callable[[Any], str]
    width: int


def _is_summarised(shape: Sequence[int], options: PrintOptions) -> bool:
    return math.prod(shape) > options.threshold


def _ends(items: Sequence[Values], size: int, summarised: bool, options: PrintOptions) -> tuple[Sequence[Values], bool]:
    """Return the items of one axis that are shown, and whether some in the middle were left out."""
    count = options.edgeitems
    if summarised and size > 2 * count:
        return [*items[:count], *items[len(items) - count :]], True
    return items, False


def _shown(values: Values, shape: tuple[int, ...], summarised: bool, options: PrintOptions) -> Iterator[Any]:
    """Return the elements that are shown, in order."""
    if not shape:
        yield values
        return
    for item in _ends(cast("Sequence[Values]", values), shape[0], summarised, options)[0]:
        yield from _shown(item, shape[1:], summarised, options)


def _real_style(numbers: list[Any], kind: Kind, options: PrintOptions) -> _Style:
    if kind != "float":
        width = max(len(str(number)) for number in numbers)
        return _Style(lambda number: str(number).rjust(width), width)

    # Zeros, infinities and nan do not affect the choice of notation and width, as in PyTorch: a lone nan among
    # short numbers is written wider than its neighbours.
    counted = [number for number in numbers if number != 0 and math.isfinite(number)]
    whole = all(number == math.floor(number) for number in counted)
    if options.sci_mode is not None and counted:
        scientific = options.sci_mode
    elif counted:
        largest, smallest = max(map(abs, counted)), min(map(abs, counted))
        scientific = largest / smallest > 1000.0 or largest > 1.0e8 or smallest < 1.0e-4
    else:
        scientific = False

    notation = f".{options.precision}{'e' if scientific else 'f'}"
    pointed = whole and not scientific

    def bare(number: float) -> str:
        if pointed:
            return f"{number:.0f}." if math.isfinite(number) else f"{number:.0f}"
        return format(number, notation)

    width = max([1, *(len(bare(number)) for number in counted)])
    return _Style(lambda number: bare(number).rjust(width), width)


def _complex_style(numbers: list[complex], options: PrintOptions) -> _Style:
    real = _real_style([number.real for number in numbers], "float", options)
    imag = _real_style([number.imag for number in numbers], "float", options)

    def write(number: complex) -> str:
        # The imaginary part directly follows its sign, so it is not padded; columns can be uneven, as in PyTorch.
        imag_text = imag.write(number.imag).lstrip()
        sign = "" if imag_text.startswith("-") else "+"
        return f"{real.write(number.real)}{sign}{imag_text}j"

    return _Style(write, real.width + imag.width + 1)


def _block(
    values: Values, shape: tuple[int, ...], style: _Style, indent: int, summarised: bool, options: PrintOptions
) -> str:
    """Return the elements in brackets; `indent` is the column of the opening bracket."""
    if not shape:
        return style.write(values)
    items, shortened = _ends(cast("Sequence[Values]", values), shape[0], summarised, options)
    if len(shape) == 1:
        texts = [style.write(item) for item in items]
        dots = " ..."
    else:
        texts = [_block(item, shape[1:], style, indent + 1, summarised, options) for item in items]
        dots = "..."
    if shortened:
        texts.insert(options.edgeitems, dots)
    margin = " " * (indent + 1)
    if len(shape) > 1:
        return "[" + ("," + "\n" * (len(shape) - 1) + margin).join(texts) + "]"
    per_line = max(1, (options.linewidth - indent) // (style.width + 2))
    lines = [", ".join(texts[start : start + per_line]) for start in range(0, len(texts), per_line)]
    return "[" + (",\n" + margin).join(lines) + "]"


def _with_size(shape: tuple[int, ...], suffixes: Sequence[str]) -> list[str]:
    """Return the suffixes of an empty tensor: brackets alone do not show its shape, unless it is (0,)."""
    parts = list(suffixes)
    if len(shape) != 1:
        after_device = sum(part.startswith("device=") for part in parts[:1])
        parts.insert(after_device, f"size={shape}")
    return parts


def _with_suffixes(text: str, suffixes: Sequence[str], indent: int, options: PrintOptions) -> str:
    # PyTorch counts two columns more than the first line has; kept, so that lines break where PyTorch's do.
    column = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if column + len(suffix) + 2 > options.linewidth:
            text += ",\n" + " " * indent + suffix
            column = indent + len(suffix)
        else:
            text += ", " + suffix
            column += len(suffix) + 2
    return text + ")"
