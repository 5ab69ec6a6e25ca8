"""What functions with state are made of: the tables that `stateful` draws from. See there.

In these texts ``$`` is the number of the piece, ``{e}`` and ``{o}`` are expressions of two values, ``{n}`` of the one that
comes later, ``{h}`` is the way to a container, and ``v`` what was read. ``y`` is the tensor that the function works on, ``x``
its argument, both of shape (2,). What is done to ``y`` does not commute, so that an order shows.
"""

from __future__ import annotations

from pathlib import Path

# -- values: what is held somewhere, what becomes of it, and what a function does with it -------------------------------------

NUMBER = (
    "y = y * v + 1.0",
    "y = y * (2.0 if v > 2.5 else 3.0)",
    "y = y * (2.0 if v == 2.0 else 3.0)",
    "y = y + math.sin(v)",
    "y = y * np.float32(v)",
    "y = y * (2.0 if isinstance(v, float) else 3.0)",
    "y = y * float(f'{v:.3f}')",
    "y = y * max(v, 2.5)",
    "y = y * (2.0 if v else 3.0)",
)
TENSOR = (
    "y = y * v.sum() + 1.0",
    "y = y * v + 1.0",
    "y = y / v.shape[0]",
    "y = y * len(v)",
    "y = y * v.numel()",
    "y = y * (2.0 if v.requires_grad else 3.0)",
    "y = y * (2.0 if v.dtype == ag.float64 else 3.0)",
    "y = y * (2.0 if v.grad is None else 3.0)",
    "y = y * (2.0 if v.is_leaf else 3.0)",
    "y = y * (2.0 if isinstance(v, ag.nn.Parameter) else 3.0)",
    "y = y * float(v.sum())",
    "y = y * (0.5 * float(v.sum()))",
    "y = y * v.sum().item()",
    "y = y * 2.0 if v.sum() > 6.0 else y * 3.0",
    "y = y + (v.grad.sum() if v.grad is not None else 0.0); y = y * v.sum()",
    "y = y * (2.0 if v is x else 3.0)",
    "y = y * v.detach().sum()",
    "y = y * sum(float(q) for q in v)",
    "y = y * v[0] + 1.0",
)
IN_PLACE = (
    "{v}.data = ag.ones(3)",
    "{v}.data.add_(1.0)",
    "with ag.no_grad(): {v}.add_(1.0)",
    "{v}.requires_grad_(not {v}.requires_grad)",
    "{v}.grad = ag.ones_like({v})",
    "{v}.grad = None",
)

