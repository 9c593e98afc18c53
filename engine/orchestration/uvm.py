"""Unified memory: llama.cpp reads its flag from its own environment at each allocation, so it is set at start or not.

Source: llama.cpp, ggml/src/ggml-cuda/ggml-cuda.cu. Any value counts as set, and nothing outside can change it later.
"""

from collections.abc import Mapping

from engine.processes import environment

VARIABLE = "GGML_CUDA_ENABLE_UNIFIED_MEMORY"


def state(pid: int | None) -> str:
    """Return "on", "off" or "unknown" for a running server."""
    variables = environment(pid) if pid is not None else None
    if variables is None:
        return "unknown"
    return "on" if VARIABLE in variables else "off"


def with_flag(variables: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which a server uses unified memory."""
    return {**variables, VARIABLE: "1"}
