"""What wine 8 lacks: how psutil asks for a program's path, and whether it stands still, it does not answer.

So Windows' other calls are made. For trying the program under wine; no program that ships has this in it.
"""

import ctypes
import errno
import os

from psutil import _pswindows

_QUERY_LIMITED, _NATIVE, _LONGEST = 0x1000, 1, 1024
_NO_SUCH_PROCESS = 87  # ERROR_INVALID_PARAMETER
_SUSPEND_RESUME = 0x0002


def proc_exe(pid: int) -> str:
    """Return the path of its program as the kernel names it, from its device on. Raises OSError."""
    kernel = ctypes.WinDLL("kernel32", use_last_error=True)  # type: ignore[attr-defined] - on Windows alone
    kernel.OpenProcess.restype = ctypes.c_void_p
    kernel.QueryFullProcessImageNameW.argtypes = (
        ctypes.c_void_p,
        ctypes.c_ulong,
        ctypes.c_wchar_p,
        ctypes.POINTER(ctypes.c_ulong),
    )
    kernel.CloseHandle.argtypes = (ctypes.c_void_p,)
    handle = kernel.OpenProcess(_QUERY_LIMITED, 0, pid)
    if not handle:
        gone = ctypes.get_last_error() == _NO_SUCH_PROCESS  # type: ignore[attr-defined] - on Windows alone
        raise OSError(errno.ESRCH if gone else errno.EACCES, "not open")
    text, length = ctypes.create_unicode_buffer(_LONGEST), ctypes.c_ulong(_LONGEST)
    kernel.QueryFullProcessImageNameW(handle, _NATIVE, text, ctypes.byref(length))
    kernel.CloseHandle(handle)
    return text.value


def proc_is_suspended(pid: int) -> bool:
    """Tell whether each thread stands still already; to learn that, it is suspended once more and let go again."""
    if pid == os.getpid():
        return False
    kernel = ctypes.WinDLL("kernel32")  # type: ignore[attr-defined] - on Windows alone
    kernel.OpenThread.restype = ctypes.c_void_p
    for call in (kernel.SuspendThread, kernel.ResumeThread, kernel.CloseHandle):
        call.argtypes = (ctypes.c_void_p,)
    counts = []
    for thread, *_ in _pswindows.cext.proc_threads(pid):
        handle = kernel.OpenThread(_SUSPEND_RESUME, 0, thread)
        if handle:
            counts.append(kernel.SuspendThread(handle))
            kernel.ResumeThread(handle)
            kernel.CloseHandle(handle)
    return bool(counts) and all(counts)


_pswindows.cext.proc_exe = proc_exe
_pswindows.cext.proc_is_suspended = proc_is_suspended
