"""Programs as the text of modules that only need NumPy.

A step is written with NumPy's names, like the kernels here; if NumPy has no function for it, a small helper is added at
the top of the module. Operations that only agrad has, such as those of `agrad.nn`, are expanded first.
"""

from __future__ import annotations

import keyword
import math
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import NoneType
from typing import Any

from agrad.plugin.backend import OPS, WITHOUT_OP, backend_of, internal, spec_of
from agrad.plugin.programs import (
    DRAW,
    INDENT,
    LITERALS,
    LOOP,
    Argument,
    DType,
    Given,
    Leaf,
    Number,
    Program,
    Ref,
    Shaped,
    Step,
    Write,
    Writer,
    apart,
    printable,
    refs_in,
    trimmed,
    tuple_text,
    written_out,
)
from agrad.tree import TreeDef
from agrad_numpy import kernels
from agrad_numpy.kernels import DOT_BELOW
from agrad_numpy.special_kernels import COUNTED, ORDERED

internal(__file__)  # messages name the line that called

#: From this many elements on, a constant is not a literal of the module: its function takes it as a parameter.
LARGE = 1000

#: Special functions whose kernels only take real arguments.
REAL = frozenset({"special.erf", "special.erfc", "special.ndtr"})

#: Operations of the standard's chapters that NumPy lacks.
BESIDE = frozenset({"linalg.adjugate", "to_device"})

#: Keywords that request NumPy's default behaviour.
USUAL: Mapping[str, Any] = {"keepdims": False, "dtype": None, "copy": None}

#: Reductions that NumPy computes in half precision throughout, so that sums of ones end at 2048; in float32 here.
IN_SINGLE = frozenset({*kernels.IN_SINGLE, "linalg.vector_norm", "sum"})


def is_spelled(step: Step, shapes: Mapping[int, Shaped]) -> bool:
    """Return whether NumPy, SciPy or a helper implements a step."""
    if step.op in SPELLED or step.op in WITHOUT_OP or step.op == LOOP:
        return True
    op = OPS.get(step.op)
    if op is None or op.rule.guarded or step.op in BESIDE:
        return False
    chapter = step.op.rpartition(".")[0]
    if chapter != "special":
        return chapter in ("", "fft", "linalg")
    return op.kernel is None or (step.op in REAL and any(shapes[n].dtype.startswith("complex") for n in step.refs))


def spelled_out(program: Program) -> Program:
    """Return a program of steps that NumPy, SciPy or a helper implements, also in the bodies of loops."""
    made = written_out(program, is_spelled)
    steps = (
        replace(step, args=(step.args[0], step.args[1].doing(spelled_out(step.args[1].program.without_detach()))))
        if step.op == LOOP
        else step
        for step in made.steps
    )
    return made.replaced(steps=tuple(steps))


# -- the text ---------------------------------------------------------------------------------------------------------


