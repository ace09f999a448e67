"""State as bytes that survive the process."""
