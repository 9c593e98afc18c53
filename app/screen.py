"""Whether a window can be opened here at all. Qt itself would abort the process, so it is asked before."""

import ctypes
import sys
from collections.abc import Mapping

# What Qt's part for X11 needs of the system, each with the package that Debian has it in.
_X_LIBRARIES = {
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
}
_LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
}


def problem(environ: Mapping[str, str]) -> str:
    """Return why no window can be opened, empty if one can."""
    if not sys.platform.startswith("linux"):
        return ""
    platform = environ.get("QT_QPA_PLATFORM", "").partition(":")[0]
    wanted = dict(_LIBRARIES)
    if platform not in ("", "xcb"):
        return _missing(wanted)
    if platform == "" and environ.get("WAYLAND_DISPLAY"):
        return _missing(wanted)
    if not environ.get("DISPLAY"):
        return "there is no screen: neither DISPLAY nor WAYLAND_DISPLAY is set"
    return _missing({**wanted, **_X_LIBRARIES}) or unreachable(environ["DISPLAY"])


def _missing(libraries: Mapping[str, str]) -> str:
    packages = [package for library, package in libraries.items() if not _loads(library)]
    return f"libraries of the system are missing: {' '.join(packages)} (named as in Debian)" if packages else ""


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def unreachable(display: str) -> str:
    """Ask the X server itself: a stale DISPLAY, or one of somebody else, is as good as none."""
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    xcb.xcb_connection_has_error.argtypes = xcb.xcb_disconnect.argtypes = [ctypes.c_void_p]
    connection = xcb.xcb_connect(display.encode(), None)
    broken = xcb.xcb_connection_has_error(connection)
    xcb.xcb_disconnect(connection)
    return f"the screen that DISPLAY names cannot be opened: {display}" if broken else ""
