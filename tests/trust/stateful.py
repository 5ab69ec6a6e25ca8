"""Random functions with state as data: how one is drawn, written down, run in two worlds and compared.

A case is pieces, of which a function and what it reads and changes are made, and events: calls, and changes of one thing
between calls. It is written as the text of a module, into a file of its own, and run twice from there: as it is, and with
the function compiled (``check=False``: no call is compared within). After every call all is compared that a caller can see:
results with their types, identities and gradients, errors, what was printed and warned of, and the whole state. A compiled
function may run as it is, with its warning, as long as it does the same: how many functions replay is told beside.

A piece is a name of `NAMED`, or ``("held", ...)``: a value in containers that begin somewhere, read and used in some way,
of the tables in `stateful_grammar`. Cases are drawn from a seed. A failure is shrunk by leaving out pieces and events, as
long as it fails in the same way; it prints the text, and ``judge(Case(...))`` runs it again.
"""

from __future__ import annotations

import array
import contextlib
import copy
import functools
import importlib.util
import io
import linecache
import os
import random
import shutil
import sys
import tempfile
import textwrap
import threading
import time
import traceback
import types
import warnings
from collections import ChainMap, Counter, UserDict, deque
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from stateful_grammar import HEAD, HOLDERS, NAMED, PATHS, ROOT_HELP, ROOTS, VALUES, Piece

import agrad as ag
from agrad.compiled.compiling import CompileWarning


@ag.linear(name=f"{__name__}.reversal", x=lambda g: -g, kernel=lambda xp, x: x)
def reversal(x, /):
    """Give the operand itself; the gradient is turned."""


# -- the model --------------------------------------------------------------------------------------------------------

#: What the function may be: made of ``f`` as said here.
FORMS = {
    "function": "f",
    "method": "Runner(f).run",
    "object": "Runner(f)",
    "module": "RunnerModule(f)",
    "partial": "functools.partial(f)",
    "decorated": "functools.wraps(f)(lambda *args, **kwargs: f(*args, **kwargs))",
    "lambda": "lambda *args, **kwargs: f(*args, **kwargs)",
}
RUNNERS = """

class Runner:
    def __init__(self, f): self.f = f
    def run(self, *args, **kwargs): return self.f(*args, **kwargs)
    __call__ = run


class RunnerModule(ag.nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f
    def forward(self, *args, **kwargs): return self.f(*args, **kwargs)
"""
RETURNED = {
    "one": "{first}",
    "tuple": "({all},)",
    "list": "[{all}]",
    "dict": "{{'z': {first}, 'a': [{all}]}}",
    "object": "O(r={first}, more=({all},))",
}
#: What is differentiated after a call, and how.
BACKWARDS = ("none", "first", "each", "retained", "last first", "grad", "used", "late")
XS = ("fixed", "fresh", "fixed leaf", "fresh leaf", "computed")


@dataclass(frozen=True)
class Case:
    """Pieces and events; the argument's kind, what the function is and gives, and what follows a call."""

    pieces: tuple
    events: tuple
    x: str = "fixed"
    form: str = "function"
    returned: str = "one"
    backward: str = "none"
    clear: bool = False
    beside: bool = False  # its file's name begins like that of the package


# -- writing it down --------------------------------------------------------------------------------------------------


def numbered(text, number):
    return text.replace("{$}", f"{{{number}}}").replace("$", f"_{number}")


