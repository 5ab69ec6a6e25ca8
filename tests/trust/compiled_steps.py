"""Run tests with the functions that they define compiled: ``pytest --compiled-steps tests/nn tests/optim``.

The text of a test module is changed as it is imported: what is defined within a test, lambdas too, and functions of the
module that are no tests and no fixtures, is compiled as by ``@ag.compile``. A call whose program only computes is repeated,
so that it is replayed: the replay must give what the call gave, and is what the test goes on with and judges. What writes
or draws is not repeated; there the calls replay that the test makes itself.

Modules that compile and capture themselves are left as they are: they count programs. At the end `report` says how many
functions were compiled, how many calls replayed, and why the others ran as they are.
"""

from __future__ import annotations

import ast
import importlib.util
import re
import sys
import threading
import types
import weakref
from collections import Counter
from importlib.machinery import SourceFileLoader
from pathlib import Path

from stateful import Seen, alike

import agrad as ag
from agrad import tree
from agrad.compiled.compiling import CompiledFunction
from agrad.core import mode

TALLY = Counter()
#: The calls whose code ran, and those of functions that run as they are, by the reason.
RAN, REASONS = Counter(), Counter()
#: What the changed text calls.
NAME, CALLEE = "__compiled_step__", "__compiled_callee__"
#: Tests, and functions beside them, that are left as they are, with what they look at: what no replay has, and compiling is free to change.
LEFT = {
    "test_a_fused_op_and_hooks_on_the_way": "how many operands a node has",
    "test_a_gradient_follows_its_own_argument": "what a number alone gives: compile itself gives arrays for it",
    "test_a_step_that_fails_leaves_value_and_state_of_a_parameter_together": "faults in kernels, which replays do not call",
    "test_an_array_is_refused": "an array that is given: compile itself makes a tensor of it",
    "test_calling_nodes_of_several_results_and_of_leaves": "nodes, by calling them",
    "test_every_pattern_of_needs": "the edges of a node",
    "test_layers_do_not_warn_and_are_one_node_each": "nodes of a graph, by name",
    "test_looking_at_saved_values": "what a node has saved, by name",
    "test_next_functions_of_lists_and_of_several_results": "the edges of nodes",
    "test_node_names_are_pytorchs": "nodes of a graph, by name",
    "test_on_dask_value_and_gradient_are_computed_in_one_pass": "how often Dask computes: a capture that fails does so anew",
    "test_sequential_is_a_list_of_modules": "the class of a function",
    "test_the_users_line_is_kept": "the line and the node of a call",
    "types": "the class of an array that is given: compile itself makes a tensor of it",
}
ANY = types.SimpleNamespace(__name__=None, Kind=())


def seen(args, result):
    """Give what can be seen of a call."""
    found = Seen(ANY)
    found.see("arguments", args)
    found.see("result", result)
    return found.found


def runs(code, call, args, kwargs):
    """Call, and tell whether the code runs."""
    ran, before = [], sys.getprofile()
    mine = code.co_filename, code.co_firstlineno, code.co_name

    def note(frame, event, argument):
        if event == "call" and (frame.f_code.co_filename, frame.f_code.co_firstlineno, frame.f_code.co_name) == mine:
            ran.append(1)

    if before is not None:
        return call(*args, **kwargs), True
    sys.setprofile(note)
    try:
        return call(*args, **kwargs), bool(ran)
    finally:
        sys.setprofile(None)