class ModuleWriter(Writer):
    """Writes a program as a module.

    Parameters
    ----------
    program : Program
        Without steps for histories.
    notes : bool, optional
        Whether the line of a step ends with shape, dtype and the user's line.

    Attributes
    ----------
    parameters : dict of int to str
        The names of the parameters for outer tensors and large constants.
    """

    def __init__(self, program: Program, *, notes: bool = True) -> None:
        super().__init__(apart(trimmed(spelled_out(program))), notes=notes)
        self.depth = 0  # of the loop being written
        program = self.program
        self.helpers: dict[str, None] = {}  # by name, in the order of their first use
        self.taken = {"np", "scipy", "held", *HELPERS}
        self.names: dict[int, str] = {}
        self.given_arrays = self._arguments()
        generators: dict[int, str] = {}
        self.keys: dict[int, str] = {}  # for each draw, the parameter of its generator
        for number in program.keys:
            generator = id(program.sources.get(number))
            self.keys[number] = generators.get(generator) or generators.setdefault(generator, self._free("key"))
        self.parameters: dict[int, str] = {}
        for number, origin in program.outside.items():
            self.names[number] = self.parameters[number] = self._free(str(origin))
        for (
            number
        ) in program.inputs:  # values that a compiled function reads anew at every call, such as a learning rate
            if number not in self.names and number not in self.keys:
                self.names[number] = self.parameters[number] = self._free(program.names.get(number, f"x{number}"))
        for number, value in program.constants.items():
            if spec_of(value).size >= LARGE:
                self.names[number] = self.parameters[number] = self._free(f"c{number}")
        self.given |= dict.fromkeys(self.parameters)
        self.draws = dict.fromkeys(self.keys.values(), 0)  # by parameter, how many there are
        for number, key in self.keys.items():
            self.draws[key] += 1
            self.names[number] = f"({key}[0], {key}[1] + {self.draws[key]})"

    def _free(self, wanted: str) -> str:
        """Return an unused identifier like this one, and reserve it."""
        name = re.sub(r"\W+", "_", wanted, flags=re.ASCII).strip("_") or "value"
        if not name.isidentifier() or keyword.iskeyword(name) or re.fullmatch(r"[vci]\d+|part_\d+", name):
            name = name if name == wanted and name.startswith("c") and name[1:].isdigit() else f"_{name}"
        free, n = name, 2
        while free in self.taken:
            free, n = f"{name}_{n}", n + 1
        self.taken.add(free)
        return free

    def _arguments(self) -> list[tuple[str, list[tuple[int, str]]]]:
        """Return the parameters for arguments: each with the numbers of its arrays, and the expression for each."""
        structure = self.program.arguments
        if structure is None:
            keys = {*self.program.keys, *self.program.outside}
            plain = [n for n in self.program.inputs if n not in keys]
            for number in plain:
                self.names[number] = self._free(f"x{number}")
            return [(self.names[n], [(n, self.names[n])]) for n in plain]
        (positional, named), at = structure.treedef.children, 0
        found: list[tuple[str, list[tuple[int, str]]]] = []
        said = self.program.parameters
        words = [said[i] if i < len(said) else f"arg{i}" for i in range(len(positional.children))]
        parts = [*zip(words, positional.children, strict=True), *zip(named.keys, named.children, strict=True)]
        for wanted, child in parts:
            leaves = structure.leaves[at : at + child.num_leaves]
            at += child.num_leaves
            if not any(isinstance(leaf, Leaf | Number) for leaf in leaves):
                continue
            name = self._free(str(wanted))
            arrays = []
            for path, leaf in zip(child.paths(), leaves, strict=True):
                if isinstance(leaf, Leaf | Number):
                    self.names.setdefault(leaf.number, name if not path else self._free(f"{name}{path}"))
                    arrays.append((leaf.number, f"{name}{path}"))
            found.append((name, arrays))
        return found

    @property
    def beside(self) -> dict[str, Any]:
        """The function's parameters besides arguments and keys, by name: origins of tensors, and large constants."""
        known = {**self.program.outside, **self.program.constants}
        return {name: known[number] for number, name in self.parameters.items() if number in known}

    def name(self, number: int) -> str:
        return self.names.get(number) or f"{'c' if number in self.program.constants else 'v'}{number}"

    def use(self, helper: str) -> str:
        """Return the name of a helper, which is then added at the top."""
        self.helpers[helper] = None
        return helper

    # -- the module ---------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return the text of the module."""
        program = self.program
        functions = self.functions()
        constants = [
            f"{self.name(n)} = np.asarray({self._numbers(value)}, dtype=np.{program.shapes[n].dtype})"
            for n, value in program.constants.items()
            if n not in self.parameters
        ]
        helpers = [HELPERS[name] for name in HELPERS if name in self.helpers]
        scipy = any(name in self.helpers for name in SCIPYS)
        imports = ["import numpy as np", *(["import scipy.special"] if scipy else [])]
        needs = "NumPy 2.1 or newer" + (", and SciPy for its special functions" if scipy else "")
        about = "\n".join([f"A program captured by agrad. Needs {needs}.", "", *self._about()])
        parts = [
            *([f'"""{about}\n"""'] if '"""' not in about and "\\" not in about else [repr(about)]),
            *["\n".join(imports)],
            *(["\n".join(constants)] if constants else []),
            *helpers,
            *functions,
        ]
        return "\n\n".join(parts[:3]) + "".join(f"\n\n{part}" for part in parts[3:])

    def _about(self) -> Iterator[str]:
        """Return the lines of the docstring after the first."""
        program = self.program
        seen = [pair for _, arrays in self.given_arrays for pair in arrays]
        yield "Arguments of program():"
        for number, where in seen:
            yield f"    {printable(where)}: {program.shapes[number]}"
        for number, name in self.parameters.items():
            said = program.outside.get(number, "a constant" if number in program.constants else "a setting")
            yield f"    {name}: {program.shapes[number]}, {printable(str(said))}"
        for name in dict.fromkeys(self.keys.values()):
            yield f"    {name}: (seed, draws before), the state of a generator: after agrad.manual_seed(seed), (seed, 0)"
        if program.arguments is not None:
            fixed = [
                f"    {printable(path)}: {printable(repr(leaf))}"
                for path, leaf in zip(program.arguments.treedef.paths(), program.arguments.leaves, strict=True)
                if not isinstance(leaf, Leaf | Number)
            ]
            if fixed:
                yield from ("", "Constants, by position among the arguments:", *fixed)

        def about(number: int) -> str:
            return str(program.shapes[number])

        yield ""
        yield f"It returns {printable(self._results(about, about))}"
        if program.writes:
            yield "The dict holds the new values of these tensors, which the caller must assign."

    def _results(self, text: Callable[[int], str], given: Callable[[int], str]) -> str:
        """Return the function's result as text, composed of the texts of outputs, and of arguments."""
        program = self.program
        outputs = map(text, program.outputs)
        if program.results is None:
            return tuple_text([*outputs])
        leaves = iter(program.results.leaves)

        def leaf_text() -> str:
            leaf = next(leaves)
            if isinstance(leaf, Leaf):
                return next(outputs)
            if isinstance(leaf, Number):
                return f"{next(outputs)}.item()"
            if isinstance(leaf, Given):
                assert program.arguments is not None
                return given(program.arguments.leaves[leaf.place].number)
            if type(leaf) in LITERALS:
                return self.leaf(leaf)
            raise TypeError(
                f"source(): the function returned a {type(leaf).__qualname__}, which is no array or literal"
            )

        results = self._tree(program.results.treedef, leaf_text)
        if not program.writes:
            return results
        written = [f"{self._target(w)!r}: {'None' if w.number is None else next(outputs)}" for w in program.writes]
        return f"{results}, {{{', '.join(written)}}}"

    def _tree(self, treedef: TreeDef, leaf: Callable[[], str]) -> str:
        """Return the text of a container in plain dicts, lists and tuples."""
        kind = treedef.kind
        if kind is None:
            return leaf()
        if kind is NoneType:
            return "None"
        children = [self._tree(child, leaf) for child in treedef.children]
        if issubclass(kind, dict):
            for key in treedef.keys:
                if type(key) not in LITERALS:
                    raise TypeError(f"source(): the function returned a dict with the key {key!r}, which is no literal")
            return f"{{{', '.join(f'{self.leaf(k)}: {text}' for k, text in zip(treedef.keys, children, strict=True))}}}"
        if issubclass(kind, list):
            return f"[{', '.join(children)}]"
        if issubclass(kind, tuple):
            return tuple_text(children)
        raise TypeError(f"source(): the function returned a {kind.__qualname__}; return a dict, list or tuple")

    def _numbers(self, array: Any) -> str:
        """Return the elements of an array as nested lists."""
        owner = backend_of(array)
        assert owner is not None
        return self.part(owner.tolist(array) if spec_of(array).shape else owner.item(array))

    def _target(self, write: Write) -> str:
        """Return the name of a written tensor in the dict."""
        target = str(write.target)
        if isinstance(write.target, Argument):
            assert self.program.arguments is not None
            target = self.name(self.program.arguments.leaves[write.target.place].number)
        return f"{target}.grad" if write.what == "grad" else target

    def signature(self) -> str:
        every = [*(name for name, _ in self.given_arrays), *self.parameters.values(), *self.draws]
        return f'@np.errstate(all="ignore")\ndef program({", ".join(every)}):'

    def opening(self) -> Iterator[str]:
        wheres: dict[int, str] = {}
        for number, where in (*(pair for _, arrays in self.given_arrays for pair in arrays), *self.parameters.items()):
            wheres.setdefault(number, where)
        for number, where in wheres.items():
            shape, dtype = self.program.shapes[number]
            yield f"{self.name(number)} = {self.use('given')}({where!r}, {where}, {shape!r}, {dtype!r})"

    def ending(self) -> str:
        return f"return {self._results(self.result, self.name)}"

    def part_parameters(self) -> list[str]:
        return ["held", *self.draws]

    def is_local(self, number: int) -> bool:
        return number not in self.keys and (number not in self.program.constants or number in self.parameters)

    # -- a step -------------------------------------------------------------------------------------------------------

    def call(self, step: Step) -> str:
        spelled = SPELLED.get(step.op)
        if spelled is not None:
            return spelled(self, step)
        if step.op.startswith("special."):
            return self._special(step)
        if step.op in IN_SINGLE and self.dtype_of(step.args[0]) == "float16" and step.kwargs.get("dtype") is None:
            x, *rest = self.arguments(step)
            return f"np.{step.op}({', '.join([f'{x}.astype(np.float32)', *rest])}).astype(np.float16)"
        return super().call(step)

    def function(self, step: Step) -> str:
        return f"np.{step.op}"

    def statements(self, at: int, step: Step) -> Iterator[str]:
        if step.op != LOOP:
            yield from super().statements(at, step)
            return
        yield from self.loop(step)
        if gone := self.dropped(at, step):
            yield gone.removeprefix("; ")

    def dropped(self, at: int, step: Step) -> str:
        # Results of one call are released when the next call computes them
        return "" if self.depth else super().dropped(at, step)

    def loop(self, step: Step) -> Iterator[str]:
        """Return the lines of a loop."""
        operands, body = step.args
        program, count = body.program, body.carried
        carried, rows, rest = body.split([self.name(ref.number) for ref in operands])
        states, each, fixed = body.split(program.inputs)
        self.names |= dict(zip(fixed, rest, strict=True))
        stacks = [(n, *self.program.shapes[n]) for n in step.outs[count:] if n is not None]
        for number, shape, dtype in stacks:
            yield f"{self.name(number)} = np.empty({shape!r}, dtype=np.{dtype})"
        if states:
            yield f"{', '.join(map(self.name, states))} = {', '.join(carried)}"
        self.depth += 1
        i = f"i{self.depth}"
        calls = f"range({body.length})"
        yield f"for {i} in {f'reversed({calls})' if body.reverse else calls}:{self.note(step)}"
        inside = [f"{self.name(n)} = {row}[{i}]" for n, row in zip(each, rows, strict=True)]
        results = [*program.outputs[count:], *(states[k] for k in body.kept)]
        before = len(program.outputs) - count
        kept = [
            f"{self.name(out)}[{i}] = {self.name(n)}"
            for out, n in zip(step.outs[count:], results, strict=True)
            if out is not None
        ]
        first = sum(out is not None for out in step.outs[count : count + before])
        inside = [*kept[first:], *inside]
        for inner in program.steps:
            inside += self.statements(0, inner)
        inside += kept[:first]
        if states:
            inside.append(f"{', '.join(map(self.name, states))} = {', '.join(map(self.name, program.outputs[:count]))}")
        yield from (f"{INDENT}{line}" for line in inside or ["pass"])
        self.depth -= 1
        for out, state in zip(step.outs, states, strict=False):
            if out is not None:
                yield f"{self.name(out)} = np.array({self.name(state)})"

    def _special(self, step: Step) -> str:
        name = step.op.removeprefix("special.")
        helper = self.use(name if name in SCIPYS else "special")
        self.use("typed")
        named = [repr(name)] if helper == "special" else []
        return f"{helper}({', '.join([*named, *self.arguments(step)])})"

    def arguments(self, step: Step, **other: str) -> list[str]:
        """Return the arguments of a step, with other keywords replacing its own; empty ones are dropped."""
        named = {
            name: self.part(part)
            for name, part in step.kwargs.items()
            if name not in other and name != "device" and not (name in USUAL and part is USUAL[name])
        }
        return [*map(self.part, step.args), *(f"{name}={text}" for name, text in (named | other).items() if text)]

    def leaf(self, part: Any) -> str:
        kind = type(part)
        if kind is DType:
            return f"np.{part}"
        if kind is Shaped:
            return repr(part.shape)
        if kind is float and not math.isfinite(part):
            return "np.nan" if math.isnan(part) else "np.inf" if part > 0 else "-np.inf"
        return super().leaf(part)

    def shape_of(self, part: Any) -> tuple[int, ...]:
        """Return the shape of an argument; () for a number."""
        return self.program.shapes[part.number].shape if type(part) is Ref else ()

    def dtype_of(self, part: Any) -> str | None:
        """Return the dtype of an argument, None for a number."""
        return self.program.shapes[part.number].dtype if type(part) is Ref else None


