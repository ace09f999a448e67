"""Configuration files: YAML into frozen values, with file and line for every problem."""
