"""Programs in files: as plain containers of numbers, strings and tensors, and rebuilt from them, with everything checked.

`agrad.serialization` writes such containers. Nothing in a file is executed: the text of a program is written from its
steps, whose operations must be known, whose names cannot end a line, and which only take earlier values.
"""

from __future__ import annotations

import importlib
import keyword
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

from agrad import tree
from agrad.core.facts import WITHOUT_OP
from agrad.core.op import OPS
from agrad.core.operands import from_raw
from agrad.core.tensor import Tensor
from agrad.program.closures import AccessPath, Argument
from agrad.program.program import (
    HERE,
    LITERALS,
    LOOP,
    REWIND,
    UNWIND,
    Body,
    DType,
    Given,
    Leaf,
    Number,
    Program,
    Ref,
    Shaped,
    Step,
    Structure,
    Write,
    attached,
    is_dtype,
    printable,
    refuse_seeds,
)
from agrad.random import Generator, default_generator
from agrad.serialization import Codec, register
from agrad.serialization.archive import FormatError

#: Modules that declare the operations called ``scipy.*`` when they are first imported.
WAITING = ("agrad.ops.scipy.linalg", "agrad.ops.scipy.signal", "agrad.ops.scipy.sparse")

#: Limits: how deep the arguments of a step may be nested, how long a string or an integer among them may be, and a name
#: or line.
DEPTH, LETTERS, BITS, LINE = 10, 200, 1000, 10_000

#: The limit of the numbers of values, and of sizes of axes.
MOST = 2**31


@attached
class SavingMethods:
    """The members of a program that this file defines."""

    def tensors(self: Any) -> dict[str, Tensor]:
        """Return the outer tensors that the program reads or writes, by name, as they are now.

        A program that was loaded owns these: they have the values of the time it was saved, and receive its writes.

        Returns
        -------
        dict of str to Tensor

        Examples
        --------
        >>> import agrad as ag
        >>> w = ag.tensor([2.0, 3.0])
        >>> ag.func.capture(lambda x: w * x)(ag.ones(2)).tensors()
        {'w': tensor([2., 3.])}
        """
        return {name: tensor for name, tensor, _ in held_by(self)[0]}


def held_by(
    program: Program,
) -> tuple[list[tuple[str, Tensor, Tensor | None]], Callable[[AccessPath], tuple[int, bool]]]:
    """Return the outer tensors with name and gradient; and the mapping from an origin to such a tensor, or its gradient."""
    held: list[tuple[str, Tensor, Tensor | None]] = []
    places: dict[int, int] = {}
    kept = []

    def place(origin: AccessPath) -> tuple[int, bool]:
        of_grad = origin.way[-1:] == (("attribute", "grad"),)
        owner = AccessPath(origin.root, origin.way[:-1]) if of_grad else origin
        value = owner.find()
        kept.append(value)
        if id(value) not in places:
            name, n = told(str(owner)), 2
            while name in [other for other, *_ in held]:
                name, n = f"{owner} ({n})", n + 1
            places[id(value)] = len(held)
            held.append((name, value if isinstance(value, Tensor) else from_raw(value), None))
        return places[id(value)], of_grad

    for origin in (*program.outside.values(), *(write.target for write in program.writes)):
        if isinstance(origin, AccessPath):
            at, of_grad = place(origin)
            if of_grad:
                held[at] = (*held[at][:2], held[at][1].grad)
    return held, place


#: The target of a program's write.
PLACES = ("argument", "held", "gradient")


def target_code(target: AccessPath | Argument, place: Callable[[AccessPath], tuple[int, bool]]) -> tuple[str, int]:
    """Return the target of a write: an argument, an outer tensor, or the gradient of one."""
    if isinstance(target, Argument):
        return "argument", target.place
    at, of_grad = place(target)
    return "gradient" if of_grad else "held", at


# -- to plain containers ----------------------------------------------------------------------------------------------


