"""GPU kernels of programs: a run of elementwise steps, with the sum at its end, becomes the text of one CUDA kernel.

Step by step, ``g * (1 - ans * ans)`` would launch a kernel per operator, and each would read and write whole arrays.
`emit` writes the steps of a program as the lines of one kernel, from which ``cupy.ElementwiseKernel`` or
``cupy.ReductionKernel`` creates it; broadcast operands are not expanded. `fused` finds the runs in a program and turns
each into one step. An eager rule or composition is recorded once, and written in the same way.

All numbers of a kernel have one real dtype, so that Python's and C++'s arithmetic agree; anything else raises
`NotFusible`, and runs step by step as on any backend. Nothing here imports CuPy: `Code` can be inspected without it.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

from agrad.plugin.backend import OPS, WITHOUT_OP, backend_of
from agrad.plugin.programs import (
    STOP,
    CaptureError,
    DType,
    Program,
    Ref,
    Shaped,
    Step,
    broadcast,
    optimized,
    program_of_kernels,
    written_out,
)


class NotFusible(Exception):
    """One elementwise kernel cannot do what a rule or program does."""


#: Functions of the generated code that CUDA C++ lacks, or computes differently at ties and NaN than the standard.
PREAMBLE = """
template<class T> __device__ T agrad_where(bool c, T a, T b) { return c ? a : b; }
template<class T> __device__ T agrad_sign(T x) { return x > T(0) ? T(1) : x < T(0) ? T(-1) : x; }
template<class T> __device__ T agrad_maximum(T a, T b) { return a != a || a > b ? a : b; }
template<class T> __device__ T agrad_minimum(T a, T b) { return a != a || a < b ? a : b; }
template<class T> __device__ T agrad_logaddexp(T a, T b) {
    if (a == b) return a + log(T(2));
    const T d = a - b;
    return d > T(0) ? a + log1p(exp(-d)) : d <= T(0) ? b + log1p(exp(d)) : d;
}
__device__ inline bool agrad_not(bool x) { return !x; }
"""

#: By the name of a function, its name in the generated code. All take and return numbers of the one dtype.
_FUNCTIONS = {
    **{name: name for name in ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "ceil", "copysign", "cos")},
    **{name: name for name in ("cosh", "exp", "expm1", "floor", "hypot", "log", "log10", "log1p", "log2", "sin")},
    **{name: name for name in ("sinh", "sqrt", "tan", "tanh", "trunc")},
    "abs": "fabs",
    "pow": "pow",
    "round": "rint",
    "logaddexp": "agrad_logaddexp",
    "maximum": "agrad_maximum",
    "minimum": "agrad_minimum",
    "sign": "agrad_sign",
    "special.cbrt": "cbrt",
    "special.erf": "erf",
    "special.erfc": "erfc",
    "special.exp2": "exp2",
}
#: Functions of numbers that return booleans.
_TESTS = {name: name for name in ("isfinite", "isinf", "isnan")}
#: By the name of a function, its operator; the second part names its operands: numbers, or booleans.
_OPERATORS = {
    "add": ("+", "number"),
    "subtract": ("-", "number"),
    "multiply": ("*", "number"),
    "divide": ("/", "number"),
    "equal": ("==", "test"),
    "not_equal": ("!=", "test"),
    "less": ("<", "test"),
    "less_equal": ("<=", "test"),
    "greater": (">", "test"),
    "greater_equal": (">=", "test"),
    "logical_and": ("&", "logic"),
    "logical_or": ("|", "logic"),
    "bitwise_and": ("&", "logic"),
    "bitwise_or": ("|", "logic"),
}

#: Views, which may be operands of a kernel.
_BROADCASTS = frozenset({"broadcast_to", "broadcast_like"})
#: Functions that return their operand, if all numbers are real.
_SAME = frozenset({"positive", "real", "conj", *_BROADCASTS})
#: Arrays of one value.
_FILLED = {name: float(known.facts.fills) for name, known in WITHOUT_OP.items() if known.facts.fills is not None}
#: Operations that are written by a method of `CudaWriter`.
_WRITTEN = frozenset({"astype", "clip", "full", "full_like", "negative", "reciprocal", "square", "where"})
#: Negation of booleans, under the standard's and Python's names.
_NOT = frozenset({"bitwise_invert", "logical_not"})

#: Everything that `emit` can write.
SPELLED = frozenset({*_FUNCTIONS, *_TESTS, *_OPERATORS, *_SAME, *_FILLED, *_WRITTEN, *_NOT})

#: The most operators and functions in one kernel: longer ones take seconds to compile, and registers run out.
LONGEST = 200

#: The most arrays in one kernel: each takes some 50 bytes of the 4 KiB that a kernel's parameters may have.
ARRAYS = 32

#: They overflow in the compiler.
_INFINITY, _NAN = "1e308 * 1e308", "1e308 * 1e308 - 1e308 * 1e308"

#: The dtypes to compute in.
_COMPUTED = {"float16": "float", "float32": "float", "float64": "double"}


# -- one kernel -------------------------------------------------------------------------------------------------------


class Reduction(NamedTuple):
    """The reduction at the end of a kernel.

    Attributes
    ----------
    axis : tuple of int or None
        The axes that are added up; None for all.
    keepdims : bool
        Whether they stay, with length 1.
    count : int
        The divisor of the sum: 1, or for a mean the number of summands.
    """

    axis: tuple[int, ...] | None
    keepdims: bool
    count: int


@dataclass(frozen=True)
class Code:
    """The text of one kernel, as taken by ``cupy.ElementwiseKernel``, or with a `sum` by ``cupy.ReductionKernel``.

    Attributes
    ----------
    ins, outs : str
        The parameters, as ``"float32 a0, float32 a1"``.
    body : str
        The statements for one element; with a `sum`, the expression that is summed.
    name : str
        What profilers show.
    steps : int
        How many operators and functions it replaces.
    single : bool
        Whether there is a single result, rather than a tuple.
    computed : str
        The C++ type of its numbers.
    sum : Reduction or None
        The statement for the single result.
    """

    ins: str
    outs: str
    body: str
    name: str
    steps: int
    single: bool
    computed: str
    sum: Reduction | None = None


def emit(program: Program, name: str, *, single: bool | None = None, sum: Reduction | None = None) -> Code:
    """Return the kernel of a program that computes each element of its outputs from one element of each input.

    Parameters
    ----------
    program : Program
        A program of elementwise steps. Shapes are ignored: every value represents one element.
    name : str
        Its name in profilers, after ``agrad_``.
    single : bool, optional
        Whether to return its single output itself. Default: if there is only one.
    sum : Reduction, optional
        The statement for its single output.

    Returns
    -------
    Code
        The text.

    Raises
    ------
    NotFusible
        If one kernel cannot do it.
    """
    element = {n: Shaped((1,) if shaped.shape else (), shaped.dtype) for n, shaped in program.shapes.items()}
    try:
        plain = written_out(
            program.replaced(shapes=element), lambda step, _: step.op in SPELLED or not is_composed(step.op)
        )
    except TypeError as error:
        raise NotFusible(str(error)) from error
    writer = CudaWriter(optimized(plain))
    inputs = [f"{program.shapes[number].dtype} a{i}" for i, number in enumerate(program.inputs)]
    outputs = [f"{program.shapes[number].dtype} r{i}" for i, number in enumerate(program.outputs)]
    results = writer.results()
    lines = [f"typedef {writer.computed} C;", *writer.lines]
    if sum is None:
        body = "\n".join([*lines, *(f"r{i} = {text};" for i, text in enumerate(results))])
    else:
        body = "\n".join(["[&] {", *lines, f"return {results[0]};", "}()"])
    single = len(outputs) == 1 if single is None else single
    return Code(
        ", ".join(inputs),
        ", ".join(outputs),
        body,
        f"agrad_{name.replace('.', '_')}",
        writer.steps + (sum is not None),
        single,
        writer.computed,
        sum,
    )


class CudaWriter:
    """Writes the steps of a program as lines of CUDA C++.

    Attributes
    ----------
    lines : list of str
        One per value.
    steps : int
        How many operators and functions there are.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.lines: list[str] = []
        self.steps = 0
        self._texts: dict[int, str] = {}
        made = [program.shapes[n].dtype for step in program.steps for n in step.made]
        numbers = {dtype for dtype in made if dtype != "bool"} or {program.shapes[n].dtype for n in program.inputs} - {
            "bool"
        }
        if len(numbers) != 1 or not numbers <= _COMPUTED.keys():
            raise NotFusible(f"numbers of the dtype {', '.join(sorted(numbers)) or 'bool'}")
        (self.dtype,) = numbers
        for i, number in enumerate(program.inputs):
            self._add(number, f"a{i}", steps=0)
        for step in program.steps:
            self._write(step)

    @property
    def computed(self) -> str:
        """The C++ type that numbers are computed in."""
        return _COMPUTED[self.dtype]

    def results(self) -> list[str]:
        """Return the outputs as text."""
        return [
            self.truth(Ref(n)) if self.program.shapes[n].dtype == "bool" else self.number(Ref(n))
            for n in self.program.outputs
        ]

    def _add(self, number: int, text: str, *, steps: int = 1) -> None:
        """Write the line of a value."""
        self.steps += steps
        if self.steps > LONGEST:
            raise NotFusible(f"more than {LONGEST} steps")
        dtype = self.program.shapes[number].dtype
        # an input of another dtype is only used to be cast
        kind = "bool" if dtype == "bool" else "C" if dtype == self.dtype else None
        if kind is None:
            self._texts[number] = text
            return
        name = self._texts[number] = f"v{len(self.lines)}"
        self.lines.append(f"const {kind} {name} = {text};")

    def number(self, part: Any) -> str:
        """Return an argument as a number in the generated code."""
        if type(part) is Ref:
            dtype = self.program.shapes[part.number].dtype
            if part.number in self.program.constants:
                return self.number(self._constant(part.number))
            if dtype == self.dtype:
                return self._texts[part.number]
            if dtype == "bool":
                return f"C({self._texts[part.number]})"
            raise NotFusible(f"{dtype} among numbers of {self.dtype}")
        if isinstance(part, int | float):
            if math.isfinite(part):
                return f"C({float(part)!r})"
            return f"C({_NAN})" if math.isnan(part) else f"C({_INFINITY})" if part > 0 else f"C(-({_INFINITY}))"
        raise NotFusible(f"{type(part).__name__} {part!r} among numbers")

    def truth(self, part: Any) -> str:
        """Return an argument as a boolean in the generated code."""
        if type(part) is Ref and self.program.shapes[part.number].dtype == "bool":
            if part.number in self.program.constants:
                return str(self._constant(part.number)).lower()
            return self._texts[part.number]
        raise NotFusible(f"{type(part).__name__} among truth values")

    def _constant(self, number: int) -> Any:
        array = self.program.constants[number]
        owner = backend_of(array)
        if owner is None or math.prod(array.shape) != 1:
            raise NotFusible("an array that is part of the program")
        return owner.item(array)

    def _write(self, step: Step) -> None:
        op = step.op
        if step.several or len(step.made) != 1 or op not in SPELLED:
            raise NotFusible(f"the function {op}")
        (made,) = step.made
        a = step.args
        if op in _OPERATORS:
            sign, kind = _OPERATORS[op]
            text = self.truth if kind == "logic" else self.number
            self._add(made, f"{text(a[0])} {sign} {text(a[1])}")
        elif op in _FUNCTIONS or op in _TESTS:
            self._add(made, f"{(_FUNCTIONS | _TESTS)[op]}({', '.join(map(self.number, a))})")
        elif op in _NOT:
            self._add(made, f"agrad_not({self.truth(a[0])})")
        elif op in _SAME:
            self._add(made, self._same(a[0]), steps=0)
        elif op in _FILLED:
            self._add(made, self.number(_FILLED[op]), steps=0)
        else:
            getattr(self, f"_write_{op}")(made, *a, **step.kwargs)

    def _same(self, part: Any) -> str:
        is_truth = type(part) is Ref and self.program.shapes[part.number].dtype == "bool"
        return self.truth(part) if is_truth else self.number(part)

    def _write_astype(self, made: int, x: Any, dtype: DType, *, copy: bool = True) -> None:
        given = self.program.shapes[x.number].dtype
        if dtype != self.dtype or given.startswith("complex"):
            raise NotFusible(f"a cast from {given} to {dtype}")
        is_own = given in (self.dtype, "bool") or x.number in self.program.constants
        self._add(
            made, self.number(x) if is_own else f"C({self._texts[x.number]})", steps=0 if given == self.dtype else 1
        )

    def _write_clip(self, made: int, x: Any, /, min: Any = None, max: Any = None) -> None:
        text = self.number(x)
        for bound, function in ((min, "agrad_maximum"), (max, "agrad_minimum")):
            text = text if bound is None else f"{function}({text}, {self.number(bound)})"
        self._add(made, text)

    def _write_full(self, made: int, shape: Any, value: Any, **_: Any) -> None:
        self._add(made, self.number(value), steps=0)

    _write_full_like = _write_full

    def _write_negative(self, made: int, x: Any) -> None:
        self._add(made, f"-{self.number(x)}")

    def _write_reciprocal(self, made: int, x: Any) -> None:
        self._add(made, f"C(1.0) / {self.number(x)}")

    def _write_square(self, made: int, x: Any) -> None:
        self._add(made, f"{self.number(x)} * {self.number(x)}")

    def _write_where(self, made: int, condition: Any, x1: Any, x2: Any) -> None:
        self._add(made, f"agrad_where({self.truth(condition)}, {self.number(x1)}, {self.number(x2)})")


