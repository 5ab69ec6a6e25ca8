"""The planting of faults itself: which are planted, where, and that it sees which tests find them."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import pytest

from agrad.compiled.tracking import whose

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
JUDGED = HERE.joinpath("survivors.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def mutants():
    spec = importlib.util.spec_from_file_location("mutants", HERE / "mutants.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    yield module
    del sys.modules["mutants"]


@pytest.fixture
def mutate(mutants):
    pytest.importorskip("resource", reason="not on Windows")
    spec = importlib.util.spec_from_file_location("mutate", HERE / "mutate.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def changes(mutants, source):
    """The mutants of a source that are programs, as pairs of lines."""
    encoded = source.encode()
    found = mutants.find(encoded, "agrad/toy.py")
    return {(m.before, m.after) for m in found if mutants.is_fault(m, encoded)}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("return a + b", {"return a - b", "return None", "return b + b", "return a + a"}),
        ("return a ** c", {"return a * c", "return None", "return b ** c"}),
        ("return -c", {"return (c)", "return None"}),
        ("return c[:a]", {"return c[:b]", "return c[:(a) - 1]", "return None"}),
        ("return xp.conj(c)", {"return (c)", "return None"}),
        ("return f(c, 0)", {"return f(0, c)", "return f(c, 1)", "return None"}),
        ("return f(c, keepdims=True)", {"return f(c, keepdims=False)", "return f(c)", "return None"}),
        ("c.x = 2.5", {"pass", "c.x = 5.0"}),
        ("c.clear()", {"pass"}),
        ("if c is None: c = f(c)", {"if c is not None: c = f(c)"}),
        ("if c < 3: c = f(c)", {"if c <= 3: c = f(c)", "if c < 4: c = f(c)"}),
        ("if c and d: c = f(c)", {"if c or d: c = f(c)"}),
        ("if not c: c = f(c)", {"if (c): c = f(c)"}),
        ("if c: raise ValueError('no ' + str(c - 1))", {"if not (c): raise *", "if c: pass"}),
        ("warn(f'{c + 1} {a}', stacklevel=2)", set()),
        ("c: int | None = None", set()),
        ("assert c > 0", set()),
    ],
)
def test_what_is_planted(mutants, line, expected):
    found = changes(mutants, f"def toy(a, b, c, d):\n    '''Say 1 + 1.'''\n    {line}\n")
    assert {before for before, _ in found} <= {line}
    assert {after.split("raise Value")[0] for _, after in found} == {after.split("raise *")[0] for after in expected}


def test_nothing_is_planted_in_what_only_a_type_checker_reads(mutants):
    source = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    x = 1 + 1\nArg = int | tuple[int, ...]\n"
    assert not changes(mutants, source)


def test_probes_leave_a_program_what_it_is(mutants):
    source = HERE.joinpath("mutants.py").read_bytes()  # a program with one of everything
    found = mutants.find(source, "mutants.py")
    assert len(found) > 400
    names: dict = {"__name__": "probed", "hit": set()}
    sys.modules["_agrad_probe"] = type(sys)("_agrad_probe")
    sys.modules["_agrad_probe"]._hit = names["hit"].add
    sys.modules["probed"] = probed = type(sys)("probed")
    try:
        changed = mutants.instrument(source, found)
        assert changed.count(b"\n") == source.count(b"\n")  # no line moves
        exec(compile(changed, "probed", "exec"), probed.__dict__)
        again = probed.find(source, "mutants.py")
    finally:
        del sys.modules["_agrad_probe"], sys.modules["probed"]
    assert [mutant.key for mutant in again] == [mutant.key for mutant in found]
    assert len(names["hit"]) > 200


def test_a_sample_stays_where_the_source_changes_elsewhere(mutants, tmp_path):
    lines = [f"    if a < {i}:\n        return b + {i}\n" for i in range(100)]
    source = "def toy(a, b):\n" + "".join(lines)
    (tmp_path / "toy.py").write_text(source)
    before = mutants.sample(tmp_path, mutants.read(tmp_path, ["toy.py"]), 30, seed=0)
    (tmp_path / "toy.py").write_text(source.replace("a < 50", "a > 1050"))
    after = mutants.sample(tmp_path, mutants.read(tmp_path, ["toy.py"]), 30, seed=0)
    other = mutants.sample(tmp_path, mutants.read(tmp_path, ["toy.py"]), 30, seed=1)
    assert len(before) == len({mutant.line for mutant in before}) == 30
    assert len({m.key for m in before} & {m.key for m in after}) >= 28
    assert len({m.key for m in before} & {m.key for m in other}) < 20


def test_what_survivors_are_judged_is_what_they_are(mutants):
    """A judgement of what is no longer there says nothing; what came of it wants one of its own."""
    rows = re.findall(
        r"^\| `(\w{8})` \| [\w ]+ \| `(.+?)` (.*?) ?\| `(.+?)` to `(.+?)` \| ", JUDGED, flags=re.MULTILINE
    )
    assert len(rows) == len(re.findall(r"^\| `\w{8}`", JUDGED, flags=re.MULTILINE))
    found = {m.key: (m.path, m.where, m.before, m.after) for m in mutants.read(ROOT, {path for _, path, *_ in rows})}
    assert [row for row in rows if row[1:] != found.get(row[0])] == []


#: The files of a project. Only what stands in agrad/core is mutated.
TOY = {
    "agrad/__init__.py": "",
    "agrad/numbers.py": """
        TWO = 2

        def even(x):
            return x % TWO == 0
    """,
    "agrad/core/__init__.py": "",
    "agrad/core/toy.py": """
        from agrad.numbers import TWO, even

        LIMIT = 10

        def clipped(x):
            if x > LIMIT:
                return LIMIT
            return x

        def halved(x):
            while even(x):
                x = x // TWO
            return x

        def unused(x):
            return -x
    """,
    "tests/test_toy.py": """
        from agrad.core.toy import clipped, halved

        def test_clipped():
            assert clipped(11) == 10

        def test_halved():
            assert halved(12) == 3
    """,
    ".gitignore": ".mutation/",
}


@pytest.fixture(scope="module", params=[[], ["--quick"]], ids=["by a map", "quick"])
def found(request, tmp_path_factory):
    """What is found in a toy project: the program's output, up to the list of survivors."""
    root = tmp_path_factory.mktemp("a toy")
    for name, text in TOY.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(textwrap.dedent(text))
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    done = subprocess.run(
        [sys.executable, HERE / "mutate.py", "--root", root, "--every", *request.param],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        cwd=root,
    )
    assert done.stdout, done.stderr
    assert done.returncode == 1  # survivors
    return done.stdout.partition("Survivors:")[0]


