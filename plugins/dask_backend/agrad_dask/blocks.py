"""Functions that run block by block, with a border from the neighbours where they need one, and are differentiated.

The function is captured once for each shape that blocks have (`programs`), and its program runs in the tasks. Its derivatives, in either
mode and of any order, are functions of the same blocks, captured from these programs. A border is copied from the
neighbours before and cut off after; backward adds what the copies get to what they were copied from.

May import Dask; is imported when `agrad_dask.map_blocks` or `map_overlap` is first asked for.
"""

from __future__ import annotations

import functools
import itertools
import math
import uuid
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import dask.array as da
import numpy as np
from dask._task_spec import DataNode, Task, TaskRef
from dask.array.overlap import coerce_boundary, coerce_depth, ensure_minimum_chunksize
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer

import agrad as ag
from agrad import Tensor, tree
from agrad.plugin.backend import NeedsValuesError, array_of, backend_of, called, internal, not_recorded
from agrad.plugin.programs import CaptureError, Given, Kept, Leaf, Program, Shaped, spec_of_value
from agrad_dask import origins
from agrad_dask.lowering import data_of
from agrad_dask.programs import Kind, PerShape, like
from agrad_dask.reductions import added_up

#: For how many functions, and layouts of the arrays they are called with, programs are kept.
KEPT = 16

#: Programs keep their buffers for blocks of at most so many bytes: there is one for each shape of blocks, and derivative.
SMALL = 2**17

T = TypeVar("T")

#: Along which axis of the grid of blocks each axis of an array is cut; None: it is in one block there.
Axes = tuple[int | None, ...]

#: A function of a Dask array that gives one.
Map = Callable[[Any], Any]

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
        whole = [layout for layout in self.outputs if layout.axes == tuple(range(len(self.grid)))]
        layer = _layer(tasks, whole[0].chunks, whole[0].meta.dtype) if whole else MaterializedLayer(tasks)
        graph = HighLevelGraph.from_collections(name, layer, dependencies=arrays)
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
        return added_up(made, axis=tuple(range(len(added))), dtype=made.dtype) if added else made

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
                blocks = [like(layout.meta, layout.shape(at)) for layout in inputs]
                for block in blocks:  # the derivative is to have derivatives
                    block.requires_grad = spec_of_value(block).inexact
                return _with_outputs(PerShape(make(self.program(at)), pure=True).of(tuple(blocks), {}).program)

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
    small = all(math.prod(shape) * layout.meta.itemsize <= SMALL for layout, shape in zip(layouts, shapes, strict=True))
    return Kind(program, blocks, [None] * len(blocks), places, (), tuple(range(len(program.outputs))), keep=small)


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


class MapBlocks(ag.Function):
    """A function of blocks, of tensors that are cut as it says."""

    @staticmethod
    def forward(ctx: Any, blocks: Blocks, *operands: Tensor) -> Any:
        ctx.blocks = blocks
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*operands)
        arrays = [array_of(x) for x in operands]
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
    """A linear map of Dask arrays, with its transpose; where constants stand beside what it maps, `value` puts them there."""

    @staticmethod
    def forward(ctx: Any, there: Map, back: Map, x: Tensor, value: Map | None = None) -> Any:
        ctx.there, ctx.back = there, back
        made = (value or there)(array_of(x))
        origins.note("map_overlap", (array_of(x),), made)
        return made

    @staticmethod
    def backward(ctx: Any, cotangent: Any) -> Any:
        return None, None, Linear.apply(ctx.back, ctx.there, cotangent), None

    @staticmethod
    def jvp(ctx: Any, _there: Any, _back: Any, tangent: Any, _value: Any = None) -> Any:
        return Linear.apply(ctx.there, ctx.back, tangent)


class Source(NamedTuple):
    """Where the elements of a border come from.

    Attributes
    ----------
    block : int
        Which block along the axis; -1: they are a constant.
    start, count : int
        Which of its elements.
    kind : str
        ``"flipped"``, ``"repeated"`` (it is one element), or ``""``.
    """

    block: int
    start: int
    count: int
    kind: str


