"""Functions that run block by block, with a border from the neighbours where they need one, and are differentiated.

The function is captured once for each shape that blocks have, and its program runs in the tasks. Its derivatives, in either
mode and of any order, are functions of the same blocks, captured from these programs. A border is copied from the
neighbours before and cut off after; backward adds what the copies get to what they were copied from.

May import Dask; is imported when `agrad_dask.map_blocks` or `map_overlap` is first asked for.
"""

from __future__ import annotations

import functools
import itertools
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from typing import Any, NamedTuple, TypeVar

import dask.array as da
import numpy as np
from dask._task_spec import DataNode, Task, TaskRef
from dask.array.overlap import coerce_boundary, coerce_depth, ensure_minimum_chunksize, overlap_internal
from dask.highlevelgraph import HighLevelGraph

import agrad as ag
from agrad import numpy, tree
from agrad.core import errors
from agrad.core.backend import backend_of
from agrad.core.errors import called
from agrad.core.tensor import Tensor
from agrad.func.compiling import Compiled, Kept
from agrad.func.program import Given, Leaf, Program, Shaped
from agrad.func.recording import CaptureError
from agrad_dask import origins
from agrad_dask.losses import HOW, Kind, imagined
from agrad_dask.lowering import data_of

#: What NumPy calls these boundaries of Dask's.
_PADDING = {"reflect": "symmetric", "periodic": "wrap", "nearest": "edge"}

#: For how many functions, and layouts of the arrays they are called with, programs are kept.
KEPT = 16

T = TypeVar("T")

#: Along which axis of the grid of blocks each axis of an array is cut; None: it is in one block there.
Axes = tuple[int | None, ...]

