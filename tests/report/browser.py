"""Owns opening a page of `vindex report` in chromium, and what has to hold of every one of them: no complaint of the browser, no
request, nothing that runs beside the page's own script."""

import contextlib
import os
import re
import shutil
import sys

from playwright.sync_api import sync_playwright

BASE_IDS = ("overview", "layers", "spectrum", "experts", "table", "trust", "provenance")
KIND_IDS = {"compare": "compare", "experts": "experts-similarity", "cka": "cka", "routing": "routing", "activations": "activations"}

# Everything drawn: sections first, then the charts that they wait with until these are on the screen.
DRAW_ALL = """async () => {
  for (let turn = 0; turn < 200; ++turn) {
    await vindexReport.drawAll();
    const waits = [...document.querySelectorAll(
      "main > section:not([data-ready]), .chart:not([data-drawn]), [aria-busy=true]")];
    if (waits.length === 0) return "";
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return [...document.querySelectorAll("main > section:not([data-ready]), .chart:not([data-drawn]), [aria-busy=true]")].map((e) => e.id || e.dataset.chart).join();
}"""


def chromium():
    """Where the browser is; ends the script as skipped where there is none."""
    found = os.environ.get("VINDEX_CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        print("skipped: no chromium; on Debian: apt-get install chromium, or VINDEX_CHROMIUM names one")
        sys.exit(77)
    return found


@contextlib.contextmanager
def browser():
    with sync_playwright() as play:
        opened = play.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        yield opened
        opened.close()


class Opened:
    """A page with what it did: messages of the console, errors, requests, dialogs."""

    def __init__(self, page, path):
        self.page, self.path = page, path
        self.messages, self.errors, self.requests, self.dialogs = [], [], [], []
        page.on("console", lambda message: self.messages.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))

    def draw_all(self):
        waiting = self.page.evaluate(DRAW_ALL)
        assert not waiting, f"{self.path}: not drawn: {waiting}"

    def wait_until_drawn(self):
        """Until the page has drawn all of itself while nobody scrolls."""
        self.page.wait_for_function("() => document.querySelector('.chart') && "
                                    "!document.querySelector('main > section:not([data-ready]), .chart:not([data-drawn])')",
                                    timeout=60000)

    def marks(self, section, chart, mark):
        """The data of the marks called `mark` of every chart `chart` of a section, a list for each chart."""
        return self.page.evaluate("""([section, chart, mark]) => [...document.querySelectorAll(`#${section} .chart[data-chart="${chart}"]`)]
          .map((one) => [...one.querySelectorAll(`.${mark}`)].flatMap((group) => [...group.children]).map((element) => {
            const plain = { fill_: element.getAttribute("fill") };
            for (const [name, value] of Object.entries(element.__data__?.datum ?? {}))
              if (value === null || typeof value !== "object") plain[name] = Number.isNaN(value) ? null : value;
            return plain;
          }))""", [section, chart, mark])

    def require_quiet(self):
        """Errors unless the browser had nothing to say and the page asked for nothing but itself."""
        loud = [message for message in self.messages if message.split(":")[0] in ("error", "warning", "assert")]
        assert not loud, f"{self.path}: console: {loud}"
        assert not self.errors, f"{self.path}: errors: {self.errors}"
        assert not self.dialogs, f"{self.path}: dialogs: {self.dialogs}"
        others = [url for url in self.requests if url.split("#")[0] != f"file://{self.path}" and not url.startswith(("data:", "blob:"))]
        assert not others, f"{self.path}: requests: {others}"


@contextlib.contextmanager
def opened(started, path, width=1280, height=900, dark=False, **options):
    """A new page of its own at `width`; what holds of every page is checked at the end."""
    path = os.path.abspath(path)
    context = started.new_context(viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", **options)
    page = context.new_page()
    page.set_default_timeout(20000)
    watched = Opened(page, path)
    page.goto(f"file://{path}")
    yield watched
    watched.require_quiet()
    context.close()


# Addresses that name something and are never fetched: XML namespaces, and what licences and comments of the built-in modules hold.
NAMESPACES = {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink", "http://www.w3.org/1999/xhtml", "http://www.w3.org/2000/xmlns/",
              "http://www.w3.org/XML/1998/namespace"}


def require_no_address(path, data=()):
    """Errors where the file holds an address outside comments of its scripts, other than names of XML namespaces. `data`: addresses that
    are data of the results file (a model's address), which nothing may link to."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    bare = re.sub(r"/\*.*?\*/|^\s*//.*$", "", text, flags=re.S | re.M)
    found = set(re.findall(r"""(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}[^\s"'<>)\\]*""", bare, flags=re.I)) - NAMESPACES - set(data)
    assert not found, f"{path}: addresses: {sorted(found)[:5]}"
    markup = re.sub(r"<(script|style)\b[^>]*>.*?</\1>", "", text, flags=re.S)
    outward = re.findall(r"""\b(?:src|srcset|href|action|data|poster|background)\s*=\s*(?!["']?(?:#|data:))[^\s>]+""", markup, flags=re.I)
    assert not outward, f"{path}: links: {outward[:3]}"


def require_policy(page):
    """Errors unless the page forbids itself every request."""
    policy = page.evaluate("document.querySelector('meta[http-equiv=\"Content-Security-Policy\"]')?.content ?? ''")
    assert "default-src 'none'" in policy and "unsafe-eval" not in policy, policy


def require_ids(page, kinds=()):
    there = page.evaluate("[...document.querySelectorAll('main > section')].map((one) => one.id)")
    wanted = set(BASE_IDS) | {KIND_IDS[kind] for kind in kinds}
    assert set(there) == wanted and len(there) == len(wanted), (there, wanted)
