"""The language-model server: watching it, and bringing its context back."""
