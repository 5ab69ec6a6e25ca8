"""Instrumented code does what the plain code does: with hooks that do nothing, and with hooks that are told."""

from __future__ import annotations

import collections
import contextlib
import importlib.util
import inspect
import linecache
import operator
import re
import sys
import textwrap
import threading
import types
from pathlib import Path

import pytest

from agrad.compiled import instrumentation
from agrad.compiled.instrumentation import CURRENT, HOOKS
from agrad.compiled.rewriting import instrumented, is_instrumented, plain_code

FILE = str(Path(__file__).parent / "syntax.py")


def load(name, file):
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


syntax = load("compiled_syntax", FILE)


class Tracker:
    """A tracker that does what Python does, and counts how it is asked."""

    def __init__(self):
        self.told = collections.Counter()
        self.names = set()
        self.cells = []
        self.errors = []
        self.handled = []
        self.reasons = []

    def decline(self, reason):
        self.reasons.append(reason)

    def failed(self, error):
        self.errors.append(error)

    def load_global(self, frame, name, value):
        self.told["load_global"] += 1
        names = frame.f_globals
        found = names[name] if name in names else vars(__import__("builtins"))[name]
        assert found is value, name
        self.names.add(name)
        return value

    def load_free(self, name, value, cell):
        self.told["load_free"] += 1
        assert cell.cell_contents is value, name
        self.names.add(name)
        return value

    def before_store(self, frame, name, cell):
        self.told["before_store"] += 1
        assert cell is None or isinstance(cell, types.CellType)

    def attribute(self, o, name):
        self.told["attribute"] += 1
        return getattr(o, name)

    def item(self, o, key):
        self.told["item"] += 1
        return o[key]

    def deleting_attribute(self, o, name):
        self.told["deleting_attribute"] += 1
        return o

    def writing_attribute(self, o, name):
        self.told["writing_attribute"] += 1
        return o

    def call(self, f, args, kwargs):
        self.told["call"] += 1
        return f(*args, **kwargs)

    def importing(self, module, names, level):
        self.told["importing"] += 1
        assert isinstance(module, str)
        assert all(isinstance(name, str) for name in names)

    def caught(self, error):
        self.told["caught"] += 1
        self.handled.append(error)

    def binary(self, op, l, r):
        self.told["binary"] += 1
        return getattr(operator, op)(l, r)

    def inplace(self, op, l, r):
        self.told["inplace"] += 1
        return getattr(operator, "i" + op.rstrip("_"))(l, r)

    def unary(self, op, v):
        self.told["unary"] += 1
        return getattr(operator, op)(v)

    def compare(self, op, l, r):
        self.told["compare"] += 1
        return instrumentation.COMPARE[op](l, r)


def same(name):
    def told(self, v):
        self.told[name] += 1
        return v

    return told


VALUES = (
    "writing_item",
    "iterated",
    "truth",
    "formatted",
    "entering",
    "entered",
    "made",
    "returned",
    "matched",
    "hashed",
)
for name in VALUES:
    setattr(Tracker, name, same(name))


def twin(f):
    """Return a function with hooks."""
    code = instrumented(f.__code__)
    if sys.version_info[:2] == (3, 12) and f.__name__ == "comprehensions_in_classes":
        assert code is None
        pytest.skip("3.12 loses what hides in code that is changed")
    assert code is not None, f.__qualname__
    made = types.FunctionType(code, f.__globals__, f.__name__, f.__defaults__, f.__closure__)
    made.__kwdefaults__ = f.__kwdefaults__
    return made


def run(f, module, tracker=None):
    """Return all that a function says of what it did."""
    module.LOG.clear()
    lines = []
    CURRENT.tracker = tracker
    try:
        outcome = f()
    except Exception as e:  # noqa: BLE001 - what it is, is compared
        CURRENT.tracker = None
        outcome = type(e), str(e)
        tb = e.__traceback__
        while tb is not None:
            if tb.tb_frame.f_code.co_filename == module.__file__:
                lines.append((tb.tb_frame.f_code.co_name, tb.tb_lineno))
            tb = tb.tb_next
    finally:
        CURRENT.tracker = None
    return [re.sub(" at 0x[0-9a-f]+", "", text) for text in (repr(outcome), *map(repr, module.LOG), repr(lines))]