def plain(program: Program) -> dict[str, Any]:
    """Return a program as plain containers of tensors."""
    refuse_seeds(program, "be saved")
    bodies = {body: i for i, body in enumerate(bodies_of(program))}
    held, place = held_by(program)
    sources = {n: g for n, g in program.sources.items() if g is not default_generator}
    generators = list({id(g): g for g in sources.values()}.values())
    indices = {id(g): i for i, g in enumerate(generators)}
    return {
        **computing_code(program, bodies),
        **({"bodies": [body_code(body, bodies) for body in bodies]} if bodies else {}),
        "keys": list(program.keys),
        "names": [[n, told(name)] for n, name in program.names.items()],
        "arguments": structure_code(program.arguments),
        "results": structure_code(program.results),
        "held": [list(part) for part in held],
        "outside": [[n, *place(origin)] for n, origin in program.outside.items()],
        "writes": [
            [write.what, *target_code(write.target, place), write.number, write.had_grad] for write in program.writes
        ],
        "generators": [list(g.get_state()) for g in generators],
        "sources": [[n, indices[id(g)]] for n, g in sources.items()],
        "functions": list(map(told, program.functions)),
        "parameters": list(map(told, program.parameters)),
    }


def computing_code(program: Program, bodies: Mapping[Body, int]) -> dict[str, Any]:
    """Return the computation of a program as plain containers; for its loops, the positions of their bodies."""
    if any(step.op in (UNWIND, REWIND) for step in program.steps):
        raise TypeError(
            "cannot save a program that follows a schedule of checkpoints (checkpoint_sequence): save the program of a step,"
            " or what ag.func.scan runs in its place"
        )
    return {
        "inputs": list(program.inputs),
        "outputs": list(program.outputs),
        "values": [[n, *shape_code(shaped)] for n, shaped in program.shapes.items()],
        "constants": [[n, from_raw(value)] for n, value in program.constants.items()],
        "steps": [
            [
                step.op,
                [{"body": bodies[part]} if type(part) is Body else part_code(part) for part in step.args],
                {name: part_code(part) for name, part in step.kwargs.items()},
                list(step.outs),
                step.several,
                told(step.line),
                step.region,
            ]
            for step in program.steps
        ],
    }


def bodies_of(program: Program) -> list[Body]:
    """Return the bodies of all loops, each after those of the loops within it."""
    found: dict[Body, None] = {}
    for body in program.bodies:
        found |= dict.fromkeys([*bodies_of(body.program), body])
    return list(found)


def body_code(body: Body, bodies: Mapping[Body, int]) -> dict[str, Any]:
    """Return the body of a loop as plain containers."""
    return {
        **computing_code(body.program, bodies),
        "carried": body.carried,
        "rows": body.rows,
        "length": body.length,
        "reverse": body.reverse,
        "kept": list(body.kept),
    }


def told(text: str) -> str:
    """Return a name or line in the form for a file: on one line, and of limited length."""
    text = printable(text)
    return text if len(text) <= LINE else f"{text[: LINE - 3]}..."


def shape_code(shaped: Shaped) -> list[Any]:
    """Return dtype and shape of a value as plain containers."""
    if not is_dtype(shaped.dtype):
        raise TypeError(f"cannot save a program with values of the dtype {shaped.dtype}")
    return [shaped.dtype, list(shaped.shape)]


def part_code(part: Any) -> Any:
    """Return an argument of a step as plain containers."""
    kind = type(part)
    if kind is Ref:
        return {"ref": part.number}
    if kind is DType:
        return {"dtype": str(part)}
    if kind is Shaped:
        return {"spec": shape_code(part)}
    if kind is slice:
        return {"slice": [part_code(bound) for bound in (part.start, part.stop, part.step)]}
    if kind is tuple or kind is list:
        return kind(map(part_code, part))
    if kind is str and (len(part) > LETTERS or not part.isprintable()):
        raise TypeError(f"cannot save a program with this text as an argument of an operation: {part!r:.{LETTERS}}")
    if kind is int and part.bit_length() > BITS:
        raise TypeError(f"cannot save a program with an integer of {part.bit_length()} bits")
    return {"device": None} if part is HERE else {"ellipsis": None} if part is ... else part


