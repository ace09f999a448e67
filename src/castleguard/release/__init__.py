"""What leaves: the gate that re-checks every group, the order, the encoder, and the books."""
