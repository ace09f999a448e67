"""The test kit, shipped with the package: a made-up stream, a source and a sink in memory."""
