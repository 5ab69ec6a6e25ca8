"""The public names of a namespace, and the error for a missing one, which says what it is called here or what replaces it.

A namespace ends with ``__getattr__, __dir__ = names.of(__name__)``, or raises `MissingName` in its own ``__getattr__``.
The search runs only when somebody reads the message, so ``hasattr`` stays cheap.
"""

from __future__ import annotations

import enum
import functools
import importlib
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, signature
from types import CodeType, FunctionType
from typing import Any, NoReturn, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

#: How similar a suggested name must be to the one written: for names of the namespace, and of the table.
ALIKE, ALIKE_ELSEWHERE = 0.75, 0.85
#: Names this short are similar by chance: NumPy's `ma` is not a misspelt `max`.
SHORT = 3
#: Namespaces of classes whose constructors take keywords.
CLASSES = (
    *("agrad.nn", "agrad.nn.parameter", "agrad.optim", "agrad.optim.lr_scheduler"),
    *("agrad.utils.data", "agrad.distributions"),
)
#: Namespaces where a missing name is more likely a misspelt name of the library itself than another library's.
NAMED_AS_ELSEWHERE = ("agrad.numpy", "agrad.scipy")


class MissingName(AttributeError):
    """A namespace does not have a name; the suggestion is looked up when the message is read."""

    def __init__(self, namespace: str, name: str) -> None:
        super().__init__(namespace, name, name=name)

    def __str__(self) -> str:
        namespace, name = self.args
        return f"module {namespace!r} has no attribute {name!r}{hint(namespace, name)}"


class UnexpectedKeyword(TypeError):
    """A function does not take a keyword; the right one is looked up when the message is read."""

    def __init__(self, function: str, name: str) -> None:
        super().__init__(function, name)

    def __str__(self) -> str:
        function, name = self.args
        return f"{function}() got an unexpected keyword argument {name!r}{keyword(function, name)}"


def unexpected(function: str, unknown: Mapping[str, Any]) -> UnexpectedKeyword:
    """Return the error for the keywords in `unknown`, which a function gathers only to say what they are called here."""
    return UnexpectedKeyword(function, next(iter(unknown)))


def refusing(function: F) -> F:
    """Leave the last parameter, ``**unknown``, out of a function's signature: no call may pass any."""
    found = signature(function)
    function.__signature__ = found.replace(parameters=[*found.parameters.values()][:-1])  # type: ignore[attr-defined]
    return function


class Missing(enum.Enum):
    """The default of operands that a call must have."""

    MISSING = enum.auto()


MISSING = Missing.MISSING

#: Python's message for a keyword that a function does not take: the function's full name, and the keyword.
UNEXPECTED = re.compile(r"((?:\w+\.)*\w+)\(\) got an unexpected keyword argument '(\w+)'")


#: The classes whose constructors say it.
_EXPLAINED: set[type] = set()


def refused(error: TypeError, *callers: CodeType) -> str | None:
    """Return the keyword of a call that Python itself refused; None for any other error.

    Who passes a user's arguments on catches a TypeError and asks: that costs nothing as long as none is raised.

    Parameters
    ----------
    error : TypeError
        The error, as caught.
    *callers : CodeType
        The code between the user's call and the refused one: what further functions raise is another error.
    """
    found = UNEXPECTED.match(str(error))
    step = error.__traceback__
    while step is not None:
        if step.tb_frame.f_code not in callers:
            return None
        step = step.tb_next
    return found[2] if found else None


def explain_made(kind: Any) -> Any:
    """Make a class of agrad say in errors what the keywords of its constructor are called; return it.

    Making an object costs far more than the call in between does. Anything but a class is returned as it is.
    """
    if not isinstance(kind, type):
        return kind
    # where it is defined: subclasses and their other bases find the constructors that they would without this
    home = next(each for each in kind.__mro__ if "__init__" in vars(each))
    own = vars(home)["__init__"]
    if home in _EXPLAINED or not isinstance(own, FunctionType) or not home.__module__.startswith("agrad"):
        return kind
    _EXPLAINED.add(home)

    @functools.wraps(own)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            own(self, *args, **kwargs)
        except TypeError as error:
            written = refused(error, made.__code__)  # type: ignore[attr-defined]
            if written is None:
                raise
            named = next((each for each in type(self).__mro__ if each.__module__.startswith("agrad.")), home)
            raise UnexpectedKeyword(named.__name__, written) from None

    type.__setattr__(home, "__init__", made)
    return kind


def of(namespace: str) -> tuple[Callable[[str], NoReturn], Callable[[], list[str]]]:
    """Return a module's ``__getattr__`` and ``__dir__``, which shows exactly what its ``__all__`` lists."""

    def missing(name: str) -> NoReturn:
        raise MissingName(namespace, name)

    def shown() -> list[str]:
        return sorted(sys.modules[namespace].__all__)

    return missing, shown


