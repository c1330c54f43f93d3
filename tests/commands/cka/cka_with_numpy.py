"""Holds `vindex cka` against float64 numpy: both estimators in both forms, invariances, permutations, jackknife, pooling.

Usage: cka_with_numpy.py VINDEX FOLDER."""

import json
import math
import os
import shutil
import sys

import h5py
import numpy as np

from test_script import call, fresh_folder

VINDEX, FOLDER = sys.argv[1:3]
RANDOM = np.random.default_rng(13)
MASK = (1 << 64) - 1
ORDER_KEY = 0x702F7865646E6976


def philox(key, index, draw):
    """The first 64 bits of a block of Philox4x32-10."""
    word = [index & 0xFFFFFFFF, index >> 32, draw & 0xFFFFFFFF, draw >> 32]
    key0, key1 = key & 0xFFFFFFFF, key >> 32
    for _ in range(10):
        product0, product1 = 0xD2511F53 * word[0], 0xCD9E8D57 * word[2]
        word = [(product1 >> 32) ^ word[1] ^ key0, product1 & 0xFFFFFFFF, (product0 >> 32) ^ word[3] ^ key1, product0 & 0xFFFFFFFF]
        key0, key1 = (key0 + 0x9E3779B9) & 0xFFFFFFFF, (key1 + 0xBB67AE85) & 0xFFFFFFFF
    return word[1] << 32 | word[0]


def below(bound, key, index, draw):
    return philox(key, index, draw) * bound >> 64


def drawn_order(count, strata, draw):
    """Members of each stratum in another order on their places."""
    order, before = list(range(count)), 0
    for members in strata:
        for left in range(len(members), 1, -1):
            i, j = members[left - 1], members[below(left, ORDER_KEY, before + left, draw)]
            order[i], order[j] = order[j], order[i]
        before += len(members)
    return order


def equal_lengths(lengths):
    return [members for length in sorted(set(lengths)) if len(members := [i for i, other in enumerate(lengths) if other == length]) > 1]


def pooled_strata(lengths_a, lengths_b):
    """Prompts of one length of A, or of B where those leave more orders."""
    def orders(strata):
        return sum(math.lgamma(len(members) + 1) for members in strata)
    return max(equal_lengths(lengths_a), equal_lengths(lengths_b), key=orders)


def centred(x):
    x = x.astype(np.float64)
    return x - x.mean(axis=0)


def song(k, l):
    """n (n - 3) HSIC_1: equation 5 of Song et al. 2012."""
    n = len(k)
    k, l = k - np.diag(np.diag(k)), l - np.diag(np.diag(l))
    one = np.ones(n)
    return np.trace(k @ l) + (one @ k @ one) * (one @ l @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * (one @ k @ l @ one)


def unbiased(x, y):
    k, l = centred(x) @ centred(x).T, centred(y) @ centred(y).T
    return song(k, l) / np.sqrt(song(k, k) * song(l, l))


def biased(x, y):
    x, y = centred(x), centred(y)
    return np.linalg.norm(x.T @ y) ** 2 / (np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y))


def permuted_rows(prompt, draw):
    groups = [np.flatnonzero(prompt == number) for number in dict.fromkeys(prompt)]
    strata = equal_lengths([len(group) for group in groups])
    return np.concatenate([groups[g] for g in drawn_order(len(groups), strata, draw)])


def student(freedom):
    """97.5 % point: Abramowitz and Stegun 26.7.5."""
    z = 1.959963984540054
    return (z + (z**3 + z) / (4 * freedom) + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
            + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
            + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * freedom**4))


def directions(x):
    k = centred(x) @ centred(x).T
    n = len(k)
    return max(1, np.trace(k) ** 2 * (n - 3) / (n * song(k, k)))


def jackknife(x, y, prompt):
    """Standard error and both ends of the interval, each sample without a prompt compared anew."""
    numbers = list(dict.fromkeys(prompt))
    value, count = unbiased(x, y), len(numbers)
    without = np.array([unbiased(x[prompt != g], y[prompt != g]) for g in numbers])
    error = np.sqrt((count - 1) / count * ((without - without.mean()) ** 2).sum())
    z = np.arctanh(without)
    off = z - z.mean()
    error_z = np.sqrt((count - 1) / count * (off**2).sum())
    kurtosis = (off**4).mean() / (off**2).mean() ** 2
    freedom = min(count - 1, max(4, 2 * count / (kurtosis - 1)))
    at_zero = 0.5 * np.sqrt(directions(x) * directions(y)) * error
    grid = np.linspace(-0.9999, 0.9999, 400001)
    inside = np.abs(np.arctanh(grid) - np.arctanh(value)) <= student(freedom) * error_z * np.sqrt(
        (np.maximum(grid, 0) + at_zero) / (max(value, 0) + at_zero))
    return error, grid[inside][0], grid[inside][-1]


