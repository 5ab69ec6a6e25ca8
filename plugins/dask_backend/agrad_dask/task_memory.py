"""How much the tasks of a pass read and hold in memory, determined from their definition before any of them runs.

A value is new memory, or a view of what it was made of, which then lives as long (`Effect`). What a task makes inside
follows from its steps, one after another, as it runs them; of a program, from the program; of a function, from what is declared about
it (`making`), or about the operation that it is the function for (`Facts`). `peak` follows the scheduler through the tasks. All of it errs on the side of more.
"""

from __future__ import annotations

import functools
import heapq
import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from dask._task_spec import Alias, DataNode, GraphNode, Task, TaskRef
from dask.array.optimization import GETTERS
from dask.order import order
from dask.utils import apply

from agrad.plugin.backend import backend_of, facts_of
from agrad_dask import blocks, borders, fusing, indexing, lowering, making, origins, repeats, tiling, writing
from agrad_dask.staging import Graph, Peak, Size, culled, name_of, users_of

#: Functions of NumPy's and Dask's that make what those of one of agrad's operations make, under another name.
ALIKE = {
    "_getitem": "take",
    "_identity": "permute_dims",
    "_matmul": "matmul",
    "amax": "max",
    "amin": "min",
    "asanyarray": "asarray",
    "atleast_1d": "expand_dims",
    "atleast_2d": "expand_dims",
    "concatenate": "concat",
    "concatenate3": "concat",
    "concatenate_shaped": "concat",
    "copy": "astype",
    "dot": "matmul",
    "fliplr": "flip",
    "flipud": "flip",
    "identity": "permute_dims",
    "pad": "concat",
    "sliding_window_view": "broadcast_to",
    "swapaxes": "permute_dims",
    "transpose": "permute_dims",
}
#: Functions that take elements of a block at index arrays: of Dask's shuffle and its `vindex`.
TAKERS = frozenset({"_getitem", "_vindex_slice_and_transpose"})
#: Functions of NumPy that put their operands one after another, as Dask's `qr` and `svd` do.
JOINING = frozenset({"concatenate", "hstack", "stack", "vstack"})
#: How many chunks of a store zarr decodes at a time, when a block takes several.
AT_A_TIME = 10
#: The codecs that compress into a buffer of the size of their input; others copy it twice more.
FRUGAL = frozenset({"Blosc", "BloscCodec", "Zstd", "ZstdCodec"})
#: A loss that no program holds is assumed to allocate this multiple of its rows.
UNKNOWN = 8
#: The memory of a process besides arrays: the tasks themselves and threads' stacks,
BESIDE = 30 * 2**20
#: and the fraction that the allocator cannot use for each thread, up to a number of threads.
SPLIT, SPREAD = 10, 3


class Read(NamedTuple):
    """A block that is read.

    Attributes
    ----------
    key : key
        Its own name, or that of its array.
    chunks : tuple of int or None
        The shape of the store's chunks, if known.
    places : tuple of range or None
        The positions of the block's elements along each axis; None: those of any block of the array.
    """

    key: Any
    chunks: tuple[int, ...] | None
    places: tuple[range, ...] | None


class Effect(NamedTuple):
    """The effect of computing a value on memory.

    Attributes
    ----------
    result : int
        Bytes of new memory that live as long as the value.
    inside : int
        The most new memory while it is computed, in bytes, including the result.
    parts : tuple of keys
        Operands whose memory the value may share.
    reads : tuple of Read
        The blocks that are read from outside memory.
    """

    result: int
    inside: int
    parts: tuple[Any, ...] = ()
    reads: tuple[Read, ...] = ()


NOTHING = Effect(0, 0)