#: By name: the value, another in its place, a third beside it, what changes it in place, what is done with it.
VALUES = {
    "float": ("2.0", "7.0", "3.0", (), NUMBER),
    "int": (
        *("2", "3", "5", ()),
        (*NUMBER, "y = y * ag.ones(v).sum()", "for _ in range(v): y = y * 1.5", "y = y * (v % 2 + 1)"),
    ),
    "bool": ("True", "False", "True", (), ("y = y * 2.0 if v else y * 3.0", "y = y * (2.0 if v is True else 3.0)")),
    "optional": ("None", "2.0", "3.0", (), ("y = y * 3.0 if v is None else y * v",)),
    "type": (
        "2",
        "2.0",
        "2",
        (),
        ("y = y * (2.0 if type(v) is int else 3.0)", "y = y * (5.0 if isinstance(v, int) else 7.0)"),
    ),
    "str": (
        *("'tanh'", "'sin'", "'cos'", ()),
        (
            "y = getattr(ag, v)(y)",
            "y = y * (2.0 if v == 'tanh' else 3.0)",
            "y = y * (2.0 if 'a' in v else 3.0)",
            "y = y * len(v)",
            "y = y * {'tanh': 2.0}.get(v, 3.0)",
        ),
    ),
    "numpy float": ("np.float64(2.0)", "np.float64(7.0)", "np.float64(3.0)", (), NUMBER),
    "fraction": (
        "fractions.Fraction(1, 2)",
        "fractions.Fraction(5, 2)",
        "fractions.Fraction(1, 3)",
        (),
        ("y = y * float(v)",),
    ),
    "bytes": (
        "bytearray(b'ab')",
        "bytearray(b'cd')",
        "bytearray(b'e')",
        ("{v}[0] = 7", "{v}.append(3)"),
        ("y = y * v[0]", "y = y * len(v)"),
    ),
    "array.array": (
        *("array.array('d', [2.0])", "array.array('d', [7.0])", "array.array('d', [3.0])"),
        *(("{v}[0] = 5.0", "{v}.append(3.0)"), ("y = y * v[0]", "y = y * sum(v)")),
    ),
    "array": (
        *("np.array([2.0, 3.0])", "np.array([5.0, 6.0])", "np.array([1.0, 4.0])"),
        (
            "{v}[0] = 7.0",
            "np.multiply({v}, 2.0, out={v})",
            "{v}.sort(); {v}[:] = {v}[::-1].copy()",
            "{v}.resize(3, refcheck=False)",
            "{v}.fill(4.0)",
        ),
        (
            "y = y * v[0]",
            "y = y * float(v[0])",
            "y = y * v.sum()",
            "y = y * np.sum(v)",
            "y = y - np.mean(v)",
            "y = y * v.tolist()[0]",
            "y = y * v.item(0)",
            "y = y * ag.ones(int(v[0])).sum()",
            "y = y * 2.0 if v[0] > 4.0 else y * 3.0",
            "for q in v: y = y * q + 1.0",
            "for q in v: y = y * float(q) + 1.0",
            "y = y * len(v)",
            "y = y * v.shape[0]",
            "y = y * v[0].item()",
            "y = y * v[:2] + 1.0",
            "y = y * ag.asarray(v[:2])",
            "y = y * v[:1]",
            "y = y * (2.0 if (v > 4.0).any() else 3.0)",
            "y = y * float(v @ v)",
            "y = y * (2.0 if 7.0 in v else 3.0)",
        ),
    ),
    "integers": (
        *("np.array([2, 3])", "np.array([3, 1])", "np.array([1, 1])", ("{v}[0] = 1",)),
        ("y = y * ag.ones(int(v[0])).sum()", "y = y * v[0]", "y = y * ag.ones(tuple(v)).sum()", "y = y * int(v.max())"),
    ),
    "records": (
        *("np.array([(2.0, 1)], [('a', 'f8'), ('b', 'i8')])", "np.array([(5.0, 1)], [('a', 'f8'), ('b', 'i8')])"),
        *(
            "np.array([(3.0, 2)], [('a', 'f8'), ('b', 'i8')])",
            ("{v}['a'] = 7.0",),
            ("y = y * v['a'][0]", "y = y * v[0]['a']"),
        ),
    ),
    "objects": (
        *("np.array([2.0, None], object)", "np.array([5.0, None], object)", "np.array([3.0, 1], object)"),
        *(("{v}[0] = 7.0",), ("y = y * v[0]",)),
    ),
    "tensor": ("ag.asarray([2.0, 3.0])", "ag.asarray([5.0, 6.0])", "ag.asarray([1.0, 4.0])", IN_PLACE, TENSOR),
    "tensor, other size": ("ag.ones(2)", "ag.ones(5)", "ag.ones(3)", (), TENSOR),
    "tensor, other dtype": ("ag.ones(2)", "ag.ones(2, dtype=ag.float32)", "ag.ones(3)", (), TENSOR),
    "parameter": (
        *("ag.nn.Parameter(ag.asarray([2.0, 3.0]))", "ag.nn.Parameter(ag.asarray([5.0, 6.0]))"),
        *("ag.nn.Parameter(ag.asarray([1.0, 4.0]))", IN_PLACE, TENSOR),
    ),
    "function": (
        *("(lambda u: u * 2.0)", "(lambda u: u * 7.0 + 1.0)", "(lambda u: u + 3.0)"),
        (
            "{v}.__code__ = (lambda u: u * 5.0).__code__",
            "{v}.k = 3.0",
            "{v}.__defaults__ = (3.0,)",
        ),
        (
            "y = v(y)",
            "y = functools.reduce(lambda a, g: g(a), [v], y)",
            "y = list(map(v, [y]))[0]",
            "y = y * getattr(v, 'k', 2.0)",
        ),
    ),
    "function with a default": (
        *("(lambda u, k=2.0: u * k)", "(lambda u, k=7.0: u * k)", "(lambda u, k=3.0: u * k)"),
        *(("{v}.__defaults__ = (5.0,)",), ("y = v(y)",)),
    ),
    "object": (
        *(
            "O(k=2.0)",
            "O(k=7.0)",
            "O(k=3.0)",
            ("{v}.k = 5.0", "vars({v})['k'] = 5.0", "{v}.__class__ = P", "{v}.extra = 4.0"),
        ),
        (
            "y = y * v.k + 1.0",
            "y = y * getattr(v, 'k')",
            "y = y * vars(v)['k']",
            "y = y * getattr(v, 'extra', 2.0)",
            "y = y * v.scale()",
            "y = y * (2.0 if hasattr(v, 'extra') else 3.0)",
            "y = y * (2.0 if isinstance(v, P) else 3.0)",
            "y = y * sum(vars(v).values())",
            "y = y * len(vars(v))",
        ),
    ),
    "list": (
        *("[2.0, 3.0]", "[7.0, 8.0]", "[5.0]", ("{v}.append(4.0)", "{v}.reverse()", "{v}[0] = 6.0", "{v}.pop()")),
        (
            "y = y * v[0]",
            "y = y * sum(v)",
            "y = y * len(v)",
            "for q in v: y = y * q + 1.0",
            "y = y * (2.0 if 4.0 in v else 3.0)",
        ),
    ),
    "enum": ("Kind.A", "Kind.B", "Kind.C", (), ("y = y * v.value", "y = y * (2.0 if v is Kind.A else 3.0)")),
    "range": ("range(2)", "range(3)", "range(1)", (), ("for q in v: y = y * 1.5 + q",)),
    "slice": ("slice(0, 1)", "slice(1, 2)", "slice(0, 2)", (), ("y = y * y[v].sum()",)),
    "date": (
        "datetime.date(2020, 1, 2)",
        "datetime.date(2020, 1, 7)",
        "datetime.date(2020, 1, 3)",
        (),
        ("y = y * v.day",),
    ),
}