def dump(name, layers, prompt=None, ids=True):
    path = os.path.join(FOLDER, name)
    shutil.rmtree(path, ignore_errors=True)
    os.makedirs(path)
    for layer, values in layers.items():
        np.save(os.path.join(path, f"hidden.{layer}.npy"), values)
    rows = len(next(iter(layers.values())))
    if ids:
        np.save(os.path.join(path, "token_ids.npy"), np.arange(rows) * 7 % 101)
    if prompt is not None:
        np.save(os.path.join(path, "prompt.npy"), np.asarray(prompt, dtype=np.int32))
    return path


def cka(a, b, *more):
    out = os.path.join(FOLDER, "out.h5")
    call(VINDEX, "cka", a, b, "-o", out, "--restart", "-q", "--backend", "cpu", *more)
    call(VINDEX, "validate", out, "-q")
    with h5py.File(out, "r") as file:
        names = ["cka", "cka_biased", "null_mean", "null_q95", "p", "ci_low", "ci_high", "se", "layers_a", "layers_b"]
        found = {name: file[name][()] for name in names}
        found["adjacent"] = file["layer/adjacent_cka"][()]
        found["adjacent_se"] = file["layer/adjacent_cka_se"][()]
        found["reasons"] = [reason.decode() for reason in file["layer/reason"][()]]
        found["form"] = json.loads(file["run/settings"][()])["form"]
        found["attributes"] = dict(file.attrs)
    return found


def refused(code, *arguments):
    return call(VINDEX, "cka", *arguments, "-o", os.path.join(FOLDER, "no.h5"), "-q", code=code).stderr


def close(found, wanted, bound, what):
    worst = np.max(np.abs(np.asarray(found) - np.asarray(wanted)))
    assert worst <= bound, f"{what}: {worst}\n{found}\n{wanted}"
    print(f"{what}: {worst:.1e}")


def mixed(rows, width, seed, latent=6):
    """Activations with something in common, columns of unlike scale and mean, and one that dominates."""
    common = np.random.default_rng(99).standard_normal((rows, latent))
    random = np.random.default_rng(seed)
    x = common @ random.standard_normal((latent, width)) + 1.5 * random.standard_normal((rows, width))
    x = x * np.exp(random.standard_normal(width)) + 10 * random.standard_normal(width)
    x[:, 0] = 300 + 5 * x[:, 0]
    return x


PROMPT = np.repeat(np.arange(12), [5, 9, 5, 14, 8, 8, 5, 9, 8, 5, 14, 14])
ROWS = len(PROMPT)


def check_estimates():
    """Both forms: few rows of wide layers, many rows of narrow ones; all element types."""
    wide = {0: mixed(ROWS, 257, 1).astype(np.float32), 3: mixed(ROWS, 257, 2).astype(np.float16), 4: mixed(ROWS, 257, 3)}
    other = {1: mixed(ROWS, 130, 4).astype(np.float32), 2: mixed(ROWS, 130, 5).astype(np.float32)}
    many = {0: mixed(5000, 24, 6).astype(np.float32), 1: mixed(5000, 24, 7).astype(np.float32)}
    more = {0: mixed(5000, 40, 8).astype(np.float32), 5: mixed(5000, 40, 9).astype(np.float32), 6: np.tile(1.5, (5000, 40))}
    for form, a, b in [("rows", wide, other), ("features", many, more)]:
        found = cka(dump("a", a), dump("b", b), "--permutations", "0", "--no-interval")
        assert list(found["layers_a"]) == list(a) and list(found["layers_b"]) == list(b)
        for i, x in enumerate(a.values()):
            for j, y in enumerate(b.values()):
                if np.ptp(y) == 0:
                    assert np.isnan(found["cka"][i, j]) and np.isnan(found["cka_biased"][i, j])
                    continue
                if form == "rows":
                    close(found["cka"][i, j], unbiased(x, y), 1e-6, f"{form} unbiased {i} {j}")
                else:  # by sums over features: Gram matrices of 5000 rows take long
                    close(found["cka"][i, j], unbiased_of_features(x, y), 1e-6, f"{form} unbiased {i} {j}")
                close(found["cka_biased"][i, j], biased(x, y), 1e-6, f"{form} biased {i} {j}")
        layers = list(a.values())
        for i in range(len(layers) - 1):
            close(found["adjacent"][i], unbiased_of_features(layers[i], layers[i + 1]), 1e-6, f"{form} adjacent {i}")
        assert np.isnan(found["adjacent"][-1])
        assert np.isnan(found["p"]).all() and np.isnan(found["ci_low"]).all()


