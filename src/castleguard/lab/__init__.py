"""The experiments of the four papers, repeated: their data, what they compare with, and their figures."""