def is_composed(op: str) -> bool:
    """Return whether an operation is element by element, and written in other functions by agrad itself.

    User-declared rules may call anything, and run as written.
    """
    known = OPS.get(op)
    return (
        known is not None and known.rule.kind == "elementwise" and known.kernel is not None and not known.rule.guarded
    )


# -- an eager rule or composition -------------------------------------------------------------------------------------


#: Rules and compositions are recorded on arrays of this shape. A result that is right for each element here is right
#: for the elements of any other array, by the definition of an elementwise operation.
SHAPE = (2, 3)


def recorded_code(function: Callable[..., Any], dtype: str, count: int, name: str) -> Code:
    """Return the kernel of an elementwise function of kernels and `count` arrays of one dtype."""
    try:
        program, several = program_of_kernels(function, [Shaped(SHAPE, dtype)] * count, name)
    except CaptureError as error:
        raise NotFusible(str(error)) from error
    return emit(program, name, single=not several)


def rule_code(plan: Any, dtype: str, params: tuple[Any, ...]) -> Code:
    """Return the kernel of a rule's whole `vjp`: from the cotangent and the saved values, in this order.

    Parameters
    ----------
    plan : Plan
        For an elementwise op whose operands all have the spec of its result.
    dtype : str
        Of everything.
    params : tuple
        The node's parameters.

    Raises
    ------
    NotFusible
        If one kernel cannot do it.
    """
    rule = plan.rule
    if rule.kind != "elementwise" or not plan.same_spec or plan.nan_safe or rule.guarded:
        raise NotFusible("the rule of another kind, or of operands that differ")
    if dtype not in _COMPUTED:
        raise NotFusible(f"the dtype {dtype}")
    vjp = plan.compile()

    def run(xp: Any, g: Any, *saved: Any) -> Any:
        return vjp(xp, g, saved, SimpleNamespace(spec=g.backend.spec(g), params=params))

    return recorded_code(run, dtype, 1 + len(plan.saves), f"{rule.op}_backward")