class Border(NamedTuple):
    """What blocks have beside their own elements along an axis.

    Attributes
    ----------
    axis : int
        Which.
    lengths : tuple of int
        Of the blocks without it.
    before, after : tuple of int
        Per block, how many elements are in front and behind.
    kind : str or number
        What stands beyond the ends of the array.
    """

    axis: int
    lengths: tuple[int, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]
    kind: Any

    @classmethod
    def of(cls, x: Tensor, axis: int, depth: Any, kind: Any) -> Border:
        """Return that of an array, by depth and boundary; blocks are no shorter than it."""
        if isinstance(kind, str) and kind not in ("none", "reflect", "periodic", "nearest"):
            raise ValueError(
                f'boundary is "none", "reflect", "periodic", "nearest" or a number, got {kind!r}{called()}'
            )
        before, after = depth if isinstance(depth, tuple) else (depth, depth)
        lengths = ensure_minimum_chunksize(max(before, after), x.chunks[axis])
        within, ends = len(lengths) - 1, kind != "none"
        return cls(axis, lengths, (before * ends, *(before,) * within), (*(after,) * within, after * ends), kind)

    @property
    def whole(self) -> tuple[int, ...]:
        """The lengths of the blocks with it."""
        return tuple(map(sum, zip(self.before, self.lengths, self.after, strict=True)))

    def source(self, i: int, *, front: bool) -> Source | None:
        """Return where one of the two borders of a block comes from, None where it is empty."""
        count = self.before[i] if front else self.after[i]
        j = i - 1 if front else i + 1
        if not count:
            return None
        if 0 <= j < len(self.lengths) or self.kind == "periodic":
            j %= len(self.lengths)
            return Source(j, self.lengths[j] - count if front else 0, count, "")
        if self.kind == "reflect":
            return Source(i, 0 if front else self.lengths[i] - count, count, "flipped")
        if self.kind == "nearest":
            return Source(i, 0 if front else self.lengths[i] - 1, count, "repeated")
        return Source(-1, 0, count, "")

    def sources(self) -> list[tuple[int, bool, Source]]:
        """Return, for each border that is not empty, its block, whether it is in front, and where it comes from."""
        both = ((i, front, self.source(i, front=front)) for i in range(len(self.lengths)) for front in (True, False))
        return [(i, front, source) for i, front, source in both if source is not None]


def _layer(tasks: dict[Any, Any], chunks: Any, dtype: Any) -> MaterializedLayer:
    """Return a layer of a graph that says how large its blocks are, as those of arrays do."""
    layer = MaterializedLayer(tasks)
    layer.collection_annotations = {"chunks": chunks, "dtype": dtype}
    return layer


def _each(
    name: str, x: Any, chunks: Any, slabs: dict[bool, Any], make: Callable[[Any, tuple[int, ...], dict[bool, Any]], Any]
) -> Any:
    """Return an array of other chunks.

    Parameters
    ----------
    chunks : tuple of tuple of int
        Those.
    slabs : dict of bool to tuple
        Of the parts of blocks in front and behind that the array is made with the lengths, as chunks of an array.
    make : callable
        Takes the key of a block, its place, and names of layers of such parts, each with the tasks in it, to which it adds.
        Returns the block's task.
    """
    name = f"{name}-{uuid.uuid4().hex}"
    parts: dict[bool, Any] = {front: (f"{name}-{'front' if front else 'behind'}", {}) for front in slabs}
    tasks = {(name, *at): make((name, *at), at, parts) for at in itertools.product(*map(range, x.numblocks))}
    made = {own: _layer(inner, slabs[front], x.dtype) for front, (own, inner) in parts.items()}
    layers = {**x.dask.layers, **made, name: _layer(tasks, chunks, x.dtype)}
    needs = {**x.dask.dependencies, **{own: {x.name} for own in made}, name: {x.name, *made}}
    return da.Array(HighLevelGraph(layers, needs), name, chunks, meta=x._meta, dtype=x.dtype)