def traced(f, file):
    """Return the lines that a tracer sees."""
    seen = set()

    def trace(frame, event, arg):
        if frame.f_code.co_filename != file:
            return None
        if event == "line":
            seen.add((frame.f_code.co_name, frame.f_lineno))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        with contextlib.suppress(Exception):
            f()
    finally:
        sys.settrace(before)
    return seen


def functions(module):
    found = [f for f in vars(module).values() if inspect.isfunction(f) and f.__module__ == module.__name__]
    helpers = {"log", "told", "items"}
    return [f for f in found if f.__name__ not in helpers and not inspect.iscoroutinefunction(f)]


@pytest.fixture(autouse=True)
def hidden(monkeypatch):
    """Let the frames of the tracker here be hidden, as those of agrad's are."""
    shown = instrumentation.is_shown
    monkeypatch.setattr(
        instrumentation, "is_shown", lambda frame: shown(frame) and frame.f_code.co_filename != __file__
    )


@pytest.fixture(params=functions(syntax), ids=lambda f: f.__name__)
def function(request):
    return request.param


def test_hooks_change_nothing(function):
    expected = run(function, syntax)
    assert run(twin(function), syntax) == expected
    assert run(function, syntax) == expected, "the function is no function of its arguments alone"


def test_what_is_told_changes_nothing(function):
    tracker = Tracker()
    assert run(twin(function), syntax, tracker) == run(function, syntax)


def test_lines_are_those_of_the_text(function):
    assert traced(twin(function), FILE) == traced(function, FILE)


# -- newer syntax ---------------------------------------------------------------------------------------------------------

NEWER = {
    (3, 12): """
        LOG = []

        def first[T: int](x: T) -> T:
            LOG.append(x)
            return x + len([T])

        def holds[T](x):
            def inner():
                return x, T.__name__, [T.__name__ for _ in range(2)]
            return inner

        class Box[T]:
            def __init__(self, v: T):
                self.__v = v

            def get(self):
                def put[U](v: U) -> tuple[T, U]:
                    return self.__v, v, T.__name__, U.__name__
                return put(3)

        def generic():
            type Pair[T] = tuple[T, T]
            type Other = LOG
            def local[T](x: T = len(LOG)) -> T:
                LOG.append(T.__name__)
                return x
            class Local[T](list):
                size = len(LOG)
                def __init__(self, *args):
                    super().__init__(*args)
            return local(4), local(), Local([1]).size, Pair.__name__, Other.__value__ is LOG, local.__annotations__.keys()

        def everything():
            LOG.append("start")
            return first(1), holds(2)(), Box(5).get(), Box.__type_params__[0].__name__

        def quotes():
            d = {"a": [1, 2]}
            return f"{d["a"][0]!r:>{len("abc")}} {f"{d["a"]}"}"
        """,
    (3, 13): """
        LOG = []

        def parameters():
            def f[T = int](x):
                return T.__default__, x
            class C:
                def g(self):
                    self.a = 1
            C().g()
            return f(1), C.__firstlineno__
        """,
    (3, 14): """
        LOG = []

        def errors():
            try:
                raise KeyError(1)
            except ValueError, KeyError:
                LOG.append("caught")
            x = 5
            made = t"{x!r:>{LOG[0]}} and {x + 1}"
            return [(i.value, i.expression, i.conversion, i.format_spec) for i in made.interpolations], made.strings

        def annotations():
            class C:
                x: LOG = 3
                y: undefined
            def f(a: LOG, b: int = len(LOG)) -> undefined:
                z: LOG = 1
                return b, z
            return f(1), f.__annotate__(3) if False else C.x
        """,
}


@pytest.mark.parametrize("version", NEWER, ids=str)
def test_newer_syntax(version):
    if sys.version_info < version:
        pytest.skip("no Python yet")
    module = written(f"syntax of {version}", NEWER[version])
    for f in functions(module):
        expected = run(f, module) if not inspect.signature(f).parameters else None
        for nested in code_in(f.__code__):
            assert instrumented(nested) is not None or nested.co_name in {"Pair", "Other", "T", "U", "__annotate__"}, (
                nested
            )
        if expected is not None:
            assert run(twin(f), module) == expected
            assert run(twin(f), module, Tracker()) == expected


