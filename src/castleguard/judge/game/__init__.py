"""The membership game for a policy: claims, canaries, verdicts."""
