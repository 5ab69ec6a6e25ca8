"""What is known of a kernel beside its derivative: said once, where its op is declared, or where it has none by itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from agrad.core.errors import RuleError
from agrad.core.requirements import REQUIREMENTS

#: Where a result may lie, see `Facts`.
MEMORY = ("fresh", "view", "lent", "may share")

#: By symbol the names of Python's operators of two operands, which have a reflected and an in-place form.
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
#: By symbol those of its comparisons, and of its operators of one operand.
COMPARISON = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
UNARY = {"-": "neg", "+": "pos", "abs": "abs", "~": "invert"}

#: How elements of a result depend on those of operands, see `Facts`.
SPARSITY = ("", "elements", "chooses", "moves", "scatters", "reduces", "along", "running", "matrices", "matmul")

#: Of what an array is made.
CREATES = ("", "here", "from data", "like")


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known of a kernel, on every backend.

    Attributes
    ----------
    memory : str
        Where the result lies. ``"fresh"``: in memory of its own, at every call but one with ``copy=False``. ``"view"``: in that
        of the first operand where that can be, as in NumPy and PyTorch, where a write to it reaches the operand; here it warns
        (see `core.buffers.rebind`). ``"lent"``: there too, but for reading, so that no write warns. ``"may share"``: nobody
        knows.
    creates : str
        Whether it makes an array of no other one, ``"here"``: where the program runs; of somebody's data, ``"from data"``; or laid
        out as its operand is, ``"like"``; ``""`` if it does not.
    fills : int or None
        The value that it fills that array with.
    broadcasts_exactly : bool
        Whether each element of the result has the same bits however the operands are broadcast.
    in_order : bool
        Whether the result lies in C's order where the first operand does.
    dynamic : bool or str
        Whether the shape of the result depends on values of operands; a name: on those of this argument alone. What a key with
        masks chooses need not be declared.
    symbol : str
        Python's operator that it is, as ``"+"``; ``"abs"`` for the function.
    numpy : str
        The names of NumPy's ufunc that means the same, its own first, as ``"arccos acos"``.
    torch : str
        Other names of PyTorch's functions that it is. SciPy's functions have their own, in `agrad.special` and `agrad.scipy`.
    methods : str
        The names of the tensors' methods that it is, in place with an underscore.
    needs : tuple of str
        What it asks of an array library, by names of `agrad.core.requirements`: ``"fft"``; ``"linalg"``, which of complex
        operands is ``"complex linalg"``; that alone, where results or derivatives are complex anyway; ``"zero-size reductions"``,
        of operands without elements.
    sparsity : str or callable
        Which elements of operands an element of the result depends on, by which the zeros of a Jacobian are known (see
        `program.sparsity`). ``"elements"``: those at its own place, broadcast, as of what is declared `elementwise` anyway;
        ``"chooses"``: of these the one that a condition says; ``"moves"``: the one that was put there, wherever that lay;
        ``"scatters"``: those that a key adds there; ``"reduces"``: those along ``axis``, which is gone; ``"along"``: those along
        ``axis`` or ``axes``, which stays; ``"running"``: of these the ones up to its own place; ``"matrices"``: those in its own
        matrix of a stack; ``"matmul"``: a row and a column. A function ``(xp, *arguments)`` in the standard's functions, whose
        result depends on as much. ``""``: as the op's `kernel` does in the standard's functions; on all, where there is none.
    asks_backend : bool
        Whether it asks a backend that its operands, dtypes, do not name: the default one, or that of a bound namespace.
    missing : bool or mapping
        Of arrays with missing elements: True where its rule is right for them as it is; or the derivatives that are, as `Op.rule_of`
        takes them. What acts element by element, or has no derivative, need not say so; the rest is refused them.
    since : str
        The version of the standard that brought the function, as ``"2024.12"``; empty if 2022.12 has it, or none.
    """

    memory: str = "may share"
    creates: str = ""
    fills: int | None = None
    broadcasts_exactly: bool = False
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
        """Whether the result has the first operand's elements in its memory, or in none of their own."""
        return self.memory in ("view", "lent")

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


#: Of what nothing is said.
UNKNOWN = Facts()


@dataclass(frozen=True, slots=True)
class Primitive:
    """A kernel that has no op.

    Attributes
    ----------
    facts : Facts
        What is known of it.
    batch : callable or None
        What it does under `vmap`, as for an op.
    """

    facts: Facts
    batch: Callable[..., Any] | None = None


#: Kernels that have no op, by name (see `core.declare.primitive`).
WITHOUT_OP: dict[str, Primitive] = {}