def written(name, text, cached=True):
    """Return a module of text in no file."""
    text = textwrap.dedent(text).strip("\n") + "\n"
    module = types.ModuleType(re.sub("[^a-z0-9]", "_", name))
    module.__file__ = f"<{name}>"
    if cached:
        linecache.cache[module.__file__] = len(text), None, text.splitlines(keepends=True), module.__file__
    exec(compile(text, module.__file__, "exec", dont_inherit=True), vars(module))
    return module


def code_in(code):
    """Go through the code of functions that a code object holds."""
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            is_function = inner.co_flags & 1 and (inner.co_name[0] != "<" or inner.co_name == "<lambda>")
            if is_function and not inner.co_flags & (0x80 | 0x200):
                yield inner
            if not inner.co_flags & (0x80 | 0x200):
                yield from code_in(inner)


# -- which code ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "file", [FILE, inspect.__file__, instrumentation.__file__, operator.__file__, collections.__file__]
)
def test_every_function_by_itself(file):
    """Each function of a file is found among its lines, however deep, and keeps what it is known by."""
    with open(file, encoding="utf-8") as opened:
        code = compile(opened.read(), file, "exec", dont_inherit=True)
    found = list(code_in(code))
    assert len(found) > 20
    for plain in found:
        made = instrumented(plain)
        if made is None and sys.version_info[:2] == (3, 12) and "comprehensions_in_classes" in plain.co_qualname:
            continue
        assert made is not None, plain
        for name in ("co_name", "co_qualname", "co_filename", "co_firstlineno", "co_flags", "co_freevars"):
            assert getattr(made, name) == getattr(plain, name)
        assert (made.co_argcount, made.co_kwonlyargcount) == (plain.co_argcount, plain.co_kwonlyargcount)
        assert set(made.co_cellvars) == set(plain.co_cellvars)
        assert instrumented(plain) is made
        assert plain_code(made) is plain
        assert is_instrumented(made)
        assert not is_instrumented(plain)
        assert plain_code(plain) is None
        assert made != plain
        assert instrumented(made) is made


def test_nested_code_is_instrumented_with_its_function():
    def nested(code):
        return [value for value in code.co_consts if isinstance(value, types.CodeType)]

    plain = syntax.classes.__code__
    made = instrumented(plain)
    readers = [code for code in nested(made) if code.co_varnames == (".reader",)]
    own = [code for code in nested(made) if code not in readers]
    assert [code.co_name for code in own] == [code.co_name for code in nested(plain)]
    for inner, given in zip(own, nested(plain), strict=True):
        assert is_instrumented(inner)
        assert plain_code(inner) is given
        assert inner.co_qualname == given.co_qualname
    assert not any(map(is_instrumented, readers))


def test_functions_made_by_instrumented_code_are_instrumented():
    module = written(
        "making",
        """
        def make(n):
            class C:
                def method(self):
                    return n
            async def wait():
                return n
            async def nothing():
                pass
            return (lambda: n), C.method, (i for i in range(n)), wait, nothing
        """,
    )
    function, method, generator, *coroutines = twin(module.make)(3)
    plain, *_ = module.make(3)
    assert is_instrumented(function.__code__)
    assert plain_code(function.__code__) is plain.__code__
    assert instrumented(plain.__code__) is function.__code__
    assert is_instrumented(method.__code__)
    assert is_instrumented(generator.gi_code)
    for f in coroutines:
        assert not is_instrumented(f.__code__)
        assert instrumented(f.__code__) is None


def test_swapped_code_has_its_function_s_cells_and_defaults():
    module = written(
        "cells",
        """
        def make():
            n = m = 0
            def read(a=1, *, b=2):
                "Read."
                return n, m, a, b
            def write():
                nonlocal n, m
                n, m = n + 1, m - 1
            return read, write
        """,
    )
    read, write = module.make()
    write.__code__ = instrumented(write.__code__)
    write()
    read.__code__ = instrumented(read.__code__)
    write()
    assert read() == (2, -2, 1, 2)
    assert (read.__doc__, read.__name__, read.__qualname__) == ("Read.", "read", "make.<locals>.read")
    write.__code__ = plain_code(write.__code__)
    read.__code__ = plain_code(read.__code__)
    write()
    assert read() == (3, -3, 1, 2)


