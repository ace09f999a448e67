"""Instructions are added up by kernel library, each one once."""

from benchmarks.instructions import count_by_library

PROFILE = """\
events: Ir

ob=(1) /usr/lib/libpython.so
fl=(1) ceval.c
fn=(1) evaluate
10 500
cob=(2) /cache/kernels/castle-0123456789abcdef-linux-x86_64-portable.so
cfn=(2) run
calls=1 20
10 7000
+3 40

ob=(2)
fl=(2)
fn=(2) run
20 1000
+1 2000
cfn=(3) split
calls=3 30
+1 4000
* 5

fn=(3) split
30 3990
cob=(3) /usr/lib/libm.so
cfn=(4) log
calls=9 40
30 10

ob=(4) /cache/kernels/other-0123456789abcdef-linux-x86_64-portable.so
fn=(5) run
1 9
"""


def test_only_the_own_cost_of_kernel_libraries_counts() -> None:
    assert count_by_library(PROFILE) == {"castle": 1000 + 2000 + 5 + 3990}
