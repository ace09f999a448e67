"""What a job does and promises, in plain words: a value with sections of sentences."""
