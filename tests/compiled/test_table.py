"""Each row of `agrad.compiled.effects` is tried: what is read, written, given and called.

Samples are texts of arguments, evaluated anew for each call. Every function is tried with the common ones, or with its own;
it is checked with those it takes, and there has to be one.
"""

import collections
import contextlib
import functools
import heapq
import importlib
import itertools
import math
import operator
import os
import random
import re
import sys
import time
import types
import warnings

import numpy as np
import pytest

import agrad as ag
from agrad.compiled import effects
from agrad.compiled.effects import ArgumentEffects, effects_of, method_effects, side_effect_of
from agrad.core.cpython import uncollected

#: Rows are there for modules that have been imported.
for module in ("bisect", "cmath", "numpy.fft", "numpy.linalg"):
    importlib.import_module(module)

#: What has nothing that can change, and whose identity nobody asks for.
PLAIN = (
    *(type(None), bool, int, float, complex, str, bytes, range, type, types.FunctionType, types.BuiltinFunctionType),
    *(
        types.ModuleType,
        types.EllipsisType,
        types.NotImplementedType,
        np.generic,
        np.dtype,
        np.ufunc,
        re.Pattern,
        re.Match,
    ),
)

# -- samples ----------------------------------------------------------------------------------------------------------


class Box:
    """An object that holds something, and answers for nothing itself."""

    def __init__(self, x=1):
        self.x = x


def boxes():
    return [Box(), Box()]


def lists():
    return [[1], [2]]


def named_boxes():
    return {"a": Box(), "b": Box()}


def matrix():
    return np.array([[2.0, 1.0], [1.0, 3.0]])


def vector():
    return np.array([3.0, 1.0])


def whole():
    return np.array([3, 1, 2])


def generator():
    for each in ([1], [2], [3]):
        try:
            yield each
        except ValueError:
            continue


def started():
    begun = generator()
    next(begun)
    return begun


def same(*args, **kwargs):
    return args[0] if args else Box()


NAMES = {name: value for name, value in globals().items() if isinstance(value, types.ModuleType | types.FunctionType)}
NAMES["Box"] = Box


def split(text):
    return [each.strip() for each in text.replace("\n", "|").split("|") if each.strip() or "||" in text]


#: Arguments of functions.
ARGUMENTS = split("""
    lists() | boxes() | matrix() | vector() | 2.5 | 7 | 'ab' | [3, 1, 2] | named_boxes() | b'ab' | iter(lists())
    lists(), lists() | matrix(), matrix() | vector(), vector() | whole(), [0, 2] | matrix(), 1 | [3, 1, 2], 1 | boxes(), 1
    Box(), Box() | lists(), [3, 1] | 7, 3 | 2.5, 1.5 | 0.5 | same, lists() | same, [3, 1, 2] | [matrix(), matrix()]
    whole(), np.array([1, 2, 0]) | (1, 2), vector() | vector(), lists() | vector(), [1, 2], lists()
""")

#: Arguments of methods, beside `self`.
METHOD_ARGUMENTS = split("""
    0 | 1 | 7 | 'a' | 'b', [1] | [[1], [2]] | boxes() | named_boxes() | Box() | 2.0 | b'a' | 0, Box() | matrix() | vector() | whole()
    (0, 1) | [1, 0] | 'a', 'b' | {1, 5} | 0, 1 | slice(0, 1), boxes() | same, 'ab' | {'c': [1]}.items() | [True, False], 0 | None
    65, 'b' | 'a', 1 | {'a': 1}.keys() | 'c' | 'f8' | False | [] | [3] | 1.5 | ('a', [1])
""")