def hint(namespace: str, name: str) -> str:
    """Return the end of a message about a name that `namespace` does not have, "" if nothing is known about it.

    Parameters
    ----------
    namespace : str
        A module of agrad or of a plugin, or ``"agrad.Tensor"``.
    name : str
        As it was written.

    Returns
    -------
    str
        Begins with a semicolon.
    """
    import difflib  # noqa: PLC0415 (for messages only, as is the table)

    from agrad.view import elsewhere  # noqa: PLC0415 (see above)

    if name.startswith("_"):
        return ""
    for key in (f"{namespace.removeprefix('agrad.')}.{name}", name):
        if key in elsewhere.HERE:
            return f"; here it is {elsewhere.HERE[key]}"
        if key in elsewhere.INSTEAD:
            return f"; not there: {elsewhere.INSTEAD[key]}"
    tensor = sys.modules["agrad"].Tensor
    for other in elsewhere.NAMESPACES:
        if name in dir(importlib.import_module(other)):
            return f"; here it is {other}.{name}"
    if hasattr(tensor, name):
        return f"; tensors have it: x.{name}"
    if name.endswith("_") and (base := name[:-1]):
        if hasattr(tensor, base):
            return f"; not there in place: use x = x.{base}(...)"
        for other in elsewhere.NAMESPACES:
            if base in dir(importlib.import_module(other)):
                return f"; not there in place: use x = {other}.{base}(x, ...)"
    others = f"; {elsewhere.OTHERS[namespace]}" if namespace in elsewhere.OTHERS else ""
    own = [
        there
        for there in (dir(tensor) if namespace == "agrad.Tensor" else dir(sys.modules[namespace]))
        if there[0] != "_"
    ]
    letters = {there.replace("_", "").lower(): there for there in own}
    if (there := letters.get(name.replace("_", "").lower())) is not None:
        return f"; did you mean {there!r}?"
    if len(name) <= SHORT:
        return others
    known = [*own]
    if not namespace.startswith(NAMED_AS_ELSEWHERE):
        known += [key for key in (*elsewhere.HERE, *elsewhere.INSTEAD) if "." not in key]
    for alike in difflib.get_close_matches(name, known, cutoff=ALIKE):
        if alike in own:
            return f"; did you mean {alike!r}?"
        if difflib.SequenceMatcher(None, alike, name).ratio() >= ALIKE_ELSEWHERE:
            return f"; if {alike!r} is meant{hint(namespace, alike)}"
    return others


def hint_of_module(name: str) -> str:
    """Return the end of a message about an attribute that an `nn.Module` does not have, "" if it may be the user's own."""
    from agrad.view import elsewhere  # noqa: PLC0415 (as above)

    return f"; use {elsewhere.MODULE[name]}" if name in elsewhere.MODULE else ""


def functions(name: str) -> Iterator[tuple[str, Mapping[str, Parameter]]]:
    """Yield agrad's functions and classes of a name, with their parameters; of a tensor's method first itself."""
    home = sys.modules["agrad"]
    namespaces = [home, home.extra, home.linalg, home.nn.functional, home.fft, home.special, home.func]
    namespaces += [sys.modules[other] for other in CLASSES if other in sys.modules]
    owner, _, name = name.rpartition(".")
    if owner == "Tensor" and (method := getattr(home.Tensor, name, None)) is not None:
        yield f"x.{name}", signature(method).parameters
    if name == "forward" and (method := getattr(getattr(home.nn, owner, None), name, None)) is not None:
        yield f"agrad.nn.{owner}.{name}", signature(method).parameters
    for namespace in namespaces:
        found = vars(namespace).get(name)
        if callable(found):
            yield f"{namespace.__name__}.{name}", signature(found).parameters


def keyword(function: str, written: str) -> str:
    """Return agrad's name for another library's keyword, "" if nothing is known.

    Parameters
    ----------
    function : str
        The function's name, a class's, or a method's as ``Tensor.sum``.
    written : str
        The keyword.

    Returns
    -------
    str
        Begins with a semicolon.
    """
    import difflib  # noqa: PLC0415 (for messages only, as is the table)

    from agrad.view import elsewhere  # noqa: PLC0415 (as above)

    name = function.rpartition(".")[2]
    if name in elsewhere.OTHERWISE and function == name and written in ("as_tuple", "dim", "p"):
        return f"; {elsewhere.OTHERWISE[function]}"
    known = []
    for full, takes in functions(function):
        if written not in takes:
            known.append((full, takes))
        elif takes[written].kind is Parameter.POSITIONAL_ONLY and not known:
            return f"; {full} takes it by position, without a name"
    for full, takes in known:
        for there in elsewhere.KEYWORDS.get(written, ()):
            if there in takes:
                if takes[there].kind is Parameter.POSITIONAL_ONLY:
                    return f"; {full} takes it by position, without a name"
                more = ", and keepdims= for keepdim" if written == "dim" and "keepdims" in takes else ""
                return f"; {full} has {there}= for it{more}"
    for full, takes in known:
        for alike in difflib.get_close_matches(written, [*takes], 1, ALIKE):
            if takes[alike].kind in (Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD):
                return f"; did you mean {full}'s {alike}=?"
    if written in elsewhere.NO_KEYWORD and known:
        return f"; {elsewhere.NO_KEYWORD[written].format(known[0][0])}"
    return ""


def without(function: str, argument: str) -> str:
    """Return what to write for a call that leaves out an argument which agrad needs, "" if nothing is known."""
    from agrad.view import elsewhere  # noqa: PLC0415 (as above)

    known = elsewhere.WITHOUT.get((function, argument))
    return "" if known is None else f"; {known}"
