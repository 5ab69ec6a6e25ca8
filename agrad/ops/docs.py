"""Docstrings that stand short in the source and are completed when their chapter is imported.

In the source stand the summary, what is particular, and examples. What follows from the signature, from the kind of the
op or from the chapter is said once: here, or where the chapter calls `complete`. `help()` shows numpydoc's sections of::

    \"\"\"Power, ``x1 ** x2``.

    x1, x2: Base and exponent.           parameters, of the type that their name has in the chapter
    axis : int or None                   or of this type
        The axis.
    Returns: Of the broadcast shape.
    ValueError: If they do not fit.      what it raises
    Derivative: ``x2 * x1**(x2 - 1)``.   what is none of these begins the notes

    (examples, from the first ``>>>`` on)
    \"\"\"

What stands before the parameters belongs to the summary; where nothing is said of them, all after the first line are
notes. A docstring that has sections in the source keeps them, and gets no others.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from inspect import CO_VARARGS
from types import FunctionType
from typing import Any

from agrad.core.rule import Rule

#: The end of a line in a docstring, which before Python 3.13 keeps the indentation of the source.
N = "\n" if sys.version_info >= (3, 13) else "\n    "

#: What a result is if nothing is said of it.
RESULT, THIS = f"{N}    The result.", f"{N}    This tensor."

#: And of an elementwise op, by whether it is boolean and by the number of operands.
RESULTS = {
    (False, 1): f"{N}    Of the shape and dtype of `x`.",
    (False, 2): f"{N}    Of the broadcast shape and the promoted dtype.",
    (True, 1): f"{N}    Boolean, of the shape of `x`.",
    (True, 2): f"{N}    Boolean, of the broadcast shape.",
}

#: What a method raises that changes its tensor.
IN_PLACE = f"{N}RuntimeError{N}    On a leaf that requires grad, while recording."

#: How annotations are said in words.
TYPES = {
    "tuple[Tensor, ...]": "tuple of Tensor",
    "tuple[Tensor, Tensor]": "tuple of Tensor",
    "Tensor | tuple[Tensor, ...]": "Tensor or tuple of Tensor",
    "Any": "object",
}

#: For functions that are no ops.
NONE = Rule("", "none")


def complete(
    namespace: Mapping[str, Any],
    arguments: Mapping[str, str],
    *,
    source: str = "",
    holomorphic: str = "",
    methods: bool = False,
) -> None:
    """Complete the docstrings of a chapter's functions, or of the methods of a class.

    Parameters
    ----------
    namespace : dict
        The functions by name; what else is in it is left alone, and so are helpers with a docstring of one line.
    arguments : dict
        What parameters are, by name: the type, and on the next line the meaning; or the type alone, of what each
        docstring describes.
    source : str, optional
        The last line of notes that name none.
    holomorphic : str, optional
        The line before it, of elementwise ops that take complex operands.
    methods : bool, optional
        They are methods: what nobody passes is not described.
    """
    types = {name: " : " + entry.partition("\n")[0] for name, entry in arguments.items()}
    whole = {name: " : " + entry.replace("\n", N) for name, entry in arguments.items() if "\n" in entry}
    home = namespace.get("__name__", "")
    for name, function in namespace.items():
        if type(function) is not FunctionType or name[0] == "_" or not function.__module__.startswith(home):
            continue
        stub: FunctionType = getattr(function, "__wrapped__", function)
        text = stub.__doc__
        if text is None or "---\n" in text or not (methods or "\n" in text):
            continue  # python -OO; sections in the source, or completed under another name; a helper
        if methods and N != "\n":
            text = text.replace(f"{N}    ", N)  # they stand further in
        code = stub.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        several = code.co_varnames[count] if code.co_flags & CO_VARARGS else ""
        names = code.co_varnames[methods : count + bool(several)]
        op = getattr(function, "op", None)
        rule = NONE if op is None else op.rule
        text, _, examples = text.rstrip().partition(f"\n{N}>>> ")
        text, _, notes = text.partition(f"\n{N}")
        said: dict[str, str] = {}
        if ":" in notes:
            text, notes = read(text, notes, names, types, said)

        takes = last = ""
        for each in names:
            if each in said:
                entry = said[each]
            elif each in whole:
                entry = whole[each]
            else:
                continue
            if entry == last:
                takes = f"{takes.removesuffix(last)}, {each}{last}"
            else:
                takes += f"{N}{each}{entry}" if each != several else f"{N}*{each}{entry}"
            last = entry
        if takes:
            text += f"\n{N}Parameters{N}----------{takes}"
        gives = stub.__annotations__.get("return", "None")
        if gives != "None":
            if "Returns" in said:
                result = said["Returns"]
            elif rule.kind == "elementwise" or rule.boolean:
                result = RESULTS.get((rule.boolean, len(names)), RESULT)
            else:
                result = THIS if name[-1] == "_" else RESULT
            text += f"\n{N}Returns{N}-------{N}{TYPES.get(gives, gives)}{result}"
        if methods and name[-1] == "_":
            said.setdefault("Raises", IN_PLACE)
        if "Raises" in said:
            text += f"\n{N}Raises{N}------{said['Raises']}"
        if rule.boolean and not notes:
            notes = "No derivative: the result is boolean."
        if holomorphic and rule.kind == "elementwise" and any(rule.vjp.values()) and takes_complex(takes):
            notes += N + holomorphic
        if source and "Source: " not in notes:
            notes = f"{notes}{N}{source}" if notes else source
        if notes:
            text += f"\n{N}Notes{N}-----{N}{notes}"
        if examples:
            first = "" if "import agrad" in examples else f"import agrad as ag{N}>>> "
            text += f"\n{N}Examples{N}--------{N}>>> {first}{examples}"
        function.__doc__ = text + N


def takes_complex(parameters: str) -> bool:
    """Return whether the description of parameters admits complex numbers."""
    return "omplex" in parameters or "Numeric" in parameters


def read(
    head: str, notes: str, names: tuple[str, ...], types: Mapping[str, str], said: dict[str, str]
) -> tuple[str, str]:
    """Collect the fields from what follows the first line; give the text before them and the notes after them."""
    keys: Sequence[str] = ()
    lines, _, after = notes.partition(f"\n{N}")
    for line in lines.split(N):
        group, _, meaning = line.partition(": ")
        if group in names:
            if meaning[:7] == "As for ":  # another docstring says of what type
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
    """What a line describes: a parameter, "Returns" or "Raises"; "" if it is one of the notes."""
    group, colon, _ = line.partition(":")
    if not colon:
        return ""
    word = group.partition(",")[0].strip(" *")
    if word in names or word == "Returns":
        return word
    return "Raises" if word.endswith("Error") and " " not in word else ""