errors.INTERNAL_FILES.add(__file__)


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
        One without elements, as Dask keeps it: the library of the blocks, and their dtype.
    """

    axes: Axes
    chunks: tuple[tuple[int, ...], ...]
    meta: Any

    def place(self, at: tuple[int, ...]) -> tuple[int, ...]:
        """Return which of the blocks belongs to a place of the grid."""
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
        What it takes. What is not cut along an axis of the grid is given to all blocks along it.
    outputs : list of tuple, or tuple
        The axes of each result, or of all of them. What is not cut along an axis of the grid is added up along it.
    program : callable
        Takes a place of the grid, gives the program of the blocks that belong there; called once for each kind of them.

    Attributes
    ----------
    programs : dict of tuple to Program
        By the shapes of the inputs' blocks.
    derived : dict
        Its derivatives, by what they are of.
    """

    def __init__(
        self,
        grid: tuple[int, ...],
        inputs: Sequence[Layout],
        outputs: list[Axes] | Axes,
        program: Callable[[tuple[int, ...]], Program],
    ) -> None:
        self.grid, self.inputs = grid, tuple(inputs)
        self.derived: dict[Any, Blocks] = {}
        self.places = places_of(grid, inputs)
        self.programs = {self.shapes(at): program(at) for at in self.places}
        count = len(self.program(self.first).outputs)
        each = outputs if isinstance(outputs, list) else [outputs] * count
        self.outputs = tuple(self._layout(j, axes) for j, axes in enumerate(each))

    @property
    def first(self) -> tuple[int, ...]:
        """The first place of the grid."""
        return (0,) * len(self.grid)

    def shapes(self, at: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
        """Return the shapes of the inputs' blocks at a place of the grid."""
        return tuple(layout.shape(at) for layout in self.inputs)

    def program(self, at: tuple[int, ...]) -> Program:
        """Return what runs at a place of the grid."""
        return self.programs[self.shapes(at)]

    def _layout(self, j: int, axes: Axes) -> Layout:
        """Return how a result is cut: as its blocks say."""

        def shape(at: tuple[int, ...]) -> tuple[int, ...]:
            program = self.program(at)
            return program.shapes[program.outputs[j]].shape

        if len(shape(self.first)) != len(axes):
            raise ValueError(
                f"the function gives blocks of shape {shape(self.first)} for blocks of {len(self.grid)} axes, where"
                f" {len(axes)} axes are expected: drop_axis= says which it does away with{called()}"
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

    def arrays(self, operands: Sequence[Any]) -> tuple[Any, ...]:
        """Return the results, of Dask arrays; tasks need no block that their programs have no use for."""
        used = [any(p.inputs[i] in _read(p) for p in self.programs.values()) for i in range(len(self.inputs))]
        used[0] |= not any(used)  # where a block is, and of which library
        layouts = chosen(self.inputs, used)
        arrays = [x.rechunk(layout.chunks) for x, layout in zip(chosen(operands, used), layouts, strict=True)]
        unique = uuid.uuid4().hex
        name, table = f"blocks-{unique}", f"programs-{unique}"
        numbers = {shapes: number for number, shapes in enumerate(self.programs)}
        kinds = [_kind(program, chosen(shapes, used), layouts, used) for shapes, program in self.programs.items()]
        tasks: dict[Any, Any] = {table: DataNode(table, kinds)}
        every = list(itertools.product(*map(range, self.grid)))
        for at in every:
            refs = (TaskRef((x.name, *layout.place(at))) for x, layout in zip(arrays, layouts, strict=True))
            tasks[name, *at] = Task((name, *at), _run, TaskRef(table), numbers[self.shapes(at)], *refs)
        graph = HighLevelGraph.from_collections(name, tasks, dependencies=arrays)
        return tuple(self._result(graph, name, every, j) for j in range(len(self.outputs)))

    def _result(self, graph: HighLevelGraph, name: str, every: Sequence[tuple[int, ...]], j: int) -> Any:
        """Return one of the results, whose blocks are parts of what tasks give."""
        layout, own = self.outputs[j], f"{name}-{j}"
        added = [axis for axis, n in enumerate(self.grid) if n > 1 and axis not in layout.axes]
        tasks: dict[Any, Any] = {}
        for at in every:
            key = own, *(at[axis] for axis in added), *layout.place(at)
            tasks[key] = Task(key, _part, TaskRef((name, *at)), j, len(added))
        layers, needs = {**graph.layers, own: tasks}, {**graph.dependencies, own: {name}}
        chunks = (*((1,) * self.grid[axis] for axis in added), *layout.chunks)
        made = da.Array(HighLevelGraph(layers, needs), own, chunks, meta=layout.meta, dtype=layout.meta.dtype)
        return made.sum(axis=tuple(range(len(added))), dtype=made.dtype) if added else made

    # -- derivatives ------------------------------------------------------------------------------------------------------

    def pulled(self, needs: tuple[bool, ...], given: tuple[bool, ...]) -> Blocks:
        """Return the function of operands and cotangents, of results that have some, that gives those operands' cotangents."""
        taken = chosen(self.outputs, given)
        wanted = [layout.axes for layout in chosen(self.inputs, needs)]
        return self._derived(("pulled", needs, given), functools.partial(_pulled, needs, given), taken, wanted)

    def pushed(self, given: tuple[bool, ...]) -> Blocks:
        """Return the function of operands and tangents, of those operands that have some, that gives the results' tangents."""
        taken = chosen(self.inputs, given)
        wanted = [layout.axes for layout in self.outputs]
        return self._derived(("pushed", given), functools.partial(_pushed, given), taken, wanted)

    def _derived(self, key: Any, make: Callable[[Program], Any], taken: list[Layout], wanted: list[Axes]) -> Blocks:
        if key not in self.derived:
            inputs = (*self.inputs, *taken)

            def program(at: tuple[int, ...]) -> Program:
                blocks = [ag.asarray(imagined(layout.meta, layout.shape(at))) for layout in inputs]
                for block in blocks:  # the derivative is to have derivatives
                    block.requires_grad = block._spec.inexact
                with np.errstate(all="ignore"):
                    found = Context().run(ag.func.capture(make(self.program(at))), *blocks)
                return _with_outputs(found)

            self.derived[key] = Blocks(self.grid, inputs, wanted, program)
        return self.derived[key]


def places_of(grid: tuple[int, ...], inputs: Sequence[Layout]) -> list[tuple[int, ...]]:
    """Return a place of the grid for each kind of blocks."""
    kinds = []
    for axis in range(len(grid)):
        along = [layout.chunks[layout.axes.index(axis)] for layout in inputs if axis in layout.axes]
        kinds.append({lengths: i for i, lengths in enumerate(zip(*along, strict=True))}.values())
    return list(itertools.product(*kinds))


def _with_outputs(program: Program) -> Program:
    """Return a program whose outputs are all that the function gives, in order: its operands, too."""
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


def _kind(program: Program, shapes: Sequence[tuple[int, ...]], layouts: Sequence[Layout], used: Sequence[bool]) -> Kind:
    """Return what runs on blocks of these shapes, for some of the inputs."""
    program = program.replaced(inputs=tuple(chosen(program.inputs, used)))
    blocks = tuple((shape, layout.meta.dtype) for layout, shape in zip(layouts, shapes, strict=True))
    places = tuple((i, i) for i in range(len(blocks)))
    return Kind(program, blocks, [None] * len(blocks), places, (), tuple(range(len(program.outputs))))


def _run(kinds: Sequence[Kind], number: int, *blocks: Any) -> list[Any]:
    """Run one of the programs."""
    kind = kinds[number]
    if not kind.fits(blocks):
        which = [f"{block.dtype}{list(block.shape)}" for block in blocks]
        raise TypeError(
            f"blocks are {', '.join(which)}, which is not what the Dask arrays say of themselves: pass dtype= and meta= where"
            " they are made"
        )
    return kind.run(blocks, ag.random.default_generator)


def _part(results: Sequence[Any], j: int, axes: int) -> Any:
    """Return one of the results, with axes of length 1 in front."""
    return results[j][(None,) * axes] if axes else results[j]


def chosen(values: Sequence[T], which: Sequence[bool]) -> list[T]:
    """Return those of some values that are marked."""
    return [value for value, is_one in zip(values, which, strict=True) if is_one]


def _on(program: Program, values: Sequence[Any]) -> list[Tensor]:
    backend = values[0]._spec.backend
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


class MapBlocks(ag.Function):
    """A function of blocks, of tensors that are cut as it says."""

    @staticmethod
    def forward(ctx: Any, blocks: Blocks, *operands: Tensor) -> Any:
        ctx.blocks = blocks
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*operands)
        arrays = [x._raw for x in operands]
        made = blocks.arrays(arrays)
        origins.note("map_blocks", tuple(arrays), made)
        return made

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


# -- borders ------------------------------------------------------------------------------------------------------------


class Linear(ag.Function):
    """A linear map of Dask arrays, with its transpose."""

    @staticmethod
    def forward(ctx: Any, there: Callable[[Any], Any], back: Callable[[Any], Any], x: Tensor) -> Any:
        ctx.there, ctx.back = there, back
        made = there(x._raw)
        origins.note("map_overlap", (x._raw,), made)
        return made

    @staticmethod
    def backward(ctx: Any, cotangent: Any) -> Any:
        return None, None, Linear.apply(ctx.back, ctx.there, cotangent)

    @staticmethod
    def jvp(ctx: Any, _there: Any, _back: Any, tangent: Any) -> Any:
        return Linear.apply(ctx.there, ctx.back, tangent)


class Border(NamedTuple):
    """How many elements blocks take from their neighbours along an axis.

    Attributes
    ----------
    axis : int
        Which.
    lengths : tuple of int
        Of the blocks without them.
    before, after : tuple of int
        Per block, how many are in front and behind.
    """

    axis: int
    lengths: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]

    @property
    def whole(self) -> tuple[int, ...]:
        """The lengths of the blocks with them."""
        return tuple(map(sum, zip(self.before, self.lengths, self.after, strict=True)))


