"""SciPy's statistics."""

from __future__ import annotations

import numpy as np
from calls import A_P, LONG, LONG_P, OTHER, A, B, P, Q, Section, U, X, Y, parts, sample
from scipy import stats

call = Section("scipy.stats")

MORE = sample(25, seed=30, low=-1.0, high=3.0)
COUNTS = np.asarray([7.0, 12.0, 9.0, 14.0])
GROUPS = sample(6, seed=31), sample(6, seed=32, low=-1.5, high=2.5), sample(6, seed=33, low=-1.8, high=1.9)
SPHERE = sample(5, 3, seed=34)


def mean(x, axis=-1):
    return x.mean(axis=axis)


def difference(x, y, axis=-1):
    return x.mean(axis=axis) - y.mean(axis=axis)


CALLS = [
    # summaries
    call("gmean", stats.gmean, LONG_P),
    call("gmean(weights)", lambda x, w: stats.gmean(x, weights=w), P, Q),
    call("hmean", stats.hmean, LONG_P),
    call("hmean(axis)", lambda x: stats.hmean(x, axis=1), A_P),
    call("pmean", lambda x: stats.pmean(x, 3), LONG_P),
    call("pmean(weights)", lambda x, w: stats.pmean(x, 0.5, weights=w), P, Q),
    call("moment", lambda x: stats.moment(x, 3), LONG),
    call("moment(center)", lambda x: stats.moment(x, 2, center=0.3), LONG),
    call("skew", stats.skew, LONG),
    call("skew(bias=False)", lambda x: stats.skew(x, bias=False), LONG),
    call("kurtosis", stats.kurtosis, LONG),
    call("kurtosis(axis)", lambda x: stats.kurtosis(x, axis=1, bias=False), A),
    call("describe", lambda x: list(stats.describe(x))[1:], LONG),
    call("sem", stats.sem, LONG),
    call("zscore", stats.zscore, LONG),
    call("zscore(axis, ddof)", lambda x: stats.zscore(x, axis=1, ddof=1), A),
    call("gzscore", stats.gzscore, LONG_P),
    call("zmap", stats.zmap, X, LONG),
    call("gstd", stats.gstd, LONG_P),
    call("variation", stats.variation, LONG_P),
    call("variation(ddof)", lambda x: stats.variation(x, axis=1, ddof=1), A_P),
    call("tmean", lambda x: stats.tmean(x, (-1.5, 1.5)), LONG),
    call("tvar", lambda x: stats.tvar(x, (-1.5, 1.5)), LONG),
    call("tstd", lambda x: stats.tstd(x, (-1.5, 1.5)), LONG),
    call("tsem", lambda x: stats.tsem(x, (-1.5, 1.5)), LONG),
    call("tmin", lambda x: stats.tmin(x, -1.1), LONG),
    call("tmax", lambda x: stats.tmax(x, 1.1), LONG),
    call("trim_mean", lambda x: stats.trim_mean(x, 0.1), LONG),
    call("iqr", stats.iqr, LONG),
    call("quantile", stats.quantile, LONG, np.asarray([0.21, 0.68])),
    call("quantile(harrell-davis)", lambda x: stats.quantile(x, 0.4, method="harrell-davis"), LONG),
    call("median_abs_deviation", stats.median_abs_deviation, LONG),
    call("lmoment", stats.lmoment, LONG),
    call("lmoment(order)", lambda x: stats.lmoment(x, 3), LONG),
    call("kstat", lambda x: stats.kstat(x, 3), LONG),
    call("kstatvar", lambda x: stats.kstatvar(x, 2), LONG),
    call("sigmaclip", lambda x: stats.sigmaclip(x, 1.2, 1.2), LONG),
    call("mode", lambda x: stats.mode(x).mode, LONG),
    call("circmean", stats.circmean, P),
    call("circvar", stats.circvar, P),
    call("circstd", stats.circstd, P),
    call("directional_stats", lambda x: stats.directional_stats(x).mean_direction, SPHERE),
    call("entropy", stats.entropy, P),
    call("entropy(qk)", lambda p, q: stats.entropy(p, q, base=2), P, Q),
    call("differential_entropy", stats.differential_entropy, LONG),
    call("differential_entropy(ebrahimi)", lambda x: stats.differential_entropy(x, method="ebrahimi"), LONG),
    call("differential_entropy(correa)", lambda x: stats.differential_entropy(x, method="correa"), LONG),
    call("boxcox_llf", lambda x: stats.boxcox_llf(0.4, x), LONG_P),
    call("boxcox_llf(lmbda)", lambda lmbda, x: stats.boxcox_llf(lmbda, x), np.asarray(0.4), LONG_P),
    call("yeojohnson_llf", lambda x: stats.yeojohnson_llf(0.4, x), LONG),
    # ranks: the statistic depends on the order only
    call("rankdata", stats.rankdata, LONG, constant=True),
    call("rankdata(axis)", lambda x: stats.rankdata(x, axis=1, method="min"), A, constant=True),
    call("spearmanrho", lambda x, y: stats.spearmanrho(x, y).statistic, LONG, OTHER, constant=True),
    call("spearmanrho(p)", lambda x, y: stats.spearmanrho(x, y), LONG, OTHER, constant=True),
    call("chatterjeexi", lambda x, y: stats.chatterjeexi(x, y), LONG, OTHER, constant=True),
    call("mannwhitneyu", lambda x, y: stats.mannwhitneyu(x, y, method="asymptotic"), LONG, OTHER, constant=True),
    call("mannwhitneyu(exact)", lambda x, y: stats.mannwhitneyu(x, y, method="exact"), X, Y, constant=True),
    call("wilcoxon", lambda x: stats.wilcoxon(x, method="asymptotic"), LONG, constant=True),
    call("kruskal", stats.kruskal, *GROUPS, constant=True),
    call("friedmanchisquare", stats.friedmanchisquare, *GROUPS, constant=True),
    call("brunnermunzel", lambda x, y: stats.brunnermunzel(x, y, distribution="normal"), LONG, OTHER, constant=True),
    call("ansari", stats.ansari, X, Y, constant=True),
    call("mood", stats.mood, LONG, OTHER, constant=True),
    call(
        "cramervonmises_2samp",
        lambda x, y: parts(stats.cramervonmises_2samp(x, y), "statistic", "pvalue"),
        LONG,
        OTHER,
        constant=True,
    ),
    call("epps_singleton_2samp", stats.epps_singleton_2samp, LONG, OTHER),
    # tests, with their p-values
    call("ttest_1samp", lambda x: stats.ttest_1samp(x, 0.2), LONG),
    call("ttest_1samp(greater)", lambda x, m: stats.ttest_1samp(x, m, alternative="greater"), LONG, np.asarray(0.2)),
    call("ttest_ind", stats.ttest_ind, LONG, MORE),
    call("ttest_ind(Welch)", lambda x, y: stats.ttest_ind(x, y, equal_var=False), LONG, MORE),
    call("ttest_ind(trim)", lambda x, y: stats.ttest_ind(x, y, trim=0.1), LONG, MORE),
    call("ttest_rel", stats.ttest_rel, LONG, OTHER),
    call(
        "ttest_ind_from_stats",
        lambda m1, s1, m2, s2: stats.ttest_ind_from_stats(m1, s1, 10, m2, s2, 12),
        X,
        P,
        Y,
        Q,
    ),
    call("ttest_1samp.confidence_interval", lambda x: stats.ttest_1samp(x, 0.2).confidence_interval(0.9), LONG),
    call("pearsonr", stats.pearsonr, LONG, OTHER),
    call("pearsonr(axis)", lambda x, y: stats.pearsonr(x, y, axis=1).statistic, A, B),
    call("pearsonr.confidence_interval", lambda x, y: stats.pearsonr(x, y).confidence_interval(), LONG, OTHER),
    call("f_oneway", stats.f_oneway, *GROUPS),
    call("f_oneway(equal_var=False)", lambda *g: stats.f_oneway(*g, equal_var=False), *GROUPS),
    call("alexandergovern", lambda *g: parts(stats.alexandergovern(*g), "statistic", "pvalue"), *GROUPS),
    call("bartlett", stats.bartlett, *GROUPS),
    call("levene", stats.levene, *GROUPS),
    call("levene(mean)", lambda *g: stats.levene(*g, center="mean"), *GROUPS),
    call("levene(trimmed)", lambda *g: stats.levene(*g, center="trimmed", proportiontocut=0.1), *GROUPS),
    call("fligner", stats.fligner, X, Y, P, constant=True),
    call("jarque_bera", stats.jarque_bera, LONG),
    call("skewtest", lambda x: stats.skewtest(x * x * x), MORE),
    call("kurtosistest", stats.kurtosistest, MORE),
    call("normaltest", stats.normaltest, MORE),
    call("chisquare", stats.chisquare, COUNTS),
    call("chisquare(f_exp)", lambda f, e: stats.chisquare(f, e, sum_check=False), COUNTS, COUNTS * 1.2 + 0.5),
    call("power_divergence", lambda f: stats.power_divergence(f, lambda_="cressie-read"), COUNTS),
    call("power_divergence(log-likelihood)", lambda f: stats.power_divergence(f, lambda_="log-likelihood"), COUNTS),
    call("combine_pvalues(fisher)", stats.combine_pvalues, U),
    call("combine_pvalues(stouffer)", lambda p, w: stats.combine_pvalues(p, method="stouffer", weights=w), U, P),
    call("combine_pvalues(pearson)", lambda p: stats.combine_pvalues(p, method="pearson"), U),
    call("combine_pvalues(tippett)", lambda p: stats.combine_pvalues(p, method="tippett"), U),
    call("combine_pvalues(mudholkar_george)", lambda p: stats.combine_pvalues(p, method="mudholkar_george"), U),
    call("false_discovery_control", stats.false_discovery_control, U),
    call("false_discovery_control(by)", lambda p: stats.false_discovery_control(p / 20, method="by"), U),
    call("ks_1samp", lambda x: stats.ks_1samp(x, lambda t: t, method="asymp")[:2], U),
    call("cramervonmises", lambda x: parts(stats.cramervonmises(x, lambda t: t), "statistic", "pvalue"), U),
    # resampling, with seeded generators
    call(
        "bootstrap",
        lambda x: parts(
            stats.bootstrap((x,), mean, n_resamples=20, method="percentile", rng=np.random.default_rng(0)),
            "confidence_interval",
            "standard_error",
        ),
        LONG,
    ),
    call(
        "bootstrap(basic)",
        lambda x: (
            stats.bootstrap(
                (x,), mean, n_resamples=20, method="basic", rng=np.random.default_rng(0)
            ).confidence_interval
        ),
        LONG,
    ),
    call(
        "permutation_test",
        lambda x, y: stats.permutation_test((x, y), difference, n_resamples=30, rng=np.random.default_rng(0)).statistic,
        LONG,
        OTHER,
    ),
    call(
        "monte_carlo_test",
        lambda x: stats.monte_carlo_test(x, np.random.default_rng(0).normal, mean, n_resamples=30).statistic,
        LONG,
    ),
    # distributions with the newer interface and others
    call("Normal.pdf", lambda x: stats.Normal(mu=0.3, sigma=1.2).pdf(x), X),
    call("Normal.cdf", lambda x: stats.Normal(mu=0.3, sigma=1.2).cdf(x), X),
    call("norm.pdf", stats.norm.pdf, X),
    call("norm.cdf", lambda x: stats.norm.cdf(x, loc=0.2, scale=1.3), X),
    call("gaussian_kde", lambda x, t: stats.gaussian_kde(x)(t), LONG, X),
    call("multivariate_normal.logpdf", lambda x: stats.multivariate_normal.logpdf(x, mean=[0.0] * 4), A),
    call("linregress", lambda x, y: list(stats.linregress(x, y)), LONG, OTHER),
    call("mstats.gmean", stats.mstats.gmean, LONG_P),
    call("qmc.scale", lambda x: stats.qmc.scale(x, [0.0, 1.0], [2.0, 4.0]), sample(4, 2, seed=35, low=0.1, high=0.9)),
]
