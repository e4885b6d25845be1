from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.special import softmax

from dilutron import EPOptions, RobustProbit, SpikeSlab, Status, ThetaMixture, path, solve, wishes
from dilutron.averages import Fit, Share
from dilutron.estimators import EPClassifier
from dilutron.fitting import fitted
from dilutron.gaussian import Sites
from dilutron.path import (
    CHOICES,
    FAINT,
    RATIO,
    REACH,
    TRUST,
    _ahead,
    _between,
    _onward,
    _rescaled,
    log_prior,
    path_densities,
    sparser,
    typical,
)
from dilutron.wishes import SIGNAL, Table, Watch, Wish, log_odds, relative_odds, solved_at, wish_of, with_odds
from tests.problems import teacher_problem


def table(n=30, alpha=3.0, seed=0):
    truth = teacher_problem(n, alpha, seed=seed, eta=0.95)[1]
    return Table(truth.X, truth.labels, np.ones(len(truth.labels)), None)


WISH = Wish("ep", learn=("eta",), beta=1.0)


class Heard(Watch):
    """Keeps what it hears, and asks to stop after so many posteriors."""

    def __init__(self, enough=1000):
        self.words, self.enough = [], enough

    def say(self, words):
        self.words.append(words)
        self.stopped = len(self.words) >= self.enough


@pytest.mark.parametrize("n_features", [1, 2, 3, 30, 2000])
def test_the_path_goes_from_half_to_one_feature(n_features):
    sizes = path_densities(200.0, n_features) * n_features
    assert sizes[0] == pytest.approx(n_features / 2)
    assert np.all(sizes[1:] >= 0.999)
    assert np.all(np.diff(sizes) < 0)
    assert len(sizes) <= 1 + 3 * np.log10(max(n_features, 2))


def test_few_rows_begin_no_path_at_ten_thousand_features():
    sizes = path_densities(60.0, 20_000) * 20_000
    assert sizes[0] == pytest.approx(320) == REACH * typical(60.0, 20_000)
    assert log_prior(sizes[0], 60.0, 20_000) < -7.0, "nothing but the data can speak for it"


def test_many_rows_end_no_path_at_one_feature():
    sizes = path_densities(3000.0, 20_000) * 20_000
    assert sizes[-1] >= 1000.0 / 16.0 > sizes[-1] / RATIO


def test_a_start_goes_on_as_the_last_two_sizes_did():
    wide, found = table(n=100, alpha=0.4), []
    problem, _ = wide.problem(WISH)
    for density in (0.1, 0.03, 0.01):
        found.append(solved_at(problem, wide.copies, WISH, density, None, watch=Watch()))
    ahead, between = _ahead(*found[:2]), _between(found[0], found[2])
    one, two, three, on, middle = (np.abs(p.sites.precision[:100]) for p in (*found, ahead, between))
    apart = np.median(np.abs(np.log(three / two)))
    assert np.median(np.abs(np.log(three / on))) < 0.5 * apart
    assert np.median(np.abs(np.log(two / middle))) < 0.5 * apart
    np.testing.assert_array_equal(ahead.sites.precision[101:], found[1].sites.precision[101:])
    assert np.all((middle > np.minimum(one, three)) & (middle < np.maximum(one, three)))


@pytest.mark.parametrize("criterion", CHOICES)
def test_weights_follow_the_scores(criterion):
    fit = fitted(table(), replace(WISH, criterion=criterion, random_state=0))
    good = [row for row in fit.path if row.status is Status.CONVERGED]
    width = np.gradient(-np.log([row.size for row in good]))  # the average is over the log of the size
    trust = 1.0 if criterion == "evidence" else TRUST
    wanted = softmax([trust * row.score + row.log_prior for row in good] + np.log(width))
    wanted[wanted < FAINT] = 0.0
    np.testing.assert_allclose([row.weight for row in good], wanted / wanted.sum())
    assert sum(share.weight for share in fit.shares) == pytest.approx(1.0)
    assert len(fit.shares) > 1
    assert fit.best is fit.shares[int(np.argmax([share.weight for share in fit.shares]))].posterior


