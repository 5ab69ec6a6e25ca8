"""Docstrings that are short in the source and are completed when they are read.

Docstrings of agrad's own functions get numpydoc's sections (`complete`); those of functions named after another
library's get that library's docstring after their own (`refer`).

The source contains the summary, special remarks, and examples. Facts that follow from the signature, from the kind of
the
op or from the chapter are stated once: here, or where the chapter calls `complete`. `help()` shows numpydoc's sections
of::

    \"\"\"Power, ``x1 ** x2``. Derivative: by `x1`...    of elementwise functions, this begins the notes

    x1, x2: Base and exponent.           parameters, of the type that their name has in the chapter
    axis : int or None                   or of this type
        The axis.
    Returns: Of the broadcast shape.     of the type that is annotated, or ``Returns : type`` as of parameters
    ValueError: If they do not fit.      what it raises
    At 0 it is 0.                        what is none of these are notes

    (examples, from the first ``>>>`` on)
    \"\"\"

Text before the parameters belongs to the summary; if no parameter is described, all text after the first line are
notes. A docstring that has sections in the source keeps them, and gets no others.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import CO_VARARGS, CO_VARKEYWORDS
from types import CodeType, FunctionType
from typing import Any, NamedTuple, TypeAlias

from agrad.core.errors import BackendError
from agrad.core.op import ALIASES
from agrad.core.rule import Rule
from agrad.plugin import manager

#: The possible operands of elementwise functions, by their annotation. To type checkers all of these are any array.
Numeric: TypeAlias = Any
RealValued: TypeAlias = Any
Floating: TypeAlias = Any
RealFloating: TypeAlias = Any
Integral: TypeAlias = Any
Bits: TypeAlias = Any
Boolean: TypeAlias = Any
KINDS = {
    "Any": "Any dtype",
    "Numeric": "Numeric",
    "RealValued": "Real-valued",
    "Floating": "Floating-point, real or complex",
    "RealFloating": "Real floating-point",
    "Integral": "Integer",
    "Bits": "Integer or boolean",
    "Boolean": "Boolean",
}

#: The end of a line in a docstring, which before Python 3.13 keeps the indentation of the source.
N = "\n" if sys.version_info >= (3, 13) else "\n    "
BLANK, PROMPT, HEADING = f"\n{N}", f"\n{N}>>> ", f"--{N}"
PARAMETERS = f"\n{N}Parameters{N}----------"
RETURNS = f"\n{N}Returns{N}-------{N}"
RAISES = f"\n{N}Raises{N}------"
NOTES = f"\n{N}Notes{N}-----{N}"
EXAMPLES = f"\n{N}Examples{N}--------{N}>>> "
IMPORT = f"import agrad as ag{N}>>> "

#: The default description of a result.
RESULT, THIS = f"{N}    The result.", f"{N}    This tensor."

#: The same for an elementwise function, by whether it is boolean and by the number of operands.
RESULTS = {
    (False, 1): f"{N}    Of the shape and dtype of `x`.",
    (False, 2): f"{N}    Of the broadcast shape and the promoted dtype.",
    (True, 1): f"{N}    Boolean, of the shape of `x`.",
    (True, 2): f"{N}    Boolean, of the broadcast shape.",
}

#: The errors of a method that changes its tensor.
IN_PLACE = f"{N}RuntimeError{N}    On a leaf that requires grad, while recording."

#: The description of `dim` and `keepdim`, and similar names, as synonyms of `axis` and `keepdims`.
OF_PYTORCH = f" : optional{N}    PyTorch's."

#: The description of the derivative if operands may be complex.
HOLOMORPHIC = {"Numeric", "Floating"}
COMPLEX = f"{N}Complex: holomorphic, so a cotangent is multiplied by the conjugate of the derivative."

#: The words for annotations.
TYPES = {
    "tuple[Tensor, ...]": "tuple of Tensor",
    "tuple[Tensor, Tensor]": "tuple of Tensor",
    "Tensor | tuple[Tensor, ...]": "Tensor or tuple of Tensor",
    "Any": "object",
}

#: For functions that are not ops.
NONE = Rule("", "none")


class Chapter(NamedTuple):
    """The descriptions shared by all functions of a chapter; see `complete`."""

    types: dict[str, str]
    whole: dict[str, str]
    source: str
    elementwise: bool
    methods: bool


class Short(str):
    """The docstring of a function in its short form from the source. Reading it returns the complete one.

    Every process has hundreds of them, and few are read. C code that looks at the characters, such as `re`, sees the
    short text, until a string method is called: then the function gets the complete text, as an ordinary string.
    """

    __slots__ = ("chapter", "function", "name")

    chapter: Chapter
    function: Any
    name: str

    def complete(self) -> str:
        """Return the whole docstring, and store it in the function."""
        text = _completed(str.__str__(self), self.function, self.name, self.chapter)
        if self.function.__doc__ is self:
            self.function.__doc__ = text
        return text

    def __reduce_ex__(self, protocol: object) -> tuple[Any, ...]:
        return str, (self.complete(),)


def _whole(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method that acts on the whole docstring."""
    return lambda self, *args, **kwargs: method(self.complete(), *args, **kwargs)