# -- what holds values ------------------------------------------------------------------------------------------------

#: How it is made, the way to the first value, ways to read one or (``for``) all, and changes.
ITEMS = ("{h}[0] = {n}", "{h}.append({n})", "{h}.insert(0, {n})", "{h}.reverse()")
ENTRIES = (
    *("{h}['a'] = {n}", "{h}.update(a={h}.pop('a'))", "{h}['c'] = {n}", "{h}.pop('b')", "{h}.update(a={n})"),
    "{h}.setdefault('c', {n})",
)
READ_ENTRIES = (
    *("{h}['a']", "{h}.get('a', 1.0)", "for {h}.values()", "next(iter({h}.values()))", "{h}[min({h})]"),
    *("(lambda **k: k['a'])(**{h})", "operator.itemgetter('a')({h})", "{{**{h}}}['a']", "for ({h}[k] for k in {h})"),
    *("for (v for _, v in {h}.items())", "[v for k, v in {h}.items() if k == 'a'][0]", "{h}[f'{{chr(97)}}']"),
    "{h}[list({h})[0]]",
)
READ_ITEMS = (
    *("{h}[0]", "{h}[-1]", "next(iter({h}))", "for {h}", "[*{h}][0]", "for [v for v in {h}]", "for (v for v in {h})"),
    *(
        "for map(lambda v: v, {h})",
        "(lambda *a: a[0])(*{h})",
        "for reversed({h})",
        "for sorted({h}, key=id)[:0] or {h}",
    ),
    *(
        "operator.itemgetter(0)({h})",
        "for itertools.chain({h})",
        "for [v for _, v in zip(range(9), {h})]",
        "for filter(lambda v: True, {h})",
    ),
    *("max({h}, key=lambda v: 0)", "functools.reduce(lambda a, b: a, {h})", "for [v for _, v in enumerate({h})]"),
)
HOLDERS = {
    "list": (
        "[{e}, {o}]",
        "{h}[0]",
        (*READ_ITEMS, "{h}[0:1][0]"),
        (*ITEMS, "{h}[:] = [{n}]", "{h}.pop()", "{h}.clear()"),
    ),
    "dict": ("{{'a': {e}, 'b': {o}}}", "{h}['a']", READ_ENTRIES, (*ENTRIES, "{h}.clear()")),
    "defaultdict": (
        "collections.defaultdict(lambda: 2.0, {{'a': {e}, 'b': {o}}})",
        "{h}['a']",
        (*READ_ENTRIES, "{h}['d']"),
        ENTRIES,
    ),
    "OrderedDict": (
        *("collections.OrderedDict([('a', {e}), ('b', {o})])", "{h}['a']", READ_ENTRIES),
        (*ENTRIES, "{h}.move_to_end('a')"),
    ),
    "subclass of dict": (
        "Table({{'a': {e}, 'b': {o}}})",
        "{h}['a']",
        (*READ_ENTRIES, "{h}.first()"),
        (*ENTRIES, "{h}.extra = 1.0"),
    ),
    "subclass of list": ("Stack([{e}, {o}])", "{h}[0]", (*READ_ITEMS, "{h}.first()"), (*ITEMS, "{h}.extra = 1.0")),
    "UserDict": ("collections.UserDict({{'a': {e}, 'b': {o}}})", "{h}['a']", READ_ENTRIES, ENTRIES),
    "ChainMap": (
        "collections.ChainMap({{'a': {e}}}, {{'b': {o}}})",
        "{h}['a']",
        READ_ENTRIES,
        ("{h}['a'] = {n}", "{h}.maps[1]['c'] = {n}"),
    ),
    "mappingproxy": (
        "types.MappingProxyType(hidden(dict(a={e}, b={o}), '$'))",
        *(
            "{h}['a']",
            READ_ENTRIES,
            ("HIDDEN['$']['a'] = {n}", "HIDDEN['$'].update(a=HIDDEN['$'].pop('a'))", "HIDDEN['$']['c'] = {n}"),
        ),
    ),
    "dict.get": (
        "hidden(dict(a={e}, b={o}), '$').get",
        "{h}('a')",
        ("{h}('a')", "{h}('c', 2.0)"),
        ("HIDDEN['$']['a'] = {n}", "HIDDEN['$']['c'] = 5.0"),
    ),
    "tuple": ("({e}, {o})", "{h}[0]", READ_ITEMS, ()),
    "tuple with a list": (
        "([{e}], {o})",
        "{h}[0][0]",
        ("{h}[0][0]", "for {h}[0]"),
        ("{h}[0][0] = {n}", "{h}[0].append({n})"),
    ),
    "long tuple": ("(([{e}],) + ({o},) * 70)", "{h}[0][0]", ("{h}[0][0]", "for {h}[0]"), ("{h}[0][0] = {n}",)),
    "long list": (
        "([{e}] + [{o}] * 100)",
        "{h}[0]",
        ("{h}[0]", "next(iter({h}))"),
        ("{h}[0] = {n}", "{h}.insert(0, {n})"),
    ),
    "long dict": (
        *("dict([(i, {o}) for i in range(100)], a={e})", "{h}['a']"),
        *(("{h}['a']", "{h}[max({h}, key=str)]"), ("{h}['a'] = {n}", "{h}.update(a={n})")),
    ),
    "named tuple": ("Two({e}, {o})", "{h}.a", ("{h}.a", "{h}[0]", "for {h}", "{h}._asdict()['a']"), ()),
    "deque": (
        "collections.deque([{e}, {o}])",
        "{h}[0]",
        READ_ITEMS[:-1],
        (*ITEMS, "{h}.rotate()", "{h}.appendleft({n})"),
    ),
    "object": (
        *("O(a={e}, b={o})", "{h}.a"),
        (
            "{h}.a",
            "getattr({h}, f'{{chr(97)}}')",
            "vars({h})['a']",
            "for vars({h}).values()",
            "operator.attrgetter('a')({h})",
            "{h}.__dict__['a']",
        ),
        (
            "{h}.a = {n}",
            "vars({h})['a'] = {n}",
            "{h}.__dict__ = {{'a': {n}}}",
            "{h}.__dict__.update(a={h}.__dict__.pop('a'))",
            "{h}.c = {n}",
        ),
    ),
    "dataclass": (
        *("Pair({e}, {o})", "{h}.a"),
        (
            "{h}.a",
            "for dataclasses.asdict({h}).values()",
            "for dataclasses.astuple({h})",
            "getattr({h}, dataclasses.fields({h})[0].name)",
            "matched({h})",
            "{h}.derived",
        ),
        ("{h}.a = {n}", "{h}.derived = {n}"),
    ),
    "slots": ("Slots({e})", "{h}.a", ("{h}.a", "{h}.read()", "getattr({h}, {h}.__slots__[0])"), ("{h}.a = {n}",)),
    "private slots": ("Private({e})", "{h}.read()", ("{h}.read()",), ("{h}.put({n})",)),
    "property": ("Property({e})", "{h}.a", ("{h}.a", "getattr({h}, 'a')"), ("{h}._hidden = {n}", "{h}.a = {n}")),
    "cached property": (
        "Cached({e})",
        "{h}.a",
        ("{h}.a",),
        ("{h}.a = {n}", "{h}.source = {n}; vars({h}).pop('a', None)"),
    ),
    "__getattr__": (
        "Lazy({e})",
        "{h}.a",
        ("{h}.a", "getattr({h}, 'a', 2.0)"),
        ("{h}._store['a'] = {n}", "{h}.a = {n}"),
    ),
    "__getattribute__": ("Answers({e})", "{h}.a", ("{h}.a",), ("STORE[:] = [{n}]",)),
    "__getitem__": ("Items({e})", "{h}['a']", ("{h}['a']",), ("{h}._store['a'] = {n}",)),
    "__call__": ("Callable({e})", "{h}()", ("{h}()",), ("{h}.value = {n}",)),
    "descriptor": ("Described({e})", "{h}.a", ("{h}.a",), ("{h}.a = {n}",)),
    "namespace": ("types.SimpleNamespace(a={e}, b={o})", "{h}.a", ("{h}.a", "vars({h})['a']"), ("{h}.a = {n}",)),
    "nn.Module": (
        *("with_attribute(ag.nn.Module(), {e})", "{h}.a", ("{h}.a", "vars({h}).get('a', 2.0)", "getattr({h}, 'a')")),
        ("{h}.a = {n}",),
    ),
    "cell": ("cell({e})", "{h}()", ("{h}()",), ("{h}.__closure__[0].cell_contents = {n}",)),
    "partial": ("functools.partial(lambda v: v, {e})", "{h}()", ("{h}()", "{h}.args[0]"), ()),
    "partial with a keyword": (
        "functools.partial(lambda *, v: v, v={e})",
        "{h}()",
        ("{h}()",),
        ("{h}.keywords['v'] = {n}",),
    ),
    "bound method": ("O(a={e}).get", "{h}()", ("{h}()", "{h}.__self__.a"), ("{h}.__self__.a = {n}",)),
    "weakref": ("weakref.ref(hidden(O(a={e}), '$'))", "{h}().a", ("{h}().a",), ("HIDDEN['$'].a = {n}",)),
    "weak dictionary": (
        "weakref.WeakValueDictionary(a=hidden(O(a={e}), '$'))",
        "{h}['a'].a",
        ("{h}['a'].a",),
        ("HIDDEN['$'].a = {n}", "{h}['a'] = hidden(O(a={n}), '$')"),
    ),
    "context variable": ("variable({e})", "{h}.get()", ("{h}.get()",), ("{h}.set({n})",)),
    "thread's own": (
        "with_attribute(threading.local(), {e})",
        "{h}.a",
        ("{h}.a", "getattr({h}, 'a', 2.0)"),
        ("{h}.a = {n}",),
    ),
    "lru_cache": (
        *("functools.lru_cache(None)(hidden(cell({e}), '$'))", "{h}()", ("{h}()",)),
        ("HIDDEN['$'].__closure__[0].cell_contents = {n}; {h}.cache_clear()",),
    ),
    "set": (
        "{{O(a={e})}}",
        "next(iter({h})).a",
        ("next(iter({h})).a", "[o.a for o in {h}][0]"),
        ("next(iter({h})).a = {n}",),
    ),
    "key": ("{{O(a={e}): 1}}", "next(iter({h})).a", ("next(iter({h})).a",), ("next(iter({h})).a = {n}",)),
    "frozenset": ("frozenset([O(a={e})])", "next(iter({h})).a", ("next(iter({h})).a",), ("next(iter({h})).a = {n}",)),
    "default": ("with_default({e})", "{h}()", ("{h}()",), ("{h}.__defaults__ = ({n},)",)),
    "keyword default": (
        "with_keyword_default({e})",
        "{h}()",
        ("{h}()",),
        ("{h}.__kwdefaults__['v'] = {n}", "{h}.__kwdefaults__ = {{'v': {n}}}"),
    ),
    "function's attribute": ("with_attribute(lambda: 0, {e})", "{h}.a", ("{h}.a",), ("{h}.a = {n}",)),
    "class": (
        *(
            "type('Made', (Base,), {{'a': {e}}})",
            "{h}.a",
            ("{h}.a", "getattr({h}, 'a', 2.0)", "{h}().a", "vars({h})['a']"),
        ),
        ("{h}.a = {n}",),
    ),
    "module": ("with_attribute(types.ModuleType('made'), {e})", "{h}.a", ("{h}.a", "vars({h})['a']"), ("{h}.a = {n}",)),
}

