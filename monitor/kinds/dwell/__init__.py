"""The number of visits at designated times and their mean length."""