@functools.cache
def parts_of(piece):
    """Give the texts of a piece, its number left open."""
    if piece[0] != "held":
        return NAMED[piece[0]]
    _, root, holders, value, way, gets, use = piece
    values = VALUES[value]

    def made(level, which):
        if level == len(holders):
            return values["eno".index(which)]
        return HOLDERS[holders[level]][0].format(e=made(level + 1, which), o=made(level + 1, "o"))

    top, local, ways, sets = ROOTS[root]
    help_text = ROOT_HELP.get(root, "")
    lines, indent, here = [], "", ways[way % len(ways)]
    ends = [HOLDERS[h][2][g % len(HOLDERS[h][2])] for h, g in zip(holders, gets, strict=True)]
    if here.startswith("for "):
        here, ends = here[4:], ["for {h}", *ends]
    for level, get in enumerate(ends):
        if get.startswith("for "):
            lines.append(f"{indent}for h{level} in {get[4:].format(h=here)}:")
            here, indent = f"h{level}", indent + "    "
        else:
            here = get.format(h=here)
    uses = values[4]
    lines += [f"{indent}v = {here}", f"{indent}{uses[use % len(uses)]}"]
    path = PATHS.get(root, ways[0])
    changes = [one.format(n=made(0, "n")) for one in sets]
    changes += [one.format(n=made(0, "e")) for one in sets[:1]]
    for level, holder in enumerate(holders):
        changes += [put.format(h=path, n=made(level + 1, "n")) for put in HOLDERS[holder][3]]
        path = HOLDERS[holder][1].format(h=path)
    changes += [one.format(v=path) for one in values[3]]
    more = (
        {"argument": "k$"} if root.startswith("argument") else {"keywords": "{'k$': k$}"} if "keyword" in root else {}
    )
    return Piece(
        top="\n".join(filter(None, [top.format(e=made(0, "e")) if top else "", help_text])),
        local=local.format(e=made(0, "e")) if local else "",
        body="\n".join(lines),
        changes=tuple(changes),
        state=(PATHS.get(root, ways[0]),),
        **more,
    )


def text_of(case):
    """Give the text of the module."""
    pieces = [parts_of(piece) for piece in case.pieces]

    def each(key):
        return [(n, numbered(one[key], n)) for n, one in enumerate(pieces) if one[key]]

    tops = "\n".join(text for _, text in each("top"))
    arguments = each("argument")
    keywords = each("keywords")
    body, results = ["y = x * 1.5"], ["y"]
    for n, one in enumerate(pieces):
        if one["body"]:
            body.append(numbered(one["body"], n))
        for k, result in enumerate(one["results"]):
            body.append(f"r_{n}_{k} = {numbered(result, n)}")
            results.append(f"r_{n}_{k}")
    body.append("return " + RETURNED[case.returned].format(first=results[0], all=", ".join(results)))
    if case.returned == "one" and len(results) > 1:
        body[-1] = "return " + ", ".join(results)
    parameters = ["x", *(f"a_{n}" for n, _ in arguments), *(["**w"] if keywords else [])]
    local = [text for _, text in each("local")]
    local += [f"def f({', '.join(parameters)}):\n" + textwrap.indent("\n".join(body), "    ")]
    names = []
    for n, one in enumerate(pieces):
        for k in sorted({event[1] for event in case.events if isinstance(event, tuple) and event[0] == n}):
            change = one["changes"][k % len(one["changes"])]
            local.append(f"def change_{n}_{k}():\n" + textwrap.indent(numbered(change, n), "    "))
            names.append(f"({n}, {k}): change_{n}_{k}")
    local.append(
        f"def arguments(): return ({''.join(f'{text}, ' for _, text in arguments)}), {{{', '.join(f'**{t}' for _, t in keywords)}}}"
    )
    state = ", ".join(f"lambda: {numbered(text, n)}" for n, one in enumerate(pieces) for text in one["state"])
    after = "\n".join(text for _, text in each("after")) or "pass"
    local.append("def after():\n" + textwrap.indent(after, "    "))
    local.append(f"return {FORMS[case.form]}, arguments, {{{', '.join(names)}}}, [{state}], after")
    build = "def build():\n" + textwrap.indent("\n".join(local), "    ")
    return f"{HEAD}\n{RUNNERS}\n{tops}\n\n\n{build}\n"


