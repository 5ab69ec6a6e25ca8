"""CUDA graphs of compiled functions, on the stand-in for CuPy: a launch repeats what was queued in the capture.

No number and no order of streams here comes from a GPU: see `fake_streams`.
"""

from __future__ import annotations

import pytest

pytest.importorskip("agrad_cupy")

from cupy_stand_in import START, python

TOOLS = (
    START
    + """
    import gc, sys, threading, warnings
    import fake_streams as streams
    from agrad.func import CompileWarning

    def on(a, device=0, **options):
        with cupy.cuda.Device(device):
            return ag.asarray(cupy.asarray(np.asarray(a)), **options)

    def reduced(f, **options):
        return ag.compile(f, mode="reduce-overhead", **options)

    def waves(x, y):
        for _ in range(6):
            x = ag.cumulative_sum(ag.sin(x) * y, axis=0)
        return x

    def by_hand(x, y):
        for _ in range(6):
            x = np.cumsum(np.sin(x) * y, axis=0)
        return x

    def warned(f, *args):
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            result = f(*args)
        assert all(w.category is CompileWarning for w in found), found
        return result, [str(w.message) for w in found]

    rng = np.random.default_rng(0)
"""
)


def graphs(source):
    out = python(f"{TOOLS}{source}\n    assert not streams.RACES, streams.RACES\n    print('done')")
    assert out.splitlines()[-1] == "done"


def test_results_are_those_of_single_kernels():
    graphs("""
    f = reduced(waves)
    ran, kept = fake_cupy.ElementwiseKernel.RAN, []
    y = rng.normal(size=4)
    for i in range(12):  # some of them are compared with the function itself
        x = rng.normal(size=(3, 4))
        if i == 9:
            ran.clear()
        given = on(x.T.copy()).mT if i % 2 else on(x)  # however they lie in memory
        kept.append((f(given, on(y)), by_hand(x, y)))
        same(given, x)
    assert ran == [], ran  # nothing but a launch of the graph
    assert len(f.programs) == len(streams.CAPTURED) == 1 and streams.CAPTURED[0] >= 12, streams.CAPTURED
    assert len(streams.LAUNCHED) == 11
    for found, wanted in kept:  # no call overwrites what another gave
        same(found, wanted)
    for shape, dtype in (((2, 4), "f8"), ((3, 4), "f4"), ((0, 4), "f8")):  # another program, another graph
        x, before = rng.normal(size=shape).astype(dtype), len(streams.CAPTURED)
        for _ in range(4):
            found = f(on(x), on(y.astype(dtype)))
            np.testing.assert_allclose(found._raw.get(), by_hand(x, y.astype(dtype)), rtol=1e-4)
        assert len(streams.CAPTURED) == before + 1

    pools, freed = len(streams.POOLS), [pool.freed for pool in streams.POOLS]
    assert freed == [0] * pools == [0] * 4
    f.clear()
    gc.collect()
    assert [pool.freed for pool in streams.POOLS] == [1] * pools

    @reduced
    def mixed(x, scale):  # an input that is given back, one result twice, a constant, a view, a Python float
        y = waves(x, x) * scale
        return x, y, y, ag.ones(3, device=x.device) * 2.0, y[1:], ag.sum(y).item()

    for i in range(6):
        x = rng.normal(size=(3, 2))
        given = on(x)
        back, first, second, constant, part, total = mixed(given, 0.5 + i)
        wanted = by_hand(x, x) * (0.5 + i)
        assert back is given
        same(first, wanted), same(second, wanted), same(part, wanted[1:]), same(constant, np.full(3, 2.0))
        assert np.isclose(total, wanted.sum())
    assert len(mixed.programs) == 1 and len(streams.CAPTURED) == 5, streams.CAPTURED

    exact = reduced(waves, exact=True)  # bits of sums follow the strides: other ones run kernel by kernel
    x, launched = rng.normal(size=(3, 4)), len(streams.LAUNCHED)
    for i in range(4):
        np.testing.assert_array_equal(exact(on(x), on(y))._raw.get(), by_hand(x, y))
    assert len(streams.LAUNCHED) == launched + 3
    exact(on(x.T.copy()).mT, on(y))
    assert len(streams.LAUNCHED) == launched + 3
    """)


