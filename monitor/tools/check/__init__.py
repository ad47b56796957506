"""What a configuration means in numbers: what `check` computes and prints."""