#: Of functions that take none of the common ones, or do nothing with them, by name.
FUNCTIONS = {
    "ord": "'a'",
    "isinstance": "Box(), (int, list) | [1], (int, list)",
    "issubclass": "bool, (int, list)",
    "tuple": "tuple(lists()) | lists()",
    "next": "iter(lists()) | iter([]), lists()",
    "__new__": """
        list, lists() | dict | set | BaseException, lists() | tuple, lists() | tuple, (1, [2]) | frozenset, [1, 2] | int, '7' | float, '2.5'
        complex, 1.5 | str, lists() | bytes, b'ab' | object
    """,
    "setitem": "lists(), 0, [5] | named_boxes(), 'a', Box()",
    "delitem": "lists(), 0 | named_boxes(), 'a'",
    "_count_elements": "{}, ['a', 'b', 'a']",
    "BaseExceptionGroup": "'a', [ValueError()]",
    "ExceptionGroup": "'a', [ValueError()]",
    "UnicodeDecodeError": "'a', b'a', 0, 1, 'b'",
    "UnicodeEncodeError": "'a', 'a', 0, 1, 'b'",
    "UnicodeTranslateError": "'a', 0, 1, 'b'",
    "insert": "vector(), 0, 5.0",
    "interp": "0.5, vector(), vector()",
    "isdtype": "np.dtype('f8'), 'numeric'",
    "polyfit": "[1, 2, 3], [1, 2, 4], 1",
    "promote_types": "'f4', 'f8'",
    "ravel_multi_index": "([0, 1], [1, 0]), (2, 2)",
    "select": "[[True, False]], [vector()]",
    "unpackbits": "np.array([1, 2], dtype=np.uint8)",
    "fromiter": "[1.5, 2], float",
    "dtype": "'f8' | [('a', 'f8')]",
    "astype": "vector(), int | vector(), float",
    "can_cast": "'f4', 'f8'",
    "issubdtype": "np.float32, np.floating",
    "typename": "'f'",
    "choose": "[0, 1], [vector(), vector()]",
    "apply_along_axis": "same, 0, matrix()",
    "apply_over_axes": "np.sum, matrix(), [0]",
    "fromfunction": "same, (2, 2)",
    "dsplit": "np.ones((1, 1, 2)), 2",
    "moveaxis": "matrix(), 0, 1",
    "reshape": "matrix(), (4,) | lists(), 2",
    "swapaxes": "matrix(), 0, 1",
    "put": "vector(), [0], 7.0",
    "put_along_axis": "vector(), np.array([0]), 7.0, 0",
    "place": "vector(), [True, False], [7.0]",
    "putmask": "vector(), [True, False], 7.0",
    "copyto": "vector(), [7.0, 8.0]",
    "isnat": "np.datetime64(0, 's')",
    "heappush": "[1, 2], 0",
    "heappop": "[1, 2]",
    "heapreplace": "[1, 2], 0",
    "heappushpop": "[1, 2], 3",
    "iadd": "lists(), lists() | vector(), 1",
    "isub": "vector(), 1 | {1}, {1}",
    "imul": "lists(), 2 | vector(), 2",
    "iand": "whole(), 1 | {1}, set()",
    "ior": "whole(), 1 | {1}, {2}",
    "ixor": "whole(), 1 | {1}, {2}",
    "ilshift": "whole(), 1",
    "irshift": "whole(), 1",
    "imod": "vector(), 2",
    "ifloordiv": "vector(), 2",
    "itruediv": "vector(), 2",
    "ipow": "vector(), 2",
    "imatmul": "matrix(), matrix()",
    "accumulate": "[1, 2] | lists() | lists(), same",
    "groupby": "[1, 1, 2] | lists(), str",
    "sorted": "[3, 1, 2] | lists(), key=same",
    "max": "lists() | boxes(), key=id | [], default=Box()",
    "min": "lists() | boxes(), key=id | [], default=Box()",
    "dict": "named_boxes() | [['a', Box()]] | a=Box()",
    "OrderedDict": "named_boxes() | [['a', Box()]] | a=Box()",
    "defaultdict": "list, named_boxes() | list, [['a', Box()]] | list, a=Box()",
    "SimpleNamespace": "a=Box()",
    "pad": "vector(), 1 | vector(), 1, same",
    "fromkeys": "'ab', [1]",
    "maketrans": "{'a': 'b'} | b'a', b'b'",
    "fromhex": "'0x1p3' | 'ab'",
    "from_bytes": "b'ab', 'big'",
    "from_iterable": "[lists(), lists()]",
    "bytearray": "b'ab' | bytearray(b'ab')",
    "memoryview": "bytearray(b'ab')",
    "insort_right": "[1, 3], 2",
    "insort_left": "[1, 3], 2",
    "bisect_right": "[1, 3], 2 | lists(), 2, key=operator.itemgetter(0)",
    "asarray": "vector() | lists()",
    "frombuffer": "bytearray(8)",
}