def test_lambdas_on_one_line_are_told_apart():
    module = written(
        "lambdas",
        """
        fs = [lambda x: x + 1, lambda x: x + 2, lambda x: x * 3]; same = [lambda: 0, lambda: 0]
        deep = lambda: (lambda: (lambda: 5))
        def default(f=lambda x: x - 1): return f
        class C: f = lambda self: self.__x; __x = 3
        """,
    )
    tracker = Tracker()
    CURRENT.tracker = tracker
    try:
        found = [twin(f)(10) for f in (*module.fs, module.default())]
        found += [*(twin(f)() for f in module.same), twin(twin(twin(module.deep)())())()]
    finally:
        CURRENT.tracker = None
    assert found == [11, 12, 30, 9, 0, 0, 5]
    assert twin(module.C.f)(module.C()) == 3


def test_code_that_is_not_the_text_s_is_left_alone(tmp_path):
    file = tmp_path / "changing.py"
    file.write_text("def f():\n    return 1\n")
    linecache.checkcache(str(file))
    first = load("compiled_changing", file)
    file.write_text("# A line more\ndef f():\n    return 22\n")
    assert instrumented(first.f.__code__) is None, "the file is another one by now"
    assert instrumented(first.f.__code__) is None
    linecache.checkcache(str(file))
    second = load("compiled_changing_2", file)
    assert twin(second.f)() == 22
    file.write_text("def f():\n    return 333\n")
    assert twin(second.f)() == 22, "the text that was known is the one it was made of"
    third = load("compiled_changing_3", file)
    assert twin(third.f)() == 333, "a file is read again where its lines do not fit"


def test_code_without_text():
    space = {}
    exec("def f(): return 1", space)
    assert instrumented(space["f"].__code__) is None
    assert instrumented(written("no text", "def f(): return 1", cached=False).f.__code__) is None
    assert instrumented(collections.namedtuple("P", "x").__new__.__code__) is None  # noqa: PYI024
    made = syntax.arithmetic.__code__.replace(co_consts=(*syntax.arithmetic.__code__.co_consts, "more"))
    assert instrumented(made) is None
    assert instrumented(syntax.arithmetic.__code__.replace(co_firstlineno=5)) is None


def test_asserts_that_pytest_rewrites_are_other_code():
    def f(x):
        assert x
        return x

    assert instrumented(f.__code__) is None


def test_text_that_comes_later():
    module = written("later", "def f(): return 1", cached=False)
    assert instrumented(module.f.__code__) is None
    text = "def f(): return 1\n"
    linecache.cache[module.__file__] = len(text), None, [text], module.__file__
    assert twin(module.f)() == 1


def test_cells_of_notebooks():
    shell = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    notebook = shell()
    notebook.run_cell("from __future__ import annotations\nscale = 3")
    notebook.run_cell("def make(n):\n    def f(x: undefined): return x * n * scale\n    return f")
    f = notebook.user_ns["make"](2)
    assert twin(f)(5) == 30
    assert twin(notebook.user_ns["make"])(2)(5) == 30


def test_flags_of_the_future():
    module = written(
        "future",
        """
        from __future__ import annotations
        def make():
            def f(x: undefined, *y: also) -> neither:
                z: nor_this = 5
                return eval("x + z")
            class C:
                a: what = 1
            return f, C
        """,
    )
    f, C = twin(module.make)()
    assert f(1) == 6
    assert f.__annotations__ == {"x": "undefined", "y": "also", "return": "neither"}
    assert C.__annotations__ == {"a": "what"}


@pytest.mark.parametrize("future", ["from __future__ import annotations", ""], ids=["future", "no future"])
def test_code_from_text_has_its_caller_s_future(future):
    module = written(
        f"inherited {future}",
        future
        + """
        def f(text="def g(x: 1 + 1): pass"):
            space = {}
            exec(text, space)
            exec(compile(text.replace("g", "h"), "", "exec"), space)
            exec(compile(text.replace("g", "i"), "", "exec", 0, True), space)
            exec(text.replace("g", "j").encode(), space, space)
            return [space[n].__annotations__["x"] for n in "ghij"], eval("\\t 1"), eval(b" 2", {}), eval("f", {"f": 3}, {})
        """.replace("\n        ", "\n"),
    )
    expected = run(module.f, types.SimpleNamespace(LOG=[], __file__=""))
    assert run(twin(module.f), types.SimpleNamespace(LOG=[], __file__="")) == expected
    assert run(twin(module.f), types.SimpleNamespace(LOG=[], __file__=""), Tracker()) == expected
    assert ("'1 + 1'" in expected[0]) == bool(future)