def structure_code(structure: Structure | None) -> Any:
    """Return containers of leaves as a container of zeros, and the leaves."""
    if structure is None:
        return None
    leaves: list[Any] = []
    for leaf in structure.leaves:
        if isinstance(leaf, Leaf):
            leaves.append({"leaf": list(leaf)})
        elif isinstance(leaf, Number | Given):
            leaves.append({type(leaf).__name__.lower(): leaf[0]})
        elif type(leaf) in LITERALS and leaf is not ...:
            leaves.append(leaf)
        else:
            raise TypeError(f"cannot save a program with a {type(leaf).__qualname__} among its arguments or results")
    return [tree.unflatten(structure.treedef, [0] * len(leaves)), leaves]


# -- and back ---------------------------------------------------------------------------------------------------------


def wrong(what: str) -> NoReturn:
    """Refuse a file."""
    raise FormatError(f"its program is damaged: {what}")


def number_in(value: Any) -> int:
    """Return a number of a value, or a size."""
    if type(value) is not int or not 0 <= value < MOST:
        wrong("a number is none, or too large")
    return value


def text_in(value: Any, letters: int = LINE) -> str:
    """Return a string that stays on its line."""
    if type(value) is not str or len(value) > letters or not value.isprintable():
        wrong("a name is too long, or does not stay on its line")
    return value


def flag_in(value: Any) -> bool:
    """Return a boolean."""
    if type(value) is not bool:
        wrong("a truth value is none")
    return value


def rows_in(value: Any, *kinds: type | None) -> list[list[Any]]:
    """Return a list of lists with members of these kinds; None accepts anything."""
    if type(value) is not list:
        wrong("a list is none")
    for row in value:
        if type(row) is not list or len(row) != len(kinds):
            wrong("a row of a table is too long or too short")
        if any(kind is not None and not isinstance(part, kind) for part, kind in zip(row, kinds, strict=True)):
            wrong("a row of a table has something else")
    return value


def shaped_in(dtype: Any, shape: Any) -> Shaped:
    """Return shape and dtype of a value."""
    if not is_dtype(dtype) or type(shape) is not list:
        wrong("a shape or dtype is none")
    found = Shaped(tuple(map(number_in, shape)), dtype)
    if len(shape) > 64 or found.nbytes >= 2**63:
        wrong("a shape is too large")
    return found


