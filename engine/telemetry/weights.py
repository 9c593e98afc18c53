"""Weights of the learned score, shipped: what `python -m diagnostics.fit` found on eight labelled days.

One entry a number of `features.py`, in its order. The label was "what goes on will end in a prompt": one comes within a
minute, and no 15 s of quiet before it.
"""

from collections.abc import Mapping
from typing import NamedTuple

PLAIN_BIAS = -4.532
PLAIN = {
    "typing": 1.251,
    "keys": 0.277,
    "some": 1.463,
    "length": -0.429,
    "second": -1.709,
    "rate": -2.632,
    "deletes": -0.016,
    "moves": -1.238,
    "repeats": -0.274,
    "shortcuts": -0.797,
    "paste": 1.558,
    "vain": -0.488,
    "entered": -2.967,
    "soon": -0.653,
    "minute": 6.295,
    "later": 1.971,
    "minute_typing": 1.687,
    "soon_typing": -0.995,
    "later_typing": -1.225,
    "vain_typing": -0.754,
    "prompts": -0.667,
    "prompts_typing": -0.237,
    "voice_share": -1.059,
    "voice": 2.084,
    "talk": -0.623,
    "voice_minute": 2.270,
    "talk_minute": -0.248,
    "pace": 0.995,
    "pace_typing": 0.150,
}

BIAS = -4.944
WITH_WINDOW = {
    "typing": 1.765,
    "keys": 1.763,
    "some": 0.257,
    "length": 0.062,
    "second": -1.194,
    "rate": -2.303,
    "deletes": -0.358,
    "moves": -2.552,
    "repeats": -0.101,
    "shortcuts": -2.316,
    "paste": 0.810,
    "vain": -0.281,
    "entered": -1.482,
    "soon": 1.248,
    "minute": 3.639,
    "later": 1.252,
    "minute_typing": -1.839,
    "soon_typing": -1.121,
    "later_typing": -2.188,
    "vain_typing": 0.369,
    "prompts": -0.644,
    "prompts_typing": -0.058,
    "voice_share": -0.464,
    "voice": 1.112,
    "talk": -0.504,
    "voice_minute": 2.469,
    "talk_minute": 0.060,
    "pace": 0.655,
    "pace_typing": 0.002,
    "share": 1.880,
    "share2": 0.664,
    "share_typing": 0.635,
    "share_keys": -1.208,
    "share_some": -0.330,
    "share_length": -1.607,
    "share_voice": 0.110,
    "share_spoke": 3.029,
    "share_talk": -0.010,
    "share_paste": 0.698,
    "share_minute": -0.110,
    "share_soon": -2.008,
    "share_minute_typing": 0.596,
    "share_fresh": -0.949,
    "fresh": 1.793,
    "share_vain": -1.793,
    "share_rate": 0.038,
    "share_entered": -0.162,
    "share_repeats": 0.056,
    "share_moves": 0.663,
    "share2_typing": 1.223,
    "share2_keys": 0.304,
    "share2_talk": 0.865,
    "share2_voice": 0.593,
    "enters": -0.322,
    "recent": 0.212,
    "exact": -0.316,
    "just_now": 2.242,
    "lately": -1.028,
    "enters_typing": 0.577,
    "recent_typing": 0.210,
    "exact_typing": -0.419,
    "just_now_typing": 1.675,
    "lately_typing": -1.275,
    "enters_keys": 0.801,
    "recent_keys": 0.870,
    "exact_keys": -0.487,
    "enters_talk": 0.347,
    "recent_voice": -0.318,
    "recent_talk": -1.250,
    "recent_paste": 0.763,
    "recent_enters": 0.483,
    "recent_enters_typing": 1.355,
    "known": 0.804,
    "known_typing": -2.659,
    "unknown_typing": -1.391,
    "unknown_keys": -1.543,
}


class Weights(NamedTuple):
    """One fit: a set for where no window is known, and one for where it is; by the names of features, in order."""

    plain_bias: float
    plain: Mapping[str, float]
    bias: float
    with_window: Mapping[str, float]


SHIPPED = Weights(PLAIN_BIAS, PLAIN, BIAS, WITH_WINDOW)
