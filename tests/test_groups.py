import numpy as np
import pytest

from dilutron.estimators import EPClassifier
from dilutron.fitting import fitted
from dilutron.groups import Cluster, clusters, joint_inclusion
from dilutron.wishes import Table, Wish

RHO, ETA, BETA = 0.08, 0.95, 4.0


def blocks(seed, *, n_rows=80, n_blocks=12, size=4, shared=0.95):
    """Features in blocks of near copies, a sparse teacher and fallible labels."""
    rng = np.random.default_rng(seed)
    n_features = n_blocks * size
    common = np.repeat(rng.standard_normal((n_rows, n_blocks)), size, axis=1)
    X = np.sqrt(shared) * common + np.sqrt(1.0 - shared) * rng.standard_normal((n_rows, n_features))
    weights = rng.standard_normal(n_features) * (rng.random(n_features) < RHO)
    field = X @ weights + rng.standard_normal(n_rows) / np.sqrt(BETA)
    return X, np.where(field > 0, 1.0, -1.0) * np.where(rng.random(n_rows) < ETA, 1.0, -1.0), weights


def test_groups_of_one_can_be_left_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    model = EPClassifier(rho=0.3).fit(X, X[:, 0] > 0.0)
    assert model.feature_groups(X, X[:, 0] > 0.0, min_size=2) == ()
    X[:, 4] = X[:, 0] + 0.1 * X[:, 4]
    (group,) = model.fit(X, X[:, 0] > 0.0).feature_groups(X, X[:, 0] > 0.0, min_size=2)
    assert set(group.members.tolist()) == {0, 4}


def test_clusters_gather_around_the_most_probable():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 200))
    X = np.column_stack([a, b, -a + 0.1 * rng.standard_normal(200), np.ones(200), b + 0.2 * rng.standard_normal(200)])
    found = clusters(X, np.ones(200), np.array([0.1, 0.3, 0.5, 0.01, 0.2]), 0.7, 10)
    assert [group.members.tolist() for group in found] == [[2, 0], [1, 4], [3]]
    assert found[0].correlation == pytest.approx(abs(np.corrcoef(X[:, 0], X[:, 2])[0, 1]))
    assert found[2].correlation == 1.0
    assert len(clusters(X, np.ones(200), np.array([0.1, 0.3, 0.5, 0.01, 0.2]), 0.7, 2)) == 2


def test_rows_count_in_the_correlations():
    rng = np.random.default_rng(1)
    X, copies = rng.standard_normal((9, 3)), rng.integers(1, 4, 9).astype(float)
    one = clusters(X, copies, np.array([0.9, 0.5, 0.1]), 1e-9, 1)[0]
    other = clusters(np.repeat(X, copies.astype(int), axis=0), np.ones(int(copies.sum())), np.ones(3), 1e-9, 1)[0]
    assert one.correlation == pytest.approx(other.correlation)


def test_a_group_of_one_has_the_probability_of_its_member():
    """Two ways to the same number: the tilted marginal, and the evidence without the column."""
    X, y, _ = blocks(3, shared=0.3)
    wish = Wish("ep", RHO, eta=ETA, beta=BETA, learn=(), tol=1e-6)
    table = Table(X, y, np.ones(len(y)), None)
    fit = fitted(table, wish)
    order = np.argsort(-fit.inclusion)[:15]
    joint = joint_inclusion(table, wish, fit, [Cluster(np.array([i]), 1.0) for i in order])
    np.testing.assert_allclose(joint, fit.inclusion[order], atol=0.02)


def test_a_group_of_all_features():
    """Nothing is left but the intercept."""
    X, y, _ = blocks(0, n_blocks=2)
    table, wish = Table(X, y, np.ones(len(y)), None), Wish("ep", 0.3, eta=ETA, beta=BETA, learn=())
    fit = fitted(table, wish)
    (whole,) = joint_inclusion(table, wish, fit, [Cluster(np.arange(8), 0.0)])
    assert fit.inclusion.max() <= whole <= 1.0


