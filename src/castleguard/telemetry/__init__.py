"""Logs, metrics and health for the operator; never a row's value."""
