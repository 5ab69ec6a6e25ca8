"""The manager: finds backends, reports which are usable, and holds the default one.

pluggy and the installed plugins are loaded at the first tensor; a plugin module that needs the array library, at the
first use of its backend.
"""

from __future__ import annotations

import difflib
import functools
import importlib
import os
import re
import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agrad.core import errors
from agrad.core.backend import BACKENDS, CONTRACT, Backend, Device, Place
from agrad.core.executor import Executor
from agrad.core.kernels import forget_kernels
from agrad.core.mode import Setting, not_recorded
from agrad.core.once import lock, shared
from agrad.core.op import OPS

if TYPE_CHECKING:
    import pluggy

#: The distribution to install for an array library that no plugin claims.
PACKAGES = {"numpy": "numpy", "dask": "dask", "cupy": "cuda12"}

CPU = "cpu"  # PyTorch's word for the host's memory

#: The change that a backend written for an earlier version of the contract needs, by version.
CHANGES = {
    1: (
        "join(others) takes the place of absorbs; specimen and computing_nothing belong to a Harness, returned by the hook"
        " agrad_harness; asarray also takes like"
    ),
}

_backends: dict[str, Backend] = {}
_executors: dict[
    str, tuple[Any, str]
] = {}  # by name: an object, or the path from which it is created at first use; and the plugin
_paths: dict[str, str] = {}  # "module:class" of backends that are created at first use
_providers: dict[str, str] = {}  # the plugin that provides each backend
_sources: dict[str, str] = {}  # the distribution of each installed plugin
_failures: dict[str, str] = {}
_unreported: list[str] = []
_plugins: pluggy.PluginManager | None = None
_loaded = False

#: Classes that no plugin claims. Registering a plugin replaces the set, so that a lookup in progress adds its class to
#: the old one.
_unclaimed: weakref.WeakSet[type] = weakref.WeakSet()

#: What a plugin may raise without affecting the others: its module may also call `sys.exit`.
FAILURES = (Exception, SystemExit)

_chosen: ContextVar[str | None] = ContextVar("agrad_backend", default=None)
_default: str | None = None


@dataclass(frozen=True)
class BackendInfo:
    """One row of `agrad.backends`."""

    name: str
    available: bool
    version: str
    devices: tuple[str, ...]
    reason: str
    failed: bool = False  # the plugin is faulty, as opposed to a missing library or device

    def __str__(self) -> str:
        state = f"{self.version}, {', '.join(self.devices)}" if self.available else f"unavailable: {self.reason}"
        return f"{self.name}: {state}"


@dataclass(frozen=True)
class ExecutorInfo:
    """One row of `executors`."""

    name: str
    backends: tuple[str, ...]
    available: bool
    version: str
    reason: str
    failed: bool = False  # as of `BackendInfo`