def kernel_code(op: Any, dtype: str, values: tuple[Any, ...], keywords: tuple[tuple[str, Any], ...]) -> Code:
    """Return the kernel of a composed elementwise op; `ARRAY` marks array arguments.

    Raises
    ------
    NotFusible
        If one kernel cannot do it.
    """
    if not is_composed(op.name):
        raise NotFusible("another kind of op")
    if dtype not in _COMPUTED:
        raise NotFusible(f"the dtype {dtype}")

    def run(xp: Any, *arrays: Any) -> Any:
        given = iter(arrays)
        filled = [next(given) if value is ARRAY else value for value in values]
        named = {name: next(given) if value is ARRAY else value for name, value in keywords}
        return op.kernel(xp, *filled, **named)

    count = sum(value is ARRAY for value in (*values, *(value for _, value in keywords)))
    return recorded_code(run, dtype, count, op.name)


#: Marks an array among the arguments of a kernel.
ARRAY = object()


# -- the runs of a program --------------------------------------------------------------------------------------------


class ElementwiseRun:
    """Elementwise steps of one shape and dtype that become one kernel.

    Attributes
    ----------
    places : list of int
        The positions of its steps in the program.
    """

    def __init__(self, program: Program, places: Sequence[int]) -> None:
        self.program, self.places = program, sorted(places)
        self.steps = [program.steps[at] for at in self.places]

    @property
    def made(self) -> list[int]:
        """The numbers of its results."""
        return [number for step in self.steps for number in step.made]

    @property
    def taken(self) -> list[int]:
        """The numbers of its operands, without constants that have no axes, which are part of the text."""
        own, shapes = {*self.made}, self.program.shapes
        taken = dict.fromkeys(number for step in self.steps for number in step.refs if number not in own)
        return [n for n in taken if n not in self.program.constants or shapes[n].shape]

    def toward(self, number: int, stops: set[int]) -> ElementwiseRun:
        """Return the part that computes one value, from values that exist beforehand."""
        wanted, places = {number}, []
        for at, step in zip(reversed(self.places), reversed(self.steps), strict=True):
            if not wanted.isdisjoint(step.made):
                places.append(at)
                wanted |= {*step.refs} - stops
        return ElementwiseRun(self.program, places)

    def fits(self, outputs: int) -> bool:
        """Return whether one kernel can take these arrays, and whether they determine its size."""
        taken, shapes = self.taken, self.program.shapes
        if not taken or len(taken) + outputs > ARRAYS:
            return False
        return broadcast([shapes[n].shape for n in taken]) == shapes[self.made[-1]].shape

    def code(self, outputs: Sequence[int], name: str, sum: Reduction | None = None) -> Code:
        """Return its kernel, which returns some of its values."""
        inputs, program = tuple(self.taken), self.program
        used = {number for step in self.steps for number in step.refs}.union(self.made)
        constants = {n: program.constants[n] for n in used if n in program.constants and n not in inputs}
        shapes = {n: program.shapes[n] for n in used}
        own = Program(inputs, tuple(self.steps), tuple(outputs), shapes, constants)
        return emit(own.needed(), name, sum=sum)


