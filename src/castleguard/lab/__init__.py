"""Experiments of the four papers, repeated: data sets, methods of comparison and figures."""
