"""scikit-learn, with ``array_api_dispatch``: metrics, preprocessing, and estimators that follow their input's namespace."""

from __future__ import annotations

import numpy as np
import sklearn
from array_api_compat import array_namespace
from calls import A_P, LONG, LONG_P, MORE_POINTS, POINTS, Section, parts, sample
from sklearn import (
    decomposition,
    discriminant_analysis,
    kernel_approximation,
    linear_model,
    metrics,
    mixture,
    naive_bayes,
    preprocessing,
)

sklearn.set_config(array_api_dispatch=True)

ROWS = sample(12, 3, seed=70)
TARGET = sample(12, seed=71)
CLASSES = np.asarray([0, 1, 2, 1, 0, 2, 0, 1, 2, 2, 1, 0])
TWO = np.asarray([0, 1, 0, 1, 0, 1, 0, 1, 1, 0, 1, 0])
SCORES = sample(12, seed=72, low=0.05, high=0.95)
SHARES = sample(12, 3, seed=73, low=0.1, high=1.0)
MATRIX_TRUE, MATRIX_SEEN = sample(6, 2, seed=74, low=0.3, high=2.0), sample(6, 2, seed=75, low=0.4, high=2.3)


def labels(array, like):
    """Give class labels in the namespace of an operand, which they do not differentiate."""
    return array_namespace(like).asarray(array)


call = Section("sklearn.metrics", metrics)
REGRESSION = [
    *call.each(
        "mean_squared_error mean_absolute_error root_mean_squared_error mean_squared_log_error r2_score"
        " root_mean_squared_log_error mean_absolute_percentage_error median_absolute_error mean_pinball_loss"
        " explained_variance_score",
        MATRIX_TRUE,
        MATRIX_SEEN,
        by=lambda metric: lambda y, p: metric(y, p, multioutput="raw_values"),
        called="{}(raw_values)",
    ),
    *call.each(
        "mean_squared_error mean_absolute_error r2_score max_error mean_tweedie_deviance mean_gamma_deviance"
        " mean_poisson_deviance d2_absolute_error_score d2_tweedie_score",
        MATRIX_TRUE[:, 0],
        MATRIX_SEEN[:, 0],
    ),
    call(
        "mean_squared_error(sample_weight)",
        lambda y, p, w: metrics.mean_squared_error(y, p, sample_weight=w, multioutput="raw_values"),
        MATRIX_TRUE,
        MATRIX_SEEN,
        LONG_P[:6],
    ),
    call("log_loss", lambda p: metrics.log_loss(labels(TWO, p), p), SCORES),
    call("brier_score_loss", lambda p: metrics.brier_score_loss(labels(TWO, p), p), SCORES),
    call("roc_auc_score", lambda p: metrics.roc_auc_score(labels(TWO, p), p), SCORES, constant=True),
    call(
        "average_precision_score", lambda p: metrics.average_precision_score(labels(TWO, p), p), SCORES, constant=True
    ),
    call("roc_curve", lambda p: metrics.roc_curve(labels(TWO, p), p)[:2], SCORES, constant=True),
    call("roc_curve(thresholds)", lambda p: metrics.roc_curve(labels(TWO, p), p)[2][1:], SCORES),
    call(
        "precision_recall_curve", lambda p: metrics.precision_recall_curve(labels(TWO, p), p)[:2], SCORES, constant=True
    ),
    call("det_curve", lambda p: metrics.det_curve(labels(TWO, p), p)[:2], SCORES, constant=True),
    call("accuracy_score", lambda p: metrics.accuracy_score(labels(TWO, p), p > 0.5), SCORES, constant=True),
    call("zero_one_loss", lambda p: metrics.zero_one_loss(labels(TWO, p), p > 0.5), SCORES, constant=True),
    call("confusion_matrix", lambda p: metrics.confusion_matrix(labels(TWO, p) > 0, p > 0.5), SCORES, constant=True),
    call("f1_score", lambda p: metrics.f1_score(labels(TWO, p) > 0, p > 0.5), SCORES, constant=True),
    call("ndcg_score", lambda y, p: metrics.ndcg_score(y, p), SHARES, SHARES[::-1].copy()),
    call("hinge_loss", lambda p: metrics.hinge_loss(labels(TWO, p), p), SCORES),
    call("silhouette_score", lambda x: metrics.silhouette_score(x, labels(CLASSES, x)), ROWS),
    call("davies_bouldin_score", lambda x: metrics.davies_bouldin_score(x, labels(CLASSES, x)), ROWS),
    call("calinski_harabasz_score", lambda x: metrics.calinski_harabasz_score(x, labels(CLASSES, x)), ROWS),
]

