"""Which tests ask for more than Windows or macOS have, found by running all of them with Windows' Python under wine.

What they are about works there by other means, or not at all: the sentence says which.
"""

import sys
from collections.abc import Iterable

import pytest

LINUX = "is about X, D-Bus or /proc"
POSIX = "is about Unix sockets, signals, modes or links"
# Of a file's tests those that begin so; the empty beginning: all, and the file is not even imported.
_NEEDED = {
    "engine/telemetry/test_bus.py": {LINUX: ("",)},
    "engine/telemetry/test_moments.py": {LINUX: ("",)},
    "engine/telemetry/test_window.py": {LINUX: ("",)},
    "engine/orchestration/test_mps.py": {LINUX: ("",)},
    "engine/telemetry/test_keyboard.py": {
        LINUX: (
            "test_without_a_screen",
            "test_a_dead_display",
            "test_wayland",
            "test_a_missing_x_library",
            "test_a_missing_library",
            "test_a_display_that_hangs",
        )
    },
    "engine/telemetry/test_last_input.py": {LINUX: ("test_elsewhere_there_is_no_such_witness",)},
    "engine/telemetry/test_audio.py": {LINUX: ("test_a_missing_portaudio",)},
    "app/test_ending.py": {LINUX: ("",)},
    "app/test_main.py": {LINUX: ("",)},
    "app/test_tray.py": {LINUX: ("",)},
    "engine/test_canary.py": {LINUX: ("",)},
    "packaging/test_bundle.py": {LINUX: ("",)},
    "packaging/test_linux.py": {LINUX: ("",)},
    "app/test_control_commands.py": {LINUX: ("",)},
    "app/test_cli.py": {
        LINUX: (
            "test_doctor_says_what_is_missing",
            "test_light_commands_import_no_sensor",
            "test_the_installed_command",
        ),
        POSIX: ("test_wrong_use_of_the_common_options", "test_serve_shows_what_it_adds"),
    },
    "engine/test_daemon.py": {POSIX: ("",)},
    "engine/test_control.py": {POSIX: ("",)},
    "engine/config/test_store.py": {POSIX: ("test_a_file_that_may_not_be_read",)},
    "engine/test_recorder.py": {
        POSIX: (
            "test_the_header_tells_neither_secret_nor_name",
            "test_no_file_is_overwritten",
            "test_old_recordings_of_its_own_folder",
            "test_the_command_records_and_refuses",
        )
    },
    "engine/client/test_contexts.py": {
        POSIX: (
            "test_forget_deletes_all_and_names_what_it_cannot",
            "test_a_list_that_is_no_file",
            "test_the_list_is_for_its_owner_only",
            "test_a_slot_file_is_taken_from_others",
            "test_where_that_is_not_allowed_readers_are_warned_of",
        )
    },
    "engine/client/test_describe.py": {POSIX: ("test_slot_files_in_a_relative_folder",)},
    "engine/client/test_view.py": {POSIX: ("test_a_folder_that_counts_from_the_servers_own_place",)},
    "engine/telemetry/test_hook_process.py": {POSIX: ("test_a_child_that_cannot_hear_is_a_reason",)},
    "engine/orchestration/test_elevated.py": {POSIX: ("",)},
    "engine/orchestration/test_lookout.py": {POSIX: ("test_a_listed_program_is_named_while_it_runs",)},
    "engine/orchestration/test_proof.py": {POSIX: ("test_it_looks_while_held_and_shortly_after",)},
    "engine/orchestration/backends/test_boinc.py": {POSIX: ("TestRefusals",)},
    "diagnostics/test_mock_server.py": {POSIX: ("test_the_command_prints_its_address",)},
}


def missing(needs: str, platform: str = sys.platform) -> bool:
    """Tell whether this system lacks what tests of this kind need."""
    return platform == "win32" or (needs == LINUX and platform != "linux")


def not_for_here(platform: str = sys.platform) -> list[str]:
    """Return the files, from the folder of the tests, that are not to be imported."""
    return [name for name, kinds in _NEEDED.items() if any(missing(n, platform) and "" in b for n, b in kinds.items())]


def skip(items: Iterable[pytest.Item], platform: str = sys.platform) -> None:
    """Mark the tests that cannot hold here."""
    for item in items:
        for name, kinds in _NEEDED.items():
            if item.nodeid.startswith(f"tests/{name}::"):
                words = item.nodeid.partition("::")[2]
                for needs, beginnings in kinds.items():
                    if missing(needs, platform) and words.startswith(beginnings):
                        item.add_marker(pytest.mark.skip(reason=needs))
