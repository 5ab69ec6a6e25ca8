"""Following a schedule of checkpoints: its actions, and the executor of them that knows nothing of what a step computes."""

from __future__ import annotations

import copy
import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from agrad.autograd.graph import save_on_disk
from agrad.core.errors import called


class Actions:
    """A schedule that can be followed several times.

    Attributes
    ----------
    n : int
        The number of steps.
    types : module
        The package, for the types of its actions.
    """

    def __init__(self, schedule: Any, n: int) -> None:
        self.types: Any = _package()
        self.n: int = n
        if isinstance(schedule, self.types.CheckpointSchedule):
            self._schedule = schedule
        elif isinstance(schedule, int) and not isinstance(schedule, bool):
            if schedule < 1:
                raise ValueError(f"checkpoint_sequence: schedule={schedule}: at least one state must be kept{called()}")
            # for a single step, keep only what its derivative needs
            kind = self.types.MultistageCheckpointSchedule
            self._schedule = kind(n, schedule, 0) if n > 1 else self.types.SingleMemoryStorageSchedule()
        else:
            raise TypeError(
                "checkpoint_sequence: schedule is a number of states or a schedule of the package checkpoint_schedules, not"
                f" {type(schedule).__name__}{called()}"
            )
        if self._schedule.n or self._schedule.r or hasattr(self._schedule, "iter"):
            raise ValueError(
                f"checkpoint_sequence: {type(schedule).__name__} has been iterated over: pass a new one{called()}"
            )
        if isinstance(self._schedule, self.types.NoneCheckpointSchedule):
            raise ValueError(  # noqa: TRY004 (the type is right)
                "checkpoint_sequence: NoneCheckpointSchedule has no backward; call this under ag.no_grad()"
                f" with any other schedule{called()}"
            )
        if self._schedule.max_n not in {None, n}:
            raise ValueError(
                f"checkpoint_sequence: the schedule is for {self._schedule.max_n} steps, and n is {n}{called()}"
            )

    def __reduce__(self) -> Any:
        return Actions, (self._schedule, self.n)

    def __iter__(self) -> Iterator[Any]:
        """Yield the actions from the first to the end of one backward pass."""
        schedule = copy.copy(self._schedule)  # not started: its only state is numbers and objects that it never changes
        types = self.types
        for action in schedule:
            yield action
            if isinstance(action, types.EndReverse):
                return
            if isinstance(action, types.Forward) and schedule.max_n is None and action.n1 >= self.n:
                schedule.finalize(self.n)


def _package() -> Any:
    try:
        return importlib.import_module("checkpoint_schedules")
    except ImportError as error:
        raise ImportError(
            "checkpoint_sequence: the schedules are those of the package checkpoint_schedules, which cannot be imported:"
            f' pip install "agrad[schedules]"{called()}'
        ) from error


class StoredStep(NamedTuple):
    """The kept values of a step: the state before it, in its kept form, or what its derivative needs."""

    state: Any
    graph: Any