def _bordered(border: Border, fill: float, x: Any) -> Any:
    """Copy the borders of blocks to where they are; beyond the ends stands a number, where that is the boundary."""
    axis = border.axis
    x = x.rechunk(_with_lengths(x, [border]))

    def make(key: Any, at: tuple[int, ...], parts: dict[bool, Any]) -> Any:
        given: list[Any] = []
        for front, (name, tasks) in parts.items():
            source = border.source(at[axis], front=front)
            if source is None or source.block < 0:
                given.append(source and source.count)
                continue
            block = TaskRef((x.name, *at[:axis], source.block, *at[axis + 1 :]))
            tasks[name, *at] = Task((name, *at), _copied, block, axis, source)
            given.append(TaskRef((name, *at)))
        return Task(key, _joined, TaskRef((x.name, *at)), axis, *given, fill)

    slabs = {front: _replaced(x.chunks, axis, border.before if front else border.after) for front in (True, False)}
    return _each("border", x, _with_lengths(x, [border], whole=True), slabs, make)


def _folded(border: Border, x: Any) -> Any:
    """Add what stands in borders to what it was copied from: the transpose of `_bordered`."""
    axis = border.axis
    x = x.rechunk(_with_lengths(x, [border], whole=True))
    into: dict[int, list[tuple[int, bool, Source]]] = {}
    for each in border.sources():
        into.setdefault(each[2].block, []).append(each)

    def make(key: Any, at: tuple[int, ...], parts: dict[bool, Any]) -> Any:
        starts, given = [], []
        for i, front, source in into.get(at[axis], ()):
            name, tasks = parts[front]
            other = *at[:axis], i, *at[axis + 1 :]
            start = 0 if front else border.before[i] + border.lengths[i]
            tasks[name, *other] = Task((name, *other), _given_back, TaskRef((x.name, *other)), axis, start, source)
            starts.append(source.start)
            given.append(TaskRef((name, *other)))
        own = axis, border.before[at[axis]], border.lengths[at[axis]]
        return Task(key, _added, TaskRef((x.name, *at)), own, starts, *given)

    slabs = {front: _replaced(x.chunks, axis, border.before if front else border.after) for front in (True, False)}
    return _each("fold", x, _with_lengths(x, [border]), slabs, make)


def _replaced(chunks: Any, axis: int, lengths: tuple[int, ...]) -> tuple[tuple[int, ...], ...]:
    return (*chunks[:axis], lengths, *chunks[axis + 1 :])


def _with_lengths(x: Any, borders: Sequence[Border], *, whole: bool = False) -> tuple[tuple[int, ...], ...]:
    """Return the chunks of an array with other ones along some axes: of blocks with their borders, or without."""
    along = {border.axis: border.whole if whole else border.lengths for border in borders}
    return tuple(along.get(axis, lengths) for axis, lengths in enumerate(x.chunks))


def _trimmed(borders: Sequence[Border], x: Any) -> Any:
    """Cut borders off."""
    x = x.rechunk(_with_lengths(x, borders, whole=True))

    def make(key: Any, at: tuple[int, ...], _parts: Any) -> Any:
        return Task(
            key, _cut, TaskRef((x.name, *at)), [(b.axis, b.before[at[b.axis]], b.lengths[at[b.axis]]) for b in borders]
        )

    return _each("trim", x, _with_lengths(x, borders), {}, make)


def _widened(borders: Sequence[Border], x: Any) -> Any:
    """Put zeros where borders were cut off: the transpose of `_trimmed`."""
    x = x.rechunk(_with_lengths(x, borders))

    def make(key: Any, at: tuple[int, ...], _parts: Any) -> Any:
        widths = {b.axis: (b.before[at[b.axis]], b.after[at[b.axis]]) for b in borders}
        return Task(key, np.pad, TaskRef((x.name, *at)), [widths.get(axis, (0, 0)) for axis in range(x.ndim)])

    return _each("widen", x, _with_lengths(x, borders, whole=True), {}, make)


def _cut(block: Any, parts: Sequence[tuple[int, int, int]]) -> Any:
    """Return a part of a block: of some axes so many elements, from a place on."""
    key = [slice(None)] * block.ndim
    for axis, start, count in parts:
        key[axis] = slice(start, start + count)
    return block[tuple(key)]