#: Beside `self`, of methods that take none of the common ones, or do nothing with them.
METHODS = {
    **dict.fromkeys(("get", "pop", "setdefault", "__getitem__"), "'a' | 0 | 'z', [1]"),
    "__format__": "''",
    "replace": "b'a', b'b'",
    "bytearray.remove": "98",
    "throw": "ValueError()",
    "reduceat": "vector(), [0]",
    "setflags": "False",
    "UnicodeDecodeError.__init__": "'a', b'a', 0, 1, 'c'",
    "UnicodeEncodeError.__init__": "'a', 'a', 0, 1, 'c'",
    "UnicodeTranslateError.__init__": "'a', 0, 1, 'c'",
    "set.__iand__": "{1}",
    "set.__ior__": "{7}",
    "set.__isub__": "{1, 3}",
    "set.__ixor__": "{1, 3}",
    **dict.fromkeys([f"ndarray.__i{name}__" for name in ("add", "sub", "mul", "pow", "mod")], "3"),
}

#: `self`, by class.
SELVES = {
    object: "Box()",
    list: "lists() | boxes() | [3, 1, 2]",
    tuple: "tuple(lists()) | tuple(boxes()) | (3, 1, 2)",
    dict: "{'a': [1], 'b': [2]} | named_boxes()",
    set: "{1, 2} | {'a', 3}",
    frozenset: "frozenset([1, 2])",
    bytearray: "bytearray(b'ba c')",
    memoryview: "memoryview(bytearray(b'abcd'))",
    types.MappingProxyType: "types.MappingProxyType({'a': [1], 'b': [2]})",
    type({}.keys()): "{'a': [1], 'b': [2]}.keys()",
    type({}.items()): "{'a': 1, 'b': 2}.items() | {'a': [1], 'b': [2]}.items()",
    type({}.values()): "{'a': [1], 'b': [2]}.values()",
    types.GeneratorType: "started() | generator()",
    int: "7 | -3",
    float: "2.5",
    complex: "2.5j",
    bool: "True",
    str: "'ab' | 'a b'",
    bytes: "b'ab' | b'a b'",
    range: "range(1, 9)",
    slice: "slice(0, 8, 2) | slice([1], [2], [3])",
    collections.deque: "collections.deque(lists(), 5) | collections.deque(boxes()) | collections.deque([3, 1, 2])",
    collections.OrderedDict: "collections.OrderedDict(a=[1], b=[2])",
    collections.defaultdict: "collections.defaultdict(list, a=[1], b=[2])",
    functools.partial: "functools.partial(same, [1], a=[2])",
    operator.itemgetter: "operator.itemgetter(0) | operator.itemgetter('a')",
    re.Pattern: "re.compile('a') | re.compile(b'a')",
    re.Match: "re.match('(?P<a>a)', 'ab')",
    np.ndarray: "matrix() | vector() | whole() | np.array(2.5) | np.array(2) | np.array([Box(), Box()])",
    np.dtype: "np.dtype('f8') | np.dtype([('a', 'f8')])",
    np.finfo: "np.finfo('f8')",
    np.iinfo: "np.iinfo('i8')",
    np.ufunc: "np.add",
    np.flatiter: "matrix().flat",
    BaseExceptionGroup: "BaseExceptionGroup('a', [KeyboardInterrupt()])",
    UnicodeDecodeError: "UnicodeDecodeError('a', b'a', 0, 1, 'b')",
    UnicodeEncodeError: "UnicodeEncodeError('a', 'a', 0, 1, 'b')",
    UnicodeTranslateError: "UnicodeTranslateError('a', 0, 1, 'b')",
    np.generic: "np.float64(2.5) | np.int64(2)",
    np.floating: "np.float64(2.5)",
    np.integer: "np.int64(2)",
    np.datetime64: "np.datetime64(1, 's')",
    np.timedelta64: "np.timedelta64(1, 's')",
    np.void: "np.zeros(1, [('a', 'f8')])[0]",
    np.record: "np.rec.array([(1.0,)], dtype=[('a', 'f8')])[0]",
    np.str_: "np.str_('a b')",
    np.bytes_: "np.bytes_(b'a b')",
}

