"""Every tunable, once: type, default, bounds, unit, title, help and group. No I/O.

The file, the environment, the command line, the dialog and the README table all come from `specs()`.
"""

import dataclasses
import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, cast

from engine.config import address
from engine.config.spec import Spec, Value, tunable
from engine.errors import SettingsError

_PRINTABLE = r"[^\x00-\x1f\x7f]*"  # a path may hold anything else


@dataclass(frozen=True, slots=True)
class Settings:
    """All tunables in force. Building one with a value that is not allowed raises SettingsError."""

    initial_threshold: float = tunable(
        0.65, "Threshold at start", "P at which a preparation begins, before experience moves it.",
        "Prediction", low=0.01, high=1.0,
    )  # fmt: skip
    min_threshold: float = tunable(
        0.40, "Lowest threshold", "Missed prompts never lower the threshold below this.",
        "Prediction", low=0.01, high=1.0,
    )  # fmt: skip
    max_threshold: float = tunable(
        0.90, "Highest threshold", "False alarms never raise the threshold above this.",
        "Prediction", low=0.01, high=1.0,
    )  # fmt: skip
    adjustment_step: float = tunable(
        0.05, "Step of tuning", "How far one missed prompt, or one row of false alarms, moves the threshold.",
        "Prediction", low=0.0, high=0.5,
    )  # fmt: skip
    consecutive_false_positives_limit: int = tunable(
        3, "False alarms in a row", "So many false alarms in a row raise the threshold by one step.",
        "Prediction", low=1, high=100,
    )  # fmt: skip
    inactivity_timer: float = tunable(
        15.0, "Patience", "A preparation without a prompt is given back after this time.",
        "Prediction", unit="s", low=1.0, high=600.0,
    )  # fmt: skip
    timer_from: str = tunable(
        "evidence", "Patience counts from",
        "evidence: from the last sign of a prompt; entry: from the preparation itself.",
        "Prediction", choices=("evidence", "entry"),
    )  # fmt: skip
    lambda_decay: float = tunable(
        0.1, "Decay", "How fast P fades without evidence.", "Prediction", unit="1/s", low=0.0, high=10.0,
    )  # fmt: skip
    weight_key: float = tunable(
        0.45, "Weight of keys", "How much a tick of typing adds to P.", "Prediction", low=0.0, high=1.0,
    )  # fmt: skip
    weight_aud: float = tunable(
        0.35, "Weight of sound", "How much a tick of speech adds to P.", "Prediction", low=0.0, high=1.0,
    )  # fmt: skip
    telemetry_hz: int = tunable(
        10, "Ticks a second", "How often the engine reads its sensors.",
        "Prediction", unit="Hz", low=1, high=50, live=False,
    )  # fmt: skip
    evidence: str = tunable(
        "adaptive", "Reading of evidence",
        "adaptive: evidence ages, held keys and shortcuts do not count, the noise floor follows the room; "
        "seed: the plain reading of the founding text.",
        "Prediction", choices=("adaptive", "seed"),
    )  # fmt: skip
    learned: bool = tunable(
        True, "Learned score", "Weigh all that is sensed by what was learned of prompts; off: by fixed rules.",
        "Prediction",
    )  # fmt: skip
    keyboard: bool = tunable(
        True, "Keyboard", "Sense the times of key presses; never which keys.", "Sensors", live=False,
    )  # fmt: skip
    microphone: bool = tunable(
        True, "Microphone", "Sense loudness; sound is never kept.", "Sensors", live=False,
    )  # fmt: skip
    window_filter: bool = tunable(
        True, "Window", "Let evidence count where prompts come from; titles are only compared as keyed hashes.",
        "Sensors", live=False,
    )  # fmt: skip
    guess_on_battery: bool = tunable(
        False, "Guess on battery", "Sense and prepare also while this machine runs on its battery.", "Sensors",
    )  # fmt: skip
    quiet_programs: str = tunable(
        "", "Quiet programs", "Nothing is sensed or prepared while one of these programs runs.",
        "Sensors", pattern=_PRINTABLE, allowed_text="names of programs, separated by commas",
    )  # fmt: skip
    server_url: str = tunable(
        "http://127.0.0.1:8080", "Address of the server", "Where llama-server listens, with its path prefix if any.",
        "Server", pattern="https?://" + address.REST, address=True,
        allowed_text="an address such as http://127.0.0.1:8080", live=False, hint="server",
    )  # fmt: skip
    api_key: str = tunable(
        "", "API key", "Sent to the server only; never logged.",
        "Server", secret=True, pattern=r"[\x21-\x7e]*", allowed_text="a key without spaces", live=False,
    )  # fmt: skip
    slot_id: str = tunable(
        "auto", "Slot", "Slot of the server whose context is kept; auto: the one used last.",
        "Server", pattern="auto|[0-9]{1,4}", allowed_text="auto or a slot number", live=False,
    )  # fmt: skip
    slot_save_path: str = tunable(
        "", "Folder of saved contexts",
        "The server's --slot-save-path; empty: read from the server's command line, else contexts are not kept.",
        "Server", pattern=_PRINTABLE, allowed_text="a path", live=False,
    )  # fmt: skip
    keep_context: bool = tunable(
        True, "Keep contexts", "Save the conversation after a turn, so that it outlives a restart or sleep.", "Server",
    )  # fmt: skip
    context_hours: float = tunable(
        24.0, "Keep contexts for", "Saved contexts older than this are deleted.",
        "Server", unit="h", low=0.1, high=8760.0,
    )  # fmt: skip
    background_process_name: str = tunable(
        "fahclient", "Background program", "Name of the program that works on the card in the background.",
        "Background job", pattern=r"[^/\\\s\x00-\x1f][^/\\\x00-\x1f]*",
        allowed_text="a program's name without a path", live=False, hint="process",
    )  # fmt: skip
    background_method: str = tunable(
        "auto", "Method", "How the job is held back; auto takes the best that fits and says why.",
        "Background job", choices=("auto", "mps", "folding", "boinc", "process", "off"), live=False,
    )  # fmt: skip
    fallback_to_suspend: bool = tunable(
        False, "Suspend", "Stop the program's processes while the card is needed, instead of lowering their priority.",
        "Background job", live=False,
    )  # fmt: skip
    folding_url: str = tunable(
        "ws://127.0.0.1:7396/api/websocket", "Address of Folding@home", "Where the Folding@home client listens.",
        "Background job", pattern="wss?://" + address.REST, address=True,
        allowed_text="an address such as ws://127.0.0.1:7396/api/websocket", live=False,
    )  # fmt: skip
    boinc_url: str = tunable(
        "127.0.0.1:31416", "Address of BOINC", "Where the BOINC client listens.",
        "Background job", pattern=address.HOST + address.PORT, address=True, allowed_text="host:port", live=False,
    )  # fmt: skip
    boinc_password_file: str = tunable(
        "", "BOINC password file", "Path of gui_rpc_auth.cfg; empty: the usual places.",
        "Background job", pattern=_PRINTABLE, allowed_text="a path", live=False,
    )  # fmt: skip
    max_pauses_per_hour: int = tunable(
        6, "Pauses an hour", "How often guesses may pause a job that loses work by it; a real prompt always may.",
        "Background job", low=0, high=240,
    )  # fmt: skip
    linger: float = tunable(
        60.0, "Linger", "A job that loses work by each pause is given back this long after a reply.",
        "Background job", unit="s", low=0.0, high=3600.0,
    )  # fmt: skip
    job_worth: float = tunable(
        0.0, "Worth of the job",
        "How many seconds of waiting one second of the background job is worth; a preparation that would cost more "
        "than it saves is not begun. 0: never weighed.",
        "Background job", low=0.0, high=100.0,
    )  # fmt: skip

    ordered: ClassVar[tuple[str, ...]] = ("MIN_THRESHOLD", "INITIAL_THRESHOLD", "MAX_THRESHOLD")

    def __post_init__(self) -> None:
        for spec in specs():
            object.__setattr__(self, spec.attribute, spec.check(getattr(self, spec.attribute)))
        if not self.min_threshold <= self.initial_threshold <= self.max_threshold:
            raise SettingsError(
                f"MIN_THRESHOLD = {self.min_threshold:g}, INITIAL_THRESHOLD = {self.initial_threshold:g}, "
                f"MAX_THRESHOLD = {self.max_threshold:g} is not allowed: "
                "expected MIN_THRESHOLD ≤ INITIAL_THRESHOLD ≤ MAX_THRESHOLD"
            )

    def replace(self, changes: Mapping[str, Value]) -> "Settings":
        """Return a copy with some settings (by NAME) changed; checked again as a whole."""
        fields: dict[str, Any] = {name.lower(): value for name, value in changes.items()}
        return dataclasses.replace(self, **fields)

    def reopened_since(self, old: "Settings") -> set[str]:
        """Return the groups in which something differs from `old` that cannot be changed in flight."""
        return {
            spec.group
            for spec in specs()
            if not spec.live and getattr(self, spec.attribute) != getattr(old, spec.attribute)
        }

    @property
    def watches_window(self) -> bool:
        """The window in front is watched; without keys or sound it would foretell nothing."""
        return self.window_filter and (self.keyboard or self.microphone)

    @property
    def key_in_clear(self) -> bool:
        """The API key would leave this machine over plain HTTP."""
        plain = self.server_url.startswith("http://")
        return bool(self.api_key) and plain and not address.is_local(self.server_url)


@cache
def specs() -> tuple[Spec, ...]:
    """Return every setting in the order of its declaration."""
    return tuple(
        Spec(name=item.name.upper(), kind=type(default), default=default, **item.metadata["spec"])
        for item in dataclasses.fields(Settings)
        for default in [cast("Value", item.default)]
    )


def spec(name: str) -> Spec:
    """Return the setting with this exact name, or raise SettingsError that names what is near."""
    for candidate in specs():
        if candidate.name == name:
            return candidate
    names = [c.name for c in specs()]
    wanted = name.upper()
    near = [n for n in names if len(wanted) > 2 and wanted in n][:3] or difflib.get_close_matches(wanted, names, 1, 0.8)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; `zat-scs settings` lists all names"
    raise SettingsError(f"{name or '(no name)'} is not a setting{hint}")
