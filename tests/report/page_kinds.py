"""Owns the comparison of #compare, #experts-similarity, #cka and #routing with their files, as h5py reads them."""

import math

import h5py
import numpy as np

from page_marks import close


def pick(watched, section, figure, label, value):
    """Chooses an option of a figure's select and waits until its chart is drawn."""
    found = watched.page.evaluate_handle("""([section, figure, label]) => [...document.querySelectorAll(`#${section} figure`)].filter((one) =>
      one.querySelector("h3").textContent === figure).flatMap((one) => [...one.querySelectorAll("label")]).find((one) => one.firstChild.textContent === label)
      ?.querySelector("select") ?? null""", [section, figure, label]).as_element()
    assert found, f"#{section} {figure}: no choice called {label}"
    # By its place: Playwright takes a value for a label too.
    place = found.evaluate("(select, value) => [...select.options].findIndex((one) => one.value === value)", value)
    assert place >= 0, f"#{section} {figure}: {label} has no {value}"
    found.select_option(index=place)
    watched.page.evaluate("() => new Promise((done) => setTimeout(done, 0))")
    watched.draw_all()


def marks_of(watched, section, figure, mark):
    """The data of a figure's marks."""
    charts = watched.page.evaluate("""([section, figure]) => [...document.querySelectorAll(`#${section} figure`)]
      .map((one) => one.querySelector("h3").textContent).indexOf(figure)""",
                                   [section, figure])
    assert charts >= 0, f"#{section} has no figure '{figure}'"
    return watched.page.evaluate("""([section, place, mark]) => {
      const figure = [...document.querySelectorAll(`#${section} figure`)][place];
      return [...figure.querySelectorAll(`.${mark}`)].flatMap((group) => [...group.children]).map((element) => {
        const plain = { fill_: element.getAttribute("fill") };
        for (const [name, value] of Object.entries(element.__data__?.datum ?? {}))
          if (value === null || typeof value !== "object") plain[name] = Number.isNaN(value) ? null : value;
        return plain;
      });
    }""", [section, charts, mark])


def require_grid(marks, wanted, what, tolerance=1e-6):
    """`wanted`: {(x, y): value}; NaN has a pattern."""
    found = {(mark["x"], mark["y"]): mark for mark in marks}
    assert len(found) == len(marks) and set(found) == set(wanted), f"{what}: {len(marks)} cells, the file has {len(wanted)}"
    for key, mark in found.items():
        close(mark["value"], wanted[key], f"{what} {key}", tolerance)
        assert (mark["fill_"] == "url(#hatch-undefined)") == math.isnan(wanted[key]), f"{what} {key}: filled with {mark['fill_']}"
    return len(marks)


def require_lines(watched, section, figure, wanted, tolerance=1e-6):
    """`wanted`: {(panel, x): (value, null)}; what has no value is a cross, what has a null has a mark of it."""
    what = f"#{section} {figure}"
    points, missing, nulls = (marks_of(watched, section, figure, mark) for mark in ("point_mark", "missing_mark", "null_mark"))
    known = {key: value for key, (value, _) in wanted.items() if not math.isnan(value)}
    found = {(mark["panel"], mark["x"]): mark for mark in points}
    assert len(found) == len(points) and set(found) == set(known), f"{what}: {len(points)} points, the file has {len(known)}"
    assert len(missing) == len(wanted) - len(known), f"{what}: {len(missing)} crosses"
    of_noise = {key: null for key, (_, null) in wanted.items() if not math.isnan(null)}
    assert {(mark["panel"], mark["x"]) for mark in nulls} == set(of_noise), f"{what}: {len(nulls)} nulls, the file has {len(of_noise)}"
    for key, mark in found.items():
        close(mark["value"], known[key], f"{what} {key}", tolerance)
    for mark in nulls:
        close(mark["null"], of_noise[mark["panel"], mark["x"]], f"{what} null", tolerance)
    return len(points)


def number_of(dataset, row):
    """A value; a count that is not known is NaN."""
    value = float(dataset[row])
    return math.nan if dataset.dtype.kind == "i" and value == -1 else value


def require_listed(watched, section, caption, wanted):
    """A table of so many rows; none where there are none."""
    tables = watched.page.locator(f"#{section} table").filter(has=watched.page.locator("caption", has_text=caption))
    found = tables.first.locator("tbody tr").count() if tables.count() else 0
    assert found == wanted, f"#{section}: '{caption}' has {found} rows, the file {wanted}"


