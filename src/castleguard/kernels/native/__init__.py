"""Compiled kernels without a compiler: libraries built ahead of time, and the calls into them.

signature.py   the declared types of an entry kernel
library.py     finds, or has built, the library of a kernel module
call.py        packs arguments and calls
build.py       `python -m castleguard.kernels.native.build`: numba lowers, LLVM optimises, a linker links
link.py        object files to shared libraries
"""