class Follower(ABC):
    """One traversal of a schedule: forward to the last state, then backward.

    Attributes
    ----------
    n : int
        The number of steps.
    types : module
        The package, for the types of its actions.
    """

    def __init__(self, state: list[Any], actions: Actions, directory: str | None) -> None:
        self.n: int = actions.n
        self.types: Any = actions.types
        self._actions = iter(actions)
        self._disk = save_on_disk(directory)
        self._state, self._at = state, 0
        self._stores: dict[Any, dict[int, StoredStep]] = {place: {} for place in self.types.StorageType}

    @abstractmethod
    def _call(self, i: int, *, keep: bool, to_disk: bool) -> Any:
        """Run the step after the present state, and advance to the next one; return what its derivative needs, if it is to be kept."""

    @abstractmethod
    def _kept(self, state: list[Any], *, to_disk: bool) -> Any:
        """Return a state in its kept form."""

    @abstractmethod
    def _taken(self, kept: Any) -> list[Any]:
        """Return a kept state."""

    @abstractmethod
    def _over(self, i: int, graph: Any, *, keep: bool) -> None:
        """Propagate the cotangents over one step; `keep`: its graph is needed again."""

    # -- forward

    def forward(self) -> list[Any]:
        """Follow the schedule to the last state."""
        try:
            self._follow(self.types.EndForward, self._refuse_reverse)
            if self._at != self.n:
                raise self._misled(f"the first way forward ends at {self._at}")
        except BaseException:
            self.let_go()
            raise
        found, self._state = self._state, []
        return found

    def let_go(self) -> None:
        """Release everything that is kept."""
        for store in self._stores.values():
            store.clear()

    def _follow(self, end: type, reverse: Callable[[Any], None]) -> None:
        """Execute actions up to one of the given kind."""
        types = self.types
        for action in self._actions:
            if isinstance(action, end):
                return
            if isinstance(action, types.Forward):
                self._advance(action)
            elif isinstance(action, types.Reverse):
                reverse(action)
            elif isinstance(action, types.Copy | types.Move):
                self._fetch(action)
            else:
                raise self._misled(f"{action} is no action that is known")
        raise self._misled(f"it ends before {end.__name__}")

    def _misled(self, why: str) -> ValueError:
        return ValueError(f"checkpoint_sequence: the schedule does not fit {self.n} steps: {why}{called()}")

    def _refuse_reverse(self, action: Any) -> None:
        raise self._misled(f"{action} comes before EndForward")

    def _advance(self, action: Any) -> None:
        """Run steps, and keep the state before them, or the graph of each."""
        if self._at != action.n0:
            raise self._misled(f"{action} follows on the state before step {self._at}")
        store = self._stores[action.storage]
        to_disk = action.storage is self.types.StorageType.DISK
        if action.write_ics:
            store[action.n0] = StoredStep(self._kept(self._state, to_disk=to_disk), None)
        for i in range(action.n0, min(action.n1, self.n)):
            if not action.write_adj_deps:
                self._call(i, keep=False, to_disk=False)  # its graph is freed before the next step runs
                continue
            known = store.get(i)
            graph = self._call(i, keep=True, to_disk=to_disk)
            store[i] = StoredStep(None if known is None else known.state, graph)
            del graph

    def _fetch(self, action: Any) -> None:
        """Move a step's kept values to another place; load the state or graph to work with."""
        source, work = self._stores[action.from_storage], self.types.StorageType.WORK
        if action.n not in source:
            raise self._misled(f"nothing is kept for {action}")
        kept = source.pop(action.n) if isinstance(action, self.types.Move) else source[action.n]
        if action.to_storage is self.types.StorageType.NONE:
            return
        if action.to_storage is not work:
            if kept.graph is not None:
                raise self._misled(f"{action}: what a step saves for its derivative stays where it was written")
            assert kept.state is not None
            to_disk = action.to_storage is self.types.StorageType.DISK
            state = self._kept(self._taken(kept.state), to_disk=to_disk)
            self._stores[action.to_storage][action.n] = StoredStep(state, None)
            return
        if kept.state is not None:
            self._state, self._at = self._taken(kept.state), action.n
        if kept.graph is not None:
            self._stores[work][action.n] = StoredStep(None, kept.graph)

    # -- backward

    def _back(self, cotangents: Sequence[Any]) -> list[Any]:
        """Follow the schedule to its end; return the cotangents of the first state."""
        self._cotangents, self._left = list(cotangents), self.n
        try:
            self._follow(self.types.EndReverse, self._reverse)
            if self._left:
                raise self._misled(f"it ends with {self._left} steps that no cotangent went over")
        finally:
            self.let_go()
            self._state = []
        return self._cotangents

    def _reverse(self, action: Any) -> None:
        """Propagate the cotangents over steps, the last one first."""
        self._state, self._at = [], -1
        store = self._stores[self.types.StorageType.WORK]
        for i in range(min(action.n1, self.n) - 1, action.n0 - 1, -1):
            known = store.get(i)
            if known is None or known.graph is None or i != self._left - 1:
                raise self._misled(
                    f"{action} wants the derivative of step {i}, where that of step {self._left - 1} is due"
                )
            graph = known.graph
            if action.clear_adj_deps:
                del store[i]
            held = any(kept.graph is graph for place in self._stores.values() for kept in (place.get(i),) if kept)
            del known
            self._over(i, graph, keep=held)
            self._left = i