def test_what_a_module_imports_is_called_otherwise():
    module = written(
        "imports",
        """
        import math, os.path as path
        try:
            from json import (
                dumps,
                decoder as json_decoder,
            )
        except ImportError: pass
        if True:
            import re
        def f(re2=re):
            import json
            return math.floor(1.5), path.join("a", "b"), re.escape("a"), json.dumps(1), json_decoder.scanner.__name__
        def g(math):
            return math.upper()
        """,
    )
    assert twin(module.f)() == module.f()
    assert twin(module.g)("a") == "A"


def test_private_names():
    module = written(
        "private",
        """
        class _Outer:
            __x = 1
            def f(self, __y=2):
                __z = self.__x + __y
                class Inner:
                    __x = 10
                    def g(inner):
                        return inner.__x, __z_of()
                def __z_of():
                    return __z
                global __made
                __made = 4
                return [self.__x for _ in range(2)], __z, __made, eval("1")
            def h(self):
                def deep():
                    return self.__x, __class__.__name__
                return deep()
        class __:
            def f(self):
                self.__x = 1
                return vars(self)
        """,
    )
    outer = module._Outer()
    for tracker in (None, Tracker()):
        CURRENT.tracker = tracker
        try:
            assert twin(module._Outer.f)(outer) == ([1, 1], 3, 4, 1)
            assert twin(module._Outer.h)(outer) == (1, "_Outer")
            assert twin(module.__.f)(module.__()) == {"__x": 1}
        finally:
            CURRENT.tracker = None
    assert vars(module)["_Outer__made"] == 4


# -- what is told --------------------------------------------------------------------------------------------------------

