"""Whether a saved context is one of this very server: the same weights, build and shape, and a file that is whole."""

import stat

from engine.client.index import FORMAT, SavedContext
from engine.client.slot_files import measure, stamp_of
from engine.client.view import Facts, readable


def misfit(saved: SavedContext, facts: Facts) -> str | None:
    """Say why this context must not be given to this server; None if it fits. Reads the file where it can."""
    checks = (
        (saved.format != FORMAT, "it was saved by another version of this program"),
        (saved.build != facts.build, "the server is another build now"),
        (saved.total_slots != facts.total_slots, "the server was started with another number of slots"),
        (saved.cache_types != facts.cache_types, "the server was started with other cache types"),
        (facts.n_ctx is not None and saved.tokens >= facts.n_ctx, "it is longer than the server's context now"),
        (saved.folder != (facts.save_path or ""), "the server keeps its slots in another folder now"),
    )
    return next((reason for wrong, reason in checks if wrong), None) or _damage(saved)


def _damage(saved: SavedContext) -> str | None:
    path = readable(saved.folder, saved.filename)
    if path is None:
        return None
    try:
        status = path.stat()
        if status.st_size != saved.size:
            return "its file is cut short or grew"
        if saved.stamp not in (None, stamp_of(status)) and measure(path).digest != saved.digest:
            return "its file has changed"
    except OSError as error:
        # One that we never could see was measured by the server itself, and we did not overwrite it since.
        return None if saved.stamp is None else f"its file cannot be read: {error.strerror}"
    return None


def model_key(facts: Facts) -> str:
    """Return what tells one set of weights from another: path, and size and time where the file can be seen."""
    name = f"{facts.model or ''} {facts.model_path or ''}"
    path = readable("", facts.model_path or "")
    try:
        status = path.stat() if path else None
    except OSError:
        return name
    return f"{name} {status.st_size} {status.st_mtime_ns}" if status and stat.S_ISREG(status.st_mode) else name
