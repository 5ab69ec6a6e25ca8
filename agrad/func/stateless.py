"""Modules as functions of their parameters: the support of `grad`, `vmap` and the other transforms for `agrad.nn`."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import chain, starmap
from operator import setitem
from typing import TYPE_CHECKING, Any

from agrad.core.errors import called
from agrad.core.once import lock
from agrad.core.tensor import Tensor
from agrad.ops.docs import complete as _complete
from agrad.ops.manipulation import stack
from agrad.program.closures import FUNCTIONAL_STATE, FunctionalState

if TYPE_CHECKING:
    from agrad.nn.module import Module

Values = dict[str, Tensor]

#: Exhausts an iterator, and keeps nothing.
_exhaust = deque[None](maxlen=0).extend


def _restore_all() -> None:
    """Restore modules that are in use by calls in other threads, which a forked child does not have."""
    _exhaust(chain.from_iterable(lent.restoring for lent in reversed(FUNCTIONAL_STATE.values())))
    FUNCTIONAL_STATE.clear()


#: A module holds the tensors of one call at a time.
_CALLING = lock(undo=_restore_all)


def functional_call(
    module: Module,
    parameter_and_buffer_dicts: Values | Sequence[Values],
    args: Any = None,
    kwargs: Mapping[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with other tensors in place of its parameters and buffers, and leave the module unchanged.

    module : Module
        The module.
    parameter_and_buffer_dicts : dict of str to Tensor, or sequence of such
        Tensors by path, as in `Module.named_parameters` and `Module.named_buffers`. Names that are missing keep the
        module's own tensors.
    args : object or tuple, optional
        The positional arguments; anything but a tuple is a single argument.
    kwargs : mapping, optional
        The keyword arguments.
    tie_weights : bool, optional
        Replace a tensor that the module holds under several names under all of them.
    strict : bool, optional
        Refuse to omit a parameter or a buffer.
    Returns: What the module returns.
    RuntimeError: If a name is unknown (PyTorch ignores some), or one is omitted and `strict`.
    ValueError: If a name occurs in several dictionaries, or names of one tensor have different values and
        `tie_weights`.
    TypeError: If `module` is not a module, or a value is not a Tensor.
    If the module assigns to a buffer (``self.steps = self.steps + 1``), the new value is written to the dictionary that
    the buffer came from. During the call the module holds the other tensors: calls in several threads wait for one
    another, and nothing else should call the module itself meanwhile.

    >>> model = ag.nn.Linear(2, 1)
    >>> x = ag.tensor([[1.0, 2.0], [3.0, 4.0]])
    >>> def loss(params, x):
    ...     return (ag.func.functional_call(model, params, x) ** 2).sum()
    >>> params = {name: p.detach() for name, p in model.named_parameters()}
    >>> ag.func.grad(loss)(params, x)["weight"].shape
    (1, 2)
    >>> ag.func.vmap(ag.func.grad(loss), in_dims=(None, 0))(params, x)["weight"].shape
    (2, 1, 2)
    """
    from agrad.nn.module import Module  # noqa: PLC0415 (nn is loaded at first use)

    if not isinstance(module, Module):
        raise TypeError(f"functional_call() takes a Module, not {type(module).__name__}{called()}")
    given = _given(parameter_and_buffer_dicts)
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _CALLING:
        held, values = _replacements(module, given, tie_weights=tie_weights, strict=strict)
        places = {name: _place(module, name) for name in values}
        # installed and removed in one C call each, which no signal handler interrupts
        replacing = starmap(setitem, [(*place, values[name]) for name, place in places.items()])
        restoring = starmap(setitem, [(*place, held[name]) for name, place in places.items()])
        lent = FunctionalState(values, held, places, restoring)
        try:
            FUNCTIONAL_STATE[id(lent)] = lent
            _exhaust(replacing)
            result = module(*args, **(kwargs or {}))
            updates = [(source, name, dict.get(*places[name], source[name])) for name, (source, _) in given.items()]
            _exhaust(starmap(setitem, updates))
            return result
        finally:
            try:
                _exhaust(restoring)
            finally:
                FUNCTIONAL_STATE.pop(id(lent), None)


