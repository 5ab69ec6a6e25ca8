"""How values are computed: every pass over Dask's tasks goes through `realize`, except those of `lowering`.

Dask optimises the graph as usual and passes it to `_PassScheduler`, which computes it in the passes of `staging` on the active
scheduler: the threads of this process, or a `distributed` cluster.
"""

from __future__ import annotations

import math
import operator
import uuid
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import Any, TypeVar

import dask
import dask.local
import dask.threaded
import numpy as np
from dask._task_spec import Alias, DataNode, GraphNode, Task, convert_legacy_graph
from dask.base import get_scheduler, is_dask_collection
from dask.callbacks import Callback
from dask.core import flatten
from dask.highlevelgraph import HighLevelGraph, MaterializedLayer
from dask.sizeof import sizeof
from dask.system import CPU_COUNT
from dask.utils import format_bytes, parse_bytes

from agrad import Tensor
from agrad.plugin.backend import Outlook, in_dask, internal, is_asked, is_followed, once, told, uncollected
from agrad_dask import arenas, fusing, origins, repeats, runs, staging
from agrad_dask.reductions import OF_TWO
from agrad_dask.staging import name_of
from agrad_dask.workers import LargestBlock, Workers
from agrad_numpy import allocator  # noqa: F401 (chunks in flight are freed and made anew all the time)

internal(__file__)

T = TypeVar("T")

#: The valid keys of Dask's configuration under "agrad",
CONFIGURED = frozenset({"max_memory", "progress", "retries"})
#: and the lines and settings already warned about.
_TOLD: set[str] = set()


def realize(
    arrays: tuple[Any, ...],
    *,
    keep: str = "host",
    max_memory: int | str | None = None,
    progress: bool | None = None,
    retries: int | None = None,
) -> tuple[Any, ...]:
    """Compute arrays together; see `DaskBackend.realize`."""
    if keep not in {"host", "backend"}:
        message = f"keep is 'host' or 'backend', not {keep!r}"
        raise ValueError(message)
    if not arrays:
        return ()
    run = _PassScheduler(arrays, keep=keep, max_memory=max_memory, progress=progress, retries=retries)
    layers = repeats.needed(run.written, [array.name for array in arrays if hasattr(array, "name")])
    repeats.warn(run.written, layers)
    made: tuple[Any, ...] = dask.persist(*arrays, scheduler=run)
    repeats.remember(layers)
    return made


def outlook(arrays: tuple[Any, ...], *, max_memory: int | str | None) -> Outlook:
    """Return what a joint computation of arrays will read and hold."""

    def planned(arrays: tuple[Any, ...]) -> Outlook:
        run = _PlanningScheduler(arrays, keep="host", max_memory=max_memory, progress=False, retries=None)
        dask.persist(*arrays, scheduler=run)
        return run.found

    found = planned(arrays)
    found.stored = found.peak
    if any(array.npartitions > 1 for array in arrays) and found.result >= STORED:
        found.stored = planned(tuple(map(_as_stored, arrays))).peak
    return found


def _as_stored(array: Any) -> Any:
    """Return the same for writing an array in several chunks to a store, if its sizes are known."""
    from agrad_dask import writing  # noqa: PLC0415 (only where something is written)

    if array.npartitions < 2 or any(math.isnan(n) for n in array.shape):
        return array
    return writing.written(array, writing.NullTarget(tuple(max(along) for along in array.chunks)))


def is_held(array: Any) -> bool:
    """Return whether the values of an array are in memory: it was computed or persisted."""
    layer = array.dask.layers.get(array.name)
    if not isinstance(layer, MaterializedLayer):
        return False
    return not any(isinstance(node, tuple | list | Task | Alias) for node in layer.values())


def values(*arrays: Any) -> list[Any]:
    """Compute arrays together; gives arrays of the chunks' library."""
    if is_asked(arrays):
        return [_standing_for(array) for array in arrays]
    found = []
    for made in realize(arrays):
        finish, extra = made.__dask_postcompute__()
        found.append(finish(_blocks(made.__dask_keys__(), made.dask), *extra))
    return found


def _standing_for(array: Any) -> Any:
    """Return ones in the place of values; an axis of unknown length has one."""
    one = np.ones_like(array._meta, shape=())
    return np.broadcast_to(one, tuple(1 if math.isnan(n) else n for n in array.shape))


def run(
    arrays: Sequence[Any], tasks: Mapping[Any, GraphNode], key: Any, given: Mapping[Any, Any], what: str, nbytes: float
) -> Any:
    """Compute a value by tasks on arrays and other arguments; a cluster receives these once, not with each task.

    Parameters
    ----------
    what : str
        The function that the tasks run,
    nbytes : float
        and the memory for the largest rows that one of them gets.
    """
    run = _PassScheduler(tuple(arrays), keep="host", max_memory=None, progress=None, retries=None)
    run.what, run.block = what, LargestBlock(nbytes, f"the rows of a chunk, for {what}")
    if run.workers is not None:
        run.workers.refuse(run.block)
    whole = tasks | {k: DataNode(k, value) for k, value in given.items()}
    told(lambda: run.outlook_of([([key], whole)], [key], run.threads()))
    if run.client is None:
        with run.shown(tasks, 1, 1):
            return run.locally(whole, [key], None, {})[0]
    sent = {k: run.client.scatter(value, hash=False) for k, value in given.items()}
    return run.client.gather(run.on_cluster(run.without_kept(tasks), sent, [key], {}))[0]