for _name, _method in vars(str).items():
    if callable(_method) and _name not in {"__new__", "__getattribute__"}:
        setattr(Short, _name, _whole(_method))


def summary(function: Any) -> str:
    """Return the first line of the source's text, "" with ``python -OO``."""
    text = function.__doc__
    return "" if text is None else str.__str__(text).partition("\n")[0].partition(" Derivative: ")[0]


def complete(
    namespace: Mapping[str, Any],
    arguments: Mapping[str, str],
    *,
    source: str = "",
    elementwise: bool = False,
    methods: bool = False,
) -> None:
    """Make the docstrings of a chapter's functions, or of the methods of a class, complete themselves when they are read.

    Parameters
    ----------
    namespace : dict
        The functions by name; anything else in it is ignored, and so are docstrings that have sections, and helpers
        with a docstring of one line that ``__all__`` does not name.
    arguments : dict
        Parameters by name: the type, and on the next line the meaning; or the type only, for parameters that each
        docstring describes.
    source : str, optional
        The last line of notes that name no source.
    elementwise : bool, optional
        Whether it is the chapter of elementwise functions: annotations determine the operands `x`, or `x1` and `x2`.
    methods : bool, optional
        Whether they are methods: parameters that nobody passes are not described.
    """
    if __doc__ is None:  # python -OO
        return
    types = {name: " : " + entry.partition("\n")[0] for name, entry in arguments.items()}
    whole = {name: " : " + entry.replace("\n", N) for name, entry in arguments.items() if "\n" in entry}
    chapter = Chapter(types, whole, source, elementwise, methods)
    home, public = namespace.get("__name__", ""), namespace.get("__all__", ())
    for name, function in namespace.items():
        if type(function) is FunctionType and name[0] != "_" and function.__module__.startswith(home):
            text = function.__doc__
            if type(text) is str and (methods or "\n" in text or name in public) and HEADING not in text:
                short = function.__doc__ = Short(text)
                short.function, short.name, short.chapter = function, name, chapter


# -- names that are another library's ----------------------------------------------------------------------------------

#: Whether the original's docstring follows. Not where examples are collected, or the site is built: these show agrad's
#: only.
ORIGINALS = True


class Referring(Short):
    """The docstring of a function named after another library's: only its special remarks. Reading it returns the original's, too."""

    __slots__ = ("also",)

    also: Mapping[str, str]

    def complete(self) -> str:
        """Return the docstring, followed by the original's if that library can be imported."""
        text, prompt, examples = inspect.cleandoc(str.__str__(self)).partition("\n\n>>> ")
        takes = _parameters(self.function)
        for start, said in self.also.items():
            if any(name.startswith(start) for name in takes):
                text += f"\n\n{said}"
        text += prompt + examples
        original = original_of(self.name) if ORIGINALS else None
        if original is None or not (rest := inspect.getdoc(original)):
            return text
        text += f"\n\n{self.name}\n{'=' * len(self.name)}\n\n{rest}\n"
        if self.function.__doc__ is self:
            self.function.__doc__ = text
        return text


