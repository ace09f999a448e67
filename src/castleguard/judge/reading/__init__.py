"""Read original and published tables, independently of the stream's decoder and encoder."""