# -- where what a function reads begins -----------------------------------------------------------------------------------

#: Text of the module, of `build`, ways to it, ways to put another there, whose first one is plain.
ROOTS = {
    "global": (
        *(
            "k$ = {e}\ndef read$(): return k$",
            "",
            ("k$", "read$()", "globals()['k$']", "eval('k$')", "sys.modules[__name__].k$"),
        ),
        ("global k$; k$ = {n}", "globals()['k$'] = {n}"),
    ),
    "closure": ("", "k$ = {e}", ("k$", "(lambda: k$)()", "[k$ for _ in range(1)][0]"), ("nonlocal k$; k$ = {n}",)),
    "attribute": (
        *("", "o$ = O(k$={e})"),
        (
            *(
                "o$.k$",
                "getattr(o$, f'k_{$}')",
                "vars(o$)['k$']",
                "operator.attrgetter('k$')(o$)",
                "getter(f'k_{$}')(o$)",
            ),
            *(
                "(lambda **k: k['k$'])(**vars(o$))",
                "o$.__dict__['k$']",
                "next(iter(vars(o$).values()))",
                "o$.get(f'k_{$}')",
            ),
        ),
        (
            "o$.k$ = {n}",
            "vars(o$)['k$'] = {n}",
            "o$.__dict__ = {{'k$': {n}}}",
            "delattr(o$, 'k$'); setattr(o$, 'k$', {n})",
        ),
    ),
    "attribute of a class": (
        *("class Base$: k$ = {e}\nclass Sub$(Base$): pass\nclass Other$: k$ = 3.0", "s$ = Sub$()"),
        ("s$.k$", "Sub$.k$", "getattr(Sub$, 'k$', 2.0)", "type(s$).k$", "getattr(s$, 'k$')"),
        (
            "Sub$.k$ = {n}",
            "Base$.k$ = {n}",
            "s$.k$ = {n}",
            "Other$.k$ = {n}; s$.__class__ = Other$",
            "Other$.k$ = {n}; Sub$.__bases__ = (Other$,)",
        ),
    ),
    "attribute or a property": (
        *("class C$: pass", "s$ = C$(); s$.k$ = {e}", ("s$.k$",)),
        (
            "C$.k$ = property(lambda s: {n})",
            "s$.__class__ = type('D', (C$,), {{'k$': property(lambda s: {n})}})",
            "s$.k$ = {n}",
        ),
    ),
    "attribute that is not there": (
        *(
            "class C$: pass",
            "s$ = C$(); first$ = {e}",
            ("getattr(s$, 'k$', first$)", "getattr(C$, 'k$', first$)", "(s$.k$ if hasattr(s$, 'k$') else first$)"),
        ),
        ("C$.k$ = {n}", "s$.k$ = {n}"),
    ),
    "metaclass": (
        "class M$(type): k$ = {e}\nclass C$(metaclass=M$): pass",
        "",
        ("C$.k$",),
        ("M$.k$ = {n}", "C$.k$ = {n}"),
    ),
    "dunder": ("class C$: __k__ = {e}", "s$ = C$()", ("s$.__k__", "C$.__k__"), ("C$.__k__ = {n}", "s$.__k__ = {n}")),
    "default": (
        *("", "def d$(v={e}): return v", ("d$()", "(lambda w=d$: w())()")),
        ("d$.__defaults__ = ({n},)", "d$.__code__ = (lambda v: [v, v][1]).__code__; d$.__defaults__ = ({n},)"),
    ),
    "imported": (
        "def settings(): pass\nsettings = types.ModuleType('settings_$'); settings.k$ = {e}; sys.modules['settings_$'] = settings; settings$ = settings",
        *("", ("imported$()",), ("settings$.k$ = {n}",)),
    ),
    "lazy module": (
        "lazy$ = types.ModuleType('lazy_$'); lazy_store$ = {{'k$': {e}}}\ndef answer$(name):\n    if name not in lazy_store$: raise AttributeError(name)\n    return lazy_store$[name]\nlazy$.__getattr__ = answer$",
        *("", ("lazy$.k$",), ("lazy_store$['k$'] = {n}", "lazy$.k$ = {n}")),
    ),
    "global that is not there": (
        *("", "first$ = {e}", ("(later$ if 'later$' in globals() else first$)", "tried$(first$)")),
        ("global later$; later$ = {n}",),
    ),
    "argument": ("", "k$ = {e}", ("a$",), ("nonlocal k$; k$ = {n}",)),
    "argument and outside": ("", "k$ = {e}", ("a$", "k$"), ("nonlocal k$; k$ = {n}",)),
    "keyword argument": ("", "k$ = {e}", ("w['k$']", "for w.values()"), ("nonlocal k$; k$ = {n}",)),
    "context variable": ("c$ = contextvars.ContextVar('c$')", "c$.set({e})", ("c$.get()",), ("c$.set({n})",)),
    "self": (
        *(
            "class R$:\n    def __init__(self, k): self.k = k\n    def read(self): return self.k\n    @property\n    def here(self): return self.k",
            "r$ = R$({e})",
        ),
        ("r$.read()", "r$.here", "operator.methodcaller('read')(r$)"),
        ("r$.k = {n}", "R$.read = lambda self: {n}", "r$.read = lambda: {n}"),
    ),
}
#: The way to the value from outside the function, where it is not the first one there.
PATHS = {
    "attribute that is not there": "first$",
    "default": "d$.__defaults__[0]",
    "imported": "settings$.k$",
    "lazy module": "lazy_store$['k$']",
    "global that is not there": "first$",
    "argument": "k$",
    "argument and outside": "k$",
    "keyword argument": "k$",
    "self": "r$.k",
}
#: Text of the module that some roots need.
ROOT_HELP = {
    "imported": "def imported$():\n    import settings_$ as s\n    return s.k$",
    "global that is not there": "def tried$(first):\n    try: return later$\n    except NameError: return first",
}

