"""The few calls of BOINC's GUI RPC that are needed: XML over TCP, each message ended by the byte 3.

A password is never sent, only its MD5 together with a nonce. Source: boinc.berkeley.edu/trac/wiki/GuiRpcProtocol.
"""

import encodings.idna  # noqa: F401 - a socket loads it for its first name, when the program may be gone
import hashlib
import socket
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

from engine.errors import BackendUnavailable

PATIENCE = 1.5  # seconds for a whole conversation; below the guardian's lease, so that waiting never looks like hanging
NEVER = 3  # the mode; 1 is always, 2 is by preferences
_LARGEST = 1 << 22  # bytes of one answer; a task takes about 1300
_END = b"\x03"


class BoincError(BackendUnavailable):
    """BOINC did not do or say what was asked; the message is the reason, fit to be shown."""


class BoincGone(BoincError):  # noqa: N818 - named after the state it leads to
    """Nobody listens at the address, so no mode that was set for a while is in force any more: it is never saved."""


class BoincRefused(BoincError):  # noqa: N818 - as above
    """The password is not the client's."""


@dataclass(frozen=True, slots=True)
class Status:
    """What the client says of itself. `mode` is in force for `delay` seconds (0: for good), `permanent` follows.

    `gpu_suspended`, `suspended`: why GPU work, or all work, rests; 0: it does not.
    """

    mode: int
    permanent: int
    delay: float
    gpu_suspended: int
    suspended: int


class BoincRpc:
    """One conversation with the client at `address` (host:port); everything raises BoincError."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._deadline = time.monotonic() + PATIENCE
        parts = urlsplit(f"//{address}")
        try:
            self._socket = socket.create_connection((parts.hostname, parts.port), PATIENCE)
        except ConnectionRefusedError:
            raise BoincGone(f"no BOINC client answers at {address}") from None
        except OSError as error:
            raise BoincError(f"no BOINC client answers at {address}: {error.strerror or error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def status(self) -> Status:
        """Ask for modes and reasons; no password is needed."""
        answer = self._ask("<get_cc_status/>").find("cc_status")
        if answer is None:
            raise self._stranger()
        names = ("gpu_mode", "gpu_mode_perm", "gpu_mode_delay", "gpu_suspend_reason", "task_suspend_reason")
        try:
            mode, permanent, delay, gpu_suspended, suspended = (float(answer.findtext(name, "")) for name in names)
            return Status(int(mode), int(permanent), delay, int(gpu_suspended), int(suspended))
        except (ValueError, OverflowError):
            raise self._stranger() from None

    def gpu_tasks(self) -> tuple[int, ...]:
        """Ask for the tasks on the card; return active_task_state of each that was begun."""
        answer = self._ask("<get_results><active_only>1</active_only></get_results>")
        tasks = [task for task in answer.iter("result") if "GPU" in task.findtext("resources", "")]
        states = (task.findtext("active_task/active_task_state") for task in tasks)
        return tuple(int(state) for state in states if state and state.isdecimal())

    def authorize(self, password: str) -> None:
        """Show that the password is known, which all commands need; raises BoincRefused if it is another."""
        nonce = self._ask("<auth1/>").findtext("nonce", "")
        proof = hashlib.md5((nonce + password).encode(), usedforsecurity=False).hexdigest()
        answer = self._ask(f"<auth2><nonce_hash>{proof}</nonce_hash></auth2>")
        if answer.find("authorized") is None:
            raise BoincRefused(f"BOINC at {self._address} refuses the password")

    def never(self, seconds: float) -> None:
        """Take all GPU work off the card for so many seconds; 0 would be for good and is an error."""
        if seconds <= 0:
            raise ValueError(f"never for {seconds:g} s is for good")
        self._command(f"<set_gpu_mode><never/><duration>{seconds:f}</duration></set_gpu_mode>")

    def restore(self) -> None:
        """End a mode that was set for a while."""
        self._command("<set_gpu_mode><restore/></set_gpu_mode>")

    def _command(self, command: str) -> None:
        if self._ask(command).find("success") is None:
            raise BoincError(f"BOINC at {self._address} refuses the command")

    def _ask(self, request: str) -> ET.Element:
        message = f"<boinc_gui_rpc_request>\n{request}\n</boinc_gui_rpc_request>\n".encode() + _END
        try:
            self._socket.sendall(message)
            answer = self._receive()
        except TimeoutError:
            raise BoincError(f"BOINC at {self._address} does not answer in time") from None
        except OSError as error:
            raise BoincError(f"BOINC at {self._address} broke off: {error.strerror or error}") from None
        root = _parsed(answer)
        if root is None or root.tag != "boinc_gui_rpc_reply":
            raise self._stranger()
        return root

    def _stranger(self) -> BoincError:
        return BoincError(f"what answers at {self._address} does not speak as BOINC does")

    def _receive(self) -> bytes:
        answer = bytearray()
        while not answer.endswith(_END):
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._socket.settimeout(left)
            part = self._socket.recv(1 << 16)
            if not part:
                raise ConnectionResetError("it closed the connection")
            answer += part
            if len(answer) > _LARGEST:
                raise BoincError(f"what answers at {self._address} does not come to an end")
        return bytes(answer[:-1])


def _parsed(answer: bytes) -> ET.Element | None:
    if b"<!" in answer:  # no answer has a document type, and one could blow up
        return None
    try:
        return ET.fromstring(answer)  # noqa: S314 - see above; and its size is limited
    except (ET.ParseError, ValueError, LookupError):  # the last two: for an encoding it does not have
        return None