def require_reasons(watched, section, table):
    require_listed(watched, section, "Rows with a reason", sum(1 for status,
        reason in zip(table["status"][:], texts(table, "reason")) if status != 0 or reason))


def texts(group, name):
    return list(group[name].asstr()[:])


def require_cka(watched, path):
    with h5py.File(path) as file:
        a, b = [int(x) for x in file["layers_a"][:]], [int(x) for x in file["layers_b"][:]]
        for name in ("cka", "cka_biased"):
            pick(watched, "cka", "Every layer of A with every layer of B", "Estimator", name)
            values = file[name][:]
            marks = marks_of(watched, "cka", "Every layer of A with every layer of B", "cell_mark")
            cells = require_grid(marks, {(y, x): values[i, j] for i, x in enumerate(a) for j, y in enumerate(b)}, f"#cka {name}")
        pick(watched, "cka", "Every layer of A with every layer of B", "Estimator", "cka")
        noise = marks_of(watched, "cka", "Every layer of A with every layer of B", "noise_mark")
        assert len(noise) == int((file["cka"][:] <= file["null_q95"][:]).sum()), f"#cka: {len(noise)} cells within the null"
        limits = [float(text) for text in file.attrs.get("stages_limits", "").split()] or [math.nan] * len(a)
        adjacent = file["layer/adjacent_cka"][:]
        require_lines(watched, "cka", "Neighbouring layers of A", {("", x): (adjacent[i], limits[i]) for i, x in enumerate(a[:-1])})
        matched = file["matched"]
        require_lines(watched, "cka", "Layers at the same relative depth",
                      {("", round(100 * d, 1)): (c, q) for d, c, q in zip(matched["depth"][:], matched["cka"][:], matched["null_q95"][:])})
        require_reasons(watched, "cka", file["layer"])
        return cells


def require_routing(watched, path):
    with h5py.File(path) as file:
        layer = file["layer"]
        numbers, experts = [int(x) for x in layer["layer"][:]], [int(x) for x in layer["expert"][:]]
        load, null = layer["load"][:], layer["load_null"][:]
        cells = require_grid(marks_of(watched, "routing", "Load of experts", "cell_mark"),
                             {(e, n): load[i, j] / null[i] for i, n in enumerate(numbers) for j,
                                 e in enumerate(experts) if j < layer["cols"][i]}, "#routing load")
        dead = marks_of(watched, "routing", "Load of experts", "marked_mark")
        assert len(dead) == int((load == 0).sum())
        for name in ("load_cv", "dead_experts", "transition_lift_max", "router_entropy"):
            pick(watched, "routing", "Statistics by layer", "Statistic", name)
            values = [number_of(layer[name], i) for i in range(len(numbers))]
            require_lines(watched, "routing", "Statistics by layer", {("", n): (values[i], layer[name + "_null"][i]) for i,
                n in enumerate(numbers)})
        for row in range(len(numbers)):
            pick(watched, "routing", "Experts chosen together", "Layer", str(row))
            lift = layer["coactivation_lift"][row]
            require_grid(marks_of(watched, "routing", "Experts chosen together", "cell_mark"),
                         {(x, y): float(lift[i, j]) for i, y in enumerate(experts) for j,
                             x in enumerate(experts) if i != j}, f"#routing lift of {numbers[row]}")
        pick(watched, "routing", "Experts chosen together", "Chosen", "transition_lift")
        lift = layer["transition_lift"][len(numbers) - 1]
        require_grid(marks_of(watched, "routing", "Experts chosen together", "cell_mark"),
                     {(x, y): float(lift[i, j]) for i, y in enumerate(experts) for j, x in enumerate(experts)}, "#routing transitions")
        require_reasons(watched, "routing", layer)
        return cells