class BackendTable(tuple[BackendInfo, ...]):
    """The rows of `agrad.backends`, a table in notebooks."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        from agrad.view import notebook  # noqa: PLC0415 (needed only in notebooks)

        lines = [(row.name, row.version, ", ".join(row.devices), row.reason) for row in self]
        return notebook.table(("backend", "version", "devices", "why it is not usable"), lines)


# -- finding ----------------------------------------------------------------------------------------------------------


def plugins() -> pluggy.PluginManager:
    """Return the plugin manager; the first call loads pluggy and every installed plugin."""
    if not _loaded:
        with _loading:
            if _plugins is None:  # otherwise: a plugin calls this while it is being loaded
                _load()
    assert _plugins is not None
    return _plugins


def _forget() -> None:
    """Drop what an interrupted load left behind, so that the next call loads again."""
    global _plugins  # noqa: PLW0603 (as in `_load`)
    if not _loaded:
        _plugins = None
        for known in (_backends, _executors, _paths, _providers, _sources, _failures, _unreported, _unclaimed):
            known.clear()


#: Held while plugins are loaded or asked for backends: other threads wait.
_loading = lock(undo=_forget)


def _load() -> None:
    try:
        _find()
    except BaseException:
        _forget()
        raise
    _report()


def _find() -> None:
    global _plugins, _loaded  # noqa: PLW0603 (made once)
    import importlib.metadata  # noqa: PLC0415 (30 ms, pluggy 3, entry points 8: not at `import agrad`)

    import pluggy  # noqa: PLC0415

    from agrad.plugin import hookspecs  # noqa: PLC0415

    _plugins = pluggy.PluginManager("agrad")
    _plugins.add_hookspecs(hookspecs)
    entries = importlib.metadata.entry_points(group="agrad")  # in the order in which the folder lists them
    for name, source, entry in sorted((e.name, "" if e.dist is None else e.dist.name, e) for e in entries):
        if name in _sources:
            taken = f"{_sources[name]!r} also has an entry point of that name: rename one of them"
            _fail(f"{name} of {source}", errors.BackendError(taken))
            continue
        _sources[name] = source
        try:
            plugin = entry.load()
            _plugins.register(plugin, name=name)
        except FAILURES as error:
            _fail(name, error)
        else:
            _check_hooks(plugin, name)
    _collect()
    _loaded = True
    _renew_rules()


def _check_hooks(plugin: Any, name: str) -> None:
    """Record the failure of a plugin that implements a hook that does not exist; its other hooks count."""
    assert _plugins is not None
    hooks = [known for known, caller in vars(_plugins.hook).items() if caller.has_spec()]
    unknown = [caller.name for caller in _plugins.get_hookcallers(plugin) or () if not caller.has_spec()]
    if unknown:
        near = [
            f"no hook {one!r}: did you mean {difflib.get_close_matches(one, hooks, 1, 0.0)[0]!r}?" for one in unknown
        ]
        _fail(name, errors.BackendError(f"there is {' and '.join(near)}"))


def register(plugin: Any, name: str | None = None) -> None:
    """Register a plugin without an entry point.

    Parameters
    ----------
    plugin : module or object
        Implements hooks of ``agrad.plugin.hookspecs``.
    name : str, optional
        Its name. Default: that of the module, or of the object's class.

    Raises
    ------
    ValueError
        If it is already registered.
    """
    global _unclaimed  # noqa: PLW0603 (the results of earlier lookups no longer hold)
    manager = plugins()
    if name is None:
        name = str(getattr(plugin, "__name__", None) or type(plugin).__name__)
        name = name if manager.get_plugin(name) in (None, plugin) else f"{name} {id(plugin):#x}"
    with _loading:
        manager.register(plugin, name=name)
        try:
            _check_hooks(plugin, name)
            _collect()
        except (
            BaseException
        ):  # a faulty plugin is recorded; this is an interrupt, after which it can be registered again
            manager.unregister(plugin)
            for given in [given for given, giver in _providers.items() if giver == name]:
                _providers.pop(given)
                _backends.pop(given, None)
                _paths.pop(given, None)
            for given in [given for given, (_, giver) in _executors.items() if giver == name]:
                _executors.pop(given)
            raise
        for backend in _backends.values():
            forget_kernels(backend)  # the plugin may replace some
        _renew_rules()
        _unclaimed = weakref.WeakSet()
        for kind in [kind for kind, backend in list(BACKENDS.items()) if _backends.get(backend.name) is backend]:
            del BACKENDS[kind]  # it may claim a class of another plugin, as masked arrays were NumPy's
    _report()


def packages() -> set[str]:
    """Return the packages of the plugins registered so far; load none."""
    known = () if _plugins is None else _plugins.get_plugins()
    modules = (p.__name__ if isinstance(p, ModuleType) else type(p).__module__ for p in known)
    return {module.partition(".")[0] for module in modules}


def _collect() -> None:
    """Ask every plugin for its backends; a plugin that fails becomes a row of `backends`, with a warning."""
    assert _plugins is not None
    for implementation in _plugins.hook.agrad_backends.get_hookimpls():
        giver = implementation.plugin_name
        try:
            given: Any = implementation.function()
            for name, one in given.items() if isinstance(given, Mapping) else [(b.name, b) for b in given]:
                _check_name(name)
                if not isinstance(one, str):
                    _check_version(one, giver)
                elif not re.fullmatch(r"[\w.]+:[\w.]+", one):
                    raise errors.BackendError(
                        f"the backend {name!r} is given as {one!r}, which is not a path such as 'agrad_mine.backend:Mine'"
                    )
                if _providers.setdefault(name, giver) != giver:
                    raise errors.BackendError(
                        f"the plugin {_providers[name]!r} already provides a backend named {name!r}"
                    )
                (_paths if isinstance(one, str) else _backends).setdefault(name, one)
        except FAILURES as error:
            _fail(giver, error)
    for implementation in _plugins.hook.agrad_executors.get_hookimpls():
        giver = implementation.plugin_name
        try:
            given = implementation.function()
            for name, one in (
                given.items() if isinstance(given, Mapping) else [(_checked_executor(e).name, e) for e in given]
            ):
                if _executors.setdefault(name, (one, giver))[1] != giver:
                    raise errors.BackendError(
                        f"the plugin {_executors[name][1]!r} already provides an executor named {name!r}"
                    )
        except FAILURES as error:
            _fail(giver, error)


def _check_version(backend: Any, giver: str) -> None:
    """Refuse a backend written for another version of the contract."""
    found = 1 if "absorbs" in dir(backend) else backend.contract  # a backend may omit its version
    if found != CONTRACT:
        change = CHANGES.get(found, "install a newer agrad" if found > CONTRACT else "it is no longer supported")
        raise errors.BackendError(
            f"the backend {backend.name!r} of the plugin {giver!r} is written for version {found} of the contract, this is"
            f' {CONTRACT}: {change}.\n  docs/plugin.md, "Versions of the contract", says what to change.'
        )


@shared
def at_path(path: str) -> Any:
    """Return the object at a path such as ``"agrad_dask.backend:DaskBackend"``; if it is a class, an instance of it."""
    module, _, name = path.partition(":")
    found = functools.reduce(getattr, name.split("."), importlib.import_module(module))
    return found() if isinstance(found, type) else found


class _BrokenError(ImportError):
    """A path does not lead to a backend that agrad can use, whatever is installed."""


def _made(name: str) -> Backend | None:
    """Return a backend by name, created from its path at first use; None if no plugin provides it.

    Any failure is raised as an ImportError whose text says why the backend cannot be used.
    """
    path = _paths.get(name)
    if name in _backends or path is None:
        return _backends.get(name)
    try:
        backend = at_path(path)
        if not isinstance(backend, Backend):
            raise TypeError(f"it is a {type(backend).__name__}, not a Backend")
        _check_version(backend, _providers[name])
        if backend.name != name:
            raise errors.BackendError(f"it is named {backend.name!r}, its plugin says {name!r}")
    except FAILURES as error:
        if type(error) is ImportError:  # the plugin's own message
            raise
        module = path.partition(":")[0]
        if isinstance(error, ModuleNotFoundError) and not f"{module}.".startswith(f"{error.name}."):
            raise ImportError(f"not installed ({error})") from error
        raise _BrokenError(f"{path}: {type(error).__name__}: {error}") from error
    made = _backends.setdefault(name, backend)
    if made.missing:  # its arrays have rules of their own
        _renew_rules()
    return made


def _checked_executor(executor: Any) -> Executor:
    """Return an executor, checked to have all required attributes."""
    missing = [name for name in ("name", "backends", "supports", "build") if not hasattr(executor, name)]
    if missing or not isinstance(executor.name, str) or not executor.name:
        lacks = f"it has no {' and no '.join(missing)}" if missing else f"its name is {executor.name!r}"
        raise errors.BackendError(f"{executor!r} is no executor: {lacks}{errors.called()}")
    found = getattr(executor, "contract", CONTRACT)
    if found != CONTRACT:
        raise errors.BackendError(
            f"the executor {executor.name!r} is written for version {found} of the contract, this is {CONTRACT}"
        )
    return executor  # type: ignore[no-any-return]


def executor_named(which: Any) -> Executor:
    """Return an executor by name; an object that is an executor is returned unchanged.

    Raises
    ------
    BackendError
        If there is none of that name, or it does not work here; the message says which exist, or what to install.
    """
    plugins()
    if not isinstance(which, str):
        return _checked_executor(which)
    if which not in _executors:
        known = ", ".join(sorted(_executors)) or "none"
        raise errors.BackendError(f"unknown executor {which!r}. Installed executors: {known}{errors.called()}")
    row, found = _executor_row(which)
    if found is None:
        raise errors.BackendError(f"the executor {which!r} is not available: {row.reason}{errors.called()}")
    return found


def executors() -> tuple[ExecutorInfo, ...]:
    """Return all executors of the installed plugins: name, backends, whether usable, and why not."""
    plugins()
    return tuple(_executor_row(name)[0] for name in sorted(_executors))


def _executor_row(name: str) -> tuple[ExecutorInfo, Executor | None]:
    """Return an executor's row of `executors`, and the executor if it can be used."""
    one, _ = _executors[name]
    backends: tuple[str, ...] = ()
    try:
        found = _checked_executor(at_path(one) if isinstance(one, str) else one)
        backends = tuple(found.backends)
        if found.name != name:
            raise errors.BackendError(f"it is named {found.name!r}, its plugin says {name!r}")
        ok, text = found.availability() if hasattr(found, "availability") else (True, "")
        failed = False
    except FAILURES as error:  # reported as the reason
        ok, failed = False, not isinstance(error, ImportError)
        text = str(error) if type(error) is ImportError else f"{type(error).__name__}: {error}"
    return ExecutorInfo(name, backends, ok, text if ok else "", "" if ok else text, failed), found if ok else None


