"""What the operator sees while a stream runs; never a row's value."""
