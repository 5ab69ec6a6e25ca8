"""Checkpointing: save only a function's inputs for backward, and run it again in the backward pass.

Built on saved-tensor hooks, like PyTorch's non-reentrant checkpoint, whose counterpart it is: forward stores
a placeholder per saved value; the first one that a backward pass unpacks runs the function again, once per pass, which
fills them all. Nests, works under `grad`, in higher orders, with keyword arguments and closures.
"""

from __future__ import annotations

import contextlib
import enum
import weakref
from collections.abc import Callable, Iterable, Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from agrad import random
from agrad.core import errors, mode
from agrad.core import names as _names
from agrad.core.engine import running
from agrad.core.op import OPS
from agrad.core.saved import Packed, Pair, active, around
from agrad.core.tensor import Tensor, wrap
from agrad.ops.docs import complete as _complete
from agrad.program.batching import repeatable
from agrad.tree import flatten, unflatten

if TYPE_CHECKING:
    from agrad.core.node import Node

__all__ = [
    "CheckpointError",
    "CheckpointPolicy",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "set_checkpoint_early_stop",
]


class CheckpointError(RuntimeError):
    """The function of a checkpoint behaved differently when it was run again."""


class CheckpointPolicy(enum.Enum):
    """Whether an operation's result is kept or recomputed."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


_EARLY_STOP: ContextVar[bool | None] = ContextVar("agrad_checkpoint_early_stop", default=None)


class set_checkpoint_early_stop(mode.Setting):  # noqa: N801 (PyTorch's name)
    """Choose, for checkpoints made in a block, whether recomputation stops at the last value needed.

    Parameters
    ----------
    enable : bool
        True is the default of checkpoints.

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.utils.checkpoint import checkpoint, set_checkpoint_early_stop
    >>> x = ag.tensor(2.0, requires_grad=True)
    >>> with set_checkpoint_early_stop(False):
    ...     y = checkpoint(lambda x: x * x, x)
    """

    var = _EARLY_STOP

    def __init__(self, enable: bool) -> None:
        super().__init__(enable)


class _StopEarly(BaseException):
    """Ends a run of the function early: every needed value is known."""


class _Slot:
    """Placeholder in a node for a value it saved."""

    __slots__ = ("__weakref__", "frame", "place")

    def __init__(self, frame: _Frame, place: int) -> None:
        self.frame = frame
        self.place = place


class _Entry:
    """The record of one saved value: its node, and its metadata."""

    __slots__ = ("code", "lasti", "slot", "spec", "title")

    def __init__(self, node: Node | None, tensor: Tensor) -> None:
        self.spec = tensor._spec
        self.title = "the inputs of an inner checkpoint" if node is None else node.name()
        self.code, self.lasti = errors.caller() if node is None or node.code is None else (node.code, node.lasti)
        self.slot: weakref.ref[_Slot] | None = None

    def __str__(self) -> str:
        return f"{self.title}, recorded at {errors.line_of(self.code, self.lasti)}"

    def metadata(self) -> dict[str, Any]:
        return {"shape": self.spec.shape, "dtype": self.spec.dtype, "device": self.spec.device}


class _Frame:
    """One call of a checkpointed function: how to run it again, and the values found that way, per backward pass."""

    _recomputes = True  # for recordings: these are not the user's hooks

    def __init__(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        check: bool,
        early_stop: bool,
        preserve_rng_state: bool,
        contexts: tuple[Any, Any],
    ) -> None:
        self.function = function
        leaves, self.treedef = flatten((args, kwargs))
        # an outer checkpoint or other hooks keep what they want for the inner one
        pairs = active()
        self.inputs = [_Input(v, pairs) if isinstance(v, Tensor) else v for v in leaves]
        self.check = check
        self.early_stop = early_stop
        self.preserve_rng_state = preserve_rng_state
        self.keys: list[random.Key] = []  # of the random numbers it drew
        self.around, self.around_again = contexts
        self.entries: list[_Entry] = []
        self.values: weakref.WeakKeyDictionary[Any, dict[int, Tensor]] = weakref.WeakKeyDictionary()
        self.node: Node | None = None
        self.complete = False  # whether the first run has ended

    def keeps(self, tensor: Tensor, node: Node | None, *, again: bool) -> bool:
        """Return whether the policy of a selective checkpoint keeps a value instead of recomputing it."""
        policy = getattr(self.around, "policy", None)
        return policy is not None and bool(policy(tensor, node, again))

    # -- forward

    def note(self, node: Node | None) -> None:
        self.node = node

    def pack(self, tensor: Tensor) -> Any:
        if self.keeps(tensor, self.node, again=False):
            return tensor
        entry = _Entry(self.node, tensor)
        slot = _Slot(self, len(self.entries))
        entry.slot = weakref.ref(slot)
        self.entries.append(entry)
        return slot

    # -- backward

    def unpack(self, kept: _Slot | Tensor) -> Tensor:
        if isinstance(kept, Tensor):
            return kept
        task = running()
        found = {} if task is None else self.values.setdefault(task, {})
        if kept.place not in found:  # also a value requested twice: it was handed out already
            found.clear()
            self.run_again(found)
        return found.pop(kept.place)

    def run_again(self, found: dict[int, Tensor]) -> None:
        """Run the function to find the values that are still needed."""
        again = _Recomputation(self, found)
        before = mode.get_mode()
        recorder = mode.recorder()
        region = None if recorder is None else recorder.enter_region()
        try:
            mode.push(grad=True, levels=(), saved=(Pair(again.pack, again.unpack, again.note),))
            args, kwargs = unflatten(self.treedef, [v.give() if isinstance(v, _Input) else v for v in self.inputs])
            with self.around_again:
                if self.preserve_rng_state:
                    random.again(self.keys, self.function, *args, **kwargs)
                else:
                    self.function(*args, **kwargs)
        except _StopEarly:
            pass
        finally:
            again.node = None
            mode.set_mode(before)
            if recorder is not None:
                recorder.region = region
        if again.count != len(self.entries):
            raise CheckpointError(
                "A different number of tensors was saved during the original forward and recomputation."
                f"\nNumber of tensors saved during forward: {len(self.entries)}"
                f"\nNumber of tensors saved during recomputation: {again.count}."
                f"\n  The first that is missing was saved by {self.entries[again.count]}."
            )


class _Recomputation:
    """The hooks of one recomputation in backward."""

    def __init__(self, frame: _Frame, found: dict[int, Tensor]) -> None:
        self.frame = frame
        self.found = found
        self.count = 0
        self.node: Node | None = None

    def note(self, node: Node | None) -> None:
        self.node = node

    def pack(self, tensor: Tensor) -> Any:
        frame = self.frame
        if frame.keeps(tensor, self.node, again=True):
            return tensor
        place = self.count
        now = _Entry(self.node, tensor)
        if place >= len(frame.entries):
            if not frame.complete:  # differentiated during its first run: more values will follow
                return _alone(tensor)
            raise CheckpointError(
                "trying to save more tensors during recomputation than during the original forward pass."
                f"\n  The first of them was saved by {now}."
            )
        then = frame.entries[place]
        if frame.check and (then.title != now.title or then.metadata() != now.metadata()):
            raise CheckpointError(
                "Recomputed values for the following tensors have different metadata than during the forward pass."
                f"\ntensor at position {place}:\nsaved metadata: {then.metadata()}"
                f"\nrecomputed metadata: {now.metadata()}\n  In forward it was saved by {then}; now by {now}."
            )
        self.count += 1
        if then.slot is not None and then.slot() is not None:
            self.found[place] = _alone(tensor)
        if frame.early_stop and self.count == len(frame.entries):
            raise _StopEarly
        return _alone(tensor)

    @staticmethod
    def unpack(kept: Tensor) -> Tensor:
        """Return a value to a derivative that the function itself computes."""
        return kept


def _alone(tensor: Tensor) -> Tensor:
    """Return a value without history. In a program it is the value itself, differentiated through the function's derivative."""
    return wrap(tensor._raw, tensor._spec)


