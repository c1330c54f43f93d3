"""Owns the comparison of a page's marks and texts with the results files it is of, as h5py reads them: files of `vindex measure`."""

import collections
import math

import h5py
import numpy as np


class Measured:
    """What a test needs of a results file."""

    def __init__(self, path):
        with h5py.File(path) as file:
            matrix = file["matrix"]
            self.count = len(matrix["layer"])
            text = lambda name: list(matrix[name].asstr(errors="surrogateescape")[:])
            self.tensor, self.block, self.role, self.reason = text("tensor"), text("block"), text("role"), text("reason")
            self.layer, self.expert, self.slice = matrix["layer"][:], matrix["expert"][:], matrix["slice"][:]
            self.rows, self.cols, self.status = matrix["rows"][:], matrix["cols"][:], matrix["status"][:]
            self.k = list(matrix["k"][:])
            self.columns = {name: matrix[name][:] for name in matrix if matrix[name].dtype.kind == "f"}
            self.outliers = matrix["mp_outliers"][:]
            self.sigma = {}
            for group in file.get("spectra", {}).values():
                for row, values in zip(group["matrix"][:], group["sigma"][:]):
                    self.sigma[int(row)] = values

    def groups(self):
        """Rows by (layer, block, role), in the file's order."""
        out = collections.OrderedDict()
        for row in range(self.count):
            out.setdefault((int(self.layer[row]), self.block[row], self.role[row]), []).append(row)
        return out

    def values(self, metric):
        """A metric and its null by row; a share of the first k of at most k values is none, and neither is a value of a row not measured."""
        if metric.startswith("var_at_"):
            k = int(metric[7:])
            value, null = (self.columns[name][:, self.k.index(k)].copy() for name in ("var_at_k", "var_at_k_null"))
            value[np.minimum(self.rows, self.cols) <= k] = math.nan
        else:
            value, null = self.columns[metric].copy(), self.columns[metric + "_null"].copy()
        value[self.status != 0] = math.nan
        return value, null


def close(found, wanted, what, tolerance=1e-6):
    if found is None or wanted is None or math.isnan(wanted):
        assert found is None and (wanted is None or math.isnan(wanted)), f"{what}: {found}, the file has {wanted}"
        return
    assert abs(found - wanted) <= tolerance * max(abs(wanted), 1e-300), f"{what}: {found}, the file has {wanted}"


def require_overview(watched, files, metric="var_at_64"):
    """A cell for every (layer, block, role) of every file with its median, null and ratio; others have a pattern."""
    charts = watched.marks("overview", "overview", "cell")
    assert len(charts) == len(files), (len(charts), len(files))
    cells = without = 0
    for marks, file in zip(charts, files):
        value, null = file.values(metric)
        groups = file.groups()
        assert len(marks) == len(groups), f"#overview: {len(marks)} cells of {len(groups)} groups"
        assert {(mark["layer"], mark["block"], mark["role"]) for mark in marks} == set(groups)
        for mark in marks:
            rows = groups[mark["layer"], mark["block"], mark["role"]]
            known = [row for row in rows if not math.isnan(value[row])]
            where = f"#overview {mark['layer']} {mark['block']} {mark['role']}"
            close(mark["median"], np.median(value[known]) if known else math.nan, where)
            ratios = [value[row] / null[row] for row in known if math.isfinite(value[row] / null[row])]
            close(mark["ratio"], np.median(ratios) if ratios else math.nan, where + " ratio")
            is_pattern = mark["fill_"].startswith("url(#hatch-")
            assert is_pattern == (not known), f"{where}: filled with {mark['fill_']}, {len(known)} values"
            cells, without = cells + 1, without + is_pattern
    return cells, without


