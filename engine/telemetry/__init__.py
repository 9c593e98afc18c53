"""Sensors and their fusion into one probability."""