#: At the head of every module.
HEAD = """\
import array, collections, contextlib, contextvars, copy, dataclasses, datetime, enum, fractions, functools, heapq, io, itertools
import math, operator, os, queue, random, statistics, string, sys, threading, types, warnings, weakref

import numpy as np

import agrad as ag
from stateful import reversal


class O:
    def __init__(self, **k): vars(self).update(k)
    def scale(self): return self.k * 2.0
    def get(self, name="a"): return getattr(self, name)


class P(O):
    def scale(self): return self.k * 3.0


class Kind(enum.Enum):
    A, B, C = 2.0, 7.0, 3.0


class Base: pass


class Table(dict):
    def first(self): return next(iter(self.values()))


class Stack(list):
    def first(self): return self[0]


Two = collections.namedtuple("Two", "a b")


@dataclasses.dataclass
class Pair:
    a: object = None
    b: object = None

    def __post_init__(self): self.derived = self.a


def matched(pair):
    match pair:
        case Pair(a): return a


class Slots:
    __slots__ = ("a", "__weakref__")
    def __init__(self, a): self.a = a
    def read(self): return self.a


class Private:
    __slots__ = ("__a",)
    def __init__(self, a): self.__a = a
    def read(self): return self.__a
    def put(self, a): self.__a = a


class Property:
    def __init__(self, a): self._hidden = a
    @property
    def a(self): return self._hidden
    @a.setter
    def a(self, new): self._hidden = new


class Cached:
    def __init__(self, a): self.source = a
    @functools.cached_property
    def a(self): return self.source


class Lazy:
    def __init__(self, a): self._store = {"a": a}
    def __getattr__(self, name):
        try: return self.__dict__["_store"][name]
        except KeyError: raise AttributeError(name) from None


STORE = []


class Answers:
    def __init__(self, a): STORE[:] = [a]
    def __getattribute__(self, name): return STORE[0]


class Items:
    def __init__(self, a): self._store = {"a": a}
    def __getitem__(self, key): return self._store[key]


class Callable:
    def __init__(self, value): self.value = value
    def __call__(self): return self.value


class Descriptor:
    def __set_name__(self, owner, name): self.name = "_" + name
    def __get__(self, instance, owner=None): return vars(instance)[self.name]
    def __set__(self, instance, value): vars(instance)[self.name] = value


class Described:
    a = Descriptor()
    def __init__(self, a): self.a = a


HIDDEN = {}


def hidden(value, number):
    HIDDEN[number] = value
    return value


def cell(value): return lambda: value


def with_attribute(thing, value):
    thing.a = value
    return thing


def with_default(value): return lambda v=value: v


def with_keyword_default(value): return lambda *, v=value: v


def variable(value):
    made = contextvars.ContextVar("made")
    made.set(value)
    return made


def getter(name): return operator.attrgetter(name)


@contextlib.contextmanager
def scaled(o, k):
    before, o.k = o.k, k
    try: yield o
    finally: o.k = before


class Managed:
    count = 0
    def __enter__(self): self.count += 1; return self
    def __exit__(self, *what): return False


def doubled(f):
    @functools.wraps(f)
    def g(*args, **kwargs): return f(*args, **kwargs) * 2.0
    return g
"""