class _Input:
    """A tensor argument: only its value, passed through the active hooks."""

    __slots__ = ("is_leaf", "kept", "requires_grad")

    def __init__(self, tensor: Tensor, pairs: tuple[Pair, ...]) -> None:
        self.kept = Packed(tensor, pairs) if pairs else _alone(tensor)
        self.requires_grad = tensor.requires_grad
        self.is_leaf = tensor.is_leaf

    def give(self) -> Tensor:
        """Return it for another run; as the result of an operation, which may be changed in place, if it was one."""
        value = self.kept.unpack() if isinstance(self.kept, Packed) else self.kept
        value = _alone(value).requires_grad_(self.requires_grad)
        if self.requires_grad and not self.is_leaf:
            value = value[...]
            value._base = None  # a change of it affects nothing else
        return value


def _nothing() -> tuple[Any, Any]:
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    context_fn: Callable[[], tuple[Any, Any]] = _nothing,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    **kwargs: Any,
) -> Any:
    """Call a function without keeping its saved values; it is run again in the backward pass.

    Within a level of forward mode (`jvp`, `dual_level`) everything is kept: tangents need the values immediately.

    Parameters
    ----------
    function : callable
        The function to call. It must do the same when run again.
    *args, **kwargs
        Its arguments, with tensors anywhere in containers.
    use_reentrant : bool, optional
        PyTorch's argument. There is only the non-reentrant implementation here: True is refused.
    preserve_rng_state : bool, optional
        Whether the function draws the same random numbers again, from any generators.
    context_fn : callable, optional
        Returns two context managers: one for running the function, one for running it again. See
        `create_selective_checkpoint_contexts`.
    determinism_check : {"default", "none"}, optional
        Whether to compare the operation, shape, dtype and device of every recomputed value with those of the forward pass.
    debug : bool, optional
        PyTorch's argument: here errors always name the operation and its line.
    early_stop : bool, optional
        Whether to stop recomputation once the last needed value is known.

    Returns
    -------
    object
        The function's result.

    Raises
    ------
    CheckpointError
        In backward, if the function behaves differently then; the message names the first operation that differs.
    ValueError
        If ``use_reentrant=True``, or if ``determinism_check`` is unknown.
    RuntimeError
        If saved-tensor hooks are disabled here.

    Notes
    -----
    Chen, Xu, Zhang, Guestrin: Training deep nets with sublinear memory cost (2016).

    Examples
    --------
    >>> import agrad as ag
    >>> from agrad.utils.checkpoint import checkpoint
    >>> x = ag.tensor(2.0, requires_grad=True)
    >>> checkpoint(lambda x: ag.exp(x) * x, x).backward()
    >>> x.grad
    tensor(22.1672)
    """
    if use_reentrant:
        raise ValueError(
            "checkpoint: use_reentrant=True is not available; leave it out, the one implementation does all it does"
        )
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    del debug
    contexts = context_fn()
    now = mode.current()
    if now is not None and now.levels:  # tangents are kept with their values, so nothing needs recomputing
        with contexts[0]:
            return function(*args, **kwargs)
    chosen = _EARLY_STOP.get()
    function, again = repeatable(function)
    frame = _Frame(
        again,
        args,
        kwargs,
        check=determinism_check == "default",
        early_stop=early_stop if chosen is None else chosen,
        preserve_rng_state=preserve_rng_state,
        contexts=contexts,
    )
    before = mode.get_mode()
    try:
        mode.push(saved=(*around(), Pair(frame.pack, frame.unpack, frame.note)))
        with frame.around:
            if preserve_rng_state:
                return random.noting(frame.keys, function, *args, **kwargs)
            return function(*args, **kwargs)
    finally:
        frame.node = None  # frees what refers to this frame
        frame.complete = True
        mode.set_mode(before)