#: Iterators; `self` of the class that each is of.
ITERATORS = split("""
    iter(lists()) | iter(tuple(lists())) | reversed(lists()) | reversed(tuple(lists())) | iter('ab') | iter('éb') | iter(b'ab')
    iter(bytearray(b'ab')) | iter(named_boxes()) | iter(named_boxes().values()) | iter(named_boxes().items()) | iter({1, 2})
    reversed(named_boxes()) | reversed(named_boxes().values()) | reversed(named_boxes().items()) | iter(range(3)) | iter(range(1 << 70))
    map(same, lists()) | filter(same, lists()) | zip(lists(), lists()) | enumerate(lists()) | itertools.chain(lists())
    itertools.accumulate(lists()) | itertools.combinations(lists(), 2) | itertools.combinations_with_replacement(lists(), 2)
    itertools.dropwhile(same, [0, 1]) | itertools.takewhile(same, [1, 2]) | itertools.islice(lists(), 2) | itertools.starmap(same, lists())
    itertools.compress(lists(), [1, 1]) | itertools.filterfalse(same, [0]) | itertools.zip_longest(lists()) | itertools.pairwise(lists())
    itertools.permutations(lists()) | itertools.product(lists()) | itertools.repeat(lists(), 3) | itertools.groupby(lists())
    next(itertools.groupby(lists()))[1]
""")
if hasattr(itertools, "batched"):
    ITERATORS.append("itertools.batched(lists(), 2)")

#: Rows whose change no sample shows: another traceback cannot be made here, `__init__` of most classes looks at nothing.
UNSHOWN = {"with_traceback", "__init__"}

#: Methods that numbers of NumPy have, and that raise.
RAISING = re.compile(r"(complex|clongdouble).*(divmod|floordiv|mod)__|void.__[lg][te]__")

#: Names that some versions of Python or NumPy lack.
NOT_EVERYWHERE = {
    *("batched", "heapify_max", "heappush_max", "heappop_max", "heapreplace_max", "heappushpop_max"),
    *("_heapify_max", "_heappop_max", "_heapreplace_max"),
}

# -- the entries of the table -----------------------------------------------------------------------------------------


class Entry:
    """A row, what it is about as a function, and the samples it is tried with."""

    def __init__(self, label, function, row, samples, *, method=False):
        self.label, self.function, self.row, self.samples, self.method = label, function, row, samples, method
        self.refuses = False

    def letters(self, args, kwargs):
        reads = self.row.reads
        by_keyword = {name: self.row.named.get(name, reads[-1]) for name in kwargs}
        return {**{i: reads[min(i, len(reads) - 1)] for i in range(len(args))}, **by_keyword}

    @functools.cached_property
    def taken(self):
        """The samples that the function takes and the row speaks of, at most six."""
        found = []
        for text in self.samples:
            if len(found) == 6:
                break
            with quiet():
                try:
                    args, kwargs = arguments(text)
                    if "-" in self.letters(args, kwargs).values():
                        continue
                    given = self.function(*args, **kwargs)
                except BaseException:  # noqa: BLE001 (the samples raise all there are)
                    continue
            if given is NotImplemented:
                self.refuses = True
            else:
                found.append(text)
        return found


@contextlib.contextmanager
def quiet():
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@functools.cache
def compiled(text):
    return eval(f"lambda: (lambda *args, **kwargs: (list(args), kwargs))({text})", NAMES)


def arguments(text):
    return compiled(text)()


def selves(kind):
    """Return samples of a class's instances."""
    if kind in SELVES:
        return split(SELVES[kind])
    if issubclass(kind, BaseException):
        return [f"{kind.__name__}('a')", f"{kind.__name__}(lists())"]
    if issubclass(kind, np.generic):
        return [f"np.{kind.__name__}(1)"]
    return [text for text in ITERATORS if type(eval(text, NAMES)) is kind]


def caller(kind, name):
    member = vars(kind).get(name)
    if type(member) in effects._DESCRIPTORS:
        return member
    if callable(getattr(kind, name, None)) and not isinstance(member, types.GetSetDescriptorType):
        return lambda self, *args, **kwargs: getattr(self, name)(*args, **kwargs)
    return operator.attrgetter(name)


