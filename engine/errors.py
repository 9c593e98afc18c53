"""The errors that this program raises on purpose; third-party exceptions are translated where they enter.

ZatError
├── SettingsError        a setting has a value that is not allowed
├── SensorUnavailable    a sensor cannot be opened here, with the reason
├── BackendUnavailable   a way to hold the background job does not fit here, with the reason
├── LedgerError          the record of what to undo is missing, foreign or broken
├── TraceError           a trace cannot be read, with file, line and what is wrong
├── MachineError         an event reached a state that must never see it
└── ServerError          the language-model server did not do what was asked
    ├── ServerUnreachable    no connection, or it broke off
    │   └── ServerHungUp         it broke off after the question was sent: the server may have ended over it
    ├── ServerTimeout        connected, but no answer in time: the outcome is unknown
    └── ServerRefused        an answer that says no (status and message)
        └── ServerLoading        not yet: its model is being loaded
"""


class ZatError(Exception):
    """Root of all errors of this program."""


class SettingsError(ZatError):
    """A setting has a value that is not allowed; the message names source, setting, value and what is allowed."""


class SensorUnavailable(ZatError):  # noqa: N818 - named after the state it leads to
    """A sensor cannot be opened here; the message is the reason, fit to be shown."""


class BackendUnavailable(ZatError):  # noqa: N818 - named after the state it leads to
    """A way to hold the background job does not fit here; the message is the reason, fit to be shown."""


class LedgerError(ZatError):
    """The record of what to undo cannot be trusted or written."""


class TraceError(ZatError):
    """A trace cannot be read; the message names file, line and what is wrong."""


class MachineError(ZatError):
    """An event reached a state that must never see it: a defect of this program."""


class ServerError(ZatError):
    """The language-model server did not do what was asked."""


class ServerUnreachable(ServerError):  # noqa: N818 - named after the state it leads to
    """No connection could be made, or it broke off before the whole answer was there."""


class ServerHungUp(ServerUnreachable):
    """The connection broke off after the question was sent: the server may have ended over it."""


class ServerTimeout(ServerError):  # noqa: N818 - named after the state it leads to
    """The connection stands but no whole answer came in time: the outcome is unknown."""


class ServerRefused(ServerError):  # noqa: N818 - named after the state it leads to
    """The server answered that it will not do it.

    `status` is the HTTP status, `message` the server's own text, shortened.
    """

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"HTTP {status}: {message}")
        self.status = status
        self.message = message


class ServerLoading(ServerRefused):
    """The server answers, but is still loading its model: the same call may succeed in a while."""