def plain(writer: ModuleWriter, step: Step, name: str = "", **other: str) -> str:
    """Return the call of NumPy's function of the same name, or of another one."""
    return f"np.{name or step.op}({', '.join(writer.arguments(step, **other))})"


def arguments(step: Step, *names: str) -> list[Any]:
    """Return arguments, however they were passed: in order, and by these names."""
    return [step.args[i] if i < len(step.args) else step.kwargs.get(name) for i, name in enumerate(names)]


# -- how NumPy spells it ----------------------------------------------------------------------------------------------


def _astype(w: ModuleWriter, s: Step) -> str:
    copy = s.kwargs.get("copy", True)
    return f"{w.part(s.args[0])}.astype({w.part(s.args[1])}{'' if copy is None or copy else ', copy=False'})"


def _sort(w: ModuleWriter, s: Step) -> str:
    name = w.use(f"{s.op}_descending") if s.kwargs.get("descending") else f"np.{s.op}"
    axis, stable = s.kwargs.get("axis", -1), s.kwargs.get("stable", True)
    return f"{name}({w.part(s.args[0])}, axis={axis}, stable={stable})"


def _matmul(w: ModuleWriter, s: Step) -> str:
    """BLAS through ``dot`` if the result is small."""
    a, b = map(w.shape_of, s.args)
    small = len(a) == 2 and len(b) == 2 and a[0] * b[1] < DOT_BELOW
    return plain(w, s, name="dot" if small else "matmul")


