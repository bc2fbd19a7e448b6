"""``@pytest.mark.needs("sshd")``: tests that want a program a fresh machine may lack.

What is missing is skipped and told at the end, with the command that brings it. With
GANGWAY_TEST_REQUIRE_ALL=1 a skip of any kind is a failure. To add a program, add its row.
"""

import os
import shutil

import pytest

REQUIRE_ALL = os.environ.get("GANGWAY_TEST_REQUIRE_ALL") == "1"

# name -> (any of these programs, the Debian package)
PROGRAMS = {
    "sshd": (("sshd",), "openssh-server"),
    "ssh": (("ssh",), "openssh-client"),
    "chromium": (("chromium", "chromium-browser", "google-chrome"), "chromium"),
    "setpriv": (("setpriv",), "util-linux"),
    "unshare": (("unshare",), "util-linux"),
    "cc": (("cc", "gcc", "clang"), "gcc libc6-dev"),
}


def program(name: str) -> str | None:
    """Where the program is, or None; administrators' folders are looked into too."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"])
    return next(filter(None, (shutil.which(p, path=path) for p in PROGRAMS[name][0])), None)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs(*names): programs of tests/needs.py it cannot do without"
    )
    config.addinivalue_line("markers", "needs_root: it changes accounts, so only root can run it")


def pytest_runtest_setup(item: pytest.Item) -> None:
    wanted = [name for mark in item.iter_markers("needs") for name in mark.args]
    missing = sorted({PROGRAMS[name][1] for name in wanted if program(name) is None})
    if missing:
        pytest.skip(f"run: sudo apt-get install {' '.join(missing)}")
    if item.get_closest_marker("needs_root") and os.geteuid() != 0:
        pytest.skip("run: sudo make test")


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if REQUIRE_ALL and _skipped(session.config) and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = _skipped(terminalreporter.config)
    if not skipped:
        return
    verdict = "not allowed by GANGWAY_TEST_REQUIRE_ALL" if REQUIRE_ALL else "not run"
    terminalreporter.section(f"{len(skipped)} tests {verdict}")
    for report in skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        terminalreporter.line(f"{report.nodeid}: {str(reason).removeprefix('Skipped: ')}")


def _skipped(config: pytest.Config) -> list[pytest.TestReport]:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    return list(reporter.stats.get("skipped", [])) if reporter else []
