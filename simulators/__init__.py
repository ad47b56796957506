"""Simulated towns and recorded movements as files of visits for `location-monitor replay`. Not in the wheel."""
