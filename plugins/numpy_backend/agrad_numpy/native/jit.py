"""LLVM as a compiler: from text to addresses of functions."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from agrad_numpy.native import disk_cache

#: LLVM's optimisation level: a higher one takes longer and makes nothing here faster.
EFFORT = 1


@functools.cache
def _llvm() -> tuple[Any, Any, str, str]:
    """Return llvmlite's binding, the target, and the names of this processor and its features."""
    import llvmlite.binding as llvm  # noqa: PLC0415 (an extra; and it takes 0.1 s)

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm, llvm.Target.from_default_triple(), llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@functools.cache
def _made_by() -> tuple[str, ...]:
    """Return everything besides the text that determines the code."""
    import llvmlite  # noqa: PLC0415 (as above)

    llvm, target, cpu, features = _llvm()
    versions = llvmlite.__version__, ".".join(map(str, llvm.llvm_version_info))
    return (*versions, target.triple, cpu, features, str(EFFORT))


def availability() -> tuple[bool, str]:
    """Return whether LLVM is available, and the processor is one that it supports well; the second part is a version or the reason."""
    try:
        import llvmlite  # noqa: PLC0415 (as above)

        features = _llvm()[3].split(",")
    except Exception as error:  # noqa: BLE001 (whatever it is, the programs run as text)
        return False, f'llvmlite does not work here ({error}); pip install "agrad-numpy[native]"'
    target = _llvm()[1].triple
    if target.startswith("x86_64") and not {"+fma", "+avx2"} <= set(features):
        return False, "the processor has no AVX2 and FMA"
    if not target.startswith(("x86_64", "aarch64", "arm64")):
        return False, f"kernels are for x86-64 and 64-bit ARM, not for {target.partition('-')[0]}"
    return True, f"llvmlite {llvmlite.__version__}"


def vector_bytes() -> int:
    """Return how many bytes kernels process at a time: as many as the processor, or 32, which NEON takes in two."""
    try:
        features = set(_llvm()[3].split(","))
    except Exception:  # noqa: BLE001 (`availability` says what it is)
        return 32
    return 64 if {"+avx512f", "+avx512bw", "+avx512dq", "+avx512vl"} <= features else 32


def _free(engine: Any, context: Any) -> None:
    """Free code before the context that it was created in."""
    engine.close()
    context.close()


class CompiledModule:
    """A compiled LLVM module; its code is freed with it.

    Parameters
    ----------
    text : str
        The module's.
    kept : bool
        Whether its code may be kept on disk: a text with addresses belongs to one process.
    """

    def __init__(self, text: str, *, kept: bool = True) -> None:
        llvm, target, cpu, features = _llvm()
        machine = target.create_target_machine(cpu=cpu, features=features, opt=EFFORT, jit=True)
        self._context = llvm.create_context()  # a shared one would keep the names of each module, and is for one thread
        key = disk_cache.key_of(text, *_made_by()) if kept else b""
        code = disk_cache.read(key) if kept else None
        if code is None:
            code = self._code(text, machine)
            if kept:
                disk_cache.write(key, code)
        self._engine = llvm.create_mcjit_compiler(llvm.parse_assembly("", self._context), machine)
        self._engine.add_object_file(llvm.ObjectFileRef.from_data(code))
        self._engine.finalize_object()
        # Python's collector finalises what is in a cycle in any order; what a finalizer holds is not among it.
        weakref.finalize(self, _free, self._engine, self._context).atexit = False

    def _code(self, text: str, machine: Any) -> bytes:
        """Return a module as an object."""
        llvm, target, _, _ = _llvm()
        module = llvm.parse_assembly(text, self._context)
        module.triple, module.data_layout = target.triple, str(machine.target_data)
        options = llvm.create_pipeline_tuning_options(speed_level=EFFORT)
        options.loop_vectorization = options.slp_vectorization = options.loop_unrolling = False
        builder = llvm.create_pass_builder(machine, options)
        passes = builder.getModulePassManager()
        passes.run(module, builder)
        dispose = getattr(llvm.ffi.lib, "LLVMPY_DisposeNewModulePassManger", None)
        if dispose is not None:  # llvmlite 0.50 leaks its 40 kB
            dispose(passes)
            passes.detach()
        return bytes(machine.emit_object(module))

    def address(self, name: str) -> int:
        """Return the address of a function."""
        return int(self._engine.get_function_address(name))

    def variable(self, name: str) -> int:
        """Return the address of a variable."""
        return int(self._engine.get_global_value_address(name))