def test_where_the_data_are_sure_of_the_size_sizes_between_are_tried():
    sure = fitted(table(n=60, alpha=10.0), replace(WISH, beta=100.0))
    sizes = np.array([row.size for row in sure.path])
    assert np.all(np.diff(sizes) < 0)
    assert sizes.size > path_densities(600.0, 60).size
    top = int(np.argmax([TRUST * row.score + row.log_prior for row in sure.path]))
    assert min(sizes[top - 1] / sizes[top], sizes[top] / sizes[top + 1]) < 2.0
    assert sizes[top] == pytest.approx(15, rel=0.5)  # rho = 0.25
    unsure = fitted(table(alpha=0.5), replace(WISH, beta=0.1))
    assert len(unsure.path) == path_densities(15.0, 30).size


def test_no_sizes_beside_the_best_where_each_one_is_dear(monkeypatch):
    assert [wishes.dear(*shape) for shape in ((60, 2000), (1000, 23_000), (1_000_000, 100))] == [False, True, False]
    monkeypatch.setattr(path, "dear", lambda *shape: True)
    sure = fitted(table(n=60, alpha=10.0), replace(WISH, beta=100.0))
    assert len(sure.path) <= path_densities(600.0, 60).size


def test_the_densest_size_is_left_out_where_each_one_is_dearest(monkeypatch):
    shapes = (60, 2000), (102, 12_600), (1000, 23_000), (1_000_000, 100)
    assert [wishes.dearest(*shape) for shape in shapes] == [False, False, True, False]
    monkeypatch.setattr(path, "dearest", lambda *shape: True)
    monkeypatch.setattr(path, "sparser", lambda *shape: path_densities(*shape)[1:])
    fit = fitted(table(alpha=0.5), replace(WISH, beta=0.1))
    np.testing.assert_allclose([row.size for row in fit.path], path_densities(15.0, 30)[1:] * 30)


def test_the_densest_size_stays_where_the_next_is_no_longer_dense():
    assert sparser(1000.0, 23_000).size == path_densities(1000.0, 23_000).size - 1
    for n_rows, n_features in ((740, 760), (900, 1000), (1000, 1500), (1000, 4000), (1, 2), (1, 1_000_000)):
        kept, all_sizes = sparser(float(n_rows), n_features), path_densities(float(n_rows), n_features)
        assert kept[0] == all_sizes[0] or kept[0] * n_features >= 4.0 * typical(n_rows, n_features)
    assert sparser(740.0, 780)[0] == 0.5, "half of all features, which so many rows can tell of"


def test_few_rows_are_not_believed_to_tell_of_many_features():
    assert log_prior(20, 60, 2000) == 0.0  # a third of the rows
    assert log_prior(15, 600, 120) == 0.0  # or an eighth of the features, if that is less
    assert [log_prior(size, 60, 60_000_000) for size in (40, 10)] == pytest.approx([-0.5, -np.log(2.0)], rel=1e-5)
    assert [log_prior(size, 600, 120) for size in (60, 3.75)] == pytest.approx([-0.5, -np.log(2.0)])
    assert log_prior(2, 60, 2000) > log_prior(200, 60, 2000) + 1.0  # few features are always thinkable
    twice = table()._replace(copies=np.full(90, 2.0))
    repeated = Table(np.tile(twice.X, (2, 1)), np.tile(twice.signs, 2), np.ones(180), None)
    rows = [[row.log_prior for row in fitted(one, WISH).path] for one in (twice, repeated)]
    np.testing.assert_allclose(*rows)


def signal(fit):
    """Variance of the fields before the data, over that of their noise, in each posterior of an average."""
    return [p.labels.beta * p.mean.size * p.weights.rho / p.weights.lam for _, p in fit.shares]


def test_labels_become_hard_only_where_that_is_proven():
    learn = replace(WISH, learn=("eta", "beta"))
    np.testing.assert_array_less(5.0 * SIGNAL, signal(fitted(table(n=40, alpha=8.0), learn)))
    assert fitted(table(n=40, alpha=8.0), replace(learn, beta=0.1, learn=("eta",))).best.labels.beta == 0.1
    assert signal(fitted(table(n=40, alpha=8.0), replace(learn, density=0.25)))[0] > 5.0 * SIGNAL
    soft = fitted(table(n=40, alpha=1.0), learn)
    assert len(soft.shares) > 1
    np.testing.assert_allclose(signal(soft), SIGNAL)  # whatever the expected size
    noisy = table(n=40, alpha=8.0)
    fields = noisy.X[:, :5].sum(axis=1) + 5.0 * np.random.default_rng(0).standard_normal(len(noisy.X))
    np.testing.assert_allclose(signal(fitted(noisy._replace(signs=np.where(fields > 0, 1.0, -1.0)), learn)), SIGNAL)