def unbiased_of_features(x, y):
    def product(p, q):
        n, k, l = len(p), (p * p).sum(axis=1), (q * q).sum(axis=1)
        return np.linalg.norm(p.T @ q) ** 2 - n / (n - 2) * (k @ l) + k.sum() * l.sum() / ((n - 1) * (n - 2))
    x, y = centred(x), centred(y)
    return product(x, y) / np.sqrt(product(x, x) * product(y, y))


def check_invariances():
    for rows in (90, 3000):  # by Gram matrices, by features
        x = RANDOM.standard_normal((rows, 30)) * np.exp(RANDOM.standard_normal(30))
        y = x[:, :20] @ RANDOM.standard_normal((20, 25)) + RANDOM.standard_normal((rows, 25))
        turned = x @ np.linalg.qr(RANDOM.standard_normal((30, 30)))[0]
        mapped = x @ RANDOM.standard_normal((30, 30))
        a = dump("a", {0: y.astype(np.float32)})
        b = dump("b", {0: x, 1: turned, 2: -37.5 * x, 3: x + 11, 4: mapped})
        found = cka(a, b, "--permutations", "0", "--no-interval")
        row = found["cka"][0]
        close(row[1:4], np.repeat(row[0], 3), 1e-6, "orthogonal map, scale, shift")
        assert abs(row[4] - row[0]) > 0.02, "CKA is not invariant to general linear maps"
        back = cka(b, a, "--permutations", "0", "--no-interval")
        close(back["cka"][:, 0], row, 1e-6, "symmetry")
        close(back["cka_biased"][:, 0], found["cka_biased"][0], 1e-6, "symmetry, biased")
        itself = cka(b, b, "--permutations", "0", "--no-interval")
        close(np.diag(itself["cka"]), np.ones(5), 1e-6, "itself")
        close(np.diag(itself["cka_biased"]), np.ones(5), 1e-6, "itself, biased")


def check_draws():
    """Draws and jackknife are those of the documentation, in both forms."""
    cases = [(mixed(ROWS, 140, 1), mixed(ROWS, 150, 2), PROMPT, 20),
             (mixed(ROWS, 7, 1), mixed(ROWS, 5, 2), PROMPT, 20),
             (mixed(60, 9, 1), mixed(60, 8, 2), None, 20)]
    forms = set()
    for x, y, prompt, draws in cases:
        x, y = x.astype(np.float32), y.astype(np.float32)
        z = mixed(len(x), x.shape[1], 5).astype(np.float32)
        a, b = dump("a", {0: x, 1: z}, prompt), dump("b", {0: y}, prompt)
        found = cka(a, b, "--permutations", str(draws))
        forms.add(found["form"])
        units = np.arange(len(x)) if prompt is None else prompt
        value = unbiased(x, y)
        null = np.array([unbiased(x, y[permuted_rows(units, draw)]) for draw in range(draws)])
        close(found["cka"][0, 0], value, 1e-6, "estimate")
        close(found["null_mean"][0, 0], null.mean(), 1e-6, "mean of the null")
        close(found["null_q95"][0, 0], np.quantile(null, 0.95), 1e-6, "its quantile")
        close(found["p"][0, 0], (1 + (null >= value).sum()) / (1 + draws), 1e-12, "p")
        if prompt is None:
            assert np.isnan(found["ci_low"]).all() and np.isnan(found["se"]).all(), "without prompts there is nothing to leave out"
            assert "prompt" in found["reasons"][0], found["reasons"]
            assert "stages" not in found["attributes"]
            continue
        error, low, high = jackknife(x, y, prompt)
        close(found["se"][0, 0], error, 3e-6, "standard error")
        close(found["adjacent_se"][0], jackknife(x, z, prompt)[0], 3e-6, "that of neighbours")
        close(found["ci_low"][0, 0], low, 2e-5, "low end")
        close(found["ci_high"][0, 0], high, 2e-5, "high end")
        itself = cka(b, b, "--permutations", "0")
        assert itself["ci_low"][0, 0] > 0.99999 and itself["se"][0, 0] < 1e-5, "a layer and itself"
        assert found["attributes"]["stages"] == 1 and found["reasons"] == ["", ""], found["reasons"]
    assert forms == {"rows", "features"}, forms


