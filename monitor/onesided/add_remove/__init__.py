"""One-sided noise for data to which one record is only added, or from which one is only removed."""
