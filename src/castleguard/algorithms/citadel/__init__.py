"""Citadel: groups grown from pending rows when they are due, each with k persons in its own release."""