def test_every_file_of_agrad_is_mutated(mutate):
    """The kit's tests and their samples are not; nor are aliases of modules and what holds messages alone."""
    files = {str(p.relative_to(ROOT)) for p in [*ROOT.glob("agrad/**/*.py"), *ROOT.glob("plugins/*/agrad_*/**/*.py")]}
    left_out = files - set(mutate.mutated_files(()))
    kit = {path for path in files if path.startswith(("agrad/testing/suite/", "agrad/testing/samples/"))}
    assert kit
    aliases = {f"agrad/backends/{name}.py" for name in ("__init__", "cudnn", "mps")}
    assert left_out == kit | aliases | {"agrad/core/errors.py"}


@pytest.mark.long
def test_a_draw_has_mutants_of_every_area(mutants, mutate):
    """Half the count is shared out equally, so that a room of ten files is not one of a hundredth of the mutants."""
    every = mutants.read(ROOT, mutate.mutated_files(()))
    drawn = mutate.drawn(every, 220, seed=0)
    count = Counter(mutate.area_of(mutant.path) for mutant in drawn)
    assert set(count) == set(mutate.AREAS)
    assert min(count.values()) >= 220 // 2 // len(mutate.AREAS)
    assert count["ops"] > 2 * count["random"]
    assert abs(len(drawn) - 220) <= len(count) / 2  # the parts are rounded


def test_a_probe_passes_for_a_file_of_agrad(mutate):
    """A capture gives up where a function of the user's runs unseen: the test would be left out of the map."""
    names: dict = {"__file__": str(ROOT / "_agrad_probe.py"), "__name__": "probe"}
    exec(mutate.PROBE, names)
    names["_hit"]("key")
    assert names["hits"] == {"key"}
    assert whose(names["_hit"].__code__.co_filename) == "agrad"


@pytest.mark.long
def test_the_nearest_tests(mutants, mutate):
    """Those of the room, and first the file of the module's name, or the one that names the function."""
    source = ROOT.joinpath("agrad/optim/lr_scheduler.py").read_bytes()
    mutant = next(m for m in mutants.find(source, "agrad/optim/lr_scheduler.py") if m.where == "CyclicLR.get_lr")
    files, words = mutate.near(mutant)
    assert files[0] == "tests/optim/test_optimizers.py"
    assert words == ["CyclicLR", "get_lr", "get"]
    for path in mutate.mutated_files(()):
        folder = next(folder for start, folder in mutate.ROOMS if path.startswith(start))
        assert any(re.match(folder, unit) for unit in mutate.units()), path


def test_a_file_whose_tests_are_all_left_out_is_not_chosen(mutants, mutate):
    (mutant, *_) = mutants.find(b"LIMIT = 10\n", "agrad/toy.py")
    used = {"tests": {"test_used": [0.1, []]}, "import": [mutant.key], "bad": []}
    empty = {"tests": {}, "import": [mutant.key], "bad": ["test_skipped"]}
    reached = mutate.Reached({"tests/test_empty.py": empty, "tests/test_used.py": used}, [mutant])
    assert reached.choose(mutant, 20.0) == {"tests/test_used.py": ["test_used"]}


@pytest.mark.long
@pytest.mark.skipif(sys.platform == "win32", reason="the processes are forked")
@pytest.mark.parametrize(
    ("before", "after", "outcome"),
    [
        ("LIMIT = 10", "LIMIT = 11", "killed by test tests/test_toy.py::test_clipped"),  # at import
        ("if x > LIMIT:", "if x >= LIMIT:", "survived"),  # says the same
        ("return LIMIT", "return None", "killed by test tests/test_toy.py::test_clipped"),
        ("x = x // TWO", "x = x * TWO", "killed by time tests/test_toy.py::test_halved"),
        ("while even(x):", "while not (even(x)):", "killed by test tests/test_toy.py::test_halved"),
        ("return -x", "return (x)", "(not covered|survived)"),  # without a map it is not known which
    ],
)
def test_what_the_tests_of_a_toy_find(found, before, after, outcome):
    change = re.escape(f"    - {before}\n    + {after}\n")
    assert re.search(f"{change}    {outcome}", found)