call = Section("sklearn.metrics.pairwise", metrics.pairwise)
PAIRWISE = [
    *call.each(
        "cosine_similarity cosine_distances euclidean_distances linear_kernel polynomial_kernel rbf_kernel"
        " sigmoid_kernel manhattan_distances laplacian_kernel",
        POINTS,
        MORE_POINTS,
    ),
    *call.each("chi2_kernel additive_chi2_kernel", A_P, A_P[::-1].copy()),
    *call.each(
        "paired_cosine_distances paired_euclidean_distances paired_manhattan_distances", POINTS, MORE_POINTS[:4]
    ),
    call(
        "euclidean_distances(squared)",
        lambda x, y: metrics.pairwise.euclidean_distances(x, y, squared=True),
        POINTS,
        MORE_POINTS,
    ),
    call(
        "pairwise_distances(cosine)",
        lambda x, y: metrics.pairwise_distances(x, y, metric="cosine"),
        POINTS,
        MORE_POINTS,
    ),
    call("pairwise_distances(euclidean)", metrics.pairwise_distances, POINTS, MORE_POINTS),
    call(
        "pairwise_kernels(rbf)",
        lambda x, y: metrics.pairwise.pairwise_kernels(x, y, metric="rbf", gamma=0.4),
        POINTS,
        MORE_POINTS,
    ),
    call("pairwise_distances_argmin", metrics.pairwise_distances_argmin, POINTS, MORE_POINTS, constant=True),
]

call = Section("sklearn.preprocessing")
PREPROCESSING = [
    call("StandardScaler", lambda x: preprocessing.StandardScaler().fit_transform(x), ROWS),
    call(
        "StandardScaler.transform", lambda x, y: preprocessing.StandardScaler().fit(x).transform(y), POINTS, MORE_POINTS
    ),
    call(
        "StandardScaler.inverse_transform",
        lambda x, y: preprocessing.StandardScaler().fit(x).inverse_transform(y),
        POINTS,
        MORE_POINTS,
    ),
    call("MinMaxScaler", lambda x: preprocessing.MinMaxScaler().fit_transform(x), ROWS),
    call(
        "MinMaxScaler.inverse_transform",
        lambda x, y: preprocessing.MinMaxScaler().fit(x).inverse_transform(y),
        POINTS,
        MORE_POINTS,
    ),
    call("MaxAbsScaler", lambda x: preprocessing.MaxAbsScaler().fit_transform(x), ROWS),
    call("RobustScaler", lambda x: preprocessing.RobustScaler().fit_transform(x), ROWS),
    call("Normalizer(l2)", lambda x: preprocessing.Normalizer().transform(x), ROWS),
    call("Normalizer(l1)", lambda x: preprocessing.Normalizer(norm="l1").transform(x), ROWS),
    call("Normalizer(max)", lambda x: preprocessing.Normalizer(norm="max").transform(x), ROWS),
    call("normalize(axis=0)", lambda x: preprocessing.normalize(x, axis=0), ROWS),
    call("scale", preprocessing.scale, ROWS),
    call("minmax_scale", preprocessing.minmax_scale, ROWS),
    call("maxabs_scale", preprocessing.maxabs_scale, ROWS),
    call("PolynomialFeatures", lambda x: preprocessing.PolynomialFeatures(2).fit_transform(x), POINTS),
    call(
        "PolynomialFeatures(interaction_only)",
        lambda x: preprocessing.PolynomialFeatures(2, interaction_only=True).fit_transform(x),
        POINTS,
    ),
    call("KernelCenterer", lambda k: preprocessing.KernelCenterer().fit_transform(k), ROWS[:3]),
    call("Binarizer", lambda x: preprocessing.Binarizer().fit_transform(x), ROWS, constant=True),
    call("binarize", lambda x: preprocessing.binarize(x, threshold=0.3), ROWS, constant=True),
    call("label_binarize", lambda x: preprocessing.label_binarize(labels(CLASSES, x), classes=[0, 1, 2]) * x, ROWS),
    call("QuantileTransformer", lambda x: preprocessing.QuantileTransformer(n_quantiles=5).fit_transform(x), ROWS),
    call("PowerTransformer", lambda x: preprocessing.PowerTransformer().fit_transform(x), POINTS),
    call("SplineTransformer", lambda x: preprocessing.SplineTransformer(n_knots=3).fit_transform(x), POINTS),
]


def fitted(estimator, *attributes):
    """Give a function that fits an estimator and gives some of its attributes."""
    return lambda *data: parts(sklearn.clone(estimator).fit(*data), *attributes)