def fused(program: Program, composed: Callable[[str], bool] = is_composed) -> tuple[Program, dict[str, Code]]:
    """Return a program in which a run of elementwise steps is one step, and the kernels of these steps by their names.

    Parameters
    ----------
    program : Program
        For arrays, without steps for histories.
    composed : callable, optional
        Says of an operation whether to write its composition, rather than call the library's function.

    Returns
    -------
    program : Program
        With the same inputs and outputs.
    codes : dict of str to Code
        By the names of the new operations, ``"run_0"`` and so on. Those that end in a sum take its axes from the code.
    """
    runs = list(runs_of(program, composed))
    uses: dict[int, set[int]] = {number: {len(program.steps)} for number in program.outputs}
    for at, step in enumerate(program.steps):
        for number in step.refs:
            uses.setdefault(number, set()).add(at)
    units: list[tuple[list[int], Step]] = []  # the new steps: the positions in the program, and the step
    codes: dict[str, Code] = {}
    done: set[int] = set()

    def add(
        run: ElementwiseRun, outputs: Sequence[int], places: Sequence[int], last: Step, sum: Reduction | None = None
    ) -> bool:
        """Turn a run, or a run that ends in a sum, into one step; return whether this is possible and worthwhile."""
        if not run.fits(len(outputs)):
            return False
        name = f"run_{len(codes)}"
        try:
            code = run.code(outputs, name, sum)
        except NotFusible:
            return False
        if code.steps < 2:
            return False
        codes[name] = code
        outs = tuple(last.made) if sum is not None else tuple(outputs)
        args = tuple(Ref(number) for number in run.taken)
        units.append((list(places), Step(name, args, {}, outs, len(outs) > 1, last.line, last.region)))
        done.update(places)
        return True

    for run in runs:
        inside, own = {*run.places}, {*run.made}
        sums: dict[int, int] = {}  # by the position of a sum, the value it sums, which nothing else needs
        for number in own:
            outside = uses.get(number, set()) - inside
            if outside and all(at < len(program.steps) and sum_of(program, at) is not None for at in outside):
                sums |= dict.fromkeys(outside, number)
        kept = [n for n in run.made if uses.get(n, set()) - inside - sums.keys()]
        for at, number in tuple(sums.items()):
            part = run.toward(number, {*kept})
            if not add(part, [number], [at], program.steps[at], sum_of(program, at)) and number not in kept:
                kept.append(number)
        if not kept:  # all results are in the sums
            done |= inside
            continue
        needed = ElementwiseRun(program, sorted({at for number in kept for at in run.toward(number, set()).places}))
        if add(needed, kept, needed.places, needed.steps[-1]):
            done |= inside
        elif len(needed.places) < len(run.places):
            done |= inside - {*needed.places}
    units += [([at], step) for at, step in enumerate(program.steps) if at not in done]
    return program.replaced(steps=tuple(ordered(units, program))).needed(), codes


