"""``capture``: the program of a function, and calls of programs."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from agrad import tree
from agrad.core import errors, mode
from agrad.core.backend import backend_of
from agrad.core.node import Freed, Node, ancestors
from agrad.core.spec import Spec
from agrad.core.tensor import Tensor
from agrad.program.arguments import NUMBERS, argument_of, owner_of
from agrad.program.blank_recording import BlankRecorder, ShapeDtype, blank_tensor
from agrad.program.closures import AccessPath, Argument, Found, Reach
from agrad.program.program import Given, Leaf, Number, Program, Structure, Write
from agrad.program.recording import CaptureError, RecordedHook, Recorder, grad_of


def capture(function: Callable[..., Any]) -> Callable[..., Program]:
    """Return a function that returns the program of `function` for its arguments.

    The function runs once: forward, backward passes, gradients of gradients, transforms and in-place updates become
    steps. Tensors it finds outside of its arguments (in closures, globals, attributes) are inputs that the program
    looks up at every call; random numbers are drawn anew, as in the function.

    Parameters
    ----------
    function : callable
        Takes tensors, arrays or containers of them, and other values, which become part of the program.

    Returns
    -------
    callable
        Takes the arguments, returns a `Program` for their shapes and dtypes. If one of them is a `ShapeDtype`, nothing
        is
        computed: the function runs on arrays without elements, and its writes to outer tensors are undone.

    Raises
    ------
    CaptureError
        If no program can hold what the function does: if it branches on a value, requests one as a Python number or
        array, creates a result whose shape depends on values, keeps a tensor elsewhere than in its result, or finds one
        in a place that cannot be found again. The function has then had its effects up to that point.

    Examples
    --------
    >>> import agrad as ag
    >>> program = ag.func.capture(lambda x: ag.sum(x * x))(ag.tensor([1.0, 2.0]))
    >>> program(ag.tensor([3.0, 4.0]))
    tensor(25.)
    >>> print(program.text(notes=False))
    def program(xp, v0):
        v1 = xp.multiply(v0, v0)
        v2 = xp.sum(v1, axis=None, dtype=None, keepdims=False); del v1
        return (v2, )
    <BLANKLINE>
    """

    @functools.wraps(function)
    def captured(*args: Any, **kwargs: Any) -> Program:
        if not any(isinstance(leaf, ShapeDtype | Spec) for leaf in tree.flatten((args, kwargs))[0]):
            return program_alone(Recorder(), function, args, kwargs)
        recorder = BlankRecorder()
        try:
            return program_alone(recorder, function, args, kwargs)
        finally:
            recorder.put_back()

    return captured


def program_alone(
    recorder: Recorder, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Program:
    """Return the program of a call that leaves nothing behind but its results and writes."""
    program = captured_call(recorder, function, args, kwargs).program
    kept = recorder.escaped(program.outputs)
    if kept is not None:
        raise CaptureError(
            f"capture: a tensor of shape {tuple(kept.shape)} that the function created lives on outside of its"
            "results: a list or an attribute has it, or the graph of one that does. No call of a program could put"
            f" another one there{errors.called()}"
        )
    return program


def eval_shape(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that returns the shapes and dtypes of `function`'s result, and computes nothing.

    It runs on arrays without elements, as in `capture`; its writes to outer tensors are undone.

    Parameters
    ----------
    function : callable
        Takes tensors, arrays or containers of them, and other values.

    Returns
    -------
    callable
        Takes the arguments, with a `ShapeDtype` for each array, or arrays and tensors, of which only shapes and dtypes
        are used. Returns the function's result, with a `ShapeDtype` for each tensor and array.

    Raises
    ------
    CaptureError
        If the function branches on a value, requests one, or creates a result whose shape depends on values.

    Examples
    --------
    >>> import agrad as ag
    >>> def loss(w, x):
    ...     return ag.mean((x @ w) ** 2)
    >>> w, x = ag.func.ShapeDtype((3,), "float32"), ag.func.ShapeDtype((10**9, 3), "float32")
    >>> ag.func.eval_shape(ag.func.value_and_grad(loss))(w, x)
    (ShapeDtype((), float32), ShapeDtype((3,), float32))
    """

    @functools.wraps(function)
    def shaped(*args: Any, **kwargs: Any) -> Any:
        leaves, treedef = tree.flatten((args, kwargs))
        recorder = BlankRecorder()
        tensors = introduced(recorder, [blank_tensor(leaf) if is_array(leaf) else leaf for leaf in leaves])[1]
        try:
            returned = recorded_run(recorder, function, *tree.unflatten(treedef, tensors))
        finally:
            recorder.put_back()
        return tree.map(lambda leaf: ShapeDtype(leaf.shape, leaf.dtype) if is_array(leaf) else leaf, returned)

    return shaped


