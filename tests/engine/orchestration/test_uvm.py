"""Unified memory is read from the server's own environment, and set only for servers that we start."""

import os
import subprocess
import sys

import pytest

from engine.orchestration import uvm


@pytest.mark.parametrize(
    ("variables", "expected"), [({}, "off"), ({uvm.VARIABLE: "1"}, "on"), ({uvm.VARIABLE: ""}, "on")]
)
def test_any_value_in_the_servers_environment_counts(variables: dict[str, str], expected: str) -> None:
    """llama.cpp asks only whether the variable exists."""
    clean = {name: value for name, value in os.environ.items() if name != uvm.VARIABLE}
    command = [sys.executable, "-c", "print(flush=True); input()"]
    with subprocess.Popen(command, env=clean | variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        server.stdout.readline()
        assert uvm.state(server.pid) == expected
        server.communicate(b"\n")


def test_a_server_that_cannot_be_looked_at_is_unknown() -> None:
    """On another machine, of another user, or gone."""
    assert uvm.state(None) == "unknown"
    assert uvm.state(2**22 + 1) == "unknown"


def test_the_flag_is_added_to_an_environment() -> None:
    """Nothing else changes."""
    assert uvm.with_flag({"A": "b"}) == {"A": "b", uvm.VARIABLE: "1"}
