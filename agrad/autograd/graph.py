"""PyTorch's ``torch.autograd.graph``: nodes and edges of the recorded graph, and hooks on saved values."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Sequence
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Self

from agrad import tree
from agrad.core import mode
from agrad.core import names as _names
from agrad.core.engine import Pass, running
from agrad.core.node import Node
from agrad.core.saved import Disabled, Pair, around
from agrad.serialization import files, load, save_aside

if TYPE_CHECKING:
    from agrad.core.hooks import Handle
    from agrad.core.tensor import Tensor

__all__ = [
    "GradientEdge",
    "Node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "register_multi_grad_hook",
    "save_on",
    "save_on_cpu",
    "save_on_disk",
    "saved_tensors_hooks",
]


class GradientEdge(NamedTuple):
    """The place where a tensor's gradient is computed: a node and the number of its result."""

    node: Node
    output_nr: int

    @property
    def _is_leaf(self) -> bool:
        """Tell `agrad.tree` not to look into it."""
        return True


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the edge of a tensor, which can replace it in `grad` and `backward` without keeping its value.

    Parameters
    ----------
    tensor : Tensor
        A tensor that requires grad.

    Returns
    -------
    GradientEdge
        Its node and the number of the node's result.

    Raises
    ------
    RuntimeError
        If the tensor does not require grad.
    """
    if tensor._node is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    return GradientEdge(*tensor._node.address())


# -- hooks on saved values --------------------------------------------------------------------------------------------


class saved_tensors_hooks(mode.ModeContext):  # noqa: N801 (PyTorch's name)
    """Pass values that operations save for backward through your functions: to another device, to disk, or anywhere else.

    Pairs nest: the inner pair packs first, and the outer one packs its result, if that is a Tensor; unpacking goes in
    reverse order. (PyTorch applies only the innermost pair.)

    Parameters
    ----------
    pack_hook : callable
        ``pack_hook(tensor)`` is called when an operation saves a tensor, for operands with the very tensors of the call,
        and may return anything. It must not change its argument.
    unpack_hook : callable
        ``unpack_hook(packed)`` is called at each use in backward and must return a Tensor with the saved value.

    Raises
    ------
    RuntimeError
        If hooks are disabled here; at the operation, if ``pack_hook`` changes its argument; in backward, if
        ``unpack_hook`` returns a Tensor of another shape.
    TypeError
        If a hook is not callable; in backward, if ``unpack_hook`` does not return a Tensor.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> with ag.autograd.graph.saved_tensors_hooks(lambda t: t.tolist(), lambda values: ag.tensor(values)):
    ...     y = (x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2., 4.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
            if not callable(hook):
                raise TypeError(f"saved_tensors_hooks: {name} must be callable, not {type(hook).__name__}")
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        mode.push(saved=(*around(), Pair(self.pack_hook, self.unpack_hook)), owner=self)


class disable_saved_tensors_hooks(mode.ModeContext):  # noqa: N801 (PyTorch's name)
    """Forbid saved-tensor hooks in a block of code.

    Parameters
    ----------
    error_message : str
        The message of the RuntimeError that entering such hooks raises.

    Examples
    --------
    >>> import agrad as ag
    >>> with ag.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     with ag.autograd.graph.save_on("numpy"):
    ...         pass
    Traceback (most recent call last):
        ...
    RuntimeError: not here
    """

    def __init__(self, error_message: str) -> None:
        self.error_message = error_message

    def __enter__(self) -> None:
        now = mode.current()
        entries = () if now is None else now.saved
        mode.push(saved=(*entries, Disabled(self.error_message)), owner=self)


class save_on(saved_tensors_hooks):  # noqa: N801 (PyTorch's spelling: save_on_cpu)
    """Keep values that operations save for backward on another backend or device until they are needed.

    Parameters
    ----------
    device : str
        As for `to_device`: ``"numpy"`` keeps them in host memory. Lazy values moved to a non-lazy backend are computed
        first, one by one.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> with ag.autograd.graph.save_on("numpy"):
    ...     y = ag.exp(x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([2.7183, 7.3891])
    """

    def __init__(self, device: str) -> None:
        def pack(tensor: Tensor) -> tuple[str, Tensor]:
            return tensor.device, tensor.detach().to_device(device)

        def unpack(packed: tuple[str, Tensor]) -> Tensor:
            home, tensor = packed
            moved: Tensor = tensor.to_device(home)
            return moved

        super().__init__(pack, unpack)


def save_on_cpu(pin_memory: bool = False) -> save_on:
    """Keep values that operations save for backward in host memory: ``save_on("numpy")``.

    Parameters
    ----------
    pin_memory : bool, optional
        PyTorch's argument; host memory is never pinned here.

    Returns
    -------
    save_on
        A context manager.

    Raises
    ------
    NotImplementedError
        If pinned memory is requested.
    """
    if pin_memory:
        raise NotImplementedError("save_on_cpu: pinned memory is not supported; leave pin_memory out")
    return save_on("numpy")


class _Folder:
    """A folder of this process, removed with the last of its files; the next process removes one left by a killed process."""

    def __init__(self, directory: str | None) -> None:
        start = os.path.join(tempfile.gettempdir() if directory is None else directory, "agrad-saved-")
        _sweep(start)
        lock = None
        while lock is None:
            self.path = tempfile.mkdtemp(prefix=os.path.basename(start), dir=os.path.dirname(start) or ".")
            with contextlib.suppress(FileNotFoundError):  # Swept by another process, as it was not locked yet.
                lock = files.locked(lambda: os.path.join(self.path, "lock"), 0o600)
        self.numbers = itertools.count()
        weakref.finalize(self, self._remove, os.getpid(), self.path, lock)

    @staticmethod
    def _remove(process: int, path: str, lock: IO[bytes]) -> None:
        lock.close()
        if os.getpid() == process:  # A forked child has this object too.
            shutil.rmtree(path, ignore_errors=True)  # Another process may be sweeping now.


def _sweep(start: str) -> None:
    """Remove folders left by this user's killed processes."""
    for entry in files.beginning(start):
        with contextlib.suppress(OSError):  # Another process may be sweeping now.
            own = not hasattr(os, "getuid") or entry.stat(follow_symlinks=False).st_uid == os.getuid()
            if not own or not entry.is_dir(follow_symlinks=False):
                continue
            with files.abandoned(os.path.join(entry.path, "lock")) as left:
                if left:
                    shutil.rmtree(entry.path)
            os.rmdir(entry.path)  # Empty if its process was killed before it had a lock.


class _File:
    """A saved value in a file, which is removed when nothing refers to it any more."""

    def __init__(self, tensor: Tensor, folder: _Folder) -> None:
        self.path = os.path.join(folder.path, f"{next(folder.numbers)}.agrad")
        gone = weakref.finalize(self, self._remove, os.getpid(), self.path, folder)
        self.device = tensor.device
        try:
            save_aside(tensor.detach(), self.path)
        except BaseException:  # the traceback would keep half a file
            gone()
            raise

    @staticmethod
    def _remove(process: int, path: str, folder: _Folder) -> None:
        """Remove the file; the folder is kept until then."""
        if os.getpid() == process:  # A forked child has this object too.
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)

    def read(self) -> Tensor:
        tensor: Tensor = load(self.path, device=self.device)
        return tensor