def is_array(leaf: Any) -> bool:
    """Return whether a leaf is a tensor or an array, or only the shape and dtype of one; Python's numbers are not."""
    if isinstance(leaf, Tensor | ShapeDtype | Spec):
        return True
    return not isinstance(leaf, NUMBERS) and backend_of(leaf) is not None


#: Why a function that sets a mode for its caller is no program.
MODE_LEFT = (
    "capture: it sets a mode (as set_grad_enabled, or a block that it enters) and leaves it set: a program would not"
)


class CapturedCall(NamedTuple):
    """A captured call.

    Attributes
    ----------
    program : Program
        What it did.
    returned : object
        The function's result.
    given : list
        Its arguments, flattened, with tensors for arrays.
    roots : list
        Where outer values are found again.
    """

    program: Program
    returned: Any
    given: list[Any]
    roots: list[Any]


def captured_call(
    recorder: Recorder, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> CapturedCall:
    """Call a function within a recording; return its program with its arguments and result."""
    leaves, treedef = tree.flatten((args, kwargs))
    described, tensors = introduced(recorder, leaves)
    args, kwargs = tree.unflatten(treedef, tensors)
    returned = recorded_run(recorder, function, args, kwargs)
    roots = [function, *(leaf for leaf in leaves if not isinstance(leaf, Tensor))]
    results = results_of(recorder, returned, leaves)
    program = program_of(recorder, results, Structure(treedef, tuple(described)), tensors, Reach(roots))
    parameters = parameters_of(function, len(args))
    names = {**program.names, **names_of(treedef, described, parameters)}
    program = program.replaced(parameters=parameters, names=names)
    return CapturedCall(program, returned, tensors, roots)


def recorded_run(
    recorder: Recorder, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the result of a function that runs within a recording."""
    before = left = mode.get_mode()
    is_left = False
    try:
        try:
            mode.push(recorder=recorder)
            returned = function(*args, **kwargs)
        finally:
            left = mode.get_mode()
            mode.set_mode(before)
    finally:
        is_left = mode.restore_left_modes(left, before, recorder)
    if is_left:
        raise CaptureError(f"{MODE_LEFT}{errors.called()}")
    if recorder.hooked and hooks_left(recorder, graph_of(returned)):
        raise CaptureError(
            "capture: a hook is registered on what the function computes, and the derivative of a program's steps runs"
            f" none: capture the function that runs the backward pass, too{errors.called()}"
        )
    return returned


def introduced(recorder: Recorder, leaves: Sequence[Any]) -> tuple[list[Any], list[Any]]:
    """Tell a recorder about the arguments; return each in the form for the program, and for the function."""
    described: list[Any] = []
    tensors: list[Any] = []
    for leaf in leaves:
        if isinstance(leaf, ShapeDtype | Spec):
            tensor = blank_tensor(leaf)
        elif not isinstance(leaf, Tensor) and (isinstance(leaf, NUMBERS) or owner_of(leaf) is None):
            number = recorder.number_of_float(leaf)
            described.append(leaf if number is None else Number(number))
            tensors.append(leaf)
            continue
        else:
            tensor = argument_of(leaf, "capture")  # an array as a Tensor on its memory
        recorder.meet(tensor)
        tensors.append(tensor)
        described.append(Leaf(recorder.input(tensor._raw), not isinstance(leaf, Tensor)))
    return described, tensors


def program_of(
    recorder: Recorder,
    results: Structure,
    arguments: Structure,
    given: Sequence[Any],
    reach: Iterable[Found],
    settings: Sequence[int] = (),
) -> Program:
    """Return the program that a recorder has recorded."""
    numbers = dict.fromkeys(leaf.number for leaf in arguments.leaves if isinstance(leaf, Leaf | Number))
    writes = writes_of(recorder, reach, given)
    outputs = [leaf.number for leaf in results.leaves if isinstance(leaf, Leaf | Number)]
    outputs += [write.number for write in writes if write.number is not None]
    outputs += recorder.extra_outputs
    draws = [number for number, _ in recorder.draws]
    program = recorder.program([*numbers], outputs)
    used = {number for step in program.steps for number in step.refs} | {*outputs}
    others = {n: array for n, array in recorder.inputs.values() if n in used and n not in numbers}
    outside = found_outside(recorder, others, reach)
    return program.replaced(
        inputs=(*numbers, *outside, *settings, *draws),
        keys=tuple(draws),
        arguments=arguments,
        results=results,
        outside=outside,
        writes=tuple(writes),
        sources={n: recorder.sources[id(key)] for n, key in recorder.draws if id(key) in recorder.sources},
        seeds=tuple(recorder.seeds),
        functions=tuple(dict.fromkeys(recorder.functions)),
        names=names_of(arguments.treedef, arguments.leaves) | {n: str(origin) for n, origin in outside.items()},
    )


def results_of(recorder: Recorder, returned: Any, arguments: Sequence[Any]) -> Structure:
    """Return a function's result in the form for the program."""
    leaves, treedef = tree.flatten(returned)
    found: list[Any] = []
    for leaf in leaves:
        number = recorder.number_of_float(leaf)
        place = next((i for i, argument in enumerate(arguments) if argument is leaf), None)
        if number is not None:
            found.append(Number(number))
        elif isinstance(leaf, Tensor) and place is not None:
            found.append(Given(place))
        elif isinstance(leaf, Tensor):
            spent = is_freed(leaf)
            found.append(Leaf(recorder.input(leaf._raw), raw=False, followed=not spent, spent=spent))
        elif isinstance(leaf, NUMBERS) or owner_of(leaf) is None:
            found.append(leaf)
        else:
            found.append(Leaf(recorder.input(leaf), raw=True))
    return Structure(treedef, tuple(found))


def writes_of(recorder: Recorder, reach: Iterable[Found], given: Sequence[Any]) -> list[Write]:
    """Return the writes to outer tensors."""
    changed: list[tuple[Tensor, str, int | None]] = []
    grads: dict[int, Tensor] = {}
    for tensor, array, grad in tuple(recorder.met.values()):
        if tensor._raw is not array:
            changed.append((tensor, "data", recorder.input(tensor._raw)))
        now = grad_of(tensor)
        if grad is not None:
            grads[id(tensor)] = grad
        if now is not grad:  # a gradient that gets another value is a separate tensor
            changed.append((tensor, "grad", None if now is None else recorder.input(now._raw)))
        elif now is None and recorder.grads.get(id(tensor)) == "set":
            changed.append((tensor, "grad", None))  # there was none: another call may find one
    if not changed:
        return []
    wanted = {id(tensor): tensor for tensor, _, _ in changed}
    ways: dict[int, AccessPath | Argument] = {
        id(leaf): Argument(place) for place, leaf in enumerate(given) if id(leaf) in wanted
    }
    for found in reach:
        if len(ways) == len(wanted):
            break
        if id(found.value) in wanted:
            ways.setdefault(id(found.value), found.origin)
        grad = grads.get(id(found.value))  # as it was: by now another one may be there
        if grad is not None and id(grad) in wanted:
            ways.setdefault(id(grad), Found(grad, found, ("attribute", "grad")).origin)
    changed = [each for each in changed if id(each[0]) in ways or id(each[0]) not in recorder.possibly_created]
    missing = [tensor for tensor, _, _ in changed if id(tensor) not in ways]
    if missing:
        raise CaptureError(
            f"capture: a tensor of shape {missing[0].shape} is written to, which no call could find again: neither the"
            f" function's closure nor globals nor arguments lead to it{errors.called()}"
        )
    had = {
        key: None if recorder.grads.get(key) == "set" else grad is not None
        for key, (_, _, grad) in recorder.met.items()
    }
    recorder.written = [tensor for tensor, _, _ in changed]
    return [Write(ways[id(tensor)], what, number, had[id(tensor)]) for tensor, what, number in changed]


def graph_of(returned: Any, first: int = 0) -> list[Node]:
    """Return the nodes that a backward pass from a function's result will reach, oldest first, from a number on."""
    tensors = [leaf for leaf in tree.flatten(returned)[0] if isinstance(leaf, Tensor)]
    roots = [t._node for t in tensors if t._node is not None and not is_freed(t)]
    return sorted(ancestors(roots, oldest=first), key=lambda node: node.seq)


def hooks_left(recorder: Recorder, nodes: Sequence[Node]) -> list[RecordedHook]:
    """Return the hooks, registered in a recording, that a backward pass through nodes will run."""
    return [hooked for node in nodes for hooked in recorder.hooked if hooked.node is node and hooked.hook is not None]


def is_freed(tensor: Tensor) -> bool:
    """Return whether a backward pass has run through a tensor's history and freed it."""
    return tensor._node is not None and any(type(node.saved) is Freed for node in ancestors([tensor._node]))


def found_outside(recorder: Recorder, arrays: dict[int, Any], reach: Iterable[Found]) -> dict[int, AccessPath]:
    """Return where outer arrays are found, by number."""
    if not arrays:
        return {}
    before = {id(tensor): array for tensor, array, _ in recorder.met.values()}
    numbers = {id(array): number for number, array in arrays.items()}
    places: dict[int, AccessPath] = {}

    def array_of(value: Any) -> Any:
        return before.get(id(value), value._raw) if isinstance(value, Tensor) else value

    grads = {id(tensor): grad for tensor, _, grad in recorder.met.values() if grad is not None}
    for found in reach:
        number = numbers.get(id(array_of(found.value)))
        if number is not None and number not in places:
            places[number] = found.origin
        grad = grads.get(id(found.value))  # as it was: by now another one may be there
        number = None if grad is None else numbers.get(id(array_of(grad)))
        if number is not None and number not in places:
            places[number] = Found(grad, found, ("attribute", "grad")).origin
        if len(places) == len(numbers):
            break
    for number, array in arrays.items():
        if number not in places:
            raise CaptureError(
                f"capture: an array of shape {tuple(array.shape)} is used that no call could find again: neither the"
                f" function's closure nor globals nor arguments lead to it{errors.called()}"
                f"\n  Arrays that {_library(array)} itself creates within the function are not recorded. Create them by agrad's function of the same"
                " name (ag.eye, ag.arange), or by agrad.numpy's; or create them outside and pass them. Take a part of an array, data[k],"
                " as ag.asarray(data)[k]."
            )
    return {number: places[number] for number in arrays}


def _library(array: Any) -> str:
    backend = backend_of(array)
    return "an array library" if backend is None else backend.name


def parameters_of(function: Callable[..., Any], count: int) -> tuple[str, ...]:
    """Return the names of a function's first parameters; () if it does not declare them."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return ()
    names: list[str] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            names += [f"{parameter.name}_{i}" for i in range(count - len(names))]
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            names.append(parameter.name)
    return tuple(names[:count])


def names_of(treedef: tree.TreeDef, leaves: Sequence[Any], parameters: Sequence[str] = ()) -> dict[int, str]:
    """Return the names for the arguments of a program."""
    positional, named = treedef.children
    words = [*parameters, *(f"args[{i}]" for i in range(len(parameters), len(positional.children))), *named.keys]
    children = (*positional.children, *named.children)
    paths = [f"{word}{path}" for word, child in zip(words, children, strict=True) for path in child.paths()]
    return {leaf.number: path for path, leaf in zip(paths, leaves, strict=True) if isinstance(leaf, Leaf | Number)}
