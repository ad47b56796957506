"""`location-monitor dead-letters`: show refused visits, export them for correction, and send corrected ones again."""