def _check_name(name: Any) -> None:
    """Raise unless a name can serve as the first part of a device, as in ``"cupy:0"``."""
    if not isinstance(name, str) or not name or ":" in name or name.split() != [name] or name == CPU:
        raise errors.BackendError(
            f"a backend is named {name!r}: its name is a str without ':' and white space, and not empty or {CPU!r}"
        )


def _fail(name: str, error: BaseException) -> None:
    """Record that a plugin failed, once."""
    if name not in _failures:
        _failures[name] = f"{type(error).__name__}: {error}"
        _unreported.append(name)


def _report() -> None:
    """Warn of the plugins that failed. Called last, because warnings may be errors."""
    while _unreported:
        name = _unreported.pop()
        _warn(f"the agrad plugin {name!r} failed: {_failures[name]}")


def _warn(message: str) -> None:
    """Warn at the line of the user's call."""
    errors.warn_at(errors.calling_frame(), message, RuntimeWarning)


def ask(hook: str, **arguments: Any) -> Any:
    """Return the first answer of the plugins to a hook; skip one that raises, with a warning."""
    caller = getattr(plugins().hook, hook)
    try:
        return caller(**arguments)
    except Exception:  # noqa: BLE001 (a faulty plugin must not affect the others)
        found = None
        for implementation in reversed(caller.get_hookimpls()):
            found = _answer(implementation, arguments)
            if found is not None:
                break
        _report()
        return found


