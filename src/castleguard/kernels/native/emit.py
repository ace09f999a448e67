"""From entry kernels to machine code: numba infers types and lowers to LLVM, which optimises a module as a whole.

Numba would optimise and generate code for every function, and again for every caller that contains it. Here functions
are only lowered; those that an entry needs are then linked into one module and optimised once, which takes a third of
the time. This replaces methods of numba's code libraries in this process, so it is only used by the process that builds
libraries, and tests compare the results with those of plain Python.

An entry is exported as a function of one block of eight-byte slots, see `call.py`.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import codegen, types

from castleguard.kernels.compile import Options
from castleguard.kernels.native.library import PORTABLE, PREFIX
from castleguard.kernels.native.signature import Array, Record, Scalar, Signature, Type, signature_of

_NJIT: Any = numba.njit  # with options that its stubs do not list
_TYPES: Any = types
_WORD = ir.IntType(64)
_EXTERNAL = {"log", "memcpy", "memmove", "memset", "nextafter"}  # of the C and mathematics libraries
_POINTER = ir.PointerType(ir.IntType(8))


ENTRIES: list[Any] = []
"""Entry kernels of the modules imported so far, as numba's functions."""


def lower(function: Callable[..., Any], options: Options) -> Any:
    """Numba's form of a kernel."""
    lowered = _NJIT(
        nogil=True,
        fastmath={"nnan", "nsz"} if options.scan else False,
        error_model="numpy",
        inline="always" if options.inline else "never",
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
        _nrt=False,
    )(function)
    if options.entry:
        ENTRIES.append(lowered)
    return lowered


def postpone_code_generation() -> None:
    """Let numba lower functions only; call it before the first one is compiled."""
    library: Any = codegen.CPUCodeLibrary
    library._optimize_functions, library.finalize = _set_layout, _finish
    generator: Any = codegen.JITCPUCodegen
    generator.set_env = _ignore


def _set_layout(self: Any, module: Any) -> None:
    module.data_layout = self._codegen._data_layout


def _finish(self: Any) -> None:
    self._raise_if_finalized()
    self._finalized = True


def _ignore(self: Any, name: str, environment: object) -> None:
    """Compiled kernels never call into Python, which is what an environment is for."""


def link_entries(entries: Sequence[Any]) -> bytes:
    """Compile entry kernels and link them with everything that they call; return the module as bitcode."""
    linked = llvm.parse_assembly("")
    for entry in entries:
        signature = signature_of(entry.py_func)
        entry.compile(tuple(_numba_type(parameter) for parameter in signature.parameters))
        (result,) = entry.overloads.values()
        # Callers first: a function that may have several definitions is linked only where it is needed.
        linked.link_in(_make_wrapper(entry, result, signature))
        for library in _with_callees(result.library, {}):
            module = llvm.parse_bitcode(library._final_module.as_bitcode())
            for function in module.functions:
                if not function.is_declaration:
                    function.linkage = "linkonce_odr"  # several entries may bring the same callee
                if function.name == result.fndesc.mangled_name:
                    function.add_function_attribute("noinline")  # profilers show it by name
            linked.link_in(module)
    linked.verify()
    bitcode: bytes = linked.as_bitcode()
    return bitcode


def _with_callees(library: Any, seen: dict[Any, None]) -> Iterator[Any]:
    """A code library, and those that its functions call, directly or not."""
    if library not in seen:
        seen[library] = None
        yield library
        for callee in library._linking_libraries:
            yield from _with_callees(callee, seen)


def _make_wrapper(entry: Any, result: Any, signature: Signature) -> Any:
    """Module with the exported form of an entry: it reads its arguments from the slots of a block."""
    context = result.target_context
    native = context.call_conv.get_function_type(result.fndesc.restype, result.fndesc.argtypes)
    module = ir.Module(name=f"{PREFIX}{entry.__name__}")
    module.triple = result.library._final_module.triple
    module.data_layout = result.library._final_module.data_layout
    function = ir.Function(module, native, result.fndesc.mangled_name)
    wrapper = ir.Function(module, ir.FunctionType(ir.IntType(32), [_POINTER]), PREFIX + entry.__name__)
    builder = ir.IRBuilder(wrapper.append_basic_block())
    block = builder.bitcast(wrapper.args[0], _WORD.as_pointer())
    native_types = iter(native.args)
    arguments = [
        builder.bitcast(block, next(native_types)),  # the result goes into the first slot
        builder.alloca(next(native_types).pointee),  # numba's exception, which kernels do not raise
    ]
    at = 1

    def load() -> Any:
        nonlocal at
        word = builder.load(builder.gep(block, [_WORD(at)]))
        at += 1
        return _convert(builder, word, next(native_types))

    for leaf in signature.leaves:
        if isinstance(leaf, Array):
            arguments += [
                next(native_types)(None),
                next(native_types)(None),
            ]  # owner and parent: Python keeps the array
        slots = 3 + 2 * leaf.axes if isinstance(leaf, Array) else 1
        arguments += [load() for _ in range(slots)]
    assert next(native_types, None) is None
    builder.ret(builder.call(function, arguments))
    return llvm.parse_assembly(str(module))


def _convert(builder: Any, word: Any, wanted: Any) -> Any:
    """A slot's word as an argument of another type of at most eight bytes."""
    if isinstance(wanted, ir.PointerType):
        return builder.inttoptr(word, wanted)
    if isinstance(wanted, ir.DoubleType):
        return builder.bitcast(word, wanted)
    return word if wanted == _WORD else builder.trunc(word, wanted)


@cache
def _numba_type(type_: Type) -> Any:
    if isinstance(type_, Scalar):
        return getattr(types, {"bool": "boolean"}.get(type_.kind, type_.kind))
    if isinstance(type_, Array):
        return types.Array(numba.from_dtype(np.dtype(type_.dtype)), type_.axes, "C", readonly=not type_.written)
    fields = tuple(map(_numba_type, type_.fields))
    return _record_type(type_, fields)


def _record_type(record: Record, fields: tuple[Any, ...]) -> Any:
    alike = len(set(fields)) == 1
    if record.cls is tuple:
        return _TYPES.UniTuple(fields[0], len(fields)) if alike else _TYPES.Tuple(fields)
    return _TYPES.NamedUniTuple(fields[0], len(fields), record.cls) if alike else _TYPES.NamedTuple(fields, record.cls)


def emit_object(bitcode: bytes, level: str) -> bytes:
    """Optimise a module for an instruction set and return it as an object file."""
    module = llvm.parse_bitcode(bitcode)
    for function in module.functions:
        if function.name == "numba_nextafter":
            function.name = "nextafter"
        if not function.is_declaration and not function.name.startswith(PREFIX):
            function.linkage = "internal"
    for variable in module.global_variables:
        if not variable.is_declaration:
            variable.linkage = "internal"
    target = llvm.Target.from_triple(module.triple)
    cpu = level if level != PORTABLE else "x86-64" if "x86_64" in module.triple else "generic"
    machine = target.create_target_machine(cpu=cpu, opt=3, reloc="pic", codemodel="default")
    tuning = llvm.create_pipeline_tuning_options(speed_level=3)
    tuning.loop_vectorization = True
    tuning.slp_vectorization = False  # as numba: it makes these kernels slower
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)
    missing = [
        each.name for each in module.functions if each.is_declaration and each.name.startswith(("numba_", "NRT_", "Py"))
    ]
    if missing:
        raise RuntimeError(f"compiled kernels cannot call {missing[0]}: does a kernel allocate, or raise?")
    code: bytes = machine.emit_object(module)
    return code
