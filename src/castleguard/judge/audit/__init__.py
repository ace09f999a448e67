"""What a publication gives away, all findings together: the checks of `evaluate`, and a report that can be read."""