def require_layers(watched, files, metric="var_at_64"):
    """A chart for every (block, role) of a layer, a point for every median, a line for the null, a cross for what has no value."""
    points = [mark for chart in watched.marks("layers", "layers", "point") for mark in chart]
    missing = [mark for chart in watched.marks("layers", "layers", "missing_mark") for mark in chart]
    wanted = {}
    roles = set()
    for index, file in enumerate(files):
        value, null = file.values(metric)
        for (layer, block, role), rows in file.groups().items():
            if layer < 0:
                continue
            known = [row for row in rows if not math.isnan(value[row])]
            wanted[index, layer, block, role] = (value[known], null[known])
            if known:
                roles.add((block, role))
    with_value = {key for key, (values, _) in wanted.items() if len(values)}
    found = {(mark["file"], mark["layer"], mark["block"], mark["role"]): mark for mark in points}
    assert len(points) == len(found) and set(found) == with_value, f"#layers: {len(points)} points, {len(with_value)} medians"
    for key, mark in found.items():
        values, nulls = wanted[key]
        for name, share in (("q25", 25), ("median", 50), ("q75", 75)):
            close(mark[name], np.percentile(values, share), f"#layers {key} {name}")
        close(mark["null"], nulls[0] if len(set(nulls)) == 1 else math.nan, f"#layers {key} null")
    charts = {(block, role) for _, _, block, role in with_value}
    drawn = watched.page.evaluate("() => [...document.querySelectorAll('#layers .chart')].map((one) => one.querySelectorAll('.null path, .single_null path').length)")
    assert len(drawn) == len(charts) == len(roles) and all(drawn), f"#layers: nulls of {drawn}, {len(charts)} roles"
    in_charts = {key for key in wanted if key not in with_value and key[2:] in charts}
    assert len(missing) == len(in_charts), f"#layers: {len(missing)} crosses, {len(in_charts)} without a value"
    return len(points), len(drawn)


def require_spectrum(watched, files):
    """Every stored value above zero of the matrices shown is a point, and the law of noise is drawn. What is thinned is of the file too."""
    charts = watched.marks("spectrum", "spectrum_rank", "point")
    laws = watched.marks("spectrum", "spectrum_rank", "law_line")
    titles = watched.page.evaluate("() => [...document.querySelectorAll('#spectrum .name')].map((one) => one.textContent)")
    shown = watched.page.evaluate("() => [...document.querySelectorAll('#spectrum .chart[data-chart=\"spectrum_rank\"]')].map((one) => one.getAttribute('aria-label'))")
    assert len(charts) == len(shown) == len(laws) > 0
    for label, marks, law, file in zip(shown, charts, laws, files):
        rows = [row for row in file.sigma if title_of(file, row) in label and title_of(file, row) in titles]
        assert rows, label
        row = max(rows, key=lambda one: len(title_of(file, one)))
        sigma = file.sigma[row]
        if len(sigma) <= 64:
            assert len(marks) == int((sigma > 0).sum()), f"#spectrum: {len(marks)} points of {len(sigma)}"
        for mark in marks:
            close(mark["sigma"], sigma[mark["rank"] - 1], f"#spectrum rank {mark['rank']}", 5e-4)
        assert len({mark["rank"] for mark in marks}) == len(marks)
        assert marks[0]["rank"] == 1 and len(law) == 1, f"#spectrum: {len(law)} laws"
        assert f"{len(marks)} points" in label
        outlying = sum(mark["outlier"] for mark in marks)
        assert outlying == file.outliers[row] or len(marks) < len(sigma), f"#spectrum: {outlying} outliers, the file has {file.outliers[row]}"
    return [len(marks) for marks in charts]


def title_of(file, row):
    return file.tensor[row] if file.slice[row] < 0 else f"{file.tensor[row]} [{file.slice[row]}]"


def require_experts(watched, files, metric="var_at_64"):
    """Every expert of the chosen layer and role that has a value is a point, in ascending order, beside the null."""
    charts = watched.marks("experts", "experts", "point")
    counted = []
    for marks, file in zip(charts, files):
        rows = [mark["row"] for mark in marks]
        value, null = file.values(metric)
        group = file.groups()[int(file.layer[rows[0]]), file.block[rows[0]], file.role[rows[0]]]
        assert sorted(rows) == [row for row in group if not math.isnan(value[row])], "#experts: other experts than the group's"
        for mark in marks:
            close(mark["value"], value[mark["row"]], f"#experts {mark['expert']}")
            close(mark["null"], null[mark["row"]], f"#experts {mark['expert']} null")
            assert mark["expert"] == file.expert[mark["row"]]
        found = [mark["value"] for mark in marks]
        assert found == sorted(found), "#experts: not sorted"
        counted.append(len(marks))
    lines = watched.page.evaluate("() => [...document.querySelectorAll('#experts .chart[data-chart=\"experts\"]')].map((one) => one.querySelectorAll('.null_line line').length)")
    assert len(lines) == len(charts) and all(lines), f"#experts: nulls {lines}"
    return counted
