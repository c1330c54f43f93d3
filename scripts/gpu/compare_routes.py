#!/usr/bin/env python3
"""Spectra of one model by several modes and routes, held against a reference: compare_routes.py REFERENCE.h5 MODE:FILE.h5...

One line per file with the largest errors over its matrices, and what its mode promises (README.md): default every value
above s_1/100 to 2e-4 and var@64 to 1e-6, strict every value to 50 p eps s_1, fast var@64 to 1e-5; in every mode no error above
the row's own `sigma_error` ("of stated": the largest share of it). Ends with 1 where a promise is broken or nothing was
compared. The reference: `measure --backend cpu --mode strict`.
"""
import sys

import h5py
import numpy

EPS = 2.0**-52


def spectra_of(path):
    """Singular values by number of matrix, with the error that the row states."""
    found = {}
    with h5py.File(path) as file:
        stated = file["matrix/sigma_error"][:]
        for group in file["spectra"].values():
            for number, sigma in zip(group["matrix"][:], group["sigma"][:]):
                found[int(number)] = sigma.astype(float), float(stated[int(number)])
    return found


def judge(mode, measured, reference):
    """Errors of one matrix and whether the promise is kept."""
    (sigma, stated), (exact, stated_of_exact) = measured, reference
    count = len(sigma)
    largest, energy = exact[0], float((exact**2).sum())
    difference = numpy.abs(sigma - exact[:count])
    high = exact[:count] >= largest / 100
    relative = float((difference[high] / exact[:count][high]).max())
    absolute = float(difference.max() / largest)
    top = min(64, count)
    var = abs(float((sigma[:top]**2).sum() - (exact[:top]**2).sum())) / energy
    # The reference has an error, too, which is not this row's.
    share = max(0.0, float(difference.max()) - stated_of_exact) / stated if stated > 0 else float("inf")
    kept = {"default": relative <= 2e-4 and var <= 1e-6, "strict": absolute <= 50 * len(exact) * EPS, "fast": var <= 1e-5}
    return absolute, relative, var, share, bool(kept[mode]) and share <= 1.0


def main():
    reference = spectra_of(sys.argv[1])
    broken = False
    print(f"{'mode: file':<44} {'matrices':>8} {'|error|/s_1':>12} {'relative':>10} {'var@64':>10} {'of stated':>10}")
    for argument in sys.argv[2:]:
        mode, path = argument.split(":", 1)
        try:
            found = spectra_of(path)
        except (OSError, KeyError) as error:
            print(f"{mode + ': ' + path[-36:]:<44} not compared: {error}")
            broken = True
            continue
        rows = [judge(mode, sigma, reference[number]) for number, sigma in found.items() if number in reference]
        kept = len(rows) == len(reference) and all(row[-1] for row in rows)
        broken = broken or not kept
        worst = [max((row[i] for row in rows), default=float("nan")) for i in range(4)]
        print(f"{mode + ': ' + path[-36:]:<44} {len(rows):>8} {worst[0]:>12.2e} {worst[1]:>10.2e} {worst[2]:>10.2e} {worst[3]:>10.2f}"
              + ("" if kept else "  BROKEN"))
    return 1 if broken or len(sys.argv) < 3 or not reference else 0


if __name__ == "__main__":
    sys.exit(main())
