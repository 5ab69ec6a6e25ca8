"""Fork while other threads record and run backward: the child finds no lock held, and its gradients are right.

``python tests/trust/test_fork.py --forks 150`` is the long form.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import Counter

import pytest

import agrad as ag
from agrad.core.op import OPS

MODEL = ag.nn.Linear(3, 1)
PARAMETERS = dict(MODEL.named_parameters())
SHARED = ag.zeros((20_000,), requires_grad=True)
PROGRAM = ag.func.capture(lambda x: x + 2.0)(ag.ones((3,)))

#: How long a child may take, in seconds.
PATIENCE = 30


def worker(stop, number):
    """Do, in a loop, whatever takes a lock."""
    x = ag.tensor([1.0, 2.0, 3.0])
    params = {name: p.detach() for name, p in PARAMETERS.items()}
    count = 0
    while not stop.is_set():
        count += 1
        ag.sum(SHARED * 2.0).backward()
        name = f"own_{number}_{count}"
        square = ag.elementwise(x=lambda x: x + x, kernel=lambda xp, x: xp.multiply(x, x), name=name)(lambda x, /: None)
        y = ag.tensor([2.0], requires_grad=True)
        y.register_hook(lambda g: g * 1.0)
        ag.sum(square(y)).backward()
        del OPS[name]
        vars(x._spec.xp).pop(name, None)
        ag.func.vmap(lambda x: x * ag.rand(()), randomness="different")(x)
        ag.func.functional_call(MODEL, params, (x,))
        PROGRAM(x)
        program = ag.func.capture(lambda x: ag.exp(x) * 2.0 + x)(x)
        for _ in range(3):  # step by step, then as a text, then in its buffers
            program(x)


def child():
    """Use everything that other threads may have been using at the fork."""
    assert all(p is PARAMETERS[name] for name, p in MODEL.named_parameters())
    before = ag.tensor(0.0) if SHARED.grad is None else SHARED.grad.clone()
    assert ag.all(before == before[0] if before.ndim else True), "a sum that was half done"
    ag.sum(SHARED * 2.0).backward()
    assert ag.all(SHARED.grad - before == 2.0)
    square = ag.elementwise(x=lambda x: x + x, kernel=lambda xp, x: xp.multiply(x, x), name=f"own_{os.getpid()}")(
        lambda x, /: None
    )
    y = ag.tensor([2.0, 3.0], requires_grad=True)
    seen = []
    y.register_hook(seen.append)
    ag.sum(square(y)).backward()
    assert y.grad.tolist() == seen[0].tolist() == [4.0, 6.0]
    x = ag.tensor([1.0, 2.0, 3.0])
    params = {name: ag.zeros_like(p) for name, p in PARAMETERS.items()}
    assert ag.func.functional_call(MODEL, params, (x,)).item() == 0.0
    assert ag.func.vmap(lambda x: x * ag.rand(()), randomness="different")(x).shape == (3,)
    for _ in range(2):
        assert PROGRAM(x).tolist() == [3.0, 4.0, 5.0]
    assert all(p is PARAMETERS[name] for name, p in MODEL.named_parameters())


def fork():
    """Fork a child and give how it ended: "right", "wrong" or "hangs"."""
    pid = os.fork()
    if pid == 0:
        code = 1
        faulthandler.dump_traceback_later(0.8 * PATIENCE)  # says where it hangs
        try:
            child()
            code = 0
        except BaseException:  # noqa: BLE001 (a child must not go on with the parent's program)
            traceback.print_exc()
        finally:
            os._exit(code)
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return "right" if status == 0 else "wrong"
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return "hangs"


def forks(count, threads=3):
    """Fork so often while threads work."""
    stop = threading.Event()
    sys.setswitchinterval(1e-4)
    found = Counter()

    def work(number):
        try:
            worker(stop, number)
        except BaseException:  # noqa: BLE001 (counted)
            traceback.print_exc()
            found["a thread failed"] += 1

    child()  # what is imported late is: Python lets a child wait for ever for a module that another thread imports
    workers = [threading.Thread(target=work, args=(i,)) for i in range(threads)]
    for thread in workers:
        thread.start()
    try:
        for i in range(count):
            time.sleep(0.001 * (i % 7))
            found[fork()] += 1
    finally:
        stop.set()
        for thread in workers:
            thread.join()
    return found


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_children_of_threads_that_work():
    done = subprocess.run(
        [sys.executable, __file__, "--forks", "12"], capture_output=True, text=True, check=False, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def main():
    parser = argparse.ArgumentParser(description="Fork while other threads record and run backward.")
    parser.add_argument("--forks", type=int, default=150)
    found = forks(parser.parse_args().forks)
    print(dict(found))
    return 0 if set(found) == {"right"} else 1


if __name__ == "__main__":
    sys.exit(main())
