"""Functions that run block by block, with a border from the neighbours where they need one, and that are differentiable.

The function is captured once for each shape of block (`programs`), and its program runs in the tasks. Its derivatives,
in either mode and of any order, are functions of the same blocks, captured from these programs. A task copies the
borders of its blocks from the neighbours (`borders`), and trims them again; the task of the derivative adds the
gradients of such copies to those of the originals.

May import Dask; imported when `agrad_dask.map_blocks` or `map_overlap` is first used.
"""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import math
import uuid
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

import dask.array as da
import numpy as np
from dask._task_spec import DataNode, Task, TaskRef
from dask.array.overlap import coerce_boundary, coerce_depth
from dask.highlevelgraph import HighLevelGraph, Layer, MaterializedLayer

import agrad as ag
from agrad import Tensor, tree
from agrad.plugin.backend import NeedsValuesError, array_of, backend_of, called, internal, not_recorded, once
from agrad.plugin.programs import CaptureError, Given, Kept, Leaf, Program, Shaped, spec_of_value
from agrad_dask import origins
from agrad_dask.borders import Assembled, BlockSource, Border, Exchange, Needed, Put, cutting, putting, source
from agrad_dask.lowering import data_of
from agrad_dask.programs import BlockProgram, PerShape, like
from agrad_dask.reductions import added_up

#: For how many functions, and layouts of their arrays, programs are kept.
MAX_FUNCTIONS = 16

#: Programs keep their buffers for blocks of at most this many bytes: there is one for each shape of block, and
#: derivative.
SMALL = 2**17

#: Limits for several steps in one task: the factor by which the computation grows, on deeper borders,
MORE_WORK = 1.25
#: the bytes of the results at a place,
MADE = 2**26
#: and the number of steps.
STEPS = 8

T = TypeVar("T")

#: Along which axis of the grid of blocks each axis of an array is cut; None: it is one block there.
Axes = tuple[int | None, ...]

internal(__file__)


# -- functions of blocks ------------------------------------------------------------------------------------------------