def _blocks(keys: Any, graph: Mapping[Any, Any]) -> Any:
    if isinstance(keys, list):
        return [_blocks(key, graph) for key in keys]
    node = graph[keys]
    return node() if isinstance(node, DataNode) else node


def _check_config() -> None:
    """Warn about keys of Dask's configuration for agrad that nothing reads."""
    said = dask.config.get("agrad", None) or {}
    for key in {key.replace("-", "_") for key in said} - CONFIGURED - _TOLD:
        _TOLD.add(key)
        warnings.warn(
            f'nothing reads "agrad.{key}" of Dask\'s configuration; the known keys are {", ".join(sorted(CONFIGURED))}.',
            stacklevel=2,
        )


#: Results of this size, in several chunks, may be meant for a store.
STORED = 2**20


class _PassScheduler:
    """A scheduler for Dask: computes a graph, in as many passes as it takes, on the scheduler that is active."""

    def __init__(
        self,
        arrays: tuple[Any, ...],
        *,
        keep: str,
        max_memory: int | str | None,
        progress: bool | None,
        retries: int | None,
    ) -> None:
        self.schedule: Any = get_scheduler(collections=[array for array in arrays if is_dask_collection(array)])
        client = getattr(self.schedule, "__self__", None)
        self.client: Any = client if hasattr(client, "persist") else None
        #: The futures before a run: those lost during it can no longer be queried.
        self.workers = None if self.client is None else Workers.of(self.client)
        self.keep = keep
        _check_config()
        limit = dask.config.get("agrad.max_memory", None) if max_memory is None else max_memory
        self.max_memory = None if limit is None else parse_bytes(limit)
        wanted = _LINES.get() is not None or dask.config.get("agrad.progress", False)
        self.progress = wanted if progress is None else progress
        self.retries = dask.config.get("agrad.retries", 0) if retries is None else retries
        #: The work and its largest block, for errors, if the graph does not show them.
        self.what: str = ""
        self.block: LargestBlock | None = None
        #: The suffixes of the names of this run's tasks on a cluster, and of values kept there.
        self.mark, self.elsewhere = uuid.uuid4().hex, dict[Any, Any]()
        graphs = [array.dask for array in arrays if isinstance(getattr(array, "dask", None), HighLevelGraph)]
        #: The graph by names of arrays, before Dask fused tasks.
        self.written = HighLevelGraph.merge(*graphs) if graphs else HighLevelGraph({}, {})
        #: With annotations for a cluster, which layers have, tasks run as Dask fuses them.
        self.contracts = not (
            self.client is not None and any(layer.annotations for layer in self.written.layers.values())
        ) and all(getattr(array, "name", None) in self.written.layers for array in arrays)

    def __call__(self, expression: Any, keys: Any, **options: Any) -> list[Any]:
        """Compute, as a scheduler called by Dask."""
        keys = list(flatten(keys))
        if self.contracts:
            threads = self.threads() if self.max_memory is None else self.fitting(keys)[1]
            if threads:
                return self.contracted(keys, options, threads)
        given = expression if isinstance(expression, Mapping) else expression.__dask_graph__()
        graph: dict[Any, GraphNode] = convert_legacy_graph(given)
        if all(isinstance(graph.get(key), DataNode) for key in keys):
            return [graph[key]() for key in keys]
        if self.client is not None:
            graph = self.without_kept(graph)
        values: dict[Any, Any] = {}
        sizes = _Sizes(graph, self.written)
        passes, threads = self.planned(graph, keys, sizes)
        for number, targets in enumerate(passes, 1):
            part = staging.culled(graph, targets)
            with self.shown(part, number, len(passes)):
                found = self.computed(part, targets, values, threads, options)
            for key, value in zip(targets, found, strict=True):
                values[key] = value
                if self.client is None:
                    graph[key] = DataNode(key, value)
                else:
                    graph.pop(key, None)
            part = found = value = None  # type: ignore[assignment]  # what is not kept must not outlive its pass
        return self.brought(values, keys)

    def computed(
        self,
        graph: dict[Any, GraphNode],
        targets: list[Any],
        known: dict[Any, Any],
        threads: int | None,
        options: dict[str, Any],
    ) -> list[Any]:
        """Compute a pass; on a cluster its values stay there, like those of earlier passes, and futures are returned."""
        if self.client is None:
            return self.locally(graph, targets, threads, options)
        new = [key for key in targets if key in graph]
        futures = dict(zip(new, self.on_cluster(graph, known, new, options), strict=True))
        return [futures[key] if key in futures else self.kept(key) for key in targets]

    def brought(self, values: dict[Any, Any], keys: list[Any]) -> list[Any]:
        """Return values, fetched from a cluster if they are needed here."""
        found = [values[key] for key in keys]
        return list(self.client.gather(found)) if self.client is not None and self.keep == "host" else found

    def fitting(self, keys: list[Any]) -> tuple[list[tuple[list[Any], dict[Any, GraphNode]]], int]:
        """Return passes with one task for all work on some chunks, and how many of these tasks fit at a time; 0: not even one."""
        done, parts = dict[Any, Any](), []
        for targets, part, *_ in self.contractions(keys, done):
            parts.append((targets, part))
            done.update(dict.fromkeys(targets))
        counts = self.counts()
        if self.max_memory is None:
            return parts, counts[0]
        for threads in counts:
            found = self.followed(parts, threads)[0]
            if found.nbytes <= self.max_memory:
                self.refuse(found)
                return parts, threads
        return parts, 0

    def refuse(self, peak: staging.Peak) -> None:
        """Refuse a plan with a task that is larger than a worker of the cluster."""
        if self.workers is not None:
            origin, _ = origins.of(peak.task, self.written)
            what = str(origin) if origin else self.largest(self.written.layers).what
            self.workers.refuse(LargestBlock(peak.largest, what))

    def counts(self) -> list[int]:
        """Return the possible numbers of concurrent tasks, the largest first: fewer than all only if agrad decides it."""
        allowed = self.threads()
        if self.schedule is dask.threaded.get and dask.config.get("pool", None) is None:
            return list(dict.fromkeys([allowed, *(n for n in (allowed // 2, 2, 1) if 0 < n < allowed)]))
        return [allowed]

    def contracted(self, keys: list[Any], options: dict[str, Any], threads: int) -> list[Any]:
        """Compute, with one task for all work on some chunks, and this many at a time."""
        values: dict[Any, Any] = {}
        fewer = None if threads == self.threads() else threads
        for targets, graph, number, count in self.contractions(keys, values):
            if all(isinstance(graph.get(key), DataNode) for key in targets):
                return [graph[key]() for key in targets]
            with self.shown(graph, number, count):
                found = self.computed(graph, targets, values, fewer, options)
            values.update(zip(targets, found, strict=True))
        return self.brought(values, keys)

    def contractions(
        self, keys: list[Any], values: Mapping[Any, Any]
    ) -> Iterator[tuple[list[Any], dict[Any, GraphNode], int, int]]:
        """Yield for each pass its targets, the tasks, its number and the number of passes.

        Parameters
        ----------
        values : mapping
            Holds the results of the passes so far.
        """
        chunks = max(staging.CHUNKS, self.threads())
        with uncollected(), self.planning():
            plan = runs.Runs(self.written, keys, chunks)
            if self.workers is not None and self.max_memory is None:  # otherwise the plan is refused, or fits
                self.workers.warn(self.largest(plan.of))
            outline = plan.outline()
            sizes = _Sizes(outline, self.written)
            firsts = dict.fromkeys(map(plan.head, keys))
            passes = staging.stages(outline, firsts, lambda key: sizes(key) * len(plan.blocks(key)))
            groups = [[block for one in some for block in plan.blocks(one)] for some in passes]
        for number, targets in enumerate(groups if len(passes) > 1 else [keys], 1):
            with uncollected():
                if len(passes) > 1:
                    plan = runs.Runs(self.written, targets, chunks, values, kept=self.client is not None)
                graph = plan.graph() if self.client is None else self.without_kept(plan.graph())
            yield targets, graph, number, len(passes)

    def shown(self, graph: Mapping[Any, GraphNode], number: int, count: int) -> AbstractContextManager[Any]:
        """Show the progress of the tasks of a pass, if requested."""
        if not self.progress or self.client is not None:
            return nullcontext()
        tasks = sum(not isinstance(node, DataNode) for node in graph.values())
        return bar(tasks, f"Pass {number} of {count}" if count > 1 else "Computing")

    def planning(self) -> AbstractContextManager[Any]:
        """Show that passes are planned, if that is wanted."""
        lines = self.progress and (_LINES.get() or _display(transient=True))
        return nullcontext() if not lines or isinstance(lines, _Printed) else _rich(lines, None, "Planning")

    # -- planning ------------------------------------------------------------------------------------------------------

    def planned(
        self, graph: Mapping[Any, GraphNode], keys: list[Any], sizes: _Sizes
    ) -> tuple[list[list[Any]], int | None]:
        """Return the passes, and the number of threads if it had to be reduced."""
        with self.planning():
            passes = staging.stages(graph, keys, sizes)
        if self.max_memory is None:
            return passes, None
        allowed = self.threads()
        plans = [passes, *(staging.stages(graph, keys, sizes, times) for times in (2,))]
        best: tuple[staging.Peak, list[list[Any]], int] | None = None
        for threads in self.counts():
            for plan in plans:
                found = self.peak(graph, plan, threads)
                if found.nbytes <= self.max_memory:
                    self.refuse(found)
                    return plan, None if threads == allowed else threads
                if best is None or found.nbytes < best[0].nbytes:
                    best = found, plan, threads
        assert best is not None
        raise self.too_little(graph, keys, sizes, *best)

    def peak(self, graph: Mapping[Any, GraphNode], passes: list[list[Any]], threads: int) -> staging.Peak:
        """Return the largest peak of several passes; each holds the targets of those before it."""
        now, parts = dict(graph), []
        for targets in passes:
            parts.append((targets, dict(now)))
            now |= {key: DataNode(key, None) for key in targets}
        return self.followed(parts, threads)[0]

    def followed(
        self, parts: Iterable[tuple[list[Any], Mapping[Any, GraphNode]]], threads: int
    ) -> tuple[staging.Peak, dict[str, Any]]:
        """Return the largest peak of passes, to which allocators add, and its other properties."""
        from agrad_dask import task_memory  # noqa: PLC0415 (it knows all that tasks do, and some of that computes)

        worst, kept, reads, known = staging.Peak(0, None, 0), 0, list[Any](), {"tasks": 0, "passes": 0, "sizes": {}}
        for targets, given in parts:
            part = staging.culled(given, targets)
            sizes = _Sizes(part, self.written)
            effects = task_memory.Effects(part, sizes.stated, self.written.layers)
            found = task_memory.peak(part, targets, effects, threads)
            if worst.task is None or found.nbytes + kept > worst.nbytes:
                worst = found._replace(nbytes=found.nbytes + kept, task=sizes.own(found.task))
            for key, node in part.items():
                if not isinstance(node, DataNode):
                    known["tasks"] += 1
                    reads += effects(key).reads
            known["passes"] += 1
            known["sizes"] |= {key: effects.size(key) for key in targets}
            kept = sum(known["sizes"].values())
        known["chunks"], known["read"] = task_memory.read(reads, self.written.layers)
        return worst._replace(nbytes=task_memory.taken(worst.nbytes, threads)), known

    def threads(self) -> int:
        """How many tasks run at a time."""
        if self.client is not None:
            return sum(self.client.nthreads().values()) or 1
        if self.schedule is dask.local.get_sync:
            return 1
        pool = dask.config.get("pool", None)
        return getattr(pool, "_max_workers", None) or dask.config.get("num_workers", None) or CPU_COUNT

    def too_little(
        self,
        graph: Mapping[Any, GraphNode],
        keys: list[Any],
        sizes: _Sizes,
        peak: staging.Peak,
        passes: list[list[Any]],
        threads: int,
    ) -> MemoryError:
        """Create the error that says how much memory is needed."""
        own, kept, limit = sizes.own(peak.task), sum(map(sizes, keys)), self.max_memory or 0
        origin, _ = origins.of(own, self.written)
        plan = (
            f"{_plural(len(passes), 'pass', 'passes')} over the data and {_plural(threads, 'task', 'tasks')} at a time"
        )
        task = origin or f"{origins.array_of(own)}, made outside agrad"
        lines = [
            f"this computation needs about {format_bytes(peak.nbytes)} and max_memory allows {format_bytes(limit)}.",
            f"That is with {plan}. The largest task takes {format_bytes(peak.largest)}: {task}.",
        ]
        if 2 * kept > limit:
            lines.append(
                f"The results alone take {format_bytes(kept)}: reduce them before, or compute fewer at a time."
            )
        else:
            times = math.ceil(peak.nbytes / max(1, limit))
            lines.append(
                f"Make the chunks {times} times smaller: chunks= where the data is opened or an array is made, or"
                " x.rechunk()."
            )
        whole = max((key for key in graph if not graph[key].dependencies), key=sizes, default=None)
        if whole is not None and (found := self.in_one_chunk(sizes.own(whole), sizes(whole), limit)):
            lines.append(found)
        if sizes.guessed:
            lines.append(
                f"Of {len(graph)} blocks {sizes.guessed} have an unknown size, assumed to be their largest input's."
            )
        return MemoryError("\n  ".join(lines))

    def in_one_chunk(self, key: Any, size: int, limit: int) -> str:
        """Return the advice for an array that is one chunk and takes much of a limit, "" for another."""
        name = name_of(key)
        array = self.written.layers.get(name)
        keys = () if array is None else array.get_output_keys()
        if len(keys) != 1 or 4 * size < limit:
            return ""
        return (
            f"{origins.array_of(key)} is one chunk of {format_bytes(size)}: create it with chunks=, or, if it is a product"
            " of arrays in memory, give one of its factors chunks before."
        )

    def lost(self, error: Any) -> MemoryError:
        """Create the error for a worker that was lost, usually because its memory was too small."""
        what = self.what or "what agrad computes"
        if error is not None and not self.what:
            origin, exact = origins.of(self.given(error.task), self.written)
            what = str(origin) if origin and exact else what
        assert self.workers is not None
        return self.workers.lost(error, what, self.block or self.largest(self.written.layers))

    def outlook(self, graph: Mapping[Any, GraphNode], keys: list[Any]) -> Outlook:
        """Return what the passes that would run read and hold."""
        parts, threads = self.fitting(keys) if self.contracts else ([], 0)
        if not threads:
            passes, fewer = self.planned(graph, keys, _Sizes(graph, self.written))
            threads, now = fewer or self.threads(), dict(graph)
            for targets in passes:
                parts.append((targets, dict(now)))
                now |= {key: DataNode(key, None) for key in targets}
        return self.outlook_of(parts, keys, threads)

    def outlook_of(
        self, parts: Iterable[tuple[list[Any], Mapping[Any, GraphNode]]], keys: list[Any], threads: int
    ) -> Outlook:
        """Return what passes read and hold, given the targets of each and its tasks."""
        from agrad_dask import task_memory  # noqa: PLC0415 (as in `followed`)

        peak, known = self.followed(parts, threads)
        origin, _exact = origins.of(peak.task, self.written)
        sizes = known.pop("sizes")
        return Outlook(
            threads=threads,
            peak=peak.nbytes + task_memory.BESIDE,
            largest=peak.largest,
            task=str(origin or origins.array_of(peak.task)),
            result=sum(sizes.get(key, 0) for key in keys),
            **known,
        )

    # -- running -------------------------------------------------------------------------------------------------------

    def locally(
        self, graph: dict[Any, GraphNode], targets: list[Any], threads: int | None, options: dict[str, Any]
    ) -> list[Any]:
        """Compute a pass in this process."""
        lowered = {} if threads is None else {"num_workers": threads}
        try:
            with self.trimming(targets):
                found = list(self.schedule(graph, targets, **lowered, **options))
        except Exception as error:
            for missing in {d for node in graph.values() for d in node.dependencies} - graph.keys():
                raise origins.gone(missing, self.written) from error
            self.explain(error, *_failed_in(error))
            raise
        if Tensor in map(type, found) and any(isinstance(v, Tensor) and is_followed(v) for v in found):
            raise in_dask()  # a user function, called by tasks, uses an outer tensor
        return found

    def trimming(self, targets: list[Any]) -> AbstractContextManager[Any]:
        """Return free memory to the system while large results grow; for small ones Dask calls nothing after each task."""
        layers, counts = self.written.layers, Counter(map(name_of, targets))
        # a layer that declares nothing has blocks of 0 bytes: unknown ones
        sizes = (
            n * (runs.block_bytes(layers[name]) or math.inf) if name in layers else math.inf
            for name, n in counts.items()
        )
        if len(targets) == 1 or sum(sizes) < arenas.EVERY:
            return nullcontext()
        return Callback(posttask=arenas.Trimming(targets).finished)

    def on_cluster(
        self, graph: dict[Any, GraphNode], known: dict[Any, Any], targets: list[Any], options: dict[str, Any]
    ) -> list[Any]:
        """Compute a pass on the workers of a cluster; return finished futures."""
        from distributed import KilledWorker, as_completed  # noqa: PLC0415 (not needed on threads)

        if not targets:
            return []
        needed = {d for node in graph.values() for d in node.dependencies if d not in graph}
        futures = {key: known.get(key) or self.kept(key) for key in needed}
        with seceded():
            made = self.client.get(
                self.shipped(graph, futures),
                [self.named(key) for key in targets],
                sync=False,
                retries=self.retries or None,
                **options,
            )
            if self.progress:
                show(made)
            try:
                for future in as_completed(list(made)):
                    if future.status == "finished":
                        continue
                    error, step = future.exception(), future.traceback()
                    if error is None or isinstance(error, KilledWorker):
                        raise self.lost(error) from error
                    cause, place = getattr(error, "_agrad_task", (None, None))
                    cause = cause or self.client.sync(self.client.scheduler.get_error_cause, keys=[future.key])
                    self.explain(error, self.given(cause), place)
                    raise error.with_traceback(step)
            except (
                BaseException
            ) as error:  # a traceback keeps this frame's references alive, and the cluster would continue
                for future in made:
                    future.release()
                if isinstance(error, Exception):
                    self.client.sync(_nothing)  # which the client's loop does after it has released them
                raise
        return list(made)

    def largest(self, names: Iterable[str]) -> LargestBlock:
        """Return the largest block with one of some names, among those whose size is known."""
        sizes = {name: runs.block_bytes(self.written.layers[name]) for name in names if name in self.written.layers}
        name = max((name for name, size in sizes.items() if math.isfinite(size)), key=sizes.__getitem__, default="")
        origin = origins.of((name,), self.written)[0]
        return LargestBlock(sizes.get(name, 0.0), str(origin or f"{name}, made outside agrad"))

    def without_kept(self, graph: Mapping[Any, GraphNode]) -> dict[Any, GraphNode]:
        """Return a graph without the names of values that are kept on the cluster."""
        kept = {k: node.target for k, node in graph.items() if isinstance(node, Alias) and node.target not in graph}
        self.elsewhere.update(kept)
        return {key: node for key, node in graph.items() if key not in kept}

    def kept(self, key: Any) -> Any:
        """Return the future of a value that was persisted on the cluster: Dask leaves it out of the graph."""
        from distributed import Future  # noqa: PLC0415 (not needed on threads)

        name = self.elsewhere.get(key, key)
        _, given = self.persisted.get(name, (key, None))
        if given and (given.cancelled() or given.client.scheduler.address != self.client.scheduler.address):
            raise origins.gone(name, self.written)  # it would be waited for without end
        return Future(name, self.client)

    @once
    def persisted(self) -> dict[Any, tuple[Any, Any]]:
        return origins.persisted(self.written)

    def named(self, key: Any) -> Any:
        """Return the name of a task on the cluster, of this run's own.

        Dask fuses tasks as the graph at hand allows and keeps their keys. A scheduler that remembers a key from another
        graph would take the one task for the other.
        """
        return (f"{key[0]}-{self.mark}", *key[1:]) if isinstance(key, tuple) else f"{key}-{self.mark}"

    def given(self, name: Any) -> Any:
        """Return the key of a task from its name on the cluster; tasks inside a fused one have none there."""
        first, *rest = name if isinstance(name, tuple) else (name,)
        first = first.removesuffix(f"-{self.mark}") if isinstance(first, str) else first
        return (first, *rest) if isinstance(name, tuple) else first

    def shipped(self, graph: dict[Any, GraphNode], futures: dict[Any, Any]) -> Any:
        """Return a graph in the form for a cluster, with the annotations of `dask.annotate` on its arrays."""
        said = {name: layer.annotations for name, layer in self.written.layers.items() if layer.annotations}
        parts: dict[str, dict[Any, Any]] = {"": {future.key: future for future in futures.values()}}
        names = {key: self.named(key) for key in graph} | {key: future.key for key, future in futures.items()}
        for key, node in graph.items():
            name = name_of(_own(node, key)) if said else ""
            parts.setdefault(name if name in said else "", {})[names[key]] = _for_worker(node, names)
        if len(parts) == 1:
            return parts[""]
        layers = {name: MaterializedLayer(part, annotations=said.get(name)) for name, part in parts.items()}
        return HighLevelGraph(layers, {name: set(layers) - {name} for name in layers})

    def explain(self, error: BaseException, key: Any, place: int | None) -> None:
        """Add to an error the operation whose task raised it, the place if it runs at many, and that operation's line."""
        if any(text.startswith((_NOTE, CHUNK_NOTE)) for text in getattr(error, "__notes__", ())):
            if isinstance(error, MemoryError):  # a loss in chunks has said where; not what would fit
                error.add_note(self.smaller(""))
            return
        if key is None:
            return
        if place is not None:
            key = runs.key_of(self.written, key, place)
        name = origins.array_of(key)
        origin, exact = origins.of(key, self.written)
        if origin is None:
            what = f"{name}, made outside agrad"
        else:
            what = str(origin) if exact else f"{name}, on the way to {origin}"
        block = f" (block {', '.join(map(str, key[1:]))} of {name})" if isinstance(key, tuple) and key[1:] else ""
        error.add_note(f"{_NOTE} {what}{block}.")
        if isinstance(error, MemoryError):
            error.add_note(self.smaller("" if origin is None else origin.op))

    def smaller(self, op: str) -> str:
        """Return the advice for an operation whose task had too little memory."""
        if op in _SMALLER:
            return _SMALLER[op]
        block = self.block or self.largest(self.written.layers)
        if not 0 < block.nbytes < math.inf:
            return _CHUNKS
        count = 1 if self.client is not None else self.threads()
        fewer = "" if count == 1 else f", and {count} tasks run at a time: dask.config.set(num_workers=1) runs one"
        return (
            f"The largest chunk takes {format_bytes(int(block.nbytes))}: {block.what}. A task holds several like it{fewer}.\n"
            f"  {_CHUNKS} Chunks of {format_bytes(int(block.nbytes / 4))} take a quarter of the memory; ag.explain says how"
            " much that is."
        )


#: The advice if memory did not suffice,
_CHUNKS = "Make the chunks smaller: chunks= where the data is opened or an array is made, or x.rechunk()."
#: and if no chunks are small enough.
_SMALLER = {
    "linalg.svd": "U and Vh are square by default, each in one piece: svd(x, full_matrices=False) returns those of a tall x, in chunks.",
    "linalg.qr": 'Q is square in mode="complete", in one piece: qr(x) returns that of a tall x, in chunks.',
}


class _PlanningScheduler(_PassScheduler):
    """A scheduler that computes nothing, and reports what it would compute."""

    found = Outlook()

    def __call__(self, expression: Any, keys: Any, **_: Any) -> list[Any]:
        keys = list(flatten(keys))
        given = expression if isinstance(expression, Mapping) else expression.__dask_graph__()
        graph: dict[Any, GraphNode] = convert_legacy_graph(given)
        if not all(isinstance(graph.get(key), DataNode) for key in keys):
            if self.client is not None:
                graph = self.without_kept(graph)
            self.found = self.outlook(graph, keys)
        return [None] * len(keys)


def _plural(count: int, one: str, several: str) -> str:
    return f"{count} {one if count == 1 else several}"


async def _nothing() -> None:
    pass


# -- progress ---------------------------------------------------------------------------------------------------------


#: The display of the running loop over `steps`.
_LINES: ContextVar[Any] = ContextVar("agrad_dask_lines", default=None)


def steps(iterable: Iterable[T], total: int | None = None) -> Iterator[T]:
    """Iterate, and show the number of finished steps and the progress of the current pass.

    Parameters
    ----------
    iterable : iterable
        The iterable of the loop, such as ``range(100)`` or the batches of a loader.
    total : int, optional
        The number of steps. Default: the length of `iterable`, if known.

    Yields
    ------
    object
        The items of `iterable`.

    Notes
    -----
    Two lines of `rich`, if it is installed: the steps, and the pass of the current one. Without it, a printed line per
    finished step, and Dask's own bar per pass. A step is finished when the loop requests the next one. On a cluster
    passes are shown by Dask.

    Examples
    --------
    >>> import agrad as ag, agrad_dask
    >>> X = ag.ones((6, 2), device="dask", chunks=(2, 2))
    >>> w = ag.ones(2, requires_grad=True)
    >>> for _ in agrad_dask.steps(range(3)):  # doctest: +SKIP
    ...     ag.sum((X @ w) ** 2).backward()
    """
    with _lines() as lines:
        task = lines.add_task("Steps", total=operator.length_hint(iterable) or None if total is None else total)
        for item in iterable:
            yield item
            lines.advance(task)


@contextmanager
def _lines() -> Iterator[Any]:
    """Open lines for a loop over steps, within those of the enclosing loop if there is one."""
    outer = _LINES.get()
    if outer is not None:
        yield outer
        return
    display = _display()
    with display or nullcontext():
        _LINES.set(display or _Printed())
        try:
            yield _LINES.get()
        finally:
            _LINES.set(None)


class _Printed:
    """Replaces `rich`."""

    def add_task(self, what: str, total: int | None) -> list[Any]:
        return [what, 0, "" if total is None else f" of {total}"]

    def advance(self, task: list[Any]) -> None:
        task[1] += 1
        print("{} {}{}".format(*task))  # noqa: T201 (asked for)


def _display(*, transient: bool = False) -> Any:
    """Return a new display of `rich`, None if it is not installed."""
    try:
        from rich.progress import MofNCompleteColumn, Progress  # noqa: PLC0415 (optional)
    except ImportError:
        return None
    return Progress(*Progress.get_default_columns(), MofNCompleteColumn(), transient=transient)


def bar(tasks: int, what: str = "Computing") -> AbstractContextManager[Any]:
    """Show the number of finished tasks in this process."""
    lines = _LINES.get() or _display()
    if lines is None or isinstance(lines, _Printed):
        from dask.diagnostics import ProgressBar  # noqa: PLC0415 (only where asked for)

        return ProgressBar()
    return _rich(lines, tasks, what)


@contextmanager
def _rich(lines: Any, tasks: int | None, what: str) -> Iterator[None]:
    within = lines is _LINES.get()
    with nullcontext() if within else lines:
        task = lines.add_task(what, total=tasks)
        try:
            with Callback(posttask=lambda *_: lines.advance(task)):
                yield
            lines.update(task, completed=tasks)
        finally:
            if within:
                lines.remove_task(task)


def show(futures: Any) -> None:
    """Show the number of a cluster's finished tasks."""
    from distributed import progress  # noqa: PLC0415 (not needed on threads)

    widget = progress(futures)  # on a console this returns when all is done
    if widget is not None:
        from IPython.display import display  # noqa: PLC0415 (a notebook has it)

        display(widget)


@contextmanager
def seceded() -> Iterator[None]:
    """Leave the worker's thread pool while a task waits for others, as `Client.get` does, unless it has left already.

    It has inside of ``with worker_client():``, and after `distributed.secede`.
    """
    from distributed import rejoin, secede  # noqa: PLC0415 (not needed on threads)
    from distributed.threadpoolexecutor import thread_state as pool_state  # noqa: PLC0415
    from distributed.worker import thread_state  # noqa: PLC0415

    if not getattr(thread_state, "key", False) or not getattr(pool_state, "proceed", False):
        yield
        return
    secede()
    try:
        yield
    finally:
        rejoin()


#: The beginning of the note that names the failed task,
_NOTE = "Raised by a task of"
#: or which chunk of `value_and_grad`.
CHUNK_NOTE = "Raised in"

# -- which task failed ------------------------------------------------------------------------------------------------


def _failed_in(error: BaseException) -> tuple[Any, int | None]:
    """Return the key of the innermost task that an error came through in this process, and the place in a run."""
    found: Any = None
    place, step = None, error.__traceback__
    while step is not None:
        task = step.tb_frame.f_locals.get("self")
        if isinstance(task, fusing.PatternInstance):
            place = task.number
        elif isinstance(task, GraphNode | fusing.TaskCall) and getattr(task, "key", None) is not None:
            found = task.key
        step = step.tb_next
    return found, place


def _for_worker(node: Any, names: Mapping[Any, Any]) -> Any:
    """Return a task in the form for a cluster, under its name there."""
    if isinstance(node, Alias):
        return Alias(names[node.key], names[node.target])
    node = node.substitute(names, key=names[node.key])
    if not isinstance(node, Task):
        return node
    return Task(node.key, _OnWorker(node.func), *node.args, _data_producer=node.data_producer, **node.kwargs)


class _OnWorker:
    """The function of a task in its form for a cluster.

    Arrays that were sent may begin at any byte, and NumPy and BLAS sum such arrays in another order: the same program
    would give different last digits in every run. They are copied to aligned memory.

    It notes on an error the task it comes from, also for tasks in a fused one: a traceback that travels has no values.
    """

    __slots__ = ("function",)

    def __init__(self, function: Any) -> None:
        self.function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.function(*map(fusing.aligned, args), **kwargs)
        except Exception as error:
            with suppress(AttributeError):  # of an exception that does not support notes; then the fused task is named
                error._agrad_task = _failed_in(error)  # type: ignore[attr-defined]
            raise


# -- sizes ------------------------------------------------------------------------------------------------------------


def _own(node: Any, key: Any) -> Any:
    """Return the key of a task's result; a fused task is named after all its members."""
    if isinstance(node, Task) and node.has_subgraph():
        return node.args[1]
    return key


class _Sizes:
    """The sizes of the blocks of a graph in bytes, from the chunks of their arrays."""

    def __init__(self, graph: Mapping[Any, GraphNode], written: HighLevelGraph) -> None:
        self.graph, self.layers = graph, written.layers
        self.guessed = 0
        self._found: dict[Any, int] = {}

    def own(self, key: Any) -> Any:
        return _own(self.graph.get(key), key)

    def __call__(self, key: Any) -> int:
        found = self._found.get(key)
        return self._measured(key) if found is None else found

    def _measured(self, key: Any) -> int:
        stack = [key]
        while stack:
            at = stack[-1]
            node = self.graph.get(at)
            size: int | None
            if node is None or at in self._found:
                self._found.setdefault(at, 0)
                stack.pop()
                continue
            if isinstance(node, DataNode):
                size = sizeof(node.value)
            elif isinstance(node, Alias):
                size = self._found.get(node.target) if node.target in self.graph else 0
                if size is None:
                    stack.append(node.target)
                    continue
            else:
                size = self._stated(_own(node, at), node)
                if size is None:  # unknown: as large as its largest operand
                    missing = [d for d in node.dependencies if d not in self._found]
                    if missing:
                        stack.extend(missing)
                        continue
                    self.guessed += 1
                    size = max((self._found[d] for d in node.dependencies), default=0)
            self._found[at] = size
            stack.pop()
        return self._found[key]

    def stated(self, key: Any) -> int | None:
        """Return the size of a value from the chunks of its array, also for one within tasks."""
        return self._stated(_own(self.graph.get(key), key), self.graph.get(key))

    def _stated(self, key: Any, node: Any) -> int | None:
        """The chunks of the array, None if it has none or they are unknown."""
        name = name_of(key)
        layer = self.layers.get(name) or self.layers.get(origins.array_of(key))
        said = getattr(layer, "collection_annotations", None) or {}
        if "chunks" not in said:
            return None
        own = next(
            (each for each in (key, getattr(node, "key", None)) if isinstance(each, tuple) and each[0] == name), ()
        )
        place = own[1:] if name in self.layers and all(type(i) is int for i in own[1:]) else ()
        reduced, many = _reduced(node, key) or _reduced(getattr(layer, "task", None), key) or ((), 1)
        total: float = said["dtype"].itemsize * many
        for axis, along in enumerate(said["chunks"]):
            if axis not in reduced:
                total *= along[place[axis]] if len(place) == len(said["chunks"]) else max(along, default=0)
        return None if math.isnan(total) else int(total)


def _reduced(node: Any, key: Any) -> tuple[tuple[int, ...], int] | None:
    """Return the axes that the first step of a reduction reduces to length 1, and the arrays that it makes, None for another task.

    Dask declares the chunks of the operand for it.
    """
    if isinstance(node, Task) and node.has_subgraph():
        node = node.args[0].get(key)
    function = getattr(node, "func", None)
    said = {**getattr(function, "keywords", {}), **getattr(node, "kwargs", {})}
    if said.get("keepdims") is not True or not isinstance(said.get("axis"), tuple):
        return None
    name = getattr(getattr(function, "func", function), "__name__", "")
    return tuple(said["axis"]), 1 if name in OF_TWO else 3  # others carry counts and moments