def own_rules(op: str) -> dict[str, Mapping[str, Any]]:
    """Return the derivatives of an op that apply to single backends, by backend.

    They come from plugins, and from the op itself for backends whose arrays may have missing elements.
    """
    found: dict[str, Mapping[str, Any]] = {}
    if isinstance(of_missing := OPS[op].facts.missing, Mapping):
        found |= {name: of_missing for name, backend in _backends.items() if backend.missing}
    if plugins().hook.agrad_rule.get_hookimpls():
        answers = {name: ask("agrad_rule", op=op, backend=name) for name in _providers}
        found |= {name: answer for name, answer in answers.items() if answer is not None}
    return found


def _renew_rules() -> None:
    """Make ops look up their rules for backends again, and check these: a rule that does not fit counts as a failure of its plugin."""
    assert _plugins is not None
    for implementation in _plugins.hook.agrad_rule.get_hookimpls():
        try:
            for op in OPS.values():
                for name in _providers:
                    given = _answer(implementation, {"op": op.name, "backend": name})
                    if given is not None:
                        op.rule_of(**given)
        except FAILURES as error:
            _fail(implementation.plugin_name, error)
            _plugins.unregister(implementation.plugin)
    for op in OPS.values():
        op.forget_rules()


def _answer(implementation: Any, arguments: Mapping[str, Any]) -> Any:
    """Return one plugin's answer to a hook, or None if the plugin fails, which is recorded."""
    try:
        return implementation.function(*(arguments[name] for name in implementation.argnames))
    except FAILURES as error:
        _fail(implementation.plugin_name, error)
        return None


