"""Libraries of compiled kernels: one per kernel module that has entries, named by what it was compiled from.

A library's name has a digest of the sources of its module and of all kernel modules below it, so an edited kernel
never runs as an old library. A wheel carries the libraries in `lib`; elsewhere they are built at the first call, or
before by `castleguard warmup` and `make setup`, and kept in a cache folder. Building needs numba, running does not.
"""

import atexit
import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from castleguard.errors import ConfigError

PACKAGED = Path(__file__).parent / "lib"
PREFIX = "castleguard_"  # of exported symbols
PORTABLE = "portable"
_WIDE = "x86-64-v3"
_WIDE_FLAGS = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe"}
_KERNELS = "castleguard.kernels"
_SLOWEST = ("castle", "citadel", "withdraw", "doca")  # built first, so that no core is left with a slow one
_IMPORT = re.compile(rf"^from ({re.escape(_KERNELS)}(?:\.\w+)?) import (\(?[\w, ]*)", re.MULTILINE)
_BUILDERS = ("emit", "signature")  # modules of this package that a library's code depends on


@cache
def levels() -> tuple[str, ...]:
    """Instruction sets of this machine for which libraries are built, the best one first."""
    if platform.machine().lower() not in {"x86_64", "amd64"}:
        return (PORTABLE,)
    try:
        flags = re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        return (PORTABLE,)
    return (_WIDE, PORTABLE) if flags and _WIDE_FLAGS <= set(flags[1].split()) else (PORTABLE,)


def find_cache() -> Path:
    """Create the cache folder, private to this user; where that is impossible, one for this process.

    A folder that other users can write, such as a shared temporary folder, is never used: the cache holds machine code.
    """
    chosen = os.environ.get("CASTLEGUARD_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "castleguard"
    folder = base / "kernels"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except (OSError, RuntimeError):
        return _temporary()
    return folder if _is_private(folder) else _temporary()


@cache
def _temporary() -> Path:
    """Folder that is removed when this process ends."""
    base = Path(mkdtemp(prefix="castleguard-"))
    atexit.register(shutil.rmtree, base, ignore_errors=True)
    (base / "kernels").mkdir(mode=0o700)
    return base / "kernels"


def _is_private(folder: Path) -> bool:
    """Whether only this user can write the folder; without file owners (Windows), whether this user can."""
    if not os.access(folder, os.W_OK):
        return False
    facts = folder.stat()
    return not hasattr(os, "getuid") or (facts.st_uid == os.getuid() and facts.st_mode & 0o022 == 0)


@cache
def file_name(module: str, level: str) -> str:
    """Name of a module's library, without the suffix."""
    digest = hashlib.sha256()
    builders = [Path(__file__).parent / f"{name}.py" for name in _BUILDERS]
    for source in (*builders, *sorted(_sources(module))):
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    machine = f"{sys.platform}-{platform.machine()}"
    return f"{module.rpartition('.')[2]}-{digest.hexdigest()[:16]}-{machine}-{level}"


def _sources(module: str) -> set[Path]:
    """Files of a module and of all kernel modules that it imports, directly or not."""
    found: set[Path] = set()
    waiting = [_source(module)]
    while waiting:
        source = waiting.pop()
        if source in found:
            continue
        found.add(source)
        for package, names in _IMPORT.findall(source.read_text(encoding="utf-8")):
            below = [f"{package}.{name}" for name in re.findall(r"\w+", names)] if package == _KERNELS else [package]
            waiting += [_source(name) for name in below if not name.startswith(f"{_KERNELS}.native")]
    return found


def _source(module: str) -> Path:
    if module.startswith(f"{_KERNELS}."):
        return Path(__file__).parents[1] / f"{module.rpartition('.')[2]}.py"
    return Path(str(sys.modules[module].__file__))


def list_modules() -> list[str]:
    """Kernel modules of the package that have entries, the slowest to compile first."""
    sources = Path(__file__).parents[1].glob("*.py")
    names = sorted(source.stem for source in sources if "\n@entry_kernel\n" in source.read_text(encoding="utf-8"))
    names.sort(key=lambda name: _SLOWEST.index(name) if name in _SLOWEST else len(_SLOWEST))
    return [f"{_KERNELS}.{name}" for name in names]


def find_library(module: str) -> Path | None:
    """Library of a module that runs on this machine; None if it must be built."""
    return _find_in(PACKAGED, module) or _find_in(find_cache(), module)


def _find_in(folder: Path, module: str) -> Path | None:
    """The best library of a module in a folder."""
    for level in levels():
        for suffix in (".so", ".o"):
            path = folder / (file_name(module, level) + suffix)
            if path.exists():
                return path
    return None


def find_function(function: Callable[..., Any]) -> Callable[[Any], int]:
    """Compiled form of an entry kernel: a function of a block of arguments that returns 0 on success."""
    library = _open_library(function.__module__)
    compiled: Callable[[Any], int] = library(PREFIX + function.__name__)
    return compiled


_TRIED: set[str] = set()  # modules whose build was started, so that it is not started again after it failed


@cache
def _open_library(module: str) -> Callable[[str], Any]:
    path = find_library(module)
    if path is None and module not in _TRIED:
        _TRIED.add(module)
        build(_missing(module))
        path = find_library(module)
    if path is None:
        raise ConfigError(f"the kernels of {module} could not be compiled, see standard error")
    if path.suffix == ".so":
        return _functions(ctypes.CDLL(str(path)))
    from castleguard.kernels.native.objects import load_object  # loads LLVM: only without a linker

    return load_object(path)


def _functions(library: ctypes.CDLL) -> Callable[[str], Any]:
    def find(name: str) -> Any:
        found = getattr(library, name)
        found.argtypes, found.restype = (ctypes.c_void_p,), ctypes.c_int32
        return found

    return find


ENTRIES: list[Callable[..., Any]] = []
"""Entry kernels of the modules imported so far."""


def _missing(module: str) -> list[str]:
    """Modules to build together with one that is needed now: those imported so far that have no library."""
    modules = dict.fromkeys([module, *(entry.__module__ for entry in ENTRIES)])
    return [each for each in modules if each == module or (each.startswith(_KERNELS) and find_library(each) is None)]


def build(modules: Sequence[str]) -> None:
    """Build the libraries of modules in a process of its own, which shows its progress."""
    if find_spec("numba") is None:
        raise ConfigError(
            "this installation has no compiled kernels for this platform, and no compiler: "
            "pip install 'castleguard[jit]', which compiles them once"
        )
    named = [module if module.startswith(f"{_KERNELS}.") else f"{module}={_source(module)}" for module in modules]
    paths = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, "-m", "castleguard.kernels.native.build", *named]
    environment = {**os.environ, "PYTHONPATH": paths, "CASTLEGUARD_CACHE": str(find_cache().parent)}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, check=False)
    if done.returncode != 0:
        raise ConfigError(f"compiling the kernels failed (exit code {done.returncode}), see standard error")
