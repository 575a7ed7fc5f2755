"""The server's settings: what the workload asks for, within what the machine has."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import psutil

MB: Final = 1024 * 1024
_CGROUP_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)

FIXED: Final[Mapping[str, str]] = {
    "cluster_name": "postdate",
    # Reached through a private directory only, and even there by password.
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "password_encryption": "scram-sha-256",
    "max_connections": "60",
    # What is acknowledged is on disk.
    "fsync": "on",
    "synchronous_commit": "on",
    "full_page_writes": "on",
    # Bounded WAL bounds both the disk and the time of a crash recovery.
    "max_wal_size": "1GB",
    "min_wal_size": "128MB",
    "checkpoint_timeout": "5min",
    "checkpoint_completion_target": "0.9",
    "random_page_cost": "1.1",
    "effective_io_concurrency": "32",
    "work_mem": "8MB",
    "io_workers": "2",
    # Short statements: compiling them costs more than running them.
    "jit": "off",
    # The timer table turns over many times an hour: dead rows must go early and quickly.
    "autovacuum_naptime": "10s",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_vacuum_insert_scale_factor": "0.1",
    # Facts are looked up by key, in plans that stay the same while a table grows by a half.
    "autovacuum_analyze_scale_factor": "0.5",
    "autovacuum_vacuum_cost_delay": "1ms",
    "autovacuum_vacuum_cost_limit": "2000",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "lc_messages": "C.UTF-8",
    "logging_collector": "off",
    "log_line_prefix": "%m [%p] ",
    "log_checkpoints": "off",
    # A failing statement may hold a secret: its error is logged, its text is not.
    "log_min_error_statement": "panic",
    "log_parameter_max_length_on_error": "0",
}


def settings(memory_bytes: int, socket_dir: Path, *, lz4: bool) -> dict[str, str]:
    """Work out the settings for a machine with this much memory."""
    return {
        **FIXED,
        "unix_socket_directories": '"' + str(socket_dir).replace('"', '""') + '"',
        "wal_compression": "lz4" if lz4 else "off",
        "shared_buffers": _share(memory_bytes, 8, min_mb=32, max_mb=1024),
        "effective_cache_size": _share(memory_bytes, 2, min_mb=128, max_mb=65536),
        "maintenance_work_mem": _share(memory_bytes, 64, min_mb=16, max_mb=256),
    }


def render(values: Mapping[str, str]) -> str:
    """Write settings as a configuration file."""
    lines = ["# Written by postdate at every start. Put your own settings into postgresql.conf,"]
    lines.append("# below the line that includes this file.")
    for name, value in values.items():
        quoted = value.replace("\\", "\\\\").replace("'", "''")
        lines.append(f"{name} = '{quoted}'")
    return "\n".join(lines) + "\n"


def memory() -> int:
    """Measure the memory we may use: the machine's, or the container's limit if that is less."""
    found = psutil.virtual_memory().total
    for path in _CGROUP_LIMITS:
        try:
            text = path.read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            found = min(found, int(text))
    return found


def _share(memory_bytes: int, part: int, *, min_mb: int, max_mb: int) -> str:
    return f"{min(max(memory_bytes // part // MB, min_mb), max_mb)}MB"
