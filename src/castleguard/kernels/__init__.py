"""Numeric kernels, compiled by numba: arrays in, arrays out.

No kernel allocates in an inner loop, raises, reads a clock or keeps global state; randomness is an argument. Every
kernel has a slow and obvious twin under `tests/reference`, and all of them run as plain Python with
`NUMBA_DISABLE_JIT=1`. `compile.py` holds the compile options and the location of the cache.
"""