class Step(CompiledFunction):
    """A function that is compiled when it is first called with tensors; a call that only computes is repeated."""

    def __init__(self, function, code=None, *, needs_tensors=False):
        super().__init__(function, False, False, exact=False, threads=None)
        self.code, self.needs_tensors, self.is_new = code or function.__code__, needs_tensors, True
        self.is_refused, self.reason = False, ""

    def __call__(self, *args, **kwargs):
        """Call it: within another one as it is, and there no more than this runs here."""
        return self.function(*args, **kwargs) if mode.recorder() is not None else self.outside(args, kwargs)

    def outside(self, args, kwargs):
        """Call the compiled function, twice where that changes nothing but what runs."""
        try:
            leaves = tree.flatten((args, kwargs))[0]
        except RecursionError:  # a container holds itself
            leaves = []
        tensors = [leaf for leaf in leaves if isinstance(leaf, ag.Tensor)]
        elsewhere = threading.current_thread() is not threading.main_thread()  # captures wait for one another
        without = not tensors and (leaves or self.needs_tensors)
        if elsewhere or without or not all(map(is_at_hand, tensors)):
            return self.function(*args, **kwargs)
        TALLY["functions called"] += self.is_new
        self.is_new = False
        known = list(self.programs)
        result = self.counted(args, kwargs)
        made = [program for program in self.programs if all(program is not one for one in known)]
        if len(made) == 1:
            TALLY["functions with a program"] += not known
            is_whole = all(is_at_hand(leaf) for leaf in tree.flatten(result)[0] if isinstance(leaf, ag.Tensor))
            if is_whole and not made[0].writes and not made[0].keys:
                before = seen(args, result)
                result = self.counted(args, kwargs)
                TALLY["calls repeated"] += 1
                after = seen(args, result)
                for (path, atom), (other, new) in zip([*before, ("end", ())], [*after, ("end", ())], strict=False):
                    same = path == other and alike(atom, new)
                    assert same, f"{path}: the call gave {atom}, its replay {new} (at {other})"
        return result

    def counted(self, args, kwargs):
        """Call the compiled function, and count whether its code runs, and why."""
        self.why = "a capture failed with an error of the function's own"
        result, ran = runs(self.code, super().__call__, args, kwargs)
        TALLY["calls"] += 1
        TALLY["calls that replayed"] += not ran
        if ran:
            RAN[self.why] += 1
        return result

    def _recorded(self, args, kwargs, leaves, treedef):
        """Capture a call, and note whether that gave a program."""
        returned, kept, tracer = super()._recorded(args, kwargs, leaves, treedef)
        self.why = "captured"
        if kept is None:
            self.why = "as it is"
            self.reason = reason_of(str(tracer.failure))
            TALLY["functions that run as they are"] += not self.is_refused
            self.is_refused = True
            REASONS[self.reason] += 1
        return returned, kept, tracer

    def _eager(self, args, kwargs, leaves):
        """Call the function, and note that it was decided before."""
        self.why = (
            "as it is, as before" if self.is_refused else "as it is, within a transform or a mode that no program has"
        )
        if self.is_refused:
            REASONS[self.reason] += 1
        return super()._eager(args, kwargs, leaves)


def is_at_hand(tensor):
    """Tell whether a tensor can be looked at without computing it."""
    return str(tensor.device) == "numpy"


def reason_of(message):
    """Give why a function runs as it is, without the names that it calls the function's own things by."""
    line = message.removeprefix("capture: ").partition("\n")[0].partition(": ")[0]
    return re.sub(r"shape \([\d, ]*\)", "shape (...)", line)


def compiled_step(function):
    """Return a function in place of one that a test defines."""
    TALLY["functions defined"] += 1
    return Step(function)


#: Modules, functions of the library, and optimisers (by the name of the method) with their compiled forms.
CALLED = weakref.WeakKeyDictionary()
#: Where functions stand that compute and do nothing else.
COMPUTE = (
    "agrad.ops",
    "agrad.nn.functional",
    "agrad.func.",
    "agrad.linalg",
    "agrad.special",
    "agrad.fft",
    "agrad.mine",
)


def compiled_callee(function):
    """Return what is called in place of a module, a function of the library or a step of an optimiser; else itself."""
    if isinstance(function, ag.nn.Module):
        code = getattr(type(function).forward, "__code__", None)
        return once(function, "", lambda: Step(function, code)) if code else function
    if isinstance(function, types.MethodType) and isinstance(function.__self__, ag.optim.Optimizer):
        if function.__name__ in {"step", "zero_grad"} and not isinstance(function.__self__, ag.optim.LBFGS):
            return once(function.__self__, function.__name__, lambda: Step(function, function.__func__.__code__))
    elif isinstance(function, types.FunctionType) and (function.__module__ or "").startswith(COMPUTE):
        return once(function, "", lambda: Step(function, needs_tensors=True))
    return function