def _copied(block: Any, axis: int, source: Source) -> Any:
    """Return the elements of a border."""
    if source.kind == "repeated":
        return np.repeat(_cut(block, [(axis, source.start, 1)]), source.count, axis=axis)
    found = _cut(block, [(axis, source.start, source.count)])
    return np.flip(found, axis) if source.kind == "flipped" else found


def _given_back(block: Any, axis: int, start: int, source: Source) -> Any:
    """Return what a border has for the elements it was copied from."""
    found = _cut(block, [(axis, start, source.count)])
    if source.kind == "repeated":
        return np.sum(found, axis=axis, keepdims=True, dtype=found.dtype)
    return np.flip(found, axis) if source.kind == "flipped" else found


def _joined(block: Any, axis: int, front: Any, behind: Any, fill: float) -> Any:
    """Put borders around a block: arrays, so many times a number, or None."""
    parts = []
    for part in (front, block, behind):
        if isinstance(part, int):
            shape = (*block.shape[:axis], part, *block.shape[axis + 1 :])
            parts.append(np.full_like(block, fill, shape=shape))
        elif part is not None:
            parts.append(part)
    return np.concatenate(parts, axis=axis) if len(parts) > 1 else block


def _added(block: Any, own: tuple[int, int, int], starts: Sequence[int], *parts: Any) -> Any:
    """Return the own elements of a block, with parts added to some from each of these places on."""
    made = _cut(block, [own]).copy()
    for start, part in zip(starts, parts, strict=True):
        made[(slice(None),) * own[0] + (slice(start, start + part.shape[own[0]]),)] += part
    return made


# -- the calls ----------------------------------------------------------------------------------------------------------