def check_lengths():
    """Prompts that all differ in length leave no order, pooled or not: NaN, the reason, and what to dump instead."""
    prompt = np.repeat(np.arange(12), np.arange(3, 15))
    rows = len(prompt)
    x, y = mixed(rows, 20, 1).astype(np.float32), mixed(rows, 16, 2).astype(np.float32)
    a, b = dump("a", {0: x}, prompt), dump("b", {0: y}, prompt)
    found = cka(a, b)
    assert np.isnan(found["p"]).all() and np.isnan(found["null_q95"]).all() and not np.isnan(found["ci_low"]).any()
    assert "same length" in found["reasons"][0] and "few lengths" in found["reasons"][0], found["reasons"]
    assert found["attributes"]["permutations"] == 0 and found["attributes"]["permutation_movable"] == 0
    pooled = cka(a, b, "--pool", "mean")
    assert np.isnan(pooled["p"]).all() and "same length" in pooled["reasons"][0] and not np.isnan(pooled["cka"]).any()
    few = cka(dump("a", {0: x[:12]}, np.repeat([0, 1, 2], 4)), dump("b", {0: y[:12]}, np.repeat([0, 1, 2], 4)))
    assert np.isnan(few["ci_low"]).all() and "3 prompts, and it takes 5" in few["reasons"][0], few["reasons"]
    assert "stages" not in few["attributes"]


def check_pooling():
    x, y = mixed(ROWS, 40, 1).astype(np.float32), mixed(ROWS + 12, 30, 2).astype(np.float32)
    longer = np.repeat(np.arange(12)[::-1], np.bincount(PROMPT)[::-1] + 1)  # another tokenizer, prompts in another order
    a, b = dump("a", {0: x}, PROMPT), dump("b", {0: y}, longer, ids=False)
    numbers = list(range(12))
    strata = pooled_strata(list(np.bincount(PROMPT)), list(np.bincount(PROMPT) + 1))
    assert len(strata) > 1, strata
    pool = {"mean": lambda v, p, q: v[p == q].mean(axis=0, dtype=np.float64), "last": lambda v, p, q: v[p == q][-1]}
    for how, of in pool.items():
        found = cka(a, b, "--pool", how, "--permutations", "30")
        left, right = (np.array([of(v, p, q) for q in numbers]) for v, p in ((x, PROMPT), (y, longer)))
        close(found["cka"][0, 0], unbiased(left, right), 1e-6, f"pooled by {how}")
        null = np.array([unbiased(left, right[drawn_order(12, strata, draw)]) for draw in range(30)])
        close(found["null_q95"][0, 0], np.quantile(null, 0.95), 1e-6, f"null, pooled by {how}")
        error, _, high = jackknife(left, right, np.arange(12))
        close(found["se"][0, 0], error, 3e-6, f"standard error, pooled by {how}")
        close(found["ci_high"][0, 0], high, 2e-5, f"interval, pooled by {how}")
        assert found["attributes"]["rows"] == 12
    # Thirty prompts of ten lengths: equal ones change places. Other lengths of B alone leave fewer orders, those of A are taken.
    prompt, other = np.repeat(np.arange(30), np.arange(30) % 10 + 1), np.repeat(np.arange(30), np.arange(30) + 2)
    x, y = mixed(len(prompt), 6, 3).astype(np.float32), mixed(len(other), 5, 4).astype(np.float32)
    found = cka(dump("a", {0: x}, prompt), dump("b", {0: y}, other, ids=False), "--pool", "mean", "--permutations", "30")
    strata = pooled_strata(list(np.bincount(prompt)), list(np.bincount(other)))
    assert len(strata) == 10 and found["attributes"]["permutation_strata"] == 10, strata
    left, right = (np.array([v[p == q].mean(axis=0, dtype=np.float64) for q in range(30)]) for v, p in ((x, prompt), (y, other)))
    null = np.array([unbiased(left, right[drawn_order(30, strata, draw)]) for draw in range(30)])
    close(found["null_q95"][0, 0], np.quantile(null, 0.95), 1e-6, "null, pooled, in ten strata")