@contextlib.contextmanager
def module_of(case, text):
    """Import the text from a file of its own, and forget it afterwards."""
    before = set(sys.modules)
    folder = Path(tempfile.mkdtemp(prefix="stateful"))
    if case.beside:
        path = Path(f"{Path(ag.__file__).parent}_experiments") / folder.name / "world.py"
        linecache.cache[str(path)] = len(text), None, text.splitlines(keepends=True), str(path)
    else:
        path = folder / "world.py"
        path.write_text(text, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"world_{folder.name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        exec(compile(text, str(path), "exec", dont_inherit=True), vars(module))
        yield module
    finally:
        for name in set(sys.modules) - before:
            if name == spec.name or name.startswith("settings_"):
                del sys.modules[name]
        linecache.cache.pop(str(path), None)
        shutil.rmtree(folder, ignore_errors=True)


# -- what can be seen ---------------------------------------------------------------------------------------------------

ATOMS = (type(None), bool, int, float, complex, str, bytes, np.generic)
#: What cannot change and has no identity to speak of.
REPEATED = {range, slice}


class Seen:
    """Flatten what a caller can see into paths and atoms; what is met again is told by its number."""

    def __init__(self, world):
        self.world, self.met, self.kept, self.found, self.leaves = world, {}, [], [], []

    def put(self, path, *atom):
        self.found.append((path, atom))

    def see(self, path, value):
        """Take a value in."""
        kind = type(value)
        if kind in REPEATED or kind.__module__ in {"datetime", "fractions"}:
            self.put(path, kind.__name__, repr(value))
            return
        if issubclass(kind, ATOMS):
            self.put(
                path, kind.__name__, np.asarray(value) if issubclass(kind, float | complex | np.generic) else value
            )
            return
        if kind is not tuple:  # of which nobody asks whether it is the very one
            if id(value) in self.met:
                self.put(path, "again", self.met[id(value)])
                return
            self.met[id(value)] = len(self.met)
        self.kept.append(value)
        if issubclass(kind, ag.Tensor):
            self.tensor(path, value)
        elif issubclass(kind, np.ndarray):
            self.put(path, kind.__name__, value.dtype.str, value.shape)
            if value.dtype == object:
                self.entries(path, enumerate(value.ravel().tolist()))
            else:
                self.put(path, np.array(value))
        elif issubclass(kind, dict | UserDict | ChainMap | types.MappingProxyType):
            self.put(path, kind.__name__, tuple(map(str, value)) if not any(self.own(k) for k in value) else len(value))
            for number, (key, one) in enumerate(value.items()):
                if self.own(key):
                    self.see(f"{path}.key{number}", key)
                self.see(f"{path}[{key if isinstance(key, str) else number!r}]", one)
            self.attributes(path, value)
        elif issubclass(kind, list | tuple | deque):
            self.put(path, kind.__name__, len(value))
            self.entries(path, enumerate(value))
            self.attributes(path, value)
        elif issubclass(kind, set | frozenset):
            self.put(path, kind.__name__, len(value))
            self.entries(path, enumerate(sorted(value, key=repr) if not any(map(self.own, value)) else value))
        elif issubclass(kind, ag.nn.Module):
            self.put(path, kind.__name__, value.training)
            self.entries(path, ((k, v) for k, v in vars(value).items() if k[0] != "_"))
        elif issubclass(kind, type):
            self.put(path, "class", value.__name__)
            if self.own(value, of=value):
                self.entries(
                    path, sorted((k, v) for k, v in vars(value).items() if k[0] != "_" and isinstance(v, ATOMS))
                )
        elif issubclass(kind, types.FunctionType):
            self.put(path, "function", value.__name__)
            self.see(f"{path}.__defaults__", value.__defaults__)
            self.attributes(path, value)
        elif self.own(value):
            self.put(path, "object", kind.__name__)
            self.attributes(path, value)
            for cls in kind.__mro__:
                for slot in vars(cls).get("__slots__", ()):
                    name = f"_{cls.__name__}{slot}" if slot.startswith("__") else slot
                    if slot != "__weakref__":
                        self.see(f"{path}.{name}", object.__getattribute__(value, name))
        else:
            self.put(path, kind.__name__, repr(value) if kind in {bytearray, array.array} else "")

    def own(self, value, of=None):
        return (of or type(value)).__module__ == self.world.__name__ and not issubclass(type(value), self.world.Kind)

    def entries(self, path, pairs):
        for key, one in pairs:
            self.see(f"{path}[{key!r}]", one)

    def attributes(self, path, value):
        try:
            names = object.__getattribute__(value, "__dict__")
        except AttributeError:
            return
        if (names and self.own(value)) or type(value) is types.FunctionType:
            self.put(path, *(name for name in names if name != "__wrapped__"))
            for name, one in names.items():
                if name != "__wrapped__":
                    self.see(f"{path}.{name}", one)

    def tensor(self, path, value):
        self.put(path, type(value).__name__, str(value.dtype), tuple(value.shape))
        self.put(f"{path}.requires_grad", value.requires_grad, value.is_leaf, value.grad_fn is None)
        self.put(f"{path}.values", np.array(value.detach().numpy()))
        if value.is_leaf:
            self.see(f"{path}.grad", value.grad)
            if value.requires_grad:
                self.leaves.append(value)


def alike(a, b):
    """Tell whether two atoms are the same, numbers to rounding."""
    if len(a) != len(b):
        return False
    for one, other in zip(a, b, strict=True):
        if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
            if one.shape != other.shape or one.dtype != other.dtype:
                return False
            if one.dtype.kind in "fc":
                rtol = 1e-3 if one.dtype.itemsize // (1 + (one.dtype.kind == "c")) < 8 else 1e-8
                if not np.allclose(one, other, rtol=rtol, atol=rtol * 1e-2, equal_nan=True):
                    return False
            elif not (one == other).all():
                return False
        elif isinstance(one, np.ndarray) or isinstance(other, np.ndarray) or one != other:
            return False
    return True


# -- running ------------------------------------------------------------------------------------------------------------


#: How functions are compiled.
OPTIONS = {}

#: As machine code, with the bits of the operations.
NATIVE = {"executor": "native", "exact": True}


class World:
    """A module of a case, its function compiled or as it is, and what has been done there."""

    def __init__(self, case, module, *, compiled):
        self.case, self.module, self.compiled = case, module, compiled
        self.count, self.declined, self.replayed, self.previous, self.results = 0, [], [], [], deque(maxlen=3)
        self.errors, self.is_refused = [], False
        ag.manual_seed(0)
        function, self.arguments, self.changes, self.state, self.after = module.build()
        self.call = ag.compile(function, check=False, **OPTIONS) if compiled else function
        self.fixed = ag.asarray([0.5, -1.25]).requires_grad_("leaf" in case.x)

    def x(self):
        """Give the argument."""
        if self.case.x.startswith("fixed"):
            return self.fixed
        made = ag.asarray([0.5, -1.25 + 0.5 * (self.count % 7)])
        if self.case.x == "computed":
            return made.requires_grad_() * 1.0
        return made.requires_grad_("leaf" in self.case.x)

    def run(self, event):
        """Do what an event says; give what can be seen then."""
        if isinstance(event, tuple):
            with contextlib.suppress(Exception):  # a change may not fit any more what others have left: in both worlds
                self.changes[event]()
            return []
        if event == "copy":
            try:
                self.call = copy.deepcopy(self.call) if self.case.form == "function" else self.call
            except Exception as error:  # noqa: BLE001 (compared)
                self.errors.append(error)
                return [("copy", (type(error).__name__,))]
            return [("copy", ("done",))]
        printed = io.StringIO()
        outcome = {}
        with warnings.catch_warnings(record=True) as said, contextlib.redirect_stdout(printed):
            warnings.simplefilter("always")
            if event == "thread":
                thread = threading.Thread(target=self.once, args=(event, outcome))
                thread.start()
                thread.join()
            else:
                self.once(event, outcome)
        self.declined += [str(one.message) for one in said if issubclass(one.category, CompileWarning)]
        heard = [(one.category.__name__, str(one.message)) for one in said if self.is_theirs(one.category)]
        seen = Seen(self.module)
        self.errors.append(outcome.pop("error", None))
        for name, value in outcome.items():
            seen.see(name, value)
        seen.put("printed", printed.getvalue())
        seen.put("warned", *heard)
        self.outside(seen)
        seen.see("earlier", list(self.results))
        if "result" in outcome:
            self.results.append(outcome["result"])
        return seen.found

    def is_theirs(self, category):
        """Tell whether a warning may be the function's own, not the library's, which says once what may be said once."""
        return category.__module__.partition(".")[0] != "agrad" and not issubclass(category, RuntimeWarning)

    def outside(self, seen):
        seen.see("fixed", self.fixed)
        for number, read in enumerate(self.state):
            try:
                value = read()
            except Exception as error:  # noqa: BLE001 (deleted, or not there in this thread)
                value = type(error).__name__
            seen.see(f"state {number}", value)

    def once(self, event, outcome):
        """Call the function, differentiate what it gives, and do what follows."""
        self.count += 1
        if self.case.clear:
            seen = Seen(self.module)
            self.outside(seen)
            for leaf in seen.leaves:
                leaf.grad = None
        x = self.x()
        try:
            args, kwargs = self.arguments()
            result = self.probed(x, args, kwargs) if event == "probe" else self.call(x, *args, **kwargs)
            outcome["result"] = result
        except Exception as error:  # noqa: BLE001 (whatever it raises is compared)
            outcome["raised"], outcome["error"] = type(error).__name__, error
            # arrays among the arguments are tensors: of other dtypes they are refused before the function runs
            self.is_refused |= self.compiled and "can't convert an array of dtype" in str(error)
            result = None
        outcome["modes"] = ag.is_grad_enabled(), str(ag.get_default_dtype())
        ag.autograd.set_grad_enabled(True)
        ag.set_default_dtype(ag.float64)
        outcome["x"] = x
        seen = Seen(self.module)
        seen.see("result", result)
        roots = [t for t in seen.kept if isinstance(t, ag.Tensor) and t.requires_grad]
        self.outside(seen)
        outcome.update(self.backward(roots, [*seen.leaves, *([x] if x.requires_grad else [])]))
        try:
            self.after()
        except Exception as error:  # noqa: BLE001 (as above)
            outcome["after"] = type(error).__name__

    def backward(self, roots, leaves):
        """Differentiate; give what came of each root."""
        how, found = self.case.backward, {}
        if how == "none":
            return found
        if how == "late":
            roots, self.previous = self.previous, roots
        if how == "last first":
            roots = roots[::-1]
        for number, root in enumerate(roots[: 1 if how == "first" else None]):
            try:
                if how in {"grad", "used"}:
                    made = ag.autograd.grad(root.sum(), leaves, allow_unused=how == "grad", retain_graph=True)
                else:
                    made = root.sum().backward(retain_graph=how in {"retained", "last first"})
            except Exception as error:  # noqa: BLE001 (as above)
                made = type(error).__name__
                self.errors.append(error)
            found[f"backward {number}"] = made
        return found

    def probed(self, x, args, kwargs):
        """Call the function, and note whether any of its Python code runs."""
        ran, before = [], sys.getprofile()

        def note(frame, event, argument):
            if (
                event == "call"
                and frame.f_code.co_name == "f"
                and frame.f_code.co_filename == self.module.build.__code__.co_filename
            ):
                ran.append(1)

        sys.setprofile(note)
        try:
            return self.call(x, *args, **kwargs)
        finally:
            sys.setprofile(before)
            self.replayed.append(not ran)


def seen_in(case, *, compiled):
    """Run a case; give the world, and what was seen after each event."""
    text = text_of(case)
    environment = dict(os.environ)
    with module_of(case, text) as module:
        try:
            world = World(case, module, compiled=compiled)
            seen = []
            for event in case.events:
                found = world.run(event)
                if world.is_refused:  # the worlds differ from here on
                    break
                seen.append(found)
            return world, seen
        finally:
            ag.autograd.set_grad_enabled(True)
            ag.set_default_dtype(ag.float64)
            os.environ.clear()
            os.environ.update(environment)


@dataclass(frozen=True)
class Difference:
    """Where two worlds differ first: in which event and what; ``kind`` is silent, loud (an error) or warned."""

    kind: str
    at: int
    where: str
    compiled: object
    eager: object
    error: str = ""

    @property
    def way(self):
        """Tell differences apart, as shrinking does."""
        return self.kind, self.where.split(" ")[0].split(".")[0].split("[")[0]

    def __str__(self):
        return f"{self.kind}: event {self.at}: {self.where}: compiled {self.compiled}, eager {self.eager}{self.error}"


def difference_of(case, tally=None):
    """Run a case in both worlds; give the first difference, or None."""
    tally = Counter() if tally is None else tally
    tally["functions"] += 1
    _, wanted = seen_in(case, compiled=False)
    world, got = seen_in(case, compiled=True)
    tally["probed calls"] += len(world.replayed)
    tally["probed calls that replayed"] += sum(world.replayed)
    tally["functions that replayed"] += any(world.replayed)
    tally["functions that ran as they are"] += bool(world.declined)
    for at, (seen, other) in enumerate(zip(wanted, got, strict=not world.is_refused)):
        for (path, atom), (path_c, atom_c) in zip([*seen, ("end", ())], [*other, ("end", ())], strict=False):
            if path != path_c or not alike(atom, atom_c):
                broken = path_c == "raised" or (path_c[:4] in {"back", "copy"} and isinstance(atom_c[-1], str))
                error = (
                    next((f"\n  {type(e).__name__}: {e}" for e in world.errors[::-1] if e is not None), "")
                    if broken
                    else ""
                )
                kind = "loud" if broken else "warned" if world.declined else "silent"
                return Difference(
                    kind, at, path_c if broken or path == path_c else f"{path} (or {path_c})", atom_c, atom, error
                )
    if world.declined and case.returned != "object" and all(parts_of(piece)["must"] for piece in case.pieces):
        return Difference("declined", len(case.events) - 1, "runs as it is", world.declined[0], "a program")
    return None


def judge(case, tally=None):
    """Run a case in both worlds; raise AssertionError where they differ."""
    difference = difference_of(case, tally)
    if difference is not None:
        raise AssertionError(f"{difference}\njudge({case!r})\n{described(case)}")


def described(case):
    """Give the text of a case without its head, and its events."""
    return f"{text_of(case).partition(RUNNERS)[2].strip()}\n# events: {case.events}\n"


# -- drawing ----------------------------------------------------------------------------------------------------------

#: Holders that keep what they hold aside, one for each piece: they stand outermost.
ASIDE = {name for name, (make, *_) in HOLDERS.items() if "hidden(" in make} | {"__getattribute__"}


def held(rng):
    """Draw a value that is held somewhere and read."""
    depth = rng.choice([0, 1, 1, 1, 1, 2])
    holders = tuple(rng.choice([name for name in HOLDERS if not level or name not in ASIDE]) for level in range(depth))
    gets = tuple(rng.randrange(60) for _ in holders)
    return (
        "held",
        rng.choice(list(ROOTS)),
        holders,
        rng.choice(list(VALUES)),
        rng.randrange(60),
        gets,
        rng.randrange(240),
    )


def piece_of(rng, names):
    """Draw a piece."""
    kind = rng.choice(["held"] * 5 + ["effect"] + ["argument"] * 2 + ["number"] * 2 + ["tensor"] * 3)
    suited = [name for name in names if name.startswith(kind)]
    return held(rng) if kind == "held" or not suited else (rng.choice(suited),)


def drawn(seed, names=tuple(NAMED), longest=6):
    """Draw a case."""
    rng = random.Random(seed)
    count = min(longest, rng.choice([1, 2, 2, 2, 3, 3, 4, 5, 6]))
    pieces = []
    while len(pieces) < count:
        piece = piece_of(rng, names)
        if piece not in pieces:
            pieces.append(piece)
    events = ["call"] * rng.randint(2, 4) + ["probe"]
    changing = [n for n, piece in enumerate(pieces) if parts_of(piece)["changes"]]
    for _ in range(rng.randint(1, 4) if changing else 0):
        n = rng.choice(changing)
        events += [(n, rng.randrange(len(parts_of(pieces[n])["changes"])))]
        events += ["call"] * rng.randint(1, 3)
    if rng.random() < 0.1:
        events.insert(rng.randint(3, len(events)), "thread")
    if rng.random() < 0.03:
        events.insert(rng.randint(1, len(events)), "copy")
    events.append("probe")
    return Case(
        tuple(pieces),
        tuple(events),
        x=rng.choice(XS),
        form=rng.choice(["function"] * 4 + list(FORMS)),
        returned=rng.choice(["one"] * 4 + list(RETURNED)),
        backward=rng.choice(["none", *BACKWARDS]),
        clear=rng.random() < 0.4,
        beside=rng.random() < 0.05,
    )


# -- shrinking --------------------------------------------------------------------------------------------------------


def without(case, n):
    """Give a case without a piece."""
    events = [
        (event[0] - (event[0] > n), event[1]) if isinstance(event, tuple) else event
        for event in case.events
        if not (isinstance(event, tuple) and event[0] == n)
    ]
    return replace(case, pieces=case.pieces[:n] + case.pieces[n + 1 :], events=tuple(events))


def smaller(case):
    """Give the next smaller cases."""
    for n in range(len(case.pieces)):
        if len(case.pieces) > 1:
            yield without(case, n)
    for field in ("form", "returned", "backward", "x", "clear", "beside"):
        plain = Case.__dataclass_fields__[field].default
        if getattr(case, field) != plain:
            yield replace(case, **{field: plain})
    if "probe" in case.events:
        yield replace(case, events=tuple("call" if event == "probe" else event for event in case.events))
    for k in reversed(range(len(case.events))):
        yield replace(case, events=case.events[:k] + case.events[k + 1 :])
    for n, piece in enumerate(case.pieces):
        if piece[0] == "held":
            yield from simpler(case, n)


def simpler(case, n):
    """Give cases whose held value is read or used in the first way."""
    _, root, holders, value, way, gets, use = case.pieces[n]
    for other in ((way and 0, gets, use), (way, tuple(g and 0 for g in gets), use), (way, gets, use and 0)):
        if other != (way, gets, use):
            piece = ("held", root, holders, value, *other)
            yield replace(case, pieces=(*case.pieces[:n], piece, *case.pieces[n + 1 :]))


def shrunk(case, seconds=20.0):
    """Give a smaller case that fails in the same way."""

    def way_of(candidate):
        difference = difference_of(candidate)
        return None if difference is None else difference.way

    difference, end = difference_of(case), time.monotonic() + seconds
    if difference is None:  # only the first time in a process
        return case
    way, short = difference.way, replace(case, events=case.events[: difference.at + 1])
    case = short if way_of(short) == way else case
    found = case
    while found is not None:
        case = found
        found = next((c for c in smaller(case) if time.monotonic() > end or way_of(c) == way), None)
        if time.monotonic() > end:
            break
    return case


def signature(case, difference):
    """Tell failures apart: by their way, their pieces, and what changed."""
    pieces = []
    for n, piece in enumerate(case.pieces):
        parts = parts_of(piece)
        changes = [
            parts["changes"][e[1] % len(parts["changes"])] for e in case.events if isinstance(e, tuple) and e[0] == n
        ]
        name = " > ".join([piece[1], *piece[2], piece[3]]) if piece[0] == "held" else piece[0]
        pieces.append(f"{name}{' {' + ' | '.join(changes) + '}' if changes else ''}")
    return (*difference.way, *sorted(pieces), *(["its file beside the package"] if case.beside else []))


def soak(seed, minutes, names=tuple(NAMED)):
    """Draw and judge cases for as long as asked; print failures, each kind once; give how many there are."""
    tally, kinds, first = Counter(), {}, seed
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        case = drawn(seed, names)
        try:
            if difference_of(case, tally) is not None:
                small = shrunk(case)
                difference = difference_of(small)
                kind = " / ".join(signature(small, difference)) if difference else "not again"
                kinds.setdefault(kind, []).append(seed)
                if len(kinds[kind]) == 1:
                    said = f"{difference}\njudge({small!r})\n{described(small)}" if difference else repr(case)
                    print(f"\nFAILED (seed {seed}): {kind}\n{said}", flush=True)
        except Exception:  # noqa: BLE001 (a fault of the fuzzer's own: told like one)
            kinds.setdefault("could not be run", []).append(seed)
            print(f"\nCOULD NOT RUN (seed {seed}): {case!r}\n{traceback.format_exc(limit=-3)}", flush=True)
        seed += 1
    share = tally["probed calls that replayed"] / max(1, tally["probed calls"])
    print(f"\nseeds {first} to {seed - 1}; of the probed calls {share:.0%} replayed")
    for name in sorted(tally):
        print(f"  {name}: {tally[name]}")
    print(f"kinds of failures: {len(kinds)}, with their seeds")
    for kind in sorted(kinds):
        print(f"  {kind}: {kinds[kind][:8]}")
    return len(kinds)
