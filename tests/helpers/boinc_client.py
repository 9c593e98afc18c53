"""The real BOINC client in a folder of its own, with a stand-in task that it takes for work on a card.

It knows one project, at a closed port of this machine, and may not use the network. The card is one that only its
configuration knows; the task is a script that leaves when the client tells it to, as real ones do.
"""

import platform
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from helpers.wait import wait_until

from engine.orchestration.backends.boinc_rpc import BoincError, BoincRpc, Status

ALWAYS, AUTO, NEVER = 1, 2, 3

_PROJECT = "127.0.0.1_9_test"
_CONFIGURATION = """<cc_config><options>
<dont_contact_ref_site>1</dont_contact_ref_site><no_info_fetch>1</no_info_fetch><unsigned_apps_ok>1</unsigned_apps_ok>
<coproc><type>Test GPU</type><count>1</count><peak_flops>1e9</peak_flops><device_nums>0</device_nums></coproc>
</options></cc_config>
"""
_PREFERENCES = """<global_preferences><run_if_user_active>1</run_if_user_active>
<run_gpu_if_user_active>1</run_gpu_if_user_active><run_on_batteries>1</run_on_batteries>
<suspend_cpu_usage>0</suspend_cpu_usage></global_preferences>
"""
# The client speaks to a task through a mapped file, whose first byte says that a message waits.
_TASK = f"""#!{sys.executable} -IS
import mmap, os, sys, time
file = open("boinc_mmap_file", "r+b")
memory = mmap.mmap(file.fileno(), 0)
client, end = os.getppid(), time.monotonic() + 120  # a client that died before this line is not noticed otherwise
while os.getppid() == client and time.monotonic() < end:
    if memory[0]:
        if b"<quit/>" in memory[:1024]:
            sys.exit(0)
        memory[0] = 0
    time.sleep(0.02)
"""
_STATE = """<client_state>
<host_info><p_fpops>1e9</p_fpops><p_iops>1e9</p_iops><p_membw>1e9</p_membw><p_calculated>{now}</p_calculated></host_info>
<project><master_url>http://127.0.0.1:9/test/</master_url><project_name>test</project_name>
<dont_request_more_work/></project>
<app><name>job</name></app>
<file><name>job</name><nbytes>{size}</nbytes><status>1</status><executable/></file>
<app_version><app_name>job</app_name><version_num>100</version_num><platform>{platform}</platform>
<avg_ncpus>0.1</avg_ncpus><flops>1e9</flops><api_version>7.20.5</api_version><plan_class>gpu</plan_class>
<coproc><type>Test GPU</type><count>1</count></coproc>
<file_ref><file_name>job</file_name><main_program/></file_ref></app_version>
<workunit><name>wu</name><app_name>job</app_name><version_num>100</version_num><rsc_fpops_est>1e13</rsc_fpops_est>
<rsc_fpops_bound>1e18</rsc_fpops_bound><rsc_memory_bound>1e7</rsc_memory_bound><rsc_disk_bound>1e7</rsc_disk_bound>
</workunit>
<result><name>wu_0</name><wu_name>wu</wu_name><platform>{platform}</platform><version_num>100</version_num>
<plan_class>gpu</plan_class><state>2</state><report_deadline>{deadline}</report_deadline>
<received_time>{now}</received_time></result>
<platform_name>{platform}</platform_name>
<user_network_request>3</user_network_request>
</client_state>
"""


class BoincClient:
    """A client that this test started. `task`: give it the stand-in task."""

    def __init__(self, folder: Path, task: bool) -> None:
        self.folder = folder
        self.password_file = folder / "gui_rpc_auth.cfg"
        self.address = f"127.0.0.1:{_free_port()}"
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir()
        (folder / "cc_config.xml").write_text(_CONFIGURATION)
        (folder / "global_prefs_override.xml").write_text(_PREFERENCES)
        if task:
            self._give_task()

    def start(self) -> None:
        """Start it in its folder, which may be that of an earlier run; wait until it answers."""
        port = self.address.rpartition(":")[2]
        command = ["boinc", "--dir", self.folder, "--gui_rpc_port", port, "--no_info_fetch", "--skip_cpu_benchmarks"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(self._answers, what="the BOINC client to answer")

    def kill(self) -> None:
        """End it by force; its task leaves when it sees that."""
        if self._process:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    @property
    def status(self) -> Status:
        """What it says of itself."""
        with BoincRpc(self.address) as rpc:
            return rpc.status()

    @property
    def computing(self) -> bool:
        """The stand-in task is at work."""
        with BoincRpc(self.address) as rpc:
            return rpc.gpu_tasks() == (1,)

    def set_mode(self, mode: int, seconds: float = 0) -> None:
        """Do what its user does in the BOINC Manager; 0 seconds mean for good."""
        word = {ALWAYS: "always", AUTO: "auto", NEVER: "never"}[mode]
        with BoincRpc(self.address) as rpc:
            rpc.authorize(self.password_file.read_text().strip())
            rpc._command(f"<set_gpu_mode><{word}/><duration>{seconds:f}</duration></set_gpu_mode>")

    def _answers(self) -> bool:
        try:
            return bool(self.status)
        except BoincError:
            return False

    def _give_task(self) -> None:
        files = self.folder / "projects" / _PROJECT
        files.mkdir(parents=True)
        (self.folder / "slots").mkdir()
        job = files / "job"
        job.write_text(_TASK)
        job.chmod(0o755)
        now = time.time()
        account = "<account><master_url>http://127.0.0.1:9/test/</master_url><authenticator>x</authenticator></account>"
        (self.folder / f"account_{_PROJECT}.xml").write_text(account + "\n")
        state = _STATE.format(now=now, deadline=now + 1e6, size=len(_TASK), platform="x86_64-pc-linux-gnu")
        (self.folder / "client_state.xml").write_text(state)


@contextmanager
def boinc_client(folder: Path, task: bool = True) -> Iterator[BoincClient]:
    """Run the client in a new folder; with `task`, until that is at work. Skips where there is no client."""
    if not shutil.which("boinc"):
        pytest.skip("there is no BOINC client here: apt-get install boinc-client")
    if task and (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip("the stand-in task says that it is for Linux on x86_64")
    client = BoincClient(folder, task)
    try:
        client.start()
        if task:
            wait_until(lambda: client.computing, what="the task to be at work")
        yield client
    finally:
        client.kill()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