def runs_of(program: Program, composed: Callable[[str], bool]) -> Iterator[ElementwiseRun]:
    """Return the runs of a program: connected steps, with no other step on any path between two of them."""
    kinds: dict[
        int, tuple[str, int, int]
    ] = {}  # for results of steps in runs: the dtype of computation, the region, and the number of stops before
    levels: dict[int, int] = {}  # by number, how often the ways to it leave a run at most
    joined: dict[int, list[int]] = {}  # by number, the positions of the steps connected with it
    stops = 0  # a run does not continue after a stop
    for at, step in enumerate(program.steps):
        stops += step.op == STOP
        found = computed_in(step, program, kinds, composed)
        kind = None if found is None else (*found, stops)
        before = [levels.get(n, 0) + (n in kinds and kinds[n] != kind) for n in step.refs]
        level = max(before, default=0)
        if kind is None:
            levels |= dict.fromkeys(step.made, level)
            continue
        (made,) = step.made
        shape = program.shapes[made].shape
        places = [at]
        for number in step.refs:
            alike = kinds.get(number) == kind and levels.get(number) == level and program.shapes[number].shape == shape
            if alike and joined[number] is not places:
                larger, smaller = sorted((places, joined[number]), key=len, reverse=True)
                larger += smaller
                for place in smaller:
                    joined |= dict.fromkeys(program.steps[place].made, larger)
                places = larger
        kinds[made], levels[made], joined[made] = kind, level, places
    for places in {id(places): sorted(places) for places in joined.values()}.values():
        yield from pieces(program, places)