@functools.cache
def entries():
    """Return the entries of the table by home: module or class."""
    effects._TABLE.add_imported()
    found = collections.defaultdict(list)
    for function, row in effects._TABLE.functions.values():
        if type(function) in effects._DESCRIPTORS:
            continue
        name = function.__name__
        home = getattr(function, "__module__", None) or "__new__"
        samples = split(FUNCTIONS.get(name, "")) + ([] if name == "__new__" else ["", *ARGUMENTS])
        if name == "__new__":
            samples = [text for text in samples if function.__self__.__name__ == text.partition(",")[0]]
        found[home].append(Entry(f"{home}.{name}", function, row, samples))
    kinds = {id(kind): kind for kind in effects._TABLE.kinds}
    for address, rows in effects._TABLE.members.items():
        kind = kinds[address]
        for name, row in rows.items():
            own = split(METHODS.get(f"{kind.__name__}.{name}", "")) + split(METHODS.get(name, ""))
            samples = [
                *(f"{text}, {more}" for more in own for text in selves(kind)),
                *(f"{text}, {text}" for text in selves(kind)),
                *(", ".join(filter(None, (text, more))) for more in ("", *METHOD_ARGUMENTS) for text in selves(kind)),
            ]
            entry = Entry(f"{kind.__name__}.{name}", caller(kind, name), row, samples, method=True)
            found[f"{kind.__module__}.{kind.__name__}"].append(entry)
    for (address, name), row in effects._TABLE.of_classes.items():
        function = getattr(kinds[address], name)
        found["class methods"].append(
            Entry(f"{kinds[address].__name__}.{name}", function, row, ["", *split(FUNCTIONS.get(name, ""))])
        )
    return dict(found)


HOMES = sorted(entries())
of_every_home = pytest.mark.parametrize("home", HOMES)

# -- what is looked at ------------------------------------------------------------------------------------------------


def is_plain(value):
    return isinstance(value, PLAIN) or (isinstance(value, tuple | frozenset) and all(map(is_plain, value)))


def parts(value):
    """Return what a value holds."""
    if isinstance(value, dict | types.MappingProxyType):
        return list(value.values())
    if isinstance(value, list | tuple | set | frozenset | collections.deque):
        return list(value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return list(value.flat)
    if isinstance(value, slice):
        return [value.start, value.stop, value.step]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords, *value.args, *value.keywords.values()]
    if isinstance(value, BaseException):
        return [value.args, *value.args]
    return list(vars(value).values()) if isinstance(value, Box | types.SimpleNamespace) else []


def places(args, kwargs):
    """Return the name of each object among the arguments, and within."""
    found, stack = {}, [*((f"argument {k}", v) for k, v in [*enumerate(args), *kwargs.items()])]
    while stack:
        name, value = stack.pop()
        if not is_plain(value) and id(value) not in found:
            found[id(value)] = name
            stack += [(f"{name}.{i}", part) for i, part in enumerate(parts(value))]
    return found


def goes_on(value):
    """Whether an object reads another whenever it is asked."""
    return hasattr(value, "__next__") or isinstance(
        value, collections.abc.MappingView | types.MappingProxyType | memoryview
    )


def told(value, known=(), *, shallow=False):
    """Return all that a value holds, as text; what is known by its name, iterators by what they go on to give."""
    if id(value) in known:
        return known[id(value)]
    kind = type(value).__name__
    if is_plain(value):
        return f"{kind} {value!r}"
    if isinstance(value, np.ndarray) and value.dtype != object:
        return f"array {value.dtype} {value.shape} {value.flags.writeable} {value.tolist()}"
    if isinstance(value, memoryview | bytearray):
        return f"{kind} {bytes(value)}"
    if shallow and goes_on(value):
        return kind
    if hasattr(value, "__next__"):
        return f"{kind} {[told(each, known) for each in itertools.islice(value, 5)]}"
    if isinstance(value, dict):
        return f"{kind} {list(value)} {[told(part, known, shallow=shallow) for part in parts(value)]}"
    notes = getattr(value, "__notes__", None)
    return f"{kind} {[told(part, known, shallow=shallow) for part in parts(value)]} {notes}"


def shape(value):
    return type(value), getattr(value, "shape", None)


def change(value, *, number):
    """Change what a value holds, and, where `number` is True, how much it holds; return whether it could be."""
    if isinstance(value, list | collections.deque):
        if number:
            value.append(Box(5))
            value.insert(0, Box(5))
        elif value:
            value[0] = Box(5)
        return bool(value)
    if isinstance(value, set):
        if not number:
            value.pop()
        value.add("new")
        return True
    if isinstance(value, dict):
        value["z" if number else next(iter(value), "z")] = Box(5)
        return True
    if isinstance(value, np.ndarray) and value.dtype != object and value.flags.writeable:
        value[...] = value + 1
        return True
    if isinstance(value, bytearray):
        value[0] ^= 1
        return True
    if isinstance(value, Box):
        value.x += 1
        return True
    return False


def arrays(value):
    if isinstance(value, np.ndarray):
        return [value]
    return [each for part in parts(value) for each in arrays(part)] if not is_plain(value) else []


