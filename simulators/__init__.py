"""Write files of visits for `location-monitor replay`, from simulated towns or recorded movements. Not in the wheel."""
