"""A function for every piece of Python's syntax: each says what it did by what it returns and by its entries in LOG.

They run as they are and with hooks, beside each other: what is evaluated when, and how often, shows.
"""

import asyncio
import collections.abc as abc
import functools
import operator
import sys
import warnings
import weakref

LOG = []
COUNT = 0
TABLE = {"a": [1, 2, 3], "b": {"c": (4, 5)}}
other = "global"


def log(value, *more):
    LOG.append((value, *more))
    return value


class Told:
    """Tells of all that is done with it."""

    def __init__(self, name, value=0):
        self.__dict__["name"], self.__dict__["value"] = name, value

    def __repr__(self):
        return f"Told({self.name})"

    def __bool__(self):
        log("bool", self.name)
        return bool(self.value)

    def __getattr__(self, name):
        if name.startswith("missing"):
            raise AttributeError(name)
        log("getattr", self.name, name)
        return 10

    def __setattr__(self, name, value):
        log("setattr", self.name, name, value)

    def __delattr__(self, name):
        log("delattr", self.name, name)

    def __getitem__(self, key):
        log("getitem", self.name, repr(key))
        if key == 3:
            raise IndexError(key)
        return 20

    def __setitem__(self, key, value):
        log("setitem", self.name, repr(key), value)

    def __delitem__(self, key):
        log("delitem", self.name, repr(key))

    def __call__(self, *args, **kwargs):
        log("call", self.name, args, list(kwargs.items()))
        return args[0] if args else self

    def __enter__(self):
        log("enter", self.name)
        return (self.name, (1, 2))

    def __exit__(self, kind, error, traceback):
        log("exit", self.name, kind and kind.__name__)
        return bool(self.value)

    def __lt__(self, other):
        log("lt", self.name, getattr(other, "name", other))
        return Told(f"{self.name}<", self.value < getattr(other, "value", other))

    def __gt__(self, other):
        log("gt", self.name, getattr(other, "name", other))
        return Told(f"{self.name}>", self.value > getattr(other, "value", other))

    def __eq__(self, other):
        log("eq", self.name, getattr(other, "name", other))
        return NotImplemented

    __hash__ = None

    def __contains__(self, value):
        log("contains", self.name, value)
        return Told("in", value == self.value)

    def __add__(self, other):
        log("add", self.name, getattr(other, "name", other))
        return Told(f"{self.name}+", self.value)

    def __radd__(self, other):
        log("radd", self.name, other)
        return 30

    def __iadd__(self, other):
        log("iadd", self.name, getattr(other, "name", other))
        return self

    def __matmul__(self, other):
        return log("matmul", self.name)

    def __neg__(self):
        return log("neg", self.name)

    def __format__(self, spec):
        log("format", self.name, spec)
        return f"<{spec}>"


def told(name, value=0):
    log("make", name)
    return Told(name, value)


def items(*values):
    for value in values:
        yield log(value)


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


class Colour:
    RED, BLUE = 1, 2


# -- expressions --------------------------------------------------------------------------------------------------------