@pytest.fixture(scope="module")
def claims():
    """Of every group in some simulations with known parameters: what is claimed, by three rules, and the truth."""
    rows = []
    for seed in range(12):
        X, y, weights = blocks(seed)
        model = EPClassifier(RHO, eta=ETA, beta=BETA, standardize=False).fit(X, y)
        for group in model.feature_groups(X, y, correlation=0.6):
            alone = model.inclusion_proba_[group.members]
            rows.append((group.inclusion, 1.0 - np.prod(1.0 - alone), alone.max(), np.any(weights[group.members])))
    return np.array(rows).T


def log_loss(claimed, truth):
    return -np.mean(np.log(np.clip(np.where(truth > 0, claimed, 1.0 - claimed), 1e-6, None)))


def test_groups_hold_what_they_claim(claims):
    joint, _, _, truth = claims
    assert truth.size == 12 * 12
    error = np.sqrt(np.sum(joint * (1.0 - joint))) / truth.size
    assert abs(joint.mean() - truth.mean()) < 2.5 * error
    for low, high in ((0.0, 0.2), (0.2, 0.8), (0.8, 1.0)):
        inside = (joint >= low) & (joint <= high)
        p = joint[inside]
        assert inside.sum() >= 15
        assert abs(p.mean() - truth[inside].mean()) < 2.5 * np.sqrt(np.sum(p * (1.0 - p))) / p.size + 0.02


def test_single_probabilities_would_not_do(claims):
    joint, product, largest, truth = claims
    assert log_loss(joint, truth) < log_loss(product, truth) - 0.02
    assert log_loss(joint, truth) < log_loss(largest, truth) - 0.1
    sure = joint > 0.9
    assert truth[sure].mean() > 0.95  # where the group is sure, its members are not
    assert largest[sure].mean() < 0.6


def test_weights_are_rows_and_classes_are_joined():
    X, y, _ = blocks(5, n_rows=60, n_blocks=4)
    copies = np.random.default_rng(0).integers(0, 3, 60)
    rows = np.repeat(np.arange(60), copies)
    model = EPClassifier(0.1, eta=0.95, beta=4.0, tol=1e-6)
    counted = model.fit(X, y, copies).feature_groups(X, y, copies)
    repeated = model.fit(X[rows], y[rows]).feature_groups(X[rows], y[rows])
    assert [group.names for group in counted] == [group.names for group in repeated]
    np.testing.assert_allclose([g.inclusion for g in counted], [g.inclusion for g in repeated], atol=1e-4)
    three = np.where(X[:, 0] > 0.5, "c", np.where(y > 0, "b", "a"))
    model = EPClassifier(0.1, eta=0.95, beta=4.0).fit(X, three)
    groups = model.feature_groups(X, three, n_groups=3)
    assert all(0.0 < group.prior < 1.0 for group in groups)
    assert len(groups) == 3
    assert all(group.inclusion >= model.inclusion_proba_[:, group.members].max() - 1e-3 for group in groups)
    assert [g.inclusion for g in groups] == sorted((g.inclusion for g in groups), reverse=True)


def test_what_cannot_be_is_said():
    X, y, _ = blocks(5, n_rows=60, n_blocks=4)
    model = EPClassifier(0.1).fit(X, y)
    with pytest.raises(ValueError, match="correlation must be a number above 0"):
        model.feature_groups(X, y, correlation=1.5)
    with pytest.raises(ValueError, match="n_groups must be a whole number"):
        model.feature_groups(X, y, n_groups=0)
    with pytest.raises(ValueError, match="labels that were not in the fit"):
        model.feature_groups(X, np.where(y > 0, 2.0, -1.0))


def test_the_prior_of_a_group_grows_with_its_members():
    X, y = np.random.default_rng(0).standard_normal((40, 12)), np.arange(40) % 2
    model = EPClassifier(rho=0.1).fit(X, y)
    for group in model.feature_groups(X, y, correlation=0.2):
        assert group.prior == pytest.approx(1 - 0.9 ** len(group.members))
