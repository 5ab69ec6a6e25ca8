"""Checkpointing: keep nothing a function saves for backward but its inputs, and run it again when backward comes.

Built on saved-tensor hooks, as PyTorch's non-reentrant checkpoint is, of which this is the counterpart: forward stores
a placeholder per saved value; the first one that a backward pass opens runs the function again, once per pass, which
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
    """The function of a checkpoint did something else when it was run again."""


class CheckpointPolicy(enum.Enum):
    """Whether what an operation computes is kept or computed again."""

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


_EARLY_STOP: ContextVar[bool | None] = ContextVar("agrad_checkpoint_early_stop", default=None)


class set_checkpoint_early_stop(mode.Setting):  # noqa: N801 (PyTorch's name)
    """Choose for the checkpoints made in a block whether running again stops at the last value that is needed.

    Parameters
    ----------
    enable : bool
        True is what checkpoints do by themselves.

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


class _Enough(BaseException):
    """Ends a run of the function early: every value that is needed is there."""


class _Slot:
    """Stands in a node for a value it saved."""

    __slots__ = ("__weakref__", "frame", "place")

    def __init__(self, frame: _Frame, place: int) -> None:
        self.frame = frame
        self.place = place


class _Entry:
    """What is known of one saved value: who saved it, and what it looks like."""

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
    """One call of a checkpointed function: how to run it again, and the values found by doing so, per backward pass."""

    _recomputes = True  # for recordings: no hooks of the user's

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
        # what an outer checkpoint or other hooks want to keep for the inner one, they keep
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
        self.complete = False  # the first run has ended

    def keeps(self, tensor: Tensor, node: Node | None, *, again: bool) -> bool:
        """Return whether the policy of a selective checkpoint has a value kept rather than computed again."""
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
        if kept.place not in found:  # also a value asked for twice: it was given away
            found.clear()
            self.run_again(found)
        return found.pop(kept.place)

    def run_again(self, found: dict[int, Tensor]) -> None:
        """Run the function to find the values that are still asked for."""
        again = _Again(self, found)
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
        except _Enough:
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


class _Again:
    """The hooks of one run of the function in backward."""

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
            if not frame.complete:  # differentiated while it runs for the first time: there is more to come
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
            raise _Enough
        return _alone(tensor)

    @staticmethod
    def unpack(kept: Tensor) -> Tensor:
        """Return a value to a derivative that the function itself asks for."""
        return kept


def _alone(tensor: Tensor) -> Tensor:
    """Return a value without history. To a program it is the value itself: the function's own derivative goes through it."""
    return wrap(tensor._raw, tensor._spec)


class _Input:
    """A tensor among the arguments: its value only, by way of the hooks that are on."""

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
            value._base = None  # a change of it concerns nobody
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
    """Call a function without keeping what it saves for backward; it is run again there.

    Within a level of forward mode (`jvp`, `dual_level`) everything is kept: tangents need the values at once.

    Parameters
    ----------
    function : callable
        What to call. It must do the same when it is run again.
    *args, **kwargs
        Its arguments, with tensors anywhere in containers.
    use_reentrant : bool, optional
        PyTorch's argument. There is one implementation here, the non-reentrant: True is refused.
    preserve_rng_state : bool, optional
        Have the function draw the same random numbers again, from whichever generators.
    context_fn : callable, optional
        Gives two context managers: one around the function, one around running it again. See
        `create_selective_checkpoint_contexts`.
    determinism_check : {"default", "none"}, optional
        Compare the operation, shape, dtype and device of every value found again with those of the forward pass.
    debug : bool, optional
        PyTorch's argument: errors always name the operation and its line here.
    early_stop : bool, optional
        Stop running the function again when the last value that is needed is there.

    Returns
    -------
    object
        What the function returns.

    Raises
    ------
    CheckpointError
        In backward, if the function does something else then; it names the first operation that differs.
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
    if now is not None and now.levels:  # tangents are kept with their values: there is nothing to be computed again
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
        frame.node = None  # which keeps what refers to this frame
        frame.complete = True
        mode.set_mode(before)


def checkpoint_sequential(functions: Iterable[Callable[[Any], Any]], segments: int, input: Any, **options: Any) -> Any:
    """Call functions one after another, in segments of which all but the last are checkpointed.

    functions : iterable of callable
        Such as an ``nn.Sequential``.
    segments : int
        Into how many to divide them.
    input : object
        What the first one takes.
    **options: As for `checkpoint`.
    Returns: What the last one gives.
    ValueError: If there is to be no segment.

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
    """What the policy of a selective checkpoint is told about the run.

    Attributes
    ----------
    is_recompute : bool
        Whether the function is being run again.
    """

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


class _Selective:
    """Around a checkpointed function: keep some of what it saves."""

    def __init__(self, policy: Callable[[Tensor, Any, bool], bool]) -> None:
        self.policy = policy

    def __enter__(self) -> None:
        """Nothing to do: the checkpoint looks at `policy`."""

    def __exit__(self, *exc: object) -> None:
        """Nothing to undo."""


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Callable[..., CheckpointPolicy | bool] | Sequence[str | Callable[..., Any]],
) -> tuple[Any, Any]:
    """Return the contexts of a checkpoint that keeps what some operations compute.

    policy_fn_or_list : callable or sequence
        The operations whose results are kept, as functions or by name: ``[ag.matmul]`` or ``["matmul"]``. Or
        ``policy(ctx, op)``, which gives a `CheckpointPolicy` (or a bool, True to keep) for an operation's name;
        ``ctx.is_recompute`` tells whether the function is being run again.
    Returns : tuple
        Two context managers, for ``checkpoint(..., context_fn=lambda: ...)``.
    TypeError: If it is neither; or, at the operation, if the policy gives anything else.
    ValueError: If there is no operation of a name.
    A value that is kept is not asked for when the function would be run again; if every value that backward needs is
    kept, it is not run again at all.

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
