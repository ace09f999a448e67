"""`castleguard warmup`: compile the kernels before the first row needs them."""

import click


@click.command(short_help="Compile the kernels beforehand.")
def warmup() -> None:
    """Compile all kernels that this machine has no library for.

    An installation from a wheel has all of them, and this command does nothing. In a source checkout, or on a platform
    without a wheel, the first rows of a stream would wait for the compiler. The libraries are kept in the cache folder
    (see CASTLEGUARD_CACHE), for all processes of this user.
    """
    from castleguard.kernels.native.library import build, find_library, list_modules

    missing = [module for module in list_modules() if find_library(module) is None]
    if missing:
        build(missing)
    click.echo(f"{len(list_modules())} kernel libraries are ready.")