class StepsReader:
    """Rebuilds the computation of a program, or of the body of a loop.

    Attributes
    ----------
    shapes : dict of int to Shaped
        Of every value.
    known : set of int
        The numbers of the values computed so far.
    bodies : list of Body
        The bodies of loops that steps may name.
    """

    def __init__(self, code: Any, keys: frozenset[str], bodies: Sequence[Body]) -> None:
        if type(code) is not dict or code.keys() != keys:
            wrong("its parts are others")
        self.code: Mapping[str, Any] = code
        values = rows_in(code["values"], None, None, list)
        self.shapes: dict[int, Shaped] = {number_in(n): shaped_in(dtype, shape) for n, dtype, shape in values}
        self.known: set[int] = set()
        self.bodies = bodies

    def body(self) -> Body:
        """Return the body of a loop."""
        code = self.code
        inputs, constants, steps, outputs = self.inputs(), self.constants(), self.steps(), self.outputs()
        carried, rows, length = (number_in(code[name]) for name in ("carried", "rows", "length"))
        kept = tuple(map(number_in, listed(code["kept"])))
        if not self.known <= self.shapes.keys():
            wrong("a value has no shape")
        if carried + rows > len(inputs) or carried > len(outputs) or not inputs or not length:
            wrong("a loop carries more than it takes or gives")
        if any(self.shapes[a] != self.shapes[b] for a, b in zip(inputs[:carried], outputs, strict=False)):
            wrong("a loop carries another shape or dtype on than it is given")
        if len({*kept}) < len(kept) or any(k >= carried for k in kept):
            wrong("a loop keeps what it does not carry")
        program = Program(inputs, steps, outputs, self.shapes, constants)
        return Body(program, carried, rows, length, reverse=flag_in(code["reverse"]), kept=kept)

    def inputs(self) -> tuple[int, ...]:
        """Return the inputs."""
        return tuple(self.new(n) for n in listed(self.code["inputs"]))

    def constants(self) -> dict[int, Any]:
        """Return the constants."""
        return {self.new(n): self.array(n, tensor) for n, tensor in rows_in(self.code["constants"], int, Tensor)}

    def steps(self) -> tuple[Step, ...]:
        """Return the steps."""
        return tuple(self.step(*row) for row in rows_in(self.code["steps"], str, list, dict, list, None, None, None))

    def outputs(self) -> tuple[int, ...]:
        """Return the outputs."""
        return tuple(map(self.of, listed(self.code["outputs"])))

    # -- values -------------------------------------------------------------------------------------------------------

    def new(self, number: Any) -> int:
        """Return the number of a value that is computed here."""
        if number_in(number) in self.known:
            wrong("a value is made twice")
        self.known.add(number)
        return number  # type: ignore[no-any-return]

    def of(self, number: Any) -> int:
        """Return the number of a value that has been computed."""
        if number_in(number) not in self.known:
            wrong("a value is used that nothing before it makes")
        return number  # type: ignore[no-any-return]

    def of_key(self, number: Any, keys: Sequence[int]) -> int:
        """Return the number of a key."""
        if number not in keys:
            wrong("a generator gives what is no key")
        return self.of(number)

    def array(self, number: int, tensor: Tensor) -> Any:
        """Return the array of a tensor with the shape of a value."""
        self.check(number, tensor)
        return tensor._raw

    def check(self, number: int, tensor: Tensor) -> None:
        """Refuse a tensor with another shape or dtype than a value."""
        found = Shaped(tensor.shape, tensor._spec.backend.dtype_name(tensor._spec.dtype))
        if self.shapes.get(number) != found:
            wrong("a tensor has another shape or dtype than its value")

    # -- steps --------------------------------------------------------------------------------------------------------

    def step(self, op: str, args: Any, kwargs: Any, outs: Any, several: Any, line: Any, region: Any) -> Step:
        """Return a step."""
        if op == LOOP:
            return self.loop(args, kwargs, outs, several, line, region)
        if op in (UNWIND, REWIND):
            wrong("no file has a schedule of checkpoints")
        if op not in OPS and op.startswith("scipy."):
            for module in WAITING:
                importlib.import_module(module)
        if op not in OPS and op not in WITHOUT_OP:
            wrong(f"the operation {op!a:.60} is not known here; import the module that declares it before loading")
        if any(
            not name.isidentifier() or keyword.iskeyword(name) for name in kwargs if type(name) is str or wrong(name)
        ):
            wrong("a keyword is no name")
        parts = tuple(self.part(part) for part in args)
        named = {name: self.part(part) for name, part in kwargs.items()}
        made = tuple(None if number is None else self.new(number) for number in outs)
        if len(made) != 1 and not flag_in(several):
            wrong("a step has no result")
        return Step(op, parts, named, made, flag_in(several), text_in(line), number_in(region))

    def loop(self, args: Any, kwargs: Any, outs: Any, several: Any, line: Any, region: Any) -> Step:
        """Return the step of a loop, whose operands and results match its body."""
        match args:
            case [[*refs], {"body": place}] if not kwargs and several is True:
                body = place_in(self.bodies, place)
            case _:
                wrong("the arguments of a loop are none")
        operands = [
            part if type(part) is Ref else wrong("an operand of a loop is none") for part in map(self.part, refs)
        ]
        made = tuple(None if number is None else self.new(number) for number in outs)
        program, carried = body.program, body.carried
        taken = [self.shapes.get(ref.number) for ref in operands]
        if taken != [self.stacked(body, i, n, i - carried < body.rows) for i, n in enumerate(program.inputs)]:
            wrong("a loop is given what its body does not take")
        given = [*program.outputs, *(program.inputs[k] for k in body.kept)]
        wanted = [self.stacked(body, i, n, True) for i, n in enumerate(given)]
        if len(made) != len(wanted) or any(
            number is not None and self.shapes.get(number) != shaped
            for number, shaped in zip(made, wanted, strict=True)
        ):
            wrong("a loop gives what its body does not")
        return Step(LOOP, (operands, body), {}, made, True, text_in(line), number_in(region))

    def stacked(self, body: Body, place: int, number: int, is_stacked: bool) -> Shaped:
        """Return the shape that a value of a body has outside of it, by its position among the inputs or the results."""
        shaped = body.program.shapes[number]
        return Shaped((body.length, *shaped.shape), shaped.dtype) if place >= body.carried and is_stacked else shaped

    def part(self, code: Any, depth: int = 0) -> Any:
        """Return an argument of a step."""
        if depth > DEPTH:
            wrong("an argument is nested too deeply")
        kind = type(code)
        if kind is str:
            return text_in(code, LETTERS)
        if kind is int and code.bit_length() > BITS:
            wrong("a number is too large")
        if kind is tuple or kind is list:
            return kind(self.part(inside, depth + 1) for inside in code)
        if kind is not dict:
            return code if kind in LITERALS else wrong("an argument is none")
        match code:
            case {"ref": number}:
                return Ref(self.of(number))
            case {"dtype": name} if is_dtype(name):
                return DType(name)
            case {"spec": [dtype, shape]}:
                return shaped_in(dtype, shape)
            case {"slice": [_, _, _] as bounds}:
                return slice(*(self.bound(bound) for bound in bounds))
            case {"device": None}:
                return HERE
            case {"ellipsis": None}:
                return ...
        wrong("an argument is none")

    def bound(self, code: Any) -> Any:
        """Return a bound of a slice."""
        return self.part(code) if type(code) in (int, type(None), dict) else wrong("a slice is none")


