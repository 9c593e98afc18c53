"""What a Mac is told of the app, in its Info.plist; zat-scs.spec imports it there. Read back by a test, never tried."""

IDENTIFIER = "local.zat-scs"  # a name by domain is wanted; the project has none, so this one can never be anybody's
INFO = {
    "CFBundleDisplayName": "ZAT-SCS",
    "CFBundleName": "ZAT-SCS",
    "LSBackgroundOnly": False,  # PyInstaller says so of programs with a console; then no window could ever open
    "LSApplicationCategoryType": "public.app-category.utilities",
    "LSMinimumSystemVersion": "13.0",  # that of Qt 6.11
    "LSUIElement": True,  # lives in the menu bar: neither in the Dock nor in the list of what runs
    "NSHighResolutionCapable": True,
    "NSMicrophoneUsageDescription": (
        "ZAT-SCS senses how loud it is, and whether somebody speaks, to notice that a prompt is coming. "
        "What is said is never kept."
    ),
}