def _clip(w: ModuleWriter, s: Step) -> str:
    x, low, high = arguments(s, "x", "min", "max")
    whole = not w.dtype_of(x).startswith(("float", "complex"))  # type: ignore[union-attr]

    def bound(part: Any) -> str:
        dtype = w.dtype_of(part)
        if dtype is None or dtype == w.dtype_of(x) or (whole and dtype.startswith("float")):
            return w.part(part)
        return f"{w.part(part)}.astype(np.{w.dtype_of(x)})"

    return f"np.clip({w.part(x)}, {bound(low)}, {bound(high)})"


def _broadcast_like(w: ModuleWriter, s: Step) -> str:
    x, spec = s.args
    return w.part(x) if w.shape_of(x) == spec.shape else f"np.broadcast_to({w.part(x)}, {spec.shape!r})"


def _scatter_add(w: ModuleWriter, s: Step) -> str:
    spec, key, values = s.args
    again = any(w.dtype_of(ref) != "bool" for ref in refs_in(key))
    return f"{w.use('scatter_add' if again else 'placed')}({spec.shape!r}, {w.part(key)}, {w.part(values)})"


def _solve(w: ModuleWriter, s: Step) -> str:
    """In double precision, as the standard's function on NumPy."""
    a, b = map(w.part, s.args)
    kind = w.dtype_of(s.args[0])
    wide = {"float32": "float64", "complex64": "complex128"}
    other = w.dtype_of(s.args[1])
    if kind not in wide and other not in wide:
        return f"np.linalg.solve({a}, {b})"
    both = [wide.get(str(d), str(d)) for d in (kind, other)]
    made = "complex64" if "complex64" in (kind, other) else "float32"
    if kind not in wide or other not in wide:
        made = "complex128" if any(d.startswith("complex") for d in both) else "float64"
    return f"np.linalg.solve({a}.astype(np.{both[0]}), {b}.astype(np.{both[1]})).astype(np.{made}, copy=False)"