call = Section("sklearn")
ESTIMATORS = [
    call("Ridge(svd)", fitted(linear_model.Ridge(solver="svd"), "coef_", "intercept_"), ROWS, TARGET),
    call(
        "Ridge(svd).predict",
        lambda x, y, t: linear_model.Ridge(solver="svd").fit(x, y).predict(t),
        ROWS,
        TARGET,
        MORE_POINTS,
    ),
    call(
        "Ridge(svd, sample_weight)",
        lambda x, y, w: linear_model.Ridge(solver="svd").fit(x, y, sample_weight=w).coef_,
        ROWS,
        TARGET,
        LONG_P,
    ),
    call("Ridge(svd).score", lambda x, y: linear_model.Ridge(solver="svd").fit(x, y).score(x, y), ROWS, TARGET),
    call("RidgeCV", fitted(linear_model.RidgeCV(alphas=(0.5, 2.0), gcv_mode="eigen"), "coef_"), ROWS, TARGET),
    call("LinearRegression", fitted(linear_model.LinearRegression(), "coef_"), ROWS, TARGET),
    call(
        "LogisticRegression(lbfgs)",
        lambda x: linear_model.LogisticRegression(solver="lbfgs").fit(x, labels(TWO, x)).coef_,
        ROWS,
        tolerance=1e-3,
    ),
    call("PoissonRegressor", fitted(linear_model.PoissonRegressor(), "coef_"), ROWS, LONG_P, tolerance=1e-3),
    call("PCA(full)", lambda x: decomposition.PCA(2, svd_solver="full").fit(x).explained_variance_, ROWS),
    call("PCA(full).transform", lambda x: decomposition.PCA(2, svd_solver="full").fit_transform(x), ROWS),
    call(
        "PCA(covariance_eigh)",
        lambda x: decomposition.PCA(2, svd_solver="covariance_eigh").fit(x).singular_values_,
        ROWS,
    ),
    call(
        "PCA(whiten).transform",
        lambda x, t: decomposition.PCA(2, svd_solver="full", whiten=True).fit(x).transform(t),
        ROWS,
        MORE_POINTS,
    ),
    call(
        "PCA.inverse_transform",
        lambda x, t: decomposition.PCA(3, svd_solver="full").fit(x).inverse_transform(t),
        ROWS,
        MORE_POINTS,
    ),
    call("PCA.get_covariance", lambda x: decomposition.PCA(2, svd_solver="full").fit(x).get_covariance(), ROWS),
    call("PCA.score_samples", lambda x: decomposition.PCA(2, svd_solver="full").fit(x).score_samples(x), ROWS),
    call(
        "PCA(randomized)",
        lambda x: decomposition.PCA(2, svd_solver="randomized", random_state=0).fit(x).explained_variance_,
        ROWS,
        tolerance=1e-4,
    ),
    call(
        "LinearDiscriminantAnalysis",
        lambda x: discriminant_analysis.LinearDiscriminantAnalysis().fit(x, labels(CLASSES, x)).means_,
        ROWS,
    ),
    call(
        "LinearDiscriminantAnalysis.transform",
        lambda x: discriminant_analysis.LinearDiscriminantAnalysis().fit(x, labels(CLASSES, x)).transform(x),
        ROWS,
    ),
    call(
        "LinearDiscriminantAnalysis.predict_proba",
        lambda x: discriminant_analysis.LinearDiscriminantAnalysis().fit(x, labels(CLASSES, x)).predict_proba(x),
        ROWS,
    ),
    call(
        "LinearDiscriminantAnalysis.predict",
        lambda x: discriminant_analysis.LinearDiscriminantAnalysis().fit(x, labels(CLASSES, x)).predict(x),
        ROWS,
        constant=True,
    ),
    call(
        "GaussianNB",
        lambda x: parts(naive_bayes.GaussianNB().fit(x, labels(CLASSES, x)), "theta_", "var_"),
        ROWS,
    ),
    call(
        "GaussianNB.predict_log_proba",
        lambda x: naive_bayes.GaussianNB().fit(x, labels(CLASSES, x)).predict_log_proba(x),
        ROWS,
    ),
    call(
        "GaussianMixture",
        lambda x: mixture.GaussianMixture(2, init_params="random", max_iter=5, random_state=0).fit(x).means_,
        ROWS,
        tolerance=1e-4,
    ),
    call(
        "Nystroem",
        lambda x: kernel_approximation.Nystroem(gamma=0.3, n_components=3, random_state=0).fit_transform(x),
        ROWS,
    ),
    call("train_test_split", lambda x: sklearn.model_selection.train_test_split(x, random_state=0), ROWS),
    call("utils.extmath.softmax", lambda x: sklearn.utils.extmath.softmax(x), ROWS),
    call("utils.extmath.row_norms", lambda x: sklearn.utils.extmath.row_norms(x, squared=True), ROWS),
    call(
        "utils.extmath.randomized_svd",
        lambda x: sklearn.utils.extmath.randomized_svd(x, 2, random_state=0)[1],
        ROWS,
        tolerance=1e-5,
    ),
    call("utils.extmath.safe_sparse_dot", sklearn.utils.extmath.safe_sparse_dot, POINTS, MORE_POINTS.T.copy()),
    call("utils.extmath.stable_cumsum", sklearn.utils.extmath.stable_cumsum, LONG),
    call("utils.check_array", sklearn.utils.check_array, ROWS),
    call("utils.resample", lambda x: sklearn.utils.resample(x, random_state=0), ROWS),
]

CALLS = [*REGRESSION, *PAIRWISE, *PREPROCESSING, *ESTIMATORS]
