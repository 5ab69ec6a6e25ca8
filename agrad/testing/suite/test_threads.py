"""Threads: concurrent forward and backward passes lose nothing and mix nothing up."""

from __future__ import annotations

import threading
from collections.abc import Callable

import agrad as ag
from agrad.testing.suite.base import Conformance, requires

THREADS, TIMES = 4, 5


def at_once(work: Callable[[int], None]) -> None:
    """Run work on several threads; the first error is raised here."""
    errors: list[BaseException] = []

    def run(i: int) -> None:
        try:
            work(i)
        except BaseException as error:  # noqa: BLE001 (raised again below)
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


@requires("threads")
class TestThreads(Conformance):
    """Several threads on one backend."""

    def test_their_own_graphs(self) -> None:
        """Each thread gets the gradients of its own graph."""

        def work(i: int) -> None:
            for _ in range(TIMES):
                x = self.tensor([1.0 + i, 2.0], requires_grad=True)
                (x * x * x).sum().backward()
                self.close(x.grad, [3.0 * (1.0 + i) ** 2, 12.0])

        at_once(work)

    def test_one_leaf(self) -> None:
        """Gradients of several threads add up in one leaf."""
        w = self.tensor([1.0, 2.0], requires_grad=True)

        def work(i: int) -> None:
            for _ in range(TIMES):
                (w * float(i + 1)).sum().backward()

        at_once(work)
        total = float(TIMES * sum(range(1, THREADS + 1)))
        self.close(w.grad, [total, total])

    def test_one_array(self) -> None:
        """In-place updates of tensors on one array do not interfere."""
        raw = self.tensor([1.0, 2.0])._raw

        def work(i: int) -> None:
            x = ag.asarray(raw, device=self.device)
            for _ in range(TIMES):
                x += float(i)
            self.close(x, [1.0 + TIMES * i, 2.0 + TIMES * i])

        at_once(work)
        self.close(raw, [1.0, 2.0], 0.0)

    def test_modes_are_each_threads_own(self) -> None:
        """no_grad on one thread leaves the others recording; so does use_backend."""
        inside, done = threading.Event(), threading.Event()

        def hold() -> None:
            with ag.no_grad():
                inside.set()
                done.wait(30)

        thread = threading.Thread(target=hold)
        thread.start()
        try:
            assert inside.wait(30)
            assert (self.tensor([1.0], requires_grad=True) * 2.0).requires_grad
        finally:
            done.set()
            thread.join()