def once(owner, name, make):
    """Return what belongs to an object and a name, made at the first time."""
    try:
        steps = CALLED.setdefault(owner, {})
    except TypeError:  # it cannot be hashed, or not be referred to weakly
        return make()
    if name not in steps:
        steps[name] = make()
    return steps[name]


class Steps(ast.NodeTransformer):
    """Wrap what stands in tests: the functions that they define, and what they call. Within those nothing is changed."""

    def __init__(self):
        self.within = False

    def visit_FunctionDef(self, node):
        if node.name in LEFT:
            return node
        if self.within or not node.name.startswith("test_"):
            if not node.decorator_list and not makes_generator(node):
                node.decorator_list = [ast.copy_location(ast.Name(NAME, ast.Load()), node)]
            return node
        self.within = True
        node.body = [self.visit(one) for one in node.body]
        self.within = False
        return node

    def visit_ClassDef(self, node):
        if not self.within:
            for item in node.body:
                if isinstance(item, ast.FunctionDef) and item.name.startswith("test_"):
                    self.visit(item)
        return node

    def visit_Lambda(self, node):
        return self.called(NAME, node) if self.within and not makes_generator(node) else node

    def visit_Call(self, node):
        self.generic_visit(node)
        if self.within and isinstance(node.func, ast.Name | ast.Attribute):
            node.func = self.called(CALLEE, node.func)
        return node

    def called(self, name, node):
        return ast.copy_location(ast.Call(ast.copy_location(ast.Name(name, ast.Load()), node), [node], []), node)


def makes_generator(node):
    """Tell whether a function is a generator."""
    inner = list(node.body) if isinstance(node.body, list) else [node.body]
    while inner:
        one = inner.pop()
        if isinstance(one, ast.Yield | ast.YieldFrom):
            return True
        if not isinstance(one, ast.FunctionDef | ast.Lambda | ast.ClassDef):
            inner += ast.iter_child_nodes(one)
    return False


class Loader(SourceFileLoader):
    """Compile a file with its functions wrapped; never read or write bytecode."""

    def get_code(self, fullname):
        path = self.get_filename(fullname)
        tree_of_file = Steps().visit(ast.parse(self.get_data(path), path))
        return compile(ast.fix_missing_locations(tree_of_file), path, "exec", dont_inherit=True)

    def exec_module(self, module):
        vars(module).update({NAME: compiled_step, CALLEE: compiled_callee})
        super().exec_module(module)


class Finder:
    """Find the test modules of some folders."""

    def __init__(self, folders):
        self.folders = folders

    def find_spec(self, name, path=None, target=None):
        for place in path or ():
            file = Path(place, f"{name.rpartition('.')[2]}.py")
            if file.name.startswith("test_") and file.parent in self.folders and file.is_file():
                if re.search(r"\b(compile|capture)\(", file.read_text(encoding="utf-8")):
                    return None
                return importlib.util.spec_from_file_location(name, file, loader=Loader(name, str(file)))
        return None


def install(tests):
    """Have the modules of the folders that define steps changed as they are imported."""
    folders = {tests / name for name in ("autograd", "compiled", "func", "nn", "optim", "program")}
    sys.meta_path.insert(0, Finder(folders))


def collected():
    """Let Python import by itself again: a function that imports would be seen to run the finder."""
    sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, Finder)]


def report():
    """Give what was compiled, and why calls were not replayed, in lines."""
    yield f"compiled steps: {', '.join(f'{TALLY[name]} {name}' for name in TALLY)}"
    for title, counter in (("calls whose code ran", RAN), ("calls as it is, by reason", REASONS)):
        yield f"{title}:"
        yield from (f"{count:>8}  {name}" for name, count in counter.most_common())
