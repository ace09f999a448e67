"""Test kit: synthetic hospital visits, sources and sinks in memory, a manual clock, scripted crashes."""
