"""Membership game against a policy: claims, canaries, verdicts."""