def _with_border(border: Border, x: Any) -> Any:
    """Copy what blocks take from their neighbours."""
    x = x.rechunk({border.axis: border.lengths})
    return overlap_internal(x, {border.axis: (max(border.before), max(border.after))})


def _each(name: str, x: Any, axis: int, along: tuple[int, ...], make: Callable[..., Any]) -> Any:
    """Return an array of blocks of other lengths, each of which a function makes tasks for."""
    name = f"{name}-{uuid.uuid4().hex}"
    tasks: dict[Any, Any] = {}
    for at in itertools.product(*map(range, x.numblocks)):
        key = name, *at
        tasks[key] = make(key, at, tasks)
    graph = HighLevelGraph.from_collections(name, tasks, dependencies=[x])
    return da.Array(graph, name, (*x.chunks[:axis], along, *x.chunks[axis + 1 :]), meta=x._meta, dtype=x.dtype)


def _folded(border: Border, x: Any) -> Any:
    """Add what stands in borders to what it was copied from: the transpose of `_with_border`."""
    axis = border.axis
    x = x.rechunk({axis: border.whole})

    def slab(key: Any, at: tuple[int, ...], start: int, count: int, tasks: dict[Any, Any], side: str) -> Any:
        """Return a part of a block as a task, None if that is empty."""
        if not count:
            return None
        name = f"{key[0]}-{side}", *at
        tasks[name] = Task(name, _cut, TaskRef((x.name, *at)), axis, start, count)
        return TaskRef(name)

    def make(key: Any, at: tuple[int, ...], tasks: dict[Any, Any]) -> Any:
        i, given = at[axis], []
        for j, side in ((i - 1, "behind"), (i + 1, "front")):
            if 0 <= j < len(border.lengths):
                other = *at[:axis], j, *at[axis + 1 :]
                start, count = (0, border.before[j])
                if j < i:
                    start, count = border.before[j] + border.lengths[j], border.after[j]
                given.append(slab(key, other, start, count, tasks, side))
            else:
                given.append(None)
        return Task(key, _added, TaskRef((x.name, *at)), axis, border.before[i], border.lengths[i], *given)

    return _each("fold", x, axis, border.lengths, make)