class Layout(NamedTuple):
    """How an array is cut.

    Attributes
    ----------
    axes : tuple of (int or None)
        Along which axes of the grid.
    chunks : tuple of tuple of int
        The lengths of its blocks.
    meta : array
        An array without elements, as kept by Dask: the library of the blocks, and their dtype.
    """

    axes: Axes
    chunks: tuple[tuple[int, ...], ...]
    meta: Any

    def place(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """Return the block that belongs to a place of the grid."""
        if self.axes == tuple(range(len(at))):
            return at
        return tuple(0 if axis is None else at[axis] for axis in self.axes)

    def shape(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of that block."""
        return tuple(along[i] for along, i in zip(self.chunks, self.place(at), strict=True))


class Blocks:
    """A function of the blocks of arrays.

    Parameters
    ----------
    grid : tuple of int
        How many blocks there are along each axis.
    inputs : sequence of Layout
        Its inputs. An array that is not cut along an axis of the grid is passed to all blocks along it.
    outputs : list of tuple, or tuple
        The axes of each result, or of all of them. A result that is not cut along an axis of the grid is summed along
        it.
    program : callable
        Takes a place of the grid, returns the program of the blocks there; called once for each kind of place.
    ins, outs : sequence of (Exchange or None), optional
        How its input blocks are assembled, and how the results are assembled from its output blocks (or one for all).
    name : str, optional
        The name of the function that the user called.

    Attributes
    ----------
    programs : dict of tuple to Program
        By the kind of place.
    derived : dict
        Its derivatives, by kind.
    """

    def __init__(
        self,
        grid: tuple[int, ...],
        inputs: Sequence[Layout],
        outputs: list[Axes] | Axes,
        program: Callable[[tuple[int, ...]], Program],
        ins: Sequence[Exchange | None] = (),
        outs: Sequence[Exchange | None] | Exchange = (),
        name: str = "map_blocks",
    ) -> None:
        self.grid, self.inputs, self.name = grid, tuple(inputs), name
        self.derived: dict[Any, Blocks] = {}
        self.numbers = numbers_of(grid, inputs)
        self.places = places_of(self.numbers)
        self.programs = {self.kind(at): program(at) for at in self.places}
        count = len(self.program(self.first).outputs)
        each = outputs if isinstance(outputs, list) else [outputs] * count
        if len(each) != count:
            raise ValueError(f"the function gives {count} results, where {len(each)} are expected{called()}")
        self.outputs = tuple(self._layout(j, axes) for j, axes in enumerate(each))
        self.ins = tuple(ins) or (None,) * len(self.inputs)
        self.outs = (outs,) * count if isinstance(outs, Exchange) else tuple(outs) or (None,) * count
        self._kinds: dict[Any, BlockProgram] = {}

    @property
    def first(self) -> tuple[int, ...]:
        """The first place of the grid."""
        return (0,) * len(self.grid)

    def kind(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """Return the key that places share whose blocks have the same shapes."""
        return tuple(numbers[i] for numbers, i in zip(self.numbers, at, strict=True))

    def program(self, at: tuple[int, ...]) -> Program:
        """Return the program that runs at a place of the grid."""
        return self.programs[self.kind(at)]

    def _layout(self, j: int, axes: Axes) -> Layout:
        """Return how a result is cut, as determined by its blocks."""

        def shape(at: tuple[int, ...]) -> tuple[int, ...]:
            program = self.program(at)
            return program.shapes[program.outputs[j]].shape

        if len(shape(self.first)) != len(axes):
            raise ValueError(
                f"the function gives blocks of shape {shape(self.first)} for blocks of {len(self.grid)} axes, where"
                f" {len(axes)} axes are expected: drop_axis= names the axes it removes, new_axis= those it adds{called()}"
            )
        along = [
            [
                shape(self.first if axis is None else (*self.first[:axis], i, *self.first[axis + 1 :]))[d]
                for i in range(n)
            ]
            for d, (axis, n) in enumerate((axis, 1 if axis is None else self.grid[axis]) for axis in axes)
        ]
        dtype = self.program(self.first).shapes[self.program(self.first).outputs[j]].dtype
        meta = np.empty_like(self.inputs[0].meta, shape=(0,) * len(axes), dtype=np.dtype(dtype))
        made = Layout(axes, tuple(map(tuple, along)), meta)
        for at in self.places:
            if made.shape(at) != shape(at):
                raise ValueError(
                    f"the function gives a block of shape {shape(at)} beside others that need one of shape"
                    f" {made.shape(at)} there{called()}"
                )
        return made

    @once
    def used(self) -> list[bool]:
        """Which of the inputs the programs use."""
        used = [any(p.inputs[i] in _read(p) for p in self.programs.values()) for i in range(len(self.inputs))]
        used[0] |= not any(used)  # it determines where a block is, and its library
        return used

    @once
    def nbytes(self) -> int:
        """The largest size of the results at one place, in bytes."""
        return max(sum(p.shapes[number].nbytes for number in set(p.outputs)) for p in self.programs.values())

    def arrays(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results, as Dask arrays; tasks depend on no block that their programs do not use."""
        layouts, ins = chosen(self.inputs, self.used), chosen(self.ins, self.used)
        found = []
        for x, layout, exchange in zip(chosen(operands, self.used), layouts, ins, strict=True):
            chunks = layout.chunks if exchange is None else exchange.given
            found.append(source(x if x.chunks == chunks else x.rechunk(chunks), exchange))
        unique = uuid.uuid4().hex
        name, table = f"blocks-{unique}", f"programs-{unique}"
        tasks: dict[Any, Any] = {}
        alike: dict[Any, list[int]] = {}
        for i, each in enumerate(found):
            alike.setdefault((each.base, each.exchange, layouts[i].axes), []).append(i)
        needed = [
            (layouts[some[0]], Needed(found[some[0]], tuple(found[i].part for i in some), f"{name}-{n}", tasks))
            for n, some in enumerate(alike.values())
        ]
        order = [i for some in alike.values() for i in some]
        numbers: dict[Any, int] = {}
        runs: list[BlockTask] = []
        every = list(itertools.product(*map(range, self.grid)))
        for at in every:
            refs: list[Any] = []
            puts: list[Put] = []
            for layout, need in needed:
                place = layout.place(at)
                puts += need.puts(place, len(refs))
                refs += need.at(place)
            key = self.kind(at), tuple(puts)
            if key not in numbers:
                numbers[key] = len(runs)
                runs.append(self._running(at, puts, order))
            tasks[name, *at] = Task((name, *at), _run, TaskRef(table), numbers[key], *refs)
        tasks[table] = DataNode(table, runs)
        whole = [layout for layout in self.outputs if layout.axes == tuple(range(len(self.grid)))]
        layer = _layer(tasks, whole[0].chunks, whole[0].meta.dtype) if whole else MaterializedLayer(tasks)
        graph = _with_layers([each.graph for each in found], {name: layer}, {each.base for each in found})
        made = [self._result(graph, name, j) for j in range(len(self.outputs))]
        above = _with_layers([graph], {each.name: each for each in made}, {name})
        results = [self._array(above, each, j) for j, each in enumerate(made)]
        origins.note(self.name, (*operands, *(each.base for each in found)), tuple(results))
        return tuple(map(self._whole, results, made))

    def _running(self, at: tuple[int, ...], puts: Sequence[Put], order: Sequence[int]) -> BlockTask:
        """Return the work at a place, and at similar ones: how it assembles blocks, and their order among the inputs."""
        kind = self._kinds.get(self.kind(at))
        if kind is None:
            layouts = chosen(self.inputs, self.used)
            shapes = [layout.shape(at) for layout in layouts]
            kind = self._kinds[self.kind(at)] = _kind(self.program(at), shapes, layouts, self.used)
        inverse = sorted(range(len(order)), key=order.__getitem__)
        return BlockTask(kind, tuple(puts[i] for i in inverse))

    def _result(self, graph: HighLevelGraph, name: str, j: int) -> Assembled:
        """Return the layer of one of the results, whose blocks are parts of the tasks' results."""
        layout, exchange = self.outputs[j], self.outs[j]
        added = tuple(axis for axis, n in enumerate(self.grid) if n > 1 and axis not in layout.axes)
        chunks = layout.chunks if exchange is None else exchange.made
        said = {"chunks": (*((1,) * self.grid[axis] for axis in added), *chunks), "dtype": layout.meta.dtype}
        made = BlockSource(name, j, exchange, self.nbytes, graph)
        return Assembled(f"{name}-{j}", made, self.grid, layout.axes, added, said)

    def _array(self, graph: HighLevelGraph, layer: Assembled, j: int) -> Any:
        said = layer.collection_annotations or {}
        meta = self.outputs[j].meta[(None,) * len(layer.added)]
        return da.Array(graph, layer.name, said["chunks"], meta=meta, dtype=said["dtype"])

    @staticmethod
    def _whole(made: Any, layer: Assembled) -> Any:
        """Return a result, summed over the places of tasks that each have a part of it."""
        return added_up(made, axis=tuple(range(len(layer.added))), dtype=made.dtype) if layer.added else made

    # -- derivatives ------------------------------------------------------------------------------------------------------

    def pulled(self, needs: tuple[bool, ...], given: tuple[bool, ...]) -> Blocks:
        """Return the function from operands and some results' cotangents to the cotangents of the operands that need one."""
        inputs = (*self.inputs, *chosen(self.outputs, given))
        wanted = [layout.axes for layout in chosen(self.inputs, needs)]
        ins, outs = (*self.ins, *map(_back, chosen(self.outs, given))), tuple(map(_back, chosen(self.ins, needs)))
        make = functools.partial(_pulled, needs, given)
        return self._derived(("pulled", needs, given), make, self.grid, inputs, wanted, ins, outs)

    def pushed(self, given: tuple[bool, ...]) -> Blocks:
        """Return the function from operands and some operands' tangents to the results' tangents."""
        inputs = (*self.inputs, *chosen(self.inputs, given))
        wanted = [layout.axes for layout in self.outputs]
        ins = *self.ins, *(each and each.linear for each in chosen(self.ins, given))
        make = functools.partial(_pushed, given)
        return self._derived(("pushed", given), make, self.grid, inputs, wanted, ins, self.outs)

    def batched(self, which: tuple[bool, ...], lengths: tuple[int, ...]) -> Blocks:
        """Return the function of operands some of which have an additional last axis, in blocks of these lengths; so do the results."""
        axis = len(self.grid)

        def longer(layout: Layout) -> Layout:
            return layout._replace(axes=(*layout.axes, axis), chunks=(*layout.chunks, lengths))

        def along(each: Exchange | None) -> Exchange | None:
            return None if each is None else each.beside(lengths)

        inputs = [longer(layout) if has else layout for layout, has in zip(self.inputs, which, strict=True)]
        ins = [along(each) if has else each for each, has in zip(self.ins, which, strict=True)]
        wanted = [(*layout.axes, axis) for layout in self.outputs]
        make, grid = functools.partial(_mapped, which), (*self.grid, len(lengths))
        key = "batched", which, lengths
        return self._derived(key, make, grid, inputs, wanted, ins, tuple(map(along, self.outs)), recorded=False)

    def _derived(
        self,
        key: Any,
        make: Callable[[Program], Any],
        grid: tuple[int, ...],
        inputs: Sequence[Layout],
        wanted: list[Axes],
        ins: Sequence[Exchange | None],
        outs: Sequence[Exchange | None],
        *,
        recorded: bool = True,
    ) -> Blocks:
        if key not in self.derived:

            def program(at: tuple[int, ...]) -> Program:
                blocks = [like(layout.meta, layout.shape(at)) for layout in inputs]
                for block in blocks:  # the derivative must itself be differentiable
                    block.requires_grad = recorded and spec_of_value(block).inexact
                own = self.program(at[: len(self.grid)])
                return _with_outputs(PerShape(make(own), pure=True).of(tuple(blocks), {}).program)

            self.derived[key] = Blocks(grid, inputs, wanted, program, ins, outs, self.name)
        return self.derived[key]


def _with_layers(graphs: Iterable[HighLevelGraph], layers: dict[str, Layer], needs: set[str]) -> HighLevelGraph:
    """Return the content of some graphs with additional layers that depend on those with some names."""
    every: dict[str, Layer] = {}
    below: dict[str, set[str]] = {}
    for graph in {id(graph): graph for graph in graphs}.values():
        every.update(graph.layers)
        below.update(graph.dependencies)
    made = HighLevelGraph({}, below | dict.fromkeys(layers, needs))
    made.layers = every | layers  # the constructor would visit each of these, at every step in time
    return made


def _back(exchange: Exchange | None) -> Exchange | None:
    return None if exchange is None else exchange.transposed


def _layer(tasks: dict[Any, Any], chunks: Any, dtype: Any) -> MaterializedLayer:
    """Return a layer of a graph that declares the size of its blocks, as array layers do."""
    layer = MaterializedLayer(tasks)
    layer.collection_annotations = {"chunks": chunks, "dtype": dtype}
    return layer


def numbers_of(grid: tuple[int, ...], inputs: Sequence[Layout]) -> list[list[int]]:
    """Return, by axes of the grid and places along them, a number shared by places whose blocks have the same lengths."""
    numbers = []
    for axis, count in enumerate(grid):
        along = [layout.chunks[layout.axes.index(axis)] for layout in inputs if axis in layout.axes]
        found: dict[Any, int] = {}
        lengths = zip(*along, strict=True) if along else [()] * count
        numbers.append([found.setdefault(each, len(found)) for each in lengths])
    return numbers


def places_of(numbers: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the first place of the grid of each kind."""
    return list(itertools.product(*({number: along.index(number) for number in along}.values() for along in numbers)))


def _with_outputs(program: Program) -> Program:
    """Return a program whose outputs are all results of the function, in order, including operands that it returns."""
    assert program.results is not None
    assert program.arguments is not None
    outputs = []
    for leaf in program.results.leaves:
        if not isinstance(leaf, Leaf | Given):
            raise TypeError(f"a function of blocks returns tensors, or containers of them; got {leaf!r}{called()}")
        outputs.append(leaf.number if isinstance(leaf, Leaf) else program.arguments.leaves[leaf.place].number)
    return program.replaced(outputs=tuple(outputs))


def _read(program: Program) -> set[int]:
    """Return the numbers of the values that a program reads."""
    return {*program.outputs, *(number for step in program.steps for number in step.refs)}


def _kind(
    program: Program, shapes: Sequence[tuple[int, ...]], layouts: Sequence[Layout], used: Sequence[bool]
) -> BlockProgram:
    """Return the work on blocks of these shapes, for some of the inputs."""
    program = program.replaced(inputs=tuple(chosen(program.inputs, used)))
    blocks = tuple((shape, layout.meta.dtype) for layout, shape in zip(layouts, shapes, strict=True))
    places = tuple((i, i) for i in range(len(blocks)))
    small = all(math.prod(shape) * layout.meta.itemsize <= SMALL for layout, shape in zip(layouts, shapes, strict=True))
    return BlockProgram(
        program, blocks, [None] * len(blocks), places, (), tuple(range(len(program.outputs))), keep=small
    )


class BlockTask(NamedTuple):
    """The work of a task: assemble its blocks, and run a program on them."""

    kind: BlockProgram
    puts: tuple[Put, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of the blocks that it assembles."""
        blocks = zip(self.puts, self.kind.blocks, strict=True)
        return sum(put.assembly.elements * dtype.itemsize for put, (_, dtype) in blocks if put.assembly is not None)

    @property
    def views(self) -> list[int]:
        """Which of the task's arguments it uses directly: results may share their memory."""
        return [put.first for put in self.puts if put.assembly is None or put.assembly.is_view]


def _run(table: Sequence[BlockTask], number: int, *given: Any) -> list[Any]:
    """Run one of the programs on a task's arguments."""
    kind, puts = table[number]
    blocks = [put(given) for put in puts]
    if not kind.fits(blocks):
        which = [f"{block.dtype}{list(block.shape)}" for block in blocks]
        raise TypeError(
            f"blocks are {', '.join(which)}, which is not what the Dask arrays say of themselves: pass dtype= and meta= where"
            " they are made"
        )
    return kind.run(blocks, ag.random.default_generator)


def _one_after_the_other(
    programs: Sequence[Program],
    steps: Sequence[Sequence[Layout]],
    borders: Sequence[tuple[Border, ...]],
    at: tuple[int, ...],
) -> Program:
    """Return the program of several steps at a place: each runs on the result of the previous one, without the parts it does not need.

    Parameters
    ----------
    steps, borders : sequence of sequence of Layout, sequence of tuple of Border
        The layouts and borders of the inputs of each.
    """
    shapes = [[layout.shape(at) for layout in layouts] for layouts in steps]
    cuts: list[list[tuple[slice, ...]]] = []
    for own, (more, less) in zip(shapes[1:], itertools.pairwise(borders), strict=True):
        front = {a.axis: a.before[at[a.axis]] - b.before[at[a.axis]] for a, b in zip(more, less, strict=True)}
        cuts.append([])
        for layout, shape in zip(steps[0], own, strict=True):
            starts = [0 if axis is None else front.get(axis, 0) for axis in layout.axes]
            cuts[-1].append(tuple(slice(start, start + n) for start, n in zip(starts, shape, strict=True)))

    def run(*values: Tensor) -> tuple[Tensor, ...]:
        made = _on(programs[0], values)
        for program, own in zip(programs[1:], cuts, strict=True):
            values = tuple(x[cut] for x, cut in zip((*made, *values[len(made) :]), own, strict=True))
            made = _on(program, values)
        return tuple(made)

    blocks = [like(layout.meta, layout.shape(at)) for layout in steps[0]]
    for block in blocks:
        block.requires_grad = spec_of_value(block).inexact
    return _with_outputs(PerShape(run, pure=True).of(tuple(blocks), {}).program)


def chosen(values: Sequence[T], which: Sequence[bool]) -> list[T]:
    """Return the values that are marked."""
    return [value for value, is_one in zip(values, which, strict=True) if is_one]


def _on(program: Program, values: Sequence[Any]) -> list[Tensor]:
    backend = spec_of_value(values[0]).backend
    return program.on_tensors(backend, list(values))


def _pulled(needs: Sequence[bool], given: Sequence[bool], program: Program) -> Callable[..., Any]:
    """Return the function that pulls cotangents through a program."""

    def pull(*values: Tensor) -> Any:
        operands, cotangents = values[: len(needs)], values[len(needs) :]

        def results(*some: Tensor) -> tuple[Tensor, ...]:
            changing = iter(some)
            every = [next(changing) if need else x for x, need in zip(operands, needs, strict=True)]
            return tuple(chosen(_on(program, every), given))

        return ag.func.vjp(results, *chosen(operands, needs))[1](cotangents)

    return pull


def _pushed(given: Sequence[bool], program: Program) -> Callable[..., Any]:
    """Return the function that pushes tangents through a program."""

    def push(*values: Tensor) -> Any:
        operands, tangents = values[: len(given)], values[len(given) :]

        def results(*some: Tensor) -> tuple[Tensor, ...]:
            changing = iter(some)
            return tuple(_on(program, [next(changing) if has else x for x, has in zip(operands, given, strict=True)]))

        return ag.func.jvp(results, tuple(chosen(operands, given)), tangents)[1]

    return push


def _mapped(which: Sequence[bool], program: Program) -> Callable[..., Any]:
    """Return the function that maps a program over the last axis of some operands."""

    def results(*values: Tensor) -> tuple[Tensor, ...]:
        return tuple(_on(program, values))

    return ag.vmap(results, in_dims=tuple(-1 if has else None for has in which), out_dims=-1)


def _axis_last(operands: Sequence[Tensor], dims: Sequence[int | None]) -> list[Tensor]:
    """Return operands with the mapped axis last, where they are mapped over."""
    return [x if d is None else ag.moveaxis(x, d, -1) for x, d in zip(operands, dims, strict=True)]


class MapBlocks(ag.Function):
    """A function of blocks, applied to tensors that are cut in a given way."""

    @staticmethod
    def forward(ctx: Any, blocks: Blocks, *operands: Tensor) -> Any:
        ctx.blocks = blocks
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*operands)
        return blocks.arrays([array_of(x) for x in operands])

    @staticmethod
    def backward(ctx: Any, *cotangents: Any) -> Any:
        needs, given = ctx.needs_input_grad[1:], tuple(g is not None for g in cotangents)
        pulled = ctx.blocks.pulled(needs, given)
        found = iter(MapBlocks.apply(pulled, *ctx.saved_tensors, *chosen(cotangents, given)))
        return None, *(next(found) if need else None for need in needs)

    @staticmethod
    def jvp(ctx: Any, _blocks: Any, *tangents: Any) -> Any:
        given = tuple(t is not None for t in tangents)
        return MapBlocks.apply(ctx.blocks.pushed(given), *ctx.saved_tensors, *chosen(tangents, given))

    @staticmethod
    def vmap(_info: Any, in_dims: Any, blocks: Blocks, *operands: Tensor) -> Any:
        which = tuple(d is not None for d in in_dims[1:])
        moved = [x.to_device("dask") for x in _axis_last(operands, in_dims[1:])]
        made = MapBlocks.apply(blocks.batched(which, chosen(moved, which)[0].chunks[-1]), *moved)
        return made, (-1,) * len(made)


# -- the calls ----------------------------------------------------------------------------------------------------------


class MappedFunction(PerShape):
    """A caller's function, with its programs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.blocks: dict[Any, tuple[Blocks, Any]] = {}

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept:
        """Return its program for blocks, which can be differentiated."""
        try:
            found = super().of(args, kwargs)
        except CaptureError as error:
            own = error.__cause__
            if own is not None and not isinstance(own, NeedsValuesError):  # an error of its own is more specific
                raise own from None
            raise CaptureError(f"{error}{called()}") from None
        self.confirm(found, args, kwargs)
        if found.keys or found.program.functions:
            what = (
                f"uses the Function {found.program.functions[0]}" if found.program.functions else "draws random numbers"
            )
            raise CaptureError(
                f"capture: a function of blocks is differentiated as a program, and this one {what}{called()}"
            )
        return found


@functools.lru_cache(maxsize=MAX_FUNCTIONS)
def mapped(function: Callable[..., Any]) -> MappedFunction:
    """Return the cached data of a function."""
    return MappedFunction(function)


class Unmapped(ag.Function):
    """A call with operands that vmap maps over, done with all examples at once."""

    @staticmethod
    def vmap(
        _info: Any, in_dims: Any, call: BlocksCall, work: Callable[[BlocksCall], list[Tensor]], *operands: Tensor
    ) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
        dims = in_dims[2:]
        whole = call.over(_axis_last(operands, dims), tuple(d is not None for d in dims))
        made = tuple(whole.unmapped(work))
        call.results = whole.results
        return made, (-1,) * len(made)


class BlocksCall:
    """A call: Dask arrays among the arguments are cut, others are passed to every block.

    Parameters
    ----------
    name : str
        The name of the function that was called.
    function : callable
        The function of blocks.
    args, kwargs : tuple, dict
        Its arguments.
    core : tuple of int, optional
        How many of the last axes of the first arguments are in one block; arrays in memory are then cut along the
        others, too.

    Attributes
    ----------
    operands : list of Tensor
        The arrays among the arguments.
    batches : tuple
        For each call of vmap around it, the innermost first: which operands have an additional last axis from it, and
        the lengths of the blocks along it.
    """

    def __init__(
        self,
        name: str,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        core: tuple[int, ...] | None = None,
    ) -> None:
        self.name, self.function = name, function
        self.leaves, self.structure = tree.flatten((args, kwargs))
        for leaf in self.leaves:
            if type(leaf).__module__.startswith("xarray."):
                raise TypeError(
                    f"agrad_dask.{name} takes arrays and tensors, got a {type(leaf).__name__}: give what it holds, a.data; "
                    f"a.copy(data=...) puts its labels on the result{called()}"
                )
        not_recorded(f"agrad_dask.{name} makes programs of its own, of blocks")
        self.places = [i for i, x in enumerate(self.leaves) if isinstance(x, Tensor) or backend_of(x) is not None]
        self.floats = [i for i, x in enumerate(self.leaves) if type(x) is float]
        self.operands = [ag.asarray(self.leaves[i]) for i in self.places]
        self.core = None if core is None else [core[i] if i < len(core) else None for i in self.places]
        self.batches: tuple[tuple[tuple[bool, ...], tuple[int, ...]], ...] = ()
        #: The structure of the results, once it has run.
        self.results: tree.TreeDef | None = None

    def through(self, work: Callable[[BlocksCall], list[Tensor]]) -> Any:
        """Return the assembled results of an action on a call; within vmap, on the call of all examples."""
        results = self.unmapped(work)
        assert self.results is not None
        return tree.unflatten(self.results, results)

    def unmapped(self, work: Callable[[BlocksCall], list[Tensor]]) -> list[Tensor]:
        """Perform an action on a call without operands that vmap maps over."""
        if any(spec_of_value(x).backend.is_batched for x in self.operands):
            return list(Unmapped.apply(self, work, *self.operands))
        return work(self)

    def over(self, operands: list[Tensor], which: tuple[bool, ...]) -> BlocksCall:
        """Return the call in which some operands have an additional last axis, which is mapped over."""
        call = copy.copy(self)
        call.operands = operands
        axis = [x for x, has in zip(operands, which, strict=True) if has]
        lengths = next((x.chunks[-1] for x in axis if data_of(x) is not None), (axis[0].shape[-1],))
        call.batches = (*self.batches, (which, lengths))
        return call

    def _shape(self, i: int) -> tuple[int, ...]:
        """Return the shape of an operand without the axes added by vmap."""
        x = self.operands[i]
        return tuple(x.shape[: x.ndim - sum(which[i] for which, _ in self.batches)])

    def _cuttable(self, i: int) -> tuple[int, ...]:
        """Return the lengths of an operand along the axes by which it may be cut."""
        if self.core is None:
            return () if data_of(self.operands[i]) is None else self._shape(i)
        core = self.core[i]
        return () if core is None else self._shape(i)[: len(self._shape(i)) - core]

    @once
    def lead(self) -> Tensor:
        """The array that determines the blocks of the others."""
        cut = [i for i, x in enumerate(self.operands) if data_of(x) is not None]
        if not cut:
            raise ValueError(f"no argument is a Dask array: in memory, call the function itself{called()}")
        if any(math.isnan(n) for i in cut for n in self.operands[i].shape):
            raise ValueError(
                f"agrad_dask.{self.name} needs arrays of known sizes: array.compute_chunk_sizes(){called()}"
            )
        return self.operands[max(cut, key=lambda i: len(self._cuttable(i)))]

    @once
    def sources(self) -> list[tuple[int, int]]:
        """For each axis of the grid, the operand that determines all blocks along it, and its axis."""
        lead = next(i for i, x in enumerate(self.operands) if x is self.lead)
        if self.core is None:
            return [(lead, axis) for axis in range(len(self._shape(lead)))]
        every = [lead, *(i for i in range(len(self.operands)) if i != lead)]
        ndim = max(len(self._cuttable(i)) for i in every)
        found = []
        for axis in range(ndim):
            behind = ndim - axis
            have = [i for i in every if len(self._cuttable(i)) >= behind]
            i = next((i for i in have if self._cuttable(i)[-behind] != 1), have[0])
            found.append((i, len(self._cuttable(i)) - behind))
        return found

    def axes(self, i: int) -> Axes:
        """Return along which axes of the grid an operand is cut: the last ones correspond, as in broadcasting."""
        shape, own = self._shape(i), self._cuttable(i)
        ndim = len(self.sources)
        whole = [self._cuttable(j)[axis] for j, axis in self.sources]
        axes = range(ndim - len(own), ndim)
        if any(n not in (1, whole[a]) for a, n in zip(axes, own, strict=True)):
            raise ValueError(
                f"agrad_dask.{self.name}: Dask arrays of shapes {tuple(whole)} and {own} are not cut alike;"
                f" arrays in memory are passed to every block whole{called()}"
            )
        found = tuple(a if n == whole[a] else None for a, n in zip(axes, own, strict=True))
        batch = (ndim + level for level, (which, _) in enumerate(self.batches) if which[i])
        return (*found, *(None,) * (len(shape) - len(own)), *batch)

    def with_blocks(self, blocks: Sequence[Any]) -> Any:
        """Return the arguments for some blocks."""
        leaves = list(self.leaves)
        for i, block in zip(self.places, blocks, strict=True):
            leaves[i] = block
        return tree.unflatten(self.structure, leaves)

    def layouts(
        self, operands: list[Tensor], borders: Sequence[Border] = ()
    ) -> tuple[tuple[tuple[int, ...], ...], list[Layout]]:
        """Cut operands in the same way, into blocks no shorter than borders; return the lengths of these, and the cut of each operand.

        All without the axes added by vmap.
        """
        long = {border.axis: border.lengths for border in borders}
        found = [operands[i].to_device("dask").chunks[axis] for i, axis in self.sources]
        lead = tuple(long.get(axis, tuple(along)) for axis, along in enumerate(found))
        chunks = (*lead, *(lengths for _, lengths in self.batches))
        layouts = []
        for i in range(len(self.operands)):
            whole, own = self._cut(operands, i, chunks, self.axes(i)), len(self._shape(i))
            layouts.append(whole._replace(axes=whole.axes[:own], chunks=whole.chunks[:own]))
        return lead, layouts

    def run(
        self,
        outputs: list[Axes] | Axes | None = None,
        borders: Sequence[tuple[Border, ...]] = ((),),
        *,
        trim: bool = True,
    ) -> list[Tensor]:
        """Call the function on all blocks of the operands, with borders; for several steps, again on its results, with the next borders.

        Parameters
        ----------
        outputs : list of tuple, or tuple, optional
            Along which axes of the grid each result is cut, or all of them are. Default: all axes.
        borders : sequence of tuple of Border
            The borders of each step: the last ones are trimmed from the results; of the others, as much as the next
            step provides.
        """
        operands = list(self.operands)
        chunks, cut = self.layouts(operands, borders[0])
        outputs = tuple(range(len(chunks))) if outputs is None else outputs
        ins = [[putting(layout.chunks, layout.axes, own) for layout in cut] for own in borders]
        steps = [
            [x if put is None else x._replace(chunks=put.made) for x, put in zip(cut, own, strict=True)] for own in ins
        ]
        grid = tuple(map(len, chunks))
        of_function = mapped(self.function)
        kept = {at: [self._kept(of_function, own, at) for own in steps] for at in places_of(numbers_of(grid, steps[0]))}
        outside = {way: x for some in kept.values() for each in some for _, way, x in _outside(each.program)}
        others = [np.asarray(self.leaves[i]) for i in self.floats] + list(outside.values())
        for x in others:
            operands.append(ag.asarray(x))
            if data_of(x) is not None:
                raise TypeError(
                    f"the function uses a Dask array of shape {tuple(x.shape)} that is not among its arguments: pass it, so that"
                    f" it is cut as they are{called()}"
                )
            layout = self._cut(operands, len(operands) - 1, chunks, (None,) * operands[-1].ndim)
            steps = [[*own, layout] for own in steps]
        puts = (*ins[0], *(None,) * len(others))
        programs = tuple(id(each.program) for some in kept.values() for each in some)
        key = chunks, tuple(layout[:2] for layout in steps[0]), programs, tuple(outputs), puts, trim
        made, _ = of_function.blocks.get(key, (None, None))
        if made is None:
            outs = cutting(chunks, borders[-1]) if borders[-1] and trim else ()

            def program(at: tuple[int, ...]) -> Program:
                both = zip(kept[at], steps, strict=True)
                found = [self._program(each.program, list(outside), own) for each, own in both]
                return found[0] if len(found) == 1 else _one_after_the_other(found, steps, borders, at)

            made = Blocks(grid, steps[0], outputs, program, puts, outs, self.name)
            if isinstance(outs, Exchange):
                self._check_lengths(made, outs, chunks)
            while len(of_function.blocks) >= MAX_FUNCTIONS:
                of_function.blocks.pop(next(iter(of_function.blocks)), None)
            of_function.blocks[key] = made, kept  # while these live, they are not replaced by other programs
        first = next(iter(kept.values()))[0].program.results
        assert first is not None
        self.results = first.treedef
        for which, lengths in self.batches:
            made = made.batched((*which, *(False,) * (len(operands) - len(which))), lengths)
        return list(MapBlocks.apply(made, *operands))

    def _kept(self, of_function: MappedFunction, layouts: Sequence[Layout], at: tuple[int, ...]) -> Kept:
        """Return the program for the blocks of a place."""
        try:
            return of_function.of(*self.with_blocks([like(layout.meta, layout.shape(at)) for layout in layouts]))
        except Exception as error:
            self._note_uncut(error)
            raise

    def together(self, steps: int, borders: Sequence[tuple[Border, ...]]) -> int:
        """Return how many of some steps are worth combining in a task, given the borders for 1, 2, 3... of them.

        Raises
        ------
        ValueError
            If the results of a step do not match the first arguments.
        """
        whole, cut = self.layouts(list(self.operands), borders[0])
        chunks = tuple(max(along) for along in whole)
        puts = [putting(layout.chunks, layout.axes, borders[0]) for layout in cut]
        cut = [x if put is None else x._replace(chunks=put.made) for x, put in zip(cut, puts, strict=True)]
        at = (0,) * len(chunks)
        program = _with_outputs(self._kept(mapped(self.function), cut, at).program)
        made = [program.shapes[number] for number in program.outputs]
        first = [Shaped(layout.shape(at), str(layout.meta.dtype)) for layout in cut[: len(made)]]
        states = self.places[: len(made)] == list(range(len(made)))
        if not states or [(x.shape, str(x.dtype)) for x in made] != [(x.shape, str(x.dtype)) for x in first]:
            raise ValueError(
                "with steps= what the function gives takes the place of its first arguments: blocks of these are"
                f" {', '.join(f'{x.dtype}{list(x.shape)}' for x in first)}, and it gives"
                f" {', '.join(f'{x.dtype}{list(x.shape)}' for x in made)}{called()}"
            )
        nbytes = sum(shape.nbytes for shape in program.shapes.values())
        nbytes *= math.prod(max(lengths) for _, lengths in self.batches)
        sizes = []
        for own in borders[:steps]:
            longest = {border.axis: max(border.whole) for border in own}
            sizes.append(math.prod(longest.get(axis, n) for axis, n in enumerate(chunks)))
        count = 1
        while (
            count < min(steps, len(borders))
            and sum(sizes[: count + 1]) <= MORE_WORK * (count + 1) * sizes[0]
            and (count + 1) * nbytes <= MADE
        ):
            count += 1
        return count

    @staticmethod
    def _check_lengths(made: Blocks, outs: Exchange, lengths: Sequence[tuple[int, ...]]) -> None:
        """Check that results are as long as blocks with their borders."""
        for layout in made.outputs:
            for axis, (found, whole) in enumerate(zip(layout.chunks, outs.given, strict=True)):
                if found != whole:
                    raise ValueError(
                        f"the function gives blocks of lengths {found} along axis {axis}, of blocks of lengths {whole} with their"
                        f" borders, {lengths[axis]} without: give results as long, or cut the borders off and pass trim=False"
                        f"{called()}"
                    )

    def _note_uncut(self, error: Exception) -> None:
        """Name the arrays in memory that are as large as the cut arrays, but are not cut."""
        for x in self.operands:
            if x.ndim and data_of(x) is None and x.shape == self.lead.shape:
                error.add_note(
                    f"An argument of shape {tuple(x.shape)} is not a Dask array: every block got all of it. Only Dask arrays are cut:"
                    " pass dask.array.from_array(y, chunks=...)."
                )

    def _cut(self, operands: list[Tensor], i: int, chunks: Any, axes: Axes) -> Layout:
        """Cut an operand like the leading one."""
        x = operands[i]
        wanted = tuple((n,) if a is None else tuple(chunks[a]) for a, n in zip(axes, x.shape, strict=True))
        operands[i] = x = _in_chunks(x.to_device("dask"), dict(enumerate(wanted)))
        return Layout(axes, wanted, array_of(x)._meta)

    def _program(self, program: Program, outside: Sequence[Any], layouts: Sequence[Layout]) -> Program:
        """Return a program whose inputs are the operands, the floats and the outer values, in this order."""
        assert program.arguments is not None
        leaves = program.arguments.leaves
        found = {way: number for number, way, _ in _outside(program)}
        numbers = [getattr(leaves[i], "number", None) for i in (*self.places, *self.floats)] + [
            found.get(way) for way in outside
        ]
        spare, shapes, inputs = itertools.count(program.next_number()), dict(program.shapes), []
        for number, layout in zip(numbers, layouts, strict=True):
            if number is None:  # not needed for blocks of this shape
                number = next(spare)  # noqa: PLW2901
                shapes[number] = Shaped(tuple(map(sum, layout.chunks)), str(layout.meta.dtype))
            inputs.append(number)
        return _with_outputs(program.replaced(inputs=tuple(inputs), outside={}, shapes=shapes))


def _in_chunks(x: Tensor, chunks: dict[int, tuple[int, ...]]) -> Tensor:
    """Return a tensor with other chunks along some axes; itself if they are unchanged."""
    return x if all(x.chunks[axis] == lengths for axis, lengths in chunks.items()) else x.rechunk(chunks)


def _outside(program: Program) -> list[tuple[int, Any, Any]]:
    """Return the outer tensors and arrays of a program: number, path, and value."""
    return [(number, origin.way, origin.find()) for number, origin in program.outside.items()]


#: Arguments of Dask's functions of the same names that these do not take, and why.
REFUSED = {
    "name": "tasks are named here",
    "token": "tasks are named here",
    "meta": "what the function gives is known from its program",
    "enforce_ndim": "how many axes blocks have is always looked at",
    "align_arrays": "arrays are cut alike: rechunk them before",
    "allow_rechunk": "blocks that are shorter than a border are put together",
}
#: Arguments of Dask's function that `map_blocks` does not take.
OF_MAP_BLOCKS = dict.fromkeys(("chunks", "drop_axis", "new_axis"), "the results are as long as the blocks") | {
    "dtype": "what the function gives is known from its program"
}


def _refuse(name: str, kwargs: dict[str, Any]) -> None:
    """Raise TypeError for arguments that Dask's function would not pass to the function of blocks."""
    for key, why in (REFUSED if name == "map_blocks" else REFUSED | OF_MAP_BLOCKS).items():
        if key in kwargs:
            raise TypeError(
                f"agrad_dask.{name} takes no {key}=, {why}: leave it out; for an argument of the function's own of that name"
                f" give functools.partial(function, {key}=...){called()}"
            )


def _refuse_places(function: Callable[..., Any], kwargs: dict[str, Any]) -> None:
    """Raise TypeError for a function that asks Dask for the position of its block: blocks of one shape share one program."""
    try:
        asked = {"block_id", "block_info"} & inspect.signature(function).parameters.keys() - kwargs.keys()
    except (TypeError, ValueError):  # not every callable has a signature
        return
    if asked:
        raise TypeError(
            f"the function takes {min(asked)}, which agrad_dask.map_blocks does not pass: blocks of one shape share one"
            " program. Give it an array of the places, in the same chunks, as dask.array.arange(n, chunks=...)"
            f"{called()}"
        )


def _said_chunks(chunks: Any, found: tuple[tuple[int, ...], ...]) -> bool:
    """Return whether chunks, as Dask's map_blocks takes them, are those that were found."""
    if not isinstance(chunks, tuple | list) or len(chunks) != len(found):
        return False
    return all(
        tuple(own) == along if isinstance(own, tuple | list) else set(along) == {own}
        for own, along in zip(chunks, found, strict=True)
    )


def map_blocks(
    function: Callable[..., Any],
    *args: Any,
    dtype: Any = None,
    chunks: Any = None,
    drop_axis: int | Sequence[int] | None = None,
    new_axis: int | Sequence[int] | None = None,
    **kwargs: Any,
) -> Any:
    """Call a function on each block of Dask arrays, and assemble its results; differentiable, including everything it uses.

    Parameters
    ----------
    function : callable
        Takes tensors in memory, one block of each Dask array, in place of the arrays; returns a tensor, or a container
        of tensors. It is captured as a program, once for each shape of block, on tensors without elements.
    *args, **kwargs
        Its arguments. Dask arrays (tensors or raw) are cut in the same way, like the one with the most axes; those with
        fewer axes correspond to its last ones, as in broadcasting. Everything else is passed to every block unchanged:
        tensors and arrays in memory, which are differentiated too, and other values.
    dtype : dtype, optional
        The dtype of the results. It follows from the function: another one is an error, because nothing is converted.
    chunks : tuple, optional
        The lengths of the results' blocks: an int or a tuple for each axis. They also follow from the function.
    drop_axis : int or sequence of int, optional
        Axes that the results do not have; each is one block.
    new_axis : int or sequence of int, optional
        Axes of the results, counted without those dropped, that the input blocks do not have; each is one block.

    Returns
    -------
    Tensor or container of Tensor
        On Dask: the blocks that the function returns, at the positions of its input blocks.

    Raises
    ------
    CaptureError
        If no program can hold the function: it branches on a value or requests one, draws random numbers, writes to
        outer tensors, uses a `Function` or an operation with a library's kernel that reads values.
    CompileError
        If the function depends on Python state that no guard sees: the second, fourth, eighth call and so on capture it
        again, and it yields another program.
    ValueError
        If no argument is a Dask array, arrays cannot be cut in the same way, the results' blocks do not fit together,
        or differ from `dtype` or `chunks`.
    TypeError
        If it returns anything but tensors, an argument is a DataArray, or one of Dask's own that has no meaning here
        (``name``, ``token``, ``meta``, ``enforce_ndim``, and functions that take ``block_id`` or ``block_info``).

    Notes
    -----
    The derivatives, in reverse and forward mode and of any order, also run block by block, and recompute the block.
    Tensors that the function finds in its closure or in globals are differentiated like arguments. Under `vmap` the
    mapped axis is one more axis of the blocks, with that array's chunks.

    Examples
    --------
    >>> import agrad as ag, agrad_dask
    >>> x = ag.ones((6, 4), device="dask", chunks=(2, 4), requires_grad=True)
    >>> scale = ag.tensor(2.0, requires_grad=True)
    >>> def centred(block):
    ...     return scale * (block - ag.mean(block, axis=1, keepdims=True))
    >>> agrad_dask.map_blocks(centred, x).chunks
    ((2, 2, 2), (4,))
    >>> def moments(block):
    ...     return ag.stack([ag.mean(block, axis=1), ag.var(block, axis=1)])
    >>> agrad_dask.map_blocks(moments, x, drop_axis=1, new_axis=0).chunks
    ((2,), (2, 2, 2))
    """
    _refuse("map_blocks", kwargs)
    _refuse_places(function, kwargs)

    def work(call: BlocksCall) -> list[Tensor]:
        ndim = len(call.sources)
        dropped = {axis % ndim for axis in _several(drop_axis)}
        for axis in dropped:
            if (count := len(call.lead.chunks[axis])) > 1:
                raise ValueError(
                    f"axis {axis}, which drop_axis= names, has {count} blocks: x.rechunk({{{axis}: -1}}) puts it"
                    f" into one{called()}"
                )
        axes: list[int | None] = [axis for axis in range(ndim) if axis not in dropped]
        rank = len(axes) + len(_several(new_axis))
        for axis in sorted(axis % rank for axis in _several(new_axis)):
            axes.insert(axis, None)
        results = call.run(tuple(axes))
        for y in results:
            found = y.chunks[: len(axes)]
            if dtype is not None and array_of(y).dtype != np.dtype(getattr(dtype, "name", dtype)):
                raise ValueError(
                    f"dtype= says {dtype}, and the function gives {array_of(y).dtype}: leave it out, or convert in the function,"
                    f" agrad.astype{called()}"
                )
            if chunks is not None and not _said_chunks(chunks, found):
                raise ValueError(
                    f"chunks= says {chunks}, and the function gives blocks of lengths {found}: leave it out{called()}"
                )
        return results

    return BlocksCall("map_blocks", function, args, kwargs).through(work)


def _several(axes: int | Sequence[int] | None) -> Sequence[int]:
    return () if axes is None else (axes,) if isinstance(axes, int) else axes


def map_overlap(
    function: Callable[..., Any],
    *args: Any,
    depth: Any,
    boundary: Any = "none",
    trim: bool = True,
    steps: int = 1,
    **kwargs: Any,
) -> Any:
    """Call a function on each block of Dask arrays with a border from its neighbours; differentiable, including everything it uses.

    For stencils, filters and finite differences: functions that need some neighbours of each element.

    Parameters
    ----------
    function : callable
        As in `map_blocks`. Its results have the shape of its input blocks, borders included.
    *args, **kwargs
        As in `map_blocks`.
    depth : int, tuple or dict
        The number of elements of the neighbours that a block gets along each axis; in a tuple or dict (by axis) it may
        be a pair: before, and after.
    boundary : str or number, tuple or dict
        The values beyond the ends of the array, as in Dask: "none", where the first and last blocks get no border;
        "reflect", "periodic", "nearest", or a number.
    trim : bool, optional
        Cut the borders off the results. False, if the function has done so.
    steps : int, optional
        How often the function is called: each time, the previous results replace its first arguments. If all boundaries
        are periodic and chunks are small, a task does several steps, with a border that is deeper by this factor.

    Returns
    -------
    Tensor or container of Tensor
        On Dask.

    Raises
    ------
    CaptureError, CompileError, TypeError
        As in `map_blocks`.
    ValueError
        As in `map_blocks`; if `boundary` is unknown, the border is longer than the array, or the results of a step do
        not match the function's first arguments.

    Notes
    -----
    Backward adds the gradient of a border to that of the elements it was copied from; all of it block by block. Blocks
    shorter than the border are merged first.

    Examples
    --------
    A step of diffusion on a ring:

    >>> import agrad as ag, agrad_dask
    >>> u = ag.asarray([0.0, 0.0, 1.0, 0.0, 0.0, 0.0]).to_device("dask").rechunk(2)
    >>> def step(u, rate):
    ...     return u + rate * (ag.roll(u, 1) - 2 * u + ag.roll(u, -1))
    >>> agrad_dask.map_overlap(step, u, 0.25, depth=1, boundary="periodic").numpy()
    array([0.  , 0.25, 0.5 , 0.25, 0.  , 0.  ])
    """
    _refuse("map_overlap", kwargs)
    if steps < 1 or (steps > 1 and not trim):
        raise ValueError(f"steps is at least 1, and 1 where the function cuts the borders off, got {steps}{called()}")
    count = 1 if steps == 1 else 0

    def work(call: BlocksCall) -> list[Tensor]:
        nonlocal count
        borders = _borders(call.lead, len(call.sources), depth, boundary, min(steps, STEPS))
        count = count or call.together(steps, borders)
        return call.run(borders=borders[: min(count, steps)][::-1], trim=trim)

    while True:
        made = BlocksCall("map_overlap", function, args, kwargs).through(work)
        steps -= count
        if steps <= 0:
            return made
        state = tuple(made) if isinstance(made, tuple | list) else (made,)
        args = *state, *args[len(state) :]


def _borders(lead: Tensor, ndim: int, depth: Any, boundary: Any, steps: int) -> list[tuple[Border, ...]]:
    """Return the borders for a step, for two, three... as far as a task can do them: all blocks being alike, and long enough."""
    depths, kinds = coerce_depth(ndim, depth), coerce_boundary(ndim, boundary)
    axes = [axis for axis in depths if depths[axis] not in (0, (0, 0))]
    found = [tuple(Border.of(lead, axis, depths[axis], kinds[axis]) for axis in axes)]
    while found[0] and len(found) < steps and all(kinds[axis] == "periodic" for axis in axes):
        each = len(found) + 1
        deeper = {axis: each * np.asarray(depths[axis]) for axis in axes}
        if any(np.max(deeper[axis]) > min(lead.chunks[axis]) for axis in axes):
            break
        found.append(
            tuple(
                Border.of(lead, axis, tuple(map(int, np.broadcast_to(deeper[axis], 2))), kinds[axis]) for axis in axes
            )
        )
    return found