def _claimed(array_type: type) -> str | None:
    """Return the name of the backend that claims an array type; warn where installed plugins claim it for several.

    A claim made last (``@hookimpl(trylast=True)``), as NumPy's of all subclasses of its arrays, yields to others.
    """
    claims = [
        (str(name), one)
        for one in reversed(plugins().hook.agrad_backend_of.get_hookimpls())
        if (name := _answer(one, {"array_type": array_type})) is not None
    ]
    _report()
    first = [(name, one.plugin_name) for name, one in claims if one.plugin_name in _sources and not one.trylast]
    # Otherwise one was registered by hand
    if first and first[0][0] == claims[0][0] and len({name for name, _ in first}) > 1:
        told = " and ".join(
            f"{plugin!r} of the distribution {_sources[plugin]!r}, for {name!r}" for name, plugin in first
        )
        _warn(
            f"{array_type.__module__}.{array_type.__qualname__} is claimed by the plugins {told}; it counts as one of"
            f" {first[0][0]!r}. Uninstall one of them, or make it claim only its own types"
        )
    return claims[0][0] if claims else None


def find_backend(array_type: type) -> Backend | None:
    """Return the backend of an array type, as the plugins say; None if none claims it.

    Raises
    ------
    BackendError
        If the type belongs to a known library whose plugin is not installed.
    """
    unclaimed = _unclaimed
    if array_type in unclaimed:
        return None
    own = getattr(array_type, "backend", None)
    if isinstance(own, Backend):  # arrays of vmap raise their own error
        return own
    name = _claimed(array_type)
    if name is not None:
        return get(name)
    library = array_type.__module__.partition(".")[0]
    if library in PACKAGES and library not in _providers and hasattr(array_type, "dtype"):
        raise errors.BackendError(
            f"No backend for {array_type.__module__}.{array_type.__name__}. Install agrad-{library}.\n"
            f"  {install(library)}"
        )
    if not _failures:  # otherwise a plugin may have failed to claim it
        unclaimed.add(array_type)
    return None


def install(library: str) -> str:
    """Return the command that installs the plugin of a library: from a package index, or from a clone of the repository."""
    return f'pip install "agrad[{PACKAGES[library]}]", or in a clone: pip install -e plugins/{library}_backend'


