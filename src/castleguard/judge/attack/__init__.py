"""Attacks on published tables, and the membership game."""
