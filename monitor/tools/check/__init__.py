"""The meaning of a configuration in numbers: what `check` computes and prints."""