class Mapped(PerShape):
    """A caller's function, with what was made of its programs."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self.blocks: dict[Any, tuple[Blocks, Any]] = {}

    def of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Kept:
        """Return its program for blocks, which can be differentiated."""
        try:
            found = super().of(args, kwargs)
        except CaptureError as error:
            own = error.__cause__
            if own is not None and not isinstance(own, NeedsValuesError):  # an error of its own says more
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
        not_recorded(f"agrad_dask.{name} makes programs of its own, of blocks")
        self.places = [i for i, x in enumerate(self.leaves) if isinstance(x, Tensor) or backend_of(x) is not None]
        self.floats = [i for i, x in enumerate(self.leaves) if type(x) is float]
        self.operands = [ag.asarray(self.leaves[i]) for i in self.places]
        if any(spec_of_value(x).backend.is_batched for x in self.operands):
            raise RuntimeError(
                f"agrad_dask.{name} is not mapped by vmap: map what is within the function, or give the arrays one more axis"
                f"{called()}"
            )
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
        for i, block in zip(self.places, blocks, strict=True):
            leaves[i] = block
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
            blocks = [like(layout.meta, layout.shape(at)) for layout in layouts]
            try:
                kept[at] = of_function.of(*self.with_blocks(blocks))
            except Exception as error:
                self._note_uncut(error)
                raise
        outside = {way: x for each in kept.values() for _, way, x in _outside(each.program)}
        others = [np.asarray(self.leaves[i]) for i in self.floats] + list(outside.values())
        for x in others:
            operands.append(ag.asarray(x))
            if data_of(x) is not None:
                raise TypeError(
                    f"the function uses a Dask array of shape {tuple(x.shape)} that is none of its arguments: pass it, so that"
                    f" it is cut as they are{called()}"
                )
            layouts.append(self._cut(operands, len(operands) - 1, chunks, (None,) * operands[-1].ndim))
        programs = tuple(id(each.program) for each in kept.values())
        key = chunks, tuple(layout[:2] for layout in layouts), programs, tuple(drop_axis)
        made, _ = of_function.blocks.get(key, (None, None))
        if made is None:
            axes = tuple(axis for axis in range(len(grid)) if axis not in drop_axis)
            made = Blocks(grid, layouts, axes, lambda at: self._program(kept[at].program, list(outside), layouts))
            while len(of_function.blocks) >= KEPT:
                of_function.blocks.pop(next(iter(of_function.blocks)), None)
            of_function.blocks[key] = made, kept  # while these live, no other programs are taken for them
        first = next(iter(kept.values())).program.results
        assert first is not None
        return list(MapBlocks.apply(made, *operands)), first.treedef

    def _note_uncut(self, error: Exception) -> None:
        """Say which arrays in memory are as large as what is cut, and are not."""
        for x in self.operands:
            if x.ndim and data_of(x) is None and x.shape == self.lead.shape:
                error.add_note(
                    f"An argument of shape {tuple(x.shape)} is no Dask array: every block got all of it. Only Dask arrays are cut:"
                    " pass dask.array.from_array(y, chunks=...)."
                )

    def _cut(self, operands: list[Tensor], i: int, chunks: Any, axes: Axes) -> Layout:
        """Cut an operand like the leading one."""
        x = operands[i]
        wanted = tuple((n,) if a is None else chunks[a] for a, n in zip(axes, x.shape, strict=True))
        operands[i] = x = _in_chunks(x.to_device("dask"), dict(enumerate(wanted)))
        return Layout(axes, wanted, array_of(x)._meta)

    def _program(self, program: Program, outside: Sequence[Any], layouts: Sequence[Layout]) -> Program:
        """Return a program whose inputs are the operands, the floats and what is found outside, in this order."""
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
    """Return a tensor in other chunks along some axes; itself, where they are its own."""
    return x if all(x.chunks[axis] == lengths for axis, lengths in chunks.items()) else x.rechunk(chunks)


def _outside(program: Program) -> list[tuple[int, Any, Any]]:
    """Return the tensors and arrays that a program finds outside of its arguments: number, the way there, and what is there."""
    return [(number, origin.way, origin.find()) for number, origin in program.outside.items()]


def map_blocks(function: Callable[..., Any], *args: Any, drop_axis: int | Sequence[int] = (), **kwargs: Any) -> Any:
    """Call a function on each block of Dask arrays, and put its results together; differentiable, as everything in it is.

    Parameters
    ----------
    function : callable
        Takes tensors in memory, one block of each Dask array, in place of the arrays; returns a tensor, or a container of
        tensors. It is captured as a program, once for each shape that blocks have, on tensors without elements.
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
        If no program can hold what the function does: it chooses its way by a value or asks for one, draws random numbers,
        writes to tensors around it, uses a `Function` or an operation whose kernel is a library's and reads values.
    CompileError
        If the function depends on Python state that nothing sees: the second, fourth, eighth call and so on capture it once
        more, and it gives another program.
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
    CaptureError, CompileError, TypeError
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
    borders = [
        Border.of(call.lead, axis, depths[axis], kinds[axis]) for axis in depths if depths[axis] not in (0, (0, 0))
    ]
    results, structure = call.run([_with_borders(x, call.axes(x), borders) for x in call.operands])
    if trim:
        results = [_without(y, borders) for y in results]
    return tree.unflatten(structure, results)


def _with_borders(x: Tensor, axes: Axes, borders: Sequence[Border]) -> Tensor:
    """Give the blocks of an operand their borders."""
    for border in borders:
        if border.axis not in axes:
            continue
        own = border._replace(axis=axes.index(border.axis))
        there, back = functools.partial(_bordered, own, 0.0), functools.partial(_folded, own)
        value = there if isinstance(border.kind, str) else functools.partial(_bordered, own, border.kind)
        x = Linear.apply(there, back, _in_chunks(x, {own.axis: own.lengths}), value)
    return x


def _without(y: Tensor, borders: Sequence[Border]) -> Tensor:
    """Cut the borders off the blocks of a result."""
    for border in borders:
        axis, found, whole = border.axis, y.chunks[border.axis], border.whole
        if found != whole:
            raise ValueError(
                f"the function gives blocks of lengths {found} along axis {axis}, of blocks of lengths {whole} with their"
                f" borders, {border.lengths} without: give results as long, or cut the borders off and pass trim=False{called()}"
            )
    if not borders:
        return y
    return Linear.apply(functools.partial(_trimmed, borders), functools.partial(_widened, borders), y)  # type: ignore[no-any-return]