def stack_module_state(models: Sequence[Module]) -> tuple[Values, Values]:
    """Return the parameters of several modules of one kind as one stacked tensor each, and likewise the buffers.

    models : sequence of Module
        Modules of one class with equal shapes.
    Returns : params, buffers : dict of str to Tensor
        By path, with the modules along the first axis. They are new leaves, which require gradients where the modules'
        parameters do: an optimizer can train them, without any effect on the modules.
    RuntimeError: If there are no modules, or if they differ in class, in mode, or in names, shapes or training of their
        tensors.

    >>> models = [ag.nn.Linear(2, 1) for _ in range(5)]
    >>> params, buffers = ag.func.stack_module_state(models)
    >>> params["weight"].shape
    (5, 1, 2)
    >>> call = lambda params, x: ag.func.functional_call(models[0], params, x)
    >>> ag.func.vmap(call, in_dims=(0, None))(params, ag.ones((3, 2))).shape
    (5, 3, 1)
    """
    members = list(models)
    if not members:
        raise RuntimeError(f"stack_module_state: Expected at least one model, got 0.{called()}")
    if any(m.training != members[0].training for m in members):
        raise RuntimeError(f"stack_module_state: Expected all models to have the same training/eval mode.{called()}")
    if any(type(m) is not type(members[0]) for m in members):
        raise RuntimeError(f"stack_module_state: Expected all models to be of the same class.{called()}")
    params = _stacked([dict(m.named_parameters()) for m in members])
    return params, _stacked([dict(m.named_buffers()) for m in members])


def _given(dicts: Any) -> dict[str, tuple[Values, Tensor]]:
    """Return the values by name, each with its dictionary."""
    if isinstance(dicts, dict):
        dicts = (dicts,)
    elif not isinstance(dicts, list | tuple):
        raise ValueError(  # noqa: TRY004 (PyTorch's type)
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got"
            f" {type(dicts)}{called()}"
        )
    found: dict[str, tuple[Values, Tensor]] = {}
    repeated = []
    for values in dicts:
        if not isinstance(values, dict):
            raise ValueError(  # noqa: TRY004 (PyTorch's type)
                f"Expected all elements of parameter_and_buffer_dicts to be dictionaries{called()}"
            )
        repeated += [name for name in values if name in found]
        found.update((name, (values, value)) for name, value in values.items())
    if repeated:
        raise ValueError(
            f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous{called()}"
        )
    for name, (_, value) in found.items():
        if not isinstance(value, Tensor):
            raise TypeError(f"the value of {name!r} is not an instance of agrad.Tensor: {value!r}{called()}")
    return found


def _place(module: Module, name: str) -> tuple[dict[str, Any], str]:
    """Return where a module holds a parameter or a buffer: a dictionary and the name in it."""
    path, _, attribute = name.rpartition(".")
    return vars(module.get_submodule(path)), attribute


def _replacements(
    module: Module, given: Mapping[str, tuple[Values, Tensor]], *, tie_weights: bool, strict: bool
) -> tuple[dict[str, Tensor], Values]:
    """Return the tensors of a module and their replacements, by name."""
    held = dict(module.named_parameters(remove_duplicate=False)) | dict(module.named_buffers(remove_duplicate=False))
    values = {name: value for name, (_, value) in given.items()}
    if tie_weights:
        values |= _tied(held, values)
    wrong = []
    if unexpected := [name for name in values if name not in held]:
        wrong.append(f"Unexpected key(s): {', '.join(map(repr, unexpected))}.")
    if strict and (missing := [name for name in held if name not in values]):
        wrong.append(f"Missing key(s): {', '.join(map(repr, missing))}.")
    if wrong:
        raise RuntimeError(
            "\n\t".join([f"Error(s) in reparametrizing for {type(module).__name__}:", *wrong]) + called()
        )
    return held, values


def _tied(held: Mapping[str, Tensor], values: Values) -> Values:
    """Return the values of tensors that have several names, under all of them."""
    names: dict[int, list[str]] = {}
    for name, tensor in held.items():
        names.setdefault(id(tensor), []).append(name)
    found: Values = {}
    for same in names.values():
        mine = [values[name] for name in same if name in values]
        if len(same) == 1 or not mine:
            continue
        if any(v is not mine[0] and (v._raw is not mine[0]._raw or v._node is not mine[0]._node) for v in mine):
            raise ValueError(
                f"functional_call got multiple values for keys {sorted(same)}, which are tied. Consider using"
                f" tie_weights=False{called()}"
            )
        found.update(dict.fromkeys(same, mine[0]))
    return found


def _stacked(states: Sequence[Mapping[str, Tensor]]) -> Values:
    found: Values = {}
    for name in dict.fromkeys(name for state in states for name in state):
        if not all(name in state for state in states):
            raise RuntimeError(f"stack_module_state: Expected all models to have {name!r}.{called()}")
        if len(shapes := {state[name].shape for state in states}) > 1:
            raise RuntimeError(
                f"stack_module_state: Expected {name} from each model to have the same shape, got"
                f" {sorted(shapes)}{called()}"
            )
        trained = states[0][name].requires_grad
        if any(state[name].requires_grad != trained for state in states):
            raise RuntimeError(f"Expected {name} from each model to have the same .requires_grad{called()}")
        found[name] = stack([state[name].detach() for state in states]).requires_grad_(trained)
    return found


_complete(globals(), {})