def require_experts(watched, path):
    with h5py.File(path) as file:
        group = file["group"]
        roles, layers, experts = texts(group, "role"), group["layer"][:], [int(x) for x in group["expert"][:]]
        for name, null in (("cosine_max", "cosine_max_null"), ("cosine_mean", "cosine_null"), ("effective_rank", "effective_rank_null"),
            ("rank_90", "rank_90_null")):
            pick(watched, "experts-similarity", "By layer", "Statistic", name)
            require_lines(watched, "experts-similarity", "By layer",
                          {(role, int(layer)): (number_of(group[name], i), number_of(group[null], i)) for i,
                              (role, layer) in enumerate(zip(roles, layers))})
        cells = 0
        for row in range(len(roles)):
            if np.isnan(group["cosine"][row]).all():
                continue
            pick(watched, "experts-similarity", "Every two experts", "Group", str(row))
            for name in [one for one in ("cosine", "cosine_centred", "overlap_right", "overlap_left") if one in group]:
                pick(watched, "experts-similarity", "Every two experts", "Matrix", name)
                values = group[name][row]
                cells += require_grid(marks_of(watched, "experts-similarity", "Every two experts", "cell_mark"),
                                      {(x, y): float(values[i, j]) for i, y in enumerate(experts) for j,
                                          x in enumerate(experts) if i != j}, f"#experts-similarity {name} of {row}")
            pick(watched, "experts-similarity", "Spectrum between experts", "Group", str(row))
            values, null = group["expert_axis_spectrum"][row], group["expert_axis_spectrum_null"][row]
            require_lines(watched, "experts-similarity", "Spectrum between experts",
                {("", i + 1): (values[i], null[i]) for i in range(group["experts_counted"][row])})
        require_reasons(watched, "experts-similarity", group)
        return cells


def role_of(block, role):
    plain = ("embedding", "router", "attention", "output", "other")
    return role if block in plain else f"{block.removesuffix('_expert').removesuffix('_mlp')} {role}"


def require_compare(watched, path):
    with h5py.File(path) as file:
        pair = file["pair"]
        groups = {}
        for row, (layer, block, role) in enumerate(zip(pair["layer"][:], texts(pair, "block"), texts(pair, "role"))):
            groups.setdefault((int(layer), role_of(block, role)), []).append(row)
        unrelated = np.sqrt(1 + (pair["norm_b"][:] / pair["norm_a"][:]) ** 2)
        tried = [("relative_error", unrelated), ("cosine", np.zeros(len(unrelated)))]
        tried += [(name, pair[f"{name}_null"][:]) for name in ("delta_effective_rank", "delta_theta", "overlap_right")
                  if name in pair and not np.isnan(pair[name][:]).all()]
        for name, null in tried:
            values = pair[name][:]
            median = {key: (float(np.median(values[rows][~np.isnan(values[rows])])) if not np.isnan(values[rows]).all() else math.nan) for key,
                rows in groups.items()}
            of_null = {key: (float(np.nanmedian(null[rows])) if not np.isnan(null[rows]).all() else math.nan) for key, rows in groups.items()}
            pick(watched, "compare", "By layer and role", "Measure", name)
            cells = require_grid(marks_of(watched, "compare", "By layer and role", "cell_mark"),
                                 {("none" if layer < 0 else str(layer), role): value for (layer, role),
                                     value in median.items()}, f"#compare {name}", 1e-5)
            pick(watched, "compare", "Within a role", "Measure", name)
            is_log = name.startswith(("relative", "delta_effective", "delta_stable"))
            shown = lambda value: value if not is_log or value > 0 else math.nan
            require_lines(watched, "compare", "Within a role", {(role, layer): (shown(value), of_null[layer, role]) for (layer, role),
                value in median.items()}, 1e-5)
        require_listed(watched, "compare", "Largest relative errors", min(20, int((~np.isnan(pair["relative_error"][:])).sum())))
        require_listed(watched, "compare", "Without a pair", min(200, len(file["unpaired/tensor"]) if "unpaired" in file else 0))
        require_reasons(watched, "compare", pair)
        return cells


def require_activations(watched, path):
    with h5py.File(path) as file:
        layer = file["layer"]
        roles, numbers = texts(layer, "role"), layer["layer"][:]
        points = 0
        for name in ("kurtosis", "top8_mass", "dead_neurons", "effective_rank"):
            pick(watched, "activations", "By layer", "Statistic", name)
            values = [number_of(layer[name], i) for i in range(len(numbers))]
            there = {role for role, value in zip(roles, values) if not math.isnan(value)}
            points += require_lines(watched, "activations", "By layer", {(role, int(n)): (value, float(null)) for role, n, value, null in
                                                                          zip(roles, numbers, values, layer[f"{name}_null"][:]) if role in there})
        for i, threshold in enumerate(layer["threshold"][:]):
            pick(watched, "activations", "By layer", "Statistic", f"sparsity at {threshold:g}")
            require_lines(watched, "activations", "By layer", {(role, int(n)): (value[i], null[i]) for role, n, value, null in
                                                               zip(roles, numbers, layer["sparsity"][:],
                                                                   layer["sparsity_null"][:]) if role == "mlp"})
        require_reasons(watched, "activations", layer)
        return points


REQUIRE = {"compare": require_compare, "experts": require_experts, "cka": require_cka, "routing": require_routing,
           "activations": require_activations}
