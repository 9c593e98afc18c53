"""A stand-in for the module pynvml: its functions as far as we call them, its errors with their values and words."""

from dataclasses import dataclass, field

MIB = 1 << 20


class NVMLError(Exception):
    """As pynvml's: `value` is NVML's own code."""

    def __init__(self, value: int, words: str) -> None:
        super().__init__(words)
        self.value = value


@dataclass
class Used:
    """One process on a card; pynvml gives None for the memory on Windows."""

    pid: int
    usedGpuMemory: int | None  # noqa: N815 - pynvml's name


@dataclass
class Memory:
    """Memory of a card, in bytes."""

    free: int


@dataclass
class Card:
    """One card: free MiB, and MiB by process. `failing`: name of a function → the error it raises."""

    free: int
    compute: dict[int, int | None] = field(default_factory=dict)
    graphics: dict[int, int | None] = field(default_factory=dict)
    failing: dict[str, NVMLError] = field(default_factory=dict)


class FakeNvml:
    """The module. `looks` counts how often memory was asked for; `error` is raised by nvmlInit."""

    NVMLError = NVMLError

    def __init__(self, *cards: Card, error: NVMLError | None = None) -> None:
        self.cards = list(cards)
        self.error = error
        self.open = 0
        self.looks = 0

    def nvmlInit(self) -> None:  # noqa: N802 - pynvml's name
        """Open the driver."""
        if self.error:
            raise self.error
        self.open += 1

    def nvmlShutdown(self) -> None:  # noqa: N802 - pynvml's name
        """Close the driver."""
        self._be_open()
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - pynvml's name
        """Count the cards."""
        self._be_open()
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Card:  # noqa: N802 - pynvml's name
        """Return a card."""
        return self.cards[index]

    def nvmlDeviceGetMemoryInfo(self, card: Card) -> Memory:  # noqa: N802 - pynvml's name
        """Return the memory of a card."""
        self.looks += 1
        self._fail(card, "memory")
        return Memory(card.free * MIB)

    def nvmlDeviceGetComputeRunningProcesses(self, card: Card) -> list[Used]:  # noqa: N802 - pynvml's name
        """List what computes."""
        self._fail(card, "compute")
        return _listed(card.compute)

    def nvmlDeviceGetGraphicsRunningProcesses(self, card: Card) -> list[Used]:  # noqa: N802 - pynvml's name
        """List what draws."""
        self._fail(card, "graphics")
        return _listed(card.graphics)

    def nvmlDeviceGetMPSComputeRunningProcesses(self, card: Card) -> list[Used]:  # noqa: N802 - pynvml's name
        """Refuse, as a driver without MPS does."""
        raise card.failing.get("mps", NVMLError(3, "Not Supported"))

    def _be_open(self) -> None:
        if not self.open:
            raise NVMLError(1, "Uninitialized")

    def _fail(self, card: Card, name: str) -> None:
        self._be_open()
        if name in card.failing:
            raise card.failing[name]


def _listed(used: dict[int, int | None]) -> list[Used]:
    return [Used(pid, None if mib is None else mib * MIB) for pid, mib in used.items()]