def test_harder_labels_are_tried_only_where_the_slope_of_the_evidence_promises_enough():
    """A trial costs as much as a size of the path."""
    learn = replace(WISH, learn=("eta", "beta"), density=0.25)

    def attempts(data):
        heard = Heard()
        fitted(data, learn, watch=heard)
        return len(heard.words) - 1

    noisy = table(n=40, alpha=8.0)
    fields = noisy.X[:, :5].sum(axis=1) + 5.0 * np.random.default_rng(0).standard_normal(len(noisy.X))
    assert attempts(noisy._replace(signs=np.where(fields > 0, 1.0, -1.0))) == 0
    assert attempts(table(n=40, alpha=8.0)) > 0


def test_a_learned_eta_starts_from_a_belief():
    """Without label noise, and few labels, one of twenty is still believed wrong."""
    few = table(alpha=0.5)
    assert 0.94 < fitted(few, replace(WISH, beta=0.1, density=0.25)).best.labels.eta < 0.98


@pytest.mark.parametrize("seed", [0, 6, 12])
def test_a_noisy_table_of_more_rows_than_columns_settles(seed):
    """Its sparse sizes hardly let EP rest; E-steps that began again and again used up all iterations."""
    truth = teacher_problem(40, 3.0, seed=seed, eta=0.7)[1]
    fit = fitted(Table(truth.X, truth.labels, np.ones(120), None), replace(WISH, learn=("eta", "beta"), beta=0.1))
    assert all(posterior.status is Status.CONVERGED for _, posterior in fit.shares)


@pytest.mark.parametrize("learn", [("eta",), ("eta", "beta")], ids=["em", "along"])
def test_what_has_not_settled_goes_on_to_learn(learn):
    few, wish = table(alpha=2.0), replace(WISH, learn=learn, density=0.25, max_iter=14)
    problem = few.problem(wish)[0]
    cut = solved_at(problem, few.copies, wish, 0.25, None, watch=Watch())
    assert cut.status is Status.MAX_ITER
    further = wishes.rested(problem, replace(wish, max_iter=200), cut)
    assert further.status is Status.CONVERGED
    assert further.n_iter > cut.n_iter
    whole = solved_at(problem, few.copies, replace(wish, max_iter=200), 0.25, None, watch=Watch())
    assert further.labels.eta == pytest.approx(whole.labels.eta, abs=3e-3)
    scarce = solved_at(problem, few.copies, replace(wish, max_iter=3), 0.25, None, watch=Watch())
    short = wishes.rested(problem, wish, scarce)
    assert short.status is Status.MAX_ITER, "where that is not enough it says so"


def test_what_is_at_rest_is_not_given_up_for_a_run_that_is_not(monkeypatch):
    few, wish = table(alpha=2.0), replace(WISH, learn=("eta",), density=0.25)
    problem = few.problem(wish)[0]
    good = replace(solved_at(problem, few.copies, wish, 0.25, None, watch=Watch()), status=Status.MAX_ITER)
    lost = replace(good, status=Status.DIVERGED, mismatch=np.inf, mean=0.0 * good.mean)
    monkeypatch.setattr(wishes, "_run", lambda *a, **k: lost)
    kept = wishes.rested(problem, wish, good)
    assert kept.status is Status.MAX_ITER
    assert kept.mismatch == good.mismatch
    assert kept.n_iter == 2 * good.n_iter, "what was tried is told"


def test_where_nothing_is_learned_a_run_that_goes_on_and_rests_has_converged():
    few, wish = table(alpha=2.0), replace(WISH, learn=(), density=0.25)
    problem = few.problem(wish)[0]
    cut = solved_at(problem, few.copies, replace(wish, max_iter=6), 0.25, None, watch=Watch())
    assert cut.status is Status.MAX_ITER
    assert wishes.rested(problem, wish, cut).status is Status.CONVERGED


