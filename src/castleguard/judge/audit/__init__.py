"""Audit of a publication: all findings about its promise, attacks, risks and cost, and the HTML report."""
