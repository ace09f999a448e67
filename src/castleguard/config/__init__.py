"""Configuration files: YAML in, frozen values out, every problem with its file and line."""