class Effects:
    """The effects of tasks.

    Parameters
    ----------
    graph : mapping
        The tasks, by key.
    size : callable
        Returns the size of a key's value, also for one within tasks, None if it is not declared.
    written : mapping
        The layers of the original graph, by name.
    """

    def __init__(self, graph: Graph, size: Callable[[Any], int | None], written: Mapping[str, Any]) -> None:
        self.graph, self.stated, self.written = graph, size, written
        self._found: dict[Any, Effect] = {}
        self._alike: dict[Any, Effect] = {}
        self._programs: dict[int, int] = {}
        self._adders: tuple[Any, ...] = ()
        self._sizes: dict[Any, int] = {}
        #: The sizes of the two factors of the blocks of an array, by its name,
        self._factors: dict[str, tuple[int, int]] = {}
        #: and the names of arrays whose blocks are views in another order.
        self._rearranged: set[str] = set()
        #: The arguments that tasks contain directly, by key.
        self._data: dict[Any, Any] = {}

    def __call__(self, key: Any) -> Effect:
        found = self._found.get(key)
        if found is None:
            node = self.graph[key]
            kind = self._kind(node)
            found = self._alike.get(kind)
            if found is None or found.parts:
                found = self._of(node, key, self.size)
            self._found[key] = found
            if kind is not None:
                self._alike[kind] = found
        return found

    def _kind(self, node: GraphNode) -> Any:
        """Return the key that groups of places share whose effects are the same; None: it is another task."""
        if not isinstance(node, Task) or node.func is not fusing.run_group or node.args[1].run is None:
            return None
        run, places = node.args[1].run, node.args[1].places
        return None if run.owned.get(places.start) else (run.name, len(places))

    def size(self, key: Any) -> int:
        """Return the size of a value: if it is not declared, that of its largest operand, or of all that it joins."""
        stack = [key]
        while stack:
            at = stack[-1]
            said, node = self.stated(at), self.graph.get(at)
            if at not in self._sizes and (said is not None or node is None or isinstance(node, DataNode)):
                self._sizes[at] = said or 0
            if at in self._sizes:
                stack.pop()
            elif getattr(node, "func", None) is fusing.run_group:
                self._sizes[at] = self(at).result
            elif missing := [d for d in node.dependencies if d not in self._sizes]:
                stack.extend(missing)
            else:
                self._sizes[at] = _of_operands(node, [self._sizes[d] for d in node.dependencies])
        return self._sizes[key]

    # -- what tasks do -------------------------------------------------------------------------------------------------

    def _of(self, node: Any, key: Any, size: Size) -> Effect:
        if isinstance(node, DataNode):
            self._data[key] = node.value
            return NOTHING
        if isinstance(node, Alias):
            return Effect(0, 0, (node.target,))
        if isinstance(node, fusing.TaskList):
            steps = [(task, step, needs, done) for task, step, needs, done in node.steps]
            outer = {inner: name for inner, name, _ in node.given}
            return self._within(outer, steps, node.results, size)
        function = getattr(node, "function", None) or getattr(node, "func", None)
        if function is fusing.run_group:
            return self._of_group(node, key)
        if function is fusing.combined or function is fusing.sums_of:
            folds, losses = self._sums(node)
            count = 1 if function is fusing.sums_of else len(node.dependencies)
            return Effect(folds + losses, count.bit_length() * folds + 2 * losses)
        if isinstance(node, Task) and node.has_subgraph():
            return self._fused(node, key, size)
        needs = tuple(getattr(node, "dependencies", ()) or self._needs(node))
        return self._of_call(node, function, key, needs, size)

    def _within(self, outer: Mapping[Any, Any], steps: list[Any], results: tuple[Any, ...], size: Size) -> Effect:
        """Follow the steps of a fused task, whose names for data stand for others in the next one."""
        own = [*outer, *(at for task, at, *_ in steps if isinstance(task, DataNode))]
        before = {name: self._data.pop(name) for name in own if name in self._data}
        self._data |= {
            inner: value
            for inner, name in outer.items()
            if (value := before[name] if name in before else self._value(TaskRef(name))) is not None
        }
        try:
            return self._steps(steps, results, size, outer)
        finally:
            for name in own:
                self._data.pop(name, None)
            self._data |= before

    @staticmethod
    def _needs(node: Any) -> tuple[Any, ...]:
        """Return the keys that a `TaskCall` looks up."""
        return tuple(a for given, a in getattr(node, "args", ()) if given) if isinstance(node, fusing.TaskCall) else ()

    def _of_group(self, node: Task, key: Any) -> Effect:
        adders, task_list = node.args[0], node.args[1].made()
        outer = {inner: name for inner, name, _ in task_list.given}
        self._adders = adders
        found = self._steps(list(task_list.steps), task_list.results, self.size, outer)
        folds, losses = self._sums(node) if adders else (0, 0)
        # a sum of pairs, and pairs of pairs, holds one sum of each size
        held = (len(node.args[1].places).bit_length() - 1) * folds
        return found._replace(result=found.result + folds + losses, inside=found.inside + max(held, folds) + 2 * losses)

    def _sums(self, node: Any) -> tuple[int, int]:
        """Return the size of a task's sums: of those by pairs, which are like one place's, and of parameters' gradients, with room for two."""
        function = getattr(node, "func", None)
        if function is fusing.sums_of or function is fusing.combined:
            return max((self._sums(self.graph.get(d)) for d in node.dependencies), key=sum, default=(0, 0))
        folds = losses = 0
        if function is fusing.run_group:
            for adder, fold in zip(node.args[0], node.args[1].run.folds, strict=True):
                step = self._step_of(adder)
                if step is None:
                    folds += sum(self.stated(name) or 0 for name in fold.names)
                elif step.loss is not None:
                    losses += 2 * sum(getattr(leaf, "nbytes", 0) for leaf in step.loss.leaves)
        return folds, losses

    def _step_of(self, adder: Any) -> Any:
        for key in adder.shared:
            node = self.graph.get(key)
            if isinstance(node, DataNode) and isinstance(node.value, lowering.CallContext):
                return node.value
        return None

    def _fused(self, node: Task, key: Any, size: Size) -> Effect:
        """Return the effect of a task that Dask fused, which runs its steps in Dask's order."""
        inner, result, names, *refs = node.args
        known = {name: ref.key if isinstance(ref, TaskRef) else None for name, ref in zip(names, refs, strict=True)}
        tasks = {at: task for at, task in inner.items() if not isinstance(task, DataNode)}
        ranks = order(dict(inner))
        last: dict[Any, Any] = {}
        ordered = sorted(tasks, key=ranks.__getitem__)
        for at in ordered:
            for need in tasks[at].dependencies:
                last[need] = at
        steps = []
        for at in ordered:
            done = tuple(need for need, user in last.items() if user == at and need in tasks and need != result)
            steps.append((tasks[at], at, tuple(tasks[at].dependencies), done))
        self._data |= {at: task.value for at, task in inner.items() if isinstance(task, DataNode)}
        for name, ref in zip(names, refs, strict=True):
            given = self._value(ref)
            if given is not None:
                self._data[name] = given
        return self._steps(steps, (result,), size, {k: v for k, v in known.items() if v is not None})

    def _steps(
        self,
        steps: Iterable[tuple[Any, Any, tuple[Any, ...], tuple[Any, ...]]],
        results: tuple[Any, ...],
        size: Size,
        outer: Mapping[Any, Any],
    ) -> Effect:
        """Follow steps that run one after another; each lists the values that are not needed after it."""
        memory = _Memory()
        made: dict[Any, int] = {}
        reads: list[Any] = []

        def sized(at: Any) -> int:
            found = made.get(at)
            if found is None:
                found = self.stated(at)
            if found is None:
                found = size(outer.get(at, at))
            return found

        for name, own in outer.items():
            memory.given(name, own)
        for task, at, needs, done in steps:
            if type(task) is fusing.PatternInstance:
                self._place(task, memory, made, reads, sized)
            elif type(task) is fusing.Add:
                memory.most = max(memory.most, memory.now + self._added(self._adders[task.fold], task, sized))
            else:
                effect = self._of(task, at, sized)
                made[at] = self._bytes(at, task, needs, sized)
                memory.make(at, effect)
                reads += effect.reads
            for name in done:
                memory.drop(name)
        result, parts = memory.left(results)
        return Effect(result, memory.most, parts, tuple(reads))

    def _bytes(self, at: Any, task: Any, needs: Iterable[Any], sized: Size) -> int:
        said = self.stated(at)
        return _of_operands(task, list(map(sized, needs))) if said is None else said

    def _place(
        self, place: fusing.PatternInstance, memory: _Memory, made: dict[Any, int], reads: list[Any], sized: Size
    ) -> None:
        names = dict(place.names)
        inside = _Memory()
        own: dict[Any, int] = {}

        def within(at: Any) -> int:
            found = own.get(at, own.get(name_of(at)))
            if found is None:
                found = sized(names[at]) if at in names else self.stated(at)
            return found or 0

        for name, key in names.items():
            inside.given(name, key)
        for task, at, needs, done in place.task_list.steps:
            if type(task) is tiling.Tiled:
                own |= {key: self.stated(key) or 0 for key in task.keys}
                for key in task.keys:
                    inside.make(key, Effect(own[key], own[key]))
                inside.most = max(inside.most, inside.now + task.buffers * tiling.TILE)
                for name in done:
                    inside.drop(name)
                continue
            effect = self._of(place.own.get((at, "task"), task) if at not in own else task, at, within)
            own[at] = self._bytes(at, task, needs, within)
            # tasks of a place's own name blocks where others name arrays
            parts = tuple(part if part in inside.lies else name_of(part) for part in effect.parts)
            inside.make(at, effect._replace(parts=parts))
            reads += effect.reads
            for name in done:
                inside.drop(name)
        memory.most = max(memory.most, memory.now + inside.most)
        for at, key in zip(place.task_list.results, place.keys, strict=True):
            result, parts = inside.left((at,))
            made[key] = own.get(at, within(at))
            memory.make(key, Effect(result, 0, parts))

    def _added(self, adder: Any, add: fusing.Add, sized: Size) -> int:
        """Return the effect of adding some blocks."""
        given = sum(sized(key) for keys in add.blocks for key in keys)
        step = self._step_of(adder)
        if step is None:
            return given
        joined = given if len(add.numbers) > 1 else 0
        if not step.kinds:  # the loss itself runs, whose allocations are unknown
            return joined + UNKNOWN * given
        programs = [self.program(kind.program) for kind in step.kinds.values()]
        return joined + (sum(programs) if any(kind.keep for kind in step.kinds.values()) else max(programs))

    # -- what functions do ---------------------------------------------------------------------------------------------

    def _of_call(self, node: Any, function: Any, key: Any, needs: tuple[Any, ...], size: Size) -> Effect:
        result = self.stated(key)
        operands = [size(d) for d in needs]
        if result is None:
            result = _of_operands(node, operands)
        function = self._unwrapped(node, function)
        function = getattr(function, "method", function) if type(function).__name__ == "methodcaller" else function
        args = self._arguments(node)
        name = function if isinstance(function, str) else getattr(function, "__name__", type(function).__name__)
        if getattr(function, "__qualname__", "") == "_broadcast_trick_inner":  # one element, at all places
            return NOTHING
        if function in GETTERS:
            return self._read(args, key, needs, result, operands)
        if function is blocks._run:
            return self._of_program(args, needs, size)
        if function is borders.parts_of:
            copied = self._copied(needs[0], *args[1:])
            return Effect(copied, copied)
        if function is borders.put_together:
            assembly = args[0].assembly
            return Effect(0, 0, needs) if assembly is None or assembly.is_view else Effect(result, result)
        if function is writing.write_block:
            return Effect(0, self._encoding(args, max(operands, default=0)))
        if name == "load_store_chunk":
            return Effect(0, 2 * max(operands, default=0))
        if name == "_placed":
            return Effect(result, result + max(operands, default=0), needs)
        if name == "getitem" and len(args) > 1 and not _is_basic(args[1]):
            return Effect(result, result)
        if name in TAKERS and len(args) > 1:
            return self._taken(args, result)
        if name == "concatenate_arrays":  # of Dask's shuffle, which puts it into another order then
            return Effect(result, 2 * result)
        # at lazy positions, of which several arrays are made
        if function in (indexing._take_block, indexing._add_block):
            places = size(args[-2].key) if isinstance(args[-2], TaskRef) else 0
            return Effect(result, result + 4 * places + max(operands, default=0))
        if name == "moment_chunk":  # the differences from the mean, and their squares
            return Effect(result, result + 2 * max(operands, default=0))
        if name in {"qr", "_wrapped_qr"}:
            return self._factorised(args, key, result)
        if name == "getitem" and len(args) > 1 and needs and name_of(needs[0]) in self._factors and args[1] in (0, 1):
            own = self._factors[name_of(needs[0])][args[1]]
            return Effect(own, own)  # the other may be dropped
        makes = making.declared(function) or _made_by(function, name)
        if makes == making.NOTHING:
            facts = facts_of(ALIKE.get(name, name))
            is_rearranged = not self._rearranged.isdisjoint(map(name_of, needs))
            if name == "reshape" and is_rearranged:
                return Effect(result, result)
            if is_rearranged or (facts.is_view and not facts.in_order):
                self._rearranged.add(name_of(key))
            return Effect(0, 0, needs)
        if not needs and makes is None and not name_of(key).startswith(repeats._CONSTANTS):
            read = (Read(key, None, None),) if self._is_outside(node, key) else ()
            return Effect(result, 2 * result, (), read)
        if makes == making.RESULT or name_of(key).startswith(repeats._CONSTANTS):
            return Effect(result, result)
        return Effect(result, result + max(operands, default=0))

    @staticmethod
    def _unwrapped(node: Any, function: Any) -> Any:
        """Return the function that Dask calls for a task, under what it wraps functions in."""
        # Which converts a result of another dtype; few have one
        if getattr(function, "__name__", "") == "_enforce_dtype":
            function = node.kwargs["enforce_dtype_function"]
            function = function.value if isinstance(function, DataNode) else function
        if function is apply:  # in Dask's cumulative sums
            function = node.args[0].value if isinstance(node.args[0], DataNode) else node.args[0]
        while isinstance(function, functools.partial):
            function = function.func
        return function

    @staticmethod
    def _arguments(node: Any) -> list[Any]:
        if isinstance(node, fusing.TaskCall):
            return [TaskRef(a) if given else a for given, a in node.args]
        return list(getattr(node, "args", ()))

    def _is_outside(self, node: Any, key: Any) -> bool:
        """Return whether a value without dependencies comes from outside memory."""
        layer = self.written.get(name_of(key))
        return layer is None or repeats._reads(name_of(key), layer)

    def _value(self, argument: Any) -> Any:
        """Return the data that an argument is, None for another."""
        if isinstance(argument, TaskRef):
            if argument.key in self._data:
                return self._data[argument.key]
            argument = self.graph.get(argument.key)
        if isinstance(argument, DataNode):
            return argument.value
        return None if isinstance(argument, GraphNode) else argument

    def _read(self, args: list[Any], key: Any, needs: tuple[Any, ...], result: int, operands: list[int]) -> Effect:
        """Return the effect of taking a part of a block, or of an argument such as a store."""
        source = self._value(args[0]) if args else None
        if source is None:  # a block of another array
            is_view = _is_basic(args[1]) and 2 * result > max(operands, default=0)  # Dask copies what is less
            return Effect(0, 0, needs) if is_view else Effect(result, result)
        if backend_of(source) is not None:  # an array in memory
            return Effect(0, 0)
        places = _places(self._value(args[1]), source.shape)
        if places is not None:  # of a slice, Dask reads no more than it takes
            result = math.prod(map(len, places)) * source.dtype.itemsize
        known = self._lengths_of(key) if places is None else None
        made, chunks = self._decoding(source, result, places, None if known is None else known[0])
        return Effect(result, result + made, (), (Read(key, chunks, places),))

    def _taken(self, args: list[Any], result: int) -> Effect:
        """Return the effect of taking elements of a block at index arrays, as Dask's shuffle and `vindex` do."""
        block, key = args[0], self._value(args[1])
        known = self._lengths_of(block.key) if isinstance(block, TaskRef) else None
        if type(key) is tuple and len(key) == 2 and type(key[1]) is tuple:  # the shuffle's own form
            key = key[1]
        count = None if known is None else _count(key, known[0])
        own = result if known is None or count is None else count * known[1]
        return Effect(own, own)

    def _factorised(self, args: list[Any], key: Any, result: int) -> Effect:
        """Return the effect of the decomposition of a block into two matrices, of a copy."""
        known = self._lengths_of(args[0].key) if args and isinstance(args[0], TaskRef) else None
        if known is None or len(known[0]) != 2:
            factors = result, result
        else:
            (rows, columns), itemsize = known
            factors = rows * min(rows, columns) * itemsize, min(rows, columns) * columns * itemsize
        self._factors[name_of(key)] = factors
        return Effect(sum(factors), sum(factors) + result)

    def _decoding(
        self, source: Any, result: int, places: tuple[range, ...] | None, lengths: list[int] | None
    ) -> tuple[int, tuple[int, ...] | None]:
        """Return the additional allocations of reading a block at places, or of lengths alone, and the chunks of the store.

        These are on disk, and are decoded.
        """
        array = source
        while not hasattr(array, "compressors") and not hasattr(array, "_async_array"):
            inner = getattr(array, "array", None)
            if inner is None or inner is array:
                return 2 * result, None  # its allocations are unknown
            array = inner
        chunks = getattr(array, "shards", None) or array.chunks
        stored = math.prod(chunks) * array.dtype.itemsize
        if places is None and lengths is None:
            count = -(-result // max(1, stored))
        else:
            count = _most_touched(places, lengths or [], chunks)
        packed = stored if getattr(array, "compressors", ()) else 0
        taken_over = source is not array and type(source).__name__ == "ZarrArray" and result == stored and count == 1
        return min(AT_A_TIME, count) * (packed + (0 if taken_over else stored)), chunks

    def _encoding(self, args: list[Any], block: int) -> int:
        """Return the allocations of writing a block to a zarr array: what zarr and the codecs of the target copy."""
        target = self._value(args[1])
        if not hasattr(target, "compressors"):  # planned for the store that zarr makes by default
            return 2 * block
        places = _places(self._value(args[2]), target.shape)
        lengths = None if places is None else tuple(map(len, places))
        shards = getattr(target, "shards", None)
        stored = tuple(shards or target.chunks)
        itemsize = target.dtype.itemsize
        chunk = math.prod(stored) * itemsize
        # where a task stands for several places, none says what it writes
        own, is_whole = (
            (block, block == chunk) if lengths is None else (math.prod(lengths) * itemsize, lengths == stored)
        )
        copies = 1 + len(getattr(target, "filters", ()) or ())  # in C order
        copies += not is_whole  # pieces, or a part of a chunk, which is padded
        copies += 2 if shards else 0
        copies += max((1 if type(each).__name__ in FRUGAL else 3 for each in target.compressors), default=0)
        return copies * max(own, chunk) + (own if own != block else 0)

    def _of_program(self, args: list[Any], needs: tuple[Any, ...], size: Size) -> Effect:
        running = self._value(args[0])[args[1]]
        kind, given = running.kind, running.nbytes
        outputs = sum(kind.program.shapes[number].nbytes for number in dict.fromkeys(kind.program.outputs))
        parts = tuple(dict.fromkeys(args[2 + i].key for i in running.views))
        return Effect(outputs, given + max(outputs, self.program(kind.program)), parts)

    def _copied(self, block: Any, parts: tuple[Any, ...], taken: Any) -> int:
        """Return the bytes of copies of a part of a block, or of some of several."""
        lengths = self._lengths_of(block)
        count = None if lengths is None else _count(self._value(taken), lengths[0])
        return self.size(block) if lengths is None or count is None else len({*parts}) * count * lengths[1]

    def _lengths_of(self, block: Any) -> tuple[list[int], int] | None:
        """Return the lengths of the largest block of an array, and the bytes of an element, None if they are unknown."""
        layer = self.written.get(name_of(block)) or self.written.get(origins.array_of(block))
        said = getattr(layer, "collection_annotations", None) or {}
        if "chunks" not in said or any(math.isnan(n) for along in said["chunks"] for n in along):
            return None
        return [max(along, default=0) for along in said["chunks"]], int(said["dtype"].itemsize)

    def program(self, program: Any) -> int:
        """Return the peak of a program, without its arguments."""
        found = self._programs.get(id(program))
        if found is None:
            memory = program.memory()
            found = self._programs[id(program)] = memory.peak - memory.inputs
        return found


def _of_operands(node: Any, sizes: list[int]) -> int:
    """Return the size of a value that none is declared for, given those of its operands."""
    name = getattr(getattr(node, "function", None) or getattr(node, "func", None), "__name__", "")
    return sum(sizes) if name in JOINING else max(sizes, default=0)


def _made_by(function: Any, name: str) -> str | None:
    """Return what a function of an array library makes, as what is declared about the operation of its name says it."""
    if isinstance(function, np.ufunc):
        return making.RESULT
    module = getattr(function, "__module__", None) or ""
    facts = facts_of("" if module.startswith("agrad") else ALIKE.get(name, name))
    if facts.is_view or facts.creates == "from data":
        return making.NOTHING
    return making.RESULT if facts.makes_its_result_alone or module == "_operator" else None


class _Memory:
    """Values held, and the memory that each occupies."""

    def __init__(self) -> None:
        self.now = self.most = 0
        self.lies: dict[Any, set[Any]] = {}
        self.own: dict[Any, int] = {}
        self.users: Counter[Any] = Counter()

    def given(self, name: Any, key: Any) -> None:
        """Add the outer inputs."""
        self._hold(name, {("outside", key)})

    def make(self, name: Any, effect: Effect) -> None:
        """Make a value."""
        self.most = max(self.most, self.now + effect.inside, self.now + effect.result)
        lies = {place for part in effect.parts for place in self.lies.get(part, ())}
        if effect.result:
            lies.add(name)
            self.own[name] = effect.result
            self.now += effect.result
        self._hold(name, lies)

    def _hold(self, name: Any, lies: set[Any]) -> None:
        self.lies[name] = lies
        self.users.update(lies)

    def drop(self, name: Any) -> None:
        """Let a value go."""
        for place in self.lies.pop(name, ()):
            self.users[place] -= 1
            if not self.users[place]:
                self.now -= self.own.pop(place, 0)

    def left(self, names: Iterable[Any]) -> tuple[int, tuple[Any, ...]]:
        """Return the size of some values, and the outer inputs whose memory they share."""
        places = {place for name in names for place in self.lies.get(name, ())}
        outside = tuple(place[1] for place in places if type(place) is tuple and place[0] == "outside")
        return sum(self.own.get(place, 0) for place in places), outside


def _is_basic(key: Any) -> bool:
    """Return whether a key of an array selects a view."""
    if isinstance(key, DataNode):
        key = key.value
    if isinstance(key, GraphNode):
        return all(map(_is_basic, getattr(key, "args", ()))) and not key.dependencies
    parts = key if isinstance(key, tuple | list) else (key,)
    return all(
        part is None or part is Ellipsis or isinstance(part, slice | int | np.integer | DataNode) for part in parts
    )


def peak(graph: Graph, targets: Iterable[Any], effects: Effects, threads: int) -> Peak:
    """Follow the local scheduler through the tasks of a pass and sum up what is in memory.

    Parameters
    ----------
    graph, targets
        As for `staging.stages`. Data in the graph are not counted.
    threads : int
        The number of concurrent tasks.
    """
    graph = culled(graph, targets)
    rank, users, kept = order(dict(graph)), users_of(graph), frozenset(targets)
    paces = (_by_task, _by_size) if threads > 1 else (_by_task,)
    found = [_followed(graph, kept, effects, threads, rank, users, pace) for pace in paces]
    return max(found, key=lambda each: each.nbytes)


def _by_task(_: Effect) -> float:
    """Let each task take one unit of time."""
    return 1.0


def _by_size(effect: Effect) -> float:
    """Let a task take as long as it makes arrays: while one thread works on a large one, the others come to many small ones."""
    return 1.0 + effect.inside


def _followed(
    graph: Graph,
    kept: frozenset[Any],
    effects: Effects,
    threads: int,
    rank: Mapping[Any, int],
    users: Mapping[Any, Any],
    pace: Callable[[Effect], float],
) -> Peak:
    """Follow the scheduler through tasks that take some time each."""
    memory = _Memory()
    tasks = [key for key, node in graph.items() if not isinstance(node, DataNode)]
    needs = {key: [d for d in graph[key].dependencies if d in graph] for key in tasks}
    waiting = {key: sum(not isinstance(graph[d], DataNode) for d in needs[key]) for key in tasks}
    left = {key: len(users[key]) for key in graph}
    ready = sorted((key for key, count in waiting.items() if not count), key=rank.__getitem__, reverse=True)
    running: list[tuple[float, int, Any, int]] = []
    now = 0.0
    busy = most = largest = 0
    # while one thread begins a task, others may still hold what they have just used
    lingering = (threads - 1) * max((effects(key).result for key in tasks if key not in kept), default=0)
    begun = 0
    worst: Any = None
    while ready or running:
        while ready and len(running) < threads:
            key = ready.pop()
            begun += 1
            effect = effects(key)
            heapq.heappush(running, (now + pace(effect), rank[key], key, effect.inside))
            busy += effect.inside
            whole = effect.inside + sum(memory.own.get(d, 0) for d in needs[key])
            if whole > largest:
                largest, worst = whole, key
        # threads go at their own pace: beside what one does, others may do what comes next
        then = (user for *_, key, _ in running for user in users[key] if waiting[user] == 1)
        following = [effects(key).inside for key in (*ready[-threads:], *then)]
        inside = heapq.nlargest(threads, (*following, *(each for *_, each in running)))
        beside = lingering if begun < len(tasks) else 0
        most = max(most, memory.now + max(busy, sum(inside)) + beside)
        now, _, key, _ = heapq.heappop(running)
        effect = effects(key)
        busy -= effect.inside
        memory.make(key, effect._replace(inside=0))
        for user in sorted(users[key], key=rank.__getitem__, reverse=True):
            waiting[user] -= 1
            if not waiting[user]:
                ready.append(user)
        for d in (key, *needs[key]):
            left[d] -= d != key
            if left[d] == 0 and d not in kept:
                memory.drop(d)
    return Peak(most, worst, largest)


def taken(nbytes: int, threads: int) -> int:
    """Return the allocator's overhead for arrays of a total size."""
    return nbytes + min(threads, SPREAD) * nbytes // SPLIT


def _places(key: Any, shape: tuple[int, ...]) -> tuple[range, ...] | None:
    """Return the positions along each axis that slices and integers select, None if the key has others."""
    parts = key if isinstance(key, tuple) else (key,)
    if len(parts) != len(shape) or not all(isinstance(part, slice | int | np.integer) for part in parts):
        return None
    ends = [part if isinstance(part, slice) else slice(part, part + 1) for part in parts]
    return tuple(range(n)[part] for part, n in zip(ends, shape, strict=True))


def _count(key: Any, lengths: list[int]) -> int | None:
    """Return how many elements slices and index arrays, which go together, select; None: it is not known."""
    parts = key if isinstance(key, tuple | list) else (key,)
    if len(parts) != len(lengths) or not all(isinstance(part, slice | list | np.ndarray) for part in parts):
        return None
    count, points = 1, 1
    for part, n in zip(parts, lengths, strict=True):
        if isinstance(part, slice):
            count *= len(range(n)[part])
        else:
            points = max(points, len(part))
    return count * points


def _touched(places: range, chunk: int | None, n: int) -> tuple[int, int]:
    """Return how many chunks of some length have elements at places along an axis, and how many elements these chunks have."""
    if chunk is None or not places:  # a block is read as it is
        return min(len(places), 1), len(places)
    touched = (
        [i // chunk for i in places] if places.step > chunk else range(places[0] // chunk, places[-1] // chunk + 1)
    )
    return len(touched), sum(min(chunk, n - i * chunk) for i in touched)


def _most_touched(places: tuple[range, ...] | None, lengths: list[int], chunks: tuple[int, ...]) -> int:
    """Return how many chunks a block touches, or may touch if only its lengths are known."""
    if places is not None:
        return math.prod(_touched(along, own, along.stop)[0] for along, own in zip(places, chunks, strict=True))
    return math.prod(
        -(-n // own) if not n % own else (n + own - 2) // own + 1 for n, own in zip(lengths, chunks, strict=True)
    )


def read(found: Iterable[Read], written: Mapping[str, Any]) -> tuple[int, int]:
    """Return how many chunks are read, and their size: those of the store if they are known.

    Parameters
    ----------
    found : iterable
        The `Effect.reads` of all tasks.
    written : mapping
        The layers of the original graph, by name.
    """
    count = nbytes = 0.0
    for (key, chunks, places), times in Counter(found).items():
        layer = written.get(name_of(key)) or written.get(origins.array_of(key))
        said = getattr(layer, "collection_annotations", None) or {}
        if "chunks" not in said:
            count += times
            continue
        blocks, parts, total = 1, 1, float(said["dtype"].itemsize)
        for axis, each in enumerate(said["chunks"]):
            own = chunks[axis] if chunks is not None and len(chunks) == len(said["chunks"]) else None
            if any(map(math.isnan, each)):  # of unknown lengths
                blocks, parts, total = blocks * len(each), parts * len(each), math.nan
                continue
            if places is not None and len(places) == len(said["chunks"]):
                along = [places[axis]]
            else:
                along = [range(end - n, end) for n, end in zip(each, itertools.accumulate(each), strict=True)]
            touched = [_touched(one, own, sum(each)) for one in along]
            blocks *= len(along)
            parts *= sum(number for number, _ in touched)
            total *= sum(items for _, items in touched)
        count += times * parts / blocks
        nbytes += 0 if math.isnan(total) else times * total / blocks
    return round(count), round(nbytes)