TOLD = {
    "global": ("G", {"load_global": 1}),
    "builtin": ("len", {"load_global": 1}),
    "free": ("a", {"load_free": 1}),
    "local": ("l", {}),
    "attribute": ("l.real", {"attribute": 1}),
    "entry": ("L[0]", {"load_global": 1, "item": 1}),
    "slice": ("L[l:2]", {"load_global": 1, "item": 1}),
    "call": ("len(L)", {"load_global": 2, "call": 1}),
    "arguments": ("dict(*L[:0], **D)", {"load_global": 3, "item": 1, "call": 1, "iterated": 2}),
    "operator": ("l + 1", {"binary": 1}),
    "negated": ("-l", {"unary": 1}),
    "not": ("not l", {"truth": 1}),
    "and": ("l and a", {"truth": 1, "load_free": 1}),
    "or of three": ("0 or l or a", {"truth": 1}),
    "choice": ("1 if l else 2", {"truth": 1}),
    "compared": ("l < 2", {"compare": 1}),
    "is": ("l is None", {"compare": 1}),
    "in": ("1 in L", {"compare": 1, "load_global": 1}),
    "chain": ("0 < l < 2", {"compare": 2, "truth": 1}),
    "chain that ends": ("2 < l < L[9]", {"compare": 1, "truth": 1}),
    "text": ("f'{l}{l:{a}}'", {"formatted": 3, "load_free": 1}),
    "displays": ("[l], {l}, {l: l}, (l,)", {"made": 3, "hashed": 2}),
    "stars": ("[*L]", {"iterated": 1, "made": 1, "load_global": 1}),
    "dictionary": ("{**D}", {"iterated": 1, "made": 1, "load_global": 1}),
    "comprehension": ("[i for i in L if i]", {"iterated": 1, "made": 1, "truth": 2, "load_global": 1}),
    "comprehension of pairs": ("[i for i, (j, k) in P]", {"iterated": 3, "made": 1, "load_global": 1}),
    "generator": ("(i for i in L)", {"iterated": 1, "made": 1, "load_global": 1}),
    "lambda": ("lambda: G", {"made": 1}),
    "lambda called": ("(lambda *x: 1)()", {"made": 2, "call": 1}),
}
DONE = {
    "unpacked": ("x, y = L", {"load_global": 1, "iterated": 1}),
    "unpacked within": ("(x, (y, z)), = P", {"load_global": 1, "iterated": 3}),
    "unpacked stars": ("*x, (y, (z, w)) = P", {"load_global": 1, "iterated": 3, "made": 1}),
    "unpacked and kept": ("x = y, z = L", {"load_global": 1, "iterated": 1}),
    "swapped": ("x, y = l, l", {}),
    "attribute set": ("o.x = 1", {"writing_attribute": 1, "load_global": 0}),
    "attribute deleted": ("o.x = 1; del o.x", {"writing_attribute": 1, "deleting_attribute": 1}),
    "entry set": ("d[1] = l", {"writing_item": 1}),
    "entry deleted": ("d[1] = l; del d[1]", {"writing_item": 2}),
    "slice set": ("L[2:] = ()", {"writing_item": 1, "load_global": 1}),
    "in place": ("l += 1", {"inplace": 1}),
    "attribute in place": ("o.x = 1; o.x += l", {"writing_attribute": 2, "attribute": 1, "inplace": 1}),
    "entry in place": ("L[0] += 0", {"load_global": 1, "item": 1, "writing_item": 1, "inplace": 1}),
    "global set": ("global N; N = 1", {"before_store": 1}),
    "global deleted": ("global N; N = 1; del N", {"before_store": 2}),
    "global by :=": ("global N; (N := 1)", {"before_store": 1}),
    "global by a loop": ("global N\n  for N in (1, 2): pass", {"before_store": 1}),
    "global by a definition": ("global N\n  def N(): pass", {"before_store": 1, "made": 1}),
    "global by an import": ("global N; import math as N", {"before_store": 1, "importing": 1}),
    "global by a pattern": ("global N\n  match l:\n    case N: pass", {"before_store": 1, "matched": 1}),
    "global by a mapping": ("global N\n  match d:\n    case {**N}: pass", {"before_store": 1, "matched": 1, "made": 1}),
    "a comprehension's own name": ("[G for G in (1,)]; G", {"made": 1, "load_global": 1}),
    "nonlocal set": ("nonlocal a; a = 1", {"before_store": 1}),
    "nonlocal in a comprehension": ("nonlocal a; [a := i for i in (1,)]", {"before_store": 1, "made": 1}),
    "nonlocal in place": ("nonlocal a; a += 1", {"before_store": 1, "load_free": 1, "inplace": 1}),
    "loop": ("for i in L: pass", {"iterated": 1, "load_global": 1}),
    "loop of pairs": ("for i, (j, k) in P: pass", {"iterated": 3, "load_global": 1}),
    "if": ("if l: pass", {"truth": 1}),
    "if and": ("if l and not l: pass", {"truth": 2}),
    "if chain": ("if 0 < l < 2: pass", {"truth": 2, "compare": 2}),
    "while": ("while l: break", {"truth": 1}),
    "assert": ("assert l", {"truth": 1}),
    "with": ("with CM as x: pass", {"load_global": 1, "entering": 1, "entered": 1}),
    "with a place": ("with CM as d[0]: pass", {"load_global": 1, "entering": 1, "entered": 1, "writing_item": 1}),
    "with several": ("with CM, CM as (): pass", {"load_global": 2, "entering": 2, "entered": 1, "iterated": 1}),
    "except": ("try: G\n  except: pass", {"load_global": 1}),
    "caught": ("try: [][l]\n  except IndexError as e: pass", {"made": 1, "item": 1, "load_global": 1, "caught": 1}),
    "import": ("import os.path, math", {"importing": 2}),
    "import from": ("from math import pi, e", {"importing": 1}),
    "def": ("def f(x=G): return G", {"load_global": 1, "made": 1}),
    "decorated": ("@id\n  def f(): pass", {"load_global": 1, "made": 1, "call": 1}),
    "class": ("class C:\n    x = G\n    y = x\n    z = a", {"load_global": 1, "load_free": 1, "made": 1}),
    "match": ("match l:\n    case K.x: pass", {"matched": 1, "load_global": 1, "attribute": 1}),
    "match class": ("match l:\n    case int(): pass", {"matched": 1, "load_global": 1}),
    "gathered": ("pass", {"made": 2}),
}