def weak_features(n_rows, seed):
    """Two classes that differ a little in each of 100 of 400 columns."""
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], n_rows)
    X = rng.standard_normal((n_rows, 400)) + 0.5 * signs[:, None] * (np.arange(400) < 100)
    return Table(X, signs, np.ones(n_rows), None)


def test_left_out_labels_make_predictions_as_bold_as_they_may_be():
    learn = replace(WISH, learn=("eta", "beta"), beta=0.1)
    fit, new = fitted(weak_features(50, 0), learn), weak_features(1000, 1)
    assert fit.sharpness > 1.5

    def cost(of):
        p = of.probability(new.X)
        return -np.mean(np.log(np.where(new.signs > 0, p, 1.0 - p)))

    assert cost(fit) < cost(replace(fit, sharpness=1.0)) - 0.1
    alone = fitted(weak_features(50, 0), replace(learn, average=False))
    order = [np.argsort(one.probability(new.X)) for one in (alone, replace(alone, sharpness=1.0))]
    np.testing.assert_array_equal(*order)


def test_labels_are_judged_as_boldly_as_predictions_are_made():
    """Soft labels take part of what is wrong for noise; those left out say how much of it is."""
    claimed = found = bold = shyness = 0.0
    for seed in range(4):
        truth = teacher_problem(40, 6.0, seed=seed, eta=0.95)[1]
        data = Table(truth.X, truth.labels, np.ones(len(truth.labels)), None)
        fit = fitted(data, replace(WISH, learn=("eta", "beta"), beta=0.1))
        shy = replace(fit, sharpness=1.0)
        doubted = (shy.flip > 0.1) & (shy.flip < 0.9)
        bold, shyness = bold + np.abs(fit.flip - truth.flipped).sum(), shyness + np.abs(shy.flip - truth.flipped).sum()
        claimed, found = claimed + fit.flip[doubted].sum(), found + truth.flipped[doubted].sum()
        assert shy.flip[doubted].sum() < truth.flipped[doubted].sum()
        alone = Fit((Share(1.0, fit.best),), sharpness=fit.sharpness)
        np.testing.assert_array_equal(np.argsort(alone.flip), np.argsort(fit.best.flip))
        near = Fit((Share(1.0, fit.best),), sharpness=1.0 + 1e-9)  # not taken for 1
        np.testing.assert_allclose(near.flip, fit.best.flip, rtol=1e-6, atol=1e-9)
    assert claimed == pytest.approx(found, rel=0.25)
    assert bold < shyness


def test_labels_that_are_right_for_sure_stay_so_however_bold():
    fit = fitted(table(), replace(WISH, learn=("beta",), beta=0.1, eta=1.0))
    np.testing.assert_array_equal(replace(fit, sharpness=20.0).flip, 0.0)


def test_where_the_noise_is_known_predictions_are_as_the_posterior_says():
    assert fitted(weak_features(50, 0), replace(WISH, beta=0.1)).sharpness == 1.0


def test_the_typical_size_is_not_that_of_a_dense_posterior_of_little_weight():
    fit = fitted(table(), WISH)
    sizes = [posterior.inclusion.sum() for _, posterior in fit.shares]
    assert fit.size == pytest.approx(np.exp(np.dot([w for w, _ in fit.shares], np.log(sizes))))
    assert fit.size < fit.inclusion.sum()


@pytest.mark.parametrize("criterion", CHOICES)
def test_the_best_alone(criterion):
    fit = fitted(table(), replace(WISH, criterion=criterion, average=False, random_state=0))
    assert len(fit.shares) == 1
    trust = 1.0 if criterion == "evidence" else TRUST
    best = max(
        (row for row in fit.path if row.status is Status.CONVERGED), key=lambda row: trust * row.score + row.log_prior
    )
    assert best.weight == 1.0
    assert fit.best.weights.rho * 30 == pytest.approx(best.size)


def test_scores_are_what_they_say():
    t = table()
    by = {name: fitted(t, replace(WISH, criterion=name, random_state=0)) for name in CHOICES}
    for row, share in zip(by["loo"].path, by["loo"].shares, strict=False):
        assert row.score == pytest.approx(share.posterior.left_out.sum())
    assert all(row.score == row.log_evidence for row in by["evidence"].path)
    assert by["cv"].path[0].score == pytest.approx(by["loo"].path[0].score, abs=6.0)  # two views of unseen labels
    again = fitted(t, replace(WISH, criterion="cv", random_state=0))
    assert again.path == by["cv"].path
    assert fitted(t, replace(WISH, criterion="cv", random_state=1)).path != by["cv"].path


