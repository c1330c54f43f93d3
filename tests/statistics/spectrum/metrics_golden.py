"""Golden values of metrics_test.cpp and marchenko_pastur_test.cpp: python3 metrics_golden.py

The definitions of the metrics contract written once more, plainly, with numpy and scipy; the
power-law fit is the full O(p^2) search. Prints what the tests embed.
"""
import numpy as np
from scipy import integrate, optimize

EPS32 = 2.0**-23


def mp_density(g):
    a, b = (1 - np.sqrt(g)) ** 2, (1 + np.sqrt(g)) ** 2
    return a, b, lambda x: np.sqrt(max(0.0, (b - x) * (x - a))) / (2 * np.pi * g * x)


def mp_cumulative(g, x):
    a, b, density = mp_density(g)
    if x <= a:
        return 0.0
    if x >= b:
        return 1.0
    half_angle = np.arcsin(np.sqrt((x - a) / (b - a)))

    def integrand(t):
        y = a + (b - a) * np.sin(t) ** 2
        return density(y) * 2 * (b - a) * np.sin(t) * np.cos(t) if y > 0 else 0.0

    return integrate.quad(integrand, 0, half_angle, epsabs=1e-13, epsrel=1e-13, limit=500)[0]


def mp_median(g):
    a, b, _ = mp_density(g)
    return optimize.brentq(lambda x: mp_cumulative(g, x) - 0.5, a, b, xtol=1e-15)


def power_law(lam):
    x = np.sort(lam[lam > 0])
    logs = np.log(x)
    best = (np.inf,)
    for i in range(len(x) - 1):
        m = len(x) - i
        with np.errstate(divide="ignore", invalid="ignore"):
            alpha = 1 + m / (np.sum(logs[i:]) - m * logs[i])
            distance = np.max(np.abs(1 - (x[i:] / x[i]) ** (1 - alpha) - np.arange(m) / m))
        if np.isfinite(alpha) and distance < best[0]:
            best = (distance, alpha, x[i], m)
    return best


def metrics(sigma, n, f2):
    p = len(sigma)
    lam = sigma**2
    out = {}
    share = np.cumsum(lam) / f2
    share[-1] = 1.0
    out["var_at_k"] = [share[min(k, p) - 1] for k in (1, 2, 4, 8, 16, 32, 64, 128, 256)]
    out["var_at_64_top128"] = lam[:64].sum() / lam[:128].sum()
    out["nuclear_norm"] = sigma.sum()
    out["sigma_ratio_1_2"] = sigma[0] / sigma[1]
    out["condition_number"] = sigma[0] / sigma[-1]
    out["stable_rank"] = f2 / lam[0]
    out["participation_ratio"] = f2**2 / np.sum(lam**2)
    q = lam / f2
    entropy = -np.sum(q * np.log(q))
    out["effective_rank"] = np.exp(entropy)
    r = sigma / sigma.sum()
    out["effective_rank_sigma"] = np.exp(-np.sum(r * np.log(r)))
    out["spectral_entropy"] = entropy / np.log(p)
    for percent in (90, 95, 99):
        out[f"rank_{percent}"] = int(np.argmax(share >= percent / 100)) + 1
    out["numerical_rank"] = int(np.sum(sigma > n * EPS32 * sigma[0]))
    k = p // 2
    out["hill_alpha"] = 1 + k / np.sum(np.log(lam[:k] / lam[k]))
    distance, alpha, xmin, tail = power_law(lam)
    out.update(pl_alpha=alpha, pl_xmin=xmin, pl_ks=distance, pl_tail=tail)
    g = p / n
    scale2 = np.median(lam) / (n * mp_median(g))
    out["mp_scale"] = np.sqrt(scale2)
    ln, sp = np.sqrt(n - 1), np.sqrt(p)
    out["mp_outliers"] = int(np.sum(
        lam > scale2 * ((ln + sp) ** 2 + 2.0234 * (ln + sp) * (1 / ln + 1 / sp) ** (1 / 3))))
    out["mp_lower_outliers"] = int(np.sum(
        lam < scale2 * ((ln - sp) ** 2 - 2.0234 * (ln - sp) * abs(1 / ln - 1 / sp) ** (1 / 3)))) \
        if p <= 0.95 * n else 0
    x = np.sort(lam) / (scale2 * n)
    law = np.array([mp_cumulative(g, v) for v in x])
    steps = np.arange(p + 1) / p
    out["mp_ks"] = max(np.max(steps[1:] - law), np.max(law - steps[:-1]))
    out["trace_log"] = np.mean(np.log(lam * p / f2))
    out["gini"] = np.abs(lam[:, None] - lam[None, :]).mean() / (2 * lam.mean())
    return out


def main():
    # 150 x 400: a decaying head on a bulk that reaches both edges of the noise law
    i = np.arange(150)
    sigma = 1 + 9 * np.exp(-i / 3.0) + 2 * (1 - (i / 149.0) ** 0.7)
    f2 = np.sum(sigma**2) * (1 + 1e-9)
    for name, value in metrics(sigma, 400, f2).items():
        if name == "var_at_k":
            print(name, [float(repr(float(v))) for v in value])
        else:
            print(name, repr(value if isinstance(value, int) else float(value)))
    # 1000 x 2500: values so dense that both outlier counts tell a threshold to 0.1 %
    sigma = 3 - 2.9 * np.arange(1000) / 999
    dense = metrics(sigma, 2500, np.sum(sigma**2))
    print({name: dense[name] for name in dense if name.startswith("mp_")})
    for g in (1e-4, 2 / 7, 0.875, 1.0):
        a, b, _ = mp_density(g)
        xs = [a + (b - a) * f for f in (0.01, 0.3, 0.9)]
        print("cumulative", g, [(float(x), float(mp_cumulative(g, x))) for x in xs],
              float(mp_median(g)))


if __name__ == "__main__":
    main()