def _trimmed(border: Border, x: Any) -> Any:
    """Cut borders off."""
    x = x.rechunk({border.axis: border.whole})

    def make(key: Any, at: tuple[int, ...], _tasks: Any) -> Any:
        i = at[border.axis]
        return Task(key, _cut, TaskRef((x.name, *at)), border.axis, border.before[i], border.lengths[i])

    return _each("trim", x, border.axis, border.lengths, make)


def _widened(border: Border, x: Any) -> Any:
    """Put zeros where borders were cut off: the transpose of `_trimmed`."""
    x = x.rechunk({border.axis: border.lengths})

    def make(key: Any, at: tuple[int, ...], _tasks: Any) -> Any:
        i = at[border.axis]
        return Task(key, _zeros_around, TaskRef((x.name, *at)), border.axis, border.before[i], border.after[i])

    return _each("widen", x, border.axis, border.whole, make)


def _cut(block: Any, axis: int, start: int, count: int) -> Any:
    return block[(slice(None),) * axis + (slice(start, start + count),)]


def _zeros_around(block: Any, axis: int, before: int, after: int) -> Any:
    return np.pad(block, [(before, after) if i == axis else (0, 0) for i in range(block.ndim)])


def _added(block: Any, axis: int, start: int, count: int, front: Any, behind: Any) -> Any:
    """Add to the first and to the last elements of a part of a block."""
    made = _cut(block, axis, start, count).copy()
    if front is not None:
        made[(slice(None),) * axis + (slice(front.shape[axis]),)] += front
    if behind is not None:
        made[(slice(None),) * axis + (slice(count - behind.shape[axis], None),)] += behind
    return made


# -- the calls ----------------------------------------------------------------------------------------------------------