def test_held_out_labels_are_not_seen():
    """Of labels at random no size may claim to know more than chance."""
    rng = np.random.default_rng(0)
    t = Table(rng.standard_normal((60, 20)), rng.choice([-1.0, 1.0], 60), np.ones(60), None)
    fit = fitted(t, replace(WISH, criterion="cv", random_state=0))
    assert all(row.score < 60 * np.log(0.5) + 1.0 for row in fit.path)


@pytest.mark.parametrize("signs", [[1, -1], [1, -1, -1], [1, 1, -1, -1]])
def test_cross_validation_of_hardly_any_rows(signs):
    rng = np.random.default_rng(0)
    t = Table(rng.standard_normal((len(signs), 3)), np.array(signs, float), np.ones(len(signs)), None)
    for method in ("ep", "vamp", "amp"):
        wish = replace(WISH, method=method, criterion="cv", intercept=method == "ep", random_state=0)
        assert np.all(np.isfinite(fitted(t, wish).mean))


def test_an_average_has_the_spread_between_its_parts():
    problem, _ = teacher_problem(20, 2.0, eta=0.9)
    a, b = (solve(problem, SpikeSlab(rho), ThetaMixture(0.9)) for rho in (0.05, 0.6))
    fit = Fit((Share(0.25, a), Share(0.75, b)))
    np.testing.assert_allclose(fit.mean, 0.25 * a.mean + 0.75 * b.mean)
    within = 0.25 * a.std**2 + 0.75 * b.std**2
    np.testing.assert_allclose(fit.std**2, within + 0.25 * 0.75 * (a.mean - b.mean) ** 2)
    np.testing.assert_allclose(fit.inclusion, 0.25 * a.inclusion + 0.75 * b.inclusion)
    assert fit.log_evidence == pytest.approx(0.25 * a.log_evidence + 0.75 * b.log_evidence)
    assert fit.best is b


def test_harder_labels_in_other_units_have_the_same_fixed_point():
    """Labels see fields over noise: with both in other units only the slab's width tells that they are."""
    problem, _ = teacher_problem(20, 4.0, eta=0.9)
    one, other = (
        solve(problem, SpikeSlab(0.3, factor), RobustProbit(0.9, 0.5 * factor), options=EPOptions(tol=1e-9))
        for factor in (1.0, 7.0)
    )
    for mine, theirs in zip(_rescaled(one, 7.0).sites, other.sites, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-7)


def test_a_size_begins_where_the_rows_put_it_if_they_are_many_and_else_where_the_last_two_lead():
    wide, tall = (
        [solve(problem, SpikeSlab(rho), RobustProbit(0.9, 0.5)) for rho in (0.3, 0.1)]
        for problem in (teacher_problem(30, 0.5, eta=0.9)[0], teacher_problem(10, 8.0, eta=0.9)[0])
    )
    learned, given = Wish("ep", learn=("eta", "beta")), Wish("ep", learn=("eta",))
    uneven = np.linspace(0.01, 0.09, 10)  # a mean of 0.05, half of that of the last
    for begun, density, wish, expected in (
        (tall, 0.05, learned, _rescaled(tall[1], 2.0)),
        (tall, uneven, learned, _rescaled(tall[1], 2.0)),
        (tall, 0.05, given, _ahead(*tall)),
        (wide, 0.05, learned, _ahead(*wide)),
        (wide[:1], 0.05, learned, wide[0]),
    ):
        for mine, theirs in zip(_onward(begun, density, wish).sites, expected.sites, strict=True):
            np.testing.assert_allclose(mine, theirs)


def test_rows_in_plenty_settle_sooner_at_the_next_size():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 20))
    right = np.where(rng.random(3000) < 0.95, 1.0, -1.0)
    y = right * np.where(X[:, :3].sum(axis=1) + 0.3 * rng.standard_normal(3000) > 0.0, 1.0, -1.0)
    wish = Wish("ep", learn=("eta", "beta"), tol=1e-6)
    problem, _ = Table(X, y, np.ones(3000), None).problem(wish)
    solve_at = partial(solved_at, problem, np.ones(3000), wish, watch=Watch())
    first = solve_at(0.5, None)
    plain, onward = (solve_at(0.5 / RATIO, None, start) for start in (first, _onward([first], 0.5 / RATIO, wish)))
    assert onward.n_iter < 0.8 * plain.n_iter
    assert onward.log_evidence == pytest.approx(plain.log_evidence, abs=1e-2)