class Piece(dict):
    """A part of a function: text by where it stands; what is not there is empty."""

    def __missing__(self, key):
        return "" if key in {"top", "local", "body", "argument", "keywords", "after", "must"} else ()


# -- pieces by name -----------------------------------------------------------------------------------------------------

NET = "ag.manual_seed(1); net$ = ag.nn.Linear(2, 2); spare$ = ag.nn.Parameter(ag.ones((2, 2)))"
#: Changes that several pieces share.
CHANGES = {
    "RATES": (
        "nonlocal k$; k$ = 0.7",
        "nonlocal k$; k$ = 0.1",
        "nonlocal k$; k$ = 2",
        "nonlocal k$; k$ = np.float64(0.3)",
    ),
    "W": (
        "nonlocal w$; w$ = ag.nn.Parameter(ag.asarray([3.0, 4.0]))",
        "w$.requires_grad_(not w$.requires_grad)",
        "w$.grad = None",
        "w$.grad = ag.ones(2)",
        "w$.data = ag.asarray([2.0, 5.0])",
        "with ag.no_grad(): w$.mul_(2.0)",
    ),
    "OPT": (
        "nonlocal w$; w$ = ag.nn.Parameter(ag.asarray([3.0, 4.0]))",
        "w$.requires_grad_(not w$.requires_grad)",
        "w$.grad = None",
        "w$.grad = ag.ones(2)",
        "w$.data = ag.asarray([2.0, 5.0])",
        "with ag.no_grad(): w$.mul_(2.0)",
        "opt$.param_groups[0]['lr'] = 0.05",
        "opt$.param_groups[0]['lr'] *= 0.5",
        "opt$.param_groups[0]['weight_decay'] = 0.1",
        "opt$.param_groups[0]['params'][0] = ag.nn.Parameter(ag.asarray([3.0, 4.0]))",
        "opt$.add_param_group({'params': [ag.nn.Parameter(ag.ones(1))]})",
        "opt$.load_state_dict(opt$.state_dict())",
        "opt$.state.clear()",
        "nonlocal opt$; opt$ = ag.optim.SGD([w$], lr=0.03)",
    ),
    "NET": (
        "net$.weight = spare$",
        "net$.weight = ag.nn.Parameter(ag.ones((2, 2)))",
        "net$.bias = None",
        "net$.weight.requires_grad_(not net$.weight.requires_grad)",
        "net$.weight.data.mul_(2.0)",
        "net$.zero_grad()",
        "net$.eval()",
        "net$.load_state_dict({k: v * 2.0 for k, v in net$.state_dict().items()})",
        "net$.forward = lambda u: u * 5.0",
        "type(net$).forward",
        "net$.register_forward_hook(lambda m, a, out: out * 3.0)",
        "net$.weight.register_hook(lambda g: g * 3.0)",
        "net$.extra = ag.nn.Parameter(ag.ones(2))",
    ),
}