class Mapped:
    """A caller's function, with what was made of it: programs, which hold as those of `agrad.compile` do."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.programs = Compiled(function, check=False, explain=False, **HOW)
        self.blocks: dict[Any, Blocks] = {}

    def kept(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept:
        """Return its program for arguments like these, blocks that are made up among them."""
        with np.errstate(all="ignore"):
            found, refused = self.programs.find(args, kwargs), None
            if found is None:
                try:
                    found = self.programs.record(args, kwargs)
                except CaptureError as error:
                    refused = error
            if found is None:
                self.function(*args, **kwargs)  # an error of its own says more
                raise CaptureError(f"{refused}{called()}")
        if found.keys or found.program.functions:
            what = (
                f"uses the Function {found.program.functions[0]}" if found.program.functions else "draws random numbers"
            )
            raise CaptureError(
                f"capture: a function of blocks is differentiated as a program, and this one {what}{called()}"
            )
        return found


@functools.lru_cache(maxsize=KEPT)
def mapped(function: Callable[..., Any]) -> Mapped:
    """Return what is kept of a function."""
    return Mapped(function)


class Call:
    """A call: Dask's arrays among the arguments are cut, others are given to every block.

    Attributes
    ----------
    operands : list of Tensor
        The arrays among the arguments.
    lead : Tensor
        The one whose blocks are the others'.
    """

    def __init__(self, name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.name, self.function = name, function
        self.leaves, self.structure = tree.flatten((args, kwargs))
        for leaf in self.leaves:
            if type(leaf).__module__.startswith("xarray."):
                raise TypeError(
                    f"agrad_dask.{name} takes arrays and tensors, got a {type(leaf).__name__}: give what it holds, a.data; "
                    f"a.copy(data=...) puts its labels on the result{called()}"
                )
        self.places = [i for i, x in enumerate(self.leaves) if isinstance(x, Tensor) or backend_of(x) is not None]
        self.floats = [i for i, x in enumerate(self.leaves) if type(x) is float]
        self.operands = [ag.asarray(self.leaves[i]) for i in self.places]
        cut = [x for x in self.operands if data_of(x) is not None]
        if not cut:
            raise ValueError(f"no argument is a Dask array: in memory, call the function itself{called()}")
        self.lead = max(cut, key=lambda x: x.ndim)
        if any(math.isnan(n) for x in cut for n in x.shape):
            raise ValueError(f"agrad_dask.{name} needs arrays of known sizes: array.compute_chunk_sizes(){called()}")

    def axes(self, x: Tensor) -> Axes:
        """Return along which axes of the leading array an operand is cut: the last are the same, as in broadcasting."""
        if data_of(x) is None:
            return (None,) * x.ndim
        axes = range(self.lead.ndim - x.ndim, self.lead.ndim)
        if any(n not in (1, self.lead.shape[a]) for a, n in zip(axes, x.shape, strict=True)):
            raise ValueError(
                f"agrad_dask.{self.name}: Dask arrays of shapes {tuple(self.lead.shape)} and {tuple(x.shape)} are not cut alike;"
                f" arrays in memory are given to every block as they are{called()}"
            )
        return tuple(a if n == self.lead.shape[a] else None for a, n in zip(axes, x.shape, strict=True))

    def with_blocks(self, blocks: Sequence[Any]) -> Any:
        """Return the arguments for some blocks."""
        leaves = list(self.leaves)
        for i, block in zip(self.places, blocks, strict=False):
            leaves[i] = ag.asarray(block)
        return tree.unflatten(self.structure, leaves)

    def run(self, operands: list[Tensor], drop_axis: Sequence[int] = ()) -> tuple[list[Tensor], tree.TreeDef]:
        """Call the function on all blocks of the operands, which may have borders by now."""
        chunks = next(x for x, y in zip(operands, self.operands, strict=True) if y is self.lead).chunks
        for axis in drop_axis:
            if len(chunks[axis]) > 1:
                raise ValueError(
                    f"axis {axis}, which is to be dropped, has {len(chunks[axis])} blocks: x.rechunk({{{axis}: -1}}) puts it"
                    f" into one{called()}"
                )
        layouts = [self._cut(operands, i, chunks, self.axes(x)) for i, x in enumerate(self.operands)]
        grid = tuple(map(len, chunks))
        of_function = mapped(self.function)
        kept = {}
        for at in places_of(grid, layouts):
            blocks = [imagined(layout.meta, layout.shape(at)) for layout in layouts]
            kept[at] = Context().run(of_function.kept, *self.with_blocks(blocks))
        outside = {id(x): x for each in kept.values() for x in _outside(each.program).values()}
        others = [np.asarray(self.leaves[i]) for i in self.floats] + list(outside.values())
        for x in others:
            operands.append(ag.asarray(x))
            if data_of(x) is not None:
                raise TypeError(
                    f"the function uses a Dask array of shape {tuple(x.shape)} that is none of its arguments: pass it, so that"
                    f" it is cut as they are{called()}"
                )
            layouts.append(self._cut(operands, len(operands) - 1, chunks, (None,) * operands[-1].ndim))
        key = (
            chunks,
            tuple(layout[:2] for layout in layouts),
            tuple(id(each.program) for each in kept.values()),
            tuple(drop_axis),
        )
        if key not in of_function.blocks:
            while len(of_function.blocks) >= KEPT:
                of_function.blocks.pop(next(iter(of_function.blocks)))
            axes = tuple(axis for axis in range(len(grid)) if axis not in drop_axis)
            of_function.blocks[key] = Blocks(
                grid, layouts, axes, lambda at: self._program(kept[at].program, outside, layouts)
            )
        first = next(iter(kept.values())).program.results
        assert first is not None
        return list(MapBlocks.apply(of_function.blocks[key], *operands)), first.treedef

    def _cut(self, operands: list[Tensor], i: int, chunks: Any, axes: Axes) -> Layout:
        """Cut an operand like the leading one."""
        x = operands[i]
        wanted = tuple((n,) if a is None else chunks[a] for a, n in zip(axes, x.shape, strict=True))
        operands[i] = x = x.to_device("dask").rechunk(wanted)
        return Layout(axes, wanted, x._raw._meta)

    def _program(self, program: Program, outside: Mapping[int, Any], layouts: Sequence[Layout]) -> Program:
        """Return a program whose inputs are the operands, the floats and what is found outside, in this order."""
        assert program.arguments is not None
        leaves = program.arguments.leaves
        found = {id(x): number for number, x in _outside(program).items()}
        numbers = [getattr(leaves[i], "number", None) for i in (*self.places, *self.floats)] + [
            found.get(i) for i in outside
        ]
        spare, shapes, inputs = itertools.count(program.next_number()), dict(program.shapes), []
        for number, layout in zip(numbers, layouts, strict=True):
            if number is None:  # not needed for blocks of this shape
                number = next(spare)  # noqa: PLW2901
                shapes[number] = Shaped(tuple(map(sum, layout.chunks)), str(layout.meta.dtype))
            inputs.append(number)
        return _with_outputs(program.replaced(inputs=tuple(inputs), outside={}, shapes=shapes))


def _outside(program: Program) -> dict[int, Any]:
    """Return the tensors and arrays that a program finds outside of its arguments, by number."""
    return {number: origin.find() for number, origin in program.outside.items()}


def map_blocks(function: Callable[..., Any], *args: Any, drop_axis: int | Sequence[int] = (), **kwargs: Any) -> Any:
    """Call a function on each block of Dask arrays, and put its results together; differentiable, as everything in it is.

    Parameters
    ----------
    function : callable
        Takes tensors in memory, one block of each Dask array, in place of the arrays; returns a tensor, or a container of
        tensors. It is captured as a program, once for each shape that blocks have.
    *args, **kwargs
        Its arguments. Dask arrays (tensors or raw) are cut alike, as the one with the most axes; those with fewer axes go
        along its last ones, as in broadcasting. All else is given to every block as it is: tensors and arrays in memory, which
        are differentiated too, and other values.
    drop_axis : int or sequence of int, optional
        Axes that the results do not have; each is one block.

    Returns
    -------
    Tensor or container of Tensor
        On Dask: the blocks that the function gives, where those it was given are.

    Raises
    ------
    CaptureError
        If no program can hold what the function does: it chooses its way by a value, draws random numbers, writes to
        tensors around it, uses a `Function`.
    ValueError
        If no argument is a Dask array, arrays cannot be cut alike, or the results' blocks do not go together.
    TypeError
        If it returns anything but tensors, or an argument is a DataArray.

    Notes
    -----
    The derivatives, in reverse and forward mode and of any order, run block by block too, and recompute the block. Tensors that
    the function finds in its closure or in globals are differentiated like arguments.

    Examples
    --------
    >>> import agrad as ag, agrad_dask
    >>> x = ag.ones((6, 4), device="dask", chunks=(2, 4), requires_grad=True)
    >>> scale = ag.tensor(2.0, requires_grad=True)
    >>> def centred(block):
    ...     return scale * (block - ag.mean(block, axis=1, keepdims=True))
    >>> agrad_dask.map_blocks(centred, x).chunks
    ((2, 2, 2), (4,))
    """
    call = Call("map_blocks", function, args, kwargs)
    axes = (drop_axis,) if isinstance(drop_axis, int) else drop_axis
    results, structure = call.run(list(call.operands), [axis % call.lead.ndim for axis in axes])
    return tree.unflatten(structure, results)


def map_overlap(
    function: Callable[..., Any], *args: Any, depth: Any, boundary: Any = "none", trim: bool = True, **kwargs: Any
) -> Any:
    """Call a function on each block of Dask arrays with a border from its neighbours; differentiable, as everything in it is.

    For stencils, filters and finite differences: what needs some neighbours of each element.

    Parameters
    ----------
    function : callable
        As in `map_blocks`. Its results have the shape of the blocks it is given, borders included.
    *args, **kwargs
        As in `map_blocks`.
    depth : int, tuple or dict
        How many elements of the neighbours a block gets along each axis; in a tuple or dict (by axis) it may be a pair: in
        front, and behind.
    boundary : str or number, tuple or dict
        What stands beyond the ends of the array, as in Dask: "none", where the first and last blocks get no border;
        "reflect", "periodic", "nearest", or a number.
    trim : bool, optional
        Cut the borders off the results. False, if the function has done so.

    Returns
    -------
    Tensor or container of Tensor
        On Dask.

    Raises
    ------
    CaptureError, TypeError
        As in `map_blocks`.
    ValueError
        As in `map_blocks`; if `boundary` is unknown, or the border is longer than the array.

    Notes
    -----
    Backward adds what a border gets to the elements it was copied from; all of it block by block. Where blocks are shorter
    than the border, they are put together first.

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
    call = Call("map_overlap", function, args, kwargs)
    depths = coerce_depth(call.lead.ndim, depth)
    kinds = coerce_boundary(call.lead.ndim, boundary)
    sides = [Side.of(call.lead, axis, depths[axis], kinds[axis]) for axis in depths if depths[axis] not in (0, (0, 0))]
    results, structure = call.run([_bordered(x, call.axes(x), sides) for x in call.operands])
    if trim:
        results = [_without(y, sides) for y in results]
    return tree.unflatten(structure, results)


