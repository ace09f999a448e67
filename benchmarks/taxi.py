"""CASTLEGUARD's information loss on the authors' taxi rows, beside the value in their paper (section VI-B).

    python -m benchmarks.taxi

The same as `castleguard reproduce castleguard --figure VI-B`, under the name of the data set.
"""

from castleguard.cli import main

if __name__ == "__main__":
    main(["reproduce", "castleguard", "--figure", "VI-B"])
