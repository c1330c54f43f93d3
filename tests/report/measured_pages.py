"""Pages of files of `vindex measure` in a browser: one file, two side by side, fast mode, no spectra, a partial run. What is drawn is what
h5py reads, nothing overlaps, everything is reached by keyboard, it prints. Usage: measured_pages.py VINDEX FOLDER SHARED_DATA."""

import os
import sys

import h5py
import pypdf

import browser as chrome
import page_marks
from page_layout import require_every_width, require_keyboard, require_layout
from page_table import require_table
from test_script import call, fresh_folder

VINDEX, FOLDER, SHARED = sys.argv[1:4]


def path_of(name):
    return os.path.join(FOLDER, name)


def made_page(name, *files):
    out = path_of(name + ".html")
    call(VINDEX, "report", *files, "-o", out, "-q")
    chrome.require_no_address(out)
    return out


def require_numbers(watched, files):
    return [check(watched, files) for check in (page_marks.require_overview, page_marks.require_layers, page_marks.require_spectrum,
                                                page_marks.require_experts, require_table)]


def require_other_metric(watched, files):
    """Another metric, chosen as a person does, is in the cells of all parts that follow it."""
    label = watched.page.evaluate_handle(
        "() => [...document.querySelectorAll('#overview label')].find((one) => one.firstChild.textContent === 'Metric').querySelector('select')")
    label.as_element().select_option("stable_rank")
    watched.page.wait_for_timeout(300)
    watched.draw_all()
    page_marks.require_overview(watched, files, "stable_rank")
    page_marks.require_layers(watched, files, "stable_rank")
    page_marks.require_experts(watched, files, "stable_rank")


def require_tooltip(watched, files):
    """The tooltip of a cell has its value and its null."""
    page, (_, null) = watched.page, files[-1].values("var_at_64")
    cell = page.locator("#overview .cell path").last
    cell.scroll_into_view_if_needed()
    cell.hover()
    page.wait_for_function("() => !document.getElementById('tooltip').hidden")
    mark = watched.marks("overview", "overview", "cell")[-1][-1]
    rows = files[-1].groups()[mark["layer"], mark["block"], mark["role"]]
    shown = dict(page.evaluate("() => [...document.querySelectorAll('#tooltip dt')].map((one) => [one.textContent, one.nextSibling.textContent])"))
    assert any(abs(float(text) - null[rows[0]]) <= 6e-4 * null[rows[0]] for name,
        text in shown.items() if "null" in name and "ratio" not in name), shown
    assert any(text == page_number(mark["median"]) for name, text in shown.items() if name.startswith("var_at_64")), (shown, mark["median"])


def page_number(value):
    return "NaN" if value is None else f"{value:#.4g}"


def require_print(watched, path, sections):
    """On paper all parts are there, with their charts, whatever has been on the screen."""
    watched.page.pdf(path=path, prefer_css_page_size=True, print_background=True)
    reader = pypdf.PdfReader(path)
    text = "\n".join(page.extract_text() for page in reader.pages)
    for section in sections:
        assert section in text, f"the printed page has no '{section}'"
    paths = sum(len(page["/Contents"].get_object().get_data()) for page in reader.pages)
    assert len(reader.pages) >= 2 and paths > 50000, f"{len(reader.pages)} pages with {paths} bytes of drawing"
    return len(reader.pages), paths


def titles(page):
    return page.evaluate("() => [...document.querySelectorAll('main > section > h2')].map((one) => one.textContent)")


def look(started, name, *paths, thorough=False):
    files = [page_marks.Measured(path) for path in paths]
    out = made_page(name, *paths)
    for width in (1280, 390):
        for dark in (False, True):
            with chrome.opened(started, out, width=width, dark=dark) as watched:
                watched.draw_all()
                chrome.require_ids(watched.page)
                chrome.require_policy(watched.page)
                require_layout(watched, f"{name} at {width}, {'dark' if dark else 'light'}")
                if width == 1280 and not dark:
                    print(name, "marks:", require_numbers(watched, files))
                    require_tooltip(watched, files)
                    require_other_metric(watched, files)
                    require_layout(watched, f"{name} after another metric")
    if thorough:
        with chrome.opened(started, out) as watched:
            watched.draw_all()
            print(name, "charts by keyboard:", require_keyboard(watched, name))
            require_every_width(watched, name)
        with chrome.opened(started, out, dark=True) as watched:
            watched.wait_until_drawn()
            print(name, "printed:", require_print(watched, path_of(name + ".pdf"), titles(watched.page)))


def special_files():
    """Files without what others have: no spectra, the first 64 values, no experts, nothing measured, a run that is not over."""
    call(VINDEX, "synth", "layer:3x96x80:bf16", "-o", path_of("layer"), "-q")
    call(VINDEX, "measure", path_of("layer"), "-o", path_of("bare.h5"), "--no-spectra", "-q")
    call(VINDEX, "measure", path_of("layer"), "-o", path_of("fast.h5"), "--mode", "fast", "-q")
    call(VINDEX, "measure", path_of("mini"), "-o", path_of("attention.h5"), "--blocks", "attention", "-q")
    with h5py.File(path_of("mini.h5")) as whole, h5py.File(path_of("partial.h5"), "w") as partial:
        for name in whole:
            whole.copy(name, partial)
        for name, value in whole.attrs.items():
            partial.attrs[name] = value
        partial["matrix/status"][::3] = 5
        del partial["matrix/status"].attrs["sha256"]
        partial.attrs["status"] = "partial"
        partial.attrs.pop("attributes_sha256", None)
    return ["bare.h5", "fast.h5", "attention.h5", "partial.h5"]


def main():
    fresh_folder(FOLDER)
    chrome.chromium()
    call(VINDEX, "synth", "kimi-k2-mini", "-o", path_of("mini"), "-q")
    call(VINDEX, "measure", path_of("mini"), "-o", path_of("mini.h5"), "-q")
    moe, quantised = os.path.join(SHARED, "moe"), os.path.join(SHARED, "gguf/full/kjv-moe-Q4_K_M.gguf")
    with chrome.browser() as started:
        look(started, "mini", path_of("mini.h5"), thorough=True)
        if os.path.exists(moe) and os.path.exists(quantised):
            for model, name in ((moe, "bf16.h5"), (quantised, "q4.h5")):
                call(VINDEX, "measure", model, "-o", path_of(name), "-q")
            look(started, "side_by_side", path_of("bf16.h5"), path_of("q4.h5"), thorough=True)
        else:
            print("without the mixture: shared data not found")
        for name in special_files():
            out = made_page(name[:-3], path_of(name))
            for width in (1280, 390):
                with chrome.opened(started, out, width=width) as watched:
                    watched.draw_all()
                    chrome.require_ids(watched.page)
                    require_layout(watched, f"{name} at {width}")
                    files = [page_marks.Measured(path_of(name))]
                    assert watched.page.locator("#table .rows").get_attribute("aria-rowcount") == str(files[0].count + 1)
                    if name == "partial.h5":
                        page_marks.require_overview(watched, files)
                        page_marks.require_layers(watched, files)


main()
