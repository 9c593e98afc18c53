"""Commands that show, measure and check the engine; no window toolkit."""