def test_training_and_gradients():
    graphs("""
    x, target = rng.normal(size=(3, 4)), rng.normal(size=(3, 4))

    def trained(compiled):
        w = on(np.full(4, 0.5), requires_grad=True)
        optimizer = ag.optim.Adam([w], lr=0.1)
        rates = ag.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)

        def step(x, target):
            optimizer.zero_grad()
            loss = ag.mean((waves(x, w) - target) ** 2)
            loss.backward()
            optimizer.step()
            return loss.item(), loss.detach()

        step, results = compiled(step), []
        for _ in range(7):
            results.append(step(on(x), on(target)))
            rates.step()
        return results, w, step

    (results, w, step), (wanted, expected, _) = trained(reduced), trained(lambda f: f)
    assert len(step.programs) == len(streams.CAPTURED) == 1 and len(streams.LAUNCHED) > 3
    np.testing.assert_allclose([loss for loss, _ in results], [loss for loss, _ in wanted])
    np.testing.assert_allclose([loss.item() for _, loss in results], [loss for loss, _ in wanted])
    same(w.detach(), expected._raw.get())

    def sums(x):  # linear: the backward pass needs nothing of it
        for _ in range(8):
            x = ag.flip(ag.cumulative_sum(x, axis=0), axis=1)
        return x

    f = reduced(sums)
    matrix = np.tril(np.ones((3, 3)))
    back = np.linalg.matrix_power(matrix.T, 8)
    before = len(streams.CAPTURED)
    for i in range(3):
        first, second = (on(rng.normal(size=(3, 4)), requires_grad=True) for _ in range(2))
        g, h = rng.normal(size=(2, 3, 4))
        y, z = f(first), f(second)  # two backward passes are pending
        z.backward(on(h))
        y.backward(on(g))
        same(first.grad, back @ g), same(second.grad, back @ h)
    assert len(streams.CAPTURED) == before + 2, streams.CAPTURED  # forward and backward

    x = on(rng.normal(size=(3, 4)), requires_grad=True)
    loss = lambda f: (lambda x: ag.sum(f(x) ** 3))
    for transform in (ag.func.grad, lambda f: ag.func.vmap(ag.func.grad(f)), ag.func.hessian):  # by the program's own steps
        given = x if transform is not ag.func.vmap and "vmap" not in str(transform.__code__.co_names) else on(rng.normal(size=(2, 3, 4)))
        same(transform(loss(f))(given).detach(), transform(loss(sums))(given).detach()._raw.get())
    """)


def test_what_no_graph_can_hold():
    graphs("""
    xp = ag.plugin.manager.get("cupy").xp
    original = xp.cumulative_sum

    def with_kernel(do):
        def kernel(*args, **kwargs):
            if streams.current().capture:
                do()
            return original(*args, **kwargs)
        vars(xp)["cumulative_sum"] = kernel if do else original

    def refused(function, *values, op, why, do=None):
        f, before = reduced(function, check=False), len(streams.LAUNCHED)
        f(*map(on, values))
        with_kernel(do)
        given = [*map(on, values)]
        found, messages = warned(f, *given)
        for one in given:
            one._raw += 1.0  # what was tried on another stream has read it by then
        assert len(messages) == 1, messages
        start = "compile: kernels are launched one by one, not as a CUDA graph: "
        assert messages[0].startswith(start + op) and why in messages[0], messages
        assert not op or "program.py:" in messages[0], messages
        for _ in range(2):
            found, messages = warned(f, *map(on, values))
            assert not messages, messages
        assert len(streams.LAUNCHED) == before and len(f.programs) == 1, f.programs
        assert streams.current().null and streams.THREAD.allocator is None, streams.THREAD.streams
        return found

    x, y, square = rng.normal(size=(3, 4)), rng.normal(size=4), np.eye(3) + 0.1
    found = refused(lambda x, y: waves(x, y) @ ag.permute_dims(x, (1, 0)), x, y, op="matmul cannot", why="NotImplementedError: calling cuBLAS")
    same(found, by_hand(x, y) @ x.T)
    found = refused(lambda x, y: ag.linalg.inv(x) + waves(x, y), square, y[:3], op="linalg.inv cannot", why="cuSOLVER")
    same(found, np.linalg.inv(square) + by_hand(square, y[:3]))
    joined = lambda x, y: ag.concat([waves(x, y)] * 9)
    found = refused(joined, x, y, op="concat cannot", why="H2D transfers are disallowed")
    same(found, np.concatenate([by_hand(x, y)] * 9))
    found = refused(lambda x, y: ag.sort(waves(x, y), axis=0), x, y, op="sort is no part", why="waits for the device")
    same(found, np.sort(by_hand(x, y), axis=0))
    found = refused(lambda x, y: ag.abs(ag.fft.fft(waves(x, y))), x, y, op="fft.fft is no part", why="may free it")
    same(found, np.abs(np.fft.fft(by_hand(x, y))))
    refused(lambda x, y: waves(x, y) + ag.rand(4, device=x.device), x, y, op="random is no part", why="its key")
    @ag.elementwise(name="graphs_test.double", x=lambda x: 2.0, kernel=lambda xp, x: 2 * x)
    def double(x, /): ...

    found = refused(lambda x, y: double(waves(x, y)), x, y, op="graphs_test.double is no part", why="not agrad's")

    synchronize = lambda: streams.current().synchronize()  # after this error the whole capture is invalid
    why = "CUDARuntimeError: cudaErrorStreamCaptureUnsupported"
    found = refused(lambda x, y: waves(x, y) * 3.0, x, y, op="cumulative_sum cannot", why=why, do=synchronize)
    same(found, by_hand(x, y) * 3.0)

    once = [KeyboardInterrupt]

    def interrupt():
        if once:
            raise once.pop()

    f = reduced(waves, check=False)
    f(on(x), on(y))
    with_kernel(interrupt)
    try:
        f(on(x), on(y))
    except KeyboardInterrupt:
        pass
    else:
        raise AssertionError
    with_kernel(None)
    assert streams.current().null and streams.THREAD.allocator is None
    same(f(on(x), on(y)), by_hand(x, y))  # captured now
    assert len(streams.LAUNCHED) == 1
    streams.LAUNCHED.clear()

    streams.LIMIT[0] = 100
    found = refused(lambda x, y: waves(x, y) * 4.0, x, y, op="", why="there is no memory to keep (Out of memory")
    same(found, by_hand(x, y) * 4.0)
    streams.LIMIT[0] = float("inf")

    few = reduced(lambda x, y: ag.cumulative_sum(x * y, axis=0))  # more copies than kernels: no graph, which was no failure
    for _ in range(3):
        found, messages = warned(few, on(x), on(y))
        assert not messages, messages
    same(found, np.cumsum(x * y, axis=0))
    assert not streams.LAUNCHED

    f = reduced(waves, check=False)
    with ag.plugin.manager.get("cupy").synchronising():  # each kernel is waited for
        for _ in range(3):
            same(f(on(x), on(y)), by_hand(x, y))
    assert not streams.LAUNCHED
    same(f(on(x), on(y)), by_hand(x, y))
    assert len(streams.LAUNCHED) == 1

    for mode in ("fastest", 3):
        try:
            ag.compile(waves, mode=mode)
        except ValueError as error:
            assert "mode must be 'default', 'reduce-overhead'" in str(error)
        else:
            raise AssertionError
    f = ag.compile(mode="default")(waves)
    for _ in range(3):
        same(f(on(x), on(y)), by_hand(x, y))
    assert len(streams.LAUNCHED) == 1
    host = reduced(lambda x, y: waves(x, y), check=False)
    for _ in range(3):  # elsewhere it changes nothing
        np.testing.assert_allclose(host(ag.asarray(x), ag.asarray(y)).numpy(), by_hand(x, y))
    """)