@pytest.mark.parametrize(
    ("beta", "rho", "tail"),
    [
        (1.0, 0.3, lambda p: 1.6448536),
        (np.inf, 0.3, lambda p: stats.t(df=0.5 * p.inclusion.sum()).ppf(0.95)),
        (np.inf, 0.05, lambda p: stats.t(df=4.0).ppf(0.95)),
    ],
)
def test_an_interval_is_that_of_the_slab(beta, rho, tail):
    """Of one posterior: given that the weight is present, it has the slab's moments; of hard labels, longer tails."""
    problem, _ = teacher_problem(40, 2.0, eta=0.9)
    p = solve(problem, SpikeSlab(rho), RobustProbit(0.9, beta))
    low, high = Fit((Share(1.0, p),)).interval(0.9)
    np.testing.assert_allclose((low + high) / 2, p.mean / p.inclusion)
    mixture = p.inclusion * (((high - low) / 2 / tail(p)) ** 2 + (p.mean / p.inclusion) ** 2) - p.mean**2
    np.testing.assert_allclose(mixture, p.std**2, rtol=1e-5)


@pytest.mark.parametrize(("beta", "bell"), [(1.0, stats.norm()), (np.inf, stats.t(df=4.0))])
def test_an_interval_of_an_average_is_that_of_the_mixture(beta, bell):
    """Not of one bell with the mixture's moments, which is too wide where its parts differ in width."""
    problem, _ = teacher_problem(30, 1.0, eta=0.9)
    one, other = (solve(problem, SpikeSlab(rho, lam), RobustProbit(0.9, beta)) for rho, lam in ((0.1, 1.0), (0.3, 0.2)))
    fit = Fit((Share(0.3, one), Share(0.7, other)))
    below = np.zeros((2, 30))
    for weight, p in fit.shares:
        mean = p.mean / p.inclusion
        std = np.sqrt(p.std**2 / p.inclusion - (1.0 - p.inclusion) * mean**2)
        below += weight * p.inclusion * bell.cdf((np.array(fit.interval(0.9)) - mean) / std)
    present = fit.average(lambda p: p.inclusion)
    np.testing.assert_allclose(below, np.outer([0.05, 0.95], present), rtol=1e-6)


def test_an_interval_of_an_average_of_point_estimates_is_between_them():
    """Without inclusion probabilities and without spread: half of the weight lies at each of two points."""
    problem, _ = teacher_problem(20, 2.0, eta=0.9)
    p = replace(solve(problem, SpikeSlab(0.3), ThetaMixture(0.9), method="r1bcs"), std=np.zeros(20))
    fit = Fit((Share(0.5, p), Share(0.5, replace(p, mean=p.mean + 1.0))))
    low, high = fit.interval(0.9)
    np.testing.assert_allclose(low, p.mean, atol=1e-9)
    np.testing.assert_allclose(high, p.mean + 1.0, atol=1e-9)


def test_an_interval_of_a_method_without_inclusion_is_gaussian():
    problem, _ = teacher_problem(20, 2.0, eta=0.9)
    p = solve(problem, SpikeSlab(0.3), ThetaMixture(0.9), method="r1bcs")
    low, high = Fit((Share(1.0, p),)).interval(0.9)
    np.testing.assert_allclose((high - low) / 2, 1.6448536 * p.std)
    np.testing.assert_allclose((low + high) / 2, p.mean)


def test_ninety_percent_intervals_cover():
    rng, inside = np.random.default_rng(0), []
    for _ in range(40):  # the weights of one instance err together: many instances are needed
        w = rng.standard_normal(30) * (rng.random(30) < 0.3)
        X = rng.standard_normal((90, 30))
        y = np.where(X @ w + rng.standard_normal(90) > 0, 1.0, -1.0)
        wish = Wish("ep", 0.3, eta=1.0, beta=1.0, learn=(), standardize=False, intercept=False)
        low, high = fitted(Table(X, y, np.ones(90), None), wish).interval(0.9)
        inside += [(low[i] < w[i] < high[i]) for i in np.flatnonzero(w)]
    assert 0.88 < np.mean(inside) < 0.95