def _eig(w: ModuleWriter, s: Step) -> str:
    dtype = "complex64" if w.dtype_of(s.args[0]) in ("float32", "complex64") else "complex128"
    call = f"np.{s.op}({w.part(s.args[0])})"
    return f"{call}.astype(np.{dtype})" if s.op.endswith("vals") else f"(z.astype(np.{dtype}) for z in {call})"


def _cholesky(w: ModuleWriter, s: Step) -> str:
    lower = f"np.linalg.cholesky({w.part(s.args[0])})"
    return f"np.conj(np.matrix_transpose({lower}))" if s.kwargs.get("upper") else lower


def _fft_over_axes(w: ModuleWriter, s: Step) -> str:
    """With the lengths of axes in full: -1 means the length without padding."""
    sizes, axes = s.kwargs.get("s"), s.kwargs.get("axes")
    shape = w.shape_of(s.args[0])
    if sizes is None:
        return plain(w, s, axes="" if axes is None else w.part(axes), s="")
    axes = tuple(range(len(shape) - len(sizes), len(shape))) if axes is None else axes
    whole = [shape[axis] for axis in axes]
    if s.op == "fft.irfftn":
        whole[-1] = 2 * (whole[-1] - 1)
    full = tuple(n if size == -1 else size for size, n in zip(sizes, whole, strict=True))
    return plain(w, s, s=repr(full), axes=w.part(axes))


