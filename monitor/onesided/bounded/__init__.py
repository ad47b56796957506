"""Sums, counts and means of bounded values, where the shape of one person's contribution saves noise."""
