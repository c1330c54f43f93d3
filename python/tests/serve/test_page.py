"""The page at / in a real browser: jobs live, keyboard, narrow and wide, light and dark."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import LONG, Server

from vindex import _program

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
REQUIRED = os.environ.get("VINDEX_BROWSER_REQUIRED") == "1"
HOSTILE = "<img src=x onerror=document.title='taken'>"


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        sync_playwright = None
    if CHROMIUM is None or sync_playwright is None:
        reason = "no chromium" if CHROMIUM is None else "no playwright"
        if REQUIRED:
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """A page that fails its test for any error on the console and any foreign request."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    errors: list[str] = []
    requests: list[str] = []
    opened.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    opened.on("pageerror", lambda error: errors.append(str(error)))
    opened.on("request", lambda request: requests.append(request.url))
    opened.errors, opened.requests = errors, requests
    yield opened
    context.close()


def assert_clean(page: Any, server: Server) -> None:
    assert page.errors == []
    foreign = [url for url in page.requests if not url.startswith((server.url, "data:", "blob:"))]
    assert foreign == []


def overlaps(page: Any) -> list[str]:
    """Texts and controls that lie on each other or stick out of the window."""
    return list(
        page.evaluate(
            """() => {
  const shown = [...document.querySelectorAll('h1,h2,h3,p,button,select,input,progress,.state,a')]
    .filter(e => e.offsetParent && !e.classList.contains('skip') && e.innerText !== '');
  const boxes = shown.map(e => [e, e.getBoundingClientRect()])
    .filter(([, b]) => b.width * b.height);
  const found = [];
  for (const [e, b] of boxes) {
    if (b.right > innerWidth + 1 || b.left < -1) found.push('out: ' + e.outerHTML.slice(0, 80));
    for (const [f, c] of boxes) {
      if (e === f || e.contains(f) || f.contains(e)) continue;
      const wide = Math.min(b.right, c.right) - Math.max(b.left, c.left);
      const high = Math.min(b.bottom, c.bottom) - Math.max(b.top, c.top);
      if (wide > 2 && high > 4)
        found.push(e.outerHTML.slice(0, 60) + ' on ' + f.outerHTML.slice(0, 60));
    }
  }
  return found;
}"""
        )
    )


def test_a_measurement_from_form_to_file(page: Any, own_server: Callable[..., Server]) -> None:
    server = own_server()
    page.goto(server.url)
    page.wait_for_selector("#models .card")
    assert page.locator("#models .card").count() == 3
    page.select_option("select[name=model]", "kimi")
    page.fill("input[name=layers]", "1-2")
    page.keyboard.press("Enter")
    card = page.locator("#jobs .job").first
    card.locator("text=kimi.h5").wait_for(timeout=60_000)
    assert card.locator(".state").inner_text() == "done"
    assert "kimi" in card.inner_text()
    assert "layers 1-2" in card.inner_text()
    with page.expect_download() as download:
        card.locator("a", has_text="kimi.h5").click()
    assert Path(download.value.path()).read_bytes()[:4] == b"\x89HDF"
    with page.context.expect_page() as printed:
        card.locator("a", has_text="stdout").click()
    printed.value.wait_for_load_state()
    assert "down_proj" in printed.value.content()
    assert_clean(page, server)


def test_progress_is_live_and_jobs_can_be_cancelled(
    page: Any, own_server: Callable[..., Server]
) -> None:
    server = own_server()
    page.goto(server.url)
    page.wait_for_selector("#models .card")
    # Not from this page: the list finds it, an event stream follows it.
    id = server.queue("measure", "slow", null="signflip=100", threads=1)
    card = page.locator(f'.job[data-id="{id}"]')
    card.wait_for(timeout=30_000)
    page.wait_for_function(
        "id => document.querySelector(`[data-id='${id}'] progress`).value > 0",
        arg=id,
        timeout=90_000,
    )
    assert any(url.endswith(f"/v1/jobs/{id}/events") for url in page.requests)
    assert " of 24" in card.locator(".count").inner_text()
    card.locator("button", has_text="Cancel").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector(f'.job[data-id="{id}"][data-state=cancelled]', timeout=60_000)
    assert "E-STOPPED" in card.inner_text()
    card.locator("button", has_text="Resume").click()
    page.wait_for_function(
        "id => ['queued', 'running', 'done'].includes("
        "document.querySelector(`[data-id='${id}']`).dataset.state)",
        arg=id,
    )
    assert_clean(page, server)


def test_hostile_names_are_texts(
    page: Any, own_server: Callable[..., Server], tmp_path: Path
) -> None:
    models = tmp_path / "hostile"
    (models / HOSTILE.replace("/", "")).mkdir(parents=True)
    folder = models / HOSTILE.replace("/", "")
    (folder / "config.json").write_text("{}")
    head = json.dumps(
        {"<script>document.title='taken'</script>":
         {"dtype": "F32", "shape": [4, 4], "data_offsets": [0, 64]}}
    ).encode()  # fmt: skip
    data = len(head).to_bytes(8, "little") + head + bytes(range(64))
    (folder / "model.safetensors").write_bytes(data)
    server = own_server(models=models)
    page.goto(server.url)
    page.wait_for_selector("#models .card")
    assert HOSTILE in page.locator("#models .card").inner_text()
    page.click("#measure button")
    page.locator(".job .state").first.wait_for()
    page.wait_for_selector(".job[data-state=done], .job[data-state=failed]", timeout=60_000)
    assert page.title() == "vindex"
    assert page.locator("img").count() == 0
    assert_clean(page, server)