def check_refusals():
    x = RANDOM.standard_normal((20, 4)).astype(np.float32)
    prompt = np.repeat([0, 1, 2, 3], 5)
    a = dump("a", {0: x}, prompt)
    assert "E-CKA-ROWS" in refused(78, a, dump("b", {0: x}, prompt, ids=False)) and "token_ids" in refused(78, a, os.path.join(FOLDER, "b"))
    assert "21" in refused(78, a, dump("b", {0: np.vstack([x, x[:1]])}))
    b = dump("b", {0: x}, prompt)
    ids = np.load(os.path.join(b, "token_ids.npy"))
    ids[13] += 1
    np.save(os.path.join(b, "token_ids.npy"), ids)
    assert "row 13" in refused(78, a, b)
    assert "prompts" in refused(78, a, dump("b", {0: x}, np.repeat([0, 1], 10)))
    assert "prompt" in refused(78, a, dump("b", {0: x}), "--pool", "mean")
    assert "prompt 3" in refused(78, a, dump("b", {0: x}, np.repeat([0, 1, 2, 9], 5)), "--pool", "mean")
    assert "rows" in refused(78, dump("a", {0: x[:3]}), dump("b", {0: x[:3]}))
    np.save(os.path.join(FOLDER, "b", "hidden.0.npy"), np.asfortranarray(x[:3]))
    assert "ascontiguousarray" in refused(65, os.path.join(FOLDER, "a"), os.path.join(FOLDER, "b"))
    assert "E-CKA-LAYERS" in refused(65, os.path.join(FOLDER, "a"), os.path.join(FOLDER, "a"), "--role", "mlp")
    text = refused(64, os.path.join(FOLDER, "a"), os.path.join(FOLDER, "a"), "--bootstrap", "50")
    assert "E-CKA-BOOTSTRAP" in text and "jackknife" in text and len(text.splitlines()) == 1, text
    assert "E-SELECTION" in refused(64, os.path.join(FOLDER, "a"), os.path.join(FOLDER, "a"), "--layers", "7")


def check_not_finite():
    x = RANDOM.standard_normal((40, 6)).astype(np.float32)
    bad = x.copy()
    bad[3, 2] = np.inf
    found = cka(dump("a", {0: x, 1: bad, 2: x + 1}), dump("b", {0: x, 1: bad}), "--permutations", "5")
    close(found["cka"][[0, 2], 0], [1, 1], 1e-6, "beside what is not finite")
    assert np.isnan(found["cka"][1]).all() and np.isnan(found["cka"][:, 1]).all()
    assert np.isnan(found["adjacent"]).all()
    assert "next layer" in found["reasons"][0] and "layers 1 of B" in found["reasons"][0], found["reasons"]


def check_constant():
    """Layers that do not vary have no CKA, and every row that misses a number says why."""
    x, flat = RANDOM.standard_normal((40, 6)).astype(np.float32), np.full((40, 6), 0.1, dtype=np.float32)
    prompt = np.repeat(np.arange(10), 4)
    found = cka(dump("a", {0: x, 1: flat, 2: x}, prompt), dump("b", {0: x, 4: flat}, prompt), "--permutations", "5")
    for name in ("cka", "cka_biased", "null_mean", "p", "ci_low", "se"):
        assert np.isnan(found[name][1]).all() and np.isnan(found[name][:, 1]).all(), name
        assert not np.isnan(found[name][[0, 2], 0]).any(), name
    first, second, third = found["reasons"]
    assert "next layer" in first and "layers 4 of B" in first and "this layer" not in first, first
    assert "this layer" in second and "next layer" not in second, second
    assert "4 of B" in third and "this layer" not in third, third
    assert "stages" not in found["attributes"]


def check_noise():
    """256 rows of 2048 columns: the biased estimate is near f / (m + f + 1), the unbiased one near 0."""
    x, y = RANDOM.standard_normal((2, 256, 2048)).astype(np.float32)
    found = cka(dump("a", {0: x}), dump("b", {0: y}))
    print("noise:", {name: float(found[name][0, 0]) for name in ("cka", "cka_biased", "null_mean", "null_q95", "p")})
    close(found["cka_biased"], 2048 / (256 + 2048 + 1), 0.005, "noise, biased")
    assert abs(found["cka"][0, 0]) < 0.02 and abs(found["null_mean"][0, 0]) < 0.01 and found["p"][0, 0] > 0.01
    x, y = RANDOM.standard_normal((2, 2048, 64)).astype(np.float32)  # the other form
    found = cka(dump("a", {0: x}), dump("b", {0: y}), "--permutations", "20")
    close(found["cka_biased"], 64 / (2048 + 64 + 1), 0.005, "noise of many rows, biased")
    assert abs(found["cka"][0, 0]) < 0.005


def main():
    fresh_folder(FOLDER)
    for check in (check_estimates, check_invariances, check_draws, check_lengths, check_pooling, check_refusals, check_not_finite, check_constant,
                  check_noise):
        print(check.__name__)
        check()
    shutil.rmtree(FOLDER)
    return 0


if __name__ == "__main__":
    sys.exit(main())