def get(name: str) -> Backend:
    """Return a backend by name, or by the first part of a device.

    Raises
    ------
    BackendError
        If there is none of that name, or it is unusable here; the message says why and what to install.
    """
    plugins()
    name = name.partition(":")[0]
    if name == CPU:
        name = "numpy"
    backend = _backends.get(name)
    if backend is None and name in _paths:
        try:
            backend = _made(name)
        except ImportError as error:
            raise errors.BackendError(f"the {name} backend is not available: {error}") from error.__cause__ or error
    if backend is None:
        known = ", ".join(sorted(_providers)) or "none"
        remedy = f" Install it with {install(name)}." if name in PACKAGES else ""
        if name == "cuda":  # PyTorch's word
            remedy = ' CUDA devices belong to the cupy backend: "cupy:0".'
        elif name in {"cudnn", "mkldnn", "mkl", "openmp"}:  # an attribute of torch.backends
            remedy = " PyTorch's library switches do not exist here: delete the line."
        failed = f" Its plugin failed to load: {_failures[name]}." if name in _failures else ""
        line = errors.line_of(*errors.caller())
        raise errors.BackendError(
            f"unknown backend {name!r}. Installed backends: {known}.{failed}{remedy}\n  Called at {line}."
        )
    return backend


def scipys(module: str, by: str = "") -> Any:
    """Return a module of SciPy, such as ``"optimize"``; the NumPy backend imports it (`Backend.module`).

    Parameters
    ----------
    module : str
        Its name.
    by : str, optional
        The part of agrad that runs its functions, for the message. Default: agrad's module of the same name.

    Raises
    ------
    BackendError
        If SciPy is not installed.
    """
    found = get("numpy").module(f"scipy.{module}")
    if found is None:
        by = by or f"agrad.scipy.{module}"
        raise errors.BackendError(f"{by} needs SciPy, which is not installed: pip install scipy{errors.called()}")
    return found


def usable(name: str) -> Backend:
    """Return a backend by name, checked to be available.

    Raises
    ------
    BackendError
        If it is not available, with the reason, or has no such device.
    """
    backend = get(name)
    if backend.name not in _checked:
        row = _row(backend.name)
        if not row.available:
            raise errors.BackendError(f"the {row.name} backend is not available: {row.reason}")
        _checked.add(backend.name)
    if ":" in name and name not in backend.devices():
        raise errors.BackendError(
            f"the {backend.name} backend has no device {name!r}. Its devices: {', '.join(backend.devices())}."
        )
    return backend


_checked: set[str] = set()


def backends() -> tuple[BackendInfo, ...]:
    """Return all installed backends: name, whether usable, version, devices, and why not.

    Returns
    -------
    tuple of BackendInfo
        Sorted by name; plugins that failed to load are among them.
    """
    plugins()
    failed = [BackendInfo(name, False, "", (), reason, True) for name, reason in sorted(_failures.items())]
    return BackendTable([*map(_row, sorted(_providers)), *failed])


def backend_info(name: str) -> BackendInfo | None:
    """Return the row of one backend in `backends`, None if no plugin provides it; import no library of another backend."""
    plugins()
    if name in _providers:
        return _row(name)
    return BackendInfo(name, False, "", (), _failures[name], True) if name in _failures else None


def _row(name: str) -> BackendInfo:
    """Return the row of one backend in `backends`; it may be unusable."""
    try:
        backend = _made(name)
    except ImportError as error:
        return BackendInfo(name, False, "", (), str(error), isinstance(error, _BrokenError))
    assert backend is not None
    try:
        ok, text = backend.availability()
        devices, failed = backend.devices() if ok else (), False
    except FAILURES as error:  # reported as the reason
        ok, text, devices, failed = False, f"{type(error).__name__}: {error}", (), True
    return BackendInfo(name, ok, text if ok else "", tuple(devices), "" if ok else text, failed)


# -- the default ------------------------------------------------------------------------------------------------------


def default_backend() -> Backend:
    """Return the backend of creation functions that are called without a device.

    In this order: `use_backend`, `set_default_backend`, the environment variable AGRAD_BACKEND, numpy, the only usable
    backend.

    Returns
    -------
    Backend
        The backend.

    Raises
    ------
    BackendError
        If there is none; the message says what to install.
    """
    return _default_named(_default_name())


