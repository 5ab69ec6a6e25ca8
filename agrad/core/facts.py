"""Facts about a kernel other than its derivative: stated once, at the declaration of its op, or of the kernel without an op."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agrad.core.errors import RuleError
from agrad.core.requirements import REQUIREMENTS

#: Where a result may lie, see `Facts`.
MEMORY = ("fresh", "view", "lent", "may share")

#: Names of Python's binary operators by symbol; these have a reflected and an in-place form.
BINARY = {
    "+": "add",
    "-": "sub",
    "*": "mul",
    "/": "truediv",
    "//": "floordiv",
    "%": "mod",
    "**": "pow",
    "@": "matmul",
    "&": "and",
    "|": "or",
    "^": "xor",
    "<<": "lshift",
    ">>": "rshift",
}
#: Names of its comparisons and unary operators by symbol.
COMPARISON = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
UNARY = {"-": "neg", "+": "pos", "abs": "abs", "~": "invert"}

#: How elements of a result depend on those of operands, see `Facts`.
SPARSITY = ("", "elements", "chooses", "moves", "scatters", "reduces", "along", "running", "matrices", "matmul")

#: From what an array is made.
CREATES = ("", "here", "from data", "like")


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts about a kernel, on every backend.

    Attributes
    ----------
    memory : str
        Where the result lies. ``"fresh"``: in its own memory, at every call except with ``copy=False``. ``"view"``: in the
        first operand's memory where possible, as in NumPy and PyTorch, where a write to it reaches the operand; here it warns
        (see `core.buffers.rebind`). ``"lent"``: there too, but for reading, so that no write warns. ``"may share"``:
        unknown.
    creates : str
        Whether it creates an array from no other one: ``"here"``, where the program runs; ``"from data"``, from the user's data;
        ``"like"``, laid out as its operand is. ``""`` if it does not.
    fills : int or None
        The value with which it fills that array.
    broadcasts_exactly : bool
        Whether each element of the result has the same bits however the operands are broadcast.
    direct : bool
        Whether libraries' functions for it make no array beside the result. Of functions that create, move, choose or convert
        elements this need not be declared, see `makes_its_result_alone`.
    in_order : bool
        Whether the result is in C order where the first operand is.
    dynamic : bool or str
        Whether the shape of the result depends on values of operands; a name: only on those of this argument. Selections by
        masks in a key need not be declared.
    symbol : str
        The Python operator for it, as ``"+"``; ``"abs"`` for the function.
    numpy : str
        The names of NumPy's equivalent ufunc, its own first, as ``"arccos acos"``.
    torch : str
        Other names for it in PyTorch. SciPy's functions have their own, in `agrad.special` and `agrad.scipy`.
    methods : str
        The names of the tensor methods for it; an in-place method ends with an underscore.
    needs : tuple of str
        What it requires of an array library, by names of `agrad.core.requirements`: ``"fft"``; ``"linalg"``, which for complex
        operands means ``"complex linalg"``; only the latter, where results or derivatives are complex anyway;
        ``"zero-size reductions"``, for operands without elements.
    sparsity : str or callable
        Which elements of the operands an element of the result depends on; this determines the zeros of a Jacobian (see
        `program.sparsity`). ``"elements"``: those at its own position, broadcast, as for any `elementwise` op;
        ``"chooses"``: the one of these that a condition selects; ``"moves"``: the one moved there, wherever it was;
        ``"scatters"``: those that a key adds there; ``"reduces"``: those along ``axis``, which is removed; ``"along"``: those
        along ``axis`` or ``axes``, which stays; ``"running"``: of these, those up to its own position; ``"matrices"``: those in its
        own matrix of a stack; ``"matmul"``: a row and a column. A function ``(xp, *arguments)`` in the standard's functions, whose
        result has the same dependencies. ``""``: those of the op's `kernel` in the standard's functions; all, if it has none.
    asks_backend : bool
        Whether it consults a backend that its operands, dtypes, do not determine: the default one, or a bound namespace's.
    missing : bool or mapping
        For arrays with missing elements: True where its rule is correct for them as it is; or derivatives that are correct, as
        `Op.rule_of` takes them. Elementwise ops and ops without a derivative need not state this; all others refuse such arrays.
    since : str
        The version of the standard that added the function, as ``"2024.12"``; empty if 2022.12 has it, or none does.
    """

    memory: str = "may share"
    creates: str = ""
    fills: int | None = None
    broadcasts_exactly: bool = False
    direct: bool = False
    in_order: bool = False
    dynamic: bool | str = False
    symbol: str = ""
    numpy: str = ""
    torch: str = ""
    methods: str = ""
    needs: tuple[str, ...] = ()
    sparsity: str | Callable[..., Any] = ""
    asks_backend: bool = False
    missing: bool | Mapping[str, Any] = False
    since: str = ""

    @property
    def is_view(self) -> bool:
        """Whether the result's elements are in the first operand's memory, or take no memory of their own."""
        return self.memory in ("view", "lent")

    @property
    def makes_its_result_alone(self) -> bool:
        """Whether libraries' functions for it make no array beside the result."""
        alone = self.memory == "fresh" and self.sparsity in ("elements", "chooses", "moves")
        return self.direct or alone or self.creates in ("here", "like")

    def __post_init__(self) -> None:
        if self.memory not in MEMORY:
            raise RuleError(f"memory= is one of {', '.join(map(repr, MEMORY))}; got {self.memory!r}")
        if self.creates not in CREATES:
            raise RuleError(f"creates= is one of {', '.join(map(repr, CREATES))}; got {self.creates!r}")
        if not callable(self.sparsity) and self.sparsity not in SPARSITY:
            raise RuleError(
                f"sparsity= is a function or one of {', '.join(map(repr, SPARSITY))}; got {self.sparsity!r}"
            )
        if not REQUIREMENTS.keys() >= {*self.needs}:
            raise RuleError(f"needs= are some of {', '.join(map(repr, REQUIREMENTS))}; got {self.needs!r}")


#: The facts where nothing is declared.
UNKNOWN = Facts()


@dataclass(frozen=True, slots=True)
class Primitive:
    """A kernel without an op.

    Attributes
    ----------
    facts : Facts
        The facts about it.
    batch : callable or None
        Its behaviour under `vmap`, as for an op.
    """

    facts: Facts
    batch: Callable[..., Any] | None = None


#: Kernels without an op, by name (see `core.declare.primitive`).
WITHOUT_OP: dict[str, Primitive] = {}