# -- the tests --------------------------------------------------------------------------------------------------------


def values(args, kwargs):
    return [*enumerate(args), *kwargs.items()]


def at(args, kwargs, place):
    return args[place] if type(place) is int else kwargs[place]


def misread(entry, text):
    """Change what is said not to be read: the result is the same."""
    for place, letter in entry.letters(*arguments(text)).items():
        args, kwargs = arguments(text)
        known = places(args, kwargs)
        value = at(args, kwargs, place)
        if letter == "e":
            changed = [part for part in parts(value) if change(part, number=True)]
        else:
            changed = letter in "np" and change(value, number=letter == "p")
        if changed:
            result = entry.function(*args, **kwargs)
            result = shape(result) if entry.row.returns == "view" else told(result, known, shallow=True)
            args, kwargs = arguments(text)
            known = places(args, kwargs)
            expected = entry.function(*args, **kwargs)
            expected = shape(expected) if entry.row.returns == "view" else told(expected, known, shallow=True)
            if result != expected:
                yield place, letter, expected, result


def miswritten(entry, text):
    """Look at the arguments after the call; those of an iterator are spent by whoever reads it."""
    args, kwargs = arguments(text)
    before = dict(values(*arguments(text)))
    entry.function(*args, **kwargs)
    for place, value in values(args, kwargs):
        allowed = place == 0 and entry.row.changes
        if not allowed and not hasattr(value, "__next__") and told(value) != told(before[place]):
            yield place, "is changed"


def changes_nothing(entry):
    for text in entry.taken:
        args, kwargs = arguments(text)
        entry.function(*args, **kwargs)
        if told(args[0]) != told(arguments(text)[0][0]):
            return False
    return True


def misgiven(entry, text):
    """Look for the arguments in the result, and for their memory; change them afterwards."""
    args, kwargs = arguments(text)
    known = places(args, kwargs)
    gives = entry.row.returns
    given = entry.function(*args, **kwargs)
    if gives == "plain" and not is_plain(given):
        yield given, "is not plain"
    holds_objects = not isinstance(given, np.ndarray) and entry.label.startswith(
        ("numpy", "ufunc", "ndarray", "generic")
    )
    if gives in ("plain", "new") and not is_plain(given) and id(given) in known and not holds_objects:
        yield "gives", known[id(given)]
    letters = entry.letters(args, kwargs)
    arrays_entered = any(
        letters[place] == "e" and isinstance(value, np.ndarray) for place, value in values(args, kwargs)
    )
    if gives != "view" and not arrays_entered:
        made = [array for array in arrays(given) if id(array) not in known]
        if any(np.shares_memory(a, b) for a in made for b in arrays([args, kwargs])):
            yield ("gives a view",)
    if gives == "new" and not arrays_entered and id(given) not in known:
        before = told(given, known, shallow=True)
        for _, value in values(args, kwargs):
            change(value, number=True)
        if goes_on(given) or told(given, known, shallow=True) != before:
            yield ("goes on reading",)


def miscalled(entry, text):
    """Give objects whose class has Python code: it is called where the letter says so."""
    for place, letter in entry.letters(*arguments(text)).items():
        for inside in (False, True):
            args, kwargs = arguments(text)
            new = filled(at(args, kwargs, place)) if inside else Spy()
            if new is None or letter == "c" or (entry.method and place == 0 and not inside):
                continue
            (args if type(place) is int else kwargs)[place] = new
            LOG.clear()
            with contextlib.suppress(Exception):  # What was called until then counts.
                given = entry.function(*args, **kwargs)
                if hasattr(given, "__next__"):
                    next(given)
            called = set(LOG) - (NONE if inside and letter in CALLED else CALLED.get(letter, ALL))
            if called:
                yield place, letter, "inside" * inside, called


def stray(entry, text):
    """Look at the Python code that runs: the samples' own, or NumPy's and what that calls."""
    args, kwargs = arguments(text)
    ran = set()
    before = sys.getprofile()
    with uncollected():  # the collector calls whom it likes, as Hypothesis's clock
        try:
            sys.setprofile(lambda frame, event, _: ran.add(frame.f_code) if event == "call" else None)
            entry.function(*args, **kwargs)
        finally:
            sys.setprofile(before)
    if not any(code.co_filename.startswith(NUMPY) for code in ran):
        theirs = {code.co_name for code in ran if code.co_filename not in (__file__, "<string>")}
        if theirs - OF_LIBRARIES:
            yield "runs", theirs