def pieces(program: Program, places: Sequence[int]) -> Iterator[ElementwiseRun]:
    """Return connected steps as runs that are not too long, and leave room for their results."""
    piece: list[int] = []
    made: set[int] = set()
    taken: set[int] = set()
    for at in places:
        step = program.steps[at]
        more = {*step.refs} - made
        if piece and (len(piece) >= LONGEST // 4 or len(taken | more) > ARRAYS // 2):  # a step may be a composition
            yield ElementwiseRun(program, piece)
            piece, made, taken, more = [], set(), set(), {*step.refs}
        piece.append(at)
        made |= {*step.made}
        taken |= more
    yield ElementwiseRun(program, piece)


def computed_in(
    step: Step, program: Program, kinds: Mapping[int, tuple[str, int, int]], composed: Callable[[str], bool]
) -> tuple[str, int] | None:
    """Return the dtype that a step is computed in as part of a kernel, and its region; None if it must be a separate step."""
    if step.several or len(step.made) != 1 or not (step.op in SPELLED or (is_composed(step.op) and composed(step.op))):
        return None
    shapes = program.shapes
    if any(n not in shapes for n in step.refs):
        return None
    made = shapes[step.made[0]].dtype
    given = {shapes[n].dtype for n in step.refs}
    numbers = ({made} | given) - {"bool"}
    if step.op in _BROADCASTS and kinds.keys().isdisjoint(step.refs):
        return None  # a view costs nothing
    if step.op == "astype":
        numbers = set() if any(dtype.startswith("complex") for dtype in given) else {made}
    elif not numbers:  # only booleans
        numbers = {kinds[n][0] for n in step.refs if n in kinds}
    return (numbers.pop(), step.region) if len(numbers) == 1 and numbers <= _COMPUTED.keys() else None


def sum_of(program: Program, at: int) -> Reduction | None:
    """Return the sum or mean of a step, None if it is not one that a kernel can end in."""
    step = program.steps[at]
    if step.op not in ("sum", "mean") or len(step.args) != 1 or not step.kwargs.keys() <= {"axis", "keepdims", "dtype"}:
        return None
    shape = program.shapes[step.refs[0]].shape
    if step.kwargs.get("dtype") is not None or program.shapes[step.made[0]].dtype not in _COMPUTED or not shape:
        return None
    axis = step.kwargs.get("axis")
    axes = tuple(range(len(shape))) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    count = math.prod(shape[i] for i in axes) if step.op == "mean" else 1
    return Reduction(axes, bool(step.kwargs.get("keepdims")), count) if count and axes else None


def ordered(units: Sequence[tuple[list[int], Step]], program: Program) -> Iterator[Step]:
    """Return steps each after its operands, and otherwise in the order of the program."""
    maker = {number: i for i, (_, step) in enumerate(units) for number in step.made}
    waits = [{maker[n] for n in step.refs if n in maker} for _, step in units]
    followers: dict[int, list[int]] = {}
    for i, needed in enumerate(waits):
        for other in needed:
            followers.setdefault(other, []).append(i)
    ready = [(max(places), i) for i, (places, _) in enumerate(units) if not waits[i]]
    heapq.heapify(ready)
    while ready:
        _, i = heapq.heappop(ready)
        yield units[i][1]
        for other in followers.get(i, ()):
            waits[other].discard(i)
            if not waits[other]:
                heapq.heappush(ready, (max(units[other][0]), other))