def test_rows_without_a_word_are_left_out_where_there_is_no_intercept():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 5)), rng.choice([-1.0, 1.0], 40)
    X[7] = 0.0
    wish = Wish("vamp", 0.3, standardize=False, intercept=False, learn=(), beta=1.0)
    fit = fitted(Table(X, y, np.ones(40), None), wish)
    rest = np.arange(40) != 7
    np.testing.assert_allclose(fit.mean, fitted(Table(X[rest], y[rest], np.ones(39), None), wish).mean)
    assert fit.flip.shape == (40,)
    assert fit.flip[7] == pytest.approx(0.05)
    with pytest.raises(ValueError, match="constant columns only"):
        fitted(Table(np.ones((4, 2)), np.array([1.0, -1, 1, -1]), np.ones(4), None), replace(wish, standardize=True))


def test_a_start_saves_work_and_changes_nothing():
    t = table()
    first = fitted(t, WISH)
    again = fitted(t, WISH, first)
    cost = [sum(share.posterior.n_iter for share in fit.shares) for fit in (first, again)]
    assert cost[1] < 0.8 * cost[0]
    np.testing.assert_allclose(again.mean, first.mean, atol=0.02)
    other = fitted(table(seed=1, alpha=2.0), WISH, first)  # of another shape: begin afresh
    np.testing.assert_array_equal(other.mean, fitted(table(seed=1, alpha=2.0), WISH).mean)


def test_odds():
    prior = np.array([0.1, 0.2, 0.5])
    odds = relative_odds(prior)
    assert np.prod(odds) == pytest.approx(1.0)
    np.testing.assert_allclose(odds / odds[0], (prior / (1 - prior)) / (0.1 / 0.9))
    np.testing.assert_allclose(with_odds(0.3, np.ones(3)), 0.3)
    assert np.all(np.isfinite(log_odds(np.array([0.0, 0.5, 1.0]))))
    assert log_odds(np.array([0.5]))[0] == 0.0


def descended(monkeypatch, *totals, closer=False, sites=True):
    """The sizes of a path as they were asked for, with where each began, and those of its answer.

    Of each its total is given, or None if it is lost.
    """
    left, asked = iter(totals), []

    def solve_at(density, same, start):
        asked.append((round(density, 4), None if start is None else round(start.density, 4)))
        return SimpleNamespace(sites=Sites(np.ones(2), np.zeros(2)) if sites else None, density=density)

    def point(density, posterior, score, wish):
        total = next(left)
        return path.Point(density, posterior, -60.0 if total is None else total, 0.0, total is not None, 1.0)

    monkeypatch.setattr(path, "_point", point)
    monkeypatch.setattr(path, "_ahead", lambda before, last: last)
    found = path._descent(np.array([0.4, 0.2, 0.1, 0.05]), WISH, solve_at, None, Watch(), closer=closer)
    return asked, [(round(one.density, 4), one.good) for one in found]


def test_the_path_ends_at_a_poor_size_or_where_two_in_a_row_are_lost(monkeypatch):
    def ends(*totals):
        return [size for size, _ in descended(monkeypatch, *totals)[0]]

    assert ends(-10.0, None, -8.0, -9.0) == [0.4, 0.2, 0.1, 0.05]
    assert ends(-10.0, None, -8.0, None) == [0.4, 0.2, 0.1, 0.05]
    assert ends(-10.0, None, None) == [0.4, 0.2, 0.1]
    assert ends(None, None) == [0.4, 0.2]
    assert ends(-10.0, -15.0) == [0.4, 0.2]
    assert ends(None, -10.0, None, -9.0) == [0.4, 0.2, 0.1, 0.05]


