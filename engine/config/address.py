"""What an address may look like, and whether it stays on this machine. The network is never asked."""

import ipaddress
from urllib.parse import urlsplit

HOST = r"(\[[0-9a-fA-F:.]+\]|[^\s\x00-\x1f/?#@:\[\]\\]+)"
PORT = r":[0-9]{1,5}"
PATH = r"(/[^\s\x00-\x1f?#]*)?"
REST = f"{HOST}({PORT})?{PATH}"  # what follows the scheme


def can_exist(address: str) -> bool:
    """Tell whether host and port of `scheme://host:port/path` or `host:port` can exist, which no pattern tells."""
    try:
        parts = urlsplit(address if "://" in address else f"//{address}")
        host = str(ipaddress.IPv6Address(parts.hostname)) if "[" in parts.netloc else parts.hostname
        return bool(host) and parts.port != 0
    except ValueError:  # brackets around what is no IPv6 address, a port over 65535
        return False


def is_local(url: str) -> bool:
    """Tell whether an address that can exist leads to this very machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, and 127.example.org is one
        return host == "localhost"
