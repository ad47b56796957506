"""What a publisher discloses about a configuration: `location-monitor register` fills the files of `templates/`."""
