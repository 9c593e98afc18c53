"""What a Mac is told of the app: read back only, since no Mac was at hand."""

import plistlib
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]
MACOS = ROOT / "packaging" / "macos"


def test_the_app_lives_in_the_menu_bar_and_says_why_it_listens() -> None:
    """Without the sentence a Mac ends a program that opens the microphone; the keys can be written as they are."""
    settings = runpy.run_path(str(MACOS / "app_settings.py"))
    info = plistlib.loads(plistlib.dumps(settings["INFO"]))
    assert info["LSUIElement"] is True
    assert info["LSBackgroundOnly"] is False  # else it could show no window
    assert "never kept" in info["NSMicrophoneUsageDescription"]
    assert settings["IDENTIFIER"].replace(".", "").replace("-", "").isalnum()


def test_the_microphone_may_be_used_by_a_signed_app() -> None:
    """The hardened runtime would hear nothing but silence."""
    entitlements = plistlib.loads((MACOS / "entitlements.plist").read_bytes())
    assert entitlements["com.apple.security.device.audio-input"] is True


def test_the_bundle_is_made_with_both() -> None:
    """The spec hands them to PyInstaller, on a Mac alone."""
    spec = (ROOT / "packaging" / "zat-scs.spec").read_text("utf-8")
    assert "info_plist=app_settings.INFO" in spec
    assert 'entitlements_file=str(ROOT / "packaging" / "macos" / "entitlements.plist") if MACOS else None' in spec