def counted(body, more=""):
    """Return what is told by a function of this body."""
    module = written(
        f"told {body}",
        f"import contextlib\nG, L, D, P, K = 1, [1, 2], {{}}, [(1, (2, 3))], contextlib\nK.x, CM = 7, contextlib.nullcontext(())\n"
        f"def make():\n a = 3\n def f(l, o, d{more}):\n  {body}\n return f\n",
    )
    tracker = Tracker()
    f = twin(module.make())
    try:
        CURRENT.tracker = tracker
        f(1, types.SimpleNamespace(), {})
    finally:
        CURRENT.tracker = None
        del module.K.x
    assert not tracker.reasons
    return tracker.told


@pytest.mark.parametrize("case", TOLD)
def test_expressions_are_told(case):
    text, expected = TOLD[case]
    assert counted(f"{text}; return") == expected
    told = counted(f"return {text}")
    assert told.pop("returned") == 1
    assert told == expected


@pytest.mark.parametrize("case", DONE)
def test_statements_are_told(case):
    text, expected = DONE[case]
    assert counted(text, ", *args, **kwargs" if case == "gathered" else "") == collections.Counter(expected)


def test_yields_are_told():
    module = written("yields", "def f(x):\n    y = yield x\n    yield from [x]\n    return y\n")
    tracker = CURRENT.tracker = Tracker()
    try:
        assert list(twin(module.f)(1)) == [1, 1]
    finally:
        CURRENT.tracker = None
    assert tracker.told == {"returned": 2, "iterated": 1, "made": 1}


def test_errors_are_told_and_go_on():
    for text in ("1 / l", "-D", "L[9]", "l.missing", "l < ''", "len(l)", "d['k']"):
        module = written(f"failing {text}", f"D, L = {{}}, []\ndef f(l, d):\n    return {text}\n")
        tracker = CURRENT.tracker = Tracker()
        args = (1, {}) if text != "1 / l" else (0, {})
        try:
            with pytest.raises(Exception) as caught:
                twin(module.f)(*args)
        finally:
            CURRENT.tracker = None
        assert tracker.errors == [caught.value]
        with pytest.raises(type(caught.value), match=re.escape(str(caught.value))):
            module.f(*args)


def test_handled_errors_are_told():
    module = written(
        "handled",
        """
        def f(errors):
            for error in errors:
                try:
                    raise error
                except ValueError as e:
                    pass
                except KeyError:
                    pass
        """,
    )
    errors = [ValueError(1), KeyError(2), ValueError(3)]
    tracker = CURRENT.tracker = Tracker()
    try:
        twin(module.f)(errors)
    finally:
        CURRENT.tracker = None
    assert tracker.handled == [errors[0], None, errors[2]]


def test_functions_that_are_global_have_no_name_of_a_scope():
    module = written(
        "global function",
        """
        def make(n):
            global made
            def made():
                class C: pass
                return C.__qualname__, n
        """,
    )
    module.make(3)
    assert twin(module.made)() == module.made() == ("made.<locals>.C", 3)


def test_what_asks_for_frames_is_no_call_that_can_be_repeated():
    for text in ("locals()", "globals()", "vars()", "dir()", "eval('1')", "exec('1')", "compile('1', '', 'eval')"):
        module = written(f"frames {text}", f"def f(x):\n    return {text}\n")
        tracker = CURRENT.tracker = Tracker()
        try:
            got = twin(module.f)(1)
        finally:
            CURRENT.tracker = None
        assert tracker.reasons == [f"{text.partition('(')[0]}() is called"]
        assert got == module.f(1)


def test_trackers_of_threads():
    tracker = CURRENT.tracker = Tracker()
    try:
        found = []
        thread = threading.Thread(target=lambda: found.append((CURRENT.tracker, twin(syntax.arithmetic)())))
        thread.start()
        thread.join()
    finally:
        CURRENT.tracker = None
    assert found == [(None, syntax.arithmetic())]
    assert not tracker.told


def test_what_parses_may_be_instrumented_itself():
    """Instrumented code of the standard library, run to instrument more, tells nothing."""
    getlines = linecache.getlines
    plain = getlines.__code__
    module = written("own tools", "def f(): return 1\n")
    getlines.__code__ = instrumented(plain)
    tracker = CURRENT.tracker = Tracker()
    try:
        assert instrumented(module.f.__code__) is not None
        assert CURRENT.tracker is tracker
    finally:
        CURRENT.tracker = None
        getlines.__code__ = plain
    assert not tracker.told


def test_hooks_are_one_object():
    assert HOOKS in instrumented(syntax.calls.__code__).co_consts