def step(optimizer, more="", changes=()):
    """Give a piece that takes a step of training."""
    return Piece(
        local=f"{NET}; opt$ = ag.optim.{optimizer}",
        body="opt$.zero_grad()\n"
        "loss = ((net$(x.detach().to(ag.float64)) - 1.0) ** 2).sum() + (spare$ * spare$).sum()\n"
        f"loss.backward(){more}\n"
        "opt$.step()\n"
        "y = y * loss.detach()",
        changes=(
            *CHANGES["NET"],
            *changes,
            *(change for change in CHANGES["OPT"] if "w$" not in change),
            "opt$.param_groups[0]['params'][0] = spare$",
        ),
        state=("net$", "spare$", "opt$.param_groups", "list(opt$.state.values())"),
    )


STEPS = {
    "SGD": step("SGD(net$.parameters(), lr=0.01)"),
    "SGD with momentum": step(
        "SGD(net$.parameters(), lr=0.01, momentum=0.9)", changes=("opt$.param_groups[0]['momentum'] = 0.5",)
    ),
    "Adam": step("Adam(net$.parameters(), lr=0.01)", changes=("opt$.param_groups[0]['betas'] = (0.8, 0.9)",)),
    "AdamW": step("AdamW([net$.weight, spare$], lr=0.01, weight_decay=0.1)"),
    "rate set within": step("SGD(net$.parameters(), lr=0.01)", "\nopt$.param_groups[0]['lr'] *= 0.9"),
    "rate read within": step("SGD(net$.parameters(), lr=0.01)", "\nloss = loss * opt$.param_groups[0]['lr']"),
    "clipped": step("SGD(net$.parameters(), lr=0.01)", "\nag.nn.utils.clip_grad_norm_(net$.parameters(), 0.5)"),
    "schedule": step("SGD(net$.parameters(), lr=0.01); sch$ = ag.optim.lr_scheduler.StepLR(opt$, 2)", "\nsch$.step()"),
}


def pieces_of(text):
    """Give the pieces of the catalogue."""
    found = {}
    for block in text.split("\n== ")[1:]:
        name, *lines = block.strip().split("\n")
        piece = found[name] = Piece()
        for line in lines:
            key, _, part = line.partition("| ")
            if key in {"top", "local", ""}:
                key = key or "body"
                piece[key] = f"{piece[key]}\n{part}" if piece[key] else part
            elif key in {"argument", "keywords", "after", "must"}:
                piece[key] = part
            else:
                many = CHANGES[part] if key == "changes" else (part,)
                key = {"result": "results", "change": "changes"}.get(key, key)
                piece[key] = (*piece[key], *many)
    return found


NAMED = {
    **pieces_of(Path(__file__).with_name("stateful_pieces.txt").read_text(encoding="utf-8")),
    **{f"tensor: {name}": piece for name, piece in STEPS.items()},
}