class Reader(StepsReader):
    """Rebuilds a program from plain containers."""

    def __init__(self, code: Any) -> None:
        bodies: list[Body] = []
        depths: dict[Body, int] = {}
        for part in listed(code["bodies"]) if type(code) is dict and "bodies" in code else ():
            body = StepsReader(part, BODY_KEYS, bodies).body()
            depths[body] = 1 + max((depths[inner] for inner in body.program.bodies), default=0)
            bodies.append(body)
            if depths[body] > DEPTH:
                wrong("its loops are nested too deeply")
        super().__init__(code, KEYS | {"bodies"} if bodies else KEYS, bodies)

    def program(self) -> Program:
        """Return the program."""
        code = self.code
        inputs = self.inputs()
        keys = tuple(map(self.of, listed(code["keys"])))
        constants = self.constants()
        arguments = self.structure(code["arguments"], inputs=frozenset(inputs))
        leaves = () if arguments is None else arguments.leaves
        outside, held = self.outside()
        steps, outputs = self.steps(), self.outputs()
        results = self.structure(code["results"], leaves=leaves)
        writes = tuple(self.write(row, held, leaves) for row in rows_in(code["writes"], str, str, int, None, None))
        self.order(outputs, results, writes)
        generators = [generator_of(*row) for row in rows_in(code["generators"], int, int)]
        sources = {self.of_key(n, keys): place_in(generators, i) for n, i in rows_in(code["sources"], int, int)}
        unknown = self.known - self.shapes.keys() - {*keys}
        if unknown or not {*keys}.isdisjoint(self.shapes):
            wrong("a value has no shape")
        return Program(
            inputs,
            steps,
            outputs,
            self.shapes,
            constants,
            keys,
            names={self.of(n): text_in(name) for n, name in rows_in(code["names"], int, str)},
            arguments=arguments,
            results=results,
            outside=outside,
            writes=writes,
            sources=sources,
            functions=tuple(text_in(name) for name in listed(code["functions"])),
            parameters=tuple(text_in(name) for name in listed(code["parameters"])),
        )

    # -- what it is called with, and returns --------------------------------------------------------------------------

    def structure(
        self, code: Any, *, inputs: frozenset[int] | None = None, leaves: Sequence[Any] = ()
    ) -> Structure | None:
        """Return the arguments, whose values are `inputs`; or the results, which may be among the leaves of arguments."""
        if code is None:
            return None
        if type(code) is not list or len(code) != 2 or type(code[1]) is not list:
            wrong("its arguments or results are none")
        _, treedef = tree.flatten(code[0])
        if inputs is not None and [treedef.kind, *(child.kind for child in treedef.children)] != [tuple, tuple, dict]:
            wrong("its arguments are none")
        if treedef.num_leaves != len(code[1]):
            wrong("its arguments or results have more leaves, or fewer")
        found = tuple(self.leaf(part, inputs is None, leaves) for part in code[1])
        if inputs is not None and not inputs.issuperset(n.number for n in found if isinstance(n, Leaf | Number)):
            wrong("an argument is no input")
        return Structure(treedef, found)

    def leaf(self, code: Any, is_result: bool, leaves: Sequence[Any]) -> Any:
        """Return a leaf of the arguments, or of the results, which are computed later."""
        match code:
            case {"leaf": [number, raw, followed, spent]}:
                return Leaf(self.of(number), flag_in(raw), flag_in(followed), flag_in(spent))
            case {"number": number}:
                return Number(self.of(number))
            case {"given": place} if is_result:
                place_in(leaves, place)
                return Given(place)
        return code if type(code) in LITERALS else wrong("an argument or result is none")

    # -- tensors from outside -----------------------------------------------------------------------------------------

    def outside(self) -> tuple[dict[int, AccessPath], list[AccessPath]]:
        """Return where the inputs that are not arguments are found, in tensors that the program owns; and where these are."""
        holder: dict[str, Tensor] = {}
        origins = []
        for name, tensor, grad in rows_in(self.code["held"], str, Tensor, None):
            if text_in(name) in holder or not (grad is None or isinstance(grad, Tensor)):
                wrong("two of its tensors have one name, or a gradient is none")
            if grad is not None:
                if grad._spec is not tensor._spec or tensor.is_leaf is False:
                    wrong("a gradient has another shape or dtype than its tensor")
                tensor.grad = grad
            holder[name] = tensor
            origins.append(AccessPath(holder, (("item", name),)))
        found = {}
        for number, place, of_grad in rows_in(self.code["outside"], int, int, bool):
            origin = place_in(origins, place)
            value = origin.find()
            if of_grad:
                origin, value = AccessPath(holder, (*origin.way, ("attribute", "grad"))), value.grad
            if number not in self.known or value is None:
                wrong("a tensor from outside is no input")
            self.check(number, value)
            found[number] = origin
        return found, origins

    def write(self, row: list[Any], held: Sequence[AccessPath], leaves: Sequence[Any]) -> Write:
        """Return the write to a tensor."""
        what, where, place, number, had_grad = row
        if what not in ("data", "grad") or where not in PLACES or (what == "data" and number is None):
            wrong("what it writes is nothing")
        if where == "argument" and not isinstance(place_in(leaves, place), Leaf):
            wrong("it writes to what is no tensor")
        target: AccessPath | Argument = Argument(place) if where == "argument" else place_in(held, place)
        if isinstance(target, AccessPath) and where == "gradient":
            target = AccessPath(target.root, (*target.way, ("attribute", "grad")))
            if target.find() is None:
                wrong("it writes to a gradient that is none")
        made = None if number is None else self.of(number)
        return Write(target, what, made, None if had_grad is None else flag_in(had_grad))

    def order(self, outputs: Sequence[int], results: Structure | None, writes: Sequence[Write]) -> None:
        """Refuse results and writes that are not the outputs, in this order."""
        leaves = () if results is None else results.leaves
        wanted = [leaf.number for leaf in leaves if isinstance(leaf, Leaf | Number)]
        wanted += [write.number for write in writes if write.number is not None]
        if results is not None and list(outputs[: len(wanted)]) != wanted:
            wrong("its results are not its outputs")


def listed(value: Any) -> list[Any]:
    """Return a list."""
    return value if type(value) is list else wrong("a list is none")


def place_in(sequence: Sequence[Any], place: Any) -> Any:
    """Return a member of a sequence."""
    if type(place) is not int or not 0 <= place < len(sequence):
        wrong("a place is beyond the end")
    return sequence[place]


def generator_of(seed: int, counter: int) -> Generator:
    """Return a generator in a given state."""
    generator = Generator(seed)
    generator.set_state((seed, counter))
    return generator


def made(code: Any) -> Program:
    """Return the program from plain containers, checked."""
    return Reader(code).program()


#: The parts of the computation of a program or a body, of the body of a loop, and of a program, which has "bodies" if
#: it has loops.
COMPUTING_KEYS = frozenset(["inputs", "outputs", "values", "constants", "steps"])
BODY_KEYS = COMPUTING_KEYS | {"carried", "rows", "length", "reverse", "kept"}
KEYS = COMPUTING_KEYS | {
    *("keys", "names", "arguments", "results", "held", "outside", "writes", "generators", "sources", "functions"),
    "parameters",
}

register("program", Codec(Program, plain, made))
