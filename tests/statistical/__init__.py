"""Tests on real data: figures within stated bounds."""
