"""Owns the checks of #table: every row of every file, its texts, sorting, filtering, copying."""

import math

from page_marks import title_of

ROWS = """() => {
  const box = document.querySelector("#table .rows");
  const heads = [...box.querySelectorAll(".heads [role=columnheader]")].map((one) => one.textContent.replace(/[\\u25b2\\u25bc ]/g, ""));
  return [heads, [...box.querySelectorAll(".space .row")].map((row) => [Number(row.getAttribute("aria-rowindex")),
    [...row.querySelectorAll("[role=cell]")].map((cell) => cell.textContent)])];
}"""


def table_rows(page):
    """Every row of the table in its order, {heading: text}, by scrolling through it."""
    box = page.locator("#table .rows")
    total = int(box.get_attribute("aria-rowcount")) - 1
    found, at = {}, 0
    while True:
        page.evaluate("(at) => { document.querySelector('#table .rows').scrollTop = at; }", at)
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        heads, rows = page.evaluate(ROWS)
        found.update({index: dict(zip(heads, cells)) for index, cells in rows})
        last = page.evaluate("() => { const box = document.querySelector('#table .rows'); return box.scrollTop + box.clientHeight >= box.scrollHeight - 1; }")
        if last:
            break
        at += 280
    assert sorted(found) == list(range(2, total + 2)), f"#table: {len(found)} rows were seen of {total}"
    return [found[index] for index in sorted(found)]


def same_number(text, value):
    """Whether `text` is `value` to four significant digits."""
    if math.isnan(value):
        return text == "NaN"
    return text != "NaN" and abs(float(text) - value) <= 6e-4 * abs(value) + 1e-300


def require_table(watched, files, metric="var_at_64"):
    page = watched.page
    rows = table_rows(page)
    assert len(rows) == sum(file.count for file in files), f"#table: {len(rows)} rows"
    place = 0
    for file in files:
        value, null = file.values(metric)
        for row in range(file.count):
            shown = rows[place]
            place += 1
            where = f"#table {file.tensor[row][:80]}"
            assert shown["tensor"] == title_of(file, row), (shown["tensor"], title_of(file, row))
            assert shown["block"] == file.block[row] and shown["role"] == file.role[row], where
            assert shown["shape"].replace("\u00d7", "x").split() == [str(file.rows[row]), "x", str(file.cols[row])], (where, shown["shape"])
            assert same_number(shown["stable_rank"], file.columns["stable_rank"][row]), (where, shown["stable_rank"])
            assert same_number(shown["stable_rank_null"], file.columns["stable_rank_null"][row]), (where, shown["stable_rank_null"])
            assert same_number(shown[metric + "_null"], null[row]), (where, shown[metric + "_null"])
            if not math.isnan(value[row]):
                assert same_number(shown[metric], value[row]), (where, shown[metric])
            assert shown["reason"] == file.reason[row], (where, shown["reason"])
    require_sorting(page, rows)
    require_filter(page, files)
    return len(rows)


def require_sorting(page, rows):
    """A heading sorts up, then down; NaN comes last both times."""
    heading = page.locator("#table .heads button", has_text="stable_rank").first
    for sign in (1, -1):
        heading.click()
        values = [float(row["stable_rank"]) for row in table_rows(page)]
        known = [value for value in values if not math.isnan(value)]
        assert known == sorted(known, reverse=sign < 0) and len(values) == len(rows), "#table: not sorted"
        assert all(math.isnan(value) for value in values[len(known):]), "#table: NaN is not last"


def require_filter(page, files):
    role = files[0].role[-1]
    block = files[0].block[-1]
    box = page.locator("#table input[type=search], #table input:not([type=checkbox])").first
    box.fill(f"{role} {block}")
    wanted = sum(1 for file in files for row in range(file.count) if all(
        word in " ".join((title_of(file, row), file.block[row], file.role[row], file.reason[row])).lower() for word in (role.lower(),
            block.lower())))
    page.wait_for_function("(wanted) => Number(document.querySelector('#table .rows').getAttribute('aria-rowcount')) === wanted + 1", arg=wanted,
        timeout=5000)
    assert wanted > 0 and len(table_rows(page)) == wanted
    box.fill("no such matrix")
    page.wait_for_function("() => document.querySelector('#table .rows').getAttribute('aria-rowcount') === '1'", timeout=5000)
    box.fill("")
    page.wait_for_function("(wanted) => Number(document.querySelector('#table .rows').getAttribute('aria-rowcount')) === wanted + 1",
                           arg=sum(file.count for file in files), timeout=5000)
