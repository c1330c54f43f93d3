"""The command line: what is refused before anything listens."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from vindex.errors import Error
from vindex.serve import settings


def from_flags(tmp_path: Path, *flags: str) -> settings.Settings:
    (tmp_path / "models").mkdir(exist_ok=True)
    given = ["--models", str(tmp_path / "models"), "--work", str(tmp_path / "work"), *flags]
    return settings.from_arguments(given)


def test_defaults(tmp_path: Path) -> None:
    found = from_flags(tmp_path)
    assert (found.host, found.port, found.token) == ("127.0.0.1", 8080, None)
    assert found.work.is_dir()
    assert 0 < found.ram_budget < settings.memory_limit()


def test_runs_share_the_memory(tmp_path: Path) -> None:
    assert from_flags(tmp_path, "--ram-budget", "8GiB", "--jobs", "4").ram_budget == 2 << 30


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "[::]:1", "192.0.2.1:1", "example.org:1"])
def test_other_addresses_need_a_token(tmp_path: Path, listen: str) -> None:
    with pytest.raises(Error) as caught:
        from_flags(tmp_path, "--listen", listen)
    assert (caught.value.code, caught.value.id) == (78, "E-SERVE-OPEN")
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("0123456789abcdef\n")
    assert from_flags(tmp_path, "--listen", listen, "--token-file", str(token)).token


@pytest.mark.parametrize("listen", ["127.0.0.2:1", "[::1]:1", "localhost:1", ":1"])
def test_loopback_needs_none(tmp_path: Path, listen: str) -> None:
    assert from_flags(tmp_path, "--listen", listen).listens_on_loopback


@pytest.mark.parametrize("text", ["", "8080", "host", "h:x", "h:70000", "::1:80", "h:-1"])
def test_addresses_that_are_none(tmp_path: Path, text: str) -> None:
    with pytest.raises(Error) as caught:
        from_flags(tmp_path, "--listen", text)
    assert caught.value.code == 64


def test_tokens_that_are_refused(tmp_path: Path) -> None:
    token = tmp_path / "token"
    for text, mode in (("short", 0o600), ("0123456789abcdef", 0o644), ("0123456789 abcdef", 0o600)):
        token.touch()
        token.chmod(mode)
        token.write_text(text)
        with pytest.raises(Error, match="E-SERVE-TOKEN"):
            from_flags(tmp_path, "--token-file", str(token))
    with pytest.raises(Error, match="E-SERVE-TOKEN"):
        from_flags(tmp_path, "--token-file", str(tmp_path / "nosuch"))


def test_a_pipe_is_no_token_and_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(Error, match=r"E-SERVE-TOKEN.*no regular file") as caught:
        from_flags(tmp_path, "--token-file", str(tmp_path / "pipe"))
    assert caught.value.code == 66


@pytest.mark.parametrize(
    "flag", ["--models", "--work", "--listen", "--token-file", "--ram-budget", "--allow-host"]
)
def test_an_empty_value_is_refused(tmp_path: Path, flag: str) -> None:
    with pytest.raises(Error, match=r"E-USAGE.*empty") as caught:
        from_flags(tmp_path, flag, "")
    assert caught.value.code == 64


def test_folders_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Error) as caught:
        settings.from_arguments(["--models", str(tmp_path / "no"), "--work", str(tmp_path)])
    assert caught.value.code == 66
    (tmp_path / "in").mkdir()
    for models, work in ((tmp_path, tmp_path / "in"), (tmp_path / "in", tmp_path)):
        with pytest.raises(Error, match="neither may lie"):
            settings.from_arguments(["--models", str(models), "--work", str(work)])


@pytest.mark.parametrize(
    ("text", "size"), [("1", 1), ("8GiB", 8 << 30), ("500MB", 500_000_000), ("1.5KiB", 1536)]
)
def test_sizes(text: str, size: int) -> None:
    assert settings.parse_bytes(text) == size


@pytest.mark.parametrize("budget", ["0", "8", "0GiB", "1MiB", "", "-1", "many", "8 GiBs"])
def test_budgets_that_are_none(tmp_path: Path, budget: str) -> None:
    with pytest.raises(Error) as caught:
        from_flags(tmp_path, "--jobs", "2", "--ram-budget", budget)
    assert (caught.value.code, caught.value.id) == (64, "E-USAGE")


def test_folders_of_several_lines_are_refused(tmp_path: Path) -> None:
    """The program is given its folders one a line."""
    (tmp_path / "a\nb").mkdir()
    with pytest.raises(Error, match="control characters") as caught:
        settings.from_arguments(["--models", str(tmp_path / "a\nb"), "--work", str(tmp_path / "w")])
    assert caught.value.code == 78


def test_a_second_server_of_one_folder_is_refused(server, models: Path) -> None:  # type: ignore[no-untyped-def]
    result = subprocess.run(
        [sys.executable, "-m", "vindex.serve", "--models", str(models),
         "--work", str(server.work), "--listen", "127.0.0.1:0"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert result.returncode == 73
    assert "E-SERVE-WORK" in result.stderr
    assert server.client.get("/health").json()["status"] == "ok"