def arithmetic():
    a, b = 7, 3
    return [
        *(a + b, a - b, a * b, a / b, a // b, a % b, a**b, a & b, a | b, a ^ b, a << b, a >> b, -a, +a, ~a, not a),
        *(1 + 2 * 3, -5, (1, 2) * 2, "a" "b", "%s-%s" % (a, b), 2**10, 1 if a else 2, ...),
    ]


def arithmetic_order():
    return log(1) + log(2) * log(3) - (told("a") + told("b")).name.__len__() + (5 + told("c"))


def matmul():
    return (told("a") @ log(2), -told("n"))


def comparisons():
    a, b = 1, 2.0
    return [a < b, a <= b, a > b, a >= b, a == b, a != b, a is b, a is not b, a in (1, 2), b not in [1], None is None]


def chains():
    found = [log(1) < log(2) < log(3), log(3) < log(2) < log(1), 0 <= log(0) < 1, log(1) in [1] in [[1]]]
    a, b = object(), object()
    return [*found, a is b is not None, a is not b is not None, "a" not in "b" in "bc", 1 < 2 > 1 != 3 == 3]


def chains_of_truths():
    found = [bool(told("a", 1) < told("b", 2) < told("c", 3)), bool(told("a", 2) < told("b", 1) < told("c", 3))]
    if told("a", 1) < told("b", 2) < told("c", 3):
        found.append("yes")
    if not told("a", 2) < told("b", 1) < told("c", 3):
        found.append("no")
    if told("a", 1) < told("b", 2) < told("c", 1) or told("d", 1):
        found.append("or")
    x = told("p", 1) < told("q", 2) < told("r", 2) and log("last")
    return [*found, repr(x), 1 in told("s", 1) in [True]]


def truths():
    a, b, c = Told("a", 0), Told("b", 1), Told("c", 0)
    found = [repr(a and b), repr(a or b), repr(b and c), repr(a or c or b), repr(b and b and c), not a, not b]
    found += [repr((a or b) and c), repr((a and b) or c), repr(not (a or c)), repr(not a and b), repr(a and b or c and b)]
    found += [1 if a else 2, 1 if a or b else 2, (3 if a else 4) if b and not c else 5, repr((a if b else c) and b)]
    if a or (b and not c):
        found.append("if")
    if a:
        found.append("never")
    elif b if c else a:
        found.append("never")
    elif not (a or c):
        found.append("elif")
    while b and not a:
        break
    assert b or a, "never"
    return found


def constants():
    if False:
        lambda: "gone"
    if 0 or None:
        def gone():
            pass
    while 1:
        break
    if __debug__:
        LOG.append("debug")
    assert 1, "never"
    x = "if" if True else "else"
    return x, (lambda: x)(), not 0, None or 3, 5 and 6


def calls():
    def f(a, /, b, *c, d, e=5, **g):
        return a, b, c, d, e, list(g.items())

    t = told("t")
    return [
        f(log(1), log(2), *log([3, 4]), log(5), d=log(6), **log({"x": 7, "y": 8}), z=log(9)),
        f(*log((1, 2)), *items(3, 4), **log({"d": 1}), **{"self": 2, "f": 3}),
        f(b=log(1), d=log(2), *[log(0)]),
        t(log(1), k=log(2)),
        told("m").method(log(3)) if False else t.name.upper(),
        max(items(1, 5, 2), key=lambda v: -v),
        sorted({3: 1, 1: 2}.items(), reverse=True),
        operator.attrgetter("name")(t),
        f(1, d=2, b=(yes := 3)),
        yes,
    ]


def call_errors():
    found = []
    for call in (
        lambda: len(),
        lambda: told("t")(**{"a": 1}, **{"b": 2}),
        lambda: functools.reduce(1, [1, 2]),
        lambda: len([1])(),
        lambda: told("x").missing,
        lambda: undefined,
        lambda: [][0],
        lambda: {}["k"],
        lambda: 1 + "a",
        lambda: 1 < "a",
        lambda: -"a",
        lambda: 1 in 2,
        lambda: "a" @ 1,
    ):
        try:
            found.append(call())
        except Exception as e:
            found.append((type(e).__name__, str(e), getattr(e, "name", None)))
    return found


def subscripts():
    x = list(range(10))
    t = Told("t")
    a = 2
    found = [x[1], x[a:], x[:a], x[a:5:2], x[::-1], x[:], t[1, a:3], t[a:, ..., None], t[(1, 2)], t[:, :], "abc"[1]]
    found.append(t[log(1) : log(2) : log(3)])
    found.append(t[*x[:2], 5])
    x[log(0)] = log("new")
    x[1:3] = [log("s")]
    del x[-1], x[log(0) : 2]
    t[log(1), log(2)] = t[log(3) - 1] = log(4)
    del t[a:], t[1]
    return found, x


def attributes():
    t = told("t")
    t.x = log(1)
    t.y = t.z = t.x
    del t.x, t.y
    told("u").w, told("v").w = log(1), log(2)
    return t.name, t.value


def displays():
    a, b = [1, 2], {"x": 1}
    return [
        *([*a, 3, *items(4, 5)], (*a, *a), {*a, 9}, {**b, "y": log(2), **{"x": log(3)}}, {log("k"): log("v")}, [], {}, ()),
        *([[]] * 2, {1: {2: {3}}}, (1, (2, a)), f"{a}{b!r:>10}{a[0]:{log(5)}}{1}{told('f'):.2f}{a=}"),
    ]


def comprehensions():
    n = 3
    found = [
        [i * n for i in range(log(3)) if i % 2 == 0 if log(i) >= 0],
        {i: j for i, j in enumerate("ab")},
        {i for i in [1, 1, 2]},
        list(i + j for i in range(2) for j in range(i, n)),
        [(a, b, c, d) for a, (b, *c, (d,)) in [(1, (2, 3, 4, (5,)))]],
        [[x + n for x in range(y)] for y in range(3)],
        [last := i for i in range(4)],
        last,
        [k for k in TABLE],
        sum(other == "global" for _ in range(2)),
        [(lambda: i)() for i in range(3)],
        [f() for f in [lambda: i for i in range(3)]],
        [x for x, in [(1,), (2,)]],
        [0 for TABLE["tmp"] in [1, 2]],
        TABLE.pop("tmp"),
        any(told(str(i), i) for i in range(3)),
    ]
    return found


def comprehension_errors():
    try:
        return [1 // i for i in (1, 0)]
    except ZeroDivisionError as e:
        return str(e)


def walrus():
    if (n := log(3)) > 2 and (m := n + 1):
        pass
    while (n := n - 1) > 0:
        LOG.append(n)
    x = [y := 1, y**2, (z := y)]
    return n, m, x, z, [(w := v) for v in range(3) if (u := v) or True], w, u


def lambdas():
    y = 2
    f = lambda x, *args, k=log(3), **kwargs: (x + y, args, k, kwargs)
    g = lambda: (yield 5)
    h = lambda x: x; i = lambda x: x  # two on one line
    return f(1, 2, 3, z=4), f(1, k=9), list(g()), h(1), i(2), (lambda *a: a)(1, 2), (lambda: None)(), (lambda **k: k)(a=1)


def texts():
    v = 3.14159
    name = "world"
    return f"hello {name!s:>{log(8)}}|{v:.{2}f}|{{}}|{name!r}|{v}" + f"{name}" f"{v:g}" + "%d" % v + f"{'nested ' + f'{v}'}"


# -- statements ---------------------------------------------------------------------------------------------------------


def assignments():
    a = b = log(1)
    c, d = a, b
    (e, [f, *g]), h = (1, [2, 3, 4]), 5
    i, *j = items(1, 2, 3)
    *k, (l, m), n = [0, 1, (2, 3), 4]
    (o, p), o = (1, 2), 3
    q = r, s = log([7, 8])
    q.append(9)
    t = (u, (v, w)) = [1, items(2, 3)]
    x: int = log(4)
    y: undefined_annotation
    told("z").attr: int = log(5)
    [] = ()
    () = []
    t1 = t2 = t3 = [0]
    c, d = d, c
    return a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t[0], u, v, w, x, t1 is t3


def assignment_order():
    x = [0] * 5
    i = 0
    i, x[i] = 1, 2
    told("a").x, (told("b")[log("k")], told("c").y) = log(1), items(2, 3)
    told("d").x = told("e").x, y = log([4, 5])
    (j, v), x[j] = (3, 1), "at 3"
    return i, x, y, v


def unpacking_errors():
    found = []

    def nothing():
        a, (b, c) = 1, 2
        return a, b, c

    def few():
        a, (b, c) = 1, [2]

    def many():
        a, (b, c) = 1, items(2, 3, 4)

    def early():
        told("x").x, (told("y").y, z) = 1, items(2)

    def star():
        a, *b, (c, d) = items(1, 2, (3,))

    def loop():
        for a, (b, c) in [(1, (2, 3)), (4, 5)]:
            log((a, b, c))

    def single():
        for a, b in 5:
            pass

    def infinite():
        def forever():
            while True:
                yield log("more")

        a, (b, c) = forever()

    for f in (nothing, few, many, early, star, loop, single, infinite):
        try:
            f()
        except (TypeError, ValueError) as e:
            found.append((f.__name__, type(e).__name__, str(e)))
    return found


def augmented():
    global COUNT
    x = 1
    x += log(2)
    t = told("t")
    t.attr += log(1)
    t[log("k")] += log(2)
    told("u")[log("i"), 1:2] -= log(3)
    told("v").name.x.y if False else None
    l = [1, 2]
    m = l
    l += (3,)
    l[log(0)] *= 5
    l[1:2] += [9]
    d = {"a": [1]}
    d["a"] += [2]
    y = 100
    y -= 1; y *= 2; y /= 3; y //= 2; y %= 20; y **= 2; y = int(y); y <<= 3; y >>= 1; y |= 1; y &= 255; y ^= 3
    z = told("z")
    z += told("w")
    COUNT += 1
    COUNT -= 1
    return x, m, l, d, y, repr(z), t.attr


def augmented_errors():
    found = []

    def tuples():
        t = ([1],)
        try:
            t[0] += [2]
        finally:
            found.append(t)

    def unbound():
        x += 1

    def missing():
        told("t").missing += log("never")

    def key():
        told("t")[3] += log("never")

    def failing():
        told("t").x += [][0]

    for f in (tuples, unbound, missing, key, failing):
        try:
            f()
        except Exception as e:
            found.append((type(e).__name__, str(e)))
    return found


def deletions():
    x, y = [1, 2, 3], {"a": 1}
    z = 1
    del x[0], y["a"], z
    del (x[0], [x[0]])
    try:
        z
    except NameError as e:
        return x, y, type(e).__name__, str(e)


def loops():
    found = []
    for i in range(5):
        if i == 1:
            continue
        if i == 3:
            break
        found.append(i)
    else:
        found.append("never")
    for i in items(1, 2):
        found.append(i)
    else:
        found.append("else")
    n = 3
    while n:
        n -= 1
        if n == 1:
            continue
        found.append(n)
    else:
        found.append("while else")
    for told("t").x in (1, 2):
        pass
    for a, (b, *c) in [(1, (2, 3, 4)), (5, (6,))]:
        found.append((a, b, c))
    for found[0] in "xy":
        pass
    for k, v in TABLE.items():
        found.append(k)
    for x in 1, 2:
        found.append(x)
    for x in []:
        pass
    return found, i, a


def loop_order():
    for i in (log([1, 2])):
        log("body", i)
        for j in items(3):
            log("inner", j)
    x = [1]
    for y in x:
        if y < 4:
            x.append(y + 1)
    return x


def tries():
    found = []

    def run(n):
        try:
            log("try", n)
            if n == 1:
                raise ValueError("one")
            if n == 2:
                raise KeyError("two") from ValueError("cause")
            if n == 3:
                return "returned"
            if n == 4:
                raise log(RuntimeError)
        except ValueError as e:
            found.append(repr(e))
            return log("value")
        except (KeyError, IndexError) as e:
            found.append((repr(e), repr(e.__cause__)))
            try:
                raise OSError("again")
            except OSError as e:
                found.append(repr(e.__context__))
            try:
                e
            except UnboundLocalError as error:
                found.append(type(error).__name__)
        except:
            found.append(sys.exc_info()[0].__name__)
            try:
                raise
            except RuntimeError:
                found.append("raised again")
        else:
            found.append("else")
        finally:
            found.append(f"finally {n}")
        return "end"

    return [run(n) for n in range(5)], found


def returns_in_finally():
    def run(n):
        for i in range(3):
            try:
                if n == 0:
                    return log("try")
                if n == 1:
                    continue
                1 / 0
            finally:
                f = lambda: log("made in finally", i)
                f()
                if n == 2:
                    break
        return "end"

    return run(0), run(1), run(2)


def groups():
    found = []
    try:
        raise ExceptionGroup("g", [ValueError(1), KeyError(2), OSError(3)])
    except* ValueError as e:
        found.append(repr(e))
    except* (KeyError, OSError) as e:
        found.append(repr(e.exceptions))
    else:
        found.append("never")
    finally:
        found.append("finally")
    try:
        pass
    except* ValueError:
        pass
    else:
        found.append("else")
    return found


def managers():
    found = []
    with told("a") as a, told("b") as (b, (c, d)), told("c"):
        found.append((a, b, c, d))
    with told("d") as told("x").y, told("e") as found[log(0)]:
        log("body")
    with (told("f", 1) as f, told("g") as g):
        raise ValueError(f[0], g[0])
    try:
        with told("h") as (x, y, z):
            log("never")
    except ValueError as e:
        found.append(str(e))
    try:
        with log(5) as x:
            log("never")
    except (TypeError, AttributeError) as e:
        found.append((type(e).__name__, str(e)))
    for i in range(3):
        with told("i"):
            if i == 1:
                continue
            if i == 2:
                break
    return found, sorted(locals())


def matches():
    found = []

    def run(v):
        match log(v):
            case 0 | -1 | 1.5 | "text" | None | True:
                return "constant"
            case Colour.BLUE:
                return "value"
            case [] | [[]]:
                return "empty"
            case [1, *rest] if log(len(rest)) > 1:
                return rest
            case (a, b):
                return a, b
            case {"k": value, Colour.RED: 5, **rest}:
                return value, rest
            case {"p": Point(x=0, y=y)}:
                return "within", y
            case Point(0, y) | Point(y=0, x=y):
                return "point", y
            case Point(x=int() as x, y=str(y)):
                return x, y
            case abc.Callable():
                return "callable"
            case str() | bytes() as s if s:
                return s
            case [Point(), _, *_]:
                return "list of points"
            case object(__class__=kind):
                return kind.__name__
        return "never"

    cases = (0, -1, 1.5, "text", None, True, 2, [], [[]], [1, 2, 3], [1, 2], {"k": 1, 1: 5, "z": 3}, Point(0, 1))
    for v in (*cases, Point(3, 0), Point(1, "s"), len, b"x", b"", [Point(1, 2), 1, 2], {"p": Point(0, 9)}, object()):
        found.append(run(v))
    return [(x.__class__.__name__, x) if not isinstance(x, tuple) else x for x in found]


def match_without_a_match():
    match 5, told("x"):
        case 6, _:
            return "never"
        case [5, y] if not y:
            return repr(y)


def raises():
    def f():
        raise ValueError("a") from None

    def g():
        try:
            f()
        except ValueError as e:
            raise KeyError("b") from e

    try:
        g()
    except KeyError as e:
        return repr(e), repr(e.__cause__), e.__cause__.__suppress_context__


def asserts():
    try:
        assert told("a", 0), log("message")
    except AssertionError as e:
        return str(e)


def imports():
    import os.path
    import os.path as p
    from math import pi, sqrt as root
    from collections import abc as c
    import json, re as regular
    return os.path is p, pi, root(4.0), c is abc, json.dumps([1]), regular.__name__


def nothing():
    pass


def documented():
    """Have a docstring."""

    def inner(a, *args, **kwargs):
        """Have one, too."""
        return args, kwargs

    class Documented:
        """A class."""

        x = 1

    def plain():
        f"{1}"

    return inner.__doc__, Documented.__doc__, plain.__doc__, inner(1, 2, b=3), Documented.x


# -- functions, generators, classes -------------------------------------------------------------------------------------


def closures():
    n = 0

    def count():
        nonlocal n
        n += 1
        return n

    def read():
        return n

    def deep():
        def deeper():
            return [n + i for i in range(2)], (lambda: n)()

        return deeper()

    def unset():
        del n2
    count(), count()
    cell = count.__closure__[0] is read.__closure__[0]
    n = 10

    def lost():
        return later

    try:
        lost()
    except NameError as e:
        error = type(e).__name__, str(e)
    later = 1
    return count(), read(), deep(), cell, error, lost()


def deleted_cells():
    x = 1

    def clear():
        nonlocal x
        del x

    def read():
        return x

    clear()
    try:
        return read()
    except NameError as e:
        return str(e)


def globals_set():
    global COUNT, made_global
    before = COUNT
    COUNT = 5
    made_global = COUNT + 1

    def inner():
        global COUNT
        COUNT += 1
        return COUNT

    found = inner(), made_global, COUNT
    del made_global
    for COUNT in range(3):
        pass
    with told("g") as COUNT:
        pass
    COUNT = before
    try:
        made_global
    except NameError as e:
        return found, str(e)


def shadows():
    len = lambda x: "local"
    other = "local"

    def inner():
        return other, len([])

    class C:
        other = "class"
        seen = other

        def method(self):
            return other

    def middle():
        global other

        def deep():
            return other

        return deep(), [other for other in "ab"], other

    return inner(), C.seen, C().method(), middle()


def decorators():
    def decorate(name):
        log("evaluated", name)

        def apply(f):
            log("applied", name)
            f.names = (*getattr(f, "names", ()), name)
            return f

        return apply

    @decorate("a")
    @decorate("b")
    def f(x=log("default"), *, y: log("annotation") = log("kw")) -> log("returns"):
        return x

    @decorate("c")
    class C(log(object), metaclass=log(type)):
        @staticmethod
        def s(x):
            return x

        @classmethod
        def c(cls, x):
            return cls.__name__, x

        @property
        def p(self):
            return "p"

        @p.setter
        def p(self, value):
            log("set", value)

        @functools.cached_property
        def q(self):
            return log("q")

    c = C()
    c.p = 3
    return f.names, C.names, C.s(1), C.c(2), c.p, c.q, c.q, f(), list(f.__annotations__), f.__defaults__, f.__kwdefaults__


def classes():
    x = "free"

    class Base:
        __slots__ = ("__private", "a")
        count = 0

        def __init__(self, a):
            self.a = a
            self.__private = a * 2
            self.__class__.count += 1

        def get(self):
            return self.__private

        def change(self):
            self.__private += 1
            del self.a
            return getattr(self, "_Base__private")

        def __init_subclass__(cls, **kwargs):
            super().__init_subclass__()
            log("subclass", cls.__name__, kwargs)

    class Child(Base, key=log(1)):
        y = x
        z = y
        w: int = log(3)
        v: "text"
        for i in range(2):
            pass
        if i:
            found = True
        with told("in a class") as entered:
            pass
        y += "!"
        try:
            undefined
        except NameError as error:
            message = str(error)

        def __init__(self, a):
            super().__init__(a)
            self.b = (lambda: __class__)()

        def get(self):
            s = super()
            return s.get(), super(Child, self).get(), __class__.__name__, x

        def nested(self):
            class Inner:
                def method(inner):
                    return self.__dict__.keys() >= {"b"}, inner.__hidden()

                def __hidden(self):
                    return "Inner"

            return Inner().method()

        def names(self):
            return [super(Child, self).get() for _ in range(1)]

    c = Child(1)
    return (
        *(c.get(), c.change(), c.b is Child, Child.count, Child.y, Child.z, Child.w, Child.i, Child.found, Child.message),
        *(Child.entered, c.nested(), c.names(), sorted(k for k in vars(Child) if not k.startswith("__")), Child.__qualname__),
        *(Child.__module__, Child.get.__qualname__, Child.__annotations__ == {"w": int, "v": "text"}),
    )


def class_scopes():
    class Meta(type):
        @classmethod
        def __prepare__(meta, name, bases):
            return {"prepared": "by the metaclass", "x": "prepared x"}

    x = "enclosing"

    class C(metaclass=Meta):
        seen = prepared, x
        other = other
        TABLE["tmp"] = locals().keys() >= {"seen"}
        here = TABLE.pop("tmp")

    def within():
        class D:
            nonlocal x
            x = "set in a class"
            global COUNT
            COUNT = COUNT

            class E:
                z = x

        return D.E.z, hasattr(D, "x")

    return C.seen, C.other, C.here, within(), x


def comprehensions_in_classes():
    x = other = "local"

    class C:
        other = "class"
        items = [other for _ in range(1)]
        seen = other
        rows = [(lambda: (i, x))() for i in range(2)], [i for i in other], {x: i for i in range(2)}
        later = list(x for _ in range(2))
        y = [y for y in range(2)] if True else seen

    return C.items, C.seen, C.rows, C.later, C.y, sorted(k for k in vars(C) if not k.startswith("__"))


def generators():
    def f(n):
        total = 0
        try:
            while total < n:
                got = yield log(total)
                total += got or 1
        except KeyError as e:
            yield f"caught {e}"
        finally:
            log("closed")
        return "result"

    def g():
        result = yield from f(3)
        log("result", result)
        x = yield
        yield x, (yield 5)

    a = f(10)
    found = [next(a), a.send(4), a.send(None), a.throw(KeyError("k"))]
    try:
        next(a)
    except StopIteration as e:
        found.append(e.value)
    b = f(5)
    next(b)
    b.close()
    c = g()
    found += [next(c), next(c), c.send(1), c.send(None), c.send("x"), c.send("y")]
    found += [list(c), list(f(2)), [*g()], sum(x for x in f(3)), dict.fromkeys(i for i in range(2))]
    d = g()
    next(d)
    try:
        d.throw(ValueError("v"))
    except ValueError as e:
        found.append(str(e))
    e = (1 / x for x in [1, 0])
    next(e)
    try:
        next(e)
    except ZeroDivisionError as error:
        found.append((type(error).__name__, e.gi_frame, f.__name__, a.__name__, a.__qualname__))
    return found


def yields_everywhere():
    def f():
        x = [0, 1, 2]
        x[(yield "key")] += yield "value"
        a = (yield 1) < (yield 2) < (yield 3)
        b = told("b")
        b.attr += yield "attr"
        print_ = (lambda *args, **k: (args, k))((yield "arg"), *(yield "args"), k=(yield "kw"))
        with (yield "manager") as c:
            d = yield c
        e = f"{(yield 'text')}"
        for g in (yield "loop"):
            pass
        x[(yield "k1")], (x[(yield "k2")], h) = 7, (8, 9)
        i = j, k = yield "many"
        return x, a, print_, c, d, e, g, h, i, j, k

    run = f()
    sent = [None, 1, 10, 1, 2, 3, 5, "arg", ["args"], "kw", Told("cm"), "d", "e", [6], 0, 2, (3, 4)]
    try:
        for value in sent:
            log("got", run.send(value))
    except StopIteration as e:
        return e.value


def interleaved():
    def f(name):
        x = {}
        for i in range(2):
            a = b, x[(yield name)] = [name, i]
            with told(name) as (x["m"], (p, q)):
                r = name < (yield i) < "z"
        return a, x, r

    runs = [f("a"), f("b")]
    found = []
    sent = None
    for step in range(5):
        for run in runs:
            try:
                found.append(run.send(sent))
            except StopIteration as e:
                found.append(e.value)
        sent = f"s{step}"
    return found


def coroutines():
    async def wait(x):
        await asyncio.sleep(0)
        return x

    async def values():
        for i in range(3):
            yield i
            await wait(i)

    class Manager:
        async def __aenter__(self):
            return log("aenter")

        async def __aexit__(self, *args):
            log("aexit")

    async def main():
        found = [await wait(1), [x async for x in values()], [await wait(i) for i in range(2) if await wait(True)]]
        async with Manager() as m:
            found.append(m)
        async for x in values():
            found.append(x)
        found.append((lambda: x)())
        found.append([x async for x in later])
        return found

    later = (log(x) async for x in values())
    return asyncio.run(main())


def recursion():
    def fib(n):
        return n if n < 2 else fib(n - 1) + fib(n - 2)

    return fib(10)


def defaults():
    def f(a, b=2, /, c=3, *, d=4, e):
        return a, b, c, d, e

    def g(*, a=1, **k):
        return a, k

    return f(1, e=5), f(1, 2, 3, d=4, e=5), g(), g(b=2), f.__defaults__, f.__kwdefaults__, f.__code__.co_varnames


# -- what asks for its caller ------------------------------------------------------------------------------------------


def frames():
    a, b = 1, 2

    def caller(depth):
        return sys._getframe(depth).f_code.co_name

    def inner():
        a
        return caller(0), caller(1), caller(2), sorted(locals()), sorted(vars()), dir(), eval("a + 1"), eval("a", {"a": "given"})

    class C:
        x = 1
        names = sorted(n for n in locals() if not n.startswith("__"))
        exec("y = x + 1")

    space = {}
    exec("z = 3", space)
    called = locals
    found = sys._getframe().f_code.co_name, sys._getframe(0).f_lineno - sys._getframe().f_lineno
    return inner(), C.names, C.y, space["z"], sorted(called()), found, globals() is sys.modules[__name__].__dict__


def aliases_of_super():
    class A:
        def f(self):
            return "A"

    class B(A):
        def f(self):
            s = super
            return s().f(), super().f(), super(B, self).f()

    return B().f()


def warns():
    def deep():
        warnings.warn("deep", stacklevel=2)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        warnings.warn("here", UserWarning)
        deep()
        warnings.warn("there", DeprecationWarning, 1)
    return [(str(w.message), w.lineno, w.filename == __file__, w.category.__name__) for w in caught]


def tracebacks():
    """Give the lines of errors at every kind of operation, each with more than one line."""
    t = Told("t")
    found = []
    for f in (
        lambda: (
            1
            + "a"
        ),
        lambda: (
            t.name
            .missing
        ),
        lambda: (
            t.name
            .upper()
            .missing()
        ),
        lambda: max(
            1,
            "a",
        ),
        lambda: [
            1,
        ][
            2
        ],
        lambda: (
            t
            .name
            .join(
                5
            )
        ),
        lambda: f"""
            {t:x}
            {t.name:x}
        """,
        lambda: [
            1 / i
            for i in
            (1, 0)
        ],
        lambda: (
            1
            < 2
            < "a"
        ),
        lambda: undefined,
        lambda: -(
            "a"
        ),
    ):
        try:
            f()
        except Exception as e:
            lines = []
            tb = e.__traceback__
            while tb is not None:
                if tb.tb_frame.f_code.co_filename == __file__:
                    lines.append(tb.tb_lineno - f.__code__.co_firstlineno)
                tb = tb.tb_next
            found.append((type(e).__name__, lines[1:]))
    return found


def lifetimes():
    """Nothing is kept that is not kept without hooks."""

    class Thing:
        pass

    found = []
    thing = Thing()
    gone = weakref.ref(thing)
    a = b, c = thing, 1
    with told("x") as (d, (e, f)):
        pass
    if 0 < c < 2:
        pass
    del a, b, thing
    found.append(gone() is None)
    return found


def unhandled():
    x = {"k": 1}
    return (
        x["k"]
        + x["missing"]
    )


def raised_within():
    def inner(n):
        if n:
            return inner(
                n - 1
            )
        with told("cm"):
            for i in items(0):
                try:
                    1 / i
                finally:
                    log("finally")

    inner(2)


async def coroutine_itself():
    return log(1)
