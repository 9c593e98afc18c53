"""The shells that people start: the command line, and the tray."""
