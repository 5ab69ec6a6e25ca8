"""Programs in files: saved with the tensors they find outside, and made anew of what is checked to the last number."""

from __future__ import annotations

import ast
import copy
import io
import json
import pickle
import random
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import agrad as ag
from agrad.core.op import OPS

capture = ag.func.capture


def written(obj):
    file = io.BytesIO()
    ag.save(obj, file)
    return file.getvalue()


def saved(obj):
    return ag.load(io.BytesIO(written(obj)))


def header_of(content):
    """Return the JSON of a file, and its other members."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    return json.loads(members.pop("tree.json")), members


def file_of(header, members):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("tree.json", json.dumps(header))
    file.seek(0)
    return file


def network(params, x, t):
    h = ag.nn.functional.gelu(x @ params["w"] + params["b"])
    return ag.nn.functional.cross_entropy(h[..., ::2], t), {"top": h[0, 1:], "n": 3, "none": None}


PARAMS = {"w": np.random.default_rng(1).normal(size=(3, 4)), "b": np.full(4, 0.25)}
ARGS = (PARAMS, np.random.default_rng(2).normal(size=(5, 3)), np.array([0, 1, 1, 0, 1]))


def test_a_program_comes_back_as_it_was():
    program = capture(ag.func.value_and_grad(lambda *args: network(*args)[0]))(*ARGS)
    again = saved({"step": program, "epoch": 3})["step"]
    assert str(again) == str(program)
    assert again.source() == program.source()
    for a, b in zip(ag.tree.flatten(program(*ARGS))[0], ag.tree.flatten(again(*ARGS))[0], strict=True):
        assert a.tobytes() == b.tobytes()
    assert written(again) == written(program)


def test_it_is_differentiable_and_has_its_containers():
    program = saved(capture(network)(*ARGS))
    (loss, rest), want = program(*ARGS), network(*(ag.tree.map(ag.asarray, ARGS)))
    np.testing.assert_allclose(loss, want[0])
    assert (rest["n"], rest["none"]) == (3, None)
    grads = ag.func.grad(lambda params: program(params, *ARGS[1:])[0])(PARAMS)
    eager = ag.func.grad(lambda params: network(params, *ARGS[1:])[0])(PARAMS)
    np.testing.assert_allclose(grads["w"], eager["w"], rtol=1e-12)


def test_another_process_trains_on():
    w = ag.tensor([1.0, -2.0], requires_grad=True)

    def step(x):
        w.grad = None
        loss = ag.sum((w * x) ** 2)
        loss.backward()
        with ag.no_grad():
            w.sub_(0.1 * w.grad)
        return loss

    x = np.array([1.0, 0.5])
    program = capture(step)(x)
    file = written(program)
    code = (
        "import io, sys, numpy as np, agrad as ag\n"
        "program = ag.load(io.BytesIO(sys.stdin.buffer.read()))\n"
        "losses = [float(program(np.array([1.0, 0.5]))) for _ in range(3)]\n"
        "print(losses, program.tensors()['w'].tolist(), program.tensors()['w'].grad.tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], input=file, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    losses = [float(program(x)) for _ in range(3)]
    assert done.stdout.decode().strip() == f"{losses} {w.tolist()} {w.grad.tolist()}"


def test_the_loaded_program_s_tensors_are_its_own():
    w = ag.tensor([1.0, 2.0])
    program = capture(lambda x: x * w)(np.ones(2))
    again = saved(program)
    w.data = ag.tensor([5.0, 5.0])
    np.testing.assert_array_equal(again(np.ones(2)), [1.0, 2.0])
    again.tensors()["w"].data = ag.tensor([7.0, 8.0])
    np.testing.assert_array_equal(again(np.ones(2)), [7.0, 8.0])
    np.testing.assert_array_equal(again.arrays()["w"], [7.0, 8.0])


def test_a_gradient_that_is_read_is_saved_with_its_tensor():
    w = ag.tensor([1.0, 2.0], requires_grad=True)
    w.grad = ag.tensor([10.0, 20.0])

    def f(x):
        ag.sum(w * x).backward()
        return w.grad * 1

    again = saved(capture(f)(np.ones(2)))
    found = again(np.ones(2))
    assert again.tensors()["w"].grad.tolist() == found.tolist()
    np.testing.assert_array_equal(saved(again)(np.ones(2)), found + 1)


def test_draws_go_on_with_the_sequence_or_the_state_of_their_generator():
    own = ag.random.Generator(3)
    program = capture(lambda x: (x + ag.rand(2), x + ag.rand(2, generator=own)))(np.zeros(2))
    own.manual_seed(4)
    again = saved(program)
    ag.manual_seed(1)
    found = again(np.zeros(2))
    ag.manual_seed(1)
    np.testing.assert_array_equal(found[0], ag.rand(2))
    np.testing.assert_array_equal(found[1], ag.rand(2, generator=own))


def test_another_backend_runs_it(dask_backend):
    da = pytest.importorskip("dask.array")
    again = saved(capture(lambda x: ag.sum(ag.tanh(x) + ag.asarray([1.0, 2.0])))(np.ones((4, 2))))
    x = np.arange(8.0).reshape(4, 2)
    np.testing.assert_allclose(again(da.from_array(x, chunks=2)).compute(), np.sum(np.tanh(x) + np.array([1.0, 2.0])))


@pytest.mark.parametrize("dtype", ["float16", "longdouble", "clongdouble"])
def test_dtypes_beside_the_standard_s(dtype):
    def squares(x):
        return ag.sum(ag.real(x[1:] * x[1:].conj()))

    program = capture(ag.func.value_and_grad(squares))(x := np.asarray([2.0, 1.5, -0.5], dtype))
    value, g = saved(program)(x)  # the gradient is 2 x
    assert (value, value.dtype) == (2.5, np.real(x).dtype)
    np.testing.assert_array_equal(g, np.asarray([0.0, 3.0, -1.0], dtype), strict=True)


def test_names_and_lines_of_any_kind_come_back():
    def function(x):
        return w["a\nb"] * ag.sin(x)

    w = {"a\nb": ag.ones(2, requires_grad=True)}
    function.__code__ = function.__code__.replace(co_filename="long" * 5000 + "\n.py")
    program = saved(capture(function)(np.zeros(2)))
    assert program(np.zeros(2)).tolist() == [0.0, 0.0]
    assert [eval(name[1:]) for name in program.tensors()] == [["a\nb"]]


def test_what_no_file_can_say_is_refused_when_it_is_saved():
    def scale(x, /, *, by=""):
        """Multiply by a length."""

    own = ag.elementwise(x=lambda by: len(by), kernel=lambda xp, x, by: x * len(by), name="own_scale")(scale)
    try:
        assert saved(capture(lambda x: own(x, by="abc"))(np.ones(2)))(np.ones(2)).tolist() == [3.0, 3.0]
        for text in ("a\nb", "a" * 300):
            with pytest.raises(TypeError, match="cannot save a program with this text"):
                written(capture(lambda x, text=text: own(x, by=text))(np.ones(2)))
    finally:
        del OPS["own_scale"]


def test_containers_of_classes_are_refused():
    with pytest.raises(TypeError, match=r"cannot save .*Slogdet"):
        written(capture(ag.linalg.slogdet)(np.eye(2)))


def looping(w):
    """Give a function with loops in each other, of which one keeps what it carries for its derivative."""

    def step(c, x):
        inner, ys = ag.func.scan(lambda d, y: (ag.sin(d) * y + w, d), c, ag.stack([x, 2 * x]))
        return inner * 0.5 + ag.asarray([1.0, 2.0]), ys

    return lambda c, xs: ag.sum(ag.func.scan(step, c, xs)[0] ** 2)


def test_loops_stay_loops():
    w = ag.tensor([0.5, 1.5])
    program = capture(ag.func.value_and_grad(looping(w), (0, 1)))(np.ones(2), np.ones((4, 2)))
    again = saved(program)
    assert str(again) == str(program)
    assert written(again) == written(program)
    args = np.array([0.3, -0.4]), np.arange(8.0).reshape(4, 2) / 8
    for run in (again, lambda *args: ag.func.value_and_grad(looping(w), (0, 1))(*map(ag.asarray, args))):
        value, grads = run(*args)
        wanted = program(*args)
        np.testing.assert_allclose(value, wanted[0], rtol=1e-12)
        for one, other in zip(grads, wanted[1], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-12)
    length = [len(written(capture(looping(w))(np.ones(2), np.ones((n, 2))))) for n in (10, 1000)]
    assert length[1] < length[0] + 100


def test_a_loaded_loop_has_derivatives_in_another_process():
    w = ag.tensor([0.5, 1.5])
    program = capture(looping(w))(np.ones(2), np.ones((4, 2)))
    code = (
        "import io, sys, numpy as np, agrad as ag\n"
        "program = {}\n"
        "args = np.array([0.3, -0.4]), np.arange(8.0).reshape(4, 2) / 8\n"
        "grads = ag.grad(program, (0, 1))(*args)\n"
        "print([g.tolist() for g in grads])"
    )
    grads = ag.grad(looping(w), (0, 1))(ag.asarray([0.3, -0.4]), ag.asarray(np.arange(8.0).reshape(4, 2) / 8))
    ways = {
        "ag.load(io.BytesIO(sys.stdin.buffer.read()))": written(program),
        "__import__('pickle').loads(sys.stdin.buffer.read())": pickle.dumps(saved(program)),
    }
    for way, file in ways.items():
        done = subprocess.run([sys.executable, "-c", code.format(way)], input=file, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()
        for one, other in zip(ast.literal_eval(done.stdout.decode()), grads, strict=True):
            np.testing.assert_allclose(one, other.numpy(), rtol=1e-12)


# -- hostile files ----------------------------------------------------------------------------------------------------


def good():
    """Return the header and the members of a file with a program of many kinds."""
    w = ag.tensor([[1.0, 2.0], [3.0, 4.0]])

    def step(x, *, rows):
        with ag.no_grad():
            w.mul_(2.0)
        return {"a": ag.sum(w[0] * x[..., 1:] + ag.rand(2), axis=0), "b": (x[rows], ag.asarray([1.0, 2.0]) + x[0, 1:])}

    header, members = header_of(written(capture(step)(np.ones((2, 3)), rows=np.array([1, 1]))))
    return header, members, dict(header["tree"]["program"]["dict"])


def put(header, key, value):
    """Return the header with another part of the program."""
    header = copy.deepcopy(header)
    pairs = header["tree"]["program"]["dict"]
    next(pair for pair in pairs if pair[0] == key)[1] = value
    return header


def first_step(parts, at, value):
    steps = copy.deepcopy(parts["steps"])
    steps[0][at] = value
    return steps


REFUSED = {
    "an unknown operation": lambda p: ("steps", first_step(p, 0, "os.system")),
    "an operation that is code": lambda p: ("steps", first_step(p, 0, "sin(v0); import os; xp.sin")),
    "a private name": lambda p: ("steps", first_step(p, 0, "__class__")),
    "a value from nowhere": lambda p: ("steps", first_step(p, 1, [{"dict": [["ref", 999]]}])),
    "a value from later": lambda p: ("steps", [*p["steps"][1:], p["steps"][0]]),
    "a value made twice": lambda p: ("steps", [*p["steps"], p["steps"][0]]),
    "a number that is negative": lambda p: ("inputs", [-1, *p["inputs"]]),
    "a number that is huge": lambda p: ("steps", first_step(p, 3, [2**40])),
    "a number that is none": lambda p: ("outputs", [True, *p["outputs"]]),
    "a keyword that is code": lambda p: ("steps", first_step(p, 2, {"dict": [["axis=0, x", 1]]})),
    "a keyword of Python": lambda p: ("steps", first_step(p, 2, {"dict": [["lambda", 1]]})),
    "a line of two lines": lambda p: ("steps", first_step(p, 5, "a.py:1\nimport os")),
    "a name of two lines": lambda p: ("names", [[p["inputs"][0], "x\nimport os"]]),
    "a parameter of two lines": lambda p: ("parameters", ["x\n"]),
    "a string of two lines": lambda p: ("steps", first_step(p, 1, ["a\nb"])),
    "a long string": lambda p: ("steps", first_step(p, 1, ["a" * 1000])),
    "a huge number": lambda p: ("steps", first_step(p, 1, [{"int": hex(10**400)}])),
    "a deep argument": lambda p: ("steps", first_step(p, 1, [[[[[[[[[[[[[[1]]]]]]]]]]]]]])),
    "an unknown tag": lambda p: ("steps", first_step(p, 1, [{"dict": [["object", "os"]]}])),
    "bytes": lambda p: ("steps", first_step(p, 1, [{"bytes": "YQ=="}])),
    "an unknown dtype": lambda p: ("steps", first_step(p, 1, [{"dict": [["dtype", "object"]]}])),
    "a region that is none": lambda p: ("steps", first_step(p, 6, "0")),
    "a shape that is negative": lambda p: ("values", [[n, d, [-1]] for n, d, _ in p["values"]]),
    "a shape that is huge": lambda p: ("values", [[n, d, [2**30] * 4] for n, d, _ in p["values"]]),
    "a dtype that is none": lambda p: ("values", [[n, "O", s] for n, _, s in p["values"]]),
    "values without shapes": lambda p: ("values", []),
    "constants of another shape": lambda p: ("constants", [[n, {"tensor": 1}] for n, _ in p["constants"]]),
    "a constant that is no tensor": lambda p: ("constants", [[n, 1.0] for n, _ in p["constants"]]),
    "no results": lambda p: ("outputs", []),
    "other results": lambda p: ("outputs", p["outputs"][::-1]),
    "fewer leaves": lambda p: ("results", [p["results"][0], p["results"][1][:-1]]),
    "arguments that are none": lambda p: ("arguments", [[0], [1]]),
    "an argument that is no input": lambda p: ("inputs", p["inputs"][1:]),
    "a write to nothing": lambda p: ("writes", [["data", "held", 7, None, None]]),
    "a write of nothing": lambda p: ("writes", [["data", "held", 0, None, None]]),
    "a write of another kind": lambda p: ("writes", [["__class__", "held", 0, p["outputs"][-1], None]]),
    "a tensor from nowhere": lambda p: ("outside", [[n, 5, False] for n, _, _ in p["outside"]]),
    "a gradient that is not there": lambda p: ("outside", [[n, 0, True] for n, _, _ in p["outside"]]),
    "two tensors of one name": lambda p: ("held", p["held"] * 2),
    "a key that is none": lambda p: ("keys", p["inputs"]),
    "a generator that is none": lambda p: ("sources", [[p["keys"][0], 3]]),
}


def loops():
    """Return the header and the members of a file with loops in each other."""
    header, members = header_of(written(capture(looping(ag.tensor([0.5, 1.5])))(np.ones(2), np.ones((4, 2)))))
    return header, members, dict(header["tree"]["program"]["dict"])


def body(parts, at, **changes):
    """Return the bodies, of which one has other parts."""
    bodies = copy.deepcopy(parts["bodies"])
    for pair in bodies[at]["dict"]:
        if pair[0] in changes:
            change = changes[pair[0]]
            pair[1] = change(pair[1]) if callable(change) else change
    return "bodies", bodies


def loop_step(parts, at, value):
    """Return the steps, of which the loop has another part."""
    steps = copy.deepcopy(parts["steps"])
    next(step for step in steps if step[0] == "func.scan")[at] = value
    return "steps", steps


def loop_args(parts, refs, where):
    """Return the steps, of which the loop has other arguments."""
    step = next(step for step in parts["steps"] if step[0] == "func.scan")
    return loop_step(parts, 1, [step[1][0] if refs is None else refs, {"dict": [["body", where]]}])


def deep(parts):
    """Return bodies that are each in the next one."""
    first, second = parts["bodies"]
    text = json.dumps(second)
    return "bodies", [first, *(json.loads(text.replace('[["body", 0]]', f'[["body", {i}]]')) for i in range(20))]


LOOPS_REFUSED = {
    "a body that is none": lambda p: loop_args(p, None, 7),
    "a body by a negative place": lambda p: loop_args(p, None, -1),
    "a body that is a number": lambda p: loop_step(p, 1, [p["steps"][0][1][0], 1]),
    "a loop of itself": lambda p: ("bodies", json.loads(json.dumps(p["bodies"]).replace('["body", 0]', '["body", 1]'))),
    "bodies in the wrong order": lambda p: ("bodies", p["bodies"][::-1]),
    "loops that are too deep": deep,
    "fewer operands": lambda p: loop_args(p, [{"dict": [["ref", p["inputs"][0]]]}], 1),
    "operands that are numbers": lambda p: loop_args(p, [1, 2, 3], 1),
    "operands of another order": lambda p: loop_args(p, [*p["steps"][0][1][0][1:], p["steps"][0][1][0][0]], 1),
    "a body for another loop": lambda p: loop_args(p, None, 0),
    "keywords": lambda p: loop_step(p, 2, {"dict": [["axis", 1]]}),
    "one result": lambda p: loop_step(p, 4, False),
    "more results": lambda p: loop_step(p, 3, [*next(s for s in p["steps"] if s[0] == "func.scan")[3], None]),
    "a body as another operation's argument": lambda p: (
        "steps",
        [*p["steps"], ["sin", [{"dict": [["body", 0]]}], {"dict": []}, [997], False, "", 0]],
    ),
    "another length": lambda p: body(p, 1, length=5),
    "no calls": lambda p: body(p, 1, length=0),
    "a length that is none": lambda p: body(p, 1, length=True),
    "a length that is huge": lambda p: body(p, 1, length=2**40),
    "more that is carried": lambda p: body(p, 1, carried=9),
    "less that is carried": lambda p: body(p, 1, carried=0),
    "more rows": lambda p: body(p, 1, rows=9),
    "fewer rows": lambda p: body(p, 1, rows=0),
    "a direction that is none": lambda p: body(p, 1, reverse=1),
    "more that is kept": lambda p: body(p, 1, kept=[0]),
    "what is kept that is not carried": lambda p: body(p, 1, kept=[3]),
    "no inputs": lambda p: body(p, 0, inputs=[]),
    "no outputs": lambda p: body(p, 0, outputs=[]),
    "results in another order": lambda p: body(p, 1, outputs=lambda n: [*n[1:], n[0]]),
    "a value of the program": lambda p: body(p, 0, outputs=lambda n: [990, *n[1:]]),
    "an unknown operation in a body": lambda p: body(p, 0, steps=lambda s: [["os.system", *s[0][1:]], *s[1:]]),
    "a keyword that is code in a body": lambda p: body(
        p, 0, steps=lambda s: [[*s[0][:2], {"dict": [["a=0, x", 1]]}, *s[0][3:]], *s[1:]]
    ),
    "shapes that differ": lambda p: body(p, 0, values=lambda v: [[n, "float32", s] for n, _, s in v]),
    "no shapes": lambda p: body(p, 0, values=[]),
    "fewer parts": lambda p: ("bodies", [{"dict": p["bodies"][0]["dict"][1:]}, *p["bodies"][1:]]),
    "no bodies": lambda p: ("bodies", []),
    "bodies that are none": lambda p: ("bodies", 3),
    "a body of a list": lambda p: ("bodies", [[], *p["bodies"]]),
}


@pytest.mark.parametrize("name", LOOPS_REFUSED)
def test_what_is_wrong_in_a_loop_is_refused(name):
    header, members, parts = loops()
    assert isinstance(ag.load(file_of(header, members)), ag.func.Program)
    changed = put(header, *LOOPS_REFUSED[name](parts))
    assert changed != header
    with pytest.raises(ValueError, match="cannot load"):
        ag.load(file_of(changed, members))


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_in_a_file_is_refused(name):
    header, members, parts = good()
    assert isinstance(ag.load(file_of(header, members)), ag.func.Program)
    changed = put(header, *REFUSED[name](parts))
    with pytest.raises(ValueError, match="cannot load"):
        ag.load(file_of(changed, members))


def test_parts_that_lack_or_are_too_many_are_refused():
    header, members, _ = good()
    for change in (lambda pairs: pairs[1:], lambda pairs: [*pairs, ["more", 1]]):
        changed = copy.deepcopy(header)
        changed["tree"]["program"]["dict"] = change(changed["tree"]["program"]["dict"])
        with pytest.raises(ValueError, match="its parts are others"):
            ag.load(file_of(changed, members))


NAMES = {"xp", "random", "detach", "spec", "slice", "complex", "device", "inf", "nan", "float", *ag.dtypes.NAMES}


def check_text(program):
    """The text is straight-line: calls of functions of xp and of few names, on values."""
    for node in ast.walk(ast.parse(program.text())):
        assert not isinstance(node, ast.Import | ast.ImportFrom | ast.Lambda | ast.Subscript | ast.ClassDef)
        if isinstance(node, ast.Name):
            known = node.id in NAMES or node.id == "_" or node.id.removeprefix("body_").isdigit()
            assert known or (node.id[0] in "vck" and node.id[1:].isdigit()), node.id
        if isinstance(node, ast.Attribute):
            assert not node.attr.startswith("_")


@pytest.mark.parametrize("kind", [good, loops])
def test_drawn_files_are_refused_or_give_straight_line_text(kind):
    header, members, _ = kind()
    values = [None, True, -1, 0, 1, 7, 2**64, "", "nan", "axis", "__import__", "a\n", "sin", [], [[]], {"tensor": 0}]
    values += [{"dict": [["ref", 0]]}, {"dict": [["dtype", "int8"]]}, {"dict": []}, {"tuple": [1, 2]}, 1e308]
    loaded = 0
    for seed in range(400 if kind is good else 800):
        rng, changed = random.Random(seed), copy.deepcopy(header)
        for _ in range(rng.randint(1, 3)):
            place, key = changed["tree"]["program"], "dict"
            while isinstance(place[key], list | dict) and place[key] and rng.random() < 0.93:
                place = place[key]
                key = rng.choice(list(place)) if isinstance(place, dict) else rng.randrange(len(place))
            place[key] = copy.deepcopy(rng.choice([*values, place[key]]))
        try:
            program = ag.load(file_of(changed, members))
        except ValueError:
            continue
        if isinstance(program, ag.func.Program):
            check_text(program)
            loaded += 1
    assert loaded > 10
