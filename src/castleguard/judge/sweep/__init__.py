"""Which parameters to take: the same sample under many policies, and what each of them costs and protects."""