def choice() -> tuple[str | None, str | None]:
    """Return the choice made by `use_backend` and `set_default_backend`: while it is unchanged, so is the default backend."""
    return _chosen.get(), _default


def _default_name() -> str:
    """Return the backend or device chosen as the default; empty if none was chosen."""
    return _chosen.get() or _default or os.environ.get("AGRAD_BACKEND") or ""


def _default_named(name: str) -> Backend:
    """Return the default backend, given the name that was chosen."""
    if name:
        return usable(name)
    plugins()
    if "numpy" in _backends or ("numpy" in _providers and _row("numpy").available):
        return usable("numpy")
    rows = backends()
    found = [row.name for row in rows if row.available]
    if len(found) == 1:
        return usable(found[0])
    if found:
        message = f"several backends are installed ({', '.join(found)}); choose one with ag.set_default_backend(name)"
    else:
        why = "".join(f"\n  {row}" for row in rows)
        message = f"no backend is installed. Install one, for instance NumPy's: {install('numpy')}{why}"
    raise errors.BackendError(message)


def default_device() -> str:
    """Return the device of creation functions that are called without one."""
    return device_of(None)[1]


def set_default_backend(device: str) -> None:
    """Choose where creation functions create tensors.

    Parameters
    ----------
    device : str
        ``"<backend>[:<device>]"``.

    Raises
    ------
    BackendError
        If it is unknown or unusable; the default is then unchanged.
    """
    global _default  # noqa: PLW0603 (the one process-wide choice)
    usable(device)
    not_recorded("the default backend is set")
    _default = device


class use_backend(Setting):  # noqa: N801 (a function to its users)
    """Choose where creation functions create tensors, within a block and this context.

    Parameters
    ----------
    device : str
        ``"<backend>[:<device>]"``.

    Examples
    --------
    >>> import agrad as ag
    >>> with ag.use_backend("numpy"):
    ...     ag.zeros((2,)).device
    'numpy'
    """

    var = _chosen

    def __init__(self, device: str) -> None:
        super().__init__(device)

    def __enter__(self) -> None:
        usable(self._value)
        super().__enter__()


_by: ContextVar[Any] = ContextVar("agrad_executor", default=None)


class use_executor(Setting):  # noqa: N801 (a function to its users)
    """Run programs by an executor, within a block and this context.

    A function returned by `compile` uses the executor that was named there.

    Parameters
    ----------
    executor : str or Executor
        The name of an installed executor, or an executor object. Programs that it cannot run, run as without it.

    Examples
    --------
    >>> import agrad as ag
    >>> program = ag.func.capture(ag.sin)(ag.tensor(0.5))
    >>> with ag.func.use_executor("abacus"):
    ...     program(ag.tensor(1.0))
    Traceback (most recent call last):
        ...
    agrad.core.errors.BackendError: unknown executor 'abacus'. ...
    """

    var = _by

    def __init__(self, executor: Any) -> None:
        super().__init__(executor)

    def __enter__(self) -> None:
        executor_named(self._value)
        super().__enter__()


def chosen_executor() -> Any:
    """Return the choice made by `use_executor`, None if there is none."""
    return _by.get()


def device_of(device: Any) -> tuple[Backend, str]:
    """Return the backend and the full device for the user's ``device=``; None means the default.

    Raises
    ------
    BackendError
        If it names no usable backend.
    """
    if device is None:
        name = _default_name()
        backend = _default_named(name)
        return backend, name if ":" in name else backend.default_device()
    text = str(device)
    backend = usable(text)
    if isinstance(device, Place):
        return backend, device
    return backend, text if ":" in text else backend.default_device()


def namespace(name: str) -> Any:
    """Return agrad's functions bound to a backend; see ``agrad.namespace``."""
    return get(name).functions


__all__ = [
    "Device",
    "ask",
    "backends",
    "default_backend",
    "executors",
    "find_backend",
    "get",
    "own_rules",
    "register",
    "set_default_backend",
    "use_backend",
    "use_executor",
]
