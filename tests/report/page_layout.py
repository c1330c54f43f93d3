"""Owns the rules of a page's layout and keyboard: nothing overlaps, nothing sticks out, everything that can be used can be reached."""

OVERLAPS = r"""() => {
  const seen = (element) => {
    const style = getComputedStyle(element), box = element.getBoundingClientRect();
    return style.visibility !== "hidden" && style.display !== "none" && Number(style.opacity) > 0.05 && box.width > 0.5 && box.height > 0.5
      && !element.closest(".unseen, .skip, [hidden], .patterns") && Number(element.getAttribute("opacity") ?? 1) > 0.05;
  };
  const name = (element) => `${element.tagName.toLowerCase()} "${element.textContent.trim().slice(0, 30)}"`;
  const hits = [];
  const compare = (elements, where, slack) => {
    const boxes = elements.filter((one) => seen(one) && one.textContent.trim() !== "" || one.matches("select, input, button, .chart")).filter(seen)
      .map((one) => [one, one.getBoundingClientRect()]);
    for (let i = 0; i < boxes.length; ++i) for (let j = i + 1; j < boxes.length; ++j) {
      const [a, p] = boxes[i], [b, q] = boxes[j];
      if (a.contains(b) || b.contains(a)) continue;
      const across = Math.min(p.right, q.right) - Math.max(p.left, q.left), down = Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top);
      if (across > slack && down > slack) hits.push(`${where}: ${name(a)} over ${name(b)} by ${across.toFixed(1)} x ${down.toFixed(1)}`);
    }
  };
  for (const section of document.querySelectorAll("main > section")) {
    compare([...section.querySelectorAll("h2, h3, p, label, select, input, button:not(.row button), summary, figcaption, .legend li, .chart")]
      .filter((one) => !one.closest(".rows, .printed, details:not([open]) > :not(summary), .scroll")), section.id, 1.5);
    for (const chart of section.querySelectorAll(".chart svg")) {
      compare([...chart.querySelectorAll("text")].filter((one) => !one.closest(".mark-text.role-mark:not(.axis)")), `${section.id} chart`, 1.5);
      compare([...chart.querySelectorAll("text")].filter((one) => one.closest(".far_label")), `${section.id} labels`, 2);
    }
    for (const list of section.querySelectorAll(".legend .scale")) compare([...list.querySelectorAll("b")], `${section.id} legend`, 0.5);
  }
  compare([...document.querySelectorAll("#masthead .brand, #masthead button, #masthead h1, #masthead nav a, #files .card, #warnings p")],
      "masthead", 1.5);
  return hits;
}"""

STICKS_OUT = r"""() => {
  const scrolls = (element) => {
    for (let one = element; one && one !== document.body; one = one.parentElement) {
      const style = getComputedStyle(one);
      if (["auto", "scroll", "hidden", "clip"].includes(style.overflowX)) return true;
    }
    return false;
  };
  const out = [];
  if (document.documentElement.scrollWidth > innerWidth) out.push(`the page is ${document.documentElement.scrollWidth} wide in ${innerWidth}`);
  for (const element of document.querySelectorAll("body *")) {
    const box = element.getBoundingClientRect();
    if (box.width > 0 && box.height > 0 && box.right > innerWidth + 1 && !element.closest(".unseen, .skip, .patterns") && !scrolls(element))
      out.push(`${element.tagName} ${element.className} ends at ${box.right.toFixed(0)}`);
  }
  return out.slice(0, 10);
}"""

CLIPPED = r"""() => [...document.querySelectorAll(".chart")].flatMap((chart) => {
  const room = chart.getBoundingClientRect(), wide = chart.scrollWidth > chart.clientWidth + 1;
  return [...chart.querySelectorAll("svg text")].filter((one) => {
    const box = one.getBoundingClientRect();
    return box.width > 0 && getComputedStyle(one).opacity !== "0" && (box.left < room.left - 2 || box.bottom > room.bottom + 2 || (!wide && box.right > room.right + 2));
  }).map((one) => `${chart.dataset.chart}: "${one.textContent}" is cut off`);
})"""


# Room below the lowest visible mark: something that nobody sees makes the chart taller.
HOLLOW = r"""() => [...document.querySelectorAll(".chart")].filter((chart) => chart.querySelector("svg")).map((chart) => {
  const svg = chart.querySelector("svg").getBoundingClientRect();
  const boxes = [...chart.querySelectorAll("svg text, svg .mark-rect.role-mark path, svg .mark-symbol path, svg .mark-rule line")].filter((one) => Number(one.getAttribute("opacity") ?? 1) > 0)
    .map((one) => one.getBoundingClientRect());
  return [chart, svg.bottom - Math.max(svg.top, ...boxes.map((box) => box.bottom))];
}).filter(([, hollow]) => hollow > 60).map(([chart, hollow]) => `${chart.getAttribute("aria-label").slice(0, 80)}: ${hollow.toFixed(0)} pixels`)"""


def require_layout(watched, what):
    for rule, name in ((STICKS_OUT, "sticks out"), (OVERLAPS, "overlaps"), (CLIPPED, "cut off"), (HOLLOW, "hollow below")):
        found = watched.page.evaluate(rule)
        assert not found, f"{what}: {name}:\n  " + "\n  ".join(found[:12]) + f"\n  ({len(found)} in all)"


REACHABLE = """() => [...document.querySelectorAll("a[href], button, select, input, summary, .chart[tabindex], [tabindex='0']")]
  .filter((one) => one.checkVisibility() && !one.closest(".unseen") && !one.disabled && !one.closest(".row"))
  .map((one) => (one.dataset.reached ??= String(document.body.dataset.next = Number(document.body.dataset.next ?? 0) + 1)))"""


def require_keyboard(watched, what):
    """Tab reaches every control and every chart; arrow keys in a chart tell its values."""
    page = watched.page
    wanted = set(page.evaluate(REACHABLE))
    page.evaluate("() => { document.activeElement?.blur(); scrollTo(0, 0); }")
    reached, charts = set(), 0
    for _ in range(4 * len(wanted) + 400):
        page.keyboard.press("Tab")
        mark, is_chart = page.evaluate("() => [document.activeElement.dataset.reached ?? '', document.activeElement.matches('.chart')]")
        if mark in reached and wanted <= reached:
            break
        if mark and mark not in reached and is_chart:
            page.keyboard.press("ArrowRight")
            page.wait_for_function("() => !document.getElementById('tooltip').hidden", timeout=5000)
            said = page.evaluate("() => [document.getElementById('tooltip').textContent, document.getElementById('announcer').textContent]")
            assert said[0] and said[1], f"{what}: the arrow keys say nothing"
            charts += 1
        reached.add(mark)
    assert wanted <= reached, f"{what}: Tab reaches {len(wanted & reached)} of {len(wanted)}: " + str(page.evaluate(
        "(left) => left.map((mark) => document.querySelector(`[data-reached='${mark}']`).outerHTML.slice(0, 120))", sorted(wanted - reached)[:5]))
    return charts


def require_every_width(watched, what):
    """Whatever the width of the window, charts fit themselves to it without an error and without an end."""
    page = watched.page
    for width in range(300, 1500, 61):
        page.set_viewport_size({"width": width, "height": 900})
        page.evaluate("() => new Promise((done) => setTimeout(() => requestAnimationFrame(() => requestAnimationFrame(done)), 30))")
        assert not watched.errors, f"{what} at {width}: {watched.errors[:1]}"
        assert not page.evaluate(STICKS_OUT), f"{what} at {width}: {page.evaluate(STICKS_OUT)[:3]}"
