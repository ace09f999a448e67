"""SDGS: true rows under differential privacy, by sampling, a public grid and suppression."""
