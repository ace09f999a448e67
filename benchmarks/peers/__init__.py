"""Other anonymisation tools, each in an environment of its own."""
