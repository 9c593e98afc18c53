"""The engine's state in words: the menu, the tooltip and `status` say the same. Works without Qt."""

import sys

from engine.events import ServerState, Snapshot, State


def tr(text: str) -> str:
    """Return Qt's translation where Qt is loaded; whoever has no screen does without it."""
    qt = sys.modules.get("PySide6.QtCore")
    return text if qt is None else str(qt.QCoreApplication.translate("texts", text))


def title(snapshot: Snapshot) -> str:
    """Name the state in two or three words."""
    if snapshot.closed:
        return tr("Ended")
    if snapshot.paused:
        return tr("Paused")
    return {
        State.COLD_IDLE: tr("Waiting"),
        State.SPECULATIVE_PREPARED: tr("Prepared"),
        State.ACTIVE_INFERENCE: tr("Server at work"),
        State.DEGRADED: tr("No server"),
    }[snapshot.state]


def sentence(snapshot: Snapshot) -> str:
    """Say the state as one sentence, as one would aloud."""
    return f"{_happening(snapshot)}; {_consequence(snapshot)}."


def _happening(snapshot: Snapshot) -> str:
    if snapshot.closed:
        return tr("The engine has ended")
    if snapshot.paused:
        if snapshot.paused_for is None:
            return tr("Paused until you resume")
        return tr("Paused for another {time}").format(time=duration(snapshot.paused_for))
    if snapshot.not_guessing and snapshot.state is State.COLD_IDLE:
        return tr("Not guessing: {reason}").format(reason=snapshot.not_guessing)
    if snapshot.state is State.SPECULATIVE_PREPARED and snapshot.deadline_in is not None:
        return tr("A prompt seems near, and is waited for another {time}").format(time=duration(snapshot.deadline_in))
    loading = snapshot.server is ServerState.LOADING
    return {
        State.COLD_IDLE: tr("Waiting for quiet after a false alarm")
        if snapshot.holding
        else tr("Waiting for signs of a prompt"),
        State.SPECULATIVE_PREPARED: tr("A prompt seems near"),
        State.ACTIVE_INFERENCE: tr("The server is answering"),
        State.DEGRADED: tr("The server is loading its model") if loading else tr("The server does not answer"),
    }[snapshot.state]


def _consequence(snapshot: Snapshot) -> str:
    share = snapshot.background_share
    if share < 100:
        if snapshot.background_verified is False:
            return tr("the background job was told to yield, but is not seen to")
        return tr("the card is free for it") if share == 0 else tr("the card is as good as free")
    if snapshot.backend == "null":  # there is no job, or none that can be held
        return tr("nothing is held back")
    # It is not known whether a job that is only looked for runs, let alone has the card.
    return tr("the background job is not held back")


def because(snapshot: Snapshot) -> str:
    """Say what a preparation rests on; nothing while nothing is prepared."""
    return tr("Prepared because: {because}").format(because=snapshot.because) if snapshot.because else ""


def shares(snapshot: Snapshot) -> bool:
    """Tell whether the job keeps a true share while it is held; most ways know only all or nothing."""
    return snapshot.backend == "mps"


def job(snapshot: Snapshot) -> str:
    """Say what holds the background job, and why it is so."""
    share = snapshot.background_share
    in_part = tr("Job: {share} % left").format(share=share) if shares(snapshot) else tr("Job: held")
    held = tr("Job: free") if share == 100 else in_part
    notes = [] if snapshot.backend == "null" else [snapshot.backend]
    if share < 100 and snapshot.background_verified is not None:
        notes.append(tr("verified") if snapshot.background_verified else tr("not verified"))
    if notes:
        held += f" ({', '.join(notes)})"
    return f"{held}. {snapshot.background_detail}" if snapshot.background_detail else held


def tooltip(snapshot: Snapshot) -> str:
    """Say state, P and threshold or why nothing is guessed, what holds the job, and why it is prepared, if it is."""
    figures = tr("P {probability:.2f}, threshold {threshold:.2f}")
    quiet = tr("not guessing: {reason}")
    lines = (
        f"ZAT-SCS: {title(snapshot)}",
        quiet.format(reason=snapshot.not_guessing)
        if snapshot.not_guessing and not snapshot.paused
        else figures.format(probability=snapshot.probability, threshold=snapshot.threshold),
        job(snapshot),
        because(snapshot),
    )
    return "\n".join(line for line in lines if line)


def duration(seconds: float) -> str:
    """Say how long, as roughly as people do."""
    if seconds < 90:
        return tr("{count} s").format(count=max(1, round(seconds)))
    if seconds < 90 * 60:
        return tr("{count} min").format(count=-int(-seconds // 60))
    return tr("{count} h").format(count=round(seconds / 3600))