class Side(NamedTuple):
    """The borders along an axis.

    Attributes
    ----------
    axis : int
        Which.
    before, after : int
        How many elements, in front of blocks and behind.
    kind : str or number
        What stands beyond the ends.
    chunks : tuple of int
        The lengths of blocks, none of which is shorter.
    """

    axis: int
    before: int
    after: int
    kind: Any
    chunks: tuple[int, ...]

    @classmethod
    def of(cls, x: Tensor, axis: int, depth: Any, kind: Any) -> Side:
        """Return those of an array along an axis, by depth and boundary."""
        before, after = depth if isinstance(depth, tuple) else (depth, depth)
        if isinstance(kind, str) and kind not in (*_PADDING, "none"):
            raise ValueError(
                f'boundary is "none", "reflect", "periodic", "nearest" or a number, got {kind!r}{called()}'
            )
        return cls(axis, before, after, kind, ensure_minimum_chunksize(max(before, after), x.chunks[axis]))

    def padded(self, x: Tensor, axis: int) -> Tensor:
        """Put what stands beyond the ends of an array there, in its first and last blocks."""
        if self.kind == "none":
            return x
        width = [(self.before, self.after) if i == axis else (0, 0) for i in range(x.ndim)]
        if isinstance(self.kind, str):
            return numpy.pad(x, width, mode=_PADDING[self.kind])
        return numpy.pad(x, width, constant_values=self.kind)

    def inner(self, axis: int) -> Border:
        """Return what blocks take from their neighbours."""
        count = len(self.chunks)
        lengths = list(self.chunks)
        if self.kind != "none":
            lengths[0] += self.before
            lengths[-1] += self.after
        return Border(axis, tuple(lengths), (0, *(self.before,) * (count - 1)), (*(self.after,) * (count - 1), 0))

    @property
    def whole(self) -> Border:
        """What blocks have beside their own elements, padding included."""
        if self.kind == "none":
            return self.inner(self.axis)
        count = len(self.chunks)
        return Border(self.axis, self.chunks, (self.before,) * count, (self.after,) * count)


def _bordered(x: Tensor, axes: Axes, sides: Sequence[Side]) -> Tensor:
    """Give the blocks of an operand their borders."""
    for side in sides:
        if side.axis not in axes:
            continue
        axis = axes.index(side.axis)
        border = side.inner(axis)
        x = side.padded(x.rechunk({axis: side.chunks}), axis).rechunk({axis: border.lengths})
        if len(side.chunks) > 1:
            x = Linear.apply(functools.partial(_with_border, border), functools.partial(_folded, border), x)
    return x


def _without(y: Tensor, sides: Sequence[Side]) -> Tensor:
    """Cut the borders off the blocks of a result."""
    for side in sides:
        border = side.whole
        if y.chunks[side.axis] != border.whole:
            raise ValueError(
                f"the function gives blocks of lengths {y.chunks[side.axis]} along axis {side.axis}, of blocks of lengths"
                f" {border.whole} with their borders: give results as long, or cut the borders off and pass trim=False{called()}"
            )
        y = Linear.apply(functools.partial(_trimmed, border), functools.partial(_widened, border), y)
    return y
