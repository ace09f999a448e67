"""DOCA (2018): noisy means of groups of rows."""