NUMPY = np.__file__.removesuffix("__init__.py")

#: Python code of the standard library that C calls: for `pickle`'s first protocols, and for dates of NumPy's.
OF_LIBRARIES = {"_reduce_ex", "__init__"}

#: What Python code may be called of an object, by letter; of all others, whatever but `__call__`; of what a container holds,
#: the same for them, and nothing for these.
NONE = frozenset()
CALLED = {
    "p": NONE,
    "n": {"__len__", "__bool__"},
    "e": {
        "__len__",
        "__length_hint__",
        "__iter__",
        "__next__",
        "__getitem__",
        "__reversed__",
        "__hash__",
        "__eq__",
        "keys",
    },
}


#: What has been called of a `Spy`.
LOG = []


def teller(name, answer):
    def tell(self, *args, **kwargs):
        LOG.append(name)
        return answer(self)

    return tell


ANSWERS = {
    "__len__ __length_hint__ __index__ __int__ __hash__ __trunc__ __call__": lambda self: 1,
    "__bool__ __eq__ __lt__ __gt__ __le__ __ge__ __contains__": lambda self: True,
    "__add__ __radd__ __mul__ __rmul__ __sub__ __rsub__ __or__ __and__ __xor__": lambda self: self,
    "__neg__ __pos__ __abs__ __invert__ __round__ __getitem__": lambda self: self,
    "__repr__ __str__ __format__": lambda self: "spy",
    "__iter__ __reversed__": lambda self: iter([1]),
    "__float__": lambda self: 1.0,
    "__complex__": lambda self: 1j,
    "keys": lambda self: ["a"],
}

#: Its instances tell what is called of them.
Spy = type("Spy", (), {name: teller(name, answer) for names, answer in ANSWERS.items() for name in names.split()})

#: All but a call.
ALL = vars(Spy).keys() - {"__call__"}


def filled(value):
    """Return the like of a container with other things in it, or None."""
    if type(value) in (list, tuple, collections.deque):
        return type(value)([Spy() for _ in value])
    if type(value) in (dict, collections.OrderedDict):
        return type(value)({key: Spy() for key in value})
    if type(value) is np.ndarray:
        new = np.empty(value.shape, dtype=object)
        new.flat = [Spy() for _ in range(value.size)]
        return new
    return None


@pytest.mark.parametrize("home", HOMES)
def test_every_row_has_samples(home):
    assert not [e.label for e in entries()[home] if not e.taken and not e.refuses and not RAISING.fullmatch(e.label)]


@pytest.mark.parametrize("check", [misread, miswritten, misgiven, miscalled, stray])
@pytest.mark.parametrize("home", HOMES)
def test_rows_say_what_is_so(home, check):
    with quiet():
        assert not [
            (entry.label, text, *each)
            for entry in entries()[home]
            for text in entry.taken
            for each in check(entry, text)
        ]


@pytest.mark.parametrize("home", HOMES)
def test_what_is_said_to_be_changed_is(home):
    changing = [e for e in entries()[home] if e.row.changes and e.label.rpartition(".")[2] not in UNSHOWN]
    assert not [entry.label for entry in changing if changes_nothing(entry)]


# -- what is in the table, and what is not ----------------------------------------------------------------------------


def test_names_are_those_of_something():
    for home, text in {**effects._FUNCTIONS, **effects._NUMPY}.items():
        for name, _ in effects._rows(text):
            assert name in NOT_EVERYWHERE or hasattr(sys.modules[home], name), (home, name)


@pytest.mark.parametrize("function", [
    *(print, open, input, exec, eval, compile, globals, locals, id, hash, vars, dir, getattr, setattr, delattr),
    *(itertools.count, itertools.cycle, itertools.tee, time.time, time.perf_counter, random.random, os.getcwd, sys.getsizeof),
    *(np.random.rand, np.random.default_rng, np.errstate, np.seterr, np.save, np.load, np.array2string, np.array_repr, np.datetime64),
    *(np.set_printoptions, np.vectorize, np.frompyfunc, np.fromfile, np.shares_memory, np.frompyfunc(same, 1, 1)),
    *(same, Box, Box().__init__, [].append, functools.lru_cache(same), object.__eq__, object.__setattr__, tuple.__hash__, float.__hash__),
])  # fmt: skip
def test_not_in_the_table(function):
    assert effects_of(function) is None


