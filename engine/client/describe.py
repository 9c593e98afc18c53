"""Makes Facts of what a server says and of the process that listens at its address. Asks no server."""

import os
from dataclasses import replace
from pathlib import PurePosixPath, PureWindowsPath
from urllib.parse import urlsplit

from engine.client.answers import Props
from engine.client.view import Facts
from engine.processes import ProcessId, listener, look, working_folder

LOCAL = ("localhost", "127.0.0.1", "::1")


def listening(server_url: str) -> ProcessId | None:
    """Return the process that listens at this address, if it is one of this machine that may be known."""
    url = urlsplit(server_url)
    if url.hostname not in LOCAL:
        return None
    pid = listener(url.port or (443 if url.scheme == "https" else 80))
    seen = look(pid) if pid is not None else None
    return seen.process if seen else None


def described(facts: Facts, props: Props) -> Facts:
    """Return these facts together with what the server, or a router of this model, says."""
    return replace(
        facts,
        model_path=props.model_path or props.model_alias,
        build=props.build_info,
        total_slots=props.total_slots,
        n_ctx=props.n_ctx,
        has_metrics=bool(props.endpoint_metrics),
        has_slots=bool(props.endpoint_slots),
    )


def placed(facts: Facts, server_url: str) -> Facts:
    """Let relative paths count from the server's own folder: from ours they may lead to other files."""
    if facts.command_line and not facts.is_own:
        return facts  # a program that passes everything on to a server elsewhere
    folder = working_folder(facts.process.pid) if facts.process else None
    if folder is None:
        is_local = urlsplit(server_url).hostname in LOCAL
        return replace(facts, is_unclear=is_local and not _is_whole(facts.model_path))
    # Joined as they are: the server's own word for its model must still be found in the path.
    save_path, model_path = (
        path if _is_whole(path) else os.path.join(folder, path or "")  # noqa: PTH118
        for path in (facts.save_path, facts.model_path)
    )
    return replace(facts, save_path=save_path, model_path=model_path)


def _is_whole(path: str | None) -> bool:
    """Tell whether a path, if there is one, means the same in each folder, on this system or another."""
    return not path or PurePosixPath(path).is_absolute() or PureWindowsPath(path).is_absolute()
