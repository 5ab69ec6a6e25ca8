"""A Dask scheduler that does none of the work: the remaining time is that of the calling process."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class OnPaper:
    """Runs the same number of tasks with the same dependencies, which do nothing.

    Attributes
    ----------
    result : callable
        Returns the value declared for a key.
    tasks : int
        The number of tasks.
    scheduler, away : float
        CPU seconds that Dask's threaded scheduler took for them, and all that were spent here.
    """

    def __init__(self, result: Callable[[Any], Any]) -> None:
        self.result = result
        self.clear()

    def clear(self) -> None:
        """Count from nothing."""
        self.tasks, self.scheduler, self.away = 0, 0.0, 0.0

    def __call__(self, tasks: Any, keys: Any, **_: Any) -> list[Any]:
        import dask.threaded
        from dask._task_spec import Task, TaskRef

        start = time.process_time()
        empty = {key: Task(key, nothing, *map(TaskRef, task.dependencies)) for key, task in tasks.items()}
        made = time.process_time()
        dask.threaded.get(empty, keys)
        self.scheduler += time.process_time() - made
        self.tasks += len(tasks)
        self.away += time.process_time() - start
        return [self.result(key) for key in keys]


def nothing(*values: Any) -> None:
    """Be a task."""
