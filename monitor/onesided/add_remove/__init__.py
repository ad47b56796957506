"""One-sided noise for neighbours that only have one record more, or only one record less."""