def test_signing_in(page: Any, own_server: Callable[..., Server], tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text("correct-horse-battery")
    server = own_server("--token-file", str(token), token="correct-horse-battery")
    page.goto(server.url)
    page.wait_for_selector("#sign-in:not([hidden])")
    assert page.locator("#content").is_hidden()
    page.keyboard.type("a-wrong-token-here")
    page.keyboard.press("Enter")
    page.wait_for_function(
        "() => document.querySelector('#message').textContent.includes('not the token')"
    )
    # The browser itself notes an answer of 401; nothing of ours does.
    assert all("401" in error for error in page.errors)
    page.errors.clear()
    page.fill("#sign-in input", "correct-horse-battery")
    page.keyboard.press("Enter")
    page.wait_for_selector("#models .card")
    # Links need no header: the cookie is sent with them.
    id = server.run("inspect", "kimi")["id"]
    with page.context.expect_page() as printed:
        page.locator(f'.job[data-id="{id}"] a').first.click()
    printed.value.wait_for_load_state()
    assert "kimi" in printed.value.content()
    page.click("#sign-out")
    page.wait_for_selector("#sign-in:not([hidden])")
    assert_clean(page, server)


def test_another_origin_can_do_nothing(page: Any, own_server: Callable[..., Server]) -> None:
    """A foreign page in the same browser: neither reads nor writes arrive."""
    victim, other = own_server(), own_server()
    # Another port is another origin.
    page.goto(f"{other.url}/health")
    for options in ("{}", '{"mode": "no-cors"}'):
        read = page.evaluate(
            f"url => fetch(url, {options}).then(r => r.text(), e => 'refused')",
            f"{victim.url}/v1/jobs",
        )
        assert read in ("refused", "")
    sent = page.evaluate(
        """url => fetch(url, {method: 'POST', mode: 'no-cors',
             body: '{"verb": "inspect", "model": "kimi"}'}).then(r => r.type, e => 'refused')""",
        f"{victim.url}/v1/jobs",
    )
    assert sent in ("opaque", "refused")
    assert victim.client.get("/v1/jobs").json()["jobs"] == []


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_overlaps(
    browser: Any, server: Server, measured: str, width: int, scheme: str
) -> None:
    server.wait(server.queue("decode", "kimi", tensor="nosuch"))
    running = server.queue("measure", "slow", **LONG)
    context = browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, device_scale_factor=1
    )
    page = context.new_page()
    page.goto(server.url)
    page.wait_for_selector(".job .files a")
    page.wait_for_selector(f'.job[data-id="{running}"][data-state=running]', timeout=60_000)
    page.wait_for_timeout(500)
    assert overlaps(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    shots = os.environ.get("VINDEX_SCREENSHOTS")
    if shots:
        Path(shots).mkdir(parents=True, exist_ok=True)
        page.screenshot(path=f"{shots}/serve-{width}-{scheme}.png", full_page=True)
    context.close()
    server.client.delete(f"/v1/jobs/{running}")
    server.wait(running)


def test_everything_is_reached_by_keyboard(page: Any, server: Server, measured: str) -> None:
    page.goto(server.url)
    page.wait_for_selector(".job .files a")
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(
            page.evaluate(
                "(e => e.name || e.getAttribute('aria-label') || e.textContent)"
                "(document.activeElement)"
            )
        )
    assert {"To the jobs", "Choose kimi", "model", "layers", "blocks", "mode", "Measure"} <= seen
    assert any("kimi.h5" in name for name in seen)


@pytest.mark.skipif("report" not in _program.commands(), reason="this program writes no reports")
def test_reports_have_no_origin(page: Any, own_server: Callable[..., Server]) -> None:
    """A report shows its charts, and can neither read nor ask anything of this server."""
    server = own_server()
    measured = server.run("measure", "kimi")["id"]
    page.goto(server.url)
    page.locator(".job button", has_text="Report").click()
    link = page.locator(".job a", has_text="report.html")
    link.wait_for(timeout=60_000)
    assert "report measure kimi" in link.locator("xpath=ancestor::li[@data-id]").inner_text()
    id = link.locator("xpath=ancestor::li[@data-id]").get_attribute("data-id")
    assert_clean(page, server)
    page.goto(f"{server.url}/v1/results/{id}/file")
    page.wait_for_selector("#overview svg", timeout=60_000)
    assert page.errors == []
    assert page.evaluate("self.origin") == "null"
    asked = f"fetch('/v1/results/{measured}').then(r => r.text(), e => 'refused')"
    assert page.evaluate(asked) == "refused"
    assert page.evaluate(
        "(() => { try { return document.cookie } catch { return 'refused' } })()"
    ) == ("refused")