@pytest.mark.parametrize(("text", "row"), [
    ("list.append", ArgumentEffects("p", "plain", changes=True)),
    ("dict.fromkeys", ArgumentEffects("dp", "new")),
    ("float.__new__", ArgumentEffects("pd", "plain")),
    ("Box.__init_subclass__", ArgumentEffects("p", "plain")),
    ("np.add", ArgumentEffects("dd-d", "new", named={"where": "-"})),
    ("np.sum", ArgumentEffects("ddd-d", "new")),
    ("sorted", ArgumentEffects("d", "new", named={"key": "c"})),
])  # fmt: skip
def test_functions(text, row):
    assert effects_of(eval(text, NAMES)) == row


class Mine(list):
    def append(self, value):
        super().append(value)


class MyDict(dict):
    def __init__(self, *args):
        super().__init__(*args)


@pytest.mark.parametrize(("kind", "name", "row"), [
    (Mine, "extend", ArgumentEffects("pe", "plain", changes=True)),
    (Mine, "append", None),
    (Mine, "something", None),
    (MyDict, "fromkeys", None),
    (dict, "__getitem__", ArgumentEffects("ed", "member")),
    (collections.OrderedDict, "get", ArgumentEffects("edp", "member")),
    (collections.defaultdict, "__getitem__", ArgumentEffects("ed", "member", changes=True)),
    (collections.Counter, "update", None),
    (np.float64, "__add__", ArgumentEffects("d", "new")),
    (np.ndarray, "T", ArgumentEffects("nd", "view")),
    (np.ndarray, "__repr__", None),
    (float, "__hash__", None),
    (StopIteration, "value", ArgumentEffects("e", "member")),
    (ValueError, "value", None),
])  # fmt: skip
def test_methods(kind, name, row):
    assert method_effects(kind, name) == row


def test_classes_that_make_more_than_is_known_have_none():
    assert effects_of(MyDict.fromkeys) is None
    assert effects_of(MyDict) is None


def test_python_code_in_the_place_of_a_function_is_not_it(monkeypatch):
    monkeypatch.setattr(math, "sin", same)
    monkeypatch.setattr(heapq, "heappop", same)
    monkeypatch.setattr(np, "sum", same)
    fresh = effects._EffectsTable()
    fresh.add_imported()
    assert id(same) not in fresh.functions
    assert id(math.cos) in fresh.functions


def test_asking_runs_no_code_of_what_is_asked_about():
    def refuse(*args):
        raise AssertionError

    class Meta(type):
        __hash__ = __eq__ = refuse

    kind = Meta(
        "Kind",
        (),
        dict.fromkeys(("__hash__", "__eq__", "__getattr__", "__call__"), refuse) | {"__class__": property(refuse)},
    )
    assert effects_of(kind()) is None
    assert effects_of(kind) is None
    assert method_effects(kind, "append") is None
    assert side_effect_of(kind()) is None


@pytest.mark.parametrize(("text", "words"), [
    ("ag.manual_seed", "manual_seed() sets the state of a random generator"),
    ("ag.random.Generator(1).set_state", "Generator.set_state() sets the state of a random generator"),
    ("ag.numpy.random.seed", "Generator.seed() sets the state of a random generator"),
    ("ag.initial_seed", "initial_seed() gives Python the state of a random generator"),
    ("ag.save", "save() writes a file"),
    ("ag.set_default_dtype", "set_default_dtype() sets the default dtype"),
    ("ag.ones(1).tolist", "Tensor.tolist() gives Python values of a tensor"),
    ("ag.optim.Adam.load_state_dict", "Optimizer.load_state_dict() sets the state of an optimizer"),
    ("ag.utils.data.DataLoader", "DataLoader() serves data, which no program can record"),
    *((text, None) for text in ("ag.sum", "ag.ones(1).sum", "ag.nn.functional.relu", "ag.no_grad", "ag.Tensor", "len", "same", "Box")),
])  # fmt: skip
def test_what_does_more(text, words):
    assert side_effect_of(eval(text, {**NAMES, "ag": ag})) == words


def test_what_does_more_is_there():
    importlib.import_module("agrad.compat.autograd.convention")
    for module, reasons in effects._SIDE_EFFECTS.items():
        for names in reasons.values():
            for name in names.replace("*", "").split():
                assert operator.attrgetter(name)(importlib.import_module(module)), (module, name)