def _parameters(function: Any) -> tuple[str, ...]:
    if isinstance(function, type):
        function = function.__dict__.get("__init__")
    code = getattr(getattr(function, "__wrapped__", function), "__code__", None)
    return () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def original_of(name: str) -> Any:
    """Return the object with this full name in NumPy or SciPy, which the NumPy plugin imports; None if there is none."""
    library, *path = name.split(".")
    module = library if library == "numpy" else f"{library}.{path.pop(0)}"
    try:
        return functools.reduce(getattr, path, manager.get("numpy").module(module))
    except (AttributeError, BackendError, ImportError):
        return None


def referring(value: Any, text: str, name: str, also: Mapping[str, str] = {}) -> None:
    """Give a function, a class or an object a docstring that is followed, when read, by that of `name`, a full name."""
    if __doc__ is None:  # python -OO
        return
    value.__doc__ = short = Referring(text)
    short.function, short.name, short.also = value, name, also


def refer(namespace: Mapping[str, Any], library: str, also: Mapping[str, str] = {}) -> None:
    """Make the public functions of a module, and the methods of its classes, refer to those of a module of NumPy or SciPy.

    Parameters
    ----------
    namespace : dict
        The module's names; those listed in its ``__all__`` count if they are defined in it and have a docstring.
    library : str
        The other module.
    also : dict, optional
        The description for all functions with a parameter whose name begins with the key.
    """
    for name in namespace["__all__"]:
        value = namespace[name]
        if getattr(value, "__module__", "") == namespace["__name__"] and value.__doc__:
            referring(value, value.__doc__, f"{library}.{name}", also)
            if isinstance(value, type):
                refer_methods(value, f"{library}.{name}")


def refer_methods(cls: type, original: str) -> None:
    """Make the methods of a class refer to those of another library's class."""
    for name, method in vars(cls).items():
        if type(method) is FunctionType and type(method.__doc__) is str:
            referring(method, method.__doc__, f"{original}.{name}")


# -- how a docstring is completed --------------------------------------------------------------------------------------


def _completed(short: str, function: FunctionType, name: str, chapter: Chapter) -> str:
    """Return the complete docstring of a function with this name in its chapter."""
    types, whole, source, elementwise, methods = chapter
    if methods and N != "\n":
        short = short.replace(f"{N}    ", N)  # they are indented further
    stub: FunctionType = getattr(function, "__wrapped__", function)
    names, stars = _names_in(stub.__code__, first=int(methods))
    op = getattr(function, "op", None)
    rule = NONE if op is None else op.rule
    text, _, examples = short.rstrip().partition(PROMPT)
    text, _, notes = text.partition(BLANK)
    said: dict[str, str] = {}
    if ":" in notes:
        text, notes = read(text, notes, names, types, said)
    annotations = stub.__annotations__
    if elementwise:
        text, _, derivative = text.partition(" Derivative: ")
        kind = annotations[names[0]]
        said |= _elementwise_operands(names, kind, whole, said)
        notes = _elementwise_notes(notes, derivative, kind, rule)
    if op is not None:
        whole = dict.fromkeys(ALIASES, OF_PYTORCH) | whole
    if takes := _entries(names, stars, whole | said):
        text += PARAMETERS + takes
    gives: str = annotations.get("return", "None")
    if gives != "None":
        result = said.get("Returns") or _usual_result(name, names, rule, elementwise=elementwise)
        text += RETURNS + (result[3:] if result[:3] == " : " else TYPES.get(gives, gives) + result)
    if methods and name[-1] == "_":
        said.setdefault("Raises", IN_PLACE)
    if "Raises" in said:
        text += RAISES + said["Raises"]
    if rule.boolean and not notes:
        notes = "No derivative: the result is boolean."
    if source and "Source: " not in notes:
        notes = f"{notes}{N}{source}" if notes else source
    if notes:
        text += NOTES + notes
    if examples:
        text += EXAMPLES + examples if "import agrad" in examples else EXAMPLES + IMPORT + examples
    return text + N


def _names_in(code: CodeType, first: int) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return the names of a function's parameters from one on, in the order of its signature, with the stars of variadic ones."""
    positional, named = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    names, stars = code.co_varnames[first:positional], {}
    if code.co_flags & CO_VARARGS:
        stars[code.co_varnames[named]] = "*"
        names += (code.co_varnames[named],)
    names += code.co_varnames[positional:named]
    if code.co_flags & CO_VARKEYWORDS:
        last = code.co_varnames[named + len(stars)]
        stars[last] = "**"
        names += (last,)
    return names, stars