def test_streams_threads_and_devices():
    graphs("""
    x, y = rng.normal(size=(3, 4)), rng.normal(size=4)
    f = reduced(waves, check=False)
    f(on(x), on(y))
    wrong, switch = [], sys.getswitchinterval()
    sys.setswitchinterval(1e-6)

    def work(seed):
        mine = np.random.default_rng(seed)
        with cupy.cuda.Stream(non_blocking=True):
            held = []
            for _ in range(5):
                x, y = mine.normal(size=(3, 4)), mine.normal(size=4)
                held.append((f(on(x), on(y)), by_hand(x, y)))
            wrong.extend(seed for found, wanted in held if not np.allclose(found._raw.get(), wanted))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    sys.setswitchinterval(switch)
    assert not wrong, wrong
    assert len(streams.CAPTURED) == 1 and len(streams.LAUNCHED) == 20, (streams.CAPTURED, len(streams.LAUNCHED))
    assert len({*streams.LAUNCHED}) == 4
    assert not streams.RACES, streams.RACES
    same(f(on(x), on(y)), by_hand(x, y))

    with cupy.cuda.Device(1):  # a graph for each device
        for _ in range(3):
            same(f(on(x, 1), on(y, 1)), by_hand(x, y), "cupy:1")
    assert len(streams.CAPTURED) == 2

    given, stream = (on(x), on(y)), cupy.cuda.Stream(non_blocking=True)  # a capture of the user's takes the kernels
    stream.wait_event(streams.current().record())
    pool = cupy.cuda.MemoryPool()
    with stream, cupy.cuda.using_allocator(pool.malloc):
        stream.begin_capture()
        found = f(*given)
        graph = stream.end_capture()
    assert np.isnan(found._raw._values).all(), (found._raw._values, streams.CAPTURED)
    graph.launch(stream)
    same(found, by_hand(x, y))

    # the stand-in itself tells of work that waits for none
    a = on(x)._raw + 1.0
    with stream:
        cupy.add(a, 1.0)
    assert streams.RACES, "none is found"
    streams.RACES.clear()
    """)