def _mean(w: ModuleWriter, s: Step) -> str:
    """For complex64, divided in its own precision."""
    if w.dtype_of(s.args[0]) != "complex64":
        return plain(w, s)
    axis = s.kwargs.get("axis")
    shape = w.shape_of(s.args[0])
    axes = range(len(shape)) if axis is None else axis if type(axis) is tuple else (axis,)
    return f"np.true_divide({plain(w, s, name='sum')}, {math.prod(shape[i] for i in axes)}, dtype=np.complex64)"


def _round(w: ModuleWriter, s: Step) -> str:
    """For integers, the integers themselves."""
    kind = w.dtype_of(s.args[0]) or ""
    return w.part(s.args[0]) if kind == "bool" or "int" in kind else plain(w, s)


def _draw(w: ModuleWriter, s: Step) -> str:
    return f"{w.use('random')}({', '.join(w.arguments(s))})"


def _helper(name: str) -> Callable[[ModuleWriter, Step], str]:
    return lambda w, s: f"{w.use(name)}({', '.join(map(w.part, s.args))})"


#: How to write a step that is not a call of NumPy's function of the same name.
SPELLED: Mapping[str, Callable[[ModuleWriter, Step], str]] = {
    "add_into": lambda w, s: f"np.add({w.part(s.args[0])}, {w.part(s.args[1])})",
    "argsort": _sort,
    "astype": _astype,
    "broadcast_like": _broadcast_like,
    "ceil": _round,
    "clip": _clip,
    "fft.fftn": _fft_over_axes,
    "fft.ifftn": _fft_over_axes,
    "fft.irfftn": _fft_over_axes,
    "fft.rfftn": _fft_over_axes,
    "floor": _round,
    "getitem": lambda w, s: f"{w.part(s.args[0])}[{w.part(s.args[1])}]",
    "linalg.cholesky": _cholesky,
    "linalg.eig": _eig,
    "linalg.eigvals": _eig,
    "linalg.pinv": lambda w, s: plain(w, s, rtol=w.part(s.kwargs.get("rtol"))),
    "linalg.solve": _solve,
    "matmul": _matmul,
    "mean": _mean,
    DRAW: _draw,
    "scatter_add": _scatter_add,
    "setitem": _helper("setitem"),
    "sign": lambda w, s: (_helper("sign") if (w.dtype_of(s.args[0]) or "").startswith("complex") else plain)(w, s),
    "sort": _sort,
    "trunc": _round,
}

