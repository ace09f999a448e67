"""Attacks on published tables, and the evidence from runs of the membership game."""
