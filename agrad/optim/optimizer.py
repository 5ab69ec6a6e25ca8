"""Optimizer: parameter groups, state, and saving them; the base of every optimiser."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from agrad.core.backend import Backend
from agrad.core.buffers import assign_data, own, owned
from agrad.core.cpython import assign_all
from agrad.core.errors import called
from agrad.core.materialize import fill
from agrad.core.mode import effect, enable_grad, guard, no_grad, not_recorded, recorder, setting, wants_settings
from agrad.core.tensor import Tensor, wrap
from agrad.plugin import manager

__all__ = ["Optimizer"]


class Optimizer:
    """Base of the optimisers: holds parameters in groups, each with its own settings.

    A subclass passes the defaults of its settings to ``__init__`` and implements `update`.

    Parameters
    ----------
    params : iterable of Tensor or of dict
        Leaves to train; or groups, each a dict with ``"params"`` and settings that differ.
    defaults : dict
        Settings for groups that do not set their own.
    differentiable : bool, optional
        Only False: steps are never recorded.

    Attributes
    ----------
    param_groups : list of dict
        Parameters and settings.
    state : dict
        The values kept per parameter between steps; an empty dict for a parameter that has none yet.

    Raises
    ------
    TypeError
        If a parameter is not a Tensor.
    ValueError
        If there are none, one is not a leaf or appears twice, or a setting is out of its range.

    Examples
    --------
    >>> import agrad as ag
    >>> class SignDescent(ag.optim.Optimizer):
    ...     def __init__(self, params, lr):
    ...         super().__init__(params, {"lr": lr})
    ...
    ...     def update(self, p, g, group, state):
    ...         return p - group["lr"] * ag.sign(g)
    >>> w = ag.tensor([1.0, -2.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> SignDescent([w], lr=0.5).step()
    >>> w
    tensor([ 0.5000, -1.5000], requires_grad=True)
    """

    #: The entries of a parameter's state, once there is any; and those with the parameter's shape. Checked when a
    #: state is loaded.
    _state_names: tuple[str, ...] = ()
    _shaped: tuple[str, ...] = ()

    #: Recordings read settings and state where they are used: these are not guards of a compiled function.
    _tells_settings = True
    #: Settings that disable a part of the update where they are zero.
    _switches: tuple[str, ...] = ("momentum", "weight_decay")
    #: Numbers in a parameter's state that increase by one at each step.
    _counts: tuple[str, ...] = ()

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any], *, differentiable: bool = False) -> None:
        if differentiable:
            raise ValueError(
                "differentiable=True is not there: no step of an optimizer is recorded"
                "\n  Write the update out: w - lr * g, with g of agrad.autograd.grad(loss, w, create_graph=True)."
                f"{called()}"
            )
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        # schedules warn if they step first, but for a `step` of the user's own, which does not say that it has run
        self._has_stepped = not type(self).step.__module__.startswith("agrad.")
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got"
                f" {type(params).__name__}"
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Add parameters with their own settings.

        Parameters
        ----------
        param_group : dict
            ``"params"`` (a Tensor or an iterable of them) and settings.

        Raises
        ------
        TypeError, ValueError
            As for the constructor; nothing is added then.
        """
        if not isinstance(param_group, Mapping):
            raise TypeError(f"param_group must be a dict, but got {type(param_group).__name__}")
        group = dict(param_group)
        params = group["params"]
        group["params"] = params = [params] if isinstance(params, Tensor) else list(params)
        known = {id(p): "some parameters appear in more than one parameter group" for p in self._params()}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
            if not p.is_leaf:
                raise ValueError("can't optimize a non-leaf Tensor")
            if id(p) in known:
                raise ValueError(known[id(p)])
            known[id(p)] = "a parameter appears twice in a parameter group"
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        self.check(group)
        self.param_groups.append(group)

    def check(self, group: Mapping[str, Any]) -> None:
        """Check a group's settings; a subclass may check more.

        Raises
        ------
        ValueError
            If a setting is out of its range.
        """
        words = {"lr": "learning rate", "eps": "epsilon value"}
        for name in ("lr", "eps", "weight_decay", "momentum"):
            if name in group and not group[name] >= 0:
                raise ValueError(f"Invalid {words.get(name, name + ' value')}: {group[name]}")
        check_betas(group.get("betas", ()))

    def check_real(self, group: Mapping[str, Any]) -> None:
        """Refuse complex parameters, for subclasses that divide by squares.

        Raises
        ------
        TypeError
            If a parameter is complex.
        """
        if any(p.is_complex() for p in group["params"]):
            raise TypeError(
                f"{type(self).__name__} takes real parameters; optimise the real and imaginary parts of complex ones"
            )

    def _params(self) -> list[Tensor]:
        return [p for group in self.param_groups for p in group["params"]]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of all parameters.

        Parameters
        ----------
        set_to_none : bool, optional
            False sets them to zeros instead.
        """
        for p in self._params():
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad = p.grad.detach() * 0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Update every parameter that has a gradient, unrecorded.

        A parameter gets a new value, and earlier results stay valid. On a lazy backend this computes the new values,
        state, gradients and the losses that these came from in one pass over the data: a recipe that
        grows with every step would end the training. If that fails, these parameters and their state are unchanged. Others are
        updated one after another: if one fails, it and those after it are unchanged.

        Parameters
        ----------
        closure : callable, optional
            Recomputes the loss, with gradients; called first.

        Returns
        -------
        object
            The result of `closure`, None without one.
        """
        loss = None
        if closure is not None:
            with enable_grad:
                loss = closure()
        lazy: list[Tensor] = []
        before: list[tuple[Tensor, Tensor, dict[str, Any]]] = []
        changing: tuple[Tensor, Any, Any, dict[str, Any]] | None = None
        traced: TracedSettings | None = None
        telling = wants_settings()
        guard(partial(len, self.param_groups), "how many groups an optimizer has")
        try:
            with no_grad:
                for group in self.param_groups:
                    if telling:
                        traced = self._traced_settings(group)
                    settings = group if telling else _of_numbers(group)
                    for p in group["params"]:
                        g = p.grad
                        if g is None:
                            continue
                        if g._spec.backend is not p._spec.backend:
                            g = g.to_device(p.device)
                        state = self.state[p]
                        if p._spec.backend.is_lazy:
                            before.append((p, p.data, {k: _apart(v) for k, v in state.items()}))
                        held = dict(state)
                        changing = p, p._raw, p._spec, held
                        g = -g if group.get("maximize") else g
                        value = (
                            self.update(p, g, settings, state)
                            if traced is None
                            else self._update_traced(p, g, traced, state)
                        )
                        p.data = _in_dtype_of(p, value)
                        for name, now in state.items():
                            if now is not (was := held.get(name)):
                                state[name] = _in_dtype_of(was, now)
                        changing = None
                        if p._spec.backend.is_lazy:
                            lazy += [p, p.grad, *(t for t in state.values() if isinstance(t, Tensor))]
            fill(lazy, keep="backend")
        except BaseException:
            if changing is not None:  # set value and state together
                p, array, spec, kept = changing
                assign_data([p], [array], [spec])
                self.state[p] = kept
            for p, value, state in before:
                p.data, self.state[p] = value, state
            raise
        self._has_stepped = True
        return loss

    def _traced_settings(self, group: Mapping[str, Any]) -> TracedSettings:
        """Return a group's settings, with numbers that a recording rereads; switches that are off stay off in it."""
        guard(partial(structure_of, group, self._switches), "the settings of an optimizer")
        traced = TracedSettings(group)
        for name, value in group.items():
            if is_number(value):
                if value or name not in self._switches:
                    traced[name] = setting(partial(group.__getitem__, name))
            elif type(value) is tuple and all(map(is_number, value)):
                traced[name] = tuple(setting(partial(_part, group, name, i)) for i in range(len(value)))
        return traced

    def _update_traced(self, p: Tensor, g: Tensor, group: TracedSettings, state: dict[str, Any]) -> Tensor:
        """Update one parameter where a recording, or a comparison with one, must see settings and state."""
        if recorder() is None:
            self.trace_state(group, state)
            held = dict(state)
            value = self.update(p, g, _of_numbers(group.settings), state)
            # a replay changes the tensors that it knows, so the update it is compared with must do so too
            for name, before in held.items():
                now = state.get(name)
                if isinstance(before, Tensor) and isinstance(now, Tensor) and now is not before:
                    before.data, state[name] = _in_dtype_of(before, now), before
            return value
        if p._spec.backend.is_lazy:
            not_recorded("an optimizer of lazy parameters computes values at every step")
        if isinstance(rate := group.settings.get("lr"), Tensor):
            group["lr"] = rate.to(dtype=p.dtype)
        new = dict(state)
        self.trace_state(group, state)
        value = self.update(p, g, group, new)
        for name, now in new.items():
            before = state.get(name)
            if before is None:
                not_recorded("an optimizer makes its state at the first step", later=True)
                state[name] = _copy(now) if isinstance(now, Tensor) else now
            elif isinstance(now, Tensor) and isinstance(before, Tensor):
                if now is not before:
                    before.data = _in_dtype_of(before, now)
            elif name in self._counts:
                effect(partial(_count, state, name), [state])
            elif now is not before:
                not_recorded(f"an optimizer changes {name}, which no recording is told of")
                state[name] = now
        return value

    def trace_state(self, group: TracedSettings, state: Mapping[str, Any]) -> None:
        """Add to the settings what `update` computes from numbers in a parameter's state, with `agrad.core.mode.setting`.

        Called before `update` while recording, or while comparing with a recording.
        """

    def update(self, p: Tensor, g: Tensor, group: Mapping[str, Any], state: dict[str, Any]) -> Tensor:
        """Return the new value of one parameter.

        Parameters
        ----------
        p, g : Tensor
            The parameter and its gradient (negated if the group maximises); nothing is being recorded.
        group : mapping
            The settings.
        state : dict
            The values kept for this parameter: tensors and numbers, to be changed freely. Empty at the first step.
        """
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """Return settings and state in plain containers, parameters by number: a snapshot, as values are immutable.

        Returns
        -------
        dict
            ``"state"`` and ``"param_groups"``, as in PyTorch; `agrad.save` writes it.
        """
        not_recorded("the state of an optimizer is asked for")
        numbers = {id(p): i for i, p in enumerate(self._params())}
        groups = [
            {**{k: v for k, v in g.items() if k != "params"}, "params": [numbers[id(p)] for p in g["params"]]}
            for g in self.param_groups
        ]
        state = {numbers[id(p)]: {k: _apart(v) for k, v in s.items()} for p, s in self.state.items()}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a state returned by `state_dict`; tensors are converted to their parameter's dtype and device.

        Everything is checked and converted first: a failing call changes nothing.

        Raises
        ------
        TypeError
            If `state_dict` is not a mapping.
        ValueError
            If the groups do not match in number or size, a setting is out of its range, or the state of a parameter comes from
            another optimiser, or has another shape or kind of dtype; the message lists all of these.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict).__name__}.")
        groups = state_dict["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError(
                f"loaded state dict has a different number of parameter groups ({len(groups)}, expected"
                f" {len(self.param_groups)})"
            )
        for i, (given, mine) in enumerate(zip(groups, self.param_groups, strict=True)):
            if len(given["params"]) != len(mine["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                    f" (group {i}: {len(given['params'])}, expected {len(mine['params'])})"
                )
        settings = [{k: v for k, v in given.items() if k != "params"} for given in groups]
        for given, mine in zip(settings, self.param_groups, strict=True):
            self.check({**mine, **given})
        numbers = [n for given in groups for n in given["params"]]
        by_number = dict(zip(numbers, self._params(), strict=True))
        wrong = [] if len(by_number) == len(numbers) else [f"the numbers of parameters are not unique: {numbers}."]
        state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        for number, values in state_dict["state"].items():
            p = by_number.get(int(number))
            if p is None:
                wrong.append(f"state for parameter {number}, which no group has.")
                continue
            found = self._misfits(number, p, values)
            wrong += found
            if not found:
                state[p] = {k: _apart(v, p) for k, v in values.items()}
        if wrong:
            raise ValueError("\n\t".join([f"Error(s) in loading state_dict for {type(self).__name__}:", *wrong]))
        assign_all(map(setattr, [self], ["state"], [state]), map(dict.update, self.param_groups, settings))

    def _misfits(self, number: Any, p: Tensor, values: Mapping[str, Any]) -> list[str]:
        """Return what is wrong with the given state of a parameter."""
        wrong = []
        missing = [name for name in self._state_names if name not in values] if values else []
        if missing:
            wrong.append(f"state of parameter {number} has no {', '.join(missing)}: it is of another optimizer.")
        for name in self._shaped:
            value = values.get(name)
            if value is None:
                continue
            if not isinstance(value, Tensor):
                wrong.append(f"{name} of parameter {number} is no Tensor but {type(value).__name__}.")
            elif value.shape != p.shape:
                wrong.append(
                    f"size mismatch for {name} of parameter {number}: shape {value.shape} in the loaded state dict, the"
                    f" parameter has {p.shape}."
                )
            elif not value._spec.inexact or (value._spec.is_complex and not p._spec.is_complex):
                wrong.append(
                    f"dtype mismatch for {name} of parameter {number}: {value.dtype} cannot be copied to {p.dtype}."
                )
        return wrong

    def __repr__(self) -> str:
        not_recorded("an optimizer is converted to text")
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return "\n".join([*lines, ")"])


def check_betas(betas: Iterable[float]) -> None:
    """Refuse decays of running means outside of [0, 1): with 1, a mean would never leave its start, and its correction is 0."""
    for i, beta in enumerate(betas):
        if not 0 <= beta < 1:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


# -- within recordings --------------------------------------------------------------------------------------------------


class TracedSettings(dict[str, Any]):
    """Settings for a recording: numbers that it rereads whenever it runs."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        super().__init__(settings)
        self.settings = settings


def _of_numbers(group: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return settings whose rate is a number: a tensor would promote a parameter of less precision."""
    rate = group.get("lr")
    return {**group, "lr": rate.item()} if isinstance(rate, Tensor) else group


def is_nonzero(value: float) -> bool:
    """Return whether a setting is nonzero; a recording is valid only while the same settings are."""
    is_traced = type(value) not in (int, float) and not hasattr(value, "dtype")  # NumPy's numbers are floats, too
    return is_traced or bool(value != 0)


def is_number(value: Any) -> bool:
    """Return whether a setting is a number rather than a choice."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def structure_of(group: Mapping[str, Any], switches: tuple[str, ...]) -> tuple[Any, ...]:
    """Return, as a plain value, those of a group's settings that determine which operations an update performs."""
    found: list[Any] = [len(group["params"])]
    for name, value in group.items():
        if name in switches:
            found.append(bool(value))
        elif type(value) is tuple:
            found.append(len(value))
        elif name != "params" and not is_number(value):
            found.append(value if type(value) in (bool, str) else id(value))
    return tuple(found)


def _part(group: Mapping[str, Any], name: str, i: int) -> float:
    value: float = group[name][i]
    return value


def _count(state: dict[str, Any], name: str) -> None:
    state[name] += 1


def _copy(tensor: Tensor) -> Tensor:
    """Return a tensor in its own memory: a recording distinguishes tensors by their arrays."""
    return wrap(tensor._spec.backend.asarray(tensor._raw, copy=True), tensor._spec)


def _apart(value: Any, like: Tensor | None = None) -> Any:
    """Return a copy of a state's value, converted to match a parameter."""
    if not isinstance(value, Tensor):
        return value
    if like is None or not value._spec.inexact:
        return value.detach()
    return value.detach().to(dtype=like.dtype, device=like.device)


# -- kernels: a backend may have a faster update of one parameter than a sequence of operations -------------------------

Kernel = Callable[..., Any]

_kernels: dict[tuple[str, Backend], Kernel | None] = {}


def kernel_of(name: str, backend: Backend) -> Kernel | None:
    """Return a backend's (or a plugin's) kernel for an update, as ``"optim.adam"``; None if it has none."""
    key = (name, backend)
    if key not in _kernels:
        _kernels[key] = manager.ask("agrad_kernel", op=name, backend=backend) or backend.kernel(name)
    return _kernels[key]


def _in_dtype_of(before: Any, now: Any) -> Any:
    """Return the new value of a tensor in its dtype: where a parameter was cast, its state was not, and the two are combined."""
    if isinstance(before, Tensor) and isinstance(now, Tensor) and now._spec.dtype != before._spec.dtype:
        return now.to(dtype=before.dtype)
    return now


def owned_array(state: Mapping[str, Any], name: str) -> Any:
    """Return the array of a state's tensor, to be changed in place; None if there is none.

    A tensor that anything has read since the last step no longer owns its array; then it is a copy.
    """
    tensor = state.get(name)
    if tensor is None:
        return None
    buffer = owned(tensor)
    return tensor._spec.backend.asarray(tensor._raw, copy=True) if buffer is None else buffer


def store_array(state: dict[str, Any], name: str, array: Any, like: Tensor) -> None:
    """Store an array that nothing else holds in the state."""
    if name not in state:
        state[name] = wrap(array, like._spec)
    own(state[name], array)
