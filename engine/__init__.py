"""Headless engine: senses how the user types and speaks, decides, and acts. Knows no window toolkit."""
