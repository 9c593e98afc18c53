"""What helping has brought and cost lately, and what that means for the next guess: the section of `doctor`. Pure."""

from collections.abc import Mapping
from typing import Any

from engine.benefit import ENOUGH, RECENT, means, rate_of
from engine.config.settings import Settings
from engine.days import Kept, local_date


def weigh(kept: Kept, settings: Settings, wall: float, server: str | None) -> dict[str, Any]:
    """Return the section; null is unknown. `server`: the name under which its rate is kept, None: not known."""
    lately = means(kept.days, local_date(wall))
    least = lately.pays_from(settings)
    return {
        "days": RECENT,
        "measured": lately.measured,
        "saving_per_prompt_s": lately.saving,
        "prefill_tokens_per_s": rate_of(kept.rates.get(server, ())) if server else None,
        "guesses": lately.guesses,
        "holding_per_guess_s": lately.holding,
        "job_worth": settings.job_worth,
        "pays_from": least if least is not None and least <= 1 else None,
        "verdict": _verdict(least, settings, lately.measured),
    }


def as_lines(benefit: Mapping[str, Any]) -> list[str]:
    """Return the section for people."""
    saving, rate, held = (
        benefit[name] for name in ("saving_per_prompt_s", "prefill_tokens_per_s", "holding_per_guess_s")
    )
    return [
        _known(
            saving,
            f"a prompt that took up what was prepared saved {{:.1f}} s (of {benefit['measured']} in "
            f"{benefit['days']} days)",
            "what a prompt saves that takes up what was prepared",
        ),
        _known(rate, "this server computes {:,.0f} tokens a second", "how fast this server computes a prompt"),
        _known(
            held,
            f"a guess held the job for {{:.1f}} s of its work (of {benefit['guesses']})",
            "what a guess costs the job",
        ),
        benefit["verdict"],
    ]


def _known(value: float | None, words: str, unknown: str) -> str:
    return f"not known yet: {unknown}" if value is None else words.format(value)


def _verdict(least: float | None, settings: Settings, measured: int) -> str:
    worth = settings.job_worth
    if worth == 0:
        return "JOB_WORTH is 0: guesses are not weighed, P alone decides"
    if least is None:
        return f"JOB_WORTH is {worth:g}, but not weighed before {ENOUGH} prompts are measured ({measured} are)"
    if least > 1:
        return f"JOB_WORTH is {worth:g}: guesses cost more than they save, so none is begun; what you ask for is"
    return f"JOB_WORTH is {worth:g}: a guess pays from P = {least:.2f} on"
