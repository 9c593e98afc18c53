"""Every tunable, declared once, and where their values come from."""