def test_a_lost_size_is_followed_by_one_half_as_far_away_and_there_the_path_ends(monkeypatch):
    closer = partial(descended, monkeypatch, closer=True)
    asked, found = closer(-10.0, -9.0, None, -8.0)
    assert asked[2:] == [(0.1, 0.2), (0.1414, 0.2)]
    assert found == [(0.4, True), (0.2, True), (0.1414, True), (0.1, False)]
    assert closer(-10.0, None, None)[1] == [(0.4, True), (0.2828, False), (0.2, False)]
    assert [size for size, _ in closer(None, -10.0, -9.0, -9.0)[0]] == [0.4, 0.2, 0.1, 0.05]
    assert [size for size, _ in closer(None, None)[0]] == [0.4, 0.2]


def test_a_method_without_sites_has_nothing_to_come_closer_from(monkeypatch):
    asked, _ = descended(monkeypatch, -10.0, None, -8.0, -9.0, closer=True, sites=False)
    assert asked == [(size, None) for size in (0.4, 0.2, 0.1, 0.05)]


def wide(seed):
    """Few rows of columns that share a factor: EP is lost at a sparse size of some."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((24, 80)) + 2.0 * rng.standard_normal((24, 1)) * rng.standard_normal(80)
    signs = np.where(X[:, :3].sum(axis=1) + 0.3 * rng.standard_normal(24) > 0.0, 1.0, -1.0)
    return Table(X, signs, np.ones(24), None)


def test_on_wide_tables_the_path_comes_closer_and_a_warm_start_follows_it():
    wish, between = wish_of("ep", EPClassifier(tol=1e-4).get_params(), 80), 0
    for seed in (16, 18, 23):
        table = wide(seed)
        cold = fitted(table, wish)
        sizes = [row.size for row in cold.path]
        between += sum(not np.any(np.isclose(size, 80 * path_densities(24.0, 80))) for size in sizes)
        again = fitted(table, wish, start=cold)
        np.testing.assert_allclose([row.size for row in again.path], sizes)
        np.testing.assert_allclose(again.probability(table.X), cold.probability(table.X), atol=1e-3)
    assert between > 0


def test_large_tables_get_fewer_iterations_a_size():
    assert wishes._allowed(60, 2000) == wishes.MOST
    assert wishes.FEWEST < wishes._allowed(100, 12_600) < wishes.MOST
    assert wishes._allowed(1000, 23_000) == wishes.FEWEST
    assert wishes._allowed(10_000, 100_000) == wishes.FEWEST
    assert wishes._plenty(512, 128) > wishes.MOST, "where iterations are cheap all that are asked for"
    assert wishes._plenty(2000, 1000) == wishes._plenty(10**6, 100) == wishes.PLENTY


def test_no_more_iterations_are_granted_than_are_asked_for_or_allowed():
    def granted(rows, columns, max_iter, learn=("eta", "beta"), copies=1.0, **options):
        problem, wish = SimpleNamespace(X=np.broadcast_to(0.0, (rows, columns))), replace(WISH, learn=learn)
        return wishes._affordable(replace(wish, max_iter=max_iter), problem, copies, **options).max_iter

    assert [granted(1000, 23_000, n) for n in (10, 200)] == [10, wishes.FEWEST]
    assert [granted(2000, 1000, n) for n in (10, 200)] == [10, wishes.PLENTY]
    assert granted(1000, 23_000, 200, trial=True) == wishes.FEWEST // wishes.TRIAL
    assert granted(2000, 1000, 200, trial=True) == wishes.PLENTY
    assert granted(90, 30, 1000) == 1000
    assert granted(500, 600, 200, copies=10.0) == wishes._plenty(500, 600), "rows that count often are many"
    assert granted(2000, 1000, 1000, learn=("eta",)) == 1000, "where sizes do not begin near their rest"


def test_a_hard_path_goes_on_from_its_own_sizes_alone(monkeypatch):
    """It begins at a posterior of another size, from which nothing is to be carried on."""
    onward, seen = path._onward, []

    def spy(begun, density, wish):
        seen.append([*(np.mean(one.weights.rho) for one in begun), density])
        return onward(begun, density, wish)

    monkeypatch.setattr(path, "_onward", spy)
    factors = []
    hardened = path.hardened
    monkeypatch.setattr(path, "hardened", lambda *a: (found := hardened(*a), factors.append(found[0]))[0])
    fitted(table(n=40, alpha=8.0), replace(WISH, learn=("eta", "beta")))
    assert factors[0] > 1.0
    assert seen
    assert all(sizes == sorted(sizes, reverse=True) for sizes in seen)
