#!/usr/bin/env python3
"""Planted spectra of a synthetic model against a measurement: compare_truth.py TRUTH.json RESULTS.csv

One line per kind of matrix: the median over matrices of the planted value, of the measured one and of what noise gives.
Checks that every measured s_1 and Frobenius norm lies within what the encoding may move it (Weyl and the triangle
inequality: the norm of the encoding's error). Exits 1 where one does not. Needs nothing but Python.
"""
import csv
import json
import statistics
import sys


def planted_energy(values, k=64):
    """var@k of planted singular values."""
    squares = [s * s for s in values]
    return sum(squares[:k]) / sum(squares)


def main():
    truth = json.load(open(sys.argv[1], encoding="utf-8"))["tensors"]
    measured = {(row["tensor"], row["slice"]): row for row in csv.DictReader(open(sys.argv[2], encoding="utf-8"))}
    kinds, faults = {}, []
    for planted in truth:
        row = measured.get((planted["tensor"], str(planted["slice"])))
        if row is None or row["status"] != "measured":
            continue
        lines = kinds.setdefault(planted["kind"], [])
        values = planted.get("singular_values", [])
        whole = len(values) == planted.get("singular_values_total", -1)
        room = planted["error_norm"] * 1.0001
        top = values[0] if values else None
        if top is not None and abs(float(row["spectral_norm"]) - top) > room:
            faults.append(f"{planted['tensor']}: s_1 planted {top}, measured {row['spectral_norm']}")
        if abs(float(row["frobenius_norm"]) - planted["frobenius_norm"]) > room:
            faults.append(f"{planted['tensor']}: norm planted {planted['frobenius_norm']}, measured {row['frobenius_norm']}")
        lines.append((planted_energy(values) if whole else None, float(row["var_at_64"]), float(row["var_at_64_null"]),
                      abs(float(row["spectral_norm"]) - top) / top if top else None, planted["relative_error"]))

    def median(column, digits=4):
        column = [value for value in column if value is not None]
        return f"{statistics.median(column):.{digits}f}" if column else "-"

    print(f"{'kind':<10} {'matrices':>8} {'var@64 planted':>15} {'measured':>9} {'noise':>7} {'s_1 error':>10} {'encoding error':>15}")
    for kind, lines in sorted(kinds.items()):
        columns = list(zip(*lines))
        print(f"{kind:<10} {len(lines):>8} {median(columns[0]):>15} {median(columns[1]):>9} {median(columns[2]):>7} "
              f"{median(columns[3], 5):>10} {median(columns[4], 5):>15}")
    for fault in faults:
        print("outside the encoding's error:", fault)
    return 1 if faults or not kinds else 0


sys.exit(main())