class save_on_disk(saved_tensors_hooks):  # noqa: N801 (as save_on)
    """Keep values that operations save for backward in files until they are needed.

    Parameters
    ----------
    directory : str, optional
        The folder; default: the system's temporary directory. The files are removed with the graph; those of a killed
        process when the next one saves there. A forked child reads its parent's files while they exist, and
        removes none of them. Lazy values are computed before writing.

    Examples
    --------
    >>> import agrad as ag
    >>> x = ag.tensor([1.0, 2.0], requires_grad=True)
    >>> with ag.autograd.graph.save_on_disk():
    ...     y = (x * x * x).sum()
    >>> y.backward()
    >>> x.grad
    tensor([ 3., 12.])
    """

    def __init__(self, directory: str | None = None) -> None:
        folders: weakref.WeakValueDictionary[int, _Folder] = weakref.WeakValueDictionary()  # By process.

        def pack(tensor: Tensor) -> _File:
            process = os.getpid()
            folder = folders.get(process)
            if folder is None:
                folder = folders[process] = _Folder(directory)
            return _File(tensor, folder)

        super().__init__(pack, _File.read)


# -- hooks on several gradients ---------------------------------------------------------------------------------------


class _Handles:
    """Removes several hooks."""

    def __init__(self, handles: Sequence[Handle]) -> None:
        self._handles = handles

    def remove(self) -> None:
        """Remove the hooks; doing so twice is not an error."""
        for handle in self._handles:
            handle.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def register_multi_grad_hook(tensors: Any, fn: Callable[..., None], *, mode: str = "all") -> _Handles:
    """Call a function once in each backward pass, when gradients of several tensors are known.

    Parameters
    ----------
    tensors : Tensor or container of them
        Tensors that require grad.
    fn : callable
        With ``mode="all"``: ``fn(grads)``, a list with a gradient per tensor (for a dict in the order of its sorted keys),
        None for those that this pass does not compute; called when the last one is known. With ``mode="any"``:
        ``fn(grad)``, called at the first one. Its return value is ignored.
    mode : {"all", "any"}, optional
        When to call the function.

    Returns
    -------
    handle
        Its ``remove()`` removes the hook.

    Raises
    ------
    ValueError
        For any other mode.
    RuntimeError
        If a tensor does not require grad.

    Examples
    --------
    >>> import agrad as ag
    >>> a, b = ag.tensor(2.0, requires_grad=True), ag.tensor(3.0, requires_grad=True)
    >>> handle = ag.autograd.graph.register_multi_grad_hook([a, b], print)
    >>> (a * b).backward()
    [tensor(3.), tensor(2.)]
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    members: list[Tensor] = tree.flatten(tensors)[0]
    # weakly: the hooks are attached to these very nodes
    nodes = [weakref.ref(get_gradient_edge(t).node if t._node is None else t._node) for t in members]
    calls: weakref.WeakKeyDictionary[Pass, _MultiGradCall] = weakref.WeakKeyDictionary()

    def hook(index: int) -> Callable[[Tensor], None]:
        def collect(g: Tensor) -> None:
            task = running()
            assert task is not None, "hooks run within a pass"
            call = calls.get(task)
            if call is None:
                call = calls[task] = _MultiGradCall(task, nodes, fn, mode)
            call.take(index, g)

        return collect

    return _Handles([t.register_hook(hook(i)) for i, t in enumerate(members)])


class _MultiGradCall:
    """The gradients of one pass for one hook on several tensors."""

    def __init__(self, task: Pass, nodes: Sequence[weakref.ref[Node]], fn: Callable[..., None], kind: str) -> None:
        self.grads: list[Tensor | None] = [None] * len(nodes)
        self.missing = sum(node() in task.reachable for node in nodes)
        self.fn: Callable[..., None] | None = fn
        self.kind = kind
        task.at_end.append(self.end)

    def take(self, index: int, g: Tensor) -> None:
        self.grads[index] = g
        self.missing -= 1
        if self.kind == "any" and self.fn is not None:
            fn, self.fn = self.fn, None
            fn(g)
        elif self.missing <= 0:
            self.end()

    def end(self) -> None:
        """Call the hook with the gradients there are: a node that might have run got none in the end."""
        if self.kind == "all" and self.fn is not None:
            fn, self.fn = self.fn, None
            fn(self.grads)


if not TYPE_CHECKING:
    __getattr__, __dir__ = _names.of(__name__)
