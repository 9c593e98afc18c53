"""A server with the shape of BOINC's GUI RPC, for what the real client cannot be made to do on demand.

Its answers are those of client 7.20.5; it keeps the modes and the lease as that does.
"""

import hashlib
import re
import socketserver
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

PASSWORD = "3a6b7c8d9e0f"
_REPLY = "<boinc_gui_rpc_reply>\n{}\n</boinc_gui_rpc_reply>\n\x03"
_STATUS = """<cc_status>
   <network_status>2</network_status>
   <task_suspend_reason>{suspended}</task_suspend_reason>
   <task_mode>2</task_mode>
   <gpu_suspend_reason>{gpu_suspended}</gpu_suspend_reason>
   <gpu_mode>{mode}</gpu_mode>
   <gpu_mode_perm>{permanent}</gpu_mode_perm>
   <gpu_mode_delay>{delay:f}</gpu_mode_delay>
</cc_status>"""
_RESULT = """<result>
    <name>wu_0</name>
    <project_url>http://127.0.0.1:9/test/</project_url>
    <state>2</state>
<active_task>
    <active_task_state>{state}</active_task_state>
    <pid>23104</pid>
    <scheduler_state>2</scheduler_state>
</active_task>
    <resources>{resources}</resources>
</result>"""


class FakeBoinc(socketserver.ThreadingTCPServer):
    """What it says and does can be set at any time; `commands` are those that it was given."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Conversation)
        self.address = f"127.0.0.1:{self.server_address[1]}"
        self.permanent = 2
        self.temporary = 2
        self.until = 0.0
        self.suspended = 0
        self.own_reason = 0  # why GPU work rests without a mode
        self.tasks = [(1, "0.5 CPUs + 1 NVIDIA GPU")]  # state and resources
        self.leaves = True  # tasks end when they are told to
        self.obeys = True  # commands have an effect
        self.silent = False  # nothing is answered
        self.breaks_off_at = "-"  # a request with this in it ends the conversation
        self.answer: bytes | None = None  # answered to everything
        self.endless = False
        self.commands: list[str] = []

    @property
    def mode(self) -> int:
        """The mode in force."""
        return self.temporary if self.until > time.time() else self.permanent

    def reply(self, request: str, session: dict[str, str]) -> str:
        """Answer one request as the client does."""
        if "<auth1/>" in request:
            return "<nonce>1796063326.490423</nonce>"
        if "<auth2>" in request:
            wanted = hashlib.md5(b"1796063326.490423" + PASSWORD.encode()).hexdigest()
            session["authorized"] = "yes" if wanted in request else ""
            return "<authorized/>" if session["authorized"] else "<unauthorized/>"
        if "<get_cc_status/>" in request:
            return self._status()
        if "<get_results>" in request:
            leaving = self.mode == 3 and self.leaves
            shown = [_RESULT.format(state=0 if leaving else state, resources=text) for state, text in self.tasks]
            return "\n".join(("<results>", *shown, "</results>"))
        if not session.get("authorized"):
            return "<unauthorized/>"
        return self._command(request)

    def _status(self) -> str:
        gpu = 4 if self.mode == 3 else self.own_reason
        delay = max(0.0, self.until - time.time())
        return _STATUS.format(
            suspended=self.suspended, gpu_suspended=gpu, mode=self.mode, permanent=self.permanent, delay=delay
        )

    def _command(self, request: str) -> str:
        self.commands.append(re.sub(r"\s|</?boinc_gui_rpc_request>", "", request))
        lease = re.search(r"<never/><duration>([\d.]+)<", request)
        if self.obeys and lease:
            self.temporary, self.until = 3, time.time() + float(lease[1])
        elif self.obeys and "<restore/>" in request:
            self.until = 0.0
        return "<success/>"


class _Conversation(socketserver.BaseRequestHandler):
    server: FakeBoinc

    def handle(self) -> None:
        session: dict[str, str] = {}
        try:
            while request := self._request():
                if self.server.breaks_off_at in request:
                    return
                if not self._answer(request, session):
                    return
        except OSError:  # the other side has had enough
            return

    def _request(self) -> str:
        request = b""
        while not request.endswith(b"\x03"):
            part = self.request.recv(4096)
            if not part:
                return ""
            request += part
        return request[:-1].decode()

    def _answer(self, request: str, session: dict[str, str]) -> bool:
        if self.server.endless:
            while True:
                self.request.sendall(b" " * (1 << 16))
        if self.server.silent:
            return True
        reply = self.server.reply(request, session)
        self.request.sendall(self.server.answer or _REPLY.format(reply).encode())
        return reply != "<unauthorized/>" or "<auth2>" not in request  # the client ends it there


@contextmanager
def fake_boinc() -> Iterator[FakeBoinc]:
    """Run the server on a free port of this machine."""
    with FakeBoinc() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
