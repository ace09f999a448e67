"""Object files loaded by LLVM: for machines that have numba, but no linker."""

from collections.abc import Callable
from ctypes import CFUNCTYPE, c_int32, c_void_p
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm

_ENGINES: list[Any] = []  # never freed: functions point into them


def load_object(path: Path) -> Callable[[str], Any]:
    """Load an object file; return a function that finds its functions by name."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    machine = llvm.Target.from_default_triple().create_target_machine()
    engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
    engine.add_object_file(llvm.ObjectFileRef.from_path(str(path)))
    engine.finalize_object()
    _ENGINES.append(engine)
    prototype = CFUNCTYPE(c_int32, c_void_p)
    return lambda name: prototype(engine.get_function_address(name))
