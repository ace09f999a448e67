"""`python -m castleguard` is the command line."""

from castleguard.cli import main

main()
