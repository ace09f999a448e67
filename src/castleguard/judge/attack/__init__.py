"""Attacks on published tables, and what counted runs of the membership game prove."""