def checkpoint_sequential(functions: Iterable[Callable[[Any], Any]], segments: int, input: Any, **options: Any) -> Any:
    """Call functions one after another, in segments of which all but the last are checkpointed.

    functions : iterable of callable
        Such as an ``nn.Sequential``.
    segments : int
        The number of segments.
    input : object
        The argument of the first function.
    **options: As for `checkpoint`.
    Returns: The result of the last one.
    ValueError: If there would be no segment.

    >>> x = ag.tensor(1.0, requires_grad=True)
    >>> ag.utils.checkpoint.checkpoint_sequential([ag.sin, ag.exp, ag.cos], 2, x).backward()
    >>> x.grad
    tensor(-0.9180)
    """
    steps = list(functions)
    if segments < 1:
        raise ValueError(f"checkpoint_sequential: segments must be at least 1, not {segments}")
    size = max(len(steps) // segments, 1)

    def run(part: Sequence[Callable[[Any], Any]]) -> Callable[[Any], Any]:
        def segment(value: Any) -> Any:
            for step in part:
                value = step(value)
            return value

        return segment

    for start in range(0, size * (segments - 1), size):
        input = checkpoint(run(steps[start : start + size]), input, **options)
    return run(steps[size * (segments - 1) :])(input)


class SelectiveCheckpointContext:
    """Information about the run for the policy of a selective checkpoint.

    Attributes
    ----------
    is_recompute : bool
        Whether the function is being run again.
    """

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


class _Selective:
    """Context of a checkpointed function that keeps some of its saved values."""

    def __init__(self, policy: Callable[[Tensor, Any, bool], bool]) -> None:
        self.policy = policy

    def __enter__(self) -> None:
        """Do nothing: the checkpoint reads `policy`."""

    def __exit__(self, *exc: object) -> None:
        """Do nothing."""


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., CheckpointPolicy | bool] | Sequence[str | Callable[..., Any]],
) -> tuple[Any, Any]:
    """Return the contexts of a checkpoint that keeps the results of some operations.

    policy_fn_or_list : callable or sequence
        The operations whose results are kept, as functions or by name: ``[ag.matmul]`` or ``["matmul"]``. Or
        ``policy(ctx, op)``, which returns a `CheckpointPolicy` (or a bool, True to keep) for an operation's name;
        ``ctx.is_recompute`` says whether the function is being run again.
    Returns : tuple
        Two context managers, for ``checkpoint(..., context_fn=lambda: ...)``.
    TypeError: If it is neither; or, at the operation, if the policy returns anything else.
    ValueError: If there is no operation of a given name.
    A kept value does not require running the function again; if every value that backward needs is kept, it is not run
    again at all.

    >>> from functools import partial
    >>> from agrad.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
    >>> keep = partial(create_selective_checkpoint_contexts, ["matmul"])
    >>> x = ag.ones((2, 2), requires_grad=True)
    >>> checkpoint(lambda x: ag.sum(ag.exp(x @ x)), x, context_fn=keep).backward()
    """
    if callable(policy_fn_or_list):
        decide = policy_fn_or_list
    elif isinstance(policy_fn_or_list, list | tuple | set | frozenset):
        names = {_op_name(op) for op in policy_fn_or_list}

        def decide(_: Any, op: str) -> bool:
            return op in names

    else:
        raise TypeError(
            "policy_fn_or_list must be either a function or a list of ops."
            f"\n  It is a {type(policy_fn_or_list).__name__}."
        )

    def policy(tensor: Tensor, node: Node | None, again: bool) -> bool:
        maker = node if tensor._node is None else tensor._node
        op = getattr(maker, "op", None)
        if op is None:
            return False
        verdict = decide(SelectiveCheckpointContext(is_recompute=again), op.name)
        if not isinstance(verdict, CheckpointPolicy | bool):
            raise TypeError(
                f"the policy of a checkpoint must give a CheckpointPolicy or a bool, not {verdict!r}, for {op.name!r}"
            )
        return verdict in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE, True)

    context = _Selective(policy)
    return context, contextlib.nullcontext()


def _op_name(op: str | Callable[..., Any]) -> str:
    """Return the name of an operation in a list of those to keep."""
    name = op if isinstance(op, str) else getattr(op, "__name__", repr(op))
    known = [known for known in tuple(OPS) if known == name or known.endswith(f".{name}")]
    if not known:
        raise ValueError(f"Expected op in `op_list` to be an operation but got: {op!r}\n  `agrad.rules` lists them.")
    return known[0]


_complete(globals(), {})

if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