def _elementwise_operands(
    names: tuple[str, ...], kind: str, whole: Mapping[str, str], said: Mapping[str, str]
) -> dict[str, str]:
    """Return the descriptions of the operands of an elementwise function whose annotation is `kind`: `x`, or `x1` and `x2`."""
    alone = names[0] == "x"
    more = KINDS[kind] + (", any shape." if alone else "; shapes broadcast, dtypes promote.")
    return {each: f"{said.get(each) or whole[each]} {more}" for each in (names[:1] if alone else names)}


def _elementwise_notes(notes: str, derivative: str, kind: str, rule: Rule) -> str:
    """Return the notes on an elementwise function: its derivative, or that it has none, and the rule for complex operands."""
    if derivative:
        notes = f"Derivative: {derivative}{N}{notes}" if notes else f"Derivative: {derivative}"
    elif not notes and kind in {"Bits", "Integral"}:
        notes = f"No derivative: the result is {KINDS[kind].lower()}."
    if kind in HOLOMORPHIC and rule.kind == "elementwise" and any(rule.vjp.values()):
        notes += COMPLEX
    return notes


def _entries(names: tuple[str, ...], stars: Mapping[str, str], described: Mapping[str, str]) -> str:
    """Return the entries of parameters; adjacent ones with the same description share one."""
    takes = last = ""
    for each in names:
        entry = described.get(each)
        if entry:
            if entry == last:
                takes = f"{takes.removesuffix(last)}, {each}{last}"
            else:
                takes += f"{N}{stars.get(each, '')}{each}{entry}"
            last = entry
    return takes


def _usual_result(name: str, names: tuple[str, ...], rule: Rule, *, elementwise: bool) -> str:
    """Return the default description of a result."""
    if elementwise or rule.boolean or rule.kind == "elementwise":
        return RESULTS.get((rule.boolean, len(names)), RESULT)
    return THIS if name[-1] == "_" else RESULT


def read(
    head: str, notes: str, names: tuple[str, ...], types: Mapping[str, str], said: dict[str, str]
) -> tuple[str, str]:
    """Collect the fields after the first line; return the text before them and the notes after them."""
    keys: Sequence[str] = ()
    lines, _, after = notes.partition(f"\n{N}")
    for line in lines.split(N):
        group, _, meaning = line.partition(": ")
        if group in names:
            if meaning[:7] == "As for ":  # another docstring states the type
                said[group] = f"{N}    {meaning}"
            else:
                said[group] = f"{types.get(group, ' : Tensor')}{N}    {meaning}"
            keys = (group,)
        elif group == "Returns":
            said[group] = f"{N}    {meaning}"
            keys = (group,)
        elif line[0] == " " and keys:
            for key in keys:
                said[key] += N + line
        elif group[:-1] in names and group[-1] == " ":
            said[group[:-1]] = f" : {meaning}"
            keys = (group[:-1],)
        elif what := subject(line, names):
            entry = f"{N}    {meaning}" if meaning else ""
            if what == "Raises":
                said[what] = f"{said.get(what, '')}{N}{group.removesuffix(':')}{entry}"
                keys = (what,)
                continue
            keys = [key.strip(" *") for key in group.removesuffix(":").split(",")]
            if group[-1] == " ":
                entry = f" : {meaning}"
            elif meaning[:7] != "As for ":
                entry = types.get(what, " : Tensor") + entry
            said.update(dict.fromkeys(keys, entry))
        elif said:
            rest = lines[lines.index(N + line) + len(N) :]
            return head, f"{rest}\n{N}{after}" if after else rest
        else:
            if after:
                before, rest = read("", after, names, types, said)
                if said:
                    return f"{head}\n{N}{lines}{before}", rest
            return head, notes
    return head, after


def subject(line: str, names: tuple[str, ...]) -> str:
    """The subject of a line: a parameter, "Returns" or "Raises"; "" for notes."""
    group, colon, _ = line.partition(":")
    if not colon:
        return ""
    word = group.partition(",")[0].strip(" *")
    if word in names or word == "Returns":
        return word
    return "Raises" if word.endswith(("Error", "UnsupportedOp")) and " " not in word else ""