#: Functions that NumPy lacks, by name; the module's head has those it uses, in this order.
HELPERS: Mapping[str, str] = {
    name: textwrap.dedent(text).lstrip()
    for name, text in {
        "given": '''
            def given(name, value, shape, dtype):
                """Return an argument as an array, checked."""
                array = np.asarray(value)
                if array.shape != shape or array.dtype != dtype:
                    raise ValueError(f"{name} is {array.dtype}{list(array.shape)}; the program is for {dtype}{list(shape)}")
                return array
            ''',
        "random": '''
            def random(kind, shape, key, *, dtype, **parameters):
                """Return the numbers that agrad draws from a key on NumPy."""
                seed, counter = (part & (2**64 - 1) for part in key)
                source = np.random.Generator(np.random.Philox(key=[seed, counter]))
                if kind == "permutation":
                    return source.permutation(parameters["n"]).astype(dtype)
                if kind == "integers":
                    return source.integers(parameters["low"], parameters["high"], size=shape).astype(dtype)
                draw = source.random if kind == "uniform" else source.standard_normal
                if dtype in (np.float32, np.float64):
                    return np.asarray(draw(shape, dtype=dtype))
                return np.asarray(draw(shape)).astype(dtype)
            ''',
        "setitem": '''
            def setitem(array, key, value):
                """Return a copy of an array with other elements at a key."""
                made = np.array(array)
                made[key] = value
                return made
            ''',
        "placed": '''
            def placed(shape, key, values):
                """Return zeros with values at a key."""
                made = np.zeros(shape, values.dtype)
                made[key] = values
                return made
            ''',
        "scatter_add": '''
            def scatter_add(shape, key, values):
                """Return zeros with values added at a key, where places may occur several times."""
                made = np.zeros(shape, np.float32 if values.dtype == np.float16 else values.dtype)
                np.add.at(made, key, values)
                return made.astype(values.dtype, copy=False)
            ''',
        "sort_descending": '''
            def sort_descending(x, axis, stable):
                """Sort from the largest to the smallest."""
                return np.flip(np.sort(x, axis=axis, stable=stable), axis=axis)
            ''',
        "argsort_descending": '''
            def argsort_descending(x, axis, stable):
                """Return the places of a sort from the largest to the smallest; equal elements keep their order."""
                places = np.flip(np.argsort(np.flip(x, axis=axis), axis=axis, stable=stable), axis=axis)
                return x.shape[axis] - 1 - places
            ''',
        "sign": '''
            def sign(x):
                """Return x / abs(x), and 0 for 0."""
                made = np.asarray(x / np.abs(x))
                made[x == 0] = 0
                return made[()]
            ''',
        "special": f'''
            def special(name, *values):
                """Return a function of SciPy's in the dtype that the operands have; counts and orders may be integers."""
                if name in {tuple(sorted(ORDERED))}:
                    values = (*(np.real(value) for value in values[:-1]), values[-1])
                counts = {COUNTED}
                for i in counts.get(name, ()):
                    whole = np.asarray(values[i])
                    if whole.dtype.kind == "f" and np.all(whole == np.floor(whole)):
                        values = (*values[:i], whole.astype(np.int64), *values[i + 1 :])
                return typed(getattr(scipy.special, name)(*values), values)
            ''',
        "expn": '''
            def expn(n, x):
                """Return the exponential integral, of orders below 1 too."""
                low = np.less(n, 1)
                if not np.any(low):
                    return typed(scipy.special.expn(n, x), (n, x))
                m = 1 - np.where(low, n, 0)
                below = scipy.special.gamma(m) * scipy.special.gammaincc(m, x) * np.power(x, -1.0 * m)
                return typed(np.where(low, below, scipy.special.expn(np.where(low, 1, n), x)), (n, x))
            ''',
        "polygamma": '''
            def polygamma(n, x):
                """Return a derivative of digamma."""
                if isinstance(n, int) and n > 0:
                    factor = float(scipy.special.gamma(n + 1.0) * (-1) ** (n + 1))
                    return typed(factor * scipy.special.zeta(n + 1, x), (n, x))
                return typed(scipy.special.polygamma(n, x), (n, x))
            ''',
        "typed": '''
            def typed(result, values):
                """Return a result in the one floating dtype of the operands."""
                dtypes = {value.dtype for value in values if hasattr(value, "dtype") and value.dtype.kind in "fc"}
                if len(dtypes) == 1 and result.dtype not in dtypes and result.dtype.kind == next(iter(dtypes)).kind:
                    return result.astype(dtypes.pop())
                return result
            ''',
    }.items()
}

#: Those that call SciPy; they call ``typed``.
SCIPYS = frozenset({"expn", "polygamma", "special"})
