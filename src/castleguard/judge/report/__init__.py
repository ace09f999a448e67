"""The audit report as one HTML page."""
