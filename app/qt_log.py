"""Qt's own messages go into the log, where they disturb nobody and can be found."""

import logging

from PySide6.QtCore import QMessageLogContext, QtMsgType

log = logging.getLogger("qt")

_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


def pass_on(kind: QtMsgType, context: QMessageLogContext, message: str) -> None:
    """Take one message, on whatever thread it comes."""
    log.log(_LEVELS.get(kind, logging.WARNING), "%s: %s", context.category or "Qt", message)
